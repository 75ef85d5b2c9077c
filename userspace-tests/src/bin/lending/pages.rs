// SPDX-License-Identifier: MIT
//! The memory of a program that lends it or receives ahead; `LEN` bytes, of the module that has this one.

use std::ptr::null_mut;

use libc::c_void;

use super::LEN;

pub const PAGE: usize = 4096;
/// The range that the ways touch: it neither begins nor ends with a page.
pub const AT: usize = 4 * PAGE + 100;
pub const SPAN: usize = 3 * PAGE;

/// Private pages, beside others of the same mapping.
#[derive(Clone, Copy)]
pub struct Memory(pub *mut u8);

// SAFETY: it belongs to no thread.
unsafe impl Send for Memory {}
// SAFETY: as above; bytes are read and written as volatile ones.
unsafe impl Sync for Memory {}

/// New pages, at an address or anywhere.
pub fn map(at: *mut c_void, len: usize) -> *mut c_void {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let fixed = if at.is_null() { 0 } else { libc::MAP_FIXED };
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | fixed;
    // SAFETY: new memory, or memory of this program that nothing else uses.
    let place = unsafe { libc::mmap(at, len, access, flags, -1, 0) };
    assert_ne!(place, libc::MAP_FAILED, "mmap");
    place
}

impl Memory {
    pub fn mapped() -> Self {
        let before = 3 * PAGE;
        // SAFETY: inside of the new memory.
        Memory(unsafe { map(null_mut(), LEN + 2 * before).cast::<u8>().add(before) })
    }

    pub fn at(self, offset: usize) -> *mut c_void {
        assert!(offset < LEN);
        // SAFETY: inside.
        unsafe { self.0.add(offset).cast() }
    }

    pub fn store(self, offset: usize, byte: u8) {
        // SAFETY: inside.
        unsafe { self.at(offset).cast::<u8>().write_volatile(byte) };
    }

    pub fn byte(self, offset: usize) -> u8 {
        // SAFETY: inside.
        unsafe { self.at(offset).cast::<u8>().read_volatile() }
    }
}
