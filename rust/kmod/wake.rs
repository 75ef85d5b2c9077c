// SPDX-License-Identifier: GPL-2.0

//! The wake-ups of those that wait on a socket.
//!
//! Contexts: may sleep. [`Wake::deliver`] runs without the endpoint's lock, because a
//! wake-up may drop the last reference to a socket.

use crate::{
    ffi,
    object::{
        Sock,
        SockRef, //
    },
    prelude::*,
    zcopy::notice::Notices, //
};
use kernel::types::Opaque;

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
    /// The listener of a connection that will not be established.
    pub(crate) bereaved: Option<SockRef>,
}

impl Wake {
    /// Delivers the wake-ups. Without the endpoint's lock.
    pub(crate) fn deliver(self, sock: &Sock) {
        let sk = sock.sk();
        if self.settled {
            sock.settled().wake();
        }
        // SAFETY: `sk` is valid; the callees take care of a socket that nobody
        // has open.
        unsafe {
            if self.connected {
                ffi::sdp_wake_connected(sk);
            }
            if self.error {
                ffi::sdp_wake_error(sk);
            }
            if self.hangup {
                ffi::sdp_wake_hangup(sk);
            } else if self.state {
                ffi::sdp_wake_state(sk);
            }
            if self.sleepers {
                ffi::sdp_wake_sleepers(sk);
            }
            if self.readable && !self.hangup {
                ffi::sdp_wake_readable(sk);
            }
            if self.writable {
                ffi::sdp_wake_writable(sk);
            }
        }
        drop(self.notices);
        if let Some(listener) = self.bereaved {
            listener.look(|inner| {
                if let Some(l) = inner.listener.as_mut() {
                    l.pending = l.pending.saturating_sub(1);
                }
            });
        }
    }
}

/// The wait queue of callers with pinned memory: they may have to wait although a
/// signal is pending.
#[pin_data]
pub(crate) struct Settled {
    #[pin]
    queue: Opaque<ffi::core::wait_queue_head>,
}

// SAFETY: A wait queue belongs to no thread.
unsafe impl Send for Settled {}
// SAFETY: C changes a wait queue with the lock that is in it.
unsafe impl Sync for Settled {}

impl Settled {
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            // SAFETY: The place is initialised by the C call and never moves.
            queue <- Opaque::ffi_init(|slot| unsafe { ffi::sdp_waitqueue_init(slot) }),
        })
    }

    /// Wakes all callers. Any context.
    pub(crate) fn wake(&self) {
        // SAFETY: Initialised by `new`.
        unsafe { ffi::sdp_waitqueue_wake(self.queue.get()) };
    }

    pub(crate) fn queue(&self) -> *mut ffi::core::wait_queue_head {
        self.queue.get()
    }
}
