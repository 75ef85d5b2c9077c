// SPDX-License-Identifier: GPL-2.0

//! One side's queue pair: what is posted, on its way, arrived and completed.

use crate::{
    fault::{ensure, Checked},
    frame::Frame,
};
use std::collections::VecDeque;

/// A queue pair of a reliable connection, and its completion queues.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Port {
    /// Receive buffers that wait for a message.
    pub(crate) free: u16,
    /// Filled, and not handed in yet.
    pub(crate) arrived: VecDeque<Frame>,
    /// Posted, and not at the other side yet.
    pub(crate) out: VecDeque<Frame>,
    /// At the other side, with the completion still to be handed in.
    pub(crate) acknowledged: u16,
    /// In the error state: nothing goes out or comes in.
    pub(crate) dead: bool,
    /// What was sent found no queue pair; the retries will run out.
    pub(crate) unreachable: bool,
}

impl Port {
    /// Receive buffers that the owner believes posted.
    pub(crate) fn posted(&self) -> usize {
        usize::from(self.free) + self.arrived.len()
    }

    pub(crate) fn post_receives(&mut self, count: u16) {
        self.free += count;
    }

    /// One more SEND of at most `depth`.
    pub(crate) fn post(&mut self, frame: Frame, depth: u16) -> Checked {
        if self.dead {
            return Ok(());
        }
        self.out.push_back(frame);
        let in_flight = self.out.len() + usize::from(self.acknowledged);
        ensure!(
            in_flight <= usize::from(depth),
            "{in_flight} sends in a queue for {depth}"
        );
        Ok(())
    }

    /// A message arrives; it must find a buffer.
    pub(crate) fn fill(&mut self, frame: Frame) -> Checked {
        ensure!(self.free > 0, "no receive buffer for {:?}", frame.repr());
        self.free -= 1;
        self.arrived.push_back(frame);
        Ok(())
    }

    /// Nothing more gets through; what has arrived stays.
    pub(crate) fn kill(&mut self) {
        self.dead = true;
        self.unreachable = false;
        self.out.clear();
    }
}
