// SPDX-License-Identifier: GPL-2.0

mod worlds;

use super::{is_zcopy, Threshold};

/// The shell's value where no user has set one.
const DEFAULT: u32 = 256 << 10;

#[test]
fn numbers_and_meanings_are_one_to_one() {
    assert_eq!(
        [0, 4096].map(Threshold::of),
        [Threshold::Off, Threshold::From(4096)]
    );
    for number in [0, 1, 4096, DEFAULT] {
        assert_eq!(u32::try_from(Threshold::of(number).number()), Ok(number));
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

#[test]
fn a_short_message_is_copied_as_a_whole() {
    let of = |threshold: Threshold, len| threshold.least_of(len);
    let default = Threshold::of(DEFAULT);
    assert_eq!(of(default, u64::from(DEFAULT) - 1), 0);
    assert_eq!(of(default, DEFAULT.into()), DEFAULT);
    assert_eq!(of(Threshold::Off, u64::MAX), 0);
}
