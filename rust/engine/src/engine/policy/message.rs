// SPDX-License-Identifier: GPL-2.0

//! How much one message carries, and from how many bytes on a Write is better.

/// From how many plain bytes on they are written into a buffer that the sink
/// offers, rather than sent as Data: when one message would not take them. An
/// RDMA Write needs a message of its own behind it.
pub fn is_write(plain: u32, max_payload: u16) -> bool {
    plain > u32::from(max_payload)
}

/// Whether to ask the peer for larger receive buffers. A message costs both sides
/// about as much as the copy of a few KiB, so a long stream benefits from long
/// messages, and a short one ends before the answer comes. `plain` bytes wait, a
/// message carries `max_payload`, and we could fill one of `most`. Fewer than half of
/// that are not worth the peer's memory, which it does not get back.
pub fn wants_larger(plain: u32, max_payload: u16, most: u16) -> bool {
    let worth = u32::from(max_payload.max(most >> 2)).saturating_mul(2);
    most > max_payload.saturating_mul(2) && plain >= worth
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
    use super::{is_write, least_payload, wants_larger};

    #[test]
    fn larger_buffers_are_for_streams() {
        assert!(!wants_larger(20_000, 10_001, 32768));
        assert!(wants_larger(20_002, 10_001, 32768));
        assert!(!wants_larger(u32::MAX, 4080, 8160));
        assert!(!wants_larger(u32::MAX, u16::MAX, u16::MAX));
        // An answer of a few small messages is no stream.
        assert!(!wants_larger(16383, 4096, 32768));
        assert!(wants_larger(16384, 4096, 32768));
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
