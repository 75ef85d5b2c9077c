// SPDX-License-Identifier: GPL-2.0

//! Posting of sends and receives.
//!
//! Contexts: any.

use super::{
    execution::By,
    Qp,
    Turn,
    ATOMIC_BYTES, //
};
use crate::{
    ffi,
    names::state,
    prelude::*,
    send::Head, //
};

impl Qp {
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
        match self.state() {
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
            let (most, by) = if holds {
                (usize::MAX, By::Holder)
            } else {
                (ATOMIC_BYTES, By::Poster)
            };
            let most = self.port().limits.inline_bytes.min(most);
            self.drive(most, by);
            if holds {
                // SAFETY: Held above, in this thread.
                unsafe { ffi::rlo_bells_release() };
            }
        }
    }

    pub(crate) fn post_receive(&self, id: u64, pieces: &[ffi::ib_sge]) -> Result {
        let waiter = {
            let mut inbound = self.inbound.lock();
            if self.state() == state::RESET {
                return Err(EINVAL);
            }
            let Some(receives) = inbound.receives.as_mut() else {
                return Err(EINVAL);
            };
            receives.push(id, pieces)?;
            if self.state() == state::ERR && inbound.busy == 0 {
                self.flush_receives(&mut inbound);
            }
            inbound.waiter.take()
        };
        if let Some(waiter) = waiter {
            waiter.wake();
        }
        Ok(())
    }
}
