// SPDX-License-Identifier: MIT
//! The memory that is received into, with bytes that the runner sends.

use std::ops::Range;
use std::ptr::null_mut;

use libc::c_void;

pub const PAGE: usize = 4096;
pub const LEN: usize = 128 << 10;
/// What the ways touch: neither begins nor ends with a page.
pub const AT: usize = 4 * PAGE + 100;
pub const SPAN: usize = 3 * PAGE;

/// The bytes before.
pub const OLD: u8 = 0x5A;

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
    pub fn fresh() -> Self {
        let before = 3 * PAGE;
        // SAFETY: inside of the new memory.
        let memory = Memory(unsafe { map(null_mut(), LEN + 2 * before).cast::<u8>().add(before) });
        memory.age();
        memory
    }

    pub fn age(self) {
        for offset in 0..LEN {
            self.store(offset, OLD);
        }
    }

    pub fn at(self, offset: usize) -> *mut c_void {
        assert!(offset < LEN);
        // SAFETY: inside.
        unsafe { self.0.add(offset).cast() }
    }

    /// The byte that the peer sends for this offset; never one of the bytes before.
    pub fn drawn(offset: usize) -> u8 {
        match (offset / PAGE + offset % 251) as u8 {
            OLD => !OLD,
            byte => byte,
        }
    }

    pub fn store(self, offset: usize, byte: u8) {
        // SAFETY: inside.
        unsafe { self.at(offset).cast::<u8>().write_volatile(byte) };
    }

    pub fn byte(self, offset: usize) -> u8 {
        // SAFETY: inside.
        unsafe { self.at(offset).cast::<u8>().read_volatile() }
    }

    /// The peer's bytes are there.
    pub fn has_come(self, mut range: Range<usize>) {
        let wrong = range.find(|offset| self.byte(*offset) != Self::drawn(*offset));
        assert_eq!(wrong.map(|offset| (offset, self.byte(offset))), None, "a wrong byte");
    }
}
