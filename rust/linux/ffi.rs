// SPDX-License-Identifier: GPL-2.0

//! Names of C: the bindings of one module.
//!
//! `kernel::bindings` lacks `struct proto` and everything of `rdma/`. Each module has a run of
//! bindgen of its own (`bindings.mk`), and its names shadow the names of the glob import. Every file
//! that calls a C helper names this module. Bindings of ib_core are for `rdma` alone, which
//! `make check` tests.

#[allow(
    clippy::all,
    clippy::as_underscore,
    clippy::cast_lossless,
    clippy::missing_safety_doc,
    clippy::ptr_as_ptr,
    clippy::ref_as_ptr,
    clippy::undocumented_unsafe_blocks,
    dead_code,
    improper_ctypes,
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    unreachable_pub,
    unsafe_op_in_unsafe_fn,
    unused_imports,
    unused_qualifications
)]
mod generated {
    pub(crate) use kernel::bindings::*;
    use kernel::ffi;
    use pin_init::{
        MaybeZeroable,
        Zeroable, //
    };

    type __kernel_size_t = usize;
    type __kernel_ssize_t = isize;
    type __kernel_ptrdiff_t = isize;

    include!(env!("MODULE_BINDINGS"));
}

pub(crate) use generated::*;
#[allow(
    unused_imports,
    reason = "for a module that needs the kernel crate's own type"
)]
pub(crate) use kernel::bindings as core;
