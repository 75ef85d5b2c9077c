// SPDX-License-Identifier: GPL-2.0

//! The turn to execute the sends of a queue pair: the poster has it for small ones, else the task.
//!
//! Contexts: the poster's, a softirq, or a task, which may sleep.

use super::{
    execution::{
        By,
        Step, //
    },
    requester,
    soft,
    transfer,
    Execution,
    Qp,
    Sending,
    Turn,
    ATOMIC_BYTES, //
};
use crate::{
    ffi,
    names::{
        event,
        state,
        status, //
    },
    task::{
        self,
        Run, //
    }, //
};
use core::mem::offset_of;

// SAFETY: The offset is the field's. `stop` stops the task, when no code finds the queue pair.
unsafe impl Run for Qp {
    const TASK_OFFSET: usize = offset_of!(Qp, task);

    fn run(&self) {
        self.tell();
        self.deliver_due();
        if self.take_turn() {
            self.drive(usize::MAX, By::Worker);
        }
        self.set_timer();
    }
}

impl soft::Work for Sending {
    fn run(&self) {
        if let Some(qp) = self.device.qp(self.number) {
            qp.send_softly();
        }
    }
}

impl Qp {
    /// Sends the posted datagrams, unless they are many. In softirq context.
    pub(super) fn send_softly(&self) {
        // SAFETY: Nothing here sleeps, and no consumer has called this.
        let holds = unsafe { ffi::rlo_bells_hold_in_softirq() };
        if self.take_turn() {
            self.drive(ATOMIC_BYTES, By::Softirq);
        }
        if holds {
            // SAFETY: Held above, in this thread.
            unsafe { ffi::rlo_bells_release() };
        }
    }

    /// Takes the turn if it is free. After true the caller must call `drive`.
    pub(super) fn take_turn(&self) -> bool {
        let mut outbound = self.outbound.lock();
        match outbound.turn {
            Turn::Held => {
                outbound.again = true;
                false
            }
            Turn::Parked => {
                outbound.turn = Turn::Held;
                true
            }
            Turn::Free => {
                let work = outbound.sends.has_waiting();
                if work {
                    outbound.turn = Turn::Held;
                }
                work
            }
        }
    }

    /// Executes requests until there is none, `budget` bytes were copied, or one has to wait. The
    /// caller has the turn and gives it up here.
    pub(super) fn drive(&self, mut budget: usize, by: By) {
        let worker = by == By::Worker;
        let mut breath = budget;
        loop {
            // SAFETY: The turn is ours, and with it the execution; the reference of the last round
            // is used no more.
            let execution = unsafe { &mut *self.execution.get() };
            if !execution.is_busy() && !self.fetch(execution) {
                return;
            }
            if by == By::Holder && breath - budget >= ATOMIC_BYTES {
                breath = budget;
                transfer::breathe();
            }
            match requester::step(self, execution, &mut budget, by) {
                Step::Done { status, due } => {
                    // SAFETY: Nothing in `finish` sleeps.
                    let holds = worker && unsafe { ffi::rlo_bells_hold() };
                    self.finish(execution, status, due);
                    if holds {
                        // SAFETY: Held above, in this thread.
                        unsafe { ffi::rlo_bells_release() };
                    }
                    if worker {
                        // SAFETY: A worker may sleep.
                        unsafe { ffi::rlo_cond_resched() };
                    }
                }
                Step::Later => {
                    self.outbound.lock().turn = Turn::Parked;
                    self.task.kick();
                    return;
                }
                Step::Wait(nanoseconds) => {
                    let mut outbound = self.outbound.lock();
                    if !outbound.again {
                        outbound.turn = Turn::Parked;
                        drop(outbound);
                        self.task.kick_after(nanoseconds);
                        return;
                    }
                    outbound.again = false;
                    if !worker {
                        outbound.turn = Turn::Parked;
                        drop(outbound);
                        self.task.kick();
                        return;
                    }
                }
            }
        }
    }

    /// Fetches the next request. Returns false if there is none; then the turn is given up.
    fn fetch(&self, execution: &mut Execution) -> bool {
        let mut outbound = self.outbound.lock();
        outbound.again = false;
        match self.state() {
            state::RTS => {
                if outbound.sends.fetch(execution.place()) {
                    let route = outbound.route.clone();
                    let reads = outbound.sends.reads();
                    drop(outbound);
                    execution.begin(route, reads);
                    return true;
                }
            }
            state::ERR | state::SQE => {
                let count = outbound.sends.flush();
                self.port().counters.flushed.add(count as u64);
                self.retire(&mut outbound);
                if outbound.sends.next_due().is_some() {
                    // Completions are held.
                    self.task.kick();
                }
            }
            state::SQD => {
                if outbound.notify_drained {
                    outbound.notify_drained = false;
                    self.raise(event::SQ_DRAINED);
                }
            }
            _ => {}
        }
        outbound.turn = Turn::Free;
        false
    }

    fn finish(&self, execution: &mut Execution, status: u32, due: u64) {
        let target = execution.end();
        let failed = status != status::SUCCESS;
        let stops = failed && self.shape.datagrams;
        if stops {
            // Before its completion is there, because the consumer asks for RTS when it sees that.
            self.stop_sending();
        }
        {
            let mut outbound = self.outbound.lock();
            // It is not busy if a reset has removed it meanwhile.
            if outbound.sends.is_busy() {
                outbound.sends.finish(status, due);
                if stops {
                    let count = outbound.sends.flush();
                    self.port().counters.flushed.add(count as u64);
                }
                self.retire(&mut outbound);
            }
            if outbound.sends.next_due().is_some() {
                // Its completion waits, for the modelled link or because completions are held.
                self.task.kick();
            }
        }
        // It may hold the last reference to a region.
        drop(target);
        if failed && !stops {
            self.fail(None);
        }
    }

    /// A datagram has failed: the send queue stops, until the consumer asks for RTS.
    fn stop_sending(&self) {
        let mut inbound = self.inbound.lock();
        if matches!(self.state(), state::RTS | state::SQD) {
            self.set_state(&mut inbound, state::SQE);
        }
    }

    /// Sets the timer after a run of the task, to the next due time.
    fn set_timer(&self) {
        let next = {
            let mut outbound = self.outbound.lock();
            self.retire(&mut outbound);
            outbound.sends.next_due()
        };
        let first = self.inbound.lock().arrivals.first().map(|first| first.due);
        let Some(due) = [next, first].into_iter().flatten().min() else {
            return;
        };
        let wait = if self.port().is_held() {
            1_000_000
        } else {
            due.saturating_sub(task::now()).max(1)
        };
        self.task.kick_after(wait);
    }
}
