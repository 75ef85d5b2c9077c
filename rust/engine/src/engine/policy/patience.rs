// SPDX-License-Identifier: GPL-2.0

//! Waiting times.

/// Time that a SrcAvail is held while no reader is waiting. Long enough for a
/// reader between two calls, short enough not to slow down a sender with a peer that does
/// something else: its bytes then go into buffers, as TCP's would. It becomes shorter for a reader
/// that is often late (`absence`).
pub const DECLINE_MS: u32 = 20;

/// Time that an advertisement may make no progress. OFED's source waits as long; a
/// sink like ours has declined long before.
pub const RECALL_MS: u32 = 1_000;

/// How often to look whether a cancel was answered.
pub const ANSWER_MS: u32 = 1_000;

/// How often to look in vain before the connection is given up. \[Z05, 2.4\]
/// asks for a reasonable time; OFED began with 5 seconds.
pub const ANSWER_TRIES: u8 = 5;

/// The wait for the answer to the cancels of one kind.
///
/// It has a limit if a caller on our side wants the memory back. If the engine has taken an
/// advert back by itself, because the peer does not read, the caller would have waited for the
/// peer without zero copy as well, and its own limits hold: TCP_USER_TIMEOUT and keepalive.
///
/// The limit counts from when the cancel was sent. Without a credit for it the peer cannot have
/// answered. To wait for the credit has the same limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Wait {
    limited: bool,
    /// How often it was looked at in vain.
    looks: u8,
}

impl Wait {
    /// An advert is taken back, and no caller wants its memory.
    pub(crate) const UNLIMITED: Self = Self {
        limited: false,
        looks: 0,
    };

    /// A caller wants the memory back. Another caller, or its impatience, does not change the limit.
    pub(crate) fn limit(&mut self) {
        if !self.limited {
            *self = Self {
                limited: true,
                looks: 0,
            };
        }
    }

    /// The cancel was sent.
    pub(crate) fn on_sent(&mut self) {
        self.looks = 0;
    }

    pub(crate) fn is_limited(self) -> bool {
        self.limited
    }

    /// Looks in vain. Returns whether the wait has ended.
    pub(crate) fn look(&mut self) -> bool {
        self.looks = self.looks.saturating_add(1);
        self.looks >= ANSWER_TRIES
    }
}

/// Whether to decline a SrcAvail at once.
///
/// When both sides advertise and no program reads, each waits for the other, as with
/// two programs that both write before they read. TCP's buffers would take the
/// bytes; here buffers take them when one side asks for Data. A program that reads
/// beside its writing (`duplex`) will read again in a moment. Asking for Data then
/// would copy a whole buffer, and [`DECLINE_MS`] bounds the wait.
pub const fn declines_at_once(reader: bool, own_outstanding: bool, duplex: bool) -> bool {
    !reader && own_outstanding && !duplex
}

/// Time in milliseconds that a credit update waits if the peer has sent only updates, after
/// `waited` earlier waits.
///
/// Neither side can send payload then. Only a close or an answer of the peer may need the credit,
/// and the next update would be answered by another update. So the time doubles, as between
/// TCP's window probes, up to a limit well below the time that a close may take. The side that has
/// accepted the connection (`passive`) waits longer, because updates that cross would leave each
/// side with one credit again, for ever.
///
/// While memory is `lent` in either direction, a cancel may need the credit. The peer cannot say
/// that it waits for one, and gives up before the longer times. So the time does not double.
pub const fn update_ms(waited: u8, passive: bool, lent: bool) -> u32 {
    let doublings = match waited {
        _ if lent => 0,
        0..4 => waited,
        _ => 4,
    };
    let first = if passive { 1_500 } else { 1_000 };
    first << doublings
}

#[cfg(test)]
mod tests {
    use super::{declines_at_once, update_ms, ANSWER_MS, ANSWER_TRIES};

    #[test]
    fn only_two_senders_without_a_reader_give_way_at_once() {
        let all = [(false, false), (false, true), (true, false), (true, true)];
        let at_once = |duplex| all.map(|(reader, own)| declines_at_once(reader, own, duplex));
        assert_eq!(at_once(false), [false, true, false, false]);
        assert_eq!(at_once(true), [false; 4]);
    }

    #[test]
    fn answers_to_mere_updates_become_rare() {
        let all = [0, 1, 2, 3, 4, 5, u8::MAX].map(|waited| update_ms(waited, false, false));
        assert_eq!(all, [1_000, 2_000, 4_000, 8_000, 16_000, 16_000, 16_000]);
        assert_eq!(
            [0, 4].map(|waited| update_ms(waited, true, false)),
            [1_500, 24_000]
        );
    }

    #[test]
    fn a_cancel_finds_its_credit_before_patience_ends() {
        for passive in [false, true] {
            let longest = update_ms(u8::MAX, passive, true);
            assert!(
                longest < ANSWER_MS * u32::from(ANSWER_TRIES) / 2,
                "{longest}"
            );
        }
    }
}
