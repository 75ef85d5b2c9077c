// SPDX-License-Identifier: GPL-2.0

//! How long to wait for what.

/// For how long a SrcAvail is held for a reader who is not there. Long enough
/// for a reader between two calls, short enough that a sender whose peer does
/// something else is not slowed down much: its bytes then go into buffers, as
/// TCP's would.
pub const DECLINE_MS: u32 = 20;

/// For how long an advertisement may make no progress. What OFED's source waits
/// for; a sink like ours has declined long before.
pub const RECALL_MS: u32 = 1_000;

/// How often to look whether a cancel was answered, and whether the peer lacks
/// a credit for the answer.
pub const ANSWER_MS: u32 = 1_000;

/// How often to look in vain before the connection is given up. \[Z05, 2.4\]
/// asks for a reasonable time; OFED began with 5 seconds.
pub const ANSWER_TRIES: u8 = 5;

/// Whether to decline a SrcAvail at once.
///
/// When both sides advertise and nobody reads, each waits for the other, as two
/// programs do that both write before they read. TCP's buffers would take the
/// bytes; here they do when one side asks for Data. A program that reads beside
/// its writing (`duplex`) will read again in a moment: to ask for Data then would
/// have a whole buffer copied, and [`DECLINE_MS`] bounds the wait.
pub const fn declines_at_once(reader: bool, own_outstanding: bool, duplex: bool) -> bool {
    !reader && own_outstanding && !duplex
}

/// How long a credit update waits that answers nothing but updates, behind so many
/// that have waited. Both windows are shut then, so nothing is waiting for it but a
/// peer's wish to close or to answer; and the answer will be another one. As with
/// TCP's probes of a window, twice as long each time, well below the time that a
/// close may take. Who has accepted the connection (`passive`) waits for longer:
/// where the updates of both cross, each leaves the other with one credit again.
pub const fn update_ms(waited: u8, passive: bool) -> u32 {
    let doublings = if waited < 4 { waited } else { 4 };
    let first = if passive { 1_500 } else { 1_000 };
    first << doublings
}

#[cfg(test)]
mod tests {
    use super::{declines_at_once, update_ms};

    #[test]
    fn only_two_senders_without_a_reader_give_way_at_once() {
        let all = [(false, false), (false, true), (true, false), (true, true)];
        let at_once = |duplex| all.map(|(reader, own)| declines_at_once(reader, own, duplex));
        assert_eq!(at_once(false), [false, true, false, false]);
        assert_eq!(at_once(true), [false; 4]);
    }

    #[test]
    fn answers_to_mere_updates_become_rare() {
        let all = [0, 1, 2, 3, 4, 5, u8::MAX].map(|waited| update_ms(waited, false));
        assert_eq!(all, [1_000, 2_000, 4_000, 8_000, 16_000, 16_000, 16_000]);
        assert_eq!(
            [0, 4].map(|waited| update_ms(waited, true)),
            [1_500, 24_000]
        );
    }
}
