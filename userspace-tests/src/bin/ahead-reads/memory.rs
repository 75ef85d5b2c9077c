// SPDX-License-Identifier: MIT
//! The memory that is received into, with bytes that the runner sends.

#[path = "../lending/pages.rs"]
mod pages;

use std::ops::Range;

pub use pages::{map, Memory, AT, PAGE, SPAN};

pub const LEN: usize = 128 << 10;

/// The bytes before.
pub const OLD: u8 = 0x5A;

impl Memory {
    /// Pages with the bytes before.
    pub fn fresh() -> Self {
        let memory = Memory::mapped();
        memory.age();
        memory
    }

    pub fn age(self) {
        for offset in 0..LEN {
            self.store(offset, OLD);
        }
    }

    /// The byte that the peer sends for this offset; never one of the bytes before.
    pub fn drawn(offset: usize) -> u8 {
        match (offset / PAGE + offset % 251) as u8 {
            OLD => !OLD,
            byte => byte,
        }
    }

    /// The peer's bytes are there.
    pub fn has_come(self, mut range: Range<usize>) {
        let wrong = range.find(|offset| self.byte(*offset) != Self::drawn(*offset));
        assert_eq!(wrong.map(|offset| (offset, self.byte(offset))), None, "a wrong byte");
    }
}
