// SPDX-License-Identifier: GPL-2.0

//! Raw bytes into the codec.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Err(fault) = sdp_sim::codec::read(bytes) {
        panic!("{fault}");
    }
});
