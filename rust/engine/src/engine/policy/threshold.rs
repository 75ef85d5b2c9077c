// SPDX-License-Identifier: GPL-2.0

//! From which length on not copying is worth its price.

/// The least value that a user may set, except 0, which switches zero copy off: a
/// page.
pub const LEAST: u32 = 4 << 10;

/// The number of [`Threshold::Auto`].
const AUTO: i32 = -1;

/// Which messages go without a copy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Threshold {
    /// None.
    Off,
    /// Those of so many bytes and more.
    From(u32),
    /// Each connection finds out: see [`tuning`](super::tuning).
    Auto,
}

impl Threshold {
    /// The meaning of a number that a user has set.
    pub fn of(number: i32) -> Self {
        match u32::try_from(number) {
            Ok(0) => Self::Off,
            Ok(bytes) => Self::From(bytes),
            Err(_) => Self::Auto,
        }
    }

    /// The number that means this.
    pub fn number(self) -> i32 {
        match self {
            Self::Off => 0,
            Self::From(bytes) => i32::try_from(bytes).unwrap_or(i32::MAX),
            Self::Auto => AUTO,
        }
    }
}

/// Whether `len` bytes go without a copy.
pub fn is_zcopy(len: u64, threshold: u32) -> bool {
    threshold != 0 && len >= threshold.into()
}

#[cfg(test)]
mod tests {
    use super::{is_zcopy, Threshold};

    #[test]
    fn numbers_and_meanings_are_one_to_one() {
        assert_eq!(
            [-1, 0, 4096].map(Threshold::of),
            [Threshold::Auto, Threshold::Off, Threshold::From(4096)]
        );
        assert_eq!(Threshold::of(i32::MIN), Threshold::Auto);
        for number in [-1, 0, 1, 4096, i32::MAX] {
            assert_eq!(Threshold::of(number).number(), number);
        }
        assert_eq!(Threshold::From(u32::MAX).number(), i32::MAX);
    }

    #[test]
    fn zero_switches_it_off() {
        assert!(!is_zcopy(u64::MAX, 0));
        assert!(!is_zcopy(65535, 65536));
        assert!(is_zcopy(65536, 65536));
        assert!(is_zcopy(u64::MAX, u32::MAX));
    }
}
