// SPDX-License-Identifier: MIT
//! Memory for calls to read and write, good and bad, and the proof that no byte was written which
//! the call has not said it wrote.

use std::ptr::null_mut;

use crate::chance::Chance;

const PAGE: usize = 4096;
/// What a thread's calls may write to: more than the longest of them is given.
pub const ROOM: usize = 16 * PAGE;
/// What is compared at once.
const STRETCH: usize = 512;
/// What nothing of ours is filled with.
const POISON: u8 = 0xa5;

/// Pages with nothing around them, so that a byte too many is a fault, and others to be refused.
pub struct Memory {
    /// Writable, between pages that are not there.
    start: *mut u8,
    /// May be read only.
    constant: *mut u8,
    /// The last outputs lie below.
    used: usize,
}

// SAFETY: the mapping is this value's alone.
unsafe impl Send for Memory {}

/// Where a call is told to put something.
#[derive(Clone, Copy)]
pub struct Place {
    pub address: *mut u8,
    /// How long it is; nothing of a bad place.
    pub len: usize,
    /// How much of it may be written, of a bad place that begins well too.
    pub here: usize,
}

impl Place {
    pub fn is_good(&self) -> bool {
        self.len > 0
    }
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
        let around = map(ROOM + 2 * PAGE, libc::PROT_NONE);
        let start = around.wrapping_add(PAGE);
        // SAFETY: inside what was mapped above.
        let result =
            unsafe { libc::mprotect(start.cast(), ROOM, libc::PROT_READ | libc::PROT_WRITE) };
        assert_eq!(result, 0, "mprotect");
        let mut memory = Self { start, constant: map(PAGE, libc::PROT_READ), used: ROOM };
        memory.poison();
        memory
    }

    /// Nothing lies there any more.
    pub fn poison(&mut self) {
        self.used = 0;
        self.bytes().fill(POISON);
    }

    fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: mapped, and no call is under way.
        unsafe { std::slice::from_raw_parts_mut(self.start, ROOM) }
    }

    /// A place of `len` bytes, behind those given out since `poison()`; now and then at the very
    /// end, or a bad one.
    pub fn place(&mut self, chance: &mut Chance, len: usize) -> Place {
        let bad = |address| Place { address, len: 0, here: 0 };
        let left = ROOM - self.used;
        match chance.below(40) {
            0 => bad(null_mut()),
            1 => bad(std::ptr::without_provenance_mut(chance.word() as usize)),
            2 => bad(self.start.wrapping_sub(1 + chance.below(PAGE))),
            3 => bad(self.constant),
            // The first bytes are there, and the rest is not.
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
                // Not side by side: what is written behind one is nobody's.
                self.used = (self.used + len + 64 + chance.below(64)).min(ROOM);
                place
            }
        }
    }

    /// A good place with these bytes; none if there is no room left.
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

    /// The bytes at a good place.
    pub fn at(&mut self, place: Place) -> &mut [u8] {
        let from = place.address.addr() - self.start.addr();
        &mut self.bytes()[from..from + place.len]
    }

    /// That all is as it was, but for these places' first bytes. The error is where it is not.
    pub fn check(&mut self, written: &[(Place, usize)]) -> Result<(), String> {
        let start = self.start.addr();
        // Most calls write little: whole stretches are compared first.

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
            libc::munmap(self.start.wrapping_sub(PAGE).cast(), ROOM + 2 * PAGE);
            libc::munmap(self.constant.cast(), PAGE);
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
