// SPDX-License-Identifier: GPL-2.0

//! The wake-ups of those that wait on a socket.
//!
//! Contexts: may sleep. [`Wake::deliver`] runs without the endpoint's lock, because a
//! wake-up may drop the last reference to a socket.

use crate::{
    handle::SockRef,
    net::sk::Sk,
    prelude::KBox,
    zcopy::{
        notice::Notices,
        promise::Promise, //
    }, //
};
use core::ops::Deref;

/// A socket that wake-ups are for.
pub(crate) trait Woken: Deref<Target = Sk> {
    /// All bytes of `promise` are here.
    fn keep_promise(&self, promise: KBox<Promise>);

    /// A writer or reader with pinned memory must look again.
    fn wake_settled(&self);

    /// A connection of `listener` will not be established.
    fn lose_pending(listener: &SockRef);
}

/// The wake-ups that a change of the endpoint needs; delivered after the lock is
/// released.
#[derive(Default)]
pub(crate) struct Wake {
    pub(crate) readable: bool,
    pub(crate) writable: bool,
    pub(crate) connected: bool,
    pub(crate) hangup: bool,
    pub(crate) state: bool,
    /// Tasks that sleep in a call, and no pollers.
    pub(crate) sleepers: bool,
    pub(crate) error: bool,
    /// A writer or reader with pinned memory must look again.
    pub(crate) settled: bool,
    /// Completion notices for writers that have not waited.
    pub(crate) notices: Notices,
    /// A promise with all of its bytes here.
    pub(crate) kept: Option<KBox<Promise>>,
    /// The listener of a connection that will not be established.
    pub(crate) bereaved: Option<SockRef>,
}

impl Wake {
    /// Pollers were told of everything before, and look after this. Tasks that sleep in a call
    /// were not.
    pub(crate) fn spare_pollers(&mut self) {
        let others = self.hangup || self.state || self.error;
        self.sleepers |= others;
        (self.readable, self.hangup) = (false, false);
        (self.state, self.error) = (false, false);
    }

    /// Whether there is anything to deliver.
    pub(crate) fn is_due(&self) -> bool {
        // Asked behind each visit, and mostly answered with no: without a branch for each.
        let is_any = self.readable
            | self.writable
            | self.connected
            | self.hangup
            | self.state
            | self.sleepers
            | self.error
            | self.settled;
        is_any || !self.notices.is_empty() || self.kept.is_some() || self.bereaved.is_some()
    }

    /// Delivers the wake-ups. Without the endpoint's lock.
    pub(crate) fn deliver<S: Woken>(self, sock: &S) {
        if let Some(promise) = self.kept {
            sock.keep_promise(promise);
        }
        if self.settled {
            sock.wake_settled();
        }
        if self.connected {
            sock.wake_connected();
        }
        if self.error {
            sock.wake_error();
        }
        if self.hangup {
            sock.wake_hangup();
        } else if self.state {
            sock.wake_state();
        }
        if self.sleepers {
            sock.wake_sleepers();
        }
        if self.readable && !self.hangup {
            sock.wake_readable();
        }
        if self.writable {
            sock.wake_writable();
        }
        drop(self.notices);
        if let Some(listener) = self.bereaved {
            S::lose_pending(&listener);
        }
    }
}
