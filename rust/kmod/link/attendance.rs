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
//! - A thread that attends looks for events before it sleeps and before it returns. The event
//!   sets `event` before it reads `threads`, and the thread changes `threads`
//!   before it reads `event`, each with a full barrier between. So at least one of them
//!   sees the other.
//! - An attending thread may be runnable for a long time without a processor, or wait for
//!   memory of its program. So the event that finds it sets the alarm as well.
//! - A retired link belongs to the worker alone, which retiring starts.
//!
//! Contexts: any.

use crate::verbs::cq::Side;
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
    /// For each queue, 1 after an event, until a thread begins to take completions.
    events: [Atomic<i32>; 2],
    /// Time of the last event that has found a thread, in nanoseconds.
    woken: Atomic<i64>,
}

/// The thread that an event needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Duty {
    Worker,
    /// The threads that attend have to be woken.
    Attendants,
}

impl Attendance {
    pub(crate) const fn new() -> Self {
        Self {
            threads: Atomic::new(0),
            events: [const { Atomic::new(0) }; 2],
            woken: Atomic::new(0),
        }
    }

    /// The completion queue of `side` has reported an event.
    pub(crate) fn on_event(&self, side: Side) -> Duty {
        self.event(side).xchg(1, Full);
        if self.threads.load(Relaxed) > 0 {
            self.woken.store(now_ns(), Relaxed);
            Duty::Attendants
        } else {
            Duty::Worker
        }
    }

    /// Time of the last event that has found a thread, in nanoseconds since the boot.
    pub(crate) fn woken_ns(&self) -> i64 {
        self.woken.load(Relaxed)
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
        let [receives, sends] = &self.events;
        match side {
            Side::Receives => receives,
            Side::Sends => sends,
        }
    }

    /// Whoever would take completions has none to take, because there is no link.
    pub(crate) fn forget(&self) {
        for event in &self.events {
            event.xchg(0, Full);
        }
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
        assert_eq!(attendance.on_event(Side::Sends), Duty::Worker);
        attendance.begin();
        assert!(attendance.end());
    }

    #[test]
    fn an_event_wakes_the_threads_that_attend() {
        let attendance = Attendance::new();
        attendance.begin();
        attendance.begin();
        assert!(!attendance.end());
        assert_eq!(attendance.on_event(Side::Receives), Duty::Attendants);
        assert!(!attendance.take_event(Side::Sends));
        assert!(attendance.take_event(Side::Receives));
        assert!(!attendance.take_event(Side::Receives));
        assert!(!attendance.end());
        assert_eq!(attendance.on_event(Side::Receives), Duty::Worker);
    }

    #[test]
    fn the_last_thread_takes_what_it_was_woken_for() {
        let attendance = Attendance::new();
        attendance.begin();
        assert_eq!(attendance.on_event(Side::Sends), Duty::Attendants);
        assert!(attendance.end());
    }

    #[test]
    fn a_new_link_begins_without_events() {
        let attendance = Attendance::new();
        attendance.begin();
        assert_eq!(attendance.on_event(Side::Receives), Duty::Attendants);
        attendance.forget();
        assert!(!attendance.end());
    }
}
