// SPDX-License-Identifier: GPL-2.0

//! Executes one request, step by step.
//!
//! Contexts: the owner of the queue pair's turn, which is its poster (possibly atomic, small
//! requests only) or its task (which may sleep).

use crate::{
    copier,
    copies,
    datagram,
    faults,
    joint,
    memory::{
        self,
        End,
        Fault,
        Side,
        LOCAL_WRITE,
        REMOTE_READ,
        REMOTE_WRITE, //
    },
    names::{
        event,
        opcode,
        status, //
    },
    prelude::*,
    qp::{
        Qp,
        Route, //
    },
    receive::{
        Pieces,
        Receive, //
    },
    responder::Verdict,
    send::{
        Request,
        Target, //
    },
    task, //
};
use kernel::sync::{
    atomic::Relaxed,
    Arc, //
};

/// Bytes that are copied between two checks whether to continue.
const CHUNK: usize = 64 * 1024;
/// Bytes that a task copies before it yields the worker.
const QUANTUM: u64 = 1 << 20;

/// Up to so many bytes a poster copies, even if there is an engine, because a switch to the worker
/// takes about as long as the copy.
const ENGINE_LEAST: u64 = 256 * 1024;

/// The cost of a request in the poster's context, in bytes, beside its own bytes.
const REQUEST_COST: usize = 256;

/// The code that executes requests.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum By {
    /// In the context of a post.
    Poster,
    /// For datagrams.
    Softirq,
    /// A task, which may sleep.
    Worker,
}

/// The result of a step.
pub(crate) enum Step {
    /// The request is complete.
    Done {
        status: u32,
        /// The time at which its completion may be seen; 0: at once.
        due: u64,
    },
    /// The task must continue it.
    Later,
    /// It has to wait, at most for so many nanoseconds.
    Wait(u64),
}

impl Step {
    fn done(status: u32) -> Self {
        Self::Done { status, due: 0 }
    }
}

/// The peer that has admitted the request.
struct Admitted {
    peer: Arc<Qp>,
    receive: Option<Receive>,
}

/// A request in progress. It stays where it is, because its parts are too large to be moved for
/// each.
struct Underway {
    request: Request,
    route: Option<Route>,
    /// Reads of the queue pair that were posted and are not complete, including this one.
    reads: u32,
    admitted: Option<Admitted>,
    /// Where a message goes: the pieces of the receive of `admitted`.
    receive: Pieces,
    /// Bytes copied so far.
    done: u64,
    /// The times since which no peer answers and no receive is posted; 0: not the case.
    unanswered: u64,
    not_ready: u64,
}

/// State that only the owner of the turn accesses.
pub(crate) struct Execution {
    busy: bool,
    underway: Underway,
    /// The peer's queue pair, once found.
    peer: Option<Arc<Qp>>,
}

impl Execution {
    pub(crate) fn new() -> Self {
        Self {
            busy: false,
            underway: Underway {
                request: Request::new(),
                route: None,
                reads: 0,
                admitted: None,
                receive: Pieces::new(),
                done: 0,
                unanswered: 0,
                not_ready: 0,
            },
            peer: None,
        }
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.busy
    }

    /// Where the next request is put.
    pub(crate) fn place(&mut self) -> &mut Request {
        &mut self.underway.request
    }

    /// Begins the request that was put there. The one before has ended.
    pub(crate) fn begin(&mut self, route: Option<Route>, reads: u32) {
        let this = &mut self.underway;
        this.route = route;
        this.reads = reads;
        this.done = 0;
        this.unanswered = 0;
        this.not_ready = 0;
        self.busy = true;
    }

    /// Ends the request. What it referred to is dropped by the caller.
    pub(crate) fn end(&mut self) -> Target {
        self.busy = false;
        self.underway.admitted = None;
        core::mem::take(&mut self.underway.request.head.target)
    }

    /// As [`end`](Self::end), because the queue pair is reset or destroyed.
    pub(crate) fn abandon(&mut self) -> Target {
        self.peer = None;
        self.underway.route = None;
        if let Some(admitted) = self.underway.admitted.take() {
            admitted.peer.release(admitted.receive);
        }
        self.end()
    }
}

