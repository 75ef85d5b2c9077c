// SPDX-License-Identifier: GPL-2.0

//! Receives: memory that is given away until a message has come. [`qp::receive`](super::qp::receive)
//! posts them.
//!
//! A receive has up to four pieces: the beginning of a slot, one or two buffers, and the end of the
//! slot. Slots are the queue pair's; buffers are given away when they are posted, and come back for
//! the completion. Receives complete in order, so the oldest buffers are the ones.
//!
//! Contexts: making room sleeps, the rest does not. No locks: the owner of the queue pair calls
//! them.

use crate::{
    fifo::Fifo,
    prelude::*,
    rdma::{
        mapping::Mapping,
        page::Part,
        slots::ReceiveSlots, //
    },
};

/// Maximum number of buffers of a receive.
pub(crate) const BUFFERS: usize = 2;

/// Pieces of a receive that lie in its slot.
pub(crate) const SLOT_PIECES: usize = 2;

/// A buffer for a receive, and what its owner keeps with it. It goes back and forth with each
/// message, so that it is not moved itself.
pub(crate) struct Parts<T> {
    pub(crate) memory: Mapping<Part>,
    pub(crate) with: T,
}

/// See [`Parts`].
pub(crate) type Buffer<T> = KBox<Parts<T>>;

/// The buffers of a receive, in the order in which they are filled.
pub(crate) type Buffers<T> = [Option<Buffer<T>>; BUFFERS];

/// The receives of a queue pair: `SLOT` bytes of each lie in a slot.
///
/// Dropped behind the queue pair.
pub(super) struct Receives<T, const SLOT: usize> {
    /// How many of `buffers` belong to each receive.
    posted: Fifo<u8>,
    buffers: Fifo<Buffer<T>>,
    slots: ReceiveSlots<SLOT>,
}

impl<T, const SLOT: usize> Receives<T, SLOT> {
    pub(super) fn new(slots: ReceiveSlots<SLOT>) -> Self {
        Self {
            posted: Fifo::new(),
            buffers: Fifo::new(),
            slots,
        }
    }

    /// Makes room to remember one more. May sleep.
    pub(super) fn reserve(&mut self) -> Result {
        self.posted.reserve(GFP_KERNEL)?;
        self.buffers.reserve_for(BUFFERS, GFP_KERNEL)
    }

    pub(super) fn has_room(&self) -> bool {
        self.posted.has_room(1) && self.buffers.has_room(BUFFERS)
    }

    /// The address of the next slot; none if the device may write all of them.
    pub(super) fn slot(&self) -> Option<u64> {
        self.slots.next()
    }

    /// Keeps the buffers of a receive that was posted with the next slot; there is room.
    pub(super) fn record(&mut self, buffers: Buffers<T>) {
        self.slots.on_posted();
        let mut kept = 0u8;
        for buffer in buffers.into_iter().flatten() {
            let _ = self.buffers.push(buffer, GFP_KERNEL);
            kept = kept.saturating_add(1);
        }
        let _ = self.posted.push(kept, GFP_KERNEL);
    }

    /// The slot and the buffers of the oldest receive, which has completed.
    pub(super) fn take(&mut self) -> Option<([u8; SLOT], Buffers<T>)> {
        let count = self.posted.pop()?;
        let mut buffers = [const { None }; BUFFERS];
        for place in buffers.iter_mut().take(count.into()) {
            *place = self.buffers.pop();
        }
        let slot = self.slots.take()?;
        Some((slot, buffers))
    }

    /// Frees what only further receives would need. May sleep.
    pub(super) fn shrink(&mut self) {
        self.posted.shrink();
        self.buffers.shrink();
    }

    /// Bytes of the buffers of the oldest receive.
    pub(super) fn oldest(&self) -> Option<usize> {
        let count = usize::from(*self.posted.get(0)?);
        let sizes = (0..count).filter_map(|at| Some(self.buffers.get(at)?.memory.size()));
        Some(sizes.sum())
    }
}
