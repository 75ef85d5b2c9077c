// SPDX-License-Identifier: GPL-2.0

//! Waiting on a socket, and waking those who wait.

use crate::{
    ffi,
    sock::{
        CallGuard,
        Sock,
        SockRef, //
    },
};
use core::marker::PhantomPinned;
use kernel::{
    prelude::*,
    types::Opaque, //
};

/// Jiffies that never pass.
pub(crate) const FOREVER: isize = isize::MAX;

/// What a change of the endpoint means to others; delivered after the lock is
/// released.
#[derive(Default)]
pub(crate) struct Wake {
    pub(crate) readable: bool,
    pub(crate) writable: bool,
    pub(crate) connected: bool,
    pub(crate) hangup: bool,
    pub(crate) state: bool,
    pub(crate) error: bool,
    pub(crate) urgent: bool,
    /// The listener that waited for a connection which will not come.
    pub(crate) bereaved: Option<SockRef>,
}

impl Wake {
    /// Wakes whom it concerns. Without the endpoint's lock.
    pub(crate) fn deliver(self, sock: &Sock) {
        let sk = sock.sk();
        // SAFETY: `sk` is valid; the callees take care of a socket that nobody
        // has open.
        unsafe {
            if self.connected {
                ffi::sdp_wake_connected(sk);
            }
            if self.urgent {
                ffi::sdp_wake_urgent(sk);
            }
            if self.error {
                ffi::sdp_wake_error(sk);
            }
            if self.hangup {
                ffi::sdp_wake_hangup(sk);
            } else if self.state {
                ffi::sdp_wake_state(sk);
            }
            if self.readable && !self.hangup {
                ffi::sdp_wake_readable(sk);
            }
            if self.writable {
                ffi::sdp_wake_writable(sk);
            }
        }
        if let Some(listener) = self.bereaved {
            listener.look(|inner| {
                if let Some(l) = inner.listener.as_mut() {
                    l.pending = l.pending.saturating_sub(1);
                }
            });
        }
    }
}

/// An entry in a socket's wait queue.
///
/// # Invariants
///
/// `entry` is queued on `sock` from `begin` until drop.
struct Waiter<'a> {
    sock: &'a Sock,
    entry: &'a Opaque<ffi::core::wait_queue_entry>,
    _pin: PhantomPinned,
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        // SAFETY: Queued by the invariant.
        unsafe { ffi::sdp_wait_end(self.sock.sk(), self.entry.get()) };
    }
}

impl Sock {
    /// Waits until `ready` says so, with `lock_sock` released meanwhile.
    ///
    /// `ready` is asked before every sleep, under `lock_sock`, and ends the
    /// wait with `Some`. `timeo` is in jiffies and left with what remains; when
    /// nothing does the result is EAGAIN, and a signal gives EINTR or a
    /// restart, as for TCP. Sleeps.
    pub(crate) fn wait<'a, R>(
        &'a self,
        call: &mut Option<CallGuard<'a>>,
        timeo: &mut isize,
        mut ready: impl FnMut() -> Option<R>,
    ) -> Result<R> {
        let entry = Opaque::<ffi::core::wait_queue_entry>::uninit();
        // SAFETY: The caller has the socket open, so its queue stays; the entry
        // is taken off before it goes out of scope.
        unsafe { ffi::sdp_wait_begin(self.sk(), entry.get()) };
        // INVARIANT: queued just above.
        let waiter = Waiter {
            sock: self,
            entry: &entry,
            _pin: PhantomPinned,
        };
        loop {
            if let Some(r) = ready() {
                return Ok(r);
            }
            if *timeo == 0 {
                return Err(EAGAIN);
            }
            // SAFETY: Plain question about the current task.
            if unsafe { ffi::sdp_signal_pending() } {
                // SAFETY: Plain computation.
                return Err(Error::from_errno(unsafe {
                    ffi::sdp_sock_intr_errno(*timeo)
                }));
            }
            *call = None;
            // SAFETY: The entry is queued.
            *timeo = unsafe { ffi::sdp_wait_woken(waiter.entry.get(), *timeo) };
            *call = Some(self.lock());
        }
    }

    /// The send timeout in jiffies, 0 for a call that must not wait.
    pub(crate) fn send_timeout(&self, nonblock: bool) -> isize {
        // SAFETY: A single word of a valid socket.
        unsafe { ffi::sdp_sock_sndtimeo(self.sk(), nonblock) }
    }

    /// The receive timeout in jiffies, 0 for a call that must not wait.
    pub(crate) fn receive_timeout(&self, nonblock: bool) -> isize {
        // SAFETY: A single word of a valid socket.
        unsafe { ffi::sdp_sock_rcvtimeo(self.sk(), nonblock) }
    }
}
