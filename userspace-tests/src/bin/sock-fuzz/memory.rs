// SPDX-License-Identifier: MIT
//! Valid and invalid memory for calls to read and write, and the check that a call wrote only the
//! bytes that it reported.

use std::ptr::null_mut;

use crate::chance::Chance;

const PAGE: usize = 4096;
/// The memory to which a thread's calls may write: more than the longest one needs.
pub const ROOM: usize = 16 * PAGE;
/// The size of one comparison.
const STRETCH: usize = 512;
const MSEAL: libc::c_long = 462;
/// The memory that is lent, and that peers or the kernel write to behind a call: it is not checked.
const ASIDE: usize = 64 * PAGE;
/// The fill value, which no call writes on purpose.
const POISON: u8 = 0xa5;

/// Pages between unmapped ones, so that an access beyond them faults, and pages with less access.
pub struct Memory {
    /// Writable, between unmapped pages.
    start: *mut u8,
    /// Read-only.
    constant: *mut u8,
    /// Writable, and changed at any time.
    aside: *mut u8,
    /// The last outputs are below this offset.
    used: usize,
}

// SAFETY: the mapping is this value's alone.
unsafe impl Send for Memory {}

/// The address that a call is given.
#[derive(Clone, Copy)]
pub struct Place {
    pub address: *mut u8,
    /// Its length; 0 for an invalid place.
    pub len: usize,
    /// The number of bytes that may be written, also for a place that is valid at its beginning
    /// only.
    pub here: usize,
}

impl Place {
    pub fn is_good(&self) -> bool {
        self.len > 0
    }
}

/// The size of the machine's pages. `ROOM` is a multiple of each that there is.
fn page() -> usize {
    // SAFETY: takes a number.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(PAGE)
}

fn map(len: usize, protection: i32) -> *mut u8 {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new mapping, wherever the kernel likes.
    let address = unsafe { libc::mmap(null_mut(), len, protection, flags, -1, 0) };
    assert_ne!(address, libc::MAP_FAILED, "mmap");
    address.cast()
}

impl Memory {
    pub fn new() -> Self {
        let around = map(ROOM + 2 * page(), libc::PROT_NONE);
        let start = around.wrapping_add(page());
        // SAFETY: inside what was mapped above.
        let result =
            unsafe { libc::mprotect(start.cast(), ROOM, libc::PROT_READ | libc::PROT_WRITE) };
        assert_eq!(result, 0, "mprotect");
        // Sealed, as in some hardened programs. A kernel may be too old for that.
        // SAFETY: the mapping stays as long as the program.
        unsafe { libc::syscall(MSEAL, start, ROOM, 0) };
        let mut memory = Self {
            start,
            constant: map(PAGE, libc::PROT_READ),
            aside: map(ASIDE, libc::PROT_READ | libc::PROT_WRITE),
            used: ROOM,
        };
        memory.poison();
        memory
    }

    /// Removes all contents.
    pub fn poison(&mut self) {
        self.used = 0;
        self.bytes().fill(POISON);
    }

    fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: mapped, and no call is under way.
        unsafe { std::slice::from_raw_parts_mut(self.start, ROOM) }
    }

    /// A place of `len` bytes, after those given out since `poison()`; sometimes at the very end,
    /// or an invalid one.
    pub fn place(&mut self, chance: &mut Chance, len: usize) -> Place {
        let bad = |address| Place { address, len: 0, here: 0 };
        let left = ROOM - self.used;
        match chance.below(40) {
            0 => bad(null_mut()),
            1 => bad(std::ptr::without_provenance_mut(chance.word() as usize)),
            2 => bad(self.start.wrapping_sub(1 + chance.below(PAGE))),
            3 => bad(self.constant),
            // The first bytes are mapped, the rest is not.
            4 if len > 1 && left > len => {
                let here = 1 + chance.below(len - 1);
                self.used = ROOM;
                Place { address: self.start.wrapping_add(ROOM - here), len: 0, here }
            }
            5 => bad(std::ptr::without_provenance_mut(usize::MAX - chance.below(1 << 20))),
            _ if len > left || len == 0 => bad(self.start.wrapping_add(ROOM)),
            6..=15 => {
                let place = Place { address: self.start.wrapping_add(ROOM - len), len, here: len };
                self.used = ROOM;
                place
            }
            _ => {
                let place = Place { address: self.start.wrapping_add(self.used), len, here: len };
                // With gaps, so that bytes written beyond one place are detected.
                self.used = (self.used + len + 64 + chance.below(64)).min(ROOM);
                place
            }
        }
    }

    /// A valid place with these bytes; none if there is no room left.
    pub fn put(&mut self, bytes: &[u8]) -> Option<Place> {
        if bytes.len() > ROOM - self.used {
            return None;
        }
        let at = self.used;
        self.used = (at + bytes.len() + 64).min(ROOM);
        self.bytes()[at..at + bytes.len()].copy_from_slice(bytes);
        let (len, address) = (bytes.len(), self.start.wrapping_add(at));
        Some(Place { address, len, here: len })
    }

    /// The address of `len` bytes that are not checked, on a multiple of `align`, which is a power of
    /// two.
    pub fn aside(&self, chance: &mut Chance, len: usize, align: usize) -> *mut u8 {
        let at = chance.below(ASIDE.saturating_sub(len).max(1));
        self.aside.wrapping_add(at & !(align.max(1) - 1))
    }

    /// The bytes at a valid place.
    pub fn at(&mut self, place: Place) -> &mut [u8] {
        let from = place.address.addr() - self.start.addr();
        &mut self.bytes()[from..from + place.len]
    }

    /// Checks that only the first bytes of these places have changed. The error names a changed
    /// byte.
    pub fn check(&mut self, written: &[(Place, usize)]) -> Result<(), String> {
        let start = self.start.addr();
        // Most calls write little, so whole stretches are compared first.

        let touched: Vec<usize> = self
            .bytes()
            .chunks_exact(STRETCH)
            .enumerate()
            .filter(|(_, stretch)| **stretch != [POISON; STRETCH])
            .flat_map(|(number, _)| number * STRETCH..(number + 1) * STRETCH)
            .collect();
        for at in touched {
            let byte = self.bytes()[at];
            let is_written = || {
                written.iter().any(|(place, len)| {
                    let from = place.address.addr().wrapping_sub(start);
                    at >= from && at - from < (*len).min(place.here)
                })
            };
            if byte != POISON && !is_written() {
                let places: Vec<_> = written
                    .iter()
                    .map(|(place, len)| {
                        (place.address.addr().wrapping_sub(start), place.here, *len)
                    })
                    .collect();
                return Err(format!("byte {at} is {byte:#04x}; (place, room, written) {places:?}"));
            }
        }
        Ok(())
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: what `new` has mapped.
        unsafe {
            libc::munmap(self.start.wrapping_sub(page()).cast(), ROOM + 2 * page());
            libc::munmap(self.constant.cast(), PAGE);
            libc::munmap(self.aside.cast(), ASIDE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_too_many_is_found() {
        let mut memory = Memory::new();
        let mut chance = Chance::new(1);
        let place = loop {
            let place = memory.place(&mut chance, 10);
            if place.is_good() {
                break place;
            }
        };
        assert!(memory.check(&[]).is_ok());
        memory.at(place)[3] = 1;
        assert!(memory.check(&[(place, 4)]).is_ok());
        assert!(memory.check(&[(place, 3)]).is_err());
        assert!(memory.check(&[]).is_err());
        memory.poison();
        assert!(memory.check(&[]).is_ok());
    }
}
