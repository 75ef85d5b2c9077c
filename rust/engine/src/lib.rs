// SPDX-License-Identifier: GPL-2.0

//! Host crate around the SDP protocol engine; the kernel module mounts the same
//! `engine` directory at its own root.
#![no_std]

#[cfg(test)]
extern crate std;

pub mod engine;
