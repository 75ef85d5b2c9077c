// SPDX-License-Identifier: GPL-2.0

//! Sources of decisions.

/// A source of decisions.
pub trait Dice {
    /// A number below `limit`, which is not 0.
    fn below(&mut self, limit: u32) -> u32;

    /// Whether no decisions are left.
    fn is_empty(&self) -> bool;

    /// True once in `times`, on average.
    fn once_in(&mut self, times: u32) -> bool {
        self.below(times) == 0
    }

    /// A number from the range, both ends included.
    fn between(&mut self, least: u32, most: u32) -> u32 {
        least + self.below(most - least + 1)
    }
}

/// Endless decisions from a seed.
#[derive(Clone, Debug)]
pub struct Seeded(fastrand::Rng);

impl Seeded {
    /// The same seed makes the same decisions.
    pub fn new(seed: u64) -> Self {
        Self(fastrand::Rng::with_seed(seed))
    }
}

impl Dice for Seeded {
    fn below(&mut self, limit: u32) -> u32 {
        self.0.u32(..limit)
    }

    fn is_empty(&self) -> bool {
        false
    }
}

/// Decisions from bytes, for fuzzing and property tests; 0 after their end.
#[derive(Clone, Debug)]
pub struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    /// Uses the bytes from the front.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    fn next(&mut self) -> u32 {
        match self.0.split_first() {
            Some((first, rest)) => {
                self.0 = rest;
                u32::from(*first)
            }
            None => 0,
        }
    }
}

impl Dice for Bytes<'_> {
    fn below(&mut self, limit: u32) -> u32 {
        let mut number = self.next();
        let mut range = 256;
        while range < limit {
            number = (number << 8) | self.next();
            range <<= 8;
        }
        number % limit
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
