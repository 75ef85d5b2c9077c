// SPDX-License-Identifier: GPL-2.0

//! Which messages the connections of a namespace send and receive without a copy, on each
//! device: where the next ones begin (`engine/policy/tuning`).
//!
//! A hint and no more: two devices may share a place, and a device that came later may find
//! the hint of one that has gone. Namespaces share nothing.
//!
//! Contexts: any; no lock.

use kernel::sync::atomic::{
    Atomic,
    Relaxed, //
};

/// Number of devices that are told apart.
const PLACES: usize = 8;

/// See the module. Bits as in the option SDP_LENT_SIZES.
pub(crate) struct Experience([Atomic<i64>; PLACES]);

impl Experience {
    pub(crate) const fn new() -> Self {
        Self([const { Atomic::new(0) }; PLACES])
    }

    /// The place of the device at `address`.
    fn place(&self, address: usize) -> Option<&Atomic<i64>> {
        // Devices are larger than a page, and lie apart.
        self.0.get((address >> 12) % PLACES)
    }

    /// The sizes that go without a copy.
    pub(crate) fn of(&self, device: usize) -> u32 {
        self.place(device)
            .map_or(0, |place| u32::try_from(place.load(Relaxed)).unwrap_or(0))
    }

    /// A connection has learnt about the sizes `known`, of which `lent` go without a copy.
    pub(crate) fn learn(&self, device: usize, known: u32, lent: u32) {
        if let Some(place) = self.place(device) {
            // A hint of another processor may be lost.
            let before = place.load(Relaxed);
            let after = before & !i64::from(known) | i64::from(lent & known);
            if after != before {
                place.store(after, Relaxed);
            }
        }
    }
}
