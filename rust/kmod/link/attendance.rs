// SPDX-License-Identifier: GPL-2.0

//! The threads that take the completions of a socket's connection.
//!
//! Three kinds of threads take completions, all of them under the endpoint's lock: a thread
//! in a system call that may wait ("attends", see [`Call`](crate::sock::call::Call)), the
//! workers of the queues, and [`Alarm::Attend`](crate::alarm::Alarm). These rules make sure
//! that no event is lost:
//!
//! - A completion queue reports one event after it was armed. Then its `event` is true, and
//!   somebody has to take completions until there are none. Then the queue is armed again;
//!   that of sends only if somebody needs an event of it (`Inner::needs_sends`).
//! - If a thread attends, the event wakes it, and does not start the worker.
//! - If there is none, but a task polls the socket, the event wakes that, and its poll() takes
//!   the completions. It does not wake pollers again for what it finds, because the event tells
//!   all of them.
//! - A thread that attends looks for events before it sleeps and before it returns. The event
//!   sets `event` before it reads `threads`, and the thread changes `threads`
//!   before it reads `event`, each with a full barrier between. So at least one of them
//!   sees the other.
//! - An attending thread may be runnable for a long time without a processor, or wait for
//!   memory of its program, and an event loop may be busy. So the event that finds one sets an
//!   alarm as well.
//! - Between calls no event is requested if nobody is told of news, and an alarm is set instead.
//! - While a connection waits for its RTU, an event starts no worker: the handler of the RTU takes
//!   what has come, or an alarm if there is none.
//! - A retired link belongs to the reaper and the workers.
//!
//! Contexts: any.

use crate::rdma::cq::Side;
use kernel::{
    prelude::*,
    sync::atomic::{
        Atomic,
        Full,
        Relaxed, //
    },
    time::{
        ClockSource,
        Monotonic, //
    }, //
};

/// See the module.
pub(crate) struct Attendance {
    /// Number of threads that attend.
    threads: Atomic<i32>,
    /// For each queue, [`SEEN`] or [`TOLD`] after an event, until a thread begins to take
    /// completions.
    events: [Atomic<i32>; 2],
    /// For each queue, the time of the last event that has found a thread, in nanoseconds.
    woken: [Atomic<i64>; 2],
}

/// There was an event.
const SEEN: i32 = 1;
/// Pollers are told of it.
const TOLD: i32 = 2;

/// The thread that an event needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Duty {
    Worker,
    /// The threads that attend have to be woken.
    Attendants,
    /// Pollers have to be told.
    Pollers,
    /// Nobody for now. An alarm is for the case that no thread comes.
    Nobody,
}

impl Duty {
    /// The same, of a connection that may still wait for its RTU (`embryo`). Nobody can accept it
    /// before that comes, and the handler of the RTU takes what has overtaken it.
    pub(crate) fn of(self, embryo: bool) -> Self {
        match self {
            Duty::Worker if embryo => Duty::Nobody,
            other => other,
        }
    }
}

impl Attendance {
    pub(crate) const fn new() -> Self {
        Self {
            threads: Atomic::new(0),
            events: [const { Atomic::new(0) }; 2],
            woken: [const { Atomic::new(0) }; 2],
        }
    }

    /// The completion queue of `side` has reported an event. `are_pollers_enough` says whether
    /// there are pollers, and nobody else has to be told.
    pub(crate) fn on_event(&self, side: Side, are_pollers_enough: impl FnOnce() -> bool) -> Duty {
        self.event(side).xchg(SEEN, Full);
        if self.threads.load(Relaxed) > 0 {
            of(&self.woken, side).store(now_ns(), Relaxed);
            Duty::Attendants
        } else if are_pollers_enough() {
            // Before they are told, because one that looks at once has to know that they were.
            // Unless somebody has taken the completions already.
            let _ = self.event(side).cmpxchg(SEEN, TOLD, Full);
            Duty::Pollers
        } else {
            Duty::Worker
        }
    }

    /// Whether pollers are told of completions that wait.
    pub(crate) fn is_told(&self) -> bool {
        self.events.iter().any(|event| event.load(Relaxed) == TOLD)
    }

    /// Time of the last event that has found a thread, in nanoseconds since the boot.
    pub(crate) fn woken_ns(&self) -> i64 {
        let [receives, sends] = &self.woken;
        receives.load(Relaxed).max(sends.load(Relaxed))
    }

