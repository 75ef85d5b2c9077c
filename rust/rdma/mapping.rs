// SPDX-License-Identifier: GPL-2.0

//! Memory that is mapped for a device.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)
//!
//! A [`Mapping`] owns its memory, so the device never has memory that has another owner by now.
//! `kernel::dma` maps for a `struct device`; ib_core has calls of its own, because some RDMA devices
//! have none.
//!
//! Every address that a device gets comes from here. rxe and siw have no DMA device, so a mistake
//! shows on hardware only. `sync_for_cpu` comes before a look at a received buffer,
//! `sync_for_device` before a buffer is posted and after a header was written.
//!
//! Contexts: any. No locks.

use crate::{
    ffi,
    prelude::*,
    rdma::device::Device, //
};
use kernel::sync::Arc;

/// Memory that can be mapped.
///
/// # Safety
///
/// `size()` bytes at `address()` are physically contiguous memory of the linear mapping. They belong
/// to the value, which gives out no Rust reference to them without a `&mut` of its own, and stay the
/// same until it is dropped, also when it moves.
pub(crate) unsafe trait Memory {
    fn address(&self) -> *mut u8;
    fn size(&self) -> usize;
}

/// Bytes of `kmalloc`, which no Rust reference reaches.
pub(super) struct Bytes(KVec<u8>);

impl Bytes {
    /// `len` zeroes. May sleep.
    pub(super) fn new(len: usize) -> Result<Self> {
        Ok(Self(KVec::from_elem(0, len, GFP_KERNEL_ACCOUNT)?))
    }
}

// SAFETY: A `KVec` is of `kmalloc`, which is contiguous, and this one never grows.
unsafe impl Memory for Bytes {
    fn address(&self) -> *mut u8 {
        self.0.as_ptr().cast_mut()
    }

    fn size(&self) -> usize {
        self.0.len()
    }
}

/// The direction of a transfer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    ToDevice,
    FromDevice,
}

impl Direction {
    pub(super) fn raw(self) -> i32 {
        // The values of `enum dma_data_direction`, which are fixed.
        match self {
            Direction::ToDevice => 1,
            Direction::FromDevice => 2,
        }
    }
}

/// A piece of memory for a request: a key, an address under it, a length. It does not keep the
/// memory, so to post it is unsafe.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct Sge(ffi::ib_sge);

impl Sge {
    pub(super) fn new(lkey: u32, addr: u64, length: u32) -> Self {
        Self(ffi::ib_sge { addr, length, lkey })
    }

    /// No bytes at all, to be replaced.
    pub(super) const NONE: Self = Self(ffi::ib_sge {
        addr: 0,
        length: 0,
        lkey: 0,
    });

    /// The last byte of the piece.
    pub(super) fn last_byte(self) -> Self {
        let before = self.0.length.saturating_sub(1);
        Self::new(self.0.lkey, self.0.addr.wrapping_add(before.into()), 1)
    }
}

/// A range of memory, mapped for a device.
///
/// The memory is dropped behind the mapping.
pub(crate) struct Mapping<M> {
    range: Range,
    memory: M,
}

/// The mapping itself.
///
/// # Invariants
///
/// `addr` was returned by `ib_dma_map_single` for `len` bytes and `direction` on `device` and was
/// not unmapped.
struct Range {
    device: Arc<Device>,
    addr: u64,
    len: usize,
    direction: Direction,
}

impl<M: Memory> Mapping<M> {
    /// Maps `len` bytes at `offset` of `memory`; EINVAL where they do not lie in it.
    pub(crate) fn new(
        device: &Arc<Device>,
        memory: M,
        offset: usize,
        len: usize,
        direction: Direction,
    ) -> Result<Self> {
        if offset
            .checked_add(len)
            .is_none_or(|end| end > memory.size())
        {
            return Err(EINVAL);
        }
        // SAFETY: The device is valid by its type's invariant. The bytes are contiguous, and stay
        // as long as `memory`, which is dropped behind the mapping.
        let addr = unsafe {
            let from = memory.address().add(offset).cast();
            let addr = ffi::rust_ib_dma_map_single(device.as_ptr(), from, len, direction.raw());
            if ffi::rust_ib_dma_mapping_error(device.as_ptr(), addr) != 0 {
                return Err(ENOMEM);
            }
            addr
        };
        // INVARIANT: just mapped.
        Ok(Self {
            range: Range {
                device: device.clone(),
                addr,
                len,
                direction,
            },
            memory,
        })
    }

