// SPDX-License-Identifier: GPL-2.0

//! The credits that the peer has granted, and our sequence numbers.
//!
//! rules: CREDIT, SEQ

use crate::engine::{error::PeerError, types::Mseq};

/// How much a message asks of the last credits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Need {
    /// Carries payload.
    Payload,
    /// Carries none.
    Control,
    /// Carries none and grants new credits.
    Grant,
}

impl Need {
    /// The fewest credits, or free send slots, that it may be sent with.
    pub(crate) const fn least(self) -> u16 {
        match self {
            //= spec: CREDIT-3
            Need::Payload => 3,
            //= spec: CREDIT-4
            Need::Control => 2,
            //= spec: CREDIT-5, CREDIT-6
            Need::Grant => 1,
        }
    }
}

/// Our right to send.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Credits {
    /// Messages that may be sent now.
    count: u16,
    /// The last message sent.
    sent: Mseq,
    /// The last message of ours that the peer has received, by its own word.
    /// Never after `sent`.
    acked: Mseq,
}

impl Credits {
    /// From the Bufs of the Hello or HelloAck.
    pub(crate) fn new(bufs: u16) -> Self {
        Self {
            count: bufs,
            ..Self::default()
        }
    }

    pub(crate) fn count(&self) -> u16 {
        self.count
    }

    pub(crate) fn allow(&self, need: Need) -> bool {
        self.count >= need.least()
    }

    pub(crate) fn last_sent(&self) -> Mseq {
        self.sent
    }

    /// Accounts one message and returns its number.
    pub(crate) fn on_sent(&mut self) -> Mseq {
        //= spec: CREDIT-2
        self.count = self.count.saturating_sub(1);
        //= spec: SEQ-1
        self.sent = self.sent.next();
        self.sent
    }

    /// The newest acknowledgement, when a message says `mseq_ack`. An older one than
    /// before is no news.
    pub(crate) fn newest(&self, mseq_ack: Mseq) -> Result<Mseq, PeerError> {
        let known = self.sent.since(self.acked);
        if mseq_ack.since(self.acked) <= known {
            return Ok(mseq_ack);
        }
        //= spec: SEQ-4
        if mseq_ack.is_after(self.sent) {
            return Err(PeerError::AckBeyondSent);
        }
        Ok(self.acked)
    }

    /// Takes over what a received message grants, with the newest acknowledgement.
    /// The number is absolute, so one that was lost or late does no lasting harm.
    ///
    /// A grant smaller than what is in flight leaves no credit instead of
    /// being an error: peers exist which read the two numbers of their header
    /// at different times.
    pub(crate) fn on_granted(&mut self, bufs: u16, newest: Mseq) {
        self.acked = newest;
        let in_flight = u16::try_from(self.sent.since(newest)).unwrap_or(u16::MAX);
        //= spec: CREDIT-1
        self.count = bufs.saturating_sub(in_flight);
    }

    #[cfg(test)]
    pub(crate) fn starting_at(bufs: u16, sent: Mseq) -> Self {
        Self {
            count: bufs,
            sent,
            acked: sent,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Credits, Need};
    use crate::engine::{error::PeerError, types::Mseq};

    fn grant(credits: &mut Credits, bufs: u16, mseq_ack: Mseq) -> Result<(), PeerError> {
        let newest = credits.newest(mseq_ack)?;
        credits.on_granted(bufs, newest);
        Ok(())
    }

    #[test]
    fn payload_needs_three_control_two_and_a_grant_one() {
        let allowed = |count| {
            let credits = Credits::new(count);
            [Need::Payload, Need::Control, Need::Grant].map(|need| credits.allow(need))
        };
        assert_eq!(allowed(3), [true, true, true]);
        assert_eq!(allowed(2), [false, true, true]);
        assert_eq!(allowed(1), [false, false, true]);
        assert_eq!(allowed(0), [false, false, false]);
    }

    //= test: CREDIT-1, CREDIT-2
    #[test]
    fn a_grant_counts_without_what_is_still_in_flight() {
        let mut credits = Credits::new(10);
        for n in 1..=4 {
            assert_eq!(credits.on_sent(), Mseq::new(n));
        }
        assert_eq!(credits.count(), 6);
        grant(&mut credits, 9, Mseq::new(1)).unwrap();
        assert_eq!(credits.count(), 6);
        grant(&mut credits, 10, Mseq::new(4)).unwrap();
        assert_eq!(credits.count(), 10);
        // Absolute: the same again changes nothing.
        grant(&mut credits, 10, Mseq::new(4)).unwrap();
        assert_eq!(credits.count(), 10);
        grant(&mut credits, 2, Mseq::new(4)).unwrap();
        assert_eq!(credits.count(), 2);
    }

    //= test: CREDIT-1
    #[test]
    fn a_grant_below_what_is_in_flight_leaves_no_credit() {
        let mut credits = Credits::new(5);
        for _ in 0..5 {
            credits.on_sent();
        }
        grant(&mut credits, 3, Mseq::new(1)).unwrap();
        assert_eq!(credits.count(), 0);
    }

    //= test: SEQ-4
    #[test]
    fn an_acknowledgement_of_the_unsent_is_refused_and_an_old_one_no_news() {
        let mut credits = Credits::new(5);
        for _ in 0..3 {
            credits.on_sent();
        }
        assert_eq!(
            grant(&mut credits, 5, Mseq::new(4)),
            Err(PeerError::AckBeyondSent)
        );
        grant(&mut credits, 5, Mseq::new(2)).unwrap();
        grant(&mut credits, 5, Mseq::new(1)).unwrap();
        assert_eq!(credits.count(), 4);
    }

    #[test]
    fn numbers_wrap() {
        let mut credits = Credits::starting_at(5, Mseq::new(u32::MAX - 1));
        credits.on_sent();
        assert_eq!(credits.on_sent(), Mseq::HELLO);
        assert_eq!(
            grant(&mut credits, 5, Mseq::new(1)),
            Err(PeerError::AckBeyondSent)
        );
        grant(&mut credits, 5, Mseq::new(u32::MAX)).unwrap();
        assert_eq!(credits.count(), 4);
        grant(&mut credits, 5, Mseq::new(u32::MAX - 1)).unwrap();
        assert_eq!(credits.count(), 4);
    }
}
