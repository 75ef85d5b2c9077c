// SPDX-License-Identifier: MIT
//! The descriptors, which all threads use concurrently and any thread may close.

use std::sync::atomic::{AtomicI32, Ordering};

use crate::chance::Chance;

const SLOTS: usize = 96;
const EMPTY: i32 = -1;

pub struct Pool([AtomicI32; SLOTS]);

impl Pool {
    pub const fn new() -> Self {
        Self([const { AtomicI32::new(EMPTY) }; SLOTS])
    }

    /// Inserts a descriptor; the one that it replaces is closed.
    pub fn put(&self, chance: &mut Chance, fd: i32) {
        let slot = (0..4)
            .map(|_| chance.below(SLOTS))
            .find(|slot| self.0[*slot].load(Ordering::Relaxed) == EMPTY)
            .unwrap_or_else(|| chance.below(SLOTS));
        close(self.0[slot].swap(fd, Ordering::Relaxed));
    }

    /// A descriptor, which another thread may be about to close.
    pub fn any(&self, chance: &mut Chance) -> i32 {
        for _ in 0..16 {
            let fd = self.0[chance.below(SLOTS)].load(Ordering::Relaxed);
            if fd != EMPTY {
                return fd;
            }
        }
        chance.number().saturating_add(1 << 20)
    }

    /// Removes and returns one.
    pub fn take(&self, chance: &mut Chance) -> i32 {
        self.0[chance.below(SLOTS)].swap(EMPTY, Ordering::Relaxed)
    }

    pub fn close_all(&self) {
        for slot in &self.0 {
            close(slot.swap(EMPTY, Ordering::Relaxed));
        }
    }
}

fn close(fd: i32) {
    if fd != EMPTY {
        // SAFETY: it was in the pool, and is no more.
        unsafe { libc::close(fd) };
    }
}
