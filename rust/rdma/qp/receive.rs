// SPDX-License-Identifier: GPL-2.0

//! The receive queue of a queue pair.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)
//!
//! Contexts: posting and taking do not sleep; making room does. No locks: the owner of the queue
//! pair calls them.

use super::Qp;
use crate::{
    prelude::*,
    rdma::{
        cq::Received,
        mapping::Sge,
        receive::{
            Buffers,
            BUFFERS,
            SLOT_PIECES, //
        },
    },
};

impl<C, T, S, const SLOT: usize> Qp<C, T, S, SLOT> {
    /// Makes room to remember one more receive. May sleep.
    pub(crate) fn reserve_receive(&mut self) -> Result {
        self.receives.reserve()
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
        let Some(slot) = self.receives.slot() else {
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
        // There is room, so every posted receive has its slot and its buffers.
        self.receives.record(buffers);
        Ok(())
    }

    /// The slot and the buffers of the oldest receive, for a completion. None for one of another
    /// queue pair.
    pub(crate) fn take_received(&mut self, received: Received) -> Option<([u8; SLOT], Buffers<T>)> {
        // A completion tells of one receive, and of all before it. One that was dropped leaves
        // its buffers here, and so the oldest has always completed.
        if !received.is_of(self.id) {
            return None;
        }
        self.receives.take()
    }

    /// Frees what only further receives would need. May sleep.
    pub(crate) fn shrink_receives(&mut self) {
        self.receives.shrink();
    }

    /// Bytes of the buffers of the oldest receive.
    pub(crate) fn oldest_receive(&self) -> Option<usize> {
        self.receives.oldest()
    }
}
