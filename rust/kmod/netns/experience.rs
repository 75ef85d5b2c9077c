// SPDX-License-Identifier: GPL-2.0

//! What the connections of a namespace have learnt and try on each device
//! (`engine/policy/tuning`): which messages they send and receive without a copy, where the
//! next ones begin, and the try that all are invited to.
//!
//! Hints and no more: two devices may share a place, and a device that came later may find
//! the hint of one that has gone. Namespaces share nothing.
//!
//! Contexts: any; no lock.

use crate::engine::policy::tuning::{
    Ended,
    Joint, //
};
use kernel::sync::atomic::{
    Atomic,
    Relaxed, //
};

/// Number of devices that are told apart.
const PLACES: usize = 8;

/// The invitation of the connections that send, or of those that receive.
pub(crate) struct Invitation(Atomic<u32>);

impl Invitation {
    const fn new() -> Self {
        Self(Atomic::new(Joint::NONE.number()))
    }

    /// What is tried now.
    pub(crate) fn get(&self) -> Joint {
        Joint::from_number(self.0.load(Relaxed))
    }

    /// A connection begins a try. If two do so at a time, the others see the later one.
    pub(crate) fn set(&self, joint: Joint) {
        self.0.store(joint.number(), Relaxed);
    }

    /// A try has ended.
    pub(crate) fn end(&self, ended: Ended) {
        let (old, new) = (ended.invitation.number(), ended.result.number());
        // Otherwise another invitation has taken its place.
        let _ = self.0.cmpxchg(old, new, Relaxed);
    }
}

struct Place {
    /// Bits as in the option SDP_LENT_SIZES.
    lent: Atomic<i64>,
    send: Invitation,
    receive: Invitation,
}

/// See the module.
pub(crate) struct Experience([Place; PLACES]);

impl Place {
    const fn new() -> Self {
        Self {
            lent: Atomic::new(0),
            send: Invitation::new(),
            receive: Invitation::new(),
        }
    }
}

impl Experience {
    pub(crate) const fn new() -> Self {
        Self([const { Place::new() }; PLACES])
    }

    /// The place of the device at `address`.
    fn place(&self, address: usize) -> Option<&Place> {
        // Devices are larger than a page, and lie apart.
        self.0.get((address >> 12) % PLACES)
    }

    /// What those that send try together.
    pub(crate) fn send(&self, device: usize) -> Option<&Invitation> {
        self.place(device).map(|place| &place.send)
    }

    /// What those that receive try together.
    pub(crate) fn receive(&self, device: usize) -> Option<&Invitation> {
        self.place(device).map(|place| &place.receive)
    }

    /// The sizes that go without a copy.
    pub(crate) fn of(&self, device: usize) -> u32 {
        self.place(device).map_or(0, |place| {
            u32::try_from(place.lent.load(Relaxed)).unwrap_or(0)
        })
    }

    /// A connection has learnt about the sizes `known`, of which `lent` go without a copy.
    pub(crate) fn learn(&self, device: usize, known: u32, lent: u32) {
        if let Some(place) = self.place(device) {
            // A hint of another processor may be lost.
            let before = place.lent.load(Relaxed);
            let after = before & !i64::from(known) | i64::from(lent & known);
            if after != before {
                place.lent.store(after, Relaxed);
            }
        }
    }
}
