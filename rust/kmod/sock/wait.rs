// SPDX-License-Identifier: GPL-2.0

//! Waiting on a socket, and waking the waiters.

use crate::{
    ffi,
    sock::{
        CallGuard,
        Sock,
        SockRef, //
    },
    zcopy::notice::Notices,
};
use core::marker::PhantomPinned;
use kernel::{
    prelude::*,
    time::{
        Instant,
        Monotonic, //
    },
    types::Opaque, //
};

/// Jiffies that never pass.
pub(crate) const FOREVER: isize = isize::MAX;

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

/// The events that end a wait early.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum WaitMode {
    /// Any signal, or the timeout.
    Signals,
    /// A fatal signal.
    Kill,
    /// Nothing.
    Endless,
}

impl Settled {
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            // SAFETY: The place is initialised by the C call and never moves.
            queue <- Opaque::ffi_init(|slot| unsafe { ffi::sdp_waitqueue_init(slot) }),
        })
    }

    fn wake(&self) {
        // SAFETY: Initialised by `new`.
        unsafe { ffi::sdp_waitqueue_wake(self.queue.get()) };
    }
}

/// An entry in the queue of [`Settled`].
///
/// # Invariants
///
/// `entry` is queued from creation until drop.
struct Sleeper<'a> {
    queue: &'a Settled,
    entry: &'a Opaque<ffi::core::wait_queue_entry>,
}

impl Drop for Sleeper<'_> {
    fn drop(&mut self) {
        // SAFETY: Queued by the invariant.
        unsafe { ffi::sdp_waitqueue_end(self.queue.queue.get(), self.entry.get()) };
    }
}

/// Counts the time that a call has waited, when it is dropped.
struct Waited<'a> {
    sock: &'a Sock,
    since: Instant<Monotonic>,
}

impl Drop for Waited<'_> {
    fn drop(&mut self) {
        let us = (Instant::now() - self.since).as_micros_ceil();
        let us = u32::try_from(us).unwrap_or(u32::MAX);
        self.sock.count(|t| &t.peer_wait_us, us);
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

/// The error with which a pending signal ends a call that has `timeo` jiffies left.
pub(super) fn interruption(timeo: isize) -> Option<Error> {
    // SAFETY: Plain question about the current task, and plain computation.
    unsafe { ffi::sdp_signal_pending().then(|| Error::from_errno(ffi::sdp_sock_intr_errno(timeo))) }
}

impl Sock {
    /// Waits until `ready` says so, with `lock_sock` released meanwhile.
    ///
    /// `ready` is called before every sleep, under `lock_sock`, and ends the wait with
    /// `Some`. `timeo` is in jiffies and is left with the rest. When no time is left
    /// the result is EAGAIN, and a signal gives EINTR or a restart, as for TCP. Sleeps.
    pub(crate) fn wait<'a, R>(
        &'a self,
        call: &mut Option<CallGuard<'a>>,
        timeo: &mut isize,
        ready: impl FnMut() -> Option<R>,
    ) -> Result<R> {
        self.wait_among(false, call, timeo, ready)
    }

    /// As `wait`, for a connection to accept: each connection wakes one waiter. A woken
    /// waiter takes the connection or finds it taken, because `ready` is called before
    /// signals and the timeout are checked.
    pub(crate) fn wait_in_turn<'a, R>(
        &'a self,
        call: &mut Option<CallGuard<'a>>,
        timeo: &mut isize,
        ready: impl FnMut() -> Option<R>,
    ) -> Result<R> {
        self.wait_among(true, call, timeo, ready)
    }

    fn wait_among<'a, R>(
        &'a self,
        exclusive: bool,
        call: &mut Option<CallGuard<'a>>,
        timeo: &mut isize,
        mut ready: impl FnMut() -> Option<R>,
    ) -> Result<R> {
        let entry = Opaque::<ffi::core::wait_queue_entry>::uninit();
        // SAFETY: The queue is that of the socket's file. Calls on the open file wait, and
        // close() before it gives the file up, so the queue stays. The entry is
        // taken off before it goes out of scope, as `waiter` is dropped first.
        unsafe { ffi::sdp_wait_begin(self.sk(), entry.get(), exclusive) };
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
            if let Some(end) = interruption(*timeo) {
                return Err(end);
            }
            *call = None;
            // SAFETY: The entry is queued, by the invariant of `Waiter`.
            *timeo = unsafe { ffi::sdp_wait_woken(waiter.entry.get(), *timeo) };
            *call = Some(self.lock());
        }
    }

    /// As `wait`, for an event of the peer: EPIPE if another thread disconnects the
    /// socket or connects it to another peer.
    pub(crate) fn wait_for_peer<'a, R>(
        &'a self,
        call: &mut Option<CallGuard<'a>>,
        timeo: &mut isize,
        mut ready: impl FnMut() -> Option<R>,
    ) -> Result<R> {
        // SAFETY: `sk` is valid; the count changes under `lock_sock`.
        let disconnects = || unsafe { ffi::sdp_disconnects(self.sk()) };
        let before = disconnects();
        self.wait(call, timeo, || {
            if disconnects() == before {
                ready().map(Ok)
            } else {
                Some(Err(EPIPE))
            }
        })?
    }

    /// Waits until `ready` returns `Some`, with `lock_sock` released meanwhile. As
    /// `wait`, but for callers with pinned memory: every event about that memory wakes
    /// them, and `mode` says which events end the wait. A fatal signal gives EINTR.
    pub(crate) fn wait_settled<'a, R>(
        &'a self,
        call: &mut Option<CallGuard<'a>>,
        timeo: &mut isize,
        mode: WaitMode,
        mut ready: impl FnMut() -> Option<R>,
    ) -> Result<R> {
        let entry = Opaque::<ffi::core::wait_queue_entry>::uninit();
        // SAFETY: The queue lives as long as the socket; the entry is taken off
        // before it goes out of scope, as `sleeper` is dropped first.
        unsafe { ffi::sdp_waitqueue_begin(self.settled().queue.get(), entry.get()) };
        // INVARIANT: queued just above.
        let sleeper = Sleeper {
            queue: self.settled(),
            entry: &entry,
        };
        let _waited = Waited {
            sock: self,
            since: Instant::now(),
        };
        loop {
            if let Some(r) = ready() {
                return Ok(r);
            }
            match mode {
                WaitMode::Signals => {
                    if *timeo == 0 {
                        return Err(EAGAIN);
                    }
                    if let Some(end) = interruption(*timeo) {
                        return Err(end);
                    }
                }
                WaitMode::Kill => {
                    // SAFETY: Plain question about the current task.
                    if unsafe { ffi::sdp_fatal_signal_pending() } {
                        return Err(EINTR);
                    }
                }
                WaitMode::Endless => {}
            }
            *call = None;
            // SAFETY: The entry is queued, by the invariant of `Sleeper`.
            unsafe {
                let entry = sleeper.entry.get();
                match mode {
                    WaitMode::Signals => {
                        *timeo = ffi::sdp_waitqueue_sleep(entry, true, *timeo);
                    }
                    WaitMode::Kill => {
                        ffi::sdp_waitqueue_sleep_killable(entry);
                    }
                    WaitMode::Endless => {
                        ffi::sdp_waitqueue_sleep(entry, false, FOREVER);
                    }
                }
            }
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
