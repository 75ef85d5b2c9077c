// SPDX-License-Identifier: MIT

//! `SDP_ASYNC`: whether memory is lent in this process, and how a write to lent memory ends.

use core::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// How long a write waits before the program gets other pages.
const COPY_US: u32 = 200;
/// The same for programs for which waiting is better than a copy.
const BLOCK_US: u32 = 1_000_000;

static PATIENCE_US: AtomicU32 = AtomicU32::new(COPY_US);

/// The two ways in which a write to lent memory ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Soon, with a copy of the pages.
    Copy,
    /// When the peer has read, or after a second with a copy.
    Block,
}

/// The meaning of the variable's value; `None` for off.
pub(crate) fn parse(value: &[u8]) -> Option<Way> {
    match value {
        b"1" | b"copy" => Some(Way::Copy),
        b"block" => Some(Way::Block),
        _ => None,
    }
}

pub(crate) fn set(way: Way) {
    let us = match way {
        Way::Copy => COPY_US,
        Way::Block => BLOCK_US,
    };
    PATIENCE_US.store(us, Ordering::Relaxed);
}

/// How long a write waits for the peer.
pub(crate) fn patience() -> Duration {
    Duration::from_micros(PATIENCE_US.load(Ordering::Relaxed).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_else_is_off() {
        assert_eq!(parse(b"1"), Some(Way::Copy));
        assert_eq!(parse(b"copy"), Some(Way::Copy));
        assert_eq!(parse(b"block"), Some(Way::Block));
        for other in [&b""[..], b"0", b"no", b"copy "] {
            assert_eq!(parse(other), None);
        }
    }
}
