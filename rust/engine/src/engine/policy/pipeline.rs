// SPDX-License-Identifier: GPL-2.0

//! How many advertisements to have outstanding, and in which mode.

/// Advertisements that a new connection may have outstanding in Pipelined mode.
pub const WINDOW_INITIAL: u8 = 2;

/// The window after one advertisement was read to its end.
///
/// \[AZ06, 4.1\]: several outstanding SrcAvails let the transfers of one
/// connection overlap, which one at a time does not (\[Z05, 2.2\]: the handshake
/// leaves the wire idle). It grows by one for each that was of use, as gen2 did.
pub const fn grown(window: u8, most: u8) -> u8 {
    if window < most {
        window.saturating_add(1)
    } else {
        most
    }
}

/// The window after the peer has asked for Data, or an advertisement was taken
/// back: its reader was not there.
pub const fn shrunk() -> u8 {
    1
}

/// Whether to ask for Pipelined mode: there are several runs to offer, or the
/// peer would like to offer buffers. \[Z05, 2.4\]: "if the data source has
/// multiple SrcAvail to advertise, it will typically request transition to the
/// Pipelined mode".
pub const fn wants_pipelined(queued: u8, peer_asks: bool) -> bool {
    queued >= 2 || peer_asks
}

/// Inline bytes of a SrcAvail in Combined mode, of a run with `left` bytes, in a
/// message with room for `room`: the program's wish, or one. The sink copies inline
/// bytes, and the protocol requires one at least, not all.
pub fn inline_len(wish: u16, left: u32, room: u32) -> u32 {
    u32::from(wish.max(1)).min(room).min(left.saturating_sub(1))
}

/// Number of bytes read from an unfinished advertisement that are worth a report to
/// its source. Reports only help a source that loses patience, and each costs a
/// message.
pub const REPORT_LEAST: u32 = 64 << 10;

#[cfg(test)]
mod tests {
    use super::{grown, inline_len, shrunk, wants_pipelined, WINDOW_INITIAL};

    #[test]
    fn the_window_grows_up_to_the_peers_limit_and_falls_to_one() {
        assert_eq!(grown(WINDOW_INITIAL, 4), 3);
        assert_eq!(grown(4, 4), 4);
        assert_eq!(grown(7, 4), 4);
        assert_eq!(shrunk(), 1);
    }

    #[test]
    fn pipelined_mode_is_asked_for_when_it_is_of_use() {
        assert!(!wants_pipelined(1, false));
        assert!(wants_pipelined(2, false));
        assert!(wants_pipelined(0, true));
    }

    //= test: SRC-2
    #[test]
    fn some_bytes_are_inline_and_never_all() {
        assert_eq!(inline_len(0, 1000, 100), 1);
        assert_eq!(inline_len(50, 1000, 100), 50);
        assert_eq!(inline_len(500, 1000, 100), 100);
        assert_eq!(inline_len(50, 2, 100), 1);
        assert_eq!(inline_len(50, 51, 100), 50);
        assert_eq!(inline_len(u16::MAX, u32::MAX, 65536), 65535);
    }
}
