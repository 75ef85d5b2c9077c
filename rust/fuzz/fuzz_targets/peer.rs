// SPDX-License-Identifier: GPL-2.0

//! A peer that sends what the bytes say, to a live connection.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Err(fault) = sdp_sim::rogue::meet(bytes) {
        panic!("{fault}");
    }
});
