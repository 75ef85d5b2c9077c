// SPDX-License-Identifier: GPL-2.0

//! Copies the bytes of a request that was admitted, and concludes it at both ends.
//!
//! Contexts: the owner of the turn.

use super::{
    execution::{
        By,
        Step, //
    },
    Qp,
    Underway, //
};
use crate::{
    copier,
    copies,
    ffi,
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
    task, //
};

/// Bytes that are copied between two checks whether to continue.
const CHUNK: usize = 64 * 1024;
/// Bytes that a task copies before it yields the worker.
const QUANTUM: u64 = 1 << 20;

/// The two ends of the copy: source and destination.
fn ends<'a>(qp: &'a Qp, this: &'a Underway, remote: &'a Qp) -> (End<'a>, End<'a>) {
    let head = &this.request.head;
    let own = |side| End {
        port: qp.port(),
        pd: qp.shape.pd,
        side,
    };
    let peers = |side| End {
        port: remote.port(),
        pd: remote.shape.pd,
        side,
    };
    let far = |rights| Side::Remote {
        key: head.key,
        address: head.address,
        rights,
    };
    let near = |rights| Side::Local {
        pieces: this.request.pieces(),
        rights,
    };
    if head.is_read() {
        return (peers(far(REMOTE_READ)), own(near(LOCAL_WRITE)));
    }
    let source = own(if head.is_inline() {
        Side::Inline(this.request.inline())
    } else {
        near(0)
    });
    let target = peers(if head.is_write() {
        far(REMOTE_WRITE)
    } else {
        Side::Local {
            pieces: this.receive.as_slice(),
            rights: LOCAL_WRITE,
        }
    });
    (source, target)
}

/// The reason why a copy ends before all bytes are copied.
enum Stop {
    /// A queue pair has failed, or the worker is needed elsewhere: the caller calls again.
    Yield,
    /// The peer's queue pair has failed.
    PeerFailed,
    /// The memory at one end is not there.
    Fault(Fault),
    /// The peer refuses access.
    Refused,
}

/// Copies. Returns true when all bytes are copied, false to yield.
pub(super) fn transfer(qp: &Qp, this: &mut Underway, by: By) -> Result<bool, Step> {
    let Some(admitted) = &this.admitted else {
        return Err(Step::done(status::LOC_QP_OP_ERR));
    };
    let mut done = this.done;
    let copied = copy_rest(qp, this, &admitted.peer, &mut done, by);
    this.done = done;
    match copied {
        Ok(()) => Ok(true),
        Err(Stop::Yield) => Ok(false),
        Err(Stop::PeerFailed) => {
            // Treated as if the rest got no answer.
            let admitted = this.admitted.take();
            if let Some(admitted) = admitted {
                admitted.peer.release(admitted.receive);
            }
            this.done = 0;
            Err(Step::Wait(pause(0)))
        }
        Err(Stop::Fault(fault)) => Err(faulted(qp, this, fault)),
        Err(Stop::Refused) => Err(refused(this)),
    }
}

/// Copies what `done` leaves, and counts it there.
fn copy_rest(qp: &Qp, this: &Underway, remote: &Qp, done: &mut u64, by: By) -> Result<(), Stop> {
    let worker = by == By::Worker;
    let head = &this.request.head;
    let (from, to) = ends(qp, this, remote);
    let len = head.len;
    if *done == 0 && len > 0 {
        // All of the peer's memory is checked first, because a refused request must not change it.
        let far = if head.is_read() { from } else { to };
        if (head.is_read() || head.is_write()) && memory::check(far, len).is_err() {
            return Err(Stop::Refused);
        }
    }
    let first = *done;
    while *done < len {
        if qp.is_failed() {
            // The caller calls again and then sees the failure.
            return Err(Stop::Yield);
        }
        if remote.is_failed() {
            return Err(Stop::PeerFailed);
        }
        if by == By::Holder && *done > first {
            // A poster can be preempted between two chunks, however long its messages are.
            breathe();
        }
        if worker && *done - first >= QUANTUM {
            return Err(Stop::Yield);
        }
        let rest = len - *done;
        let copied = if worker && rest >= copier::threshold() as u64 {
            let want = rest.min(QUANTUM) as usize;
            copies::copy((from, *done), (to, *done), want).map(|copied| {
                qp.port().counters.offloaded.add(copied.offloaded as u64);
                copied.bytes
            })
        } else {
            let chunk = (rest as usize).min(CHUNK);
            memory::copy((from, *done), (to, *done), chunk).map(|()| chunk)
        };
        *done += copied.map_err(Stop::Fault)? as u64;
        if worker {
            // SAFETY: A worker may sleep.
            unsafe { ffi::rlo_cond_resched() };
        }
    }
    Ok(())
}

/// Calls the handlers with held bells, and lets others run. By a [`By::Holder`] alone.
pub(super) fn breathe() {
    // SAFETY: Held by this thread, by the caller's promise, and by it held again: a thread that could
    // be preempted before it held bells can be between two times.
    unsafe {
        ffi::rlo_bells_release();
        ffi::rlo_bells_hold();
    }
}

/// The peer's key, bounds, rights or domain were wrong: both queue pairs fail.
fn refused(this: &mut Underway) -> Step {
    if let Some(admitted) = this.admitted.take() {
        admitted
            .peer
            .shape
            .device
            .port
            .counters
            .access_refused
            .one();
        admitted.peer.release(admitted.receive);
        admitted.peer.fail(Some(event::QP_ACCESS_ERR));
    }
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
        qp.port().counters.local_errors.one();
        if let Some(admitted) = this.admitted.take() {
            admitted.peer.release(admitted.receive);
        }
        return Step::done(status::LOC_PROT_ERR);
    }
    if reads || writes {
        return refused(this);
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
pub(super) fn conclude(qp: &Qp, this: &mut Underway, worker: bool) -> Step {
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
    let (arrives, acked) = if device.port.is_modelled() {
        device.port.transit(head.len)
    } else {
        (0, 0)
    };
    if head.is_read() {
        device.port.counters.reads.one();
    } else if head.is_write() {
        device.port.counters.writes.one();
    } else {
        device.port.counters.sends.one();
    }
    device.port.counters.bytes.add(head.len);
    if !worker {
        device.port.counters.inline.one();
    }
    admitted
        .peer
        .conclude(qp.number, &this.request, admitted.receive, arrives);
    Step::Done {
        status: status::SUCCESS,
        due: acked,
    }
}

/// Invalidates a key. Returns None if a copy in progress must end first and the caller may not
/// sleep.
pub(super) fn invalidate(qp: &Qp, key: u32, worker: bool) -> Option<bool> {
    let device = &qp.shape.device;
    let Some(region) = device.port.regions.get(key >> 8) else {
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
    device.port.counters.invalidations.one();
    Some(true)
}

/// The delay before a request tries an unreachable peer again.
pub(super) fn pause(since: u64) -> u64 {
    (task::now().saturating_sub(since) / 2).clamp(200_000, 20_000_000)
}
