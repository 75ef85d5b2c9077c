// SPDX-License-Identifier: GPL-2.0

//! From which length on not copying is worth its price.

/// The threshold of a source whose user has set none. OFED's default.
///
/// \[Z05, fig. 6 and 7\]: on one connection zero copy had the better bandwidth
/// from 256 KiB on, on 2, 4 and 8 connections from 64, 32 and 16 KiB; less CPU
/// time from 4 to 16 KiB on. \[SP11, fig. 1\]: registration costs a fixed time and
/// little per page.
pub const SOURCE: u32 = 64 << 10;

/// The threshold of a sink. A Read into the reader's pages saves the copy and
/// costs pinning; the bytes have to be fetched either way.
pub const SINK: u32 = 32 << 10;

/// The least value that a user may set, except 0, which switches zero copy off: a
/// page.
pub const LEAST: u32 = 4 << 10;

/// Whether `len` bytes go without a copy.
pub const fn is_zcopy(len: u64, threshold: u32) -> bool {
    // A widening that a const function can make in no other way.
    let threshold = u64::from_le_bytes({
        let [a, b, c, d] = threshold.to_le_bytes();
        [a, b, c, d, 0, 0, 0, 0]
    });
    threshold != 0 && len >= threshold
}

/// The threshold with `busy` connections on the device: the crossing point that
/// \[Z05, fig. 7\] measured halves with each doubling, down to an eighth, because
/// the handshakes of one connection overlap the transfers of others.
pub const fn shared(threshold: u32, busy: u32) -> u32 {
    let shift = match busy {
        0 | 1 => 0,
        2 | 3 => 1,
        4..=7 => 2,
        _ => 3,
    };
    let lowered = threshold >> shift;
    if threshold == 0 || lowered >= LEAST {
        lowered
    } else if threshold < LEAST {
        threshold
    } else {
        LEAST
    }
}

#[cfg(test)]
mod tests {
    use super::{is_zcopy, shared, LEAST, SOURCE};

    #[test]
    fn zero_switches_it_off() {
        assert!(!is_zcopy(u64::MAX, 0));
        assert!(!is_zcopy(65535, SOURCE));
        assert!(is_zcopy(65536, SOURCE));
        assert!(is_zcopy(u64::MAX, u32::MAX));
    }

    #[test]
    fn many_connections_lower_it_as_the_paper_measured() {
        let kib = |n: u32| n << 10;
        assert_eq!(shared(kib(256), 1), kib(256));
        assert_eq!(shared(kib(256), 2), kib(128));
        assert_eq!(shared(kib(256), 4), kib(64));
        assert_eq!(shared(kib(256), 1000), kib(32));
        assert_eq!(shared(kib(8), 8), LEAST);
        assert_eq!(shared(100, 8), 100);
        assert_eq!(shared(0, 8), 0);
    }
}
