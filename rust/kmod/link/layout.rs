// SPDX-License-Identifier: GPL-2.0

//! The pieces of memory that one message is received into.
//!
//! The base header of a message goes to a slot, so that the payload begins at a page and fills
//! pages whole. Long messages have two buffers, because adjacent pages are hard to get in larger
//! numbers than for one; where a message does not fill the first, the second is free at once. A
//! few bytes more than whole pages go to the rest of the slot: an announced size has them for a
//! peer that counts its header twice (RESIZE-5), and hardly any message has so many.

use crate::{
    engine::wire::BSDH_LEN,
    rdma::receive::BUFFERS, //
};
use kernel::page::PAGE_SIZE;

/// Bytes of a message that go to the end of its slot, at most.
const TAIL_MAX: usize = BSDH_LEN;

/// Beginning and end of a message.
pub(super) const RECEIVE_SLOT: usize = BSDH_LEN + TAIL_MAX;

/// Size of the largest buffer: adjacent pages that the allocator keeps at hand.
pub(super) const BUFFER_MAX: usize = PAGE_SIZE << 3;

/// The pieces of messages of up to so many bytes.
#[derive(Clone, Copy, Default)]
pub(super) struct Layout {
    /// Number of buffers behind the base header.
    pub(super) count: usize,
    /// Size of each.
    pub(super) buffer: usize,
    /// Bytes behind those.
    pub(super) tail: usize,
}

impl Layout {
    pub(super) fn new(size: u32) -> Self {
        let payload = (size as usize).saturating_sub(BSDH_LEN);
        let over = payload % PAGE_SIZE;
        let tail = if payload > PAGE_SIZE && over <= TAIL_MAX {
            over
        } else {
            0
        };
        let whole = payload.wrapping_sub(tail);
        let count = whole.div_ceil(BUFFER_MAX).clamp(1, BUFFERS);
        let buffer = if count == 1 {
            whole
        } else {
            // As `div_ceil`, which would check for a panic.
            let each = whole
                .saturating_add(count.wrapping_sub(1))
                .checked_div(count);
            each.unwrap_or(whole).next_multiple_of(PAGE_SIZE)
        };
        Self {
            count,
            buffer,
            tail,
        }
    }

    /// Number of bytes of all buffers of one message.
    pub(super) fn size(&self) -> usize {
        self.count.saturating_mul(self.buffer)
    }
}
