// SPDX-License-Identifier: MIT
//! Random numbers from a seed.

/// xorshift64*: good enough to choose calls by.
pub struct Chance(u64);

impl Chance {
    pub fn new(seed: u64) -> Self {
        // Similar seeds must not begin with similar numbers, and the state is never zero.
        let mut chance = Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        for _ in 0..8 {
            chance.word();
        }
        chance
    }

    pub fn word(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Below `limit`, which is not zero.
    pub fn below(&mut self, limit: usize) -> usize {
        let limit = limit as u64;
        (self.word() >> 11).rem_euclid(limit) as usize
    }

    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    pub fn of<T: Copy>(&mut self, these: &[T]) -> T {
        these[self.below(these.len())]
    }

    /// Some of these bits.
    pub fn flags(&mut self, these: &[i32]) -> i32 {
        let mut flags = 0;
        for flag in these {
            if self.one_in(5) {
                flags |= flag;
            }
        }
        flags
    }

    /// A number as an argument of calls: at the limits of valid ranges, or any.
    pub fn number(&mut self) -> i32 {
        match self.below(8) {
            0 => 0,
            1 => 1,
            2 => self.below(16) as i32,
            3 => self.of(&[-1, i32::MIN, i32::MAX, i32::MAX - 1, 0xffff, 0x1_0000, 4095, 4096]),
            4 => 1_i32 << self.below(31),
            5 => (1_i32 << self.below(31)) - 1,
            6 => self.below(1 << 20) as i32,
            _ => self.word() as i32,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_its_numbers_and_others_have_others() {
        let [mut one, mut same, mut other] = [7, 7, 8].map(Chance::new);
        let words = |chance: &mut Chance| (0..100).map(|_| chance.word()).collect::<Vec<_>>();
        let first = words(&mut one);
        assert_eq!(first, words(&mut same));
        assert_ne!(first, words(&mut other));
    }

    #[test]
    fn all_that_may_come_comes() {
        let mut chance = Chance::new(1);
        let mut seen = [false; 7];
        for _ in 0..1000 {
            seen[chance.below(7)] = true;
        }
        assert_eq!(seen, [true; 7]);
    }
}
