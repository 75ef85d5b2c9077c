// SPDX-License-Identifier: GPL-2.0

//! Pins of a program's pages, and their account.
//!
//! C header: [`include/linux/mm.h`](srctree/include/linux/mm.h)
//!
//! Pinning happens in the system call of the program that owns the memory;
//! unpinning may happen in any process context. No locks.

use crate::{
    ffi,
    prelude::*, //
};
use kernel::page::PAGE_SIZE;

/// The purpose of pinned pages.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A device reads them while the system call waits.
    Read,
    /// A device writes to them while the system call waits.
    Write,
    /// A device reads them after the system call has returned. The code that reports
    /// the end to the program accounts for them.
    Lend,
    /// As `Lend`, and the program may be kept from writing to them meanwhile: only
    /// pages that no other mapping and no other pin could change. They are accounted
    /// for here.
    Borrow,
    /// A device writes to them after the system call has returned, and the program is kept
    /// from them meanwhile: only pages that no other mapping and no other pin could show.
    /// They are accounted for here.
    Ahead,
}

impl Purpose {
    pub(super) fn is_for_writing(self) -> bool {
        matches!(self, Purpose::Write | Purpose::Ahead)
    }

    /// Whether no other pin may exist.
    pub(super) fn is_exclusive(self) -> bool {
        matches!(self, Purpose::Borrow | Purpose::Ahead)
    }
}

/// Pinned pages.
///
/// # Invariants
///
/// Each of `pages` is pinned once by this value, for the long term. `user` and `charged` record the
/// account of the pinning.
pub(super) struct Pins {
    pages: KVVec<*mut ffi::page>,
    write: bool,
    user: *mut ffi::user_struct,
    charged: c_uint,
}

// SAFETY: Pages may be used and unpinned from any context that can sleep.
unsafe impl Send for Pins {}
// SAFETY: Nothing here changes after `new`, and the pages are only looked at by C, or
// counted.
unsafe impl Sync for Pins {}

/// Number of pages with `len` bytes at `addr`.
pub(super) fn pages_of(addr: usize, len: usize) -> usize {
    (addr % PAGE_SIZE).saturating_add(len).div_ceil(PAGE_SIZE)
}

impl Pins {
    /// Pins the pages of up to `len` bytes at `addr` of the calling program. May pin fewer; fails if
    /// nothing can be pinned. With `charge` the user is charged for them.
    pub(super) fn new(addr: usize, len: usize, purpose: Purpose, charge: bool) -> Result<Self> {
        let count = pages_of(addr, len);
        // As many as the program likes, and the callers cope.
        let pages = KVVec::with_capacity(count, GFP_KERNEL | __GFP_NOWARN)?;
        // INVARIANT: Nothing is pinned and accounted.
        let mut this = Self {
            pages,
            write: purpose.is_for_writing(),
            user: core::ptr::null_mut(),
            charged: 0,
        };
        if charge {
            // SAFETY: The places for the results are ours.
            kernel::error::to_result(unsafe {
                ffi::rust_account_pinned(len, &mut this.user, &mut this.charged)
            })?;
        }
        let wanted = c_int::try_from(count).unwrap_or(c_int::MAX);
        let places = this.pages.as_mut_ptr();
        // Long-term, because the peer decides how long it lasts, even while a call
        // waits. Not all memory can be pinned that way.
        // SAFETY: There is room for `count` pointers.
        let got = unsafe { ffi::rust_pin_user_pages(addr, wanted, this.write, places) };
        let mut got = usize::try_from(got).unwrap_or(0).min(count);
        if purpose.is_exclusive() {
            let wanted = c_int::try_from(got).unwrap_or(0);
            // SAFETY: So many were pinned and filled in.
            let good = unsafe { ffi::rust_count_borrowable(places, wanted) };
            let good = usize::try_from(good).unwrap_or(0).min(got);
            // SAFETY: Those from `good` to `got` were pinned just above, once.
            unsafe {
                let others = places.add(good);
                ffi::unpin_user_pages(others.cast(), got.wrapping_sub(good));
            }
            got = good;
        }
        // SAFETY: The call has filled in that many. INVARIANT: just pinned.
        unsafe { this.pages.inc_len(got) };
        if got == 0 {
            // Dropping ends the accounting.
            return Err(EFAULT);
        }
        Ok(this)
    }

    pub(super) fn as_slice(&self) -> &[*mut ffi::page] {
        &self.pages
    }

    pub(super) fn is_for_writing(&self) -> bool {
        self.write
    }

    pub(super) fn is_charged_to(&self, user: *const ffi::user_struct) -> bool {
        !self.user.is_null() && self.user.cast_const() == user
    }
}

impl Drop for Pins {
    fn drop(&mut self) {
        // SAFETY: Pinned and accounted once, by the invariant. Devices may have written
        // to the pages only if they were pinned for writing; then they are marked
        // dirty, so that reclaim does not lose the bytes.
        unsafe {
            ffi::unpin_user_pages_dirty_lock(
                self.pages.as_mut_ptr().cast(),
                self.pages.len(),
                self.write,
            );
            ffi::rust_unaccount_pinned(self.user, self.charged);
        }
    }
}
