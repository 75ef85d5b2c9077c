// SPDX-License-Identifier: GPL-2.0

//! Pages with a reference count.
//!
//! C header: [`include/linux/mm.h`](srctree/include/linux/mm.h)
//!
//! `kernel::page::Page` frees its page when it is dropped, so it cannot be shared with a pipe or a
//! socket's fragment, and it is a single page.
//!
//! Contexts: any. No locks.

use crate::{
    ffi,
    rdma::mapping::Memory, //
};
use core::ptr::NonNull;

/// One counted reference to a (possibly compound) page of the kernel's linear
/// mapping.
///
/// # Invariants
///
/// `page` is valid and this value owns one reference to it.
pub(crate) struct Page {
    page: NonNull<ffi::page>,
}

// SAFETY: A page and its reference count may be used from any context.
unsafe impl Send for Page {}
// SAFETY: The count is atomic, and `Page` gives out no Rust reference to the memory.
unsafe impl Sync for Page {}

impl Page {
    /// Takes over a reference to `page`.
    ///
    /// # Safety
    ///
    /// `page` is valid and in the linear mapping, and the caller hands over a reference.
    pub(crate) unsafe fn from_raw(page: NonNull<ffi::page>) -> Self {
        // INVARIANT: by the caller's promise.
        Self { page }
    }

    /// Takes another reference to `page`.
    ///
    /// # Safety
    ///
    /// `page` is valid and referenced by the caller.
    pub(crate) unsafe fn get(page: NonNull<ffi::page>) -> Self {
        // SAFETY: The caller has a reference, so that the count is not zero.
        unsafe { ffi::rust_get_page(page.as_ptr()) };
        // INVARIANT: the reference taken above.
        Self { page }
    }

    pub(crate) fn as_ptr(&self) -> *mut ffi::page {
        self.page.as_ptr()
    }

    /// The page, with the reference: the caller puts it.
    pub(crate) fn into_raw(self) -> *mut ffi::page {
        core::mem::ManuallyDrop::new(self).as_ptr()
    }

    /// Bytes of the page and of those that it is the head of.
    pub(crate) fn size(&self) -> usize {
        // SAFETY: The page is valid by the invariant; its order is fixed while it is
        // referenced.
        unsafe { ffi::rust_page_size(self.page.as_ptr()) }
    }

    /// Whether `len` bytes from `offset` on lie in the page.
    pub(crate) fn holds(&self, offset: usize, len: usize) -> bool {
        offset
            .checked_add(len)
            .is_some_and(|end| end <= self.size())
    }

    /// Start of the memory.
    pub(crate) fn address(&self) -> *mut u8 {
        // SAFETY: The page is valid by the invariant. It has an address, because 64-bit
        // machines have no high memory.
        unsafe { ffi::rust_page_address(self.page.as_ptr()) }.cast()
    }
}

impl Clone for Page {
    fn clone(&self) -> Self {
        // SAFETY: Valid by the invariant, referenced by `self`.
        unsafe { Self::get(self.page) }
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // SAFETY: By the invariant there is a reference, which is dropped here.
        unsafe { ffi::rust_put_page(self.page.as_ptr()) };
    }
}

// SAFETY: Pages are contiguous, and referenced as long as this lives. `Page` gives out no Rust
// reference.
unsafe impl Memory for Page {
    fn address(&self) -> *mut u8 {
        Page::address(self)
    }

    fn size(&self) -> usize {
        Page::size(self)
    }
}

/// Some bytes of a page, with a reference to it.
///
/// # Invariants
///
/// The page holds `len` bytes from `start` on.
#[derive(Clone)]
pub(crate) struct Part {
    page: Page,
    start: usize,
    len: usize,
}

impl From<Page> for Part {
    /// All of the page.
    fn from(page: Page) -> Self {
        // INVARIANT: so many bytes the page has.
        let (start, len) = (0, page.size());
        Self { page, start, len }
    }
}

impl Part {
    pub(crate) fn page(&self) -> &Page {
        &self.page
    }

    pub(crate) fn into_page(self) -> Page {
        self.page
    }

    /// Where in the page it begins.
    pub(crate) fn start(&self) -> usize {
        self.start
    }

    pub(crate) fn size(&self) -> usize {
        self.len
    }

    /// Whether `len` bytes from `offset` on, counted from the start of the part, lie in it.
    pub(crate) fn holds(&self, offset: usize, len: usize) -> bool {
        offset.checked_add(len).is_some_and(|end| end <= self.len)
    }

    /// Start of its memory.
    pub(crate) fn address(&self) -> *mut u8 {
        // SAFETY: `start` lies in the page, by the invariant.
        unsafe { self.page.address().add(self.start) }
    }

    /// Copies the bytes from `offset` on to `to`. Returns whether there are so many. The memory may
    /// be a device's page that was given back.
    pub(crate) fn read(&self, offset: usize, to: &mut [u8]) -> bool {
        let there = self.holds(offset, to.len());
        if there {
            // SAFETY: The bytes lie in the part. It is C that copies them, because a device may
            // still write there.
            unsafe {
                let from = self.address().add(offset);
                ffi::rust_copy_shared(to.as_mut_ptr().cast(), from.cast(), to.len());
            }
        }
        there
    }

    /// Cuts off the first `len` bytes; none where there are fewer.
    pub(crate) fn cut(&mut self, len: usize) -> Option<Self> {
        let rest = self.len.checked_sub(len)?;
        // INVARIANT: both are inside of what this was.
        let first = Self {
            page: self.page.clone(),
            start: self.start,
            len,
        };
        self.start = self.start.saturating_add(len);
        self.len = rest;
        Some(first)
    }
}

// SAFETY: As for a page: it is a part of one.
unsafe impl Memory for Part {
    fn address(&self) -> *mut u8 {
        Part::address(self)
    }

    fn size(&self) -> usize {
        Part::size(self)
    }
}
