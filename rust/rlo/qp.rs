// SPDX-License-Identifier: GPL-2.0

//! Queue pairs: their two queues, their state, and the turn to execute their sends.
//!
//! A queue pair has two sides. The *outbound* side is its send queue. The owner of its turn
//! executes requests, one after the other: the poster for small ones, or the queue pair's task. The
//! *inbound* side is its receive queue and the requests of its peer. Only one peer is connected,
//! which executes one request at a time.
//!
//! Contexts: posting and all requests of peers work in any context; creation, [`Qp::reset`] and
//! [`Qp::stop`] sleep. Locks: `outbound` and `inbound` are never held together; the lock of a
//! completion queue or of a shared receive queue is taken under either.

use crate::{
    cq::Cq,
    device::Device,
    ffi,
    irq_lock::{
        new_spinlock_irq,
        SpinLockIrq, //
    },
    joint::Joint,
    names::{
        event,
        state,
        status, //
    },
    prelude::*,
    receive::{
        Receive,
        Receives,
        Srq, //
    },
    requester::{
        self,
        By,
        Execution, //
    },
    send::{
        Head,
        Sends, //
    },
    soft::Soft,
    task::{
        self,
        Run,
        Task, //
    },
};
use core::{
    cell::UnsafeCell,
    mem::offset_of, //
};
use kernel::sync::{
    atomic::{
        Acquire,
        Atomic,
        Relaxed,
        Release, //
    },
    Arc, //
};

/// Bytes that a poster copies at most where it cannot be preempted anyway, perhaps with interrupts
/// disabled.
const ATOMIC_BYTES: usize = 65536;

/// The owner of the turn, which executes the sends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Turn {
    Free,
    Held,
    /// None, but a request is in progress: the task continues it.
    Parked,
}

/// The connection's parameters for the outbound side.
#[derive(Clone)]
pub(crate) struct Route {
    pub(crate) joint: Arc<Joint>,
    pub(crate) dest: u32,
    pub(crate) psn: u32,
    /// Nanoseconds; 0: unlimited.
    pub(crate) timeout: u64,
    pub(crate) retries: u32,
    /// 7: unlimited.
    pub(crate) rnr_retries: u32,
    pub(crate) max_reads: u32,
}

pub(crate) struct Outbound {
    state: u32,
    turn: Turn,
    /// The owner of the turn must look again, because something has changed.
    again: bool,
    pub(crate) sends: Sends,
    pub(crate) route: Option<Route>,
    notify_drained: bool,
}

impl Outbound {
    /// Whether requests wait to be executed, or to be completed.
    fn has_work(&self) -> bool {
        self.turn == Turn::Parked || self.sends.has_waiting() || self.sends.next_due().is_some()
    }
}

/// The connection's parameters for the inbound side.
pub(crate) struct Origin {
    pub(crate) joint: Arc<Joint>,
    pub(crate) from: u32,
    pub(crate) psn: u32,
    pub(crate) rights: u32,
    pub(crate) rnr_timer: u64,
    pub(crate) max_reads: u32,
}

/// The completion of a receive that the modelled link has not delivered yet.
struct Arrival {
    entry: ffi::ib_wc,
    solicited: bool,
    due: u64,
}

pub(crate) struct Inbound {
    pub(crate) state: u32,
    pub(crate) receives: Option<Receives>,
    /// Requests of peers in progress: at most one, except for datagrams.
    pub(crate) busy: u32,
    /// The receive of a message that its sender abandoned.
    partial: Option<Receive>,
    arrivals: KVVec<Arrival>,
    pub(crate) origin: Option<Origin>,
    /// A sender that waits for a posted receive.
    pub(crate) waiter: Option<Arc<Qp>>,
    /// A message has arrived in RTR.
    pub(crate) established: bool,
}

// SAFETY: The pointers in completions are the consumer's, who may use them anywhere.
unsafe impl Send for Inbound {}

/// The attributes that `ib_query_qp` returns and later transitions need.
pub(crate) struct Attributes(pub(crate) ffi::ib_qp_attr);

// SAFETY: Its pointers are not used.
unsafe impl Send for Attributes {}

/// The parameters with which a queue pair was created.
pub(crate) struct Shape {
    pub(crate) device: Arc<Device>,
    pub(crate) pd: usize,
    pub(crate) datagrams: bool,
    pub(crate) send_cq: Arc<Cq>,
    pub(crate) recv_cq: Arc<Cq>,
    pub(crate) srq: Option<Arc<Srq>>,
    pub(crate) cap: ffi::ib_qp_cap,
    pub(crate) signal_all: bool,
}

