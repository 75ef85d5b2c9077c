// SPDX-License-Identifier: GPL-2.0

//! Waiting on a socket.

use crate::{
    ffi,
    link::{
        attendance::Attendance,
        Taken, //
    },
    object::{
        CallGuard,
        Sock, //
    },
    prelude::*,
    wake::Settled, //
};
use core::marker::PhantomPinned;
use kernel::{
    sync::Arc,
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

/// A task that takes the completions of the socket's link while it waits. See
/// [`Attendance`].
struct Attendant {
    attendance: Arc<Attendance>,
    generation: u64,
}

impl Attendant {
    fn of(sock: &Sock) -> Option<Self> {
        sock.look(|inner| {
            let link = inner.link.as_ref()?;
            Some(Self {
                attendance: link.origin.attendance.clone(),
                generation: link.generation(),
            })
        })
    }

    /// Sleeps by `sleep`, and takes the completions whose event has ended the sleep. If
    /// the socket polls, it looks for completions before, and does not sleep if there are
    /// some.
    fn attend<R>(&self, sock: &Sock, sleep: impl FnOnce() -> R) -> Option<R> {
        self.attendance.begin();
        let found = match sock.busy_poll_us() {
            0 => false,
            us => {
                let found = self.poll(sock, us);
                // After this there is an event for the next completion.
                sock.take_completions(self.generation);
                found
            }
        };
        let result = (!found).then(sleep);
        if self.attendance.end() {
            sock.take_completions(self.generation);
        }
        result
    }

    /// Looks for completions for `us` microseconds at most. Ends early if somebody else
    /// needs the processor, or for a signal. Returns whether there were some.
    fn poll(&self, sock: &Sock, us: u32) -> bool {
        let begin = Instant::<Monotonic>::now();
        loop {
            let taken = sock.visit(|inner| {
                let current = inner.is_current(self.generation);
                current.then(|| inner.on_batch(sock))
            });
            match taken {
                // The link is retired.
                None => return false,
                Some(Taken::Nothing) => {}
                Some(Taken::Some | Taken::Full | Taken::Over) => {
                    sock.net().stats.polled_waits.inc();
                    return true;
                }
            }
            // SAFETY: Plain question about the current task.
            if begin.elapsed().as_micros_ceil() >= us.into() || unsafe { ffi::sdp_must_yield() } {
                return false;
            }
            // SAFETY: An instruction without effect.
            unsafe { ffi::sdp_cpu_relax() };
        }
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
        let mut attendant = None;
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
            if attendant.is_none() {
                attendant = Attendant::of(self);
            }
            *call = None;
            // SAFETY: The entry is queued, by the invariant of `Waiter`.
            let sleep = || unsafe { ffi::sdp_wait_woken(waiter.entry.get(), *timeo) };
            let slept = match &attendant {
                Some(attendant) => attendant.attend(self, sleep),
                None => Some(sleep()),
            };
            *timeo = slept.unwrap_or(*timeo);
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

    /// Microseconds for which a call looks for completions before it sleeps: SO_BUSY_POLL,
    /// or the knob.
    fn busy_poll_us(&self) -> u32 {
        // SAFETY: A single word of a valid socket.
        match unsafe { ffi::sdp_busy_poll_us(self.sk()) } {
            0 => self.net().busy_poll_us(),
            us => us,
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
