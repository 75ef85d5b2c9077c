// SPDX-License-Identifier: MIT

//! Bytes that tell where and when they were written.

use crate::PAGE;

const WORD: usize = 8;

/// The contents that are written to a range at one time; 0 is empty memory.
pub type Stamp = u64;

fn word(stamp: Stamp, at: usize) -> u64 {
    if stamp == 0 {
        0
    } else {
        stamp.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ at as u64
    }
}

/// Fills memory. From the end on if `backwards`: the first write is to the last page.
///
/// # Safety
///
/// The memory is the caller's, and begins and ends with a word.
pub(crate) unsafe fn fill(start: usize, len: usize, stamp: Stamp, backwards: bool) {
    let words = len / WORD;
    for n in 0..words {
        let at = if backwards { words - 1 - n } else { n } * WORD;
        let place = core::ptr::without_provenance_mut::<u64>(start + at);
        // SAFETY: As the caller says.
        unsafe { place.write_volatile(word(stamp, at)) };
    }
}

/// The offset of the first byte that is another one.
///
/// # Safety
///
/// The memory is there, and begins and ends with a word.
pub(crate) unsafe fn wrong(start: usize, len: usize, stamp: Stamp) -> Option<usize> {
    (0..len).step_by(WORD).find(|at| {
        let place = core::ptr::without_provenance::<u64>(start + at);
        // SAFETY: As the caller says.
        unsafe { place.read_volatile() != word(stamp, *at) }
    })
}

/// The bytes that a send has to bring to the peer.
#[derive(Debug)]
pub enum Sent {
    /// Each page has a stamp of its own.
    Pages(Vec<Stamp>),
    /// All of the memory has one stamp.
    Whole(Stamp),
}

impl Sent {
    /// The first wrong byte among those that have come, from `offset` on.
    pub fn wrong(&self, came: &[u8], offset: usize) -> Option<usize> {
        (0..came.len()).find(|n| {
            let at = offset + n;
            let (stamp, at) = match self {
                Self::Pages(stamps) => (stamps[at / PAGE], at % PAGE),
                Self::Whole(stamp) => (*stamp, at),
            };
            let word = word(stamp, at / WORD * WORD).to_le_bytes();
            came[*n] != word[at % WORD]
        })
    }
}
