// SPDX-License-Identifier: GPL-2.0

//! Small pieces of messages, in one mapped allocation for each direction.
//!
//! Requests of a queue complete in the order in which they were posted, so slots are used
//! in turn. Contexts: making them sleeps; the rest does not.

use crate::{
    prelude::*,
    verbs::{
        buffer::{
            Direction,
            Mapping, //
        },
        device::Device,
    },
};
use kernel::sync::Arc;

/// Slots of `SLOT` bytes that the device reads, used in turn.
pub(crate) struct SlotRing<const SLOT: usize> {
    mapping: Mapping,
    memory: KVec<u8>,
    next: usize,
}

impl<const SLOT: usize> SlotRing<SLOT> {
    /// `count` slots. May sleep.
    ///
    /// # Safety
    ///
    /// The device is leased until the slots are dropped.
    pub(crate) unsafe fn new(device: &Arc<Device>, count: usize) -> Result<Self> {
        let bytes = count.checked_mul(SLOT).ok_or(EINVAL)?;
        let mut memory = KVec::from_elem(0, bytes, GFP_KERNEL_ACCOUNT)?;
        // SAFETY: A `KVec` is of `kmalloc`. It is kept beside the mapping and behind it,
        // and never grows. The lease is the caller's promise.
        let mapping = unsafe { Mapping::of_memory(device, &mut memory, Direction::ToDevice) }?;
        Ok(Self {
            mapping,
            memory,
            next: 0,
        })
    }

    /// Puts `bytes` into the next slot and returns its address for an SGE. The device
    /// must have finished with the contents of `count` calls ago.
    pub(crate) fn put(&mut self, bytes: &[u8]) -> Result<u64> {
        let offset = self.next;
        let end = offset.wrapping_add(SLOT);
        let slot = self.memory.get_mut(offset..end).ok_or(EINVAL)?;
        slot.get_mut(..bytes.len())
            .ok_or(EMSGSIZE)?
            .copy_from_slice(bytes);
        self.mapping.sync_for_device(offset, bytes.len());
        self.next = if end < self.memory.len() { end } else { 0 };
        Ok(self.mapping.addr().wrapping_add(offset as u64))
    }
}

/// Slots of `SLOT` bytes that the device writes. Receives are posted and complete in the same
/// order, so the slots are used in turn.
pub(crate) struct ReceiveSlots<const SLOT: usize> {
    mapping: Mapping,
    memory: KVec<u8>,
    /// Offset of the slot for the next receive.
    next: usize,
    /// Number of slots that the device may write.
    posted: usize,
}

impl<const SLOT: usize> ReceiveSlots<SLOT> {
    /// `count` slots. May sleep.
    ///
    /// # Safety
    ///
    /// The device is leased until the slots are dropped.
    pub(crate) unsafe fn new(device: &Arc<Device>, count: usize) -> Result<Self> {
        let bytes = count.checked_mul(SLOT).ok_or(EINVAL)?;
        let mut memory = KVec::from_elem(0, bytes, GFP_KERNEL_ACCOUNT)?;
        // SAFETY: A `KVec` is of `kmalloc`. It is kept beside the mapping and behind it,
        // and never grows. The lease is the caller's promise.
        let mapping = unsafe { Mapping::of_memory(device, &mut memory, Direction::FromDevice) }?;
        Ok(Self {
            mapping,
            memory,
            next: 0,
            posted: 0,
        })
    }

    /// The address of the next slot; none if the device may write all of them.
    pub(crate) fn next(&self) -> Option<u64> {
        if self.posted.wrapping_mul(SLOT) >= self.memory.len() {
            return None;
        }
        self.mapping.sync_for_device(self.next, SLOT);
        Some(self.mapping.addr().wrapping_add(self.next as u64))
    }

    /// The next slot was posted.
    pub(crate) fn on_posted(&mut self) {
        let end = self.next.wrapping_add(SLOT);
        self.next = if end < self.memory.len() { end } else { 0 };
        self.posted = self.posted.saturating_add(1);
    }

    /// The contents of the oldest posted slot, whose receive has completed.
    pub(crate) fn take(&mut self) -> Option<[u8; SLOT]> {
        let behind = self.posted.wrapping_mul(SLOT);
        self.posted = self.posted.checked_sub(1)?;
        let len = self.memory.len();
        let offset = match self.next.checked_sub(behind) {
            Some(offset) => offset,
            None => self.next.wrapping_add(len).wrapping_sub(behind),
        };
        self.mapping.sync_for_cpu(offset, SLOT);
        let slot = self.memory.get(offset..offset.wrapping_add(SLOT))?.as_ptr();
        let mut bytes = [0; SLOT];
        for (at, byte) in bytes.iter_mut().enumerate() {
            // SAFETY: The slot has `SLOT` bytes. Volatile, because the memory is a device's
            // as well: one that still writes there makes the byte another one and nothing
            // worse.
            *byte = unsafe { core::ptr::read_volatile(slot.add(at)) };
        }
        Some(bytes)
    }
}
