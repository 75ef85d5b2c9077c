// SPDX-License-Identifier: GPL-2.0

//! Pages of a program, pinned while a device moves their bytes.
//!
//! C header: [`include/linux/mm.h`](srctree/include/linux/mm.h)
//!
//! Pinning happens in the system call of the program that owns the memory;
//! unpinning may happen in any process context. No locks.

use crate::{
    ffi,
    prelude::*,
    rdma::page::Page, //
};
use core::ptr::NonNull;
use kernel::{
    page::PAGE_SIZE,
    sync::Arc, //
};

/// The purpose of pinned pages.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A device reads them while the system call waits. With `stay` they may remain
    /// pinned and registered after it.
    Read { stay: bool },
    /// A device writes to them; as above.
    Write { stay: bool },
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

/// A range of a program's memory with pinned pages.
///
/// # Invariants
///
/// Each of `pages` is pinned once by this value. They hold, in order, the bytes that
/// were at `[addr, addr + len)` when they were pinned, for the long term. `user` and
/// `charged` record the account of the pinning. With `stay` they may remain pinned
/// after the system call.
pub(crate) struct UserPages {
    pages: KVVec<*mut ffi::page>,
    addr: usize,
    len: usize,
    write: bool,
    stay: bool,
    user: *mut ffi::user_struct,
    charged: c_uint,
}

// SAFETY: Pages may be used and unpinned from any context that can sleep.
unsafe impl Send for UserPages {}
// SAFETY: Nothing here changes after `pin`, and the pages are only looked at by C, or
// counted.
unsafe impl Sync for UserPages {}

/// The result of a delivery to the program's memory.
pub(crate) struct Delivered {
    /// Bytes that are in the program's memory.
    pub(crate) len: usize,
    /// Bytes among them that had to be copied, because the program's memory had changed
    /// meanwhile.
    pub(crate) copied: usize,
    /// The delivery ended where the program has moved pages of the range to other
    /// places in it: a copy there would overwrite bytes that are not delivered yet.
    pub(crate) tangled: bool,
}

/// The result of comparing pages.
struct Compared {
    /// Pages that are still mapped at their place, as bits.
    same: u32,
    /// One of them is mapped at the place of another one.
    tangled: bool,
}

/// Number of pages compared at a time.
const BATCH: usize = 16;

fn pages_of(addr: usize, len: usize) -> usize {
    (addr % PAGE_SIZE).saturating_add(len).div_ceil(PAGE_SIZE)
}

