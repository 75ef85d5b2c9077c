// SPDX-License-Identifier: GPL-2.0

//! Connections that are over here, and whose peer does not know it yet.
//!
//! A connection that ends by force is told by a DREQ, a datagram that may get lost,
//! and nothing that the peer sees later would tell it again: one that only reads would
//! wait for ever. So the identifier stays, without queue pair and buffers, and the CM
//! repeats the DREQ until it is answered or has been tried often enough, or until
//! `close_timeout_ms` have passed. The device is leased and the socket referenced for so long.
//!
//! Contexts: the reaper and an alarm; handlers of the CM set that. Locks: the
//! endpoint's; an identifier is destroyed without it.

use crate::{
    alarm::Alarm,
    endpoint::Inner,
    link::{
        CmId,
        Origin, //
    },
    sock::Sock,
    verbs::device::{
        Device,
        Lease, //
    },
};
use kernel::{
    prelude::*,
    sync::Arc,
    time::{
        Delta,
        Instant,
        Monotonic, //
    }, //
};

/// Most of one socket: one that connects and aborts all the time has the oldest give
/// way, which have said it most often.
pub(crate) const MOST: usize = 4;

/// See the module.
///
/// Field order is destruction order.
pub(crate) struct Parting {
    cm: CmId,
    _lease: Lease,
    _origin: KBox<Origin>,
    device: Arc<Device>,
    until: Option<Instant<Monotonic>>,
}

impl Parting {
    pub(crate) fn new(cm: CmId, lease: Lease, origin: KBox<Origin>, device: Arc<Device>) -> Self {
        Self {
            cm,
            _lease: lease,
            _origin: origin,
            device,
            until: None,
        }
    }

    /// How many milliseconds it may still last.
    fn left(&self) -> u32 {
        if self.cm.is_parted() || self.device.is_leaving() {
            return 0;
        }
        let left = self
            .until
            .map_or(0, |until| (until - Instant::now()).as_millis());
        u32::try_from(left.max(0)).unwrap_or(u32::MAX)
    }
}

impl Inner {
    /// Keeps `parting`; returns what is to be dropped without the lock instead.
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
        // Also asks whether the answer was faster.
        sock.set_alarm(Alarm::Parting, 0);
        oldest
    }

    /// Takes out one that is over; otherwise sees to it that it is asked again.
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
