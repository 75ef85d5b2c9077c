// SPDX-License-Identifier: GPL-2.0

//! The functions that ib_core calls: they convert arguments and call methods.
//!
//! ib_core allocates PDs, CQs, QPs, SRQs and AHs and frees them after our destroy function. Each is
//! followed by a pointer to its Rust part. Contexts: posting, polling and arming are called in any;
//! everything else sleeps.

mod handle;
mod object;
mod port;
mod post;
mod qp;
mod queue;
mod region;

use self::object::Object;
use crate::{
    cq::Cq,
    ffi,
    memory::DMA_LKEY,
    path::Ah,
    qp::{
        Device,
        Qp, //
    },
    receive::Srq, //
};
use core::mem::size_of;

const OPS: ffi::ib_device_ops = ffi::ib_device_ops {
    driver_id: 0x726c6f,
    post_send: Some(post::post_send),
    post_recv: Some(post::post_recv),
    poll_cq: Some(queue::poll_cq),
    req_notify_cq: Some(queue::req_notify_cq),
    post_srq_recv: Some(post::post_srq_recv),
    query_device: Some(port::query_device),
    query_port: Some(port::query_port),
    modify_port: Some(port::modify_port),
    query_gid: Some(port::query_gid),
    query_pkey: Some(port::query_pkey),
    get_port_immutable: Some(port::get_port_immutable),
    get_link_layer: Some(port::get_link_layer),
    attach_mcast: Some(qp::attach_mcast),
    detach_mcast: Some(qp::detach_mcast),
    alloc_pd: Some(handle::alloc_pd),
    dealloc_pd: Some(handle::dealloc_pd),
    create_ah: Some(handle::create_ah),
    query_ah: Some(handle::query_ah),
    destroy_ah: Some(handle::destroy_ah),
    create_qp: Some(qp::create_qp),
    modify_qp: Some(qp::modify_qp),
    query_qp: Some(qp::query_qp),
    destroy_qp: Some(qp::destroy_qp),
    create_cq: Some(queue::create_cq),
    destroy_cq: Some(queue::destroy_cq),
    get_dma_mr: Some(region::get_dma_mr),
    reg_user_mr: Some(region::reg_user_mr),
    alloc_mr: Some(region::alloc_mr),
    dereg_mr: Some(region::dereg_mr),
    map_mr_sg: Some(region::map_mr_sg),
    alloc_hw_port_stats: Some(port::alloc_hw_port_stats),
    get_hw_stats: Some(port::get_hw_stats),
    dealloc_driver: Some(port::dealloc_driver),
    size_ib_pd: size_of::<ffi::ib_pd>(),
    size_ib_ah: size_of::<Object<ffi::ib_ah, Ah>>(),
    size_ib_cq: size_of::<Object<ffi::ib_cq, Cq>>(),
    size_ib_qp: size_of::<Object<ffi::ib_qp, Qp>>(),
    size_ib_srq: size_of::<Object<ffi::ib_srq, Srq>>(),
    ..pin_init::zeroed()
};

/// The table that ib_core copies from.
struct Ops(ffi::ib_device_ops);

// SAFETY: It is never written, and its pointers are to functions.
unsafe impl Sync for Ops {}

static DEVICE_OPS: Ops = Ops(OPS);

static SRQ_OPS: Ops = Ops(ffi::ib_device_ops {
    create_srq: Some(queue::create_srq),
    modify_srq: Some(queue::modify_srq),
    query_srq: Some(queue::query_srq),
    destroy_srq: Some(queue::destroy_srq),
    ..pin_init::zeroed()
});

/// Fills in the fields that ib_core needs before registration.
///
/// # Safety
///
/// `ib` is not registered.
pub(crate) unsafe fn describe(ib: &mut ffi::ib_device, device: &Device) {
    ib.phys_port_cnt = 1;
    // SAFETY: No requirements.
    ib.num_comp_vectors = unsafe { ffi::rlo_processors() };
    ib.local_dma_lkey = if device.port.limits.dma_lkey {
        DMA_LKEY
    } else {
        0
    };
    for (to, from) in ib.node_desc.iter_mut().zip(b"rlo\0") {
        *to = *from;
    }
    // SAFETY: All are valid; ib_core copies from the tables.
    unsafe {
        ffi::rlo_set_ops(ib, &DEVICE_OPS.0);
        if device.port.limits.srq {
            ffi::ib_set_device_ops(ib, &SRQ_OPS.0);
        }
    }
}
