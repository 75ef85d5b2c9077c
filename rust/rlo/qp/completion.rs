// SPDX-License-Identifier: GPL-2.0

//! Completions of a queue pair, and the end of a peer's request.
//!
//! Contexts: any. Locks: a completion queue's is taken under the lock of either side.

use super::{
    Arrival,
    Inbound,
    Outbound,
    Qp,
    OVERRUN, //
};
use crate::{
    ffi,
    names::{
        event,
        state,
        status, //
    },
    receive::Receive,
    task, //
};

impl Qp {
    /// Adds the completions of sends that are due.
    pub(super) fn retire(&self, outbound: &mut Outbound) {
        let failed = self.state() == state::ERR;
        if self.port().is_held() && !failed {
            return;
        }
        let now = match outbound.sends.next_due() {
            None => return,
            Some(0) if !self.port().is_modelled() => 0,
            Some(_) if failed => u64::MAX,
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
    pub(super) fn receive_done(
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

    pub(super) fn deliver_due(&self) {
        let mut inbound = self.inbound.lock();
        if inbound.arrivals.is_empty() || self.port().is_held() {
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

    /// A completion was lost: the task has the queue pair fail, because the caller has a lock.
    fn overran(&self) {
        self.port().counters.cq_overruns.one();
        self.raise(OVERRUN);
    }

    /// The completion of a receive, without the fields of its kind.
    pub(super) fn receive_entry(&self, id: u64, status: u32) -> ffi::ib_wc {
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
    pub(super) fn flush_receives(&self, inbound: &mut Inbound) {
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
        self.port().counters.flushed.add(count);
    }

    /// Ends a peer's request; `receive` belongs to a message that its sender abandoned.
    pub(super) fn release(&self, receive: Option<Receive>) {
        let mut inbound = self.inbound.lock();
        inbound.busy -= 1;
        if receive.is_some() {
            inbound.partial = receive;
        }
        self.settled(&mut inbound);
    }

    /// Called after `busy` was cleared.
    pub(super) fn settled(&self, inbound: &mut Inbound) {
        if self.state() == state::ERR && inbound.busy == 0 {
            self.flush_receives(inbound);
            if self.shape.srq.is_some() {
                self.raise(event::LAST_WQE_REACHED);
            }
        }
    }
}
