// SPDX-License-Identifier: GPL-2.0

//! Asynchronous events that a task has to report.
//!
//! Contexts: any.

use kernel::sync::atomic::{
    Atomic,
    Relaxed, //
};

/// Raised events, one bit each.
pub(super) struct Events(Atomic<u32>);

impl Events {
    pub(super) fn new() -> Self {
        Self(Atomic::new(0))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.load(Relaxed) == 0
    }

    pub(super) fn raise(&self, event: u32) {
        let mut known = self.0.load(Relaxed);
        while known & (1 << event) == 0 {
            match self.0.cmpxchg(known, known | (1 << event), Relaxed) {
                Ok(_) => break,
                Err(now) => known = now,
            }
        }
    }

    /// Whether an event was raised; it is not any more.
    pub(super) fn take(&self, event: u32) -> bool {
        let mut known = self.0.load(Relaxed);
        while known & (1 << event) != 0 {
            match self.0.cmpxchg(known, known & !(1 << event), Relaxed) {
                Ok(_) => return true,
                Err(now) => known = now,
            }
        }
        false
    }
}
