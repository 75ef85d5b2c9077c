// SPDX-License-Identifier: GPL-2.0

//! Faults that the world found.

use std::{error::Error, fmt};

/// A description of a broken invariant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault(String);

impl Fault {
    pub(crate) fn new(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for Fault {}

/// A [`Fault`] with this text.
pub(crate) fn fault(text: &str) -> Fault {
    Fault::new(text.to_owned())
}

/// The value, unless an invariant is broken.
pub type Checked<T = ()> = Result<T, Fault>;

/// Returns a [`Fault`] unless the condition holds.
macro_rules! ensure {
    ($holds:expr, $($words:tt)+) => {
        if !$holds {
            return Err($crate::fault::Fault::new(format!($($words)+)));
        }
    };
}
pub(crate) use ensure;
