// SPDX-License-Identifier: GPL-2.0

//! One side's queue pair: requests that are posted, in flight, arrived and completed.

use crate::{
    fault::{ensure, Checked},
    frame::{Frame, Span},
    memory::Memory,
};
use std::collections::VecDeque;

/// A work request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Work {
    Send(Frame),
    Read { key: u32, va: u64, len: u32 },
    Write { key: u32, va: u64, payload: Span },
}

/// Its completion. Completions come in the order of the requests.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Done {
    Send,
    /// With the bytes read.
    Read(Span),
    Write,
}

/// A queue pair of a reliable connection, and its completion queues.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Port {
    /// Sizes of the posted receive buffers.
    pub(crate) free: VecDeque<u32>,
    /// Filled buffers that were not passed to the engine yet.
    pub(crate) arrived: VecDeque<Frame>,
    /// Posted requests that have not arrived at the other side.
    pub(crate) out: VecDeque<Work>,
    /// Arrived requests with a completion that was not passed to the engine yet.
    pub(crate) done: VecDeque<Done>,
    pub(crate) memory: Memory,
    /// In the error state: nothing is sent or received.
    pub(crate) dead: bool,
    /// The other side has no queue pair; the retries will run out.
    pub(crate) unreachable: bool,
}

impl Port {
    /// The number of receive buffers that the owner counts as posted.
    pub(crate) fn posted(&self) -> usize {
        self.free.len() + self.arrived.len()
    }

    pub(crate) fn post_receives(&mut self, count: u16, size: u32) {
        self.free.extend((0..count).map(|_| size));
    }

    /// Whether a request is in flight, or its result was not seen.
    pub(crate) fn is_moving(&self) -> bool {
        let queues = self.out.len() + self.arrived.len() + self.done.len();
        queues > 0 || self.unreachable
    }

    /// SENDs that have not arrived.
    pub(crate) fn sends_out(&self) -> usize {
        let is_send = |work: &&Work| matches!(work, Work::Send(_));
        self.out.iter().filter(is_send).count()
    }

    /// Posts a request; `depth` is the limit for SENDs, Reads and Writes.
    pub(crate) fn post(&mut self, work: Work, depth: [usize; 3]) -> Checked {
        if self.dead {
            return Ok(());
        }
        self.out.push_back(work);
        let mut used = [0; 3];
        let kinds = self.out.iter().map(|work| match work {
            Work::Send(_) => 0,
            Work::Read { .. } => 1,
            Work::Write { .. } => 2,
        });
        let done = self.done.iter().map(|done| match done {
            Done::Send => 0,
            Done::Read(_) => 1,
            Done::Write => 2,
        });
        for kind in kinds.chain(done) {
            if let Some(count) = used.get_mut(kind) {
                *count += 1;
            }
        }
        ensure!(
            used.iter().zip(depth).all(|(used, depth)| *used <= depth),
            "{used:?} SENDs, Reads and Writes in a queue for {depth:?}"
        );
        Ok(())
    }

    /// A message arrives; there must be a buffer, and it must fit.
    pub(crate) fn fill(&mut self, frame: Frame) -> Checked {
        let Some(size) = self.free.pop_front() else {
            return Err(crate::fault::Fault::new(format!(
                "no receive buffer for {:?}",
                frame.repr()
            )));
        };
        ensure!(
            frame.wire_len() <= size,
            "{} bytes for a buffer of {size}",
            frame.wire_len()
        );
        self.arrived.push_back(frame);
        Ok(())
    }

    /// No more messages get through; arrived ones stay.
    pub(crate) fn kill(&mut self) {
        self.dead = true;
        self.unreachable = false;
        self.out.clear();
        self.memory.on_dead();
    }
}
