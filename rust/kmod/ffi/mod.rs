// SPDX-License-Identifier: GPL-2.0

//! Names of C: generated bindings in quarantine.
//!
//! `kernel::bindings` lacks `struct proto` and everything of `rdma/`; these
//! come from a bindgen run of our own, and its
//! names shadow those of the glob. Only the wrappers in `rdma`, `cm`, `net`
//! and `sock` use this module.

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

    // SAFETY: A newtype around `Storage`, which bindgen does not say itself.
    unsafe impl<Storage> Zeroable for __BindgenBitfieldUnit<Storage> where Storage: Zeroable {}

    // SAFETY: It has no bytes of its own: the union's are in another field.
    unsafe impl<T> Zeroable for __BindgenUnionField<T> {}

    include!(env!("SDP_BINDINGS"));
}

/// What C says of the structs of `kernel::bindings` that this module looks into or
/// makes: see `offsets.c`.
mod offsets {
    include!(env!("SDP_OFFSETS"));
}

pub(crate) use generated::*;
pub(crate) use kernel::bindings as core;
