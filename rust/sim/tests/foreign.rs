// SPDX-License-Identifier: GPL-2.0

//! Peers that behave as other implementations do.
#![allow(clippy::panic, reason = "a test says what is wrong by panicking")]

use sdp_sim::{
    dice::Seeded,
    foreign::{meet_by, Kind},
};

fn meet_some(kind: Kind) {
    let mut steps = 0;
    for seed in 0..3_000 {
        match meet_by(kind, &mut Seeded::new(seed), 200) {
            Ok(shown) => steps += shown.steps,
            Err(fault) => panic!("seed {seed}: {fault}"),
        }
    }
    assert!(steps > 100_000, "{steps} steps");
}

//= test: ADVERT-2, ADVERT-3, READ-2, READ-4, SENDSM-3, SRCCANCEL-6, DATA-1
#[test]
fn streams_cross_with_a_peer_like_ofed() {
    meet_some(Kind::Ofed);
}

//= test: ADVERT-1, SENDSM-4, MODE-2, DATA-1
#[test]
fn streams_cross_with_a_peer_like_gen2() {
    meet_some(Kind::Gen2);
}
