// SPDX-License-Identifier: GPL-2.0

//! Malicious peers.
#![allow(clippy::panic, reason = "a test says what is wrong by panicking")]

use sdp_sim::{coverage::Coverage, story::Stranger};

//= test: ROBUST-1, ROBUST-2, ROBUST-3, ROBUST-5
#[test]
fn no_peer_of_a_fixed_seed_breaks_anything() {
    let mut coverage = Coverage::default();
    for seed in 0..20_000 {
        match Stranger::Rogue.meet_seed(seed) {
            Ok(met) => coverage.merge(&met.coverage),
            Err(told) => panic!("{told}"),
        }
    }
    assert!(coverage.compare().refused > 60, "{:?}", coverage.compare());
}

#[test]
fn a_meeting_without_bytes_ends() {
    assert!(sdp_sim::story::Stranger::Rogue.meet_bytes(&[]).is_ok());
    assert!(sdp_sim::story::Stranger::Rogue.meet_bytes(&[0; 7]).is_ok());
}
