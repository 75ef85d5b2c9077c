// SPDX-License-Identifier: GPL-2.0

//! The urgent byte, outgoing and incoming. One of each is tracked.
//!
//! rules: URGENT

use crate::engine::{
    error::PeerError,
    wire::{Flags, Mid},
};

/// Maximum number of bytes in front of the urgent one when it is announced.
const ANNOUNCE_WITHIN: u32 = 65535;

/// The place of the urgent byte among the unsent bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct UrgentMark {
    /// Unsent bytes up to and including the urgent one; 0 for none.
    distance: u32,
    announced: bool,
}

impl UrgentMark {
    /// A newer mark takes the place of one that was not sent; the byte of the
    /// older one becomes an ordinary byte, as in TCP.
    pub(crate) fn set(&mut self, distance: u32) {
        //= spec: URGENT-5
        self.distance = distance;
        self.announced = false;
    }

    pub(crate) fn distance(&self) -> Option<u32> {
        (self.distance > 0).then_some(self.distance)
    }

    /// Whether the byte is near enough to be announced.
    fn is_pending(&self) -> bool {
        (1..=ANNOUNCE_WITHIN.saturating_add(1)).contains(&self.distance)
    }

    /// Whether the byte must still be announced to the peer.
    pub(crate) fn wants_announcement(&self) -> bool {
        self.is_pending() && !self.announced
    }

    /// OOB_PEND was sent.
    pub(crate) fn on_announced(&mut self) {
        self.announced = true;
    }

    /// `len` bytes behind the first `before`, and not the urgent one, have left
    /// the stream.
    pub(crate) fn on_lost(&mut self, len: u32, before: u32) {
        if self.distance > before {
            self.distance = self.distance.saturating_sub(len);
        }
    }

    /// `len` bytes were sent, never past the mark.
    pub(crate) fn on_sent(&mut self, len: u32) {
        self.distance = self.distance.saturating_sub(len);
    }
}

/// Information in a message about the peer's urgent byte.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Urgency {
    /// Announced now, and was not before.
    pub(crate) announced: bool,
    /// The last payload byte is it.
    pub(crate) present: bool,
}

/// Whether an urgent byte of the peer is announced.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct UrgentNotice {
    pending: bool,
}

impl UrgentNotice {
    /// OOB_PRES belongs on Data that has a last byte.
    pub(crate) fn check(mid: Mid, flags: Flags, payload: bool) -> Result<(), PeerError> {
        //= spec: URGENT-1
        if flags.oob_pres && !(mid == Mid::Data && payload) {
            return Err(PeerError::OobPlacement(mid));
        }
        Ok(())
    }

    pub(crate) fn on_message(&mut self, flags: Flags) -> Urgency {
        let news = (flags.oob_pend || flags.oob_pres) && !self.pending;
        // OOB_PEND beside OOB_PRES is about the same byte.
        self.pending = (self.pending || flags.oob_pend) && !flags.oob_pres;
        Urgency {
            announced: news,
            present: flags.oob_pres,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Urgency, UrgentMark, UrgentNotice};
    use crate::engine::wire::{Flags, Mid};

    //= test: URGENT-2
    #[test]
    fn a_mark_is_announced_when_it_is_near() {
        let mut mark = UrgentMark::default();
        mark.set(70000);
        assert!(!mark.is_pending());
        mark.on_sent(4464);
        assert!(mark.wants_announcement());
        mark.on_announced();
        assert!(mark.is_pending() && !mark.wants_announcement());
        mark.on_sent(65536);
        assert_eq!(mark.distance(), None);
        assert!(!mark.is_pending());
    }

    #[test]
    fn an_urgent_byte_is_news_once() {
        let flags = |oob_pend, oob_pres| Flags {
            oob_pend,
            oob_pres,
            ..Flags::default()
        };
        let news = |announced, present| Urgency { announced, present };
        let mut notice = UrgentNotice::default();
        assert_eq!(notice.on_message(flags(false, false)), news(false, false));
        assert_eq!(notice.on_message(flags(true, false)), news(true, false));
        assert_eq!(notice.on_message(flags(true, false)), news(false, false));
        assert_eq!(notice.on_message(flags(true, true)), news(false, true));
        assert_eq!(notice.on_message(flags(true, true)), news(true, true));
        assert_eq!(notice.on_message(flags(false, true)), news(true, true));
    }

    //= test: URGENT-1
    #[test]
    fn the_byte_is_only_present_in_data_with_payload() {
        let flags = Flags {
            oob_pres: true,
            ..Flags::default()
        };
        assert!(UrgentNotice::check(Mid::Data, flags, false).is_err());
        assert!(UrgentNotice::check(Mid::SrcAvail, flags, true).is_err());
        assert!(UrgentNotice::check(Mid::Data, flags, true).is_ok());
        assert!(UrgentNotice::check(Mid::Data, Flags::default(), false).is_ok());
    }
}
