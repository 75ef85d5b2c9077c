// SPDX-License-Identifier: GPL-2.0

//! The counts of a model: messages, buffers and credits.

use crate::{
    fault::{ensure, Checked},
    frame::{Frame, Span},
};
use sdp_engine::engine::{
    types::Mseq,
    wire::{Body, Flags, Repr},
};
use std::collections::VecDeque;

/// The fewest and the most receive buffers of a model.
pub(super) const BUFFERS_MIN: u32 = 3;
pub(super) const BUFFERS_MAX: u32 = 6;

/// Size of each.
pub(super) const RCV_SIZE: u16 = 80;

/// Size of the buffers that it posts when it is asked for larger ones.
pub(super) const LARGE_SIZE: u16 = 280;

#[derive(Clone, Debug)]
pub(super) struct Books {
    /// Numbers of our last message and of the engine's.
    pub(super) mseq: u32,
    pub(super) received: u32,
    /// MSeqAck, while it is delayed by a Read of ours.
    pub(super) held_ack: Option<u32>,
    pub(super) credits: i64,
    /// Receive buffers, and the maximum credits of the engine.
    pub(super) posted: i64,
    told: i64,
    /// Size of each buffer that is posted, the oldest first.
    sizes: VecDeque<u16>,
    /// Size of new buffers.
    size: u16,
}

impl Books {
    /// The engine grants `bufs` credits, and the model has `buffers`.
    pub(super) fn new(bufs: u16, buffers: u16) -> Self {
        Self {
            mseq: 0,
            received: 0,
            held_ack: None,
            credits: bufs.into(),
            posted: buffers.into(),
            told: buffers.into(),
            sizes: VecDeque::new(),
            size: RCV_SIZE,
        }
    }

    /// Posted buffers keep their size.
    pub(super) fn resize(&mut self, size: u16) {
        self.post();
        self.size = size;
    }

    fn post(&mut self) {
        let missing = usize::try_from(self.posted).unwrap_or(0);
        while self.sizes.len() < missing {
            self.sizes.push_back(self.size);
        }
    }

    /// Handles a message of the engine.
    pub(super) fn receive(&mut self, frame: &Frame, repr: &Repr) -> Checked {
        ensure!(self.posted > 0, "no buffer for {repr}");
        self.post();
        let size = self.sizes.pop_front().unwrap_or(self.size);
        ensure!(
            frame.wire_len() <= size.into(),
            "{repr} is longer than {size}"
        );
        self.posted -= 1;
        self.told -= 1;
        self.received += 1;
        self.credits = i64::from(repr.bufs) - i64::from(self.mseq - repr.mseq_ack.get());
        Ok(())
    }

    /// OFED's rule: an update if credits grew by half, or by any number if there are few.
    pub(super) fn wants_update(&self) -> bool {
        let left = self.told.max(0);
        let bufs = self.posted - i64::from(self.received - self.ack());
        let more = if left <= 2 {
            bufs > left
        } else {
            2 * bufs > 3 * left
        };
        more && self.credits > 0
    }

    fn ack(&self) -> u32 {
        self.held_ack.unwrap_or(self.received)
    }

    pub(super) fn send(&mut self, body: Body, flags: Flags, payload: Span) -> Repr {
        self.credits -= 1;
        self.mseq += 1;
        let ack = self.ack();
        self.told = self.posted - i64::from(self.received - ack);
        Repr {
            flags,
            bufs: u16::try_from(self.posted).unwrap_or(0),
            mseq: Mseq::new(self.mseq),
            mseq_ack: Mseq::new(ack),
            body,
            payload_len: payload.len,
        }
    }
}
