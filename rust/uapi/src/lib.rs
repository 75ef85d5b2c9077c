// SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note

//! The numbers that programs and the SDP module share, as constants.
//!
//! bindgen generates `header.rs` from `include/uapi/linux/sdp.h`, which explains the numbers.
//! `qemu/cargo rust run -p xtask -- uapi` regenerates it after a change of the header; a test of
//! xtask fails while the two differ.
#![no_std]

mod borrow;
#[rustfmt::skip]
#[expect(missing_docs, non_camel_case_types, reason = "the names and the words are the header's")]
mod header;

pub use borrow::{AheadControl, BorrowControl};
pub use header::*;
