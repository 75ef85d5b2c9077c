// SPDX-License-Identifier: GPL-2.0

//! TCP's attempt to connect beside SDP's, as an endpoint has it. `sock/race` acts on it.
//!
//! While TCP's attempt is under way, the peer may accept it at any moment. A connection over SDP is
//! accepted when we confirm the peer's HelloAck. So a HelloAck is held until TCP's attempt has ended
//! or has had its time: the peer's program accepts one connection, not two.
//!
//! Contexts: data, under the endpoint's lock.

use crate::{
    engine::wire::hello::HELLO_ACK_LEN,
    prelude::*,
    rdma::cm::PeerReads, //
};
use kernel::time::{
    Instant,
    Monotonic, //
};

/// Milliseconds until the first look at TCP's attempt, and at most between two of them. The end of
/// the attempt is no event for this socket. Each time is twice as long as the one before.
const FIRST_MS: u32 = 2;
const LAST_MS: u32 = 64;

/// How long TCP's attempt is waited for if SDP has an answer: until TCP sends its first packet again.
const TCP_MS: i64 = 1000;

/// The peer's answer over SDP.
pub(crate) struct Reply {
    pub(crate) data: [u8; HELLO_ACK_LEN],
    pub(crate) reads: PeerReads,
}

/// TCP's attempt is under way.
pub(crate) struct Race {
    begun: Instant<Monotonic>,
    pause_ms: u32,
    reply: Option<Reply>,
}

impl Race {
    pub(crate) fn new() -> Result<KBox<Self>> {
        Ok(KBox::new(
            Self {
                begun: Instant::now(),
                pause_ms: FIRST_MS,
                reply: None,
            },
            GFP_KERNEL,
        )?)
    }

    /// Milliseconds until the next look.
    pub(crate) fn pause(&mut self) -> u32 {
        let pause = self.pause_ms;
        self.pause_ms = pause.saturating_mul(2).min(LAST_MS);
        pause
    }

    /// Holds the peer's answer. The program waits, so the looks become frequent again.
    pub(crate) fn hold(&mut self, data: &[u8], reads: PeerReads) {
        let mut reply = Reply {
            data: [0; HELLO_ACK_LEN],
            reads,
        };
        for (to, from) in reply.data.iter_mut().zip(data) {
            *to = *from;
        }
        self.reply = Some(reply);
        self.pause_ms = FIRST_MS;
    }

    /// The peer knows nothing of what it has answered to.
    pub(crate) fn forget_reply(&mut self) {
        self.reply = None;
    }

    /// Whether the peer has answered.
    pub(crate) fn has_reply(&self) -> bool {
        self.reply.is_some()
    }

    /// Whether the answer counts, though TCP's attempt is under way.
    pub(crate) fn is_tcp_late(&self) -> bool {
        self.has_reply() && self.begun.elapsed().as_millis() >= TCP_MS
    }

    pub(crate) fn into_reply(self: KBox<Self>) -> Option<Reply> {
        KBox::into_inner(self).reply
    }
}

#[kunit_tests(sdp_race)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_until_there_is_an_answer() {
        let race = Race::new();
        assert!(race.is_ok());
        let Ok(mut race) = race else { return };
        assert_eq!([race.pause(), race.pause(), race.pause()], [2, 4, 8]);
        for _ in 0..20 {
            race.pause();
        }
        assert_eq!(race.pause(), LAST_MS);
        assert!(!race.has_reply() && !race.is_tcp_late());
        let reads = PeerReads {
            begins: 1,
            answers: 2,
        };
        race.hold(&[7; 3], reads);
        assert_eq!(race.pause(), FIRST_MS);
        // TCP's attempt has just begun.
        assert!(race.has_reply() && !race.is_tcp_late());
        race.forget_reply();
        assert!(!race.has_reply());
        race.hold(&[7; 3], reads);
        let reply = race.into_reply();
        assert!(reply.is_some_and(|reply| reply.data[..4] == [7, 7, 7, 0]));
    }
}
