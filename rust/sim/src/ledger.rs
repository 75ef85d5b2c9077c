// SPDX-License-Identifier: GPL-2.0

//! The counts of one side, computed from the headers that it sends and receives. Plain integers,
//! because no run reaches the wrap.

use crate::fault::{ensure, Checked};
use sdp_engine::engine::wire::{Mid, Repr};

/// The messages that one side may send, and the credits that it has granted.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Ledger {
    /// Number of the last message sent.
    sent: i64,
    credits: i64,
    /// The newest of them that the peer acknowledged.
    known: i64,
    /// Bufs of the last message sent.
    granted: i64,
    received: i64,
    /// The number of the peer's message that our last message acknowledged.
    acknowledged: i64,
    disconn_sent: bool,
    /// Number of a SrcAvailCancel without an acknowledgement.
    cancelled: Option<i64>,
    /// Number of the last SrcAvailCancel sent.
    cancel_sent: Option<i64>,
}

impl Ledger {
    pub(crate) fn on_hello_received(&mut self, bufs: u16) {
        self.credits = bufs.into();
    }

    pub(crate) fn on_hello_sent(&mut self, bufs: u16) {
        self.granted = bufs.into();
    }

    /// Messages sent.
    pub(crate) fn sent(&self) -> i64 {
        self.sent
    }

    pub(crate) fn credits(&self) -> i64 {
        self.credits
    }

    /// Checks the rules for sending, then counts the message.
    pub(crate) fn on_sent(&mut self, repr: &Repr) -> Checked {
        let mid = repr.body.mid();
        let ack = i64::from(repr.mseq_ack.get());
        // The peer's remaining credits before and after this message.
        let left = self.granted - (self.received - self.acknowledged);
        let new = i64::from(repr.bufs) - (self.received - ack) > left;
        let carries = repr.payload_len > 0 || mid == Mid::SrcAvail;
        // A side that aborts goes by the grant of the last message that it has read.
        let blind = mid == Mid::AbortConn && ack < self.received;
        let least = match (carries, new && mid != Mid::DisConn) {
            (true, _) => 3,
            (false, _) if blind => 1,
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
        // After an abort a side ignores arriving messages. A cancel is acknowledged after the Reads
        // in flight.
        let frozen = self.cancelled.is_some_and(|number| ack == number - 1);
        let aborts = mid == Mid::AbortConn && ack <= self.received;
        let good = ack == self.received || frozen || aborts;
        if self.cancelled.is_some_and(|number| ack >= number) {
            self.cancelled = None;
        }
        ensure!(good, "{repr} should acknowledge {}", self.received);
        ensure!(
            !(self.disconn_sent && (repr.payload_len > 0 || mid == Mid::DisConn)),
            "{repr} is sent after DisConn"
        );
        self.disconn_sent |= mid == Mid::DisConn;
        if mid == Mid::SrcAvailCancel {
            self.cancel_sent = Some(self.sent);
        }
        self.granted = repr.bufs.into();
        self.acknowledged = ack;
        Ok(())
    }

    /// Counts a message of a peer that grants arbitrary credits.
    pub(crate) fn on_received_of_stranger(&mut self, repr: &Repr) {
        self.receive(repr);
        self.credits = self.credits.max(0);
    }

    fn receive(&mut self, repr: &Repr) {
        self.received += 1;
        if repr.body.mid() == Mid::SrcAvailCancel {
            self.cancelled = Some(self.received);
        }
        // An old acknowledgement, or one from before the first message, is ignored.
        let ack = i64::from(repr.mseq_ack.get());
        if ack <= self.sent {
            self.known = self.known.max(ack);
        }
        self.credits = i64::from(repr.bufs) - (self.sent - self.known);
    }

    pub(crate) fn on_received(&mut self, repr: &Repr) -> Checked {
        self.receive(repr);
        // A peer that waits for its Reads does not acknowledge messages that it received after our
        // cancel.
        let frozen = self
            .cancel_sent
            .is_some_and(|number| i64::from(repr.mseq_ack.get()) == number - 1);
        ensure!(
            self.credits >= 0 || frozen || repr.body.mid() == Mid::AbortConn,
            "{repr} takes credits back"
        );
        self.credits = self.credits.max(0);
        Ok(())
    }
}
