// SPDX-License-Identifier: GPL-2.0

//! Executes one request, step by step.
//!
//! Contexts: the owner of the queue pair's turn, which is its poster (possibly atomic, small
//! requests only) or its task (which may sleep).

use super::{
    datagram,
    execution::{
        Admitted,
        By,
        Step, //
    },
    responder::Verdict,
    transfer::{
        conclude,
        invalidate,
        pause,
        transfer, //
    },
    Execution,
    Qp,
    Route,
    Underway, //
};
use crate::{
    copier,
    faults,
    names::{
        opcode,
        status, //
    },
    send::Target,
    task, //
};
use kernel::sync::{
    atomic::Relaxed,
    Arc, //
};

/// Up to so many bytes a poster copies, even if there is an engine, because a switch to the worker
/// takes about as long as the copy.
const ENGINE_LEAST: u64 = 256 * 1024;

/// The cost of a request in the poster's context, in bytes, beside its own bytes.
const REQUEST_COST: usize = 256;

/// Continues the request in progress.
pub(super) fn step(qp: &Qp, execution: &mut Execution, budget: &mut usize, by: By) -> Step {
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
        qp.port().counters.flushed.one();
        return Step::done(status::WR_FLUSH_ERR);
    }
    if let Some(status) = wanted_failure(qp, this) {
        return Step::done(status);
    }
    if this.request.head.is_local() {
        if !worker {
            if *budget == 0 {
                return Step::Later;
            }
            *budget = budget.saturating_sub(REQUEST_COST);
        }
        return local(qp, this, worker);
    }
    if qp.shape.datagrams {
        if !worker {
            let cost = this.request.head.len as usize + REQUEST_COST;
            if by != By::Softirq || *budget < cost || datagram::may_sleep(&this.request) {
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
    if !worker && !can_afford(this, budget) {
        return Step::Later;
    }
    match transfer(qp, this, by) {
        Ok(true) => conclude(qp, this, worker),
        Ok(false) => Step::Later,
        Err(step) => step,
    }
}

/// The status with which a fault on request has a new request fail.
fn wanted_failure(qp: &Qp, this: &Underway) -> Option<u32> {
    let faults = &qp.port().faults;
    if this.admitted.is_some() || !faults::take(&faults.fail_requests) {
        return None;
    }
    Some(match faults.fail_status.load(Relaxed) {
        0 => status::RETRY_EXC_ERR,
        wanted => wanted,
    })
}

/// Whether the rest is executed in the poster's context. Large requests are not.
fn can_afford(this: &Underway, budget: &mut usize) -> bool {
    let rest = this.request.head.len - this.done;
    let engine = rest > ENGINE_LEAST && rest >= copier::threshold() as u64;
    if *budget == 0 || rest > *budget as u64 || engine {
        return false;
    }
    *budget = budget.saturating_sub(rest as usize + REQUEST_COST);
    true
}

/// Executes REG_MR and LOCAL_INV.
fn local(qp: &Qp, this: &mut Underway, worker: bool) -> Step {
    let device = &qp.shape.device;
    let head = &this.request.head;
    let good = match (&head.target, head.opcode) {
        (Target::Region(region, registration), opcode::REG_MR) => {
            device.port.counters.registrations.one();
            !faults::take(&device.port.faults.fail_registrations)
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
        device.port.counters.local_errors.one();
        Step::done(status::LOC_QP_OP_ERR)
    }
}

/// The queue pair that the route leads to, if its device can be reached.
fn find(route: &Route, found: &mut Option<Arc<Qp>>) -> Option<Arc<Qp>> {
    let Some(peer) = route.joint.peer() else {
        // If the peer cannot be reached, its queue pair must not be kept in memory.
        *found = None;
        return None;
    };
    if found
        .as_ref()
        .is_none_or(|known| known.number != route.dest || known.is_stopped(&peer))
    {
        *found = peer.qp(route.dest);
    }
    found.clone()
}

/// Finds the peer and asks it to admit the request.
fn admit(qp: &Qp, this: &mut Underway, found: &mut Option<Arc<Qp>>) -> Result<(), Step> {
    let Some(route) = &this.route else {
        return Err(Step::done(status::LOC_QP_OP_ERR));
    };
    if this.request.head.is_read() && route.max_reads == 0 {
        return Err(Step::done(status::LOC_QP_OP_ERR));
    }
    let peer = find(route, found);
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
            Err(wait_for_receive(qp, route, &mut this.not_ready, timer))
        }
        Verdict::Silent => {
            *found = None;
            Err(wait_for_answer(qp, route, &mut this.unanswered))
        }
    }
}

/// The time since `since`, which is set if it is 0.
fn waited(since: &mut u64) -> u64 {
    let now = task::now();
    if *since == 0 {
        *since = now;
    }
    now - *since
}

/// The peer has no receive, `since` then.
fn wait_for_receive(qp: &Qp, route: &Route, since: &mut u64, timer: u64) -> Step {
    let waited = waited(since);
    if route.rnr_retries != 7 && waited >= timer * u64::from(route.rnr_retries) {
        qp.port().counters.rnr_retries_exceeded.one();
        return Step::done(status::RNR_RETRY_EXC_ERR);
    }
    Step::Wait(timer)
}

/// The peer has not answered, `since` then.
fn wait_for_answer(qp: &Qp, route: &Route, since: &mut u64) -> Step {
    let waited = waited(since);
    let limit = route.timeout * u64::from(route.retries + 1);
    if route.timeout != 0 && waited >= limit {
        qp.port().counters.retries_exceeded.one();
        return Step::done(status::RETRY_EXC_ERR);
    }
    let pause = pause(*since);
    Step::Wait(if route.timeout != 0 {
        pause.min((limit - waited).max(1))
    } else {
        pause
    })
}
