// SPDX-License-Identifier: GPL-2.0

//! The buffers that the peer offers to be written: its SinkAvails.
//!
//! rules: SINK, DISCARD, SINKCANCEL

use super::{
    fifo::{Fifo, Full},
    ADVERTS_MAX,
};
use crate::engine::{machine::Moved, wire::avail::SinkAvail};

machine! {
    /// Life of one SinkAvail, as its source sees it.
    pub enum TargetState {
        /// Nothing was written.
        Held,
        /// Some bytes were.
        Writing,
        /// As before, and the sink wants it back.
        Finishing,
        /// RdmaWrCompl was sent, or it was dropped.
        Gone,
    }

    /// An RDMA Write into it was posted.
    on_write: Held | Writing => Writing;
    /// SinkAvailCancel has come.
    on_cancel: Held => Gone, Writing => Finishing;
    /// A message with payload was sent although it was there, or the end of the
    /// stream.
    on_drop: Held => Gone;
    /// RdmaWrCompl was sent.
    on_completed: Writing | Finishing => Gone;
}

#[derive(Clone, Copy, Debug)]
struct Target {
    /// Of the first byte that was not written.
    va: u64,
    r_key: u32,
    free: u32,
    written: u32,
    state: TargetState,
}

/// Where bytes can be written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    pub(crate) r_key: u32,
    pub(crate) va: u64,
    pub(crate) free: u32,
}

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Targets {
    fifo: Fifo<Target, ADVERTS_MAX>,
    /// Messages with payload that were sent while none was held, less those
    /// that a stale one was discarded for, modulo 2^32.
    non_discards: u32,
    /// RDMA Writes in flight.
    writes: u8,
    /// SinkCancelAck is owed.
    ack_owed: bool,
}

impl Targets {
    pub(crate) fn new() -> Self {
        Self {
            fifo: Fifo::new(),
            non_discards: 0,
            writes: 0,
            ack_owed: false,
        }
    }

    pub(crate) fn len(&self) -> u8 {
        self.fifo.len()
    }

    /// Whether the peer offers nothing, and is owed no answer.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.fifo.is_empty() && !self.ack_owed
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.fifo.is_empty()
    }

    /// Whether it was sent by a sink that did not know of a message that used it
    /// up. Called once for each SinkAvail.
    ///
    /// rules: DISCARD
    pub(crate) fn take_stale(&mut self, advert: SinkAvail) -> bool {
        let stale = advert.non_discards != self.non_discards;
        if stale {
            self.non_discards = self.non_discards.wrapping_sub(1);
        }
        stale
    }

    /// A SinkAvail that is valid, for which there is room.
    pub(crate) fn on_sink_avail(&mut self, advert: SinkAvail) -> Result<(), Full> {
        self.fifo.push(Target {
            va: advert.va,
            r_key: advert.r_key,
            free: advert.len,
            written: 0,
            state: TargetState::Held,
        })
    }

    /// Whether the oldest waits to be written into.
    pub(crate) fn is_unused(&self) -> bool {
        self.fifo
            .first()
            .is_some_and(|target| target.state == TargetState::Held)
    }

    /// Where to write next.
    pub(crate) fn place(&self) -> Option<Place> {
        let target = self.fifo.first()?;
        let open = matches!(target.state, TargetState::Held | TargetState::Writing);
        (open && target.free > 0).then_some(Place {
            r_key: target.r_key,
            va: target.va,
            free: target.free,
        })
    }

    /// `len` bytes are written to the [`place`](Self::place).
    pub(crate) fn on_write(&mut self, len: u32) {
        if let Some(target) = self.fifo.first_mut() {
            if target.state.on_write().is_ok() {
                target.va = target.va.wrapping_add(len.into());
                target.free = target.free.saturating_sub(len);
                target.written = target.written.saturating_add(len);
                self.writes = self.writes.saturating_add(1);
            }
        }
    }

    pub(crate) fn writes(&self) -> u8 {
        self.writes
    }

    /// Returns whether one was in flight.
    pub(crate) fn on_write_completed(&mut self) -> bool {
        let flew = self.writes > 0;
        self.writes = self.writes.saturating_sub(1);
        flew
    }

    /// Bytes written that no RdmaWrCompl tells of.
    pub(crate) fn written(&self) -> Option<u32> {
        let target = self.fifo.first()?;
        (target.written > 0).then_some(target.written)
    }

    /// Whether no more bytes may or can be written into the oldest offer.
    pub(crate) fn is_finishing(&self) -> bool {
        self.fifo
            .first()
            .is_some_and(|target| target.state == TargetState::Finishing || target.free == 0)
    }

    /// RdmaWrCompl was sent.
    pub(crate) fn on_completed(&mut self) {
        if let Some(target) = self.fifo.first_mut() {
            if target.state.on_completed().is_ok() {
                self.fifo.pop();
            }
        }
    }

    /// A message with payload was sent.
    ///
    /// rules: DISCARD
    pub(crate) fn on_payload_sent(&mut self) {
        match self.fifo.first_mut() {
            Some(target) => {
                if target.state.on_drop().is_ok() {
                    self.fifo.pop();
                }
            }
            //= spec: DISCARD-3
            None => self.non_discards = self.non_discards.wrapping_add(1),
        }
    }

    /// SinkAvailCancel: completes the offer that was written into, and drops the
    /// rest.
    pub(crate) fn on_cancel(&mut self) {
        let before = self.fifo.len();
        for target in self.fifo.iter_mut() {
            //= spec: SINKCANCEL-2, SINKCANCEL-3
            target.state.on_cancel().if_legal();
        }
        self.fifo.retain(|target| target.state != TargetState::Gone);
        if self.fifo.len() < before {
            self.ack_owed = true;
        }
    }

    /// Whether a SinkAvailCancel is being dealt with.
    pub(crate) fn is_cancelling(&self) -> bool {
        self.ack_owed
            || self
                .fifo
                .first()
                .is_some_and(|target| target.state == TargetState::Finishing)
    }

    /// Whether SinkCancelAck is due: behind RdmaWrCompl.
    pub(crate) fn wants_cancel_ack(&self) -> bool {
        self.ack_owed && self.written().is_none()
    }

    pub(crate) fn on_cancel_ack_sent(&mut self) {
        self.ack_owed = false;
    }

    /// The stream or the connection has ended.
    pub(crate) fn drop_all(&mut self) {
        self.fifo.clear();
        self.ack_owed = false;
    }
}

const _: () = assert!(size_of::<Targets>() <= 32 * ADVERTS_MAX + 16);
