// SPDX-License-Identifier: GPL-2.0

//! Receives: memory that is given away until a message has come.
//!
//! A receive has up to three pieces: the beginning of a slot, a buffer, and the end of the slot.
//! Slots are the queue pair's; a buffer is given away when it is posted, and comes back for the
//! [`Received`] of its completion. Receives complete in order, so the oldest buffer is the one.
//!
//! Contexts: posting and taking do not sleep; making room does. No locks: the owner of the queue
//! pair calls them.

use crate::{
    fifo::Fifo,
    prelude::*,
    rdma::{
        cq::Received,
        mapping::{
            Mapping,
            Sge, //
        },
        page::Part,
        qp::Qp,
        slots::ReceiveSlots, //
    },
};

/// Maximum number of pieces of a receive.
pub(super) const PIECES: usize = 3;

/// A buffer for a receive, and what its owner keeps with it.
pub(crate) struct Buffer<T> {
    pub(crate) memory: Mapping<Part>,
    pub(crate) with: T,
}

/// The receives of a queue pair: `SLOT` bytes of each lie in a slot.
///
/// Dropped behind the queue pair.
pub(super) struct Receives<T, const SLOT: usize> {
    posted: Fifo<Buffer<T>>,
    slots: ReceiveSlots<SLOT>,
}

impl<T, const SLOT: usize> Receives<T, SLOT> {
    pub(super) fn new(slots: ReceiveSlots<SLOT>) -> Self {
        Self {
            posted: Fifo::new(),
            slots,
        }
    }
}

impl<C, T, S, const SLOT: usize> Qp<C, T, S, SLOT> {
    /// Makes room to remember one more receive. May sleep.
    pub(crate) fn reserve_receive(&mut self) -> Result {
        self.receives.posted.reserve(GFP_KERNEL)
    }

    /// Posts a receive: its first `head` bytes go to a slot, the next to `buffer` as far as that
    /// is mapped, and `tail` more to the rest of the slot. The buffer comes back where this fails:
    /// the queue is full or broken, there is no room, or the parts are longer than a slot.
    pub(crate) fn post_receive(
        &mut self,
        buffer: Buffer<T>,
        head: usize,
        tail: usize,
    ) -> Result<(), Buffer<T>> {
        let Some(slot) = self.receives.slots.next() else {
            return Err(buffer);
        };
        let fits = head.checked_add(tail).is_some_and(|both| both <= SLOT);
        let (Ok(size), true) = (u32::try_from(buffer.memory.size()), fits) else {
            return Err(buffer);
        };
        buffer.memory.sync_for_device(0, buffer.memory.size());
        let lkey = self.domain().local_dma_lkey();
        let addr = buffer.memory.addr();
        let mut pieces: [Sge; PIECES] = [
            Sge::new(lkey, slot, head as u32),
            Sge::new(lkey, addr, size),
            Sge::new(lkey, slot.wrapping_add(head as u64), tail as u32),
        ];
        let used = if tail > 0 { PIECES } else { PIECES - 1 };
        let pieces = pieces.get_mut(..used).unwrap_or(&mut []);
        if !self.receives.posted.has_room() {
            return Err(buffer);
        }
        // SAFETY: So many bytes are mapped in the buffer and in the slot. Both are kept here,
        // behind the queue pair, and not touched until the receive has completed.
        if unsafe { self.post_pieces(pieces) }.is_err() {
            return Err(buffer);
        }
        self.receives.slots.on_posted();
        // There is room, so every posted buffer has its slot.
        let _ = self.receives.posted.push(buffer, GFP_KERNEL);
        Ok(())
    }

    /// The slot and the buffer of the oldest receive, for a completion. None for one of another
    /// queue pair.
    pub(crate) fn take_received(&mut self, received: Received) -> Option<([u8; SLOT], Buffer<T>)> {
        // A completion tells of one receive, and of all before it. One that was dropped leaves
        // its buffer here, and so the oldest has always completed.
        if !received.is_of(self.id()) {
            return None;
        }
        let buffer = self.receives.posted.pop()?;
        let slot = self.receives.slots.take()?;
        Some((slot, buffer))
    }

    /// Frees what only further receives would need. May sleep.
    pub(crate) fn shrink_receives(&mut self) {
        self.receives.posted.shrink();
    }

    /// The oldest buffer that is posted.
    pub(crate) fn oldest_receive(&self) -> Option<&Mapping<Part>> {
        self.receives.posted.get(0).map(|buffer| &buffer.memory)
    }
}
