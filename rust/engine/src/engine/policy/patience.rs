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
/// bytes; here they do when one side asks for Data.
pub const fn declines_at_once(reader: bool, own_outstanding: bool) -> bool {
    !reader && own_outstanding
}

#[cfg(test)]
mod tests {
    use super::declines_at_once;

    #[test]
    fn only_two_senders_without_a_reader_give_way_at_once() {
        let all = [(false, false), (false, true), (true, false), (true, true)];
        let at_once = all.map(|(reader, own)| declines_at_once(reader, own));
        assert_eq!(at_once, [false, true, false, false]);
    }
}
