// SPDX-License-Identifier: MIT
//! The bytes of a stream: each is a function of the seed, the conversation, the direction and the
//! offset, so a reader needs nothing from the writer to know the right ones.

/// One direction of a conversation.
#[derive(Clone, Copy)]
pub struct Stream(u64);

fn mixed(word: u64) -> u64 {
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

impl Stream {
    /// `writer` is the end that writes: 0 is the client, 1 the server.
    pub fn new(seed: u64, conversation: usize, writer: usize) -> Self {
        Stream(mixed(seed ^ mixed(((conversation as u64) << 8) | writer as u64)))
    }

    fn word(self, index: u64) -> [u8; 8] {
        mixed(self.0.wrapping_add(index.wrapping_mul(0x9e37_79b9_7f4a_7c15))).to_le_bytes()
    }

    /// Fills `room` with the bytes from `offset` on.
    pub fn fill(self, offset: u64, room: &mut [u8]) {
        let mut at = offset;
        let mut rest = room;
        while !rest.is_empty() {
            let word = self.word(at / 8);
            let begin = (at % 8) as usize;
            let len = rest.len().min(8 - begin);
            let (now, later) = rest.split_at_mut(len);
            now.copy_from_slice(&word[begin..begin + len]);
            at += len as u64;
            rest = later;
        }
    }

    /// The index of the first byte of `data` that is not the one at `offset` and behind it.
    pub fn difference(self, offset: u64, data: &[u8]) -> Option<usize> {
        let mut at = 0;
        let mut word = [0; 8];
        while at < data.len() {
            let place = offset + at as u64;
            let begin = (place % 8) as usize;
            let len = (data.len() - at).min(8 - begin);
            self.fill(place, &mut word[..len]);
            if data[at..at + len] != word[..len] {
                return (at..at + len).find(|&index| data[index] != word[index - at]);
            }
            at += len;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_do_not_depend_on_how_they_are_cut() {
        let stream = Stream::new(7, 3, 1);
        let mut whole = [0; 100];
        stream.fill(0, &mut whole);
        let mut part = [0; 41];
        stream.fill(29, &mut part);
        assert_eq!(whole[29..70], part);
        assert_eq!(stream.difference(29, &part), None);
        part[40] ^= 1;
        assert_eq!(stream.difference(29, &part), Some(40));
    }

    #[test]
    fn streams_differ() {
        let mut bytes = [0; 64];
        Stream::new(7, 3, 1).fill(0, &mut bytes);
        for other in [Stream::new(8, 3, 1), Stream::new(7, 2, 1), Stream::new(7, 3, 0)] {
            assert!(other.difference(0, &bytes).is_some());
        }
        assert!(Stream::new(7, 3, 1).difference(8, &bytes).is_some());
    }
}
