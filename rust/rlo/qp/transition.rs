// SPDX-License-Identifier: GPL-2.0

//! Changes of a queue pair's state, and the events that they raise.
//!
//! Contexts: any, except [`Qp::tell`], which runs in the task.

use super::{
    Origin,
    Qp,
    Route,
    Turn,
    OVERRUN, //
};
use crate::{
    ffi,
    names::{
        event,
        state, //
    }, //
};

impl Qp {
    /// Enters the error state, and raises the event that caused it.
    pub(super) fn fail(&self, event: Option<u32>) {
        self.fail_if(event, || true);
    }

    /// The same if `has_cause` is true, which is asked under the lock of `inbound`.
    fn fail_if(&self, event: Option<u32>, has_cause: impl FnOnce() -> bool) {
        let waiter = {
            let mut inbound = self.inbound.lock();
            if matches!(self.state(), state::RESET | state::ERR) || !has_cause() {
                return;
            }
            self.set_state(&mut inbound, state::ERR);
            if inbound.busy == 0 {
                self.settled(&mut inbound);
            }
            if let Some(event) = event {
                self.raise(event);
            }
            inbound.waiter.take()
        };
        // The waiter finds no peer any more; its own timer decides when that is an error.
        drop(waiter);
        self.wake();
    }

    /// Goes from one state to INIT, RTR, RTS or SQD, or stays there with other parameters. The caller
    /// has checked the transition.
    pub(super) fn enter(
        &self,
        (from, to): (u32, u32),
        origin: Option<Origin>,
        route: Option<Route>,
        drained: bool,
    ) {
        let former_route = {
            let mut outbound = self.outbound.lock();
            outbound.notify_drained = drained;
            match route {
                Some(route) => outbound.route.replace(route),
                None => None,
            }
        };
        drop(former_route);
        let former = {
            let mut inbound = self.inbound.lock();
            if self.state() == from {
                self.set_state(&mut inbound, to);
                match origin {
                    Some(origin) => inbound.origin.replace(origin),
                    None => None,
                }
            } else {
                // It has failed meanwhile, and stays failed.
                origin
            }
        };
        if let Some(former) = former {
            self.shape.device.joints.leave(former.joint);
        }
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

    pub(super) fn tell(&self) {
        if self.events.is_empty() {
            return;
        }
        // Not after a reset, which begins again.
        self.fail_if(Some(event::QP_FATAL), || self.events.take(OVERRUN));
        for event in 0..OVERRUN {
            if self.events.take(event) {
                // SAFETY: `ib` lives until `stop` has returned.
                unsafe { ffi::rlo_event_qp(self.ib, event) }
            }
        }
    }
}
