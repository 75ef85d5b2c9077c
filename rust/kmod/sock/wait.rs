// SPDX-License-Identifier: GPL-2.0

//! Waiting on a socket.

use crate::{
    ffi,
    object::{
        CallGuard,
        Sock, //
    },
    prelude::*,
    wake::Settled, //
};
use core::marker::PhantomPinned;
use kernel::{
    time::{
        Instant,
        Monotonic, //
    },
    types::Opaque, //
};

/// Jiffies that never pass.
pub(crate) const FOREVER: isize = isize::MAX;

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
        unsafe { ffi::sdp_waitqueue_end(self.queue.queue(), self.entry.get()) };
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
        unsafe { ffi::sdp_waitqueue_begin(self.settled().queue(), entry.get()) };
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
