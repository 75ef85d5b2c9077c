// SPDX-License-Identifier: GPL-2.0

//! Words in the memory of a program, which the kernel writes to: the counters of SDP_BORROW and
//! SDP_AHEAD. And the address space that a counter is for.
//!
//! Contexts: making one pins memory, in the system call of the program; writing works
//! anywhere; dropping may sleep. No locks.

use crate::{
    ffi,
    prelude::*,
    rdma::{
        page::Page,
        pages::{
            Purpose,
            UserPages, //
        },
    }, //
};
use core::ptr::NonNull;
use kernel::sync::{
    atomic::{
        Atomic,
        Release, //
    },
    Arc, //
};

/// The address space of a program, which may have ended.
///
/// # Invariants
///
/// One reference to the `mm_struct` is this value's.
pub(super) struct AddressSpace(NonNull<ffi::mm_struct>);

// SAFETY: References to an address space may be dropped by any task.
unsafe impl Send for AddressSpace {}
// SAFETY: It is only compared.
unsafe impl Sync for AddressSpace {}

impl AddressSpace {
    pub(super) fn current() -> Result<Self> {
        // SAFETY: Plain question about the current task.
        let mm = unsafe { ffi::sdp_mm_grab() };
        // INVARIANT: The call has taken a reference.
        Ok(Self(NonNull::new(mm).ok_or(EINVAL)?))
    }

    pub(super) fn is_current(&self) -> bool {
        // SAFETY: Only compared.
        unsafe { ffi::sdp_mm_is_current(self.0.as_ptr()) }
    }

    /// Whether a program may still run in it.
    pub(super) fn is_used(&self) -> bool {
        // SAFETY: The reference is ours by the invariant.
        unsafe { ffi::sdp_mm_is_used(self.0.as_ptr()) }
    }
}

impl Drop for AddressSpace {
    fn drop(&mut self) {
        // SAFETY: The reference is ours by the invariant.
        unsafe { ffi::sdp_mm_drop(self.0.as_ptr()) };
    }
}

/// Words of the program, in a pinned page.
pub(super) struct Place {
    /// The address in the program.
    address: u64,
    page: Page,
    offset: usize,
    len: usize,
    /// The pin. The page is written through `page`.
    _pages: Arc<UserPages>,
}

impl Place {
    /// `len` bytes at `address`, a power of two, on a multiple of it.
    pub(super) fn new(address: u64, len: usize) -> Result<Self> {
        let addr = usize::try_from(address).map_err(|_| EFAULT)?;
        if addr & len.wrapping_sub(1) != 0 {
            return Err(EINVAL);
        }
        let pages = UserPages::pin(addr, len, Purpose::Write)?;
        let wanted = u32::try_from(len).map_err(|_| EINVAL)?;
        let (page, offset, there) = pages.page_at(0, wanted).ok_or(EFAULT)?;
        // Aligned, so it lies in one page.
        if there != wanted {
            return Err(EFAULT);
        }
        Ok(Self {
            address,
            page,
            offset: offset as usize,
            len,
            _pages: pages,
        })
    }

    pub(super) fn address(&self) -> u64 {
        self.address
    }

    /// Sets the word at the offset `at`. The program sees it after everything that was done to its
    /// memory before.
    pub(super) fn set(&self, at: usize, value: u32) {
        let last = self.len.saturating_sub(core::mem::size_of::<u32>());
        let address = self
            .page
            .address()
            .wrapping_add(self.offset)
            .wrapping_add(at.min(last));
        // SAFETY: The page is pinned, and the words lie in it, on a multiple of their length.
        // The program may change the word meanwhile, as any other thread may.
        unsafe { Atomic::<u32>::from_ptr(address.cast()) }.store(value, Release);
    }
}
