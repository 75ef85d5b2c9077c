// SPDX-License-Identifier: GPL-2.0

//! Names of C: generated bindings in quarantine.
//!
//! `kernel::bindings` lacks everything of `rdma/`. These come from a bindgen run of
//! our own, and its names shadow those of the glob.

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

    include!(env!("RLO_BINDINGS"));
}

/// Fails the build where bindgen understood a struct otherwise than the C
/// compiler.
macro_rules! check_sizes {
    ($($name:ident = $size:ident),* $(,)?) => {
        $(const _: () = assert!(
            ::core::mem::size_of::<generated::$name>() == generated::$size as usize
        );)*
    };
}

check_sizes!(
    ib_device = rlo_sizes_RLO_SIZEOF_ib_device,
    ib_device_ops = rlo_sizes_RLO_SIZEOF_ib_device_ops,
    ib_qp = rlo_sizes_RLO_SIZEOF_ib_qp,
    ib_cq = rlo_sizes_RLO_SIZEOF_ib_cq,
    ib_srq = rlo_sizes_RLO_SIZEOF_ib_srq,
    ib_pd = rlo_sizes_RLO_SIZEOF_ib_pd,
    ib_ah = rlo_sizes_RLO_SIZEOF_ib_ah,
    ib_mr = rlo_sizes_RLO_SIZEOF_ib_mr,
    ib_wc = rlo_sizes_RLO_SIZEOF_ib_wc,
    ib_qp_attr = rlo_sizes_RLO_SIZEOF_ib_qp_attr,
    ib_qp_init_attr = rlo_sizes_RLO_SIZEOF_ib_qp_init_attr,
    ib_send_wr = rlo_sizes_RLO_SIZEOF_ib_send_wr,
    ib_rdma_wr = rlo_sizes_RLO_SIZEOF_ib_rdma_wr,
    ib_reg_wr = rlo_sizes_RLO_SIZEOF_ib_reg_wr,
    ib_ud_wr = rlo_sizes_RLO_SIZEOF_ib_ud_wr,
    ib_recv_wr = rlo_sizes_RLO_SIZEOF_ib_recv_wr,
    ib_device_attr = rlo_sizes_RLO_SIZEOF_ib_device_attr,
    ib_port_attr = rlo_sizes_RLO_SIZEOF_ib_port_attr,
    rlo_task = rlo_sizes_RLO_SIZEOF_rlo_task,
    rlo_bell = rlo_sizes_RLO_SIZEOF_rlo_bell,
    rlo_av = rlo_sizes_RLO_SIZEOF_rlo_av,
    rlo_frame = rlo_sizes_RLO_SIZEOF_rlo_frame,
    rlo_device_object = rlo_sizes_RLO_SIZEOF_rlo_device_object,
);

pub(crate) use generated::*;
