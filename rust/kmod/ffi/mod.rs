// SPDX-License-Identifier: GPL-2.0

//! Names of C: generated bindings in quarantine.
//!
//! `kernel::bindings` lacks `struct proto` and everything of `rdma/`; these
//! come from a bindgen run of our own, and its
//! names shadow those of the glob. Only the wrappers in `verbs`, `cm`, `net`
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
    sock = sdp_sizes_SDP_SIZEOF_sock,
    sdp_inet = sdp_sizes_SDP_SIZEOF_sdp_inet,
    proto = sdp_sizes_SDP_SIZEOF_proto,
    delayed_work = sdp_sizes_SDP_SIZEOF_delayed_work,
    ib_qp_init_attr = sdp_sizes_SDP_SIZEOF_ib_qp_init_attr,
    ib_qp_attr = sdp_sizes_SDP_SIZEOF_ib_qp_attr,
    ib_send_wr = sdp_sizes_SDP_SIZEOF_ib_send_wr,
    ib_recv_wr = sdp_sizes_SDP_SIZEOF_ib_recv_wr,
    ib_rdma_wr = sdp_sizes_SDP_SIZEOF_ib_rdma_wr,
    ib_wc = sdp_sizes_SDP_SIZEOF_ib_wc,
    ib_event = sdp_sizes_SDP_SIZEOF_ib_event,
    ib_device = sdp_sizes_SDP_SIZEOF_ib_device,
    ib_client = sdp_sizes_SDP_SIZEOF_ib_client,
    ib_cm_id = sdp_sizes_SDP_SIZEOF_ib_cm_id,
    ib_cm_event = sdp_sizes_SDP_SIZEOF_ib_cm_event,
    ib_cm_req_param = sdp_sizes_SDP_SIZEOF_ib_cm_req_param,
    ib_cm_rep_param = sdp_sizes_SDP_SIZEOF_ib_cm_rep_param,
    rdma_cm_id = sdp_sizes_SDP_SIZEOF_rdma_cm_id,
    rdma_cm_event = sdp_sizes_SDP_SIZEOF_rdma_cm_event,
    sa_path_rec = sdp_sizes_SDP_SIZEOF_sa_path_rec,
    tcp_info = sdp_sizes_SDP_SIZEOF_tcp_info,
    ib_reg_wr = sdp_zcopy_sizes_SDP_SIZEOF_ib_reg_wr,
    ib_mr = sdp_zcopy_sizes_SDP_SIZEOF_ib_mr,
);

pub(crate) use generated::*;
pub(crate) use kernel::bindings as core;
