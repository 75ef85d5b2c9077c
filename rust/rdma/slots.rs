// SPDX-License-Identifier: GPL-2.0

//! Small pieces of messages, in one mapped allocation for each direction.
//!
//! Requests of a queue complete in the order in which they were posted, so slots are used
//! in turn. Contexts: making them sleeps; the rest does not.

use crate::{
    prelude::*,
    rdma::{
        device::Device,
        mapping::{
            Bytes,
            Direction,
            Mapping, //
        },
    },
};
use kernel::sync::Arc;

/// `count` slots of `slot` bytes.
fn map(
    device: &Arc<Device>,
    count: usize,
    slot: usize,
    direction: Direction,
) -> Result<Mapping<Bytes>> {
    let size = count.checked_mul(slot).ok_or(EINVAL)?;
    Mapping::new(device, Bytes::new(size)?, 0, size, direction)
}

/// Slots of `slot` bytes that the device reads, used in turn.
pub(super) struct SlotRing {
    mapping: Mapping<Bytes>,
    slot: usize,
    next: usize,
}

impl SlotRing {
    /// `count` slots. May sleep.
    pub(super) fn new(device: &Arc<Device>, count: usize, slot: usize) -> Result<Self> {
        Ok(Self {
            mapping: map(device, count, slot, Direction::ToDevice)?,
            slot,
            next: 0,
        })
    }

    /// Puts `bytes` into the next slot and returns its address for an SGE. A message of
    /// `count` calls ago that is still in flight may be sent with these bytes.
    pub(super) fn put(&mut self, bytes: &[u8]) -> Result<u64> {
        if bytes.len() > self.slot {
            return Err(EMSGSIZE);
        }
        let offset = self.next;
        self.mapping.write(offset, bytes)?;
        let end = offset.wrapping_add(self.slot);
        self.next = if end < self.mapping.size() { end } else { 0 };
        Ok(self.mapping.addr().wrapping_add(offset as u64))
    }
}

/// Slots of `SLOT` bytes that the device writes. Receives are posted and complete in the same
/// order, so the slots are used in turn.
pub(super) struct ReceiveSlots<const SLOT: usize> {
    mapping: Mapping<Bytes>,
    /// Offset of the slot for the next receive.
    next: usize,
    /// Number of slots that the device may write.
    posted: usize,
}

impl<const SLOT: usize> ReceiveSlots<SLOT> {
    /// `count` slots. May sleep.
    pub(super) fn new(device: &Arc<Device>, count: usize) -> Result<Self> {
        Ok(Self {
            mapping: map(device, count, SLOT, Direction::FromDevice)?,
            next: 0,
            posted: 0,
        })
    }

    /// The address of the next slot; none if the device may write all of them.
    pub(super) fn next(&self) -> Option<u64> {
        if self.posted.wrapping_mul(SLOT) >= self.mapping.size() {
            return None;
        }
        self.mapping.sync_for_device(self.next, SLOT);
        Some(self.mapping.addr().wrapping_add(self.next as u64))
    }

    /// The next slot was posted.
    pub(super) fn on_posted(&mut self) {
        let end = self.next.wrapping_add(SLOT);
        self.next = if end < self.mapping.size() { end } else { 0 };
        self.posted = self.posted.saturating_add(1);
    }

    /// The contents of the oldest posted slot; its receive has completed.
    pub(super) fn take(&mut self) -> Option<[u8; SLOT]> {
        let behind = self.posted.wrapping_mul(SLOT);
        self.posted = self.posted.checked_sub(1)?;
        let offset = match self.next.checked_sub(behind) {
            Some(offset) => offset,
            None => self
                .next
                .wrapping_add(self.mapping.size())
                .wrapping_sub(behind),
        };
        self.mapping.read(offset)
    }
}
