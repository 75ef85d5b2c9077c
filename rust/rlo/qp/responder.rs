// SPDX-License-Identifier: GPL-2.0

//! The peer's access to a queue pair.
//!
//! Contexts: any. Called by the thread that executes the peer's request.

use super::{
    Inbound,
    Origin,
    Qp,
    Route, //
};
use crate::{
    faults,
    ffi,
    memory::{
        REMOTE_READ,
        REMOTE_WRITE, //
    },
    names::{
        event,
        opcode,
        state,
        status, //
    },
    receive::{
        Pieces,
        Receive, //
    },
    send::{
        Head,
        Request, //
    }, //
};

/// The answer to a request.
pub(super) enum Verdict {
    /// It may copy. A needed receive is taken from the queue, with its pieces. The request ends
    /// with `conclude`, `receive_failed` or `release`.
    Go(Option<Receive>),
    /// No receive is posted; try again after so many nanoseconds.
    NotReady { timer: u64 },
    /// Refused; the sender's request fails with this status.
    Refused(u32),
    /// There is no answer.
    Silent,
}

impl Origin {
    /// Whether a request comes from the peer, and in sequence.
    fn expects(&self, sender: &Qp, route: &Route) -> bool {
        self.from == sender.number
            && self.psn == route.psn
            && self.joint.av.is_reverse_of(&route.joint.av)
            && self.joint.accepts(&sender.shape.device)
    }

    /// Whether the peer has the right to such a request; it may have `reads` RDMA Reads at a time.
    fn allows(&self, head: &Head, reads: u32) -> bool {
        if head.is_read() {
            self.rights & REMOTE_READ != 0 && reads <= self.max_reads
        } else if head.is_write() {
            self.rights & REMOTE_WRITE != 0
        } else {
            true
        }
    }
}

impl Qp {
    /// Whether to admit a request. The pieces of a receive that it needs are copied to `pieces`.
    pub(super) fn admit(
        &self,
        sender: &Qp,
        request: &Request,
        route: &Route,
        reads: u32,
        pieces: &mut Pieces,
    ) -> Verdict {
        let device = &self.shape.device;
        let head = &request.head;
        if device.port.is_silent() {
            return Verdict::Silent;
        }
        let mut inbound = self.inbound.lock();
        let reads = reads.min(route.max_reads);
        let Some((refused, timer)) = self.judge(&mut inbound, sender, route, head, reads) else {
            return Verdict::Silent;
        };
        if refused {
            drop(inbound);
            device.port.counters.requests_refused.one();
            self.fail(Some(event::QP_REQ_ERR));
            return Verdict::Refused(status::REM_INV_REQ_ERR);
        }
        if !head.wants_receive() {
            inbound.busy += 1;
            return Verdict::Go(None);
        }
        if faults::take(&device.port.faults.not_ready) {
            device.port.counters.not_ready.one();
            return Verdict::NotReady { timer };
        }
        let receive = self.pop_receive(&mut inbound, pieces, 0);
        let Some(receive) = receive else {
            device.port.counters.not_ready.one();
            if self.shape.srq.is_none() {
                let former = sender
                    .this()
                    .and_then(|sender| inbound.waiter.replace(sender));
                drop(inbound);
                drop(former);
            }
            return Verdict::NotReady { timer };
        };
        inbound.busy += 1;
        if !head.is_write() && head.len > pieces.len() {
            drop(inbound);
            device.port.counters.requests_refused.one();
            self.receive_failed(&receive, status::LOC_LEN_ERR);
            return Verdict::Refused(status::REM_INV_REQ_ERR);
        }
        Verdict::Go(Some(receive))
    }

    /// Whether a request is refused, and the time after which its sender tries again if there is no
    /// receive. None if it gets no answer.
    fn judge(
        &self,
        inbound: &mut Inbound,
        sender: &Qp,
        route: &Route,
        head: &Head,
        reads: u32,
    ) -> Option<(bool, u64)> {
        if !self.can_receive() || inbound.busy > 0 {
            return None;
        }
        let origin = inbound.origin.as_ref()?;
        // A packet from another peer, or out of sequence, is dropped.
        if !origin.expects(sender, route) {
            return None;
        }
        let judged = (!origin.allows(head, reads), origin.rnr_timer);
        if self.state() == state::RTR && !inbound.established {
            inbound.established = true;
            self.raise(event::COMM_EST);
        }
        Some(judged)
    }

    /// Completes a receive with an error; its queue pair fails.
    pub(super) fn receive_failed(&self, receive: &Receive, status: u32) {
        self.port().counters.local_errors.one();
        {
            let mut inbound = self.inbound.lock();
            if self.state() == state::RESET {
                inbound.busy -= 1;
                return;
            }
            let entry = self.receive_entry(receive.id, status);
            self.receive_done(&mut inbound, entry, true, 0);
            inbound.busy -= 1;
            self.settled(&mut inbound);
        }
        self.fail(Some(event::QP_REQ_ERR));
    }

    /// Completes a request.
    pub(super) fn conclude(
        &self,
        from: u32,
        request: &Request,
        receive: Option<Receive>,
        due: u64,
    ) {
        let mut inbound = self.inbound.lock();
        inbound.busy -= 1;
        if self.state() == state::RESET {
            return;
        }
        if let Some(receive) = receive {
            let head = &request.head;
            let mut entry = self.receive_entry(receive.id, status::SUCCESS);
            entry.byte_len = head.len as u32;
            entry.src_qp = from;
            if head.is_write() {
                entry.opcode = ffi::ib_wc_opcode_IB_WC_RECV_RDMA_WITH_IMM;
            }
            if head.has_immediate() {
                entry.wc_flags |= ffi::ib_wc_flags_IB_WC_WITH_IMM as i32;
                entry.ex.imm_data = head.extra;
            } else if head.opcode == opcode::SEND_WITH_INV {
                entry.wc_flags |= ffi::ib_wc_flags_IB_WC_WITH_INVALIDATE as i32;
                entry.ex.invalidate_rkey = head.extra;
            }
            self.receive_done(&mut inbound, entry, head.is_solicited(), due);
        }
        self.settled(&mut inbound);
    }
}
