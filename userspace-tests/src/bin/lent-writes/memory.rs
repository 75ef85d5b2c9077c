// SPDX-License-Identifier: MIT
//! The memory that is sent, with bytes that the runner can compute.

use std::ptr::null_mut;

use libc::c_void;

use crate::Lent;

pub const PAGE: usize = 4096;
/// More than the peer has buffers for: it asks for copies after 20 ms, and what has no room stays lent.
pub const LEN: usize = 1 << 20;
/// What the ways change: neither begins nor ends with a page.
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
    pub fn fresh() -> Self {
        let before = 3 * PAGE;
        // SAFETY: inside of the new memory.
        Memory(unsafe { map(null_mut(), LEN + 2 * before).cast::<u8>().add(before) })
    }

    pub fn at(self, offset: usize) -> *mut c_void {
        assert!(offset < LEN);
        // SAFETY: inside.
        unsafe { self.0.add(offset).cast() }
    }

    /// The byte that belongs to an offset in this round.
    fn drawn(offset: usize, round: u8) -> u8 {
        (offset / PAGE + offset % 251) as u8 ^ round.wrapping_mul(37)
    }

    /// Fills it with the bytes of a round.
    pub fn draw(self, round: u8) {
        for offset in 0..LEN {
            self.store(offset, Self::drawn(offset, round));
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

    /// Whether the stretch has this byte only, and those around it are the drawn ones.
    pub fn has(self, byte: impl Fn(usize) -> u8) {
        for offset in AT - PAGE..AT + SPAN + PAGE {
            let inside = (AT..AT + SPAN).contains(&offset);
            let want = if inside { byte(offset - AT) } else { Self::drawn(offset, 0) };
            assert_eq!(self.byte(offset), want, "the program's own byte {offset}");
        }
    }
}

/// Another byte than the drawn one.
pub fn other(offset: usize) -> u8 {
    !Memory::drawn(offset, 0)
}

/// Overwrites all of it, from the end on.
pub fn fill(lent: &Lent) {
    for offset in (0..LEN).rev() {
        lent.memory.store(offset, other(offset));
    }
    for offset in 0..LEN {
        assert_eq!(lent.memory.byte(offset), other(offset), "the program's own byte {offset}");
    }
}

/// Overwrites the stretch.
pub fn touch(memory: Memory) {
    for offset in 0..SPAN {
        memory.store(AT + offset, 0xEE);
    }
    memory.has(|_| 0xEE);
}
