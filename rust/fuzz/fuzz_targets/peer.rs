// SPDX-License-Identifier: GPL-2.0

//! A peer that sends messages encoded in the bytes to a live connection.

#![no_main]

use sdp_sim::story::Stranger;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Err(told) = Stranger::Rogue.meet_bytes(bytes) {
        panic!("{told}");
    }
});