/// Continues the request in progress.
pub(crate) fn step(qp: &Qp, execution: &mut Execution, budget: &mut usize, by: By) -> Step {
    let worker = by == By::Worker;
    let Execution {
        busy: true,
        underway: this,
        peer,
    } = execution
    else {
        return Step::done(status::SUCCESS);
    };
    if qp.is_failed() {
        *peer = None;
        if let Some(admitted) = this.admitted.take() {
            admitted.peer.release(admitted.receive);
        }
        qp.shape.device.counters.flushed.one();
        return Step::done(status::WR_FLUSH_ERR);
    }
    let faults = &qp.shape.device.faults;
    if this.admitted.is_none() && faults::take(&faults.fail_requests) {
        let wanted = faults.fail_status.load(Relaxed);
        return Step::done(if wanted == 0 {
            status::RETRY_EXC_ERR
        } else {
            wanted
        });
    }
    if this.request.head.is_local() {
        return local(qp, this, worker);
    }
    if qp.shape.datagrams {
        if !worker {
            let cost = this.request.head.len as usize + REQUEST_COST;
            if by == By::Poster || *budget < cost || datagram::may_sleep(&this.request) {
                return Step::Later;
            }
            *budget -= cost;
        }
        return Step::done(datagram::send(qp, &this.request));
    }
    if this.admitted.is_none() {
        if let Err(step) = admit(qp, this, peer) {
            return step;
        }
    }
    // Large requests are not executed in the poster's context.
    let rest = this.request.head.len - this.done;
    if !worker {
        let engine = rest > ENGINE_LEAST && rest >= copier::threshold() as u64;
        if *budget == 0 || rest > *budget as u64 || engine {
            return Step::Later;
        }
        *budget = budget.saturating_sub(rest as usize + REQUEST_COST);
    }
    match transfer(qp, this, worker) {
        Ok(true) => conclude(qp, this, worker),
        Ok(false) => Step::Later,
        Err(step) => step,
    }
}

/// Executes REG_MR and LOCAL_INV.
fn local(qp: &Qp, this: &mut Underway, worker: bool) -> Step {
    let device = &qp.shape.device;
    let head = &this.request.head;
    let good = match (&head.target, head.opcode) {
        (Target::Region(region, registration), opcode::REG_MR) => {
            device.counters.registrations.one();
            !faults::take(&device.faults.fail_registrations)
                && region.register(qp.shape.pd, *registration).is_ok()
        }
        (_, opcode::LOCAL_INV) => match invalidate(qp, head.extra, worker) {
            Some(good) => good,
            None => return Step::Later,
        },
        _ => false,
    };
    if good {
        Step::done(status::SUCCESS)
    } else {
        device.counters.local_errors.one();
        Step::done(status::LOC_QP_OP_ERR)
    }
}

/// Invalidates a key. Returns None if a copy in progress must end first and the caller may not
/// sleep.
pub(crate) fn invalidate(qp: &Qp, key: u32, worker: bool) -> Option<bool> {
    let device = &qp.shape.device;
    let Some(region) = device.regions.get(key >> 8) else {
        return Some(false);
    };
    if region.invalidate(qp.shape.pd, key).is_err() {
        return Some(false);
    }
    if !region.is_quiet() {
        if !worker {
            return None;
        }
        region.settle();
    }
    device.counters.invalidations.one();
    Some(true)
}

