// SPDX-License-Identifier: GPL-2.0

//! Waiting times.

/// Time that a SrcAvail is held while no reader is waiting. Long enough for a
/// reader between two calls, short enough not to slow down a sender whose peer does
/// something else: its bytes then go into buffers, as TCP's would.
pub const DECLINE_MS: u32 = 20;

/// Time that an advertisement may make no progress. OFED's source waits as long; a
/// sink like ours has declined long before.
pub const RECALL_MS: u32 = 1_000;

/// How often to look whether a cancel was answered, and whether the peer lacks
/// a credit for the answer.
pub const ANSWER_MS: u32 = 1_000;

/// How often to look in vain before the connection is given up. \[Z05, 2.4\]
/// asks for a reasonable time; OFED began with 5 seconds.
pub const ANSWER_TRIES: u8 = 5;

/// Whether to decline a SrcAvail at once.
///
/// When both sides advertise and nobody reads, each waits for the other, as with
/// two programs that both write before they read. TCP's buffers would take the
/// bytes; here buffers take them when one side asks for Data. A program that reads
/// beside its writing (`duplex`) will read again in a moment. Asking for Data then
/// would copy a whole buffer, and [`DECLINE_MS`] bounds the wait.
pub const fn declines_at_once(reader: bool, own_outstanding: bool, duplex: bool) -> bool {
    !reader && own_outstanding && !duplex
}

/// Time that a credit update waits if it answers only updates, after `waited`
/// earlier ones. Both windows are shut then, so only a peer's wish to close or to
/// answer could wait for it, and that answer would be another one. As with TCP's
/// window probes, the time doubles, and stays well below the time that a close may
/// take. The side that has accepted the connection (`passive`) waits longer: if the
/// updates of both sides cross, each leaves the other with one credit again.
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
