// SPDX-License-Identifier: GPL-2.0

//! The stretches of memory that a program has lent, or receives ahead, on one connection. They are
//! numbered, and end in their order, so the number of the last one that has ended is their count.
//!
//! Contexts and locks: numbers change under the endpoint's lock, or where no other code has the
//! stretches any more. Dropping may sleep.

use super::place::{
    AddressSpace,
    Place, //
};
use crate::{
    ffi,
    prelude::*, //
};
use kernel::sync::atomic::{
    Acquire,
    Atomic,
    Relaxed,
    Release, //
};

/// The offset in a program's counter of the word that counts ends.
const ENDED: usize = 0;
const _: () = assert!(core::mem::offset_of!(ffi::sdp_borrow_counter, ended) == ENDED);
const _: () = assert!(core::mem::offset_of!(ffi::sdp_ahead_counter, ended) == ENDED);

/// See the module.
pub(super) struct Tally {
    // As the kernel knows them: a program may write to its own counter.
    issued: Atomic<u32>,
    ended: Atomic<u32>,
    /// The connection with the counted ranges; 0 for none yet.
    generation: Atomic<u64>,
    place: Place,
    owner: AddressSpace,
}

impl Tally {
    /// For the calling program, which has a counter of `len` bytes at `address`. Its first word counts
    /// ends; all are 0 now.
    pub(super) fn new(address: u64, len: usize) -> Result<Self> {
        let place = Place::new(address, len)?;
        for at in (0..len).step_by(core::mem::size_of::<u32>()) {
            place.set(at, 0);
        }
        Ok(Self {
            issued: Atomic::new(0),
            ended: Atomic::new(0),
            generation: Atomic::new(0),
            place,
            owner: AddressSpace::current()?,
        })
    }

    /// The address of the counter in the program.
    pub(super) fn address(&self) -> u64 {
        self.place.address()
    }

    /// Whether it is for the calling program.
    pub(super) fn is_of_caller(&self) -> bool {
        self.owner.is_current()
    }

    /// Whether the program may still look at its memory.
    pub(super) fn is_needed(&self) -> bool {
        self.owner.is_used()
    }

    pub(super) fn issued(&self) -> u32 {
        self.issued.load(Relaxed)
    }

    pub(super) fn ended(&self) -> u32 {
        self.ended.load(Acquire)
    }

    /// Whether the stretch of that number and those before it have ended.
    pub(super) fn has_ended(&self, id: u32) -> bool {
        self.ended().wrapping_sub(id) <= u32::MAX / 2
    }

    /// Whether there is a stretch of that number, ended or not.
    pub(super) fn knows(&self, id: u32) -> bool {
        self.issued().wrapping_sub(id) <= u32::MAX / 2
    }

    /// Whether a stretch of the connection `generation` can begin: EBUSY if another connection of the
    /// socket was counted, with ranges that may end later.
    pub(super) fn is_for(&self, generation: u64) -> Result {
        match self.generation.load(Relaxed) {
            0 => Ok(()),
            counted if counted == generation => Ok(()),
            _ => Err(EBUSY),
        }
    }

    /// One that can begins; returns its number. Under the endpoint's lock.
    pub(super) fn begin(&self, generation: u64) -> u32 {
        self.generation.store(generation, Relaxed);
        let before = self.issued.fetch_add(1, Relaxed);
        before.wrapping_add(1)
    }

    /// The one that has just begun does not take place. Under the same lock.
    pub(super) fn undo(&self) {
        if self.issued.fetch_sub(1, Relaxed) == 1 {
            // None was counted before.
            self.generation.store(0, Relaxed);
        }
    }

    /// The oldest one has ended.
    pub(super) fn end(&self) {
        let before = self.ended.fetch_add(1, Release);
        self.place.set(ENDED, before.wrapping_add(1));
    }

    /// As [`Place::set`].
    pub(super) fn set(&self, at: usize, value: u32) {
        self.place.set(at, value);
    }
}
