// SPDX-License-Identifier: GPL-2.0

//! Some histories of every kind, for every build. `make sim` plays millions.
#![allow(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test says what is wrong by panicking"
)]

use proptest::prelude::*;
use sdp_sim::{coverage::Coverage, run::History};

//= test: DATA-1, CREDIT-3, CREDIT-4, CREDIT-5, CREDIT-6, CREDIT-9, CREDIT-10
//= test: SEQ-1, SEQ-3, UPDATE-2, UPDATE-4, CLOSE-8, ROBUST-5
#[test]
fn histories_of_fixed_seeds_break_nothing() {
    let mut coverage = Coverage::default();
    let mut steps = 0;
    for seed in 0..10_000 {
        match History::of_seed(seed).check() {
            Ok(shown) => {
                coverage.merge(&shown.coverage);
                steps += shown.steps;
            }
            Err(failure) => panic!("seed {seed}: {failure}"),
        }
    }
    assert!(steps > 1_000_000, "{steps} steps");
    let compared = coverage.compare();
    assert!(compared.reached > 90, "{compared:?}");
    assert!(compared.stale.is_empty(), "{:?}", compared.stale);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// The same harness that is fuzzed: any bytes are a history.
    #[test]
    fn any_bytes_are_a_history_that_breaks_nothing(
        bytes in prop::collection::vec(any::<u8>(), 0..2000),
    ) {
        if let Err(failure) = History::of_bytes(&bytes).check() {
            panic!("{failure}");
        }
    }
}
