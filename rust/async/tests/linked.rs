// SPDX-License-Identifier: MIT

//! What `libsdp_async.so` needs of other libraries. A program of another C library than glibc does not
//! start if something of that is missing.

#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a panic is how a test fails"
)]

#[path = "../../preload/tests/needed/mod.rs"]
mod needed;

#[test]
fn the_c_library_is_all_that_it_needs() {
    // Cargo builds it beside this test.
    let own = std::env::current_exe().expect("it runs");
    needed::check(&own.with_file_name("libsdp_async.so"));
}
