// SPDX-License-Identifier: GPL-2.0

//! Which memory programs have used lately, as hints: what is not remembered is seen the first time.
//!
//! Contexts: any. No locks: slots are words, and a lost one costs a sighting.

use crate::{
    prelude::*,
    rdma::spans::Key, //
};
use kernel::sync::atomic::{
    Atomic,
    Relaxed, //
};

const SLOTS: usize = 1024;
const SLOT_BITS: u32 = SLOTS.ilog2();

/// The bits of a slot that count; the others tell the place.
const COUNT: u64 = 0xff;

/// Sightings of a place before it is to be cached again, after that was of no use.
const PATIENCE: u64 = 8;

pub(super) struct Sightings([Atomic<u64>; SLOTS]);

impl Sightings {
    pub(super) const fn new() -> Self {
        Self([const { Atomic::new(0) }; SLOTS])
    }

    /// The slot of a place, and what stands there for it, without the count.
    fn slot(&self, place: &Key) -> (Option<&Atomic<u64>>, u64) {
        let page = (place.last as u64) << 1 | u64::from(place.write);
        let hash = (place.mm as u64 ^ page.rotate_left(24)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let at = (hash >> (u64::BITS - SLOT_BITS)) as usize;
        (self.0.get(at), hash & !COUNT)
    }

    /// A place is used; returns whether it was before, often enough.
    pub(super) fn see(&self, place: &Key) -> bool {
        let (Some(slot), tag) = self.slot(place) else {
            return false;
        };
        let before = slot.load(Relaxed);
        let left = if before & !COUNT == tag {
            (before & COUNT).saturating_sub(1)
        } else {
            1
        };
        slot.store(tag | left, Relaxed);
        left == 0
    }

    /// It was of no use to cache a place.
    pub(super) fn refuse(&self, place: &Key) {
        let (Some(slot), tag) = self.slot(place) else {
            return;
        };
        slot.store(tag | PATIENCE, Relaxed);
    }
}

#[kunit_tests(rdma_sightings)]
mod tests {
    use super::*;

    static SEEN: Sightings = Sightings::new();

    fn place(last: usize) -> Key {
        Key {
            mm: 0x1000,
            write: true,
            last,
        }
    }

    #[test]
    fn a_place_is_known_when_it_is_seen_again() {
        assert!(!SEEN.see(&place(1)));
        assert!(SEEN.see(&place(1)));
        assert!(SEEN.see(&place(1)));
        let other = Key {
            write: false,
            ..place(1)
        };
        assert!(!SEEN.see(&other));
    }

    #[test]
    fn a_place_that_was_of_no_use_is_known_much_later() {
        SEEN.refuse(&place(2));
        for _ in 1..PATIENCE {
            assert!(!SEEN.see(&place(2)));
        }
        assert!(SEEN.see(&place(2)));
    }
}
