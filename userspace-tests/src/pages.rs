// SPDX-License-Identifier: MIT
//! Memory with a defined end: readable pages followed by an unmapped one.

use std::ptr;

pub const PAGE: usize = 4096;

/// `len` usable bytes (whole pages), then at least one page that faults.
pub struct Cliff {
    base: *mut u8,
    len: usize,
}

impl Cliff {
    #[track_caller]
    pub fn new(pages: usize) -> Self {
        let len = pages * PAGE;
        // SAFETY: a fresh anonymous mapping; its last page is given back at once.
        unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let access = libc::PROT_READ | libc::PROT_WRITE;
            let base = libc::mmap(ptr::null_mut(), len + PAGE, access, flags, -1, 0);
            assert!(base != libc::MAP_FAILED, "mmap");
            let base = base.cast::<u8>();
            assert!(libc::mprotect(base.add(len).cast(), PAGE, libc::PROT_NONE) == 0, "mprotect");
            Cliff { base, len }
        }
    }

    pub fn as_mut_ptr(&self) -> *mut u8 {
        self.base
    }

    /// The last `count` usable bytes.
    pub fn edge(&self, count: usize) -> *mut u8 {
        assert!(count <= self.len);
        // SAFETY: stays inside the mapping.
        unsafe { self.base.add(self.len - count) }
    }

    /// The first address that faults.
    pub fn beyond(&self) -> *mut u8 {
        self.edge(0)
    }

    pub fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: the mapping is readable, writable and exclusively ours.
        unsafe { std::slice::from_raw_parts_mut(self.base, self.len) }
    }
}

impl Drop for Cliff {
    fn drop(&mut self) {
        // SAFETY: unmaps exactly what `new` mapped.
        unsafe { libc::munmap(self.base.cast(), self.len + PAGE) };
    }
}