    pub(crate) fn memory(&self) -> &M {
        &self.memory
    }

    /// Ends the mapping, and gives the memory away: the device does not access it again.
    pub(crate) fn into_memory(self) -> M {
        drop(self.range);
        self.memory
    }

    /// Number of bytes that are mapped.
    pub(crate) fn size(&self) -> usize {
        self.range.len
    }

    /// Address for an [`Sge`].
    pub(super) fn addr(&self) -> u64 {
        self.range.addr
    }

    /// Whether `len` bytes at `offset` are mapped.
    pub(crate) fn covers(&self, offset: usize, len: usize) -> bool {
        offset
            .checked_add(len)
            .is_some_and(|end| end <= self.range.len)
    }

    /// Gives `len` bytes at `offset` to the CPU after the device wrote them.
    pub(crate) fn sync_for_cpu(&self, offset: usize, len: usize) {
        let (addr, len) = self.range.part(offset, len);
        let Range {
            device, direction, ..
        } = &self.range;
        // SAFETY: The part is inside of the mapping, by the invariants of `Range` and `Device`.
        unsafe { ffi::rust_ib_dma_sync_for_cpu(device.as_ptr(), addr, len, direction.raw()) };
    }

    /// Gives `len` bytes at `offset` back to the device.
    pub(crate) fn sync_for_device(&self, offset: usize, len: usize) {
        let (addr, len) = self.range.part(offset, len);
        let Range {
            device, direction, ..
        } = &self.range;
        // SAFETY: The part is inside of the mapping, by the invariants of `Range` and `Device`.
        unsafe { ffi::rust_ib_dma_sync_for_device(device.as_ptr(), addr, len, direction.raw()) };
    }
}

impl Mapping<Bytes> {
    /// Puts `bytes` at `offset`, for the device to read; EINVAL where there is no room.
    pub(super) fn write(&mut self, offset: usize, bytes: &[u8]) -> Result {
        if !self.covers(offset, bytes.len()) {
            return Err(EINVAL);
        }
        // SAFETY: All of the memory is mapped, so it has the room. A device that still reads there
        // gets other bytes and nothing worse.
        unsafe {
            let to = self.memory.address().add(offset);
            core::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len());
        }
        self.sync_for_device(offset, bytes.len());
        Ok(())
    }

    /// The `N` bytes at `offset`, which the device has written.
    pub(super) fn read<const N: usize>(&self, offset: usize) -> Option<[u8; N]> {
        if !self.covers(offset, N) {
            return None;
        }
        self.sync_for_cpu(offset, N);
        let mut bytes = [0; N];
        // SAFETY: All of the memory is mapped, so it has the bytes. It is C that copies them,
        // because a device may still write there.
        unsafe {
            let from = self.memory.address().add(offset);
            ffi::rust_copy_shared(bytes.as_mut_ptr().cast(), from.cast(), N);
        }
        Some(bytes)
    }
}

impl Range {
    /// The address and length of `len` bytes at `offset`, as far as they are mapped.
    fn part(&self, offset: usize, len: usize) -> (u64, usize) {
        let offset = offset.min(self.len);
        let len = len.min(self.len.wrapping_sub(offset));
        (self.addr.wrapping_add(offset as u64), len)
    }
}

impl Drop for Range {
    fn drop(&mut self) {
        let way = self.direction.raw();
        // SAFETY: Mapped by the invariant, and this is the only unmapping; the device is valid by
        // its type's invariant.
        unsafe { ffi::rust_ib_dma_unmap_single(self.device.as_ptr(), self.addr, self.len, way) };
    }
}
