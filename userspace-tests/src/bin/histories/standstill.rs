// SPDX-License-Identifier: MIT
//! Waits that last too long.
//!
//! A lost wake-up seldom makes a conversation hang: the next event of the socket wakes the waiter as well, and
//! the module causes one after a few seconds, because it probes a silent peer. So the end of a wait is no proof
//! that it ended in time. One of both ends moves bytes all the time, unless something disturbs them: the pauses
//! of programs are short.

use std::fmt::Debug;
use std::sync::atomic::Ordering;

use crate::sys;
use crate::talk::Talk;

/// The longest time in which neither end moves bytes. Less than the silence after which a peer is probed, which
/// is 5 s, and several times what a machine with other work takes.
const MOST_US: u64 = 3_000_000;

impl Talk<'_> {
    /// The time begins.
    pub fn begin(&self) {
        let now = sys::now_us();
        self.state.moved_us.store(now, Ordering::SeqCst);
        self.state.connected_us.store(now, Ordering::SeqCst);
    }

    /// A call of this end has moved bytes, or has found what it waited for.
    pub fn moved(&self, what: &dyn Debug) {
        let now = sys::now_us();
        let since = self
            .state
            .moved_us
            .swap(now, Ordering::SeqCst)
            .max(self.peer.moved_us.load(Ordering::SeqCst))
            .max(self.state.disturbed_us.load(Ordering::SeqCst));
        let stood_us = now.saturating_sub(since);
        if self.certain && stood_us > MOST_US {
            let ms = stood_us / 1000;
            self.state.fault(&format!("{what:?} has ended after a standstill of {ms} ms"));
        }
    }
}
