// SPDX-License-Identifier: GPL-2.0

//! A protection domain of ib_core, which is freed when it is dropped.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)
//!
//! Contexts: everything may sleep. No locks.

use crate::{
    ffi,
    prelude::*, //
};
use core::ptr::NonNull;

/// See the module.
///
/// # Invariants
///
/// It is valid.
pub(super) struct Pd(NonNull<ffi::ib_pd>);

// SAFETY: ib_core objects may be used from any thread.
unsafe impl Send for Pd {}

impl Pd {
    /// # Safety
    ///
    /// `ib` is registered until the result is dropped.
    pub(super) unsafe fn new(ib: *mut ffi::ib_device) -> Result<Self> {
        // SAFETY: The device is registered, by the caller's promise.
        let pd = unsafe { ffi::rust_ib_alloc_pd(ib) };
        // INVARIANT: made just now.
        NonNull::new(kernel::error::from_err_ptr(pd)?)
            .map(Self)
            .ok_or(ENOMEM)
    }

    pub(super) fn as_non_null(&self) -> NonNull<ffi::ib_pd> {
        self.0
    }
}

impl Drop for Pd {
    fn drop(&mut self) {
        // SAFETY: Valid by the invariant. Every object in the domain has been dropped: queue pairs and
        // regions, in use or being freed, have held it, and idle regions are dropped before.
        unsafe { ffi::rust_ib_dealloc_pd(self.0.as_ptr()) };
    }
}
