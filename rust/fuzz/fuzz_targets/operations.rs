// SPDX-License-Identifier: GPL-2.0

//! The bytes encode a history of two peers.

#![no_main]

use sdp_sim::run::History;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Err(failure) = History::of_bytes(bytes).check() {
        panic!("{failure}");
    }
});