/// Finds the peer and asks it to admit the request.
fn admit(qp: &Qp, this: &mut Underway, found: &mut Option<Arc<Qp>>) -> Result<(), Step> {
    let device = &qp.shape.device;
    let Some(route) = &this.route else {
        return Err(Step::done(status::LOC_QP_OP_ERR));
    };
    let head = &this.request.head;
    if head.is_read() && route.max_reads == 0 {
        return Err(Step::done(status::LOC_QP_OP_ERR));
    }
    let peer = match route.joint.peer() {
        None => {
            // If the peer cannot be reached, its queue pair must not be kept in memory.
            *found = None;
            None
        }
        Some(peer) => {
            if found
                .as_ref()
                .is_none_or(|known| known.number != route.dest || known.is_stopped(&peer))
            {
                *found = peer.qp(route.dest);
            }
            found.clone()
        }
    };
    let verdict = match &peer {
        None => Verdict::Silent,
        Some(peer) => peer.admit(qp, &this.request, route, this.reads, &mut this.receive),
    };
    match verdict {
        Verdict::Go(receive) => {
            this.unanswered = 0;
            this.not_ready = 0;
            this.admitted = peer.map(|peer| Admitted { peer, receive });
            Ok(())
        }
        Verdict::Refused(status) => Err(Step::done(status)),
        Verdict::NotReady { timer } => {
            this.unanswered = 0;
            let now = task::now();
            if this.not_ready == 0 {
                this.not_ready = now;
            }
            let waited = now - this.not_ready;
            if route.rnr_retries != 7 && waited >= timer * u64::from(route.rnr_retries) {
                device.counters.rnr_retries_exceeded.one();
                return Err(Step::done(status::RNR_RETRY_EXC_ERR));
            }
            Err(Step::Wait(timer))
        }
        Verdict::Silent => {
            *found = None;
            let now = task::now();
            if this.unanswered == 0 {
                this.unanswered = now;
            }
            let waited = now - this.unanswered;
            let limit = route.timeout * u64::from(route.retries + 1);
            if route.timeout != 0 && waited >= limit {
                device.counters.retries_exceeded.one();
                return Err(Step::done(status::RETRY_EXC_ERR));
            }
            let pause = joint::pause(this.unanswered);
            Err(Step::Wait(if route.timeout != 0 {
                pause.min((limit - waited).max(1))
            } else {
                pause
            }))
        }
    }
}

/// Copies. Returns true when all bytes are copied, false to yield.
fn transfer(qp: &Qp, this: &mut Underway, worker: bool) -> Result<bool, Step> {
    let Some(admitted) = &this.admitted else {
        return Err(Step::done(status::LOC_QP_OP_ERR));
    };
    let head = &this.request.head;
    let remote = &admitted.peer;
    let own = |side| End {
        device: &qp.shape.device,
        pd: qp.shape.pd,
        side,
    };
    let peers = |side| End {
        device: &remote.shape.device,
        pd: remote.shape.pd,
        side,
    };
    let source = if head.is_inline() {
        Side::Inline(this.request.inline())
    } else {
        Side::Local {
            pieces: this.request.pieces(),
            rights: 0,
        }
    };
    let (from, to) = if head.is_read() {
        (
            peers(Side::Remote {
                key: head.key,
                address: head.address,
                rights: REMOTE_READ,
            }),
            own(Side::Local {
                pieces: this.request.pieces(),
                rights: LOCAL_WRITE,
            }),
        )
    } else if head.is_write() {
        (
            own(source),
            peers(Side::Remote {
                key: head.key,
                address: head.address,
                rights: REMOTE_WRITE,
            }),
        )
    } else {
        (
            own(source),
            peers(Side::Local {
                pieces: this.receive.as_slice(),
                rights: LOCAL_WRITE,
            }),
        )
    };
    let len = head.len;
    if this.done == 0 && len > 0 {
        // All of the peer's memory is checked first, because a refused request must not change it.
        let far = if head.is_read() { from } else { to };
        if (head.is_read() || head.is_write()) && memory::check(far, len).is_err() {
            return Err(refused(qp, this));
        }
    }
    let first = this.done;
    while this.done < len {
        if qp.is_failed() {
            // The caller calls again and then sees the failure.
            return Ok(false);
        }
        if remote.is_failed() {
            // Treated as if the rest got no answer.
            let admitted = this.admitted.take();
            if let Some(admitted) = admitted {
                admitted.peer.release(admitted.receive);
            }
            this.done = 0;
            return Err(Step::Wait(joint::pause(0)));
        }
        if worker && this.done - first >= QUANTUM {
            return Ok(false);
        }
        let rest = len - this.done;
        let copied = if worker && rest >= copier::threshold() as u64 {
            let want = rest.min(QUANTUM) as usize;
            copies::copy((from, this.done), (to, this.done), want).map(|copied| {
                let counters = &qp.shape.device.counters;
                counters.offloaded.add(copied.offloaded as u64);
                copied.bytes
            })
        } else {
            let chunk = (rest as usize).min(CHUNK);
            memory::copy((from, this.done), (to, this.done), chunk).map(|()| chunk)
        };
        match copied {
            Ok(bytes) => this.done += bytes as u64,
            Err(fault) => return Err(faulted(qp, this, fault)),
        }
        if worker {
            // SAFETY: A worker may sleep.
            unsafe { crate::ffi::rlo_cond_resched() };
        }
    }
    Ok(true)
}

