// SPDX-License-Identifier: GPL-2.0

//! Peers that behave like other implementations.
#![allow(clippy::panic, reason = "a test says what is wrong by panicking")]

use sdp_sim::story::Stranger;

fn meet_some(who: Stranger) {
    let mut steps = 0;
    for seed in 0..3_000 {
        match who.meet_seed(seed) {
            Ok(shown) => steps += shown.steps,
            Err(told) => panic!("{told}"),
        }
    }
    assert!(steps > 100_000, "{steps} steps");
}

//= test: ADVERT-2, ADVERT-3, READ-2, READ-4, SENDSM-3, SRCCANCEL-6, DATA-1
#[test]
fn streams_cross_with_a_peer_like_ofed() {
    meet_some(Stranger::Ofed);
}

//= test: ADVERT-1, SENDSM-4, SRCCANCEL-7, SINK-4, SINK-6, SINKCANCEL-4, SINKCANCEL-5, MODE-2
//= test: SEQ-5, DATA-1
#[test]
fn streams_cross_with_a_peer_like_gen2() {
    meet_some(Stranger::Gen2);
}
