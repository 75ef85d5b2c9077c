// SPDX-License-Identifier: GPL-2.0

//! The books of one side, kept by reading the headers that it sends and
//! receives. Plain integers: no run comes near the wrap.

use crate::fault::{ensure, Checked};
use sdp_engine::engine::wire::{Mid, Repr};

/// What one side may send, and what it has granted.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Ledger {
    /// Number of the last message sent.
    sent: i64,
    credits: i64,
    /// Bufs of the last message sent.
    granted: i64,
    received: i64,
    /// Messages received since the last one was sent.
    received_since: i64,
    disconn_sent: bool,
}

impl Ledger {
    pub(crate) fn on_hello_received(&mut self, bufs: u16) {
        self.credits = bufs.into();
    }

    pub(crate) fn on_hello_sent(&mut self, bufs: u16) {
        self.granted = bufs.into();
    }

    pub(crate) fn credits(&self) -> i64 {
        self.credits
    }

    /// The rules for sending, then the message.
    pub(crate) fn on_sent(&mut self, repr: &Repr) -> Checked {
        let mid = repr.body.mid();
        let new = i64::from(repr.bufs) > self.granted - self.received_since;
        let carries = repr.payload_len > 0 || mid == Mid::SrcAvail;
        let least = match (carries, new && mid != Mid::DisConn) {
            (true, _) => 3,
            (false, false) => 2,
            (false, true) => 1,
        };
        ensure!(
            self.credits >= least,
            "{repr} is sent with {} credits and needs {least}",
            self.credits
        );
        self.credits -= 1;
        self.sent += 1;
        ensure!(
            i64::from(repr.mseq.get()) == self.sent,
            "{repr} should have number {}",
            self.sent
        );
        let ack = i64::from(repr.mseq_ack.get());
        // Who aborts does not look at what still comes in.
        let good = ack == self.received || mid == Mid::AbortConn && ack <= self.received;
        ensure!(good, "{repr} should acknowledge {}", self.received);
        ensure!(
            !(self.disconn_sent && (repr.payload_len > 0 || mid == Mid::DisConn)),
            "{repr} is sent after DisConn"
        );
        self.disconn_sent |= mid == Mid::DisConn;
        self.granted = repr.bufs.into();
        self.received_since = 0;
        Ok(())
    }

    pub(crate) fn on_received(&mut self, repr: &Repr) -> Checked {
        self.received += 1;
        self.received_since += 1;
        self.credits = i64::from(repr.bufs) - (self.sent - i64::from(repr.mseq_ack.get()));
        ensure!(
            self.credits >= 0 || repr.body.mid() == Mid::AbortConn,
            "{repr} takes credits back"
        );
        Ok(())
    }
}