/// A queue pair.
#[pin_data]
pub(crate) struct Qp {
    ib: *mut ffi::ib_qp,
    pub(crate) number: u32,
    pub(crate) shape: Shape,
    #[pin]
    pub(crate) attributes: SpinLockIrq<Attributes>,
    #[pin]
    pub(crate) outbound: SpinLockIrq<Outbound>,
    #[pin]
    pub(crate) inbound: SpinLockIrq<Inbound>,
    /// A copy of the inbound side's state, which a copying thread reads between two pieces.
    live: Atomic<u32>,
    /// Pending asynchronous events, one bit each.
    events: Atomic<u32>,
    /// Accessed by the owner of the turn only.
    execution: UnsafeCell<Execution>,
    #[pin]
    task: Task<Qp>,
    /// Sends datagrams before the task would.
    soft: Option<Pin<KBox<Soft>>>,
}

// SAFETY: `ib` is handed back to ib_core; `execution` is used by who has the turn alone.
unsafe impl Send for Qp {}
// SAFETY: Every field is constant, atomic or has a lock, but for `execution`, which belongs to the
// turn, and the turn is given and taken under a lock.
unsafe impl Sync for Qp {}

// SAFETY: The offset is that of the field. `stop` stops the task, when nobody finds the queue pair.
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

impl Qp {
    pub(crate) fn new(ib: *mut ffi::ib_qp, number: u32, shape: Shape) -> Result<Arc<Self>> {
        let cap = shape.cap;
        let sends = Sends::new(
            cap.max_send_wr,
            cap.max_send_sge,
            cap.max_inline_data,
            shape.signal_all,
        )?;
        let receives = match shape.srq {
            Some(_) => None,
            None => Some(Receives::new(cap.max_recv_wr, cap.max_recv_sge)?),
        };
        let soft = if shape.datagrams {
            Some(Soft::new(shape.device.clone(), number)?)
        } else {
            None
        };
        Arc::pin_init(
            pin_init!(Self {
                ib,
                number,
                shape,
                attributes <- new_spinlock_irq!(Attributes(ffi::ib_qp_attr::default())),
                outbound <- new_spinlock_irq!(Outbound {
                    state: state::RESET,
                    turn: Turn::Free,
                    again: false,
                    sends,
                    route: None,
                    notify_drained: false,
                }),
                inbound <- new_spinlock_irq!(Inbound {
                    state: state::RESET,
                    receives,
                    busy: 0,
                    partial: None,
                    arrivals: KVVec::new(),
                    origin: None,
                    waiter: None,
                    established: false,
                }),
                live: Atomic::new(state::RESET),
                events: Atomic::new(0),
                execution: UnsafeCell::new(Execution::new()),
                task <- Task::new(),
                soft,
            }),
            GFP_KERNEL,
        )
    }

    pub(crate) fn ib(&self) -> *mut ffi::ib_qp {
        self.ib
    }

    /// Another reference to the same.
    pub(crate) fn this(&self) -> Option<Arc<Self>> {
        self.shape.device.qp(self.number)
    }

    /// Whether `device` no longer has it under its number.
    pub(crate) fn is_stopped(&self, device: &Arc<Device>) -> bool {
        self.state() == state::RESET || !Arc::ptr_eq(&self.shape.device, device)
    }

    /// Whether it has failed; a peer's copy checks this.
    pub(crate) fn is_failed(&self) -> bool {
        !matches!(
            self.live.load(Relaxed),
            state::RTR | state::RTS | state::SQD | state::SQE
        )
    }

    pub(crate) fn state(&self) -> u32 {
        self.live.load(Acquire)
    }

    // Posting.

    /// Posts a send.
    ///
    /// # Errors
    ///
    /// `EINVAL` before RTS and for requests that the queue pair does not support, `ENOMEM` if the
    /// queue is full.
    ///
    /// # Safety
    ///
    /// Where the request is inline, the addresses of its pieces are the kernel's own, and valid.
    pub(crate) unsafe fn post_send(&self, head: Head, pieces: &[ffi::ib_sge]) -> Result {
        let mut outbound = self.outbound.lock();
        match outbound.state {
            state::RTS | state::SQD | state::SQE | state::ERR => {}
            _ => return Err(EINVAL),
        }
        // SAFETY: Inline pieces are the kernel's own and valid, by the caller's promise.
        unsafe { outbound.sends.push(head, pieces) }
    }