impl UserPages {
    /// Pins up to `len` bytes at `addr` of the calling program. May pin fewer; fails if
    /// nothing can be pinned.
    pub(crate) fn pin(addr: usize, len: usize, purpose: Purpose) -> Result<Arc<Self>> {
        let count = pages_of(addr, len);
        // As many as the program likes, and the callers cope.
        let mut pages = KVVec::with_capacity(count, GFP_KERNEL | __GFP_NOWARN)?;
        let mut user = core::ptr::null_mut();
        let mut charged = 0;
        let lent = purpose == Purpose::Lend;
        let write = matches!(purpose, Purpose::Write { .. } | Purpose::Ahead);
        let stay = matches!(
            purpose,
            Purpose::Read { stay: true } | Purpose::Write { stay: true }
        );
        if !lent {
            // SAFETY: The places for the results are ours.
            kernel::error::to_result(unsafe {
                ffi::rust_account_pinned(len, &mut user, &mut charged)
            })?;
        }
        let wanted = c_int::try_from(count).unwrap_or(c_int::MAX);
        // Long-term, because the peer decides how long it lasts, even while a call
        // waits. Not all memory can be pinned that way.
        // SAFETY: There is room for `count` pointers.
        let got = unsafe { ffi::rust_pin_user_pages(addr, wanted, write, pages.as_mut_ptr()) };
        let mut got = usize::try_from(got).unwrap_or(0).min(count);
        if matches!(purpose, Purpose::Borrow | Purpose::Ahead) {
            let wanted = c_int::try_from(got).unwrap_or(0);
            // SAFETY: So many were pinned and filled in.
            let good = unsafe { ffi::rust_count_borrowable(pages.as_mut_ptr(), wanted) };
            let good = usize::try_from(good).unwrap_or(0).min(got);
            // SAFETY: Those from `good` to `got` were pinned just above, once.
            unsafe {
                let others = pages.as_mut_ptr().add(good);
                ffi::unpin_user_pages(others.cast(), got.wrapping_sub(good));
            }
            got = good;
        }
        // SAFETY: The call has filled in that many.
        unsafe { pages.inc_len(got) };
        let there = got
            .saturating_mul(PAGE_SIZE)
            .saturating_sub(addr % PAGE_SIZE);
        // INVARIANT: just pinned, and just accounted.
        let this = Self {
            pages,
            addr,
            len: len.min(there),
            write,
            stay,
            user,
            charged,
        };
        if this.len == 0 {
            // Dropping ends the accounting.
            return Err(EFAULT);
        }
        Ok(Arc::new(this, GFP_KERNEL)?)
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Offset of the first byte in the first page.
    pub(crate) fn offset(&self) -> usize {
        self.addr % PAGE_SIZE
    }

    pub(crate) fn as_slice(&self) -> &[*mut ffi::page] {
        &self.pages
    }

    /// The page of byte `at`, the offset of the byte in it, and the number of bytes
    /// that follow in it, at most `max`.
    pub(crate) fn page_at(&self, at: u32, max: u32) -> Option<(Page, u32, u32)> {
        let at = at as usize;
        let left = self.len.checked_sub(at)?;
        let from = self.offset().saturating_add(at);
        let page = NonNull::new(*self.pages.get(from / PAGE_SIZE)?)?;
        let offset = from % PAGE_SIZE;
        let len = PAGE_SIZE.saturating_sub(offset).min(max as usize).min(left);
        // SAFETY: Pinned by the invariant.
        let page = unsafe { Page::get(page) };
        Some((page, offset as u32, len as u32))
    }

    /// Calls `f` for each stretch of the `len` bytes from byte `at` on that is contiguous in
    /// the kernel's memory, in their order. Nothing, if the range has fewer bytes.
    pub(crate) fn each_stretch(&self, at: usize, len: usize, mut f: impl FnMut(*mut u8, usize)) {
        if at.checked_add(len).is_none_or(|end| end > self.len) {
            return;
        }
        let from = self.offset().saturating_add(at);
        let (mut offset, mut left) = (from % PAGE_SIZE, len);
        let (mut start, mut run) = (core::ptr::null_mut::<u8>(), 0usize);
        for page in self.pages.iter().skip(from / PAGE_SIZE) {
            let part = PAGE_SIZE.saturating_sub(offset).min(left);
            // SAFETY: Pinned by the invariant. 64-bit machines have no high memory.
            let page = unsafe { ffi::rust_page_address(*page) }.cast::<u8>();
            let there = page.wrapping_add(offset);
            if run > 0 && start.wrapping_add(run) != there {
                f(start, run);
                run = 0;
            }
            if run == 0 {
                start = there;
            }
            run = run.wrapping_add(part);
            (offset, left) = (0, left.saturating_sub(part));
            if left == 0 {
                break;
            }
        }
        if run > 0 {
            f(start, run);
        }
    }

    /// The device has written the first `len` bytes: delivers them to the memory that
    /// the program has now.
    ///
    /// The program may have changed its memory since the pages were pinned (munmap,
    /// fork, MADV_DONTNEED...). If other pages are mapped by now, the bytes are copied
    /// to them. If none are, or pages of the range itself, the delivery ends.
    ///
    /// Called by the program that the memory was pinned for, without locks.
    pub(crate) fn deliver(&self, len: usize) -> Delivered {
        let len = len.min(self.len);
        let count = pages_of(self.addr, len);
        let mut done = Delivered {
            len: 0,
            copied: 0,
            tangled: false,
        };
        let mut first = 0usize;
        while first < count {
            let n = count.wrapping_sub(first).min(BATCH);
            let compared = self.compare(first, n);
            if compared.tangled {
                done.tangled = true;
                return done;
            }
            if compared.same.count_ones() as usize == n {
                let end = first.wrapping_add(n).saturating_mul(PAGE_SIZE);
                done.len = end.saturating_sub(self.offset()).min(len);
                first = first.wrapping_add(n);
                continue;
            }
            for i in 0..n {
                let Some((page, offset, part)) =
                    self.page_at(done.len as u32, len.saturating_sub(done.len) as u32)
                else {
                    return done;
                };
                if compared.same & (1 << i) == 0 {
                    let to = self.addr.wrapping_add(done.len);
                    // SAFETY: The page is pinned and holds these bytes; the
                    // callee checks the user's address.
                    let missing = unsafe {
                        ffi::rust_copy_to_user(
                            to as *mut c_void,
                            page.address().add(offset as usize).cast(),
                            part as usize,
                        )
                    };
                    let there = (part as usize).saturating_sub(missing);
                    done.copied = done.copied.saturating_add(there);
                    done.len = done.len.saturating_add(there);
                    if missing > 0 {
                        return done;
                    }
                } else {
                    done.len = done.len.saturating_add(part as usize);
                }
            }
            first = first.wrapping_add(n);
        }
        done
    }

    /// Copies `len` bytes from byte `at` on to the start of `to`; EINVAL where one of the
    /// two has fewer.
    pub(crate) fn copy_to(&self, at: usize, len: usize, to: &Page) -> Result {
        if !to.holds(0, len) {
            return Err(EINVAL);
        }
        let mut done = 0usize;
        while done < len {
            let from = u32::try_from(at.saturating_add(done)).map_err(|_| EINVAL)?;
            let want = u32::try_from(len.saturating_sub(done)).map_err(|_| EINVAL)?;
            let (page, offset, n) = self.page_at(from, want).ok_or(EINVAL)?;
            // SAFETY: The page is pinned and holds these bytes, and `to` has room for all
            // `len`. By C, because the program may write to its memory meanwhile, which
            // makes the bytes other ones and nothing worse.
            unsafe {
                ffi::rust_copy_bytes(
                    to.address().add(done).cast(),
                    page.address().add(offset as usize).cast(),
                    n as usize,
                )
            };
            done = done.saturating_add(n as usize);
        }
        Ok(())
    }

    /// Compares `n` pages from `first` on with the program's current ones.
    fn compare(&self, first: usize, n: usize) -> Compared {
        let mut now = [core::ptr::null_mut(); BATCH];
        let at = (self.addr & !(PAGE_SIZE - 1)).wrapping_add(first.saturating_mul(PAGE_SIZE));
        let wanted = n.min(BATCH) as c_int;
        // SAFETY: There is room for `BATCH` pointers.
        let got = unsafe { ffi::rust_get_user_pages(at, wanted, now.as_mut_ptr()) };
        let got = usize::try_from(got).unwrap_or(0).min(BATCH);
        let mut found = Compared {
            same: 0,
            tangled: false,
        };
        for (i, page) in now.iter().take(got).enumerate() {
            if self.pages.get(first.wrapping_add(i)) == Some(page) {
                found.same |= 1 << i;
            } else {
                found.tangled |= self.pages.contains(page);
            }
        }
        // SAFETY: Taken just above.
        unsafe { ffi::rust_put_user_pages(now.as_mut_ptr(), got as c_uint) };
        found
    }

    pub(crate) fn is_for_writing(&self) -> bool {
        self.write
    }

    /// Whether the pages may remain pinned after the system call.
    pub(crate) fn can_stay(&self) -> bool {
        self.stay
    }

    /// Whether these are the same bytes of the same pages, pinned for the same purpose.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.offset() == other.offset()
            && self.len == other.len
            && self.write == other.write
            && self.as_slice() == other.as_slice()
    }

    pub(crate) fn is_charged_to(&self, user: *const ffi::user_struct) -> bool {
        !self.user.is_null() && self.user.cast_const() == user
    }
}

impl Drop for UserPages {
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
