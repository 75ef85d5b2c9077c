// SPDX-License-Identifier: MIT

//! `SDP_ASYNC`: whether memory is lent and bytes are received ahead in this process, and how a write to
//! lent memory ends.

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

/// How long a write waits before the program gets other pages.
const COPY_US: u32 = 200;
/// The same for programs for which waiting is better than a copy.
const BLOCK_US: u32 = 1_000_000;

static PATIENCE_US: AtomicU32 = AtomicU32::new(COPY_US);
static SENDS: AtomicBool = AtomicBool::new(false);
static RECEIVES: AtomicBool = AtomicBool::new(false);

/// The two ways in which a write to lent memory ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Soon, with a copy of the pages.
    Copy,
    /// When the peer has read, or after a second with a copy.
    Block,
}

/// The value of the variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Settings {
    /// Sends lend memory.
    pub(crate) send: Option<Way>,
    /// Bytes are received ahead.
    pub(crate) receive: bool,
}

/// The meaning of the variable's value, words with commas between; `None` for off.
pub(crate) fn parse(value: &[u8]) -> Option<Settings> {
    let mut settings = Settings::default();
    for word in value.split(|byte| *byte == b',') {
        match word {
            b"1" | b"copy" => settings.send = Some(Way::Copy),
            b"block" => settings.send = Some(Way::Block),
            b"receive" => settings.receive = true,
            _ => return None,
        }
    }
    Some(settings)
}

pub(crate) fn set(settings: Settings) {
    let us = match settings.send {
        Some(Way::Block) => BLOCK_US,
        Some(Way::Copy) | None => COPY_US,
    };
    PATIENCE_US.store(us, Ordering::Relaxed);
    SENDS.store(settings.send.is_some(), Ordering::Relaxed);
    RECEIVES.store(settings.receive, Ordering::Relaxed);
}

/// How long a write waits for the peer.
pub(crate) fn patience() -> Duration {
    Duration::from_micros(PATIENCE_US.load(Ordering::Relaxed).into())
}

pub(crate) fn sends() -> bool {
    SENDS.load(Ordering::Relaxed)
}

pub(crate) fn receives() -> bool {
    RECEIVES.load(Ordering::Relaxed)
}

/// The kernel cannot do it.
pub(crate) fn receive_no_more() {
    RECEIVES.store(false, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_direction_is_asked_for_by_itself() {
        let of = |send, receive| Some(Settings { send, receive });
        assert_eq!(parse(b"1"), of(Some(Way::Copy), false));
        assert_eq!(parse(b"copy"), of(Some(Way::Copy), false));
        assert_eq!(parse(b"block"), of(Some(Way::Block), false));
        assert_eq!(parse(b"receive"), of(None, true));
        assert_eq!(parse(b"block,receive"), of(Some(Way::Block), true));
        assert_eq!(parse(b"receive,copy"), of(Some(Way::Copy), true));
    }

    #[test]
    fn everything_else_is_off() {
        for other in [&b""[..], b"0", b"no", b"copy ", b"receive,", b"copy,no"] {
            assert_eq!(parse(other), None);
        }
    }
}
