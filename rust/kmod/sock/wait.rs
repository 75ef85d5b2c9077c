// SPDX-License-Identifier: GPL-2.0

//! Waiting on a socket.

use crate::{
    ffi,
    object::Sock,
    prelude::*,
    sock::call::Call, //
};
use core::marker::PhantomData;
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

/// A wait queue of a socket.
#[derive(Clone, Copy)]
struct Queue<'a> {
    head: *mut ffi::core::wait_queue_head,
    /// A wake-up for one waiter goes to one of these.
    exclusive: bool,
    _sock: PhantomData<&'a Sock>,
}

/// An entry in a wait queue.
///
/// # Invariants
///
/// `entry` is queued from creation until drop.
struct Sleeper<'a> {
    queue: Queue<'a>,
    entry: &'a Opaque<ffi::core::wait_queue_entry>,
}

impl<'a> Sleeper<'a> {
    fn new(queue: Queue<'a>, entry: &'a Opaque<ffi::core::wait_queue_entry>) -> Self {
        // SAFETY: The queue lives as long as the socket's file or the socket, both longer than
        // the call that waits. The entry is taken off before the borrow ends.
        unsafe { ffi::sdp_waitqueue_begin(queue.head, entry.get(), queue.exclusive) };
        // INVARIANT: queued just above.
        Self { queue, entry }
    }

    /// Sleeps until a wake-up since the creation, or as `mode` says. Returns the jiffies
    /// that are left of `timeo`.
    fn sleep(&self, mode: WaitMode, timeo: isize) -> isize {
        let entry = self.entry.get();
        // SAFETY: The entry is queued by the invariant.
        unsafe {
            match mode {
                WaitMode::Signals => return ffi::sdp_waitqueue_sleep(entry, true, timeo),
                WaitMode::Kill => ffi::sdp_waitqueue_sleep_killable(entry),
                WaitMode::Endless => ffi::sdp_waitqueue_sleep(entry, false, FOREVER),
            };
        }
        timeo
    }
}

impl Drop for Sleeper<'_> {
    fn drop(&mut self) {
        // SAFETY: Queued by the invariant.
        unsafe { ffi::sdp_waitqueue_end(self.queue.head, self.entry.get()) };
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

/// The error with which a pending signal ends a call that has `timeo` jiffies left.
pub(super) fn interruption(timeo: isize) -> Option<Error> {
    // SAFETY: Plain question about the current task, and plain computation.
    unsafe { ffi::sdp_signal_pending().then(|| Error::from_errno(ffi::sdp_sock_intr_errno(timeo))) }
}

impl WaitMode {
    /// The error that ends a wait before it sleeps.
    fn end(self, timeo: isize) -> Option<Error> {
        match self {
            WaitMode::Signals if timeo == 0 => Some(EAGAIN),
            WaitMode::Signals => interruption(timeo),
            // SAFETY: Plain question about the current task.
            WaitMode::Kill => unsafe { ffi::sdp_fatal_signal_pending() }.then_some(EINTR),
            WaitMode::Endless => None,
        }
    }
}

impl Sock {
    /// Waits until `ready` says so, with `lock_sock` released meanwhile.
    ///
    /// `ready` is called before every sleep, under `lock_sock`, and ends the wait with
    /// `Some`. `timeo` is in jiffies and is left with the rest. When no time is left
    /// the result is EAGAIN, and a signal gives EINTR or a restart, as for TCP. Sleeps.
    pub(crate) fn wait<'a, R>(
        &'a self,
        call: &mut Call<'a>,
        timeo: &mut isize,
        ready: impl FnMut() -> Option<R>,
    ) -> Result<R> {
        let queue = self.sleepers(false);
        self.wait_at(queue, WaitMode::Signals, call, timeo, ready)
    }

    /// As `wait`, for a connection to accept: each connection wakes one waiter. A woken
    /// waiter takes the connection or finds it taken, because `ready` is called before
    /// signals and the timeout are checked.
    pub(crate) fn wait_in_turn<'a, R>(
        &'a self,
        call: &mut Call<'a>,
        timeo: &mut isize,
        ready: impl FnMut() -> Option<R>,
    ) -> Result<R> {
        let queue = self.sleepers(true);
        self.wait_at(queue, WaitMode::Signals, call, timeo, ready)
    }

    /// The queue of the socket's file.
    fn sleepers(&self, exclusive: bool) -> Queue<'_> {
        Queue {
            // SAFETY: Calls on the open file wait, and close() before it gives the file up, so
            // the queue stays.
            head: unsafe { ffi::sdp_sk_sleep(self.sk()) },
            exclusive,
            _sock: PhantomData,
        }
    }

    /// The entry is queued only around the sleep, so that the completions which the call takes
    /// itself do not wake it.
    fn wait_at<'a, R>(
        &'a self,
        queue: Queue<'_>,
        mode: WaitMode,
        call: &mut Call<'a>,
        timeo: &mut isize,
        mut ready: impl FnMut() -> Option<R>,
    ) -> Result<R> {
        loop {
            let entry = Opaque::<ffi::core::wait_queue_entry>::uninit();
            let sleeper = Sleeper::new(queue, &entry);
            if let Some(r) = ready() {
                return Ok(r);
            }
            if let Some(end) = mode.end(*timeo) {
                let found = if call.look() { ready() } else { None };
                return found.ok_or(end);
            }
            if call.pause() {
                *timeo = sleeper.sleep(mode, *timeo);
            }
            drop(sleeper);
            call.resume();
            if let Some(r) = ready() {
                return Ok(r);
            }
        }
    }

    /// As `wait`, for an event of the peer: EPIPE if another thread disconnects the
    /// socket or connects it to another peer.
    pub(crate) fn wait_for_peer<'a, R>(
        &'a self,
        call: &mut Call<'a>,
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

    /// As `wait`, but for callers with pinned memory: every event about that memory wakes
    /// them, and `mode` says which events end the wait. A fatal signal gives EINTR.
    pub(crate) fn wait_settled<'a, R>(
        &'a self,
        call: &mut Call<'a>,
        timeo: &mut isize,
        mode: WaitMode,
        ready: impl FnMut() -> Option<R>,
    ) -> Result<R> {
        let queue = Queue {
            head: self.settled().queue(),
            exclusive: false,
            _sock: PhantomData,
        };
        let _waited = Waited {
            sock: self,
            since: Instant::now(),
        };
        self.wait_at(queue, mode, call, timeo, ready)
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
