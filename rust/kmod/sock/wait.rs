// SPDX-License-Identifier: GPL-2.0

//! Waiting on a socket.

use crate::{
    ffi,
    net::{
        task::{
            interruption,
            is_killed, //
        },
        wait::Place, //
    },
    object::Sock,
    prelude::*,
    sock::call::Call, //
};
use kernel::time::{
    msecs_to_jiffies,
    Instant,
    Monotonic, //
};

pub(crate) use crate::net::wait::FOREVER;

/// Time that a sender without memory sleeps before it tries again.
const MEMORY_NAP_MS: u32 = 100;

/// Time for the answer to a cancel and for requests in flight, before the connection is given up. The engine's
/// limit for the answer is shorter, and so is the transport's for a peer that is silent. A peer that
/// has no receive where it has granted a credit has no other limit.
const PINS_MS: u32 = 30_000;

/// A time for a wait.
pub(crate) fn jiffies(ms: u32) -> isize {
    isize::try_from(msecs_to_jiffies(ms)).unwrap_or(FOREVER)
}

/// The events that end a wait early.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum WaitMode {
    /// Any signal, or the timeout.
    Signals,
    /// A fatal signal.
    Kill,
    /// The timeout.
    Timed,
    /// Nothing.
    Endless,
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

impl WaitMode {
    /// The error that ends a wait before it sleeps.
    fn end(self, timeo: isize) -> Option<Error> {
        match self {
            WaitMode::Signals | WaitMode::Timed if timeo == 0 => Some(EAGAIN),
            WaitMode::Signals => interruption(timeo),
            WaitMode::Kill => is_killed().then_some(EINTR),
            WaitMode::Timed | WaitMode::Endless => None,
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
    fn sleepers(&self, exclusive: bool) -> Place<'_> {
        // SAFETY: Calls on the open file wait, and close() before it gives the file up, so the
        // file stays.
        unsafe { self.place(exclusive) }
    }

    /// The entry is queued only around the sleep, so that the completions which the call takes
    /// itself do not wake it.
    fn wait_at<'a, R>(
        &'a self,
        queue: Place<'_>,
        mode: WaitMode,
        call: &mut Call<'a>,
        timeo: &mut isize,
        mut ready: impl FnMut() -> Option<R>,
    ) -> Result<R> {
        loop {
            let end = queue.enter(|sleeper| {
                if let Some(r) = ready() {
                    return Some(Ok(r));
                }
                if let Some(end) = mode.end(*timeo) {
                    let found = if call.look() { ready() } else { None };
                    return Some(found.ok_or(end));
                }
                if call.pause() {
                    match mode {
                        WaitMode::Signals => *timeo = sleeper.sleep(*timeo),
                        WaitMode::Kill => sleeper.sleep_killable(),
                        WaitMode::Timed => *timeo = sleeper.sleep_timed(*timeo),
                        WaitMode::Endless => sleeper.sleep_uninterruptible(),
                    }
                }
                None
            });
            if let Some(end) = end {
                return end;
            }
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
        let peer = call.own_peer();
        self.wait(call, timeo, || match peer.check() {
            Ok(()) => ready().map(Ok),
            Err(e) => Some(Err(e)),
        })?
    }

    /// As `wait`, for callers with pinned memory: every event about that memory wakes
    /// them, and `mode` says which events end the wait. A fatal signal gives EINTR.
    pub(crate) fn wait_settled<'a, R>(
        &'a self,
        call: &mut Call<'a>,
        timeo: &mut isize,
        mode: WaitMode,
        ready: impl FnMut() -> Option<R>,
    ) -> Result<R> {
        let queue = self.settled().place();
        let _waited = Waited {
            sock: self,
            since: Instant::now(),
        };
        self.wait_at(queue, mode, call, timeo, ready)
    }

