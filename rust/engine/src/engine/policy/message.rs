// SPDX-License-Identifier: GPL-2.0

//! How much one message carries, and from how many bytes on a Write is better.

/// From how many plain bytes on they are written into a buffer that the sink
/// offers, rather than sent as Data: when one message would not take them. An
/// RDMA Write needs a message of its own behind it.
pub fn is_write(plain: u32, max_payload: u16) -> bool {
    plain > u32::from(max_payload)
}

/// The payload of the larger receive buffers to ask the peer for, if they are worth it: `plain` bytes
/// wait, a message carries `max_payload`, and we could fill one of `most`.
///
/// A message costs both sides about as much as the copy of a few KiB, so a long stream benefits from
/// long messages, and a short one ends before the answer comes. Fewer than half of what would
/// fill them is not worth the peer's memory. The first buffers may be far smaller, because
/// an idle connection pays for them: then a write that does not fit one is reason enough for
/// buffers of an eighth.
pub fn larger(plain: u32, max_payload: u16, most: u16) -> Option<u16> {
    let twice = max_payload.saturating_mul(2);
    let worth = u32::from(max_payload.max(most >> 2)).saturating_mul(2);
    if most > twice && plain >= worth {
        return Some(most);
    }
    let some = most >> 3;
    (some >= twice && plain > max_payload.into()).then_some(some)
}

/// The least payload of a message that a connection is worth having with, where we
/// could fill one of `most`: a message costs the same whatever it carries, so a peer
/// that takes a byte at a time would have us work for it without end. The buffers of
/// all known implementations hold far more.
pub const fn least_payload(most: u16) -> u16 {
    let least = most >> 6;
    if least == 0 {
        1
    } else {
        least
    }
}

#[cfg(test)]
mod tests {
    use super::{is_write, larger, least_payload};

    #[test]
    fn the_largest_buffers_are_for_streams() {
        assert_eq!(larger(20_000, 10_001, 32768), None);
        assert_eq!(larger(20_002, 10_001, 32768), Some(32768));
        assert_eq!(larger(u32::MAX, 4080, 8160), None);
        assert_eq!(larger(u32::MAX, u16::MAX, u16::MAX), None);
        // An answer of a few small messages is no stream.
        assert_eq!(larger(16383, 4096, 32768), None);
        assert_eq!(larger(16384, 4096, 32768), Some(32768));
        assert_eq!(larger(16384, 1024, 32768), Some(32768));
    }

    #[test]
    fn a_write_that_does_not_fit_a_first_buffer_is_worth_a_page() {
        assert_eq!(larger(1024, 1024, 32768), None);
        assert_eq!(larger(1025, 1024, 32768), Some(4096));
        assert_eq!(larger(16383, 2048, 32768), Some(4096));
        // Half as many messages at least.
        assert_eq!(larger(16383, 2049, 32768), None);
    }

    #[test]
    fn a_message_carries_a_64th_of_what_it_could() {
        assert_eq!(least_payload(32768), 512);
        assert_eq!(least_payload(u16::MAX), 1023);
        assert_eq!([0, 63, 64, 127, 128].map(least_payload), [1, 1, 1, 1, 2]);
    }

    #[test]
    fn what_fits_one_message_is_sent_as_one() {
        assert!(!is_write(100, 100));
        assert!(is_write(101, 100));
    }
}
