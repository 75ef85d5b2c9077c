// SPDX-License-Identifier: GPL-2.0

//! Threads in system calls that look for completions before they sleep or return.
//!
//! Locks: under the endpoint's lock.

use crate::engine::policy::polling::Polling;

/// See the module.
pub(crate) struct Callers {
    /// Those that are awake.
    awake: u32,
    /// Decides for how long one of them polls before it sleeps.
    pub(crate) polling: Polling,
}

impl Callers {
    pub(super) fn new() -> Self {
        Self {
            awake: 0,
            polling: Polling::new(),
        }
    }

    /// A thread begins a call, or wakes in one.
    pub(crate) fn on_awake(&mut self) {
        self.awake = self.awake.wrapping_add(1);
    }

    /// A thread goes to sleep in its call, or ends it.
    pub(crate) fn on_asleep(&mut self) {
        self.awake = self.awake.wrapping_sub(1);
    }

    /// Whether one of them is awake, and takes completions soon.
    pub(crate) fn is_any_awake(&self) -> bool {
        self.awake > 0
    }
}