    /// As `wait_settled`, whatever signals come; EAGAIN after `ms`. Completions that keep the call from
    /// its sleep do not put that off.
    pub(crate) fn wait_settled_within<'a, R>(
        &'a self,
        call: &mut Call<'a>,
        ms: u32,
        mut ready: impl FnMut() -> Option<R>,
    ) -> Result<R> {
        let since = Instant::<Monotonic>::now();
        let mut timeo = jiffies(ms);
        self.wait_settled(call, &mut timeo, WaitMode::Timed, || match ready() {
            Some(found) => Some(Ok(found)),
            None => (since.elapsed().as_millis() >= ms.into()).then_some(Err(EAGAIN)),
        })?
    }

    /// As `wait_settled`, for a call that goes on with the peer: when `ready` says so, EPIPE if
    /// another thread has disconnected the socket or connected it to another peer.
    pub(crate) fn wait_settled_for_peer<'a, R>(
        &'a self,
        call: &mut Call<'a>,
        timeo: &mut isize,
        mode: WaitMode,
        ready: impl FnMut() -> Option<R>,
    ) -> Result<R> {
        let found = self.wait_settled(call, timeo, mode, ready)?;
        call.own_peer().check()?;
        Ok(found)
    }

    /// Waits until `ready` says that nothing uses the memory of the call, whatever signals come.
    pub(crate) fn await_unused<'a, R>(
        &'a self,
        call: &mut Call<'a>,
        ready: impl FnMut() -> Option<R>,
    ) -> Result<R> {
        self.wait_or_break_off(call, PINS_MS, ready)
    }

    /// As `await_unused`; after `ms` the connection is given up.
    pub(crate) fn wait_or_break_off<'a, R>(
        &'a self,
        call: &mut Call<'a>,
        ms: u32,
        mut ready: impl FnMut() -> Option<R>,
    ) -> Result<R> {
        let generation = self.look(|inner| inner.generation());
        if let Ok(found) = self.wait_settled_within(call, ms, &mut ready) {
            return Ok(found);
        }
        self.drive(|inner| {
            if inner.generation() == generation {
                inner.break_off(self);
            }
        });
        // The queue pair goes.
        let mut forever = FOREVER;
        self.wait_settled(call, &mut forever, WaitMode::Endless, ready)
    }

    /// No page could be allocated: waits a moment for others to free some. A caller
    /// that may not wait is woken after that moment, because nothing of this socket
    /// need be in flight.
    pub(crate) fn wait_for_memory<'a>(&'a self, call: &mut Call<'a>, timeo: &mut isize) -> Result {
        if *timeo == 0 {
            self.note_no_space();
            self.refill_soon();
            return Err(EAGAIN);
        }
        self.drive(|_| ());
        let nap = msecs_to_jiffies(MEMORY_NAP_MS) as isize;
        let mut left = nap.min(*timeo);
        let slept = left;
        let end = self.wait_for_peer(call, &mut left, || {
            let over = self.err() != 0 || self.shutdown_bits() & ffi::SEND_SHUTDOWN != 0;
            over.then_some(EPIPE)
        });
        if *timeo != FOREVER {
            *timeo = timeo.saturating_sub(slept.saturating_sub(left)).max(0);
        }
        match end {
            Ok(e) => Err(e),
            Err(e) if e == EAGAIN => Ok(()),
            Err(e) => Err(e),
        }
    }

    /// As `wait_settled`, without `lock_sock`: for callers that others, who hold it, may
    /// wait for. They leave completions to other threads and to the workers. A signal or the
    /// timeout ends the wait.
    pub(crate) fn wait_unlocked<R>(
        &self,
        timeo: &mut isize,
        mut ready: impl FnMut() -> Option<R>,
    ) -> Result<R> {
        loop {
            let end = self.settled().place().enter(|sleeper| {
                if let Some(r) = ready() {
                    return Some(Ok(r));
                }
                if let Some(end) = WaitMode::Signals.end(*timeo) {
                    return Some(Err(end));
                }
                *timeo = sleeper.sleep(*timeo);
                None
            });
            if let Some(end) = end {
                return end;
            }
        }
    }
}
