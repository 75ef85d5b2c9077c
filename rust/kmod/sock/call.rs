// SPDX-License-Identifier: GPL-2.0

//! A system call that may wait.
//!
//! It holds `lock_sock` except while it sleeps, and takes the completions of the socket's
//! connection from its begin to its end: see [`Attendance`](crate::link::attendance).

use crate::{
    endpoint::Inner,
    link::{
        attendance::now_ns,
        Next,
        Taken, //
    },
    net::{
        sk::Guard,
        task::must_yield, //
    },
    object::Sock,
    prelude::*, //
};
use kernel::time::{
    Instant,
    Monotonic, //
};

/// Instructions between two looks at the queues of a thread that polls.
const PAUSE: usize = 8;

/// See the module.
///
/// # Invariants
///
/// The call is one of the `threads` of the socket's attendance. It is one of the `callers` of
/// the endpoint except between a `pause` that has returned true and `resume`.
pub(crate) struct Call<'a> {
    sock: &'a Sock,
    /// `lock_sock`.
    guard: Option<Guard<'a>>,
    /// Since when it sleeps, in nanoseconds.
    paused: Option<i64>,
    peer: Peer<'a>,
}

/// The peer with which a call began, or none. While the call sleeps, another thread may disconnect
/// the socket and connect it to another peer.
#[derive(Clone, Copy)]
pub(crate) struct Peer<'a> {
    sock: &'a Sock,
    disconnects: c_int,
}

impl Peer<'_> {
    /// EPIPE if the socket was disconnected since the call began: the rest of the call is not for
    /// the next peer.
    pub(crate) fn check(self) -> Result {
        if self.sock.disconnects() == self.disconnects {
            Ok(())
        } else {
            Err(EPIPE)
        }
    }
}

impl Sock {
    /// Begins a call. Sleeps until the other calls on this socket have ended or sleep.
    pub(crate) fn begin(&self) -> Call<'_> {
        let guard = self.lock();
        self.attendance().begin();
        self.look(|inner| inner.callers.on_awake());
        // INVARIANT: as counted just above.
        Call {
            sock: self,
            guard: Some(guard),
            paused: None,
            peer: Peer {
                sock: self,
                disconnects: self.disconnects(),
            },
        }
    }
}

impl<'a> Call<'a> {
    /// `lock_sock`, which the call has unless it sleeps.
    pub(super) fn guard(&self) -> Result<&Guard<'a>> {
        self.guard.as_ref().ok_or(EINVAL)
    }

    /// The peer with which the call began.
    pub(crate) fn own_peer(&self) -> Peer<'a> {
        self.peer
    }

    /// The call is about to sleep. Takes what has completed, and returns false if that may have
    /// been what the call waits for. Otherwise `lock_sock` is released and every
    /// completion of interest wakes the call.
    pub(super) fn pause(&mut self) -> bool {
        let began = now_ns();
        let us = self.busy_poll_us();
        if us > 0 {
            self.guard = None;
            if self.poll(us) {
                let us = micros(began, now_ns());
                self.sock.look(|inner| inner.callers.polling.on_waited(us));
                return false;
            }
        }
        // INVARIANT: `resume` counts the call again.
        let found = self.sock.tend(Next::Sleep, |inner, found| {
            if !found {
                inner.callers.on_asleep();
            }
            found
        });
        if found {
            return false;
        }
        self.guard = None;
        self.paused = Some(began);
        true
    }

    /// The call may not wait. Takes what has completed, if no event has told a thread that
    /// takes it, and returns whether that may have been what the call needs.
    pub(super) fn look(&self) -> bool {
        let silent = |inner: &mut Inner| {
            let link = inner.link.as_ref();
            link.is_some_and(|link| link.is_disarmed() || link.is_send_unannounced())
        };
        let due = self.sock.attendance().has_event() || self.sock.look(silent);
        due && self.sock.tend(Next::Sleep, |_, found| found)
    }

    /// The call goes on: takes what has completed, and `lock_sock`.
    pub(super) fn resume(&mut self) {
        if let Some(began) = self.paused.take() {
            let woken = self.sock.attendance().woken_ns();
            let times = (woken > began).then(|| (micros(began, woken), micros(woken, now_ns())));
            // INVARIANT: as counted here.
            self.sock.tend(Next::Call, |inner, _| {
                inner.callers.on_awake();
                if let Some((waited, wake)) = times {
                    inner.callers.polling.on_woken(wake);
                    inner.callers.polling.on_waited(waited);
                }
            });
        }
        if self.guard.is_none() {
            self.guard = Some(self.sock.lock());
        }
    }

    /// Looks for completions for `us` microseconds at most. Ends early if another task
    /// needs the processor, or for a signal. Returns whether there were some.
    fn poll(&self, us: u32) -> bool {
        let begin = Instant::<Monotonic>::now();
        loop {
            match self.sock.visit(|inner| inner.on_batch(self.sock)) {
                // There is no connection.
                Taken::Over => return false,
                Taken::Nothing => {}
                Taken::Some | Taken::Full => {
                    self.sock.net().stats.polled_waits.inc();
                    return true;
                }
            }
            if begin.elapsed().as_micros_ceil() >= us.into() || must_yield() {
                return false;
            }
            // Others need the endpoint's lock as well.
            for _ in 0..PAUSE {
                kernel::processor::cpu_relax();
            }
        }
    }

    /// Whether it looks for completions before it sleeps.
    pub(crate) fn polls(&self) -> bool {
        self.busy_poll_us() > 0
    }

    /// Microseconds for which a call looks for completions before it sleeps: SO_BUSY_POLL,
    /// or the knob, or as the connection's waits suggest.
    fn busy_poll_us(&self) -> u32 {
        match self.sock.own_busy_poll_us() {
            0 => self
                .sock
                .net()
                .busy_poll_us()
                .unwrap_or_else(|| self.sock.look(|inner| inner.callers.polling.budget_us())),
            us => us,
        }
    }
}

/// The microseconds from one time in nanoseconds to a later one.
fn micros(from: i64, to: i64) -> u32 {
    u32::try_from(to.saturating_sub(from) / 1000).unwrap_or(0)
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        self.guard = None;
        self.sock.tend(Next::Return, |inner, _| {
            // A call that a signal ends was resumed before.
            inner.callers.on_asleep();
        });
        // An event in between has found this call.
        if self.sock.attendance().end() {
            self.sock.tend(Next::Sleep, |_, _| ());
        }
    }
}
