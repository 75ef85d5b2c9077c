// SPDX-License-Identifier: GPL-2.0

//! How much one message carries, and from how many bytes on a Write is better.

/// From how many plain bytes on they are written into a buffer that the sink
/// offers, rather than sent as Data: when one message would not take them. An
/// RDMA Write needs a message of its own behind it.
pub fn is_write(plain: u32, max_payload: u32) -> bool {
    plain > max_payload
}

/// The payload of the larger receive buffers to ask the peer for, if they are worth it: `plain` bytes
/// wait, a message carries `max_payload`, and we could fill one of `most`.
///
/// A message costs both sides about as much as the copy of a few KiB, so a long stream benefits from
/// long messages, and a short one ends before the answer comes. Fewer than half of what would
/// fill them is not worth the peer's memory, nor are buffers that hold less than twice as much as
/// those it has. The largest are for writes that do not fit one of half the size, and are asked
/// for last, because there are peers which refuse what they cannot have whole. The first buffers
/// may be far smaller, because an idle connection pays for them: then a write that does not fit
/// one is reason enough for buffers of an eighth. They are two pages, because a page with a header
/// before it is what databases, disks and web servers send.
pub fn larger(plain: u32, max_payload: u32, most: u32) -> Option<u32> {
    let half = most >> 1;
    let worth = |size: u32, least: u32| {
        size >= max_payload.saturating_mul(2) && plain >= least && plain > max_payload
    };
    if max_payload > half >> 1 && worth(most, half.saturating_add(1)) {
        Some(most)
    } else if worth(half, half >> 1) {
        Some(half)
    } else {
        let some = most >> 3;
        worth(some, 0).then_some(some)
    }
}

/// The least payload of a message that a connection is worth having with, where we
/// could fill one of `most`: a message costs the same whatever it carries, so a peer
/// that takes a byte at a time would have us work for it without end. The buffers of
/// all known implementations hold far more.
pub const fn least_payload(most: u32) -> u32 {
    let least = most >> 7;
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
    fn the_largest_buffers_are_for_long_writes() {
        assert_eq!(larger(65536, 32768, 65536), Some(65536));
        assert_eq!(larger(32769, 32768, 65536), Some(65536));
        // One after the other.
        assert_eq!(larger(u32::MAX, 1024, 65536), Some(32768));
        assert_eq!(larger(u32::MAX, 16385, 65536), Some(65536));
        assert_eq!(larger(u32::MAX, 32769, 65536), None);
        assert_eq!(larger(u32::MAX, 65536, 65536), None);
        assert_eq!(larger(u32::MAX, u32::MAX, u32::MAX), None);
    }

    #[test]
    fn half_of_them_are_for_streams() {
        // A write that fits one is no reason for more.
        assert_eq!(larger(32768, 32768, 65536), None);
        assert_eq!(larger(32768, 4096, 65536), Some(32768));
        assert_eq!(larger(16385, 16384, 65536), Some(32768));
        assert_eq!(larger(16384, 16384, 65536), None);
        // An answer of a few small messages is no stream.
        assert_eq!(larger(16383, 8192, 65536), None);
        assert_eq!(larger(16384, 4096, 65536), Some(32768));
        assert_eq!(larger(16384, 1024, 65536), Some(32768));
    }

    #[test]
    fn a_write_that_does_not_fit_a_first_buffer_is_worth_two_pages() {
        assert_eq!(larger(1024, 1024, 65536), None);
        assert_eq!(larger(1025, 1024, 65536), Some(8192));
        assert_eq!(larger(16383, 4096, 65536), Some(8192));
        // Half as many messages at least.
        assert_eq!(larger(16383, 4097, 65536), None);
    }

    #[test]
    fn a_message_carries_a_128th_of_what_it_could() {
        assert_eq!(least_payload(65536), 512);
        assert_eq!([0, 127, 128, 255, 256].map(least_payload), [1, 1, 1, 1, 2]);
    }

    #[test]
    fn what_fits_one_message_is_sent_as_one() {
        assert!(!is_write(100, 100));
        assert!(is_write(101, 100));
    }
}
