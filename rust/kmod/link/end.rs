// SPDX-License-Identifier: GPL-2.0

//! The end of a link: what the peer is told, and what is left for the reaper.
//!
//! Contexts: under the endpoint's lock; [`Link::destroy`] and [`Link::undo`] without it.

use crate::{
    cm::identifier::CmId,
    devices::Lease,
    link::Link,
    parting::Parting,
    prelude::*, //
};

impl Link {
    /// Frees a link that has sent nothing; returns its identifier and lease. Sleeps;
    /// without the endpoint's lock.
    pub(crate) fn undo(mut self: KBox<Self>) -> (Option<CmId>, Lease) {
        self.give_up();
        let cm = self.cm.take();
        let Self { lease, .. } = KBox::into_inner(self);
        (cm, lease)
    }

    /// The connection ends. The reaper sends a DREQ, unless one was sent.
    pub(crate) fn part(&mut self) {
        self.disconnecting |= !self.told;
    }

    /// Tells the peer of the end by a DREQ.
    pub(crate) fn disconnect(&mut self) {
        // Without it the CM refuses the DREQ. An error means that it is past it already.
        let _ = self.confirm();
        // An error means that the CM is past it already, or has no memory for it. It does not try
        // again then.
        let sent = self.cm.as_ref().is_some_and(|cm| cm.disconnect().is_ok());
        self.disconnecting = sent;
        self.told = true;
    }

    /// Ends all transfers and frees everything except the identifier that still has to
    /// tell the peer. Sleeps; without the endpoint's lock.
    pub(crate) fn destroy(mut self: KBox<Self>) -> Option<Parting> {
        if self.disconnecting && !self.told {
            self.disconnect();
        }
        self.give_up();
        // CM callbacks find the link through its endpoint, which no longer has it. But
        // one that found it earlier may still be running: destroying the identifier
        // waits for it, if the peer needs no further message.
        let parting = self.disconnecting && self.cm.as_ref().is_some_and(|cm| !cm.is_parted());
        if !parting {
            self.cm = None;
        }
        let Self {
            cm, lease, origin, ..
        } = KBox::into_inner(self);
        // The other parts are dropped by now.
        Some(Parting::new(cm?, lease, origin))
    }
}
