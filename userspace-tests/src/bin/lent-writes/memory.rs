// SPDX-License-Identifier: MIT
//! The memory that is sent, with bytes that the runner can compute.

#[path = "../lending/pages.rs"]
mod pages;

pub use pages::{map, Memory, AT, PAGE, SPAN};

use crate::Lent;

/// More than the peer has buffers for: it asks for copies after 20 ms, and what has no room stays lent.
pub const LEN: usize = 1 << 20;

impl Memory {
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
