// SPDX-License-Identifier: GPL-2.0

//! Reset and the end of a queue pair.
//!
//! Contexts: sleeps.

use super::{
    Qp,
    Turn,
    OVERRUN, //
};
use crate::{
    names::state,
    prelude::*,
    send::Sends,
    task, //
};

impl Qp {
    /// Removes all requests and completions; no completion follows. Sleeps until no copy is in
    /// progress.
    pub(super) fn reset(&self) {
        let (origin, waiter) = {
            let mut inbound = self.inbound.lock();
            self.set_state(&mut inbound, state::RESET);
            inbound.established = false;
            (inbound.origin.take(), inbound.waiter.take())
        };
        drop(waiter);
        loop {
            let mut outbound = self.outbound.lock();
            if outbound.turn != Turn::Held {
                outbound.turn = Turn::Held;
                break;
            }
            drop(outbound);
            task::moment();
        }
        // SAFETY: The turn is ours.
        let (target, admitted) = unsafe { (*self.execution.get()).abandon() };
        if let Some(admitted) = admitted {
            admitted.peer.release(admitted.receive);
        }
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
            self.events.take(OVERRUN);
        }
        for cq in [&self.shape.send_cq, &self.shape.recv_cq] {
            cq.purge(self.ib);
            cq.settle();
        }
        if let Some(origin) = origin {
            self.shape.device.joints.leave(origin.joint);
        }
        drop(route);
    }

    /// Room for completions that the modelled link delays.
    pub(super) fn reserve_arrivals(&self) -> Result {
        if !self.port().is_modelled() {
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
}
