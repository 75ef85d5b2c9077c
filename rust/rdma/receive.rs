// SPDX-License-Identifier: GPL-2.0

//! Receives: memory that is given away until a message has come.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)
//!
//! A receive has up to four pieces: the beginning of a slot, one or two buffers, and the end of the
//! slot. Slots are the queue pair's; buffers are given away when they are posted, and come back for
//! the [`Received`] of their completion. Receives complete in order, so the oldest buffers are the
//! ones.
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

    fn has_room(&self) -> bool {
        self.posted.has_room(1) && self.buffers.has_room(BUFFERS)
    }
}

impl<C, T, S, const SLOT: usize> Qp<C, T, S, SLOT> {
    /// Makes room to remember one more receive. May sleep.
    pub(crate) fn reserve_receive(&mut self) -> Result {
        self.receives.posted.reserve(GFP_KERNEL)?;
        self.receives.buffers.reserve_for(BUFFERS, GFP_KERNEL)
    }

    /// Posts a receive: its first `head` bytes go to a slot, the next to `buffers` as far as those
    /// are mapped, and `tail` more to the rest of the slot. The buffers come back where this fails:
    /// the queue is full or broken, there is no room, or the parts are longer than a slot.
    pub(crate) fn post_receive(
        &mut self,
        buffers: Buffers<T>,
        head: usize,
        tail: usize,
    ) -> Result<(), Buffers<T>> {
        let Some(slot) = self.receives.slots.next() else {
            return Err(buffers);
        };
        let fits = head.checked_add(tail).is_some_and(|both| both <= SLOT);
        if !fits || !self.receives.has_room() {
            return Err(buffers);
        }
        let lkey = self.domain().local_dma_lkey();
        let mut pieces = [Sge::NONE; BUFFERS + SLOT_PIECES];
        let mut count = 0usize;
        let mut add = |piece| {
            if let Some(place) = pieces.get_mut(count) {
                *place = piece;
                count = count.wrapping_add(1);
            }
        };
        add(Sge::new(lkey, slot, head as u32));
        for buffer in buffers.iter().flatten() {
            let memory = &buffer.memory;
            memory.sync_for_device(0, memory.size());
            let Ok(size) = u32::try_from(memory.size()) else {
                return Err(buffers);
            };
            add(Sge::new(lkey, memory.addr(), size));
        }
        if tail > 0 {
            add(Sge::new(lkey, slot.wrapping_add(head as u64), tail as u32));
        }
        let pieces = pieces.get_mut(..count).unwrap_or(&mut []);
        // SAFETY: So many bytes are mapped in the buffers and in the slot. All of them are kept
        // here, behind the queue pair, and not touched until the receive has completed.
        if unsafe { self.post_pieces(pieces) }.is_err() {
            return Err(buffers);
        }
        let receives = &mut self.receives;
        receives.slots.on_posted();
        // There is room, so every posted receive has its slot and its buffers.
        let mut kept = 0u8;
        for buffer in buffers.into_iter().flatten() {
            let _ = receives.buffers.push(buffer, GFP_KERNEL);
            kept = kept.saturating_add(1);
        }
        let _ = receives.posted.push(kept, GFP_KERNEL);
        Ok(())
    }

    /// The slot and the buffers of the oldest receive, for a completion. None for one of another
    /// queue pair.
    pub(crate) fn take_received(&mut self, received: Received) -> Option<([u8; SLOT], Buffers<T>)> {
        // A completion tells of one receive, and of all before it. One that was dropped leaves
        // its buffers here, and so the oldest has always completed.
        if !received.is_of(self.id()) {
            return None;
        }
        let receives = &mut self.receives;
        let count = receives.posted.pop()?;
        let mut buffers = [const { None }; BUFFERS];
        for place in buffers.iter_mut().take(count.into()) {
            *place = receives.buffers.pop();
        }
        let slot = receives.slots.take()?;
        Some((slot, buffers))
    }

    /// Frees what only further receives would need. May sleep.
    pub(crate) fn shrink_receives(&mut self) {
        self.receives.posted.shrink();
        self.receives.buffers.shrink();
    }

    /// Bytes of the buffers of the oldest receive.
    pub(crate) fn oldest_receive(&self) -> Option<usize> {
        let receives = &self.receives;
        let count = usize::from(*receives.posted.get(0)?);
        let sizes = (0..count).filter_map(|at| Some(receives.buffers.get(at)?.memory.size()));
        Some(sizes.sum())
    }
}
