// SPDX-License-Identifier: GPL-2.0

//! From which length on not copying is worth its price.

/// The least value that a user may set, except 0, which switches zero copy off: a
/// page.
pub const LEAST: u32 = 4 << 10;

/// Which messages go without a copy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Threshold {
    /// None.
    Off,
    /// Messages of so many bytes and more.
    From(u32),
}

impl Threshold {
    /// The meaning of a number that a user has set.
    pub fn of(number: u32) -> Self {
        match number {
            0 => Self::Off,
            bytes => Self::From(bytes),
        }
    }

    /// The number that means this.
    pub fn number(self) -> i32 {
        match self {
            Self::Off => 0,
            Self::From(bytes) => i32::try_from(bytes).unwrap_or(i32::MAX),
        }
    }

    /// From how many bytes on one of `len` bytes goes without a copy; 0: it is copied.
    pub fn least_of(self, len: u64) -> u32 {
        match self {
            Self::From(least) if is_zcopy(len, least) => least,
            _ => 0,
        }
    }
}

/// Whether `len` bytes go without a copy.
pub fn is_zcopy(len: u64, threshold: u32) -> bool {
    threshold != 0 && len >= threshold.into()
}

#[cfg(test)]
mod tests;
