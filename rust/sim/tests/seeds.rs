// SPDX-License-Identifier: GPL-2.0

//! Some histories of every kind, for every build. `make sim` runs millions.
#![allow(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test says what is wrong by panicking"
)]

use proptest::prelude::*;
use sdp_sim::run::{History, Shown};

//= test: DATA-1, CREDIT-3, CREDIT-4, CREDIT-5, CREDIT-6, CREDIT-9, CREDIT-10
//= test: SEQ-1, SEQ-3, UPDATE-2, UPDATE-4, CLOSE-1, CLOSE-8, SRC-8, MR-1, MR-2, MR-3
//= test: ROBUST-5
#[test]
fn histories_of_fixed_seeds_break_nothing() {
    let mut shown = Shown::default();
    for seed in 0..12_000 {
        match History::of_seed(seed).check() {
            Ok(one) => shown.add(&one),
            Err(failure) => panic!("seed {seed}: {failure}"),
        }
    }
    assert!(shown.steps > 1_000_000, "{} steps", shown.steps);
    assert!(shown.loans.rarer_than(100).is_empty(), "{:?}", shown.loans);
    let compared = shown.coverage.compare();
    assert!(compared.reached > 90, "{compared:?}");
    assert!(compared.stale.is_empty(), "{:?}", compared.stale);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// The harness that is also fuzzed: any bytes are a history.
    #[test]
    fn any_bytes_are_a_history_that_breaks_nothing(
        bytes in prop::collection::vec(any::<u8>(), 0..2000),
    ) {
        if let Err(failure) = History::of_bytes(&bytes).check() {
            panic!("{failure}");
        }
    }
}