    /// Executes the posted requests if they are small.
    pub(crate) fn posted(&self) {
        if let Some(soft) = self.soft.as_ref() {
            let mut outbound = self.outbound.lock();
            outbound.again = true;
            let needed = outbound.turn != Turn::Held && outbound.has_work();
            drop(outbound);
            if needed {
                soft.kick();
            }
        } else if self.take_turn() {
            // SAFETY: Nothing here sleeps, because posts come from any context.
            let holds = unsafe { ffi::rlo_bells_hold() };
            let most = if holds { usize::MAX } else { ATOMIC_BYTES };
            let most = self.shape.device.limits.inline_bytes.min(most);
            self.drive(most, By::Poster);
            if holds {
                // SAFETY: Held above, in this thread.
                unsafe { ffi::rlo_bells_release() };
            }
        }
    }

    /// Sends the posted datagrams, unless they are many. In softirq context.
    pub(crate) fn send_softly(&self) {
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

    pub(crate) fn post_receive(&self, id: u64, pieces: &[ffi::ib_sge]) -> Result {
        let waiter = {
            let mut inbound = self.inbound.lock();
            if inbound.state == state::RESET {
                return Err(EINVAL);
            }
            let Some(receives) = inbound.receives.as_mut() else {
                return Err(EINVAL);
            };
            receives.push(id, pieces)?;
            if inbound.state == state::ERR && inbound.busy == 0 {
                self.flush_receives(&mut inbound);
            }
            inbound.waiter.take()
        };
        if let Some(waiter) = waiter {
            waiter.wake();
        }
        Ok(())
    }

    // The turn.

    /// Takes the turn if it is free. After true the caller must call `drive`.
    fn take_turn(&self) -> bool {
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

    /// Has a waiting request tried again. Called under the lock: a reset comes before the task is
    /// stopped, and afterwards there may be no kick.
    pub(crate) fn wake(&self) {
        let mut outbound = self.outbound.lock();
        outbound.again = true;
        let held = outbound.turn == Turn::Held;
        if outbound.has_work() && !held && outbound.state != state::RESET {
            self.task.kick();
        }
    }

    /// Executes requests until there is none, `budget` bytes were copied, or one has to wait. The
    /// caller has the turn and gives it up here.
    fn drive(&self, mut budget: usize, by: By) {
        let worker = by == By::Worker;
        loop {
            // SAFETY: The turn is ours, and with it the execution; the reference of the last round
            // is used no more.
            let execution = unsafe { &mut *self.execution.get() };
            if !execution.is_busy() && !self.fetch(execution) {
                return;
            }
            match requester::step(self, execution, &mut budget, by) {
                requester::Step::Done { status, due } => {
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
                requester::Step::Later => {
                    self.outbound.lock().turn = Turn::Parked;
                    self.task.kick();
                    return;
                }
                requester::Step::Wait(nanoseconds) => {
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
        match outbound.state {
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
                self.shape.device.counters.flushed.add(count as u64);
                self.retire(&mut outbound);
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
        let failed = {
            let mut outbound = self.outbound.lock();
            // It is not busy if a reset has removed it meanwhile.
            if outbound.sends.is_busy() {
                outbound.sends.finish(status, due);
                self.retire(&mut outbound);
            }
            status != status::SUCCESS && outbound.state != state::ERR
        };
        // It may hold the last reference to a region.
        drop(target);
        if failed {
            if self.shape.datagrams {
                // A failed datagram stops the send queue only.
                let mut outbound = self.outbound.lock();
                if outbound.state == state::RTS {
                    outbound.state = state::SQE;
                }
            } else {
                self.fail(None);
            }
        }
        if due != 0 {
            self.task.kick();
        }
    }

    // Completions.

    /// Adds the completions of sends that are due.
    fn retire(&self, outbound: &mut Outbound) {
        if self.shape.device.is_held() && outbound.state != state::ERR {
            return;
        }
        let now = match outbound.sends.next_due() {
            None => return,
            Some(0) if !self.shape.device.is_modelled() => 0,
            Some(_) if outbound.state == state::ERR => u64::MAX,
            Some(_) => task::now(),
        };
        while let Some(retired) = outbound.sends.retire(now) {
            if !retired.signaled {
                continue;
            }
            let entry = ffi::ib_wc {
                __bindgen_anon_1: ffi::ib_wc__bindgen_ty_1 { wr_id: retired.id },
                status: retired.status,
                opcode: retired.opcode,
                byte_len: retired.len as u32,
                qp: self.ib,
                ..Default::default()
            };
            if !self.shape.send_cq.push(entry, false) {
                self.overran();
            }
        }
    }

    /// Adds the completion of a receive, now or when it is due.
    pub(crate) fn receive_done(
        &self,
        inbound: &mut Inbound,
        entry: ffi::ib_wc,
        solicited: bool,
        due: u64,
    ) {
        if (due != 0 || !inbound.arrivals.is_empty())
            && inbound.arrivals.len() < inbound.arrivals.capacity()
        {
            let _ = inbound.arrivals.push_within_capacity(Arrival {
                entry,
                solicited,
                due,
            });
            self.task.kick();
        } else if !self.shape.recv_cq.push(entry, solicited) {
            self.overran();
        }
    }

    fn deliver_due(&self) {
        let mut inbound = self.inbound.lock();
        if inbound.arrivals.is_empty() || self.shape.device.is_held() {
            return;
        }
        let now = task::now();
        while inbound
            .arrivals
            .first()
            .is_some_and(|first| first.due <= now)
        {
            if let Ok(arrival) = inbound.arrivals.remove(0) {
                if !self.shape.recv_cq.push(arrival.entry, arrival.solicited) {
                    self.overran();
                }
            }
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
        let wait = if self.shape.device.is_held() {
            1_000_000
        } else {
            due.saturating_sub(task::now()).max(1)
        };
        self.task.kick_after(wait);
    }

    fn overran(&self) {
        self.shape.device.counters.cq_overruns.one();
        self.live.store(state::ERR, Relaxed);
        self.raise(event::QP_FATAL);
    }

    /// The completion of a receive, without the fields of its kind.
    pub(crate) fn receive_entry(&self, id: u64, status: u32) -> ffi::ib_wc {
        ffi::ib_wc {
            __bindgen_anon_1: ffi::ib_wc__bindgen_ty_1 { wr_id: id },
            status,
            opcode: ffi::ib_wc_opcode_IB_WC_RECV,
            qp: self.ib,
            ..Default::default()
        }
    }

    /// Completes all receives as flushed, after all earlier completions. No request of a peer is in
    /// progress.
    pub(crate) fn flush_receives(&self, inbound: &mut Inbound) {
        for arrival in inbound.arrivals.iter() {
            self.shape.recv_cq.push(arrival.entry, arrival.solicited);
        }
        inbound.arrivals.clear();
        let mut count = 0;
        if let Some(receive) = inbound.partial.take() {
            self.shape
                .recv_cq
                .push(self.receive_entry(receive.id, status::WR_FLUSH_ERR), true);
            count += 1;
        }
        if let Some(receives) = inbound.receives.as_mut() {
            while let Some(receive) = receives.flush() {
                self.shape
                    .recv_cq
                    .push(self.receive_entry(receive.id, status::WR_FLUSH_ERR), true);
                count += 1;
            }
        }
        self.shape.device.counters.flushed.add(count);
    }

    /// Ends a peer's request; `receive` is that of a message that its sender abandoned.
    pub(crate) fn release(&self, receive: Option<Receive>) {
        let mut inbound = self.inbound.lock();
        inbound.busy -= 1;
        if receive.is_some() {
            inbound.partial = receive;
        }
        self.settled(&mut inbound);
    }

    /// Called after `busy` was cleared.
    pub(crate) fn settled(&self, inbound: &mut Inbound) {
        if inbound.state == state::ERR && inbound.busy == 0 {
            self.flush_receives(inbound);
            if self.shape.srq.is_some() {
                self.raise(event::LAST_WQE_REACHED);
            }
        }
    }

    // States.

    /// Enters the error state, and raises the event that caused it.
    pub(crate) fn fail(&self, event: Option<u32>) {
        let waiter = {
            let mut inbound = self.inbound.lock();
            if matches!(inbound.state, state::RESET | state::ERR) {
                return;
            }
            inbound.state = state::ERR;
            self.live.store(state::ERR, Release);
            if inbound.busy == 0 {
                self.settled(&mut inbound);
            }
            if let Some(event) = event {
                self.raise(event);
            }
            inbound.waiter.take()
        };
        {
            let mut outbound = self.outbound.lock();
            if outbound.state != state::RESET {
                outbound.state = state::ERR;
            }
        }
        // The waiter finds no peer any more; its own timer decides when that is an error.
        drop(waiter);
        self.wake();
    }

    /// Enters INIT, RTR, RTS or SQD. The caller has checked the transition.
    pub(crate) fn enter(
        &self,
        to: u32,
        origin: Option<Origin>,
        route: Option<Route>,
        drained: bool,
    ) {
        let former = {
            let mut inbound = self.inbound.lock();
            if inbound.state == state::ERR {
                // It has failed meanwhile, and stays failed.
                origin
            } else {
                inbound.state = to;
                self.live.store(to, Release);
                match origin {
                    Some(origin) => inbound.origin.replace(origin),
                    None => None,
                }
            }
        };
        if let Some(former) = former {
            Joint::leave(former.joint);
        }
        let former_route = {
            let mut outbound = self.outbound.lock();
            if outbound.state != state::ERR {
                outbound.state = to;
            }
            outbound.notify_drained = drained;
            match route {
                Some(route) => outbound.route.replace(route),
                None => None,
            }
        };
        drop(former_route);
        if matches!(to, state::RTS | state::SQD) {
            self.wake();
            if drained {
                let mut outbound = self.outbound.lock();
                if outbound.turn == Turn::Free && outbound.notify_drained {
                    outbound.notify_drained = false;
                    self.raise(event::SQ_DRAINED);
                }
            }
        }
    }

    /// Removes all requests and completions; no completion follows. Sleeps until no copy is in
    /// progress.
    pub(crate) fn reset(&self) {
        let (origin, waiter) = {
            let mut inbound = self.inbound.lock();
            inbound.state = state::RESET;
            self.live.store(state::RESET, Release);
            inbound.established = false;
            (inbound.origin.take(), inbound.waiter.take())
        };
        drop(waiter);
        loop {
            let mut outbound = self.outbound.lock();
            outbound.state = state::RESET;
            if outbound.turn != Turn::Held {
                outbound.turn = Turn::Held;
                break;
            }
            drop(outbound);
            task::moment();
        }
        // SAFETY: The turn is ours.
        let target = unsafe { (*self.execution.get()).abandon() };
        drop(target);
        let route = {
            let mut outbound = self.outbound.lock();
            outbound.sends.clear();
            outbound.turn = Turn::Free;
            outbound.again = false;
            outbound.route.take()
        };
        while self.inbound.lock().busy > 0 {
            task::moment();
        }
        {
            let mut inbound = self.inbound.lock();
            inbound.partial = None;
            inbound.arrivals.clear();
            if let Some(receives) = inbound.receives.as_mut() {
                receives.clear();
            }
        }
        self.shape.send_cq.purge(self.ib);
        self.shape.recv_cq.purge(self.ib);
        if let Some(origin) = origin {
            Joint::leave(origin.joint);
        }
        drop(route);
    }

    /// Room for completions that the modelled link delays.
    pub(crate) fn reserve_arrivals(&self, device: &Device) -> Result {
        if !device.is_modelled() {
            return Ok(());
        }
        let room = match &self.shape.srq {
            Some(srq) => srq.max as usize,
            None => self.shape.cap.max_recv_wr as usize,
        };
        let arrivals = KVVec::with_capacity(room + 2, GFP_KERNEL)?;
        let former = core::mem::replace(&mut self.inbound.lock().arrivals, arrivals);
        drop(former);
        Ok(())
    }

    /// The last step of destruction: no consumer posts, and no peer finds it any more.
    pub(crate) fn stop(&self) {
        self.reset();
        if let Some(soft) = self.soft.as_ref() {
            soft.stop();
        }
        self.task.stop();
        // A request in progress when the task stopped may have filled it again.
        self.reset();
        // The large parts are freed here, which may sleep, and not with the last reference.
        let sends = Sends::new(0, 0, 0, false);
        if let Ok(mut sends) = sends {
            core::mem::swap(&mut self.outbound.lock().sends, &mut sends);
        }
        let taken = {
            let mut inbound = self.inbound.lock();
            (
                inbound.receives.take(),
                core::mem::replace(&mut inbound.arrivals, KVVec::new()),
            )
        };
        drop(taken);
    }

    // Events.

    /// Raises an event, from the task. Called under a lock of the queue pair, in a state other than
    /// RESET, or by the owner of the turn, because the task may not be kicked once it is stopped.
    pub(crate) fn raise(&self, event: u32) {
        let mut known = self.events.load(Relaxed);
        while known & (1 << event) == 0 {
            match self.events.cmpxchg(known, known | (1 << event), Relaxed) {
                Ok(_) => break,
                Err(now) => known = now,
            }
        }
        self.task.kick();
    }

    fn tell(&self) {
        let events = self.events.xchg(0, Relaxed);
        for event in 0..32 {
            if events & (1 << event) != 0 {
                // SAFETY: `ib` lives until `stop` has returned.
                unsafe { ffi::rlo_event_qp(self.ib, event) }
            }
        }
    }
}

impl Attributes {
    /// A copy of all attributes. bindgen derives no `Clone` for the struct.
    pub(crate) fn copied(&self) -> ffi::ib_qp_attr {
        // SAFETY: Plain C data, without a destructor.
        unsafe { core::ptr::read(&self.0) }
    }
}
