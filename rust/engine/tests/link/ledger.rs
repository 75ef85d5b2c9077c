// SPDX-License-Identifier: GPL-2.0

//! Credits of one side, kept by reading the headers that pass.

use sdp_engine::engine::wire::{Mid, Repr};

/// The credits of one side, and its grants. Plain integers: no test
/// comes near the wrap.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// Number of the last message sent.
    sent: i64,
    credits: i64,
    /// Bufs of the last message sent.
    granted: i64,
    /// Messages received since then.
    received_since: i64,
    received: i64,
}

impl Ledger {
    pub(crate) fn on_hello_received(&mut self, bufs: u16) {
        self.credits = bufs.into();
    }

    pub(crate) fn on_hello_sent(&mut self, bufs: u16) {
        self.granted = bufs.into();
    }

    /// The rules for sending, then the message.
    pub(crate) fn on_sent(&mut self, repr: &Repr) {
        let new = i64::from(repr.bufs) > self.granted - self.received_since;
        let least = match (repr.payload_len, new) {
            (1.., _) => 3,
            (0, false) => 2,
            (0, true) => 1,
        };
        assert!(
            self.credits >= least,
            "{repr} with {} credits needs {least}",
            self.credits
        );
        if repr.body.mid() == Mid::DisConn {
            assert!(self.credits >= 2);
        }
        self.credits -= 1;
        self.sent += 1;
        assert_eq!(i64::from(repr.mseq.get()), self.sent, "{repr}");
        if repr.body.mid() == Mid::AbortConn {
            // A side that aborts does not read later messages.
            assert!(i64::from(repr.mseq_ack.get()) <= self.received, "{repr}");
        } else {
            assert_eq!(i64::from(repr.mseq_ack.get()), self.received, "{repr}");
        }
        self.granted = repr.bufs.into();
        self.received_since = 0;
    }

    pub(crate) fn on_received(&mut self, repr: &Repr) {
        self.received += 1;
        self.received_since += 1;
        self.credits = i64::from(repr.bufs) - (self.sent - i64::from(repr.mseq_ack.get()));
        assert!(
            self.credits >= 0 || repr.body.mid() == Mid::AbortConn,
            "{repr} takes credits back"
        );
    }

    pub(crate) fn credits(&self) -> i64 {
        self.credits
    }
}