    /// The same for events of sends alone.
    pub(crate) fn sent_ns(&self) -> i64 {
        of(&self.woken, Side::Sends).load(Relaxed)
    }

    /// The calling thread attends from here on.
    pub(crate) fn begin(&self) {
        self.threads.fetch_add(1, Full);
    }

    /// The calling thread no longer attends. Returns whether it has to take completions.
    pub(crate) fn end(&self) -> bool {
        self.threads.fetch_sub(1, Full);
        self.has_event()
    }

    /// Whether another thread than the caller, which attends, does so as well.
    pub(crate) fn is_shared(&self) -> bool {
        self.threads.load(Relaxed) > 1
    }

    /// Whether completions wait that an event has reported.
    pub(crate) fn has_event(&self) -> bool {
        self.events.iter().any(|event| event.load(Relaxed) != 0)
    }

    /// The caller takes the completions. Returns whether there was an event, after which
    /// the queue of `side` has to be armed again. Under the endpoint's lock.
    pub(crate) fn take_event(&self, side: Side) -> bool {
        self.event(side).xchg(0, Full) != 0
    }

    fn event(&self, side: Side) -> &Atomic<i32> {
        of(&self.events, side)
    }

    /// Whoever would take completions has none to take, because there is no link.
    pub(crate) fn forget(&self) {
        for event in &self.events {
            event.xchg(0, Full);
        }
    }
}

/// That of the two which belongs to `side`.
fn of<T>(both: &[T; 2], side: Side) -> &T {
    let [receives, sends] = both;
    match side {
        Side::Receives => receives,
        Side::Sends => sends,
    }
}

/// Nanoseconds since the boot. Any context.
pub(crate) fn now_ns() -> i64 {
    Monotonic::ktime_get()
}

#[kunit_tests(sdp_attendance)]
mod tests {
    use super::*;

    #[test]
    fn an_event_without_threads_is_the_workers() {
        let attendance = Attendance::new();
        assert_eq!(attendance.on_event(Side::Sends, || false), Duty::Worker);
        attendance.begin();
        assert!(attendance.end());
    }

    #[test]
    fn an_event_before_the_rtu_needs_nobody_but_threads_that_attend() {
        let attendance = Attendance::new();
        let event = || attendance.on_event(Side::Receives, || false);
        assert_eq!(event().of(true), Duty::Nobody);
        assert!(attendance.has_event());
        assert_eq!(event().of(false), Duty::Worker);
        attendance.begin();
        assert_eq!(event().of(true), Duty::Attendants);
    }

    #[test]
    fn an_event_wakes_the_threads_that_attend() {
        let attendance = Attendance::new();
        attendance.begin();
        attendance.begin();
        assert!(!attendance.end());
        assert_eq!(
            attendance.on_event(Side::Receives, || false),
            Duty::Attendants
        );
        assert!(!attendance.take_event(Side::Sends));
        assert!(attendance.take_event(Side::Receives));
        assert!(!attendance.take_event(Side::Receives));
        assert!(!attendance.end());
        assert_eq!(attendance.on_event(Side::Receives, || false), Duty::Worker);
    }

    #[test]
    fn the_last_thread_takes_what_it_was_woken_for() {
        let attendance = Attendance::new();
        attendance.begin();
        assert_eq!(attendance.on_event(Side::Sends, || false), Duty::Attendants);
        assert!(attendance.end());
    }

    #[test]
    fn a_new_link_begins_without_events() {
        let attendance = Attendance::new();
        attendance.begin();
        assert_eq!(
            attendance.on_event(Side::Receives, || false),
            Duty::Attendants
        );
        attendance.forget();
        assert!(!attendance.end());
    }

    #[test]
    fn pollers_are_told_where_no_thread_attends() {
        let attendance = Attendance::new();
        assert_eq!(attendance.on_event(Side::Receives, || true), Duty::Pollers);
        assert!(attendance.is_told() && attendance.has_event());
        assert!(attendance.take_event(Side::Receives));
        assert!(!attendance.is_told());
        // One that was quick has taken the completions.
        let quick = || attendance.take_event(Side::Sends);
        assert_eq!(attendance.on_event(Side::Sends, quick), Duty::Pollers);
        assert!(!attendance.is_told() && !attendance.has_event());
        attendance.begin();
        assert_eq!(attendance.on_event(Side::Sends, || true), Duty::Attendants);
        assert!(!attendance.is_told());
    }
}
