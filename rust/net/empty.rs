// SPDX-License-Identifier: GPL-2.0

//! An empty module with the library, and with nothing but what all modules share: see `Kbuild`.

#![crate_name = "rust_net"]
#![recursion_limit = "256"]
#![allow(dead_code, unused_imports, reason = "the module is empty")]

#[path = "../linux/calls.rs"]
mod calls;
#[path = "../linux/ffi.rs"]
mod ffi;
#[path = "../linux/offsets.rs"]
mod offsets;
#[path = "../linux/prelude.rs"]
mod prelude;

#[path = "mod.rs"]
mod net;

use crate::prelude::*;

module! {
    type: Empty,
    name: "rust_net",
    description: "The socket layer for modules in Rust",
    license: "GPL",
}

struct Empty;

impl kernel::Module for Empty {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        Ok(Self)
    }
}
