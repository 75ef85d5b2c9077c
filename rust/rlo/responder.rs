// SPDX-License-Identifier: GPL-2.0

//! The peer's access to a queue pair.
//!
//! Contexts: any. Called by the thread that executes the peer's request.

use crate::{
    faults,
    ffi,
    names::{
        event,
        opcode,
        state,
        status, //
    },
    qp::{
        Qp,
        Route, //
    },
    receive::{
        Pieces,
        Receive, //
    },
    send::Request, //
};

/// The answer to a request.
pub(crate) enum Verdict {
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

impl Qp {
    /// Whether to admit a request. The pieces of a receive that it needs are copied to `pieces`.
    pub(crate) fn admit(
        &self,
        sender: &Qp,
        request: &Request,
        route: &Route,
        reads: u32,
        pieces: &mut Pieces,
    ) -> Verdict {
        let device = &self.shape.device;
        let head = &request.head;
        if device.is_silent() {
            return Verdict::Silent;
        }
        let mut inbound = self.inbound.lock();
        if !matches!(
            inbound.state,
            state::RTR | state::RTS | state::SQD | state::SQE
        ) || inbound.busy > 0
        {
            return Verdict::Silent;
        }
        let Some(origin) = inbound.origin.as_ref() else {
            return Verdict::Silent;
        };
        // A packet from another peer, or out of sequence, is dropped.
        if origin.from != sender.number
            || origin.psn != route.psn
            || !origin.joint.av.is_reverse_of(&route.joint.av)
        {
            return Verdict::Silent;
        }
        let (rights, max_reads, timer) = (origin.rights, origin.max_reads, origin.rnr_timer);
        if inbound.state == state::RTR && !inbound.established {
            inbound.established = true;
            self.raise(event::COMM_EST);
        }
        let refused = if head.is_read() {
            rights & crate::memory::REMOTE_READ == 0 || reads.min(route.max_reads) > max_reads
        } else if head.is_write() {
            rights & crate::memory::REMOTE_WRITE == 0
        } else {
            false
        };
        if refused {
            drop(inbound);
            device.counters.requests_refused.one();
            self.fail(Some(event::QP_REQ_ERR));
            return Verdict::Refused(status::REM_INV_REQ_ERR);
        }
        if !head.wants_receive() {
            inbound.busy += 1;
            return Verdict::Go(None);
        }
        if faults::take(&device.faults.not_ready) {
            device.counters.not_ready.one();
            return Verdict::NotReady { timer };
        }
        let receive = match (&self.shape.srq, inbound.receives.as_mut()) {
            (Some(srq), _) => srq.pop(pieces),
            (None, Some(receives)) => receives.pop(pieces),
            (None, None) => None,
        };
        let Some(receive) = receive else {
            device.counters.not_ready.one();
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
            device.counters.requests_refused.one();
            self.receive_failed(&receive, status::LOC_LEN_ERR);
            return Verdict::Refused(status::REM_INV_REQ_ERR);
        }
        Verdict::Go(Some(receive))
    }

    /// Completes a receive with an error; its queue pair fails.
    pub(crate) fn receive_failed(&self, receive: &Receive, status: u32) {
        self.shape.device.counters.local_errors.one();
        {
            let mut inbound = self.inbound.lock();
            if inbound.state == state::RESET {
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
    pub(crate) fn conclude(
        &self,
        from: u32,
        request: &Request,
        receive: Option<Receive>,
        due: u64,
    ) {
        let mut inbound = self.inbound.lock();
        inbound.busy -= 1;
        if inbound.state == state::RESET {
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
