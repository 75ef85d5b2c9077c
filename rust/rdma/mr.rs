// SPDX-License-Identifier: GPL-2.0

//! Memory regions that a work request registers.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)
//!
//! Contexts: everything may sleep. No locks.

use crate::{
    ffi,
    prelude::*,
    random::random_u32, //
};
use core::ptr::NonNull;
use kernel::page::PAGE_SIZE;

/// The access that a memory region permits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// The peer reads.
    RemoteRead,
    /// The peer writes.
    RemoteWrite,
    /// Our own requests write.
    LocalWrite,
}

impl Access {
    pub(super) fn raw(self) -> c_int {
        let flags = match self {
            Access::RemoteRead => ffi::ib_access_flags_IB_ACCESS_REMOTE_READ,
            // Remote write access requires local write access.
            Access::RemoteWrite => {
                ffi::ib_access_flags_IB_ACCESS_REMOTE_WRITE
                    | ffi::ib_access_flags_IB_ACCESS_LOCAL_WRITE
            }
            Access::LocalWrite => ffi::ib_access_flags_IB_ACCESS_LOCAL_WRITE,
        };
        flags as c_int
    }
}

/// One memory region.
///
/// # Invariants
///
/// `mr` is valid.
pub(crate) struct Mr {
    mr: NonNull<ffi::ib_mr>,
    /// The key under which the device knows it, valid or not.
    known: u32,
    /// An earlier user did not invalidate it: that must be done before it can be
    /// registered again.
    valid: bool,
}

// SAFETY: ib_core objects may be used from any thread.
unsafe impl Send for Mr {}

impl Mr {
    /// A region of `pages` pages at most in the protection domain `pd`.
    ///
    /// # Safety
    ///
    /// `pd` is valid, and freed behind the region.
    pub(super) unsafe fn new(pd: *mut ffi::ib_pd, pages: u32) -> Result<Self> {
        let kind = ffi::ib_mr_type_IB_MR_TYPE_MEM_REG;
        // SAFETY: The protection domain is valid, by the caller's promise.
        let mr = unsafe { ffi::ib_alloc_mr(pd, kind, pages) };
        let mr = NonNull::new(kernel::error::from_err_ptr(mr)?).ok_or(ENOMEM)?;
        // INVARIANT: just made.
        let mut this = Self {
            mr,
            known: 0,
            valid: false,
        };
        this.known = this.key();
        Ok(this)
    }

    pub(super) fn as_ptr(&self) -> *mut ffi::ib_mr {
        self.mr.as_ptr()
    }

    /// The key of this registration, for the peer and for our own requests.
    pub(super) fn key(&self) -> u32 {
        // SAFETY: Valid by the invariant. The word changes only by methods that have `&mut`.
        unsafe { (*self.mr.as_ptr()).rkey }
    }

    /// The address of the first byte.
    pub(super) fn start(&self) -> u64 {
        // SAFETY: As in `key`.
        unsafe { (*self.mr.as_ptr()).iova }
    }

    /// Gives the first byte a random address. Drivers use the address of the memory, as
    /// DMA or the kernel sees it, and the peer would learn that one. A random address
    /// cannot be guessed either.
    pub(super) fn disguise(&mut self) {
        let (high, low) = (random_u32(), random_u32());
        let random = u64::from(high) << 32 | u64::from(low);
        let in_page = PAGE_SIZE as u64 - 1;
        // Half of all addresses are enough, and keep the end of the region an address,
        // too.
        let page = random & (u64::MAX >> 1) & !in_page;
        // SAFETY: Valid by the invariant; the device reads it when it carries out the
        // registration, which is not posted yet.
        unsafe {
            let iova = &raw mut (*self.mr.as_ptr()).iova;
            *iova = page | *iova & in_page;
        }
    }

    /// Changes the key by a random step, so that an earlier key is invalid and does not
    /// reveal the next one.
    pub(super) fn next_key(&mut self) {
        // SAFETY: Valid by the invariant.
        unsafe { ffi::rust_ib_next_key(self.mr.as_ptr()) };
    }

    /// The key that must be invalidated before it is registered again; with `always` whether an
    /// earlier user has invalidated it or not.
    pub(super) fn stale_key(&self, always: bool) -> Option<u32> {
        (self.valid || always).then_some(self.known)
    }

    /// A work request that has its key is posted.
    pub(super) fn set_posted(&mut self) {
        self.known = self.key();
    }

    /// All work requests for it have succeeded, and `valid` says whether it is registered.
    pub(super) fn set_settled(&mut self, valid: bool) {
        self.valid = valid;
    }
}

impl Drop for Mr {
    fn drop(&mut self) {
        // SAFETY: Valid by the invariant and never used again.
        unsafe { ffi::rust_ib_dereg_mr(self.mr.as_ptr()) };
    }
}
