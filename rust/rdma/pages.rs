// SPDX-License-Identifier: GPL-2.0

//! A range of a program's memory in pinned pages, while a device moves their bytes.
//!
//! C header: [`include/linux/mm.h`](srctree/include/linux/mm.h)
//!
//! Pinning happens in the system call of the program that owns the memory;
//! unpinning may happen in any process context. No locks.

use crate::{
    ffi,
    prelude::*,
    rdma::{
        page::Page,
        pins::{
            pages_of,
            Pins, //
        },
        translation::Translation, //
    },
};
use core::ptr::NonNull;
use kernel::{
    page::PAGE_SIZE,
    sync::Arc, //
};

pub(crate) use crate::rdma::pins::Purpose;

/// The owner of the pins of a range.
enum Pinned {
    Own(Pins),
    /// They are the translation cache's, and stay at least as long as this.
    Cached(Arc<Translation>),
}

/// A range of a program's memory with pinned pages.
///
/// # Invariants
///
/// The `count` pages from the one with the number `first` on are pinned by `pinned`. They hold, in order, the
/// bytes that were at `[addr, addr + len)` when they were pinned, or when they were found in the cache.
pub(crate) struct UserPages {
    pinned: Pinned,
    first: usize,
    count: usize,
    addr: usize,
    len: usize,
}

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

impl UserPages {
    /// Pins up to `len` bytes at `addr` of the calling program. May pin fewer; fails if
    /// nothing can be pinned.
    pub(crate) fn pin(addr: usize, len: usize, purpose: Purpose) -> Result<Arc<Self>> {
        let pins = Pins::new(addr, len, purpose, purpose != Purpose::Lend)?;
        let count = pins.as_slice().len();
        let there = count
            .saturating_mul(PAGE_SIZE)
            .saturating_sub(addr % PAGE_SIZE);
        // INVARIANT: just pinned.
        let this = Self {
            pinned: Pinned::Own(pins),
            first: 0,
            count,
            addr,
            len: len.min(there),
        };
        Ok(Arc::new(this, GFP_KERNEL)?)
    }

    /// Up to `len` bytes at `addr` in the pages of `translation`; EFAULT if there are none.
    pub(super) fn of(translation: Arc<Translation>, addr: usize, len: usize) -> Result<Arc<Self>> {
        let first = (addr / PAGE_SIZE).checked_sub(translation.first_page());
        let first = first.ok_or(EFAULT)?;
        let pages = translation.pins().as_slice().len();
        let count = pages.saturating_sub(first).min(pages_of(addr, len));
        let there = count
            .saturating_mul(PAGE_SIZE)
            .saturating_sub(addr % PAGE_SIZE);
        if there == 0 {
            return Err(EFAULT);
        }
        // INVARIANT: Such pages the translation has, by its type's invariant.
        let this = Self {
            pinned: Pinned::Cached(translation),
            first,
            count,
            addr,
            len: len.min(there),
        };
        Ok(Arc::new(this, GFP_KERNEL)?)
    }

    fn pins(&self) -> &Pins {
        match &self.pinned {
            Pinned::Own(pins) => pins,
            Pinned::Cached(translation) => translation.pins(),
        }
    }

    /// The translation with the pages, and the number of bytes in it before these.
    pub(super) fn translation(&self) -> Option<(&Translation, usize)> {
        match &self.pinned {
            Pinned::Own(_) => None,
            Pinned::Cached(translation) => {
                let before = self.first.saturating_mul(PAGE_SIZE);
                Some((translation, before.saturating_add(self.offset())))
            }
        }
    }

    /// Whether the program has the same pages still, as far as that is known without a look.
    fn is_unchanged(&self) -> bool {
        match &self.pinned {
            Pinned::Own(_) => false,
            Pinned::Cached(translation) => !translation.is_stale(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Offset of the first byte in the first page.
    pub(crate) fn offset(&self) -> usize {
        self.addr % PAGE_SIZE
    }

    pub(crate) fn as_slice(&self) -> &[*mut ffi::page] {
        let end = self.first.saturating_add(self.count);
        let pages = self.pins().as_slice();
        pages.get(self.first..end).unwrap_or_default()
    }

    /// The page of byte `at`, the offset of the byte in it, and the number of bytes
    /// that follow in it, at most `max`.
    pub(crate) fn page_at(&self, at: u32, max: u32) -> Option<(Page, u32, u32)> {
        let at = at as usize;
        let left = self.len.checked_sub(at)?;
        let from = self.offset().saturating_add(at);
        let page = NonNull::new(*self.as_slice().get(from / PAGE_SIZE)?)?;
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
        for page in self.as_slice().iter().skip(from / PAGE_SIZE) {
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
        let mut done = Delivered {
            len: 0,
            copied: 0,
            tangled: false,
        };
        if self.is_unchanged() {
            done.len = len;
            return done;
        }
        let count = pages_of(self.addr, len);
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
        let pages = self.as_slice();
        let mut found = Compared {
            same: 0,
            tangled: false,
        };
        for (i, page) in now.iter().take(got).enumerate() {
            if pages.get(first.wrapping_add(i)) == Some(page) {
                found.same |= 1 << i;
            } else {
                found.tangled |= pages.contains(page);
            }
        }
        // SAFETY: Taken just above.
        unsafe { ffi::rust_put_user_pages(now.as_mut_ptr(), got as c_uint) };
        found
    }

    pub(crate) fn is_for_writing(&self) -> bool {
        self.pins().is_for_writing()
    }
}
