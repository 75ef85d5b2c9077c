// SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note

//! The numbers that programs and the SDP module share, as constants.
//!
//! `header.rs` is what bindgen makes of `include/uapi/linux/sdp.h`, where the numbers are
//! explained. `qemu/cargo rust run -p xtask -- uapi` writes it anew after a change of the
//! header; a test of xtask fails while the two differ.
#![no_std]

#[rustfmt::skip]
#[expect(missing_docs, non_camel_case_types, reason = "the names and the words are the header's")]
mod header;

pub use header::*;
