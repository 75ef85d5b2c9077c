// SPDX-License-Identifier: GPL-2.0

//! From which length on not copying is worth its price.

/// The least value that a user may set, except 0, which switches zero copy off: a
/// page.
pub const LEAST: u32 = 4 << 10;

/// Whether `len` bytes go without a copy.
pub fn is_zcopy(len: u64, threshold: u32) -> bool {
    threshold != 0 && len >= threshold.into()
}

#[cfg(test)]
mod tests {
    use super::is_zcopy;

    #[test]
    fn zero_switches_it_off() {
        assert!(!is_zcopy(u64::MAX, 0));
        assert!(!is_zcopy(65535, 65536));
        assert!(is_zcopy(65536, 65536));
        assert!(is_zcopy(u64::MAX, u32::MAX));
    }
}
