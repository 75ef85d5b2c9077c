// SPDX-License-Identifier: GPL-2.0

//! Pinned pages of a program, mapped for a device.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)
//!
//! Contexts: process context, may sleep. No locks.

use crate::{
    ffi,
    prelude::*,
    rdma::{
        device::Device,
        mapping::Direction, //
    },
};
use kernel::sync::Arc;

/// See the module.
///
/// # Invariants
///
/// All elements of `sgl`, with `len` bytes, were mapped for `device` in `direction` and are not unmapped. They have
/// become `entries` ranges of the device.
pub(super) struct Mapped {
    device: Arc<Device>,
    sgl: KVVec<ffi::scatterlist>,
    entries: c_uint,
    len: usize,
    direction: Direction,
}

// SAFETY: The list, which has the pointers, belongs to this value alone; the rest is `Send` by itself.
unsafe impl Send for Mapped {}
// SAFETY: Nothing here changes.
unsafe impl Sync for Mapped {}

/// Ranges of a device, which lie in a [`Mapped`].
pub(super) struct Ranges<'a> {
    /// A copy for a part of the list; none for all of it.
    part: Option<KVVec<ffi::scatterlist>>,
    of: &'a Mapped,
    count: c_uint,
}

impl Mapped {
    /// Maps `len` bytes from `offset` in the first of `pages` on.
    ///
    /// # Safety
    ///
    /// The pages are pinned as long as the result lives, and hold so many bytes.
    pub(super) unsafe fn new(
        device: &Arc<Device>,
        pages: &[*mut ffi::page],
        offset: usize,
        len: usize,
        direction: Direction,
    ) -> Result<Self> {
        // As many as the program likes; without memory for them its bytes are copied.
        let mut sgl = KVVec::with_capacity(pages.len(), GFP_KERNEL | __GFP_NOWARN)?;
        let mut used = 0;
        // SAFETY: There is room for as many entries as pages, which have `len` bytes from the offset
        // on, by the caller's promise; the device is valid by its type's invariant.
        let entries = unsafe {
            ffi::rust_ib_dma_map_pages(
                device.as_ptr(),
                sgl.as_mut_ptr(),
                pages.as_ptr().cast_mut(),
                pages.len() as c_uint,
                offset as c_uint,
                len,
                direction.raw(),
                &mut used,
            )
        };
        if entries <= 0 {
            return Err(ENOMEM);
        }
        // SAFETY: There is room for them, and the call has initialised them.
        unsafe { sgl.inc_len((used as usize).min(pages.len())) };
        // INVARIANT: mapped just above.
        Ok(Self {
            device: device.clone(),
            sgl,
            entries: entries.unsigned_abs(),
            len,
            direction,
        })
    }

    pub(super) fn is_for(&self, device: &Arc<Device>) -> bool {
        Arc::ptr_eq(&self.device, device)
    }

    /// Whether bytes have to be handed over between the processor and the device.
    pub(super) fn needs_sync(&self) -> bool {
        let sgl = self.sgl.as_ptr().cast_mut();
        // SAFETY: Mapped by the invariant, with so many ranges; they are only looked at.
        unsafe { ffi::rust_ib_dma_needs_sync(self.device.as_ptr(), sgl, self.entries) }
    }

    /// All ranges.
    fn whole(&self) -> Ranges<'_> {
        Ranges {
            part: None,
            of: self,
            count: self.entries,
        }
    }

    /// The ranges of `len` bytes from byte `at` on; EINVAL where there are fewer.
    pub(super) fn part(&self, at: usize, len: usize) -> Result<Ranges<'_>> {
        if (at, len) == (0, self.len) {
            return Ok(self.whole());
        }
        let mut part = KVVec::with_capacity(self.entries as usize, GFP_KERNEL | __GFP_NOWARN)?;
        let sgl = self.sgl.as_ptr().cast_mut();
        // SAFETY: Mapped by the invariant, with so many ranges; there is room for as many.
        let count = unsafe { ffi::rust_ib_dma_part(sgl, self.entries, at, len, part.as_mut_ptr()) };
        if count == 0 {
            return Err(EINVAL);
        }
        // SAFETY: The call has initialised them.
        unsafe { part.inc_len((count as usize).min(self.entries as usize)) };
        Ok(Ranges {
            part: Some(part),
            of: self,
            count,
        })
    }
}

impl Ranges<'_> {
    /// The list. Only its ranges of the device mean something.
    pub(super) fn as_ptr(&self) -> *mut ffi::scatterlist {
        let list = self.part.as_ref().unwrap_or(&self.of.sgl);
        list.as_ptr().cast_mut()
    }

    pub(super) fn count(&self) -> c_int {
        c_int::try_from(self.count).unwrap_or(c_int::MAX)
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: Mapped by the invariant, with this many entries.
        unsafe {
            ffi::rust_ib_dma_unmap_sg(
                self.device.as_ptr(),
                self.sgl.as_mut_ptr(),
                self.sgl.len() as c_uint,
                self.direction.raw(),
            )
        };
    }
}
