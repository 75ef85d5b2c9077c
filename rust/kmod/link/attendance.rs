// SPDX-License-Identifier: GPL-2.0

//! The threads that take the completions of a socket's connection.
//!
//! Three kinds of threads take completions, all of them under the endpoint's lock: a thread
//! in a system call that may wait ("attends", see [`Call`](crate::sock::call::Call)), the
//! workers of the queues, and [`Alarm::Attend`](crate::alarm::Alarm). These rules make sure
//! that no event is lost:
//!
//! - A completion queue reports one event after it was armed. Then its `event` is true, and
//!   a thread has to take completions until there are none. Then the queue is armed again;
//!   the queue of sends only if an event of it is needed (`Inner::needs_sends`).
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
//! - Between calls no event is requested if no waiter is told of news, and an alarm is set instead.
//! - While a connection waits for its RTU, an event starts no worker: the handler of the RTU takes
//!   what has come, or an alarm if there is none.
//! - A retired link belongs to the reaper and the workers.
//!
//! Contexts: any.
//!
//! # More rules of completions
//!
//! - The queue of sends is armed only if an event of it is needed (`Inner::needs_sends`). In the
//!   plainest state of a connection (established, all bytes posted, at most half of the send buffer
//!   and of the send queue in use, no zero copy) the completion of a send only frees memory. Then
//!   the thread that takes receives takes sends as well, and [`Alarm::Attend`](crate::alarm::Alarm)
//!   polls the queue after 200 ms.
//! - The queue of receives is armed if bytes wait for credits, if memory is lent to the peer, or if
//!   a waiter is in the socket's wait queue (epoll always is), has asked for SIGIO or SIGURG, or
//!   has set a callback.
//! - Sends are handled before receives, except failed ones: bytes that came before the failure are
//!   received. A failed send stops the queue pair, so the flushed receives report it if the queue
//!   of sends is not armed.
//! - A thread that attends is in a wait queue of the socket before it polls for the last time and
//!   sleeps. So an event ends the sleep, or is seen before it.
//! - `Inner::callers` counts the awake threads in system calls, under the endpoint's lock. While it
//!   is not 0, `Sock::drive` leaves completions to them.
//! - A signal, a stop, a freezer or a kill ends the sleep, the system call and the attendance; then
//!   the worker has the connection.
//! - An edge-triggered poller may find that a message had no data for it.
//! - A thread in a system call handles at most 64 completions at a time and leaves others to the
//!   worker, so a peer cannot keep the call busy.
//! - The reaper drains a link (`Drain::run`): it moves the queue pair to the error state, posts a
//!   marker on each queue, and takes completions up to the markers. A driver with a drain of its
//!   own does that instead.
//! - Retiring a link starts the workers only if a drain is under way, which waits for them. Workers
//!   drop the completions of a retired link.
//! - `Cq::drop` disables the worker and waits for it, after the queue pair is gone. A later event
//!   of the driver starts nothing.
//! - The queues are allocated as queues that ib_core polls in ib-comp-wq; handler and work are then
//!   replaced.

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
    /// The kinds of events that were taken since `expect_told`, as bits. Under the endpoint's
    /// lock.
    taken: Atomic<i32>,
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
    /// No thread for now. An alarm is for the case that none comes.
    Nobody,
}

/// The oldest completions have been handled; some may concern a call that waits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Taken {
    Nothing,
    Some,
    /// There may be more.
    Full,
    /// The connection has ended, so other completions have no effect.
    Over,
}

/// The next step of the thread that has looked for completions.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// The thread sleeps, or does not poll again. The queues are armed.
    Sleep,
    /// The thread continues a system call, and polls again before the call ends.
    Call,
    /// The thread returns from a system call. Unless a waiter or bytes under way need events, the
    /// queues are not armed, and the next call polls, or the alarm: an event without a thread
    /// starts the worker, which costs more than the message.
    Return,
}

impl Duty {
    /// The same, of a connection that may still wait for its RTU (`embryo`). No program can accept it
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
            taken: Atomic::new(0),
            woken: [const { Atomic::new(0) }; 2],
        }
    }

    /// The completion queue of `side` has reported an event. `are_pollers_enough` says whether
    /// there are pollers, and no other waiter has to be told.
    pub(crate) fn on_event(&self, side: Side, are_pollers_enough: impl FnOnce() -> bool) -> Duty {
        self.event(side).xchg(SEEN, Full);
        if self.threads.load(Relaxed) > 0 {
            of(&self.woken, side).store(now_ns(), Relaxed);
            Duty::Attendants
        } else if are_pollers_enough() {
            // Before they are told, because one that looks at once has to know that they were.
            // Unless a thread has taken the completions already.
            let _ = self.event(side).cmpxchg(SEEN, TOLD, Full);
            Duty::Pollers
        } else {
            Duty::Worker
        }
    }

    /// The caller is a poller that takes completions, and then asks `were_told`. Under the
    /// endpoint's lock, as that.
    pub(crate) fn expect_told(&self) {
        self.taken.store(0, Relaxed);
    }

    /// Whether pollers were told of all events that were taken since `expect_told`, and of one at
    /// least.
    pub(crate) fn were_told(&self) -> bool {
        self.taken.load(Relaxed) == TOLD
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
        let event = self.event(side).xchg(0, Full);
        if event != 0 {
            self.taken.store(self.taken.load(Relaxed) | event, Relaxed);
        }
        event != 0
    }

    fn event(&self, side: Side) -> &Atomic<i32> {
        of(&self.events, side)
    }

    /// There are no completions to take, because there is no link.
    pub(crate) fn forget(&self) {
        for event in &self.events {
            event.xchg(0, Full);
        }
    }
}

/// The one of the two that belongs to `side`.
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
        attendance.expect_told();
        assert_eq!(attendance.on_event(Side::Receives, || true), Duty::Pollers);
        assert!(!attendance.were_told() && attendance.has_event());
        assert!(attendance.take_event(Side::Receives));
        assert!(attendance.were_told());
        // One that was quick has taken the completions.
        attendance.expect_told();
        let quick = || attendance.take_event(Side::Sends);
        assert_eq!(attendance.on_event(Side::Sends, quick), Duty::Pollers);
        assert!(!attendance.were_told() && !attendance.has_event());
    }

    #[test]
    fn pollers_that_were_told_of_one_event_were_not_told_of_another() {
        let attendance = Attendance::new();
        assert_eq!(attendance.on_event(Side::Receives, || true), Duty::Pollers);
        attendance.begin();
        assert_eq!(attendance.on_event(Side::Sends, || true), Duty::Attendants);
        attendance.expect_told();
        assert!(attendance.take_event(Side::Receives) && attendance.take_event(Side::Sends));
        assert!(!attendance.were_told());
        // An event since the first one was taken.
        assert_eq!(
            attendance.on_event(Side::Receives, || true),
            Duty::Attendants
        );
        attendance.expect_told();
        assert!(attendance.take_event(Side::Receives));
        assert!(!attendance.were_told());
    }
}
