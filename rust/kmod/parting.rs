// SPDX-License-Identifier: GPL-2.0

//! Connections that have ended here while the peer may not know it yet.
//!
//! An aborted connection sends a DREQ, a datagram that may get lost. Nothing later
//! would tell the peer again, and a peer that only reads would wait for ever. So the CM
//! identifier stays, without queue pair and buffers, and the CM repeats the DREQ until
//! it is answered, until it has been tried often enough, or until `close_timeout_ms`
//! have passed. Meanwhile the device is leased and the socket referenced.
//!
//! Contexts: the reaper and an alarm; handlers of the CM set that. Locks: the
//! endpoint's; an identifier is destroyed without it.

use crate::{
    alarm::Alarm,
    cm::identifier::CmId,
    devices::Lease,
    endpoint::Inner,
    link::Context,
    object::Sock,
    prelude::*, //
};
use kernel::{
    sync::Arc,
    time::{
        Delta,
        Instant,
        Monotonic, //
    },
};

/// Maximum number for one socket. Beyond it the oldest is dropped: its DREQ was
/// repeated most often.
pub(crate) const MOST: usize = 4;

/// See the module.
///
/// Field order is destruction order.
pub(crate) struct Parting {
    cm: CmId,
    lease: Lease,
    _origin: Arc<Context>,
    until: Option<Instant<Monotonic>>,
}

impl Parting {
    pub(crate) fn new(cm: CmId, lease: Lease, origin: Arc<Context>) -> Self {
        Self {
            cm,
            lease,
            _origin: origin,
            until: None,
        }
    }

    /// Milliseconds that it may still last.
    fn left(&self) -> u32 {
        if self.cm.is_parted() || self.lease.is_leaving() {
            return 0;
        }
        let left = self
            .until
            .map_or(0, |until| (until - Instant::now()).as_millis());
        u32::try_from(left.max(0)).unwrap_or(u32::MAX)
    }
}

impl Inner {
    /// Stores `parting`; returns the one that the caller must drop without the lock.
    pub(crate) fn part(&mut self, sock: &Sock, mut parting: Parting) -> Option<Parting> {
        if self.partings.reserve(GFP_KERNEL).is_err() {
            return Some(parting);
        }
        let limit = sock.net().knobs().close_timeout_ms;
        parting.until = Some(Instant::now() + Delta::from_millis(limit.into()));
        let oldest = if self.partings.len() >= MOST {
            self.partings.pop()
        } else {
            None
        };
        // Room was reserved.
        let _ = self.partings.push(parting, GFP_KERNEL);
        // The alarm also checks whether the answer came first.
        sock.set_alarm(Alarm::Parting, 0);
        oldest
    }

    /// Takes out one that has ended, or sets the alarm for the next check.
    fn take_parted(&mut self, sock: &Sock) -> Option<Parting> {
        let mut soonest = None;
        for at in 0..self.partings.len() {
            match self.partings.get(at).map_or(0, Parting::left) {
                0 => return self.partings.remove(at),
                left => soonest = Some(soonest.map_or(left, |soonest: u32| soonest.min(left))),
            }
        }
        if let Some(left) = soonest {
            sock.set_alarm(Alarm::Parting, left);
        }
        None
    }
}

impl Sock {
    /// The alarm behind [`Alarm::Parting`].
    pub(crate) fn alarm_parting(&self) {
        while let Some(parting) = self.look(|inner| inner.take_parted(self)) {
            drop(parting);
        }
    }
}