/// The peer's key, bounds, rights or domain were wrong: both queue pairs fail.
fn refused(qp: &Qp, this: &mut Underway) -> Step {
    if let Some(admitted) = this.admitted.take() {
        admitted.peer.shape.device.counters.access_refused.one();
        admitted.peer.release(admitted.receive);
        admitted.peer.fail(Some(event::QP_ACCESS_ERR));
    }
    let _ = qp;
    Step::done(status::REM_ACCESS_ERR)
}

/// Handles a copy that failed.
fn faulted(qp: &Qp, this: &mut Underway, fault: Fault) -> Step {
    let reads = this.request.head.is_read();
    let writes = this.request.head.is_write();
    let local = match fault {
        Fault::Source => !reads,
        Fault::Destination => reads,
    };
    if local {
        qp.shape.device.counters.local_errors.one();
        if let Some(admitted) = this.admitted.take() {
            admitted.peer.release(admitted.receive);
        }
        return Step::done(status::LOC_PROT_ERR);
    }
    if reads || writes {
        return refused(qp, this);
    }
    // The receive was faulty: its owner learns that from its completion.
    if let Some(admitted) = this.admitted.take() {
        if let Some(receive) = admitted.receive {
            admitted.peer.receive_failed(&receive, status::LOC_PROT_ERR);
        }
    }
    Step::done(status::REM_OP_ERR)
}

/// All bytes are copied: adds the completions at both ends.
fn conclude(qp: &Qp, this: &mut Underway, worker: bool) -> Step {
    let head = &this.request.head;
    let device = &qp.shape.device;
    if head.opcode == opcode::READ_WITH_INV {
        match invalidate(qp, head.extra, worker) {
            None => return Step::Later,
            Some(true) => {}
            Some(false) => {
                if let Some(admitted) = this.admitted.take() {
                    admitted.peer.release(None);
                }
                return Step::done(status::LOC_QP_OP_ERR);
            }
        }
    }
    if head.opcode == opcode::SEND_WITH_INV {
        if let Some(admitted) = &this.admitted {
            match invalidate(&admitted.peer, head.extra, worker) {
                None => return Step::Later,
                Some(true) => {}
                Some(false) => {
                    if let Some(admitted) = this.admitted.take() {
                        if let Some(receive) = admitted.receive {
                            admitted.peer.receive_failed(&receive, status::LOC_PROT_ERR);
                        }
                    }
                    return Step::done(status::REM_OP_ERR);
                }
            }
        }
    }
    let Some(admitted) = this.admitted.take() else {
        return Step::done(status::LOC_QP_OP_ERR);
    };
    let (arrives, acked) = if device.is_modelled() {
        device.transit(head.len)
    } else {
        (0, 0)
    };
    if head.is_read() {
        device.counters.reads.one();
    } else if head.is_write() {
        device.counters.writes.one();
    } else {
        device.counters.sends.one();
    }
    device.counters.bytes.add(head.len);
    if !worker {
        device.counters.inline.one();
    }
    admitted
        .peer
        .conclude(qp.number, &this.request, admitted.receive, arrives);
    Step::Done {
        status: status::SUCCESS,
        due: acked,
    }
}
