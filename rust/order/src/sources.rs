// SPDX-License-Identifier: GPL-2.0

//! Files of the modules, as they are.

use crate::attendance::{Attendance, Duty};
use crate::events::Events;
use crate::rdma::cq::Side;
use loom::sync::atomic::{fence, AtomicBool, Ordering};
use loom::sync::Arc;
use loom::thread;

/// Attendance with atomics that exist before the threads.
fn attendance() -> Arc<Attendance> {
    let attendance = Attendance::new();
    attendance.forget();
    attendance.expect_told();
    attendance.is_shared();
    attendance.woken_ns();
    Arc::new(attendance)
}

#[test]
fn an_event_amid_the_end_of_attendance_has_a_thread() {
    loom::model(|| {
        let attendance = attendance();
        attendance.begin();
        let its = attendance.clone();
        let event = thread::spawn(move || its.on_event(Side::Receives, || false));
        let takes = attendance.end();
        let duty = event.join().unwrap();
        assert!(takes || duty == Duty::Worker, "no thread takes the event");
    });
}

#[test]
fn an_event_amid_the_begin_of_attendance_has_a_thread() {
    loom::model(|| {
        let attendance = attendance();
        let asleep = Arc::new(AtomicBool::new(false));
        let (its, sleeper) = (attendance.clone(), asleep.clone());
        let event = thread::spawn(move || {
            let duty = its.on_event(Side::Sends, || false);
            // wq_has_sleeper()
            fence(Ordering::SeqCst);
            duty == Duty::Worker || sleeper.load(Ordering::Relaxed)
        });
        attendance.begin();
        // add_wait_queue(), and the barrier of wait_woken()
        asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let takes = attendance.has_event();
        let is_woken = event.join().unwrap();
        assert!(takes || is_woken, "no thread takes the event");
        assert!(attendance.take_event(Side::Sends), "the event is forgotten");
    });
}

#[test]
fn a_poller_was_told_of_an_event_if_it_says_so() {
    loom::model(|| {
        let attendance = attendance();
        let its = attendance.clone();
        let event = thread::spawn(move || its.on_event(Side::Receives, || true));
        attendance.expect_told();
        let taken = attendance.take_event(Side::Receives);
        let told = attendance.were_told();
        let duty = event.join().unwrap();
        assert!(!told || (taken && duty == Duty::Pollers));
        assert!(taken || attendance.has_event(), "the event is lost");
    });
}

#[test]
fn an_event_of_a_queue_pair_is_reported_or_the_task_runs_again() {
    loom::model(|| {
        let events = Arc::new(Events::new());
        assert!(events.is_empty());
        // The task was queued, and begins to run.
        let pending = Arc::new(AtomicBool::new(true));
        let (its, queued) = (events.clone(), pending.clone());
        let task = thread::spawn(move || {
            queued.store(false, Ordering::Relaxed);
            fence(Ordering::SeqCst);
            its.take(3)
        });
        events.raise(3);
        // queue_work()
        fence(Ordering::SeqCst);
        let again = !pending.swap(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        assert!(task.join().unwrap() || again, "the event is not reported");
    });
}
