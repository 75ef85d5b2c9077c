// SPDX-License-Identifier: MIT
//! Bytes that cannot be right by chance, and a digest to compare them.

/// An endless pseudo-random stream; the same seed gives the same bytes.
pub struct Pattern {
    state: u64,
    word: [u8; 8],
    used: usize,
}

impl Pattern {
    pub fn new(seed: u64) -> Self {
        // The generator has one fixed point, zero, which no seed may reach.
        let state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        Pattern { state, word: [0; 8], used: 8 }
    }

    pub fn fill(&mut self, room: &mut [u8]) {
        for byte in room {
            if self.used == self.word.len() {
                self.state ^= self.state << 13;
                self.state ^= self.state >> 7;
                self.state ^= self.state << 17;
                self.word = self.state.to_le_bytes();
                self.used = 0;
            }
            *byte = self.word[self.used];
            self.used += 1;
        }
    }
}

/// The first `len` bytes of the stream with this seed.
pub fn bytes(seed: u64, len: usize) -> Vec<u8> {
    let mut data = vec![0; len];
    Pattern::new(seed).fill(&mut data);
    data
}

/// FNV-1a over everything it is given: order and length matter, pieces do not.
#[derive(Clone)]
pub struct Digest {
    state: u64,
    len: usize,
}

impl Default for Digest {
    fn default() -> Self {
        Digest { state: 0xcbf2_9ce4_8422_2325, len: 0 }
    }
}

impl Digest {
    pub fn of(data: &[u8]) -> String {
        let mut digest = Digest::default();
        digest.add(data);
        digest.text()
    }

    pub fn add(&mut self, data: &[u8]) {
        self.len += data.len();
        for &byte in data {
            self.state = (self.state ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    pub fn text(&self) -> String {
        format!("{} bytes {:016x}", self.len, self.state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_does_not_depend_on_how_it_is_cut() {
        let mut pattern = Pattern::new(7);
        let mut pieces = Vec::new();
        for len in [1, 3, 8, 0, 21, 100] {
            let mut piece = vec![0; len];
            pattern.fill(&mut piece);
            pieces.extend(piece);
        }
        assert_eq!(pieces, bytes(7, 133));
        assert_ne!(bytes(7, 16), bytes(8, 16));
    }

    #[test]
    fn a_digest_notices_order_and_length() {
        assert_eq!(Digest::of(b"a"), "1 bytes af63dc4c8601ec8c");
        assert_ne!(Digest::of(b"ab"), Digest::of(b"ba"));
        assert_ne!(Digest::of(b"\0"), Digest::of(b"\0\0"));
    }
}
