// SPDX-License-Identifier: GPL-2.0

//! The functions that ib_core calls: they convert arguments and call methods.
//!
//! ib_core allocates PDs, CQs, QPs, SRQs and AHs and frees them after our destroy function. Each is
//! followed by a pointer to its Rust part. Contexts: posting, polling and arming are called in any;
//! everything else sleeps.

use crate::{
    counters::{
        Counters,
        DESCRIPTIONS, //
    },
    cq::Cq,
    datagram::Ah,
    device::{
        Device,
        GSI,
        MAX_REGIONS, //
    },
    faults,
    ffi,
    joint::Av,
    memory::DMA_LKEY,
    modify,
    mr::{
        Mr,
        Pages,
        Registration, //
    },
    names::opcode,
    prelude::*,
    qp::{
        Qp,
        Shape, //
    },
    receive::Srq,
    send::{
        Head,
        Target, //
    }, //
};
use core::mem::{
    size_of,
    MaybeUninit, //
};
use kernel::sync::{
    atomic::Relaxed,
    Arc,
    ArcBorrow, //
};

/// An object of ib_core, followed by the pointer to ours.
///
/// # Invariants
///
/// Between creation and destruction `own` is an `Arc<T>`'s.
#[repr(C)]
struct Object<C, T> {
    ib: C,
    own: *const T,
}

/// # Safety
///
/// `ib` is the first field of an `Object<C, T>` that was created and not destroyed.
unsafe fn own<'a, C, T>(ib: *mut C) -> ArcBorrow<'a, T> {
    // SAFETY: It is such an object, whose `own` is an Arc's, by the caller's promise.
    unsafe { ArcBorrow::from_raw((*ib.cast::<Object<C, T>>()).own) }
}

/// # Safety
///
/// `ib` is the first field of an `Object<C, T>` that is being created.
unsafe fn attach<C, T>(ib: *mut C, value: Arc<T>) {
    // SAFETY: It is such an object, and nobody else knows it yet, by the caller's promise.
    unsafe { (*ib.cast::<Object<C, T>>()).own = value.into_raw() }
}

/// # Safety
///
/// As for `own`; it is destroyed by this.
unsafe fn detach<C, T>(ib: *mut C) -> Arc<T> {
    let object = ib.cast::<Object<C, T>>();
    // SAFETY: It is such an object, whose `own` is an Arc's, by the caller's promise; nobody asks
    // for it afterwards.
    unsafe {
        let value = Arc::from_raw((*object).own);
        (*object).own = core::ptr::null();
        value
    }
}

fn errno(result: Result) -> c_int {
    match result {
        Ok(()) => 0,
        Err(error) => error.to_errno(),
    }
}

const OPS: ffi::ib_device_ops = ffi::ib_device_ops {
    driver_id: 0x726c6f,
    post_send: Some(post_send),
    post_recv: Some(post_recv),
    poll_cq: Some(poll_cq),
    req_notify_cq: Some(req_notify_cq),
    post_srq_recv: Some(post_srq_recv),
    query_device: Some(query_device),
    query_port: Some(query_port),
    modify_port: Some(modify_port),
    query_gid: Some(query_gid),
    query_pkey: Some(query_pkey),
    get_port_immutable: Some(get_port_immutable),
    get_link_layer: Some(get_link_layer),
    attach_mcast: Some(attach_mcast),
    detach_mcast: Some(detach_mcast),
    alloc_pd: Some(alloc_pd),
    dealloc_pd: Some(dealloc_pd),
    create_ah: Some(create_ah),
    query_ah: Some(query_ah),
    destroy_ah: Some(destroy_ah),
    create_qp: Some(create_qp),
    modify_qp: Some(modify_qp),
    query_qp: Some(query_qp),
    destroy_qp: Some(destroy_qp),
    create_cq: Some(create_cq),
    destroy_cq: Some(destroy_cq),
    get_dma_mr: Some(get_dma_mr),
    reg_user_mr: Some(reg_user_mr),
    alloc_mr: Some(alloc_mr),
    dereg_mr: Some(dereg_mr),
    map_mr_sg: Some(map_mr_sg),
    alloc_hw_port_stats: Some(alloc_hw_port_stats),
    get_hw_stats: Some(get_hw_stats),
    dealloc_driver: Some(dealloc_driver),
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
    create_srq: Some(create_srq),
    modify_srq: Some(modify_srq),
    query_srq: Some(query_srq),
    destroy_srq: Some(destroy_srq),
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
    ib.local_dma_lkey = if device.limits.dma_lkey { DMA_LKEY } else { 0 };
    for (to, from) in ib.node_desc.iter_mut().zip(b"rlo\0") {
        *to = *from;
    }
    // SAFETY: All are valid; ib_core copies from the tables.
    unsafe {
        ffi::rlo_set_ops(ib, &DEVICE_OPS.0);
        if device.limits.srq {
            ffi::ib_set_device_ops(ib, &SRQ_OPS.0);
        }
    }
}

// The device and its port.

unsafe extern "C" fn dealloc_driver(ib: *mut ffi::ib_device) {
    // SAFETY: ib_core calls this once, for a device that is unregistered.
    unsafe { Device::unmake(ib.cast()) }
}

unsafe extern "C" fn query_device(
    ib: *mut ffi::ib_device,
    attr: *mut ffi::ib_device_attr,
    _udata: *mut ffi::ib_udata,
) -> c_int {
    // SAFETY: `ib` is ours, and `attr` valid.
    let (device, attr) = unsafe { (Device::of(ib), &mut *attr) };
    let limits = &device.limits;
    // SAFETY: `ib` is valid.
    attr.sys_image_guid = unsafe { (*ib).node_guid };
    attr.max_mr_size = u64::from(limits.max_mr_pages) << kernel::page::PAGE_SHIFT;
    // 4 KiB and all larger powers of two.
    attr.page_size_cap = !0xfff;
    attr.max_qp = to_attribute(limits.max_qp);
    attr.max_qp_wr = to_attribute(limits.max_qp_wr);
    attr.device_cap_flags = if limits.mem_mgt {
        ffi::ib_device_cap_flags_IB_DEVICE_MEM_MGT_EXTENSIONS as u64
    } else {
        0
    } | ffi::ib_device_cap_flags_IB_DEVICE_RC_RNR_NAK_GEN as u64
        | ffi::ib_device_cap_flags_IB_DEVICE_PORT_ACTIVE_EVENT as u64
        | ffi::ib_device_cap_flags_IB_DEVICE_SYS_IMAGE_GUID as u64;
    attr.kernel_cap_flags = u64::from(ffi::ib_kernel_cap_flags_IBK_ALLOW_USER_UNREG);
    if limits.dma_lkey {
        attr.kernel_cap_flags |= u64::from(ffi::ib_kernel_cap_flags_IBK_LOCAL_DMA_LKEY);
    }
    attr.max_send_sge = to_attribute(limits.max_sge);
    attr.max_recv_sge = to_attribute(limits.max_sge);
    attr.max_sge_rd = to_attribute(limits.max_sge_rd);
    attr.max_cq = 1 << 20;
    attr.max_cqe = to_attribute(limits.max_cqe);
    attr.max_mr = to_attribute(MAX_REGIONS);
    attr.max_pd = 1 << 20;
    attr.max_qp_rd_atom = to_attribute(limits.max_rd_atomic);
    attr.max_res_rd_atom = to_attribute(limits.max_rd_atomic.saturating_mul(limits.max_qp));
    attr.max_qp_init_rd_atom = to_attribute(limits.max_rd_atomic);
    attr.max_ah = 1 << 20;
    attr.max_mcast_grp = 1 << 14;
    attr.max_mcast_qp_attach = to_attribute(c_int::MAX as u32);
    attr.max_total_mcast_qp_attach = to_attribute(c_int::MAX as u32);
    if limits.srq {
        attr.max_srq = 1 << 20;
        attr.max_srq_wr = to_attribute(limits.max_srq_wr);
        attr.max_srq_sge = to_attribute(limits.max_sge);
    }
    attr.max_fast_reg_page_list_len = if limits.mem_mgt {
        limits.max_mr_pages
    } else {
        0
    };
    attr.max_pkeys = 1;
    attr.local_ca_ack_delay = 15;
    0
}

unsafe extern "C" fn query_port(
    ib: *mut ffi::ib_device,
    port: u32,
    attr: *mut ffi::ib_port_attr,
) -> c_int {
    if port != 1 {
        return EINVAL.to_errno();
    }
    // SAFETY: Both are valid; ib_core has cleared `attr`.
    unsafe {
        let attr = &mut *attr;
        attr.max_mtu = ffi::ib_mtu_IB_MTU_4096;
        attr.active_mtu = ffi::ib_mtu_IB_MTU_4096;
        attr.phys_mtu = 4096;
        // The kernel makes two files for each in every network namespace.
        attr.gid_tbl_len = 64;
        attr.port_cap_flags = Device::of(ib).port_caps.load(Relaxed);
        attr.max_msg_sz = 1 << 31;
        attr.pkey_tbl_len = 1;
        attr.max_vl_num = 1;
        ffi::rlo_port_state(ib, attr)
    }
}

/// Records the capabilities of users of the port: connection managers, and SRP targets.
unsafe extern "C" fn modify_port(
    ib: *mut ffi::ib_device,
    port: u32,
    mask: c_int,
    change: *mut ffi::ib_port_modify,
) -> c_int {
    if port != 1 {
        return EINVAL.to_errno();
    }
    if mask != 0 {
        return EOPNOTSUPP.to_errno();
    }
    // SAFETY: `ib` is ours, and `change` valid.
    let (device, change) = unsafe { (Device::of(ib), &*change) };
    device.change_port_caps(change.set_port_cap_mask, change.clr_port_cap_mask);
    0
}

unsafe extern "C" fn query_gid(
    ib: *mut ffi::ib_device,
    _port: u32,
    index: c_int,
    gid: *mut ffi::ib_gid,
) -> c_int {
    // SAFETY: Both are valid. ib_core keeps the table of RoCE ports by itself; a port of
    // InfiniBand has one entry.
    unsafe {
        let device = Device::of(ib);
        *gid = if device.is_infiniband() && index == 0 {
            ffi::ib_gid { raw: device.gid() }
        } else {
            ffi::ib_gid::default()
        };
    }
    0
}

unsafe extern "C" fn query_pkey(
    _ib: *mut ffi::ib_device,
    _port: u32,
    index: u16,
    pkey: *mut u16,
) -> c_int {
    if index != 0 {
        return EINVAL.to_errno();
    }
    // SAFETY: ib_core passes a place for the answer.
    unsafe { *pkey = 0xffff };
    0
}

unsafe extern "C" fn get_port_immutable(
    ib: *mut ffi::ib_device,
    port: u32,
    immutable: *mut ffi::ib_port_immutable,
) -> c_int {
    let mut attr = ffi::ib_port_attr::default();
    // SAFETY: All are valid.
    unsafe {
        let ret = ffi::ib_query_port(ib, port, &mut attr);
        if ret != 0 {
            return ret;
        }
        ffi::rlo_immutable(immutable, &attr);
    }
    0
}

unsafe extern "C" fn get_link_layer(ib: *mut ffi::ib_device, _port: u32) -> ffi::rdma_link_layer {
    // SAFETY: `ib` is ours.
    if unsafe { Device::of(ib) }.is_infiniband() {
        ffi::rdma_link_layer_IB_LINK_LAYER_INFINIBAND
    } else {
        ffi::rdma_link_layer_IB_LINK_LAYER_ETHERNET
    }
}

unsafe extern "C" fn alloc_hw_port_stats(
    _ib: *mut ffi::ib_device,
    _port: u32,
) -> *mut ffi::rdma_hw_stats {
    // SAFETY: The descriptions are constant.
    unsafe { ffi::rlo_stats_alloc(DESCRIPTIONS.as_ptr(), Counters::COUNT as c_int) }
}

unsafe extern "C" fn get_hw_stats(
    ib: *mut ffi::ib_device,
    stats: *mut ffi::rdma_hw_stats,
    port: u32,
    _index: c_int,
) -> c_int {
    if port == 0 || stats.is_null() {
        return EINVAL.to_errno();
    }
    // SAFETY: `ib` is ours, and `stats` has room for all counters.
    unsafe {
        let values = Device::of(ib).counters.values();
        core::ptr::copy_nonoverlapping(values.as_ptr(), (*stats).value.as_mut_ptr(), values.len());
    }
    Counters::COUNT as c_int
}

// Protection domains and address handles.

unsafe extern "C" fn alloc_pd(_pd: *mut ffi::ib_pd, _udata: *mut ffi::ib_udata) -> c_int {
    0
}

unsafe extern "C" fn dealloc_pd(_pd: *mut ffi::ib_pd, _udata: *mut ffi::ib_udata) -> c_int {
    0
}

unsafe extern "C" fn create_ah(
    ib: *mut ffi::ib_ah,
    init: *mut ffi::rdma_ah_init_attr,
    _udata: *mut ffi::ib_udata,
) -> c_int {
    // SAFETY: All are valid for the call; `ib` is being created.
    unsafe {
        let flags = if (*init).flags & ffi::rdma_create_ah_flags_RDMA_CREATE_AH_SLEEPABLE != 0 {
            GFP_KERNEL
        } else {
            GFP_ATOMIC
        };
        let device = Device::of((*ib).device);
        let made = Av::new(&device, (*init).ah_attr).and_then(|av| {
            let mut attr = core::ptr::read((*init).ah_attr);
            // The address has the reference to the GID, and ib_core one of its own.
            attr.grh.sgid_attr = core::ptr::null();
            Ok(Arc::new(
                Ah {
                    av,
                    attr,
                    pd: (*ib).pd as usize,
                },
                flags,
            )?)
        });
        match made {
            Ok(ah) => {
                attach(ib, ah);
                0
            }
            Err(error) => error.to_errno(),
        }
    }
}

unsafe extern "C" fn query_ah(ib: *mut ffi::ib_ah, attr: *mut ffi::rdma_ah_attr) -> c_int {
    // SAFETY: It was created, and `attr` is valid; both are plain C data.
    unsafe { *attr = core::ptr::read(&own::<_, Ah>(ib).attr) };
    0
}

unsafe extern "C" fn destroy_ah(ib: *mut ffi::ib_ah, _flags: u32) -> c_int {
    // SAFETY: It was created.
    drop(unsafe { detach::<_, Ah>(ib) });
    0
}

// Completion queues.

unsafe extern "C" fn create_cq(
    ib: *mut ffi::ib_cq,
    attr: *const ffi::ib_cq_init_attr,
    _attrs: *mut ffi::uverbs_attr_bundle,
) -> c_int {
    // SAFETY: All are valid; `ib` is being created.
    unsafe {
        let (device, attr) = (Device::of((*ib).device), &*attr);
        if attr.flags != 0 || attr.cqe == 0 || attr.cqe > device.limits.max_cqe {
            return EINVAL.to_errno();
        }
        match Cq::new(ib, attr.cqe) {
            Ok(cq) => {
                (*ib).cqe = attr.cqe as c_int;
                attach(ib, cq);
                0
            }
            Err(error) => error.to_errno(),
        }
    }
}

unsafe extern "C" fn destroy_cq(ib: *mut ffi::ib_cq, _udata: *mut ffi::ib_udata) -> c_int {
    // SAFETY: It was created, and no queue pair uses it.
    unsafe { detach::<_, Cq>(ib) }.stop();
    0
}

unsafe extern "C" fn poll_cq(ib: *mut ffi::ib_cq, count: c_int, out: *mut ffi::ib_wc) -> c_int {
    // SAFETY: It was created, and there is room for so many.
    unsafe {
        let room = core::slice::from_raw_parts_mut(
            out.cast::<MaybeUninit<ffi::ib_wc>>(),
            count.max(0) as usize,
        );
        own::<_, Cq>(ib).poll(room) as c_int
    }
}

unsafe extern "C" fn req_notify_cq(ib: *mut ffi::ib_cq, flags: ffi::ib_cq_notify_flags) -> c_int {
    // SAFETY: It was created.
    c_int::from(unsafe { own::<_, Cq>(ib) }.arm(flags))
}

// Shared receive queues.

unsafe extern "C" fn create_srq(
    ib: *mut ffi::ib_srq,
    init: *mut ffi::ib_srq_init_attr,
    _udata: *mut ffi::ib_udata,
) -> c_int {
    // SAFETY: All are valid; `ib` is being created.
    unsafe {
        let (device, init) = (Device::of((*ib).device), &*init);
        if init.srq_type != ffi::ib_srq_type_IB_SRQT_BASIC {
            return EOPNOTSUPP.to_errno();
        }
        let attr = &init.attr;
        if attr.max_wr == 0
            || attr.max_wr > device.limits.max_srq_wr
            || attr.max_sge > device.limits.max_sge
        {
            return EINVAL.to_errno();
        }
        match Srq::new(ib, attr.max_wr, attr.max_sge) {
            Ok(srq) => {
                attach(ib, srq);
                0
            }
            Err(error) => error.to_errno(),
        }
    }
}

unsafe extern "C" fn modify_srq(
    ib: *mut ffi::ib_srq,
    attr: *mut ffi::ib_srq_attr,
    mask: ffi::ib_srq_attr_mask,
    _udata: *mut ffi::ib_udata,
) -> c_int {
    if mask & ffi::ib_srq_attr_mask_IB_SRQ_MAX_WR != 0 {
        return EOPNOTSUPP.to_errno();
    }
    if mask & ffi::ib_srq_attr_mask_IB_SRQ_LIMIT == 0 {
        return 0;
    }
    // SAFETY: It was created.
    errno(unsafe { own::<_, Srq>(ib).set_limit((*attr).srq_limit) })
}

unsafe extern "C" fn query_srq(ib: *mut ffi::ib_srq, attr: *mut ffi::ib_srq_attr) -> c_int {
    // SAFETY: It was created, and `attr` is valid.
    unsafe {
        let srq = own::<_, Srq>(ib);
        *attr = ffi::ib_srq_attr {
            max_wr: srq.max,
            max_sge: srq.each,
            srq_limit: srq.limit(),
        };
    }
    0
}

unsafe extern "C" fn destroy_srq(ib: *mut ffi::ib_srq, _udata: *mut ffi::ib_udata) -> c_int {
    // SAFETY: It was created, and no queue pair uses it.
    unsafe { detach::<_, Srq>(ib) }.stop();
    0
}

// Queue pairs.

unsafe extern "C" fn create_qp(
    ib: *mut ffi::ib_qp,
    init: *mut ffi::ib_qp_init_attr,
    _udata: *mut ffi::ib_udata,
) -> c_int {
    // SAFETY: All are valid; `ib` is being created.
    errno(unsafe { new_qp(ib, &mut *init) })
}

/// # Safety
///
/// `ib` is being created on one of our devices; the queues that `init` names were.
unsafe fn new_qp(ib: *mut ffi::ib_qp, init: &mut ffi::ib_qp_init_attr) -> Result {
    // SAFETY: `ib` is valid, and its device ours, by the caller's promise.
    let device: Arc<Device> = unsafe { Device::of((*ib).device) }.into();
    let limits = &device.limits;
    let cap = init.cap;
    if init.create_flags != 0 {
        return Err(EOPNOTSUPP);
    }
    if cap.max_send_wr > limits.max_qp_wr
        || cap.max_recv_wr > limits.max_qp_wr
        || cap.max_send_sge > limits.max_sge
        || cap.max_recv_sge > limits.max_sge
        || cap.max_inline_data > limits.max_inline
    {
        return Err(EINVAL);
    }
    let gsi = init.qp_type == ffi::ib_qp_type_IB_QPT_GSI;
    let datagrams = gsi || init.qp_type == ffi::ib_qp_type_IB_QPT_UD;
    if !datagrams && init.qp_type != ffi::ib_qp_type_IB_QPT_RC {
        return Err(EOPNOTSUPP);
    }
    if gsi && (init.port_num != 1 || device.has_gsi()) {
        return Err(EINVAL);
    }
    if init.send_cq.is_null() || init.recv_cq.is_null() {
        return Err(EINVAL);
    }
    // SAFETY: The queues were created, by the caller's promise, and ib_core keeps them as long as the
    // queue pair.
    let shape = unsafe {
        Shape {
            device: device.clone(),
            pd: (*ib).pd as usize,
            datagrams,
            send_cq: own::<_, Cq>(init.send_cq).into(),
            recv_cq: own::<_, Cq>(init.recv_cq).into(),
            srq: if init.srq.is_null() {
                None
            } else {
                Some(own::<_, Srq>(init.srq).into())
            },
            cap,
            signal_all: init.sq_sig_type == ffi::ib_sig_type_IB_SIGNAL_ALL_WR,
        }
    };
    let qp = if gsi {
        let qp = Qp::new(ib, GSI, shape)?;
        device.set_gsi(Some(qp.clone()));
        device.joints.open();
        qp
    } else {
        device.qps.enter(|number| Qp::new(ib, number, shape))?
    };
    // SAFETY: `ib` is being created.
    unsafe {
        (*ib).qp_num = qp.number;
        attach(ib, qp);
    }
    Ok(())
}

unsafe extern "C" fn modify_qp(
    ib: *mut ffi::ib_qp,
    attr: *mut ffi::ib_qp_attr,
    mask: c_int,
    _udata: *mut ffi::ib_udata,
) -> c_int {
    // SAFETY: It was created, and `attr` is valid.
    errno(unsafe { modify::modify(&own::<_, Qp>(ib), &*attr, mask as u32) })
}

unsafe extern "C" fn query_qp(
    ib: *mut ffi::ib_qp,
    attr: *mut ffi::ib_qp_attr,
    _mask: c_int,
    init: *mut ffi::ib_qp_init_attr,
) -> c_int {
    // SAFETY: It was created, and both are valid.
    unsafe {
        let qp = own::<_, Qp>(ib);
        *attr = qp.attributes.lock().copied();
        (*attr).qp_state = qp.state();
        (*attr).cur_qp_state = qp.state();
        (*attr).cap = qp.shape.cap;
        (*init).event_handler = (*ib).event_handler;
        (*init).qp_context = (*ib).qp_context;
        (*init).send_cq = (*ib).send_cq;
        (*init).recv_cq = (*ib).recv_cq;
        (*init).srq = (*ib).srq;
        (*init).cap = qp.shape.cap;
        (*init).qp_type = (*ib).qp_type;
        (*init).sq_sig_type = if qp.shape.signal_all {
            ffi::ib_sig_type_IB_SIGNAL_ALL_WR
        } else {
            ffi::ib_sig_type_IB_SIGNAL_REQ_WR
        };
    }
    0
}

unsafe extern "C" fn destroy_qp(ib: *mut ffi::ib_qp, _udata: *mut ffi::ib_udata) -> c_int {
    // SAFETY: It was created.
    let qp = unsafe { detach::<_, Qp>(ib) };
    let device = qp.shape.device.clone();
    let listed = if qp.number == GSI {
        device.joints.close();
        device.set_gsi(None)
    } else {
        device.qps.remove(qp.number)
    };
    drop(listed);
    qp.stop();
    0
}

/// The pieces of a work request.
///
/// # Safety
///
/// `count` is that of `list`.
unsafe fn pieces<'a>(list: *const ffi::ib_sge, count: c_int) -> Result<&'a [ffi::ib_sge]> {
    if count == 0 {
        return Ok(&[]);
    }
    if count < 0 || list.is_null() {
        return Err(EINVAL);
    }
    // SAFETY: There are so many, by the caller's promise, and nobody writes to them during the post.
    Ok(unsafe { core::slice::from_raw_parts(list, count as usize) })
}

unsafe extern "C" fn post_send(
    ib: *mut ffi::ib_qp,
    first: *const ffi::ib_send_wr,
    bad: *mut *const ffi::ib_send_wr,
) -> c_int {
    // SAFETY: It was created.
    let qp = unsafe { own::<_, Qp>(ib) };
    let mut next = first;
    let mut result = Ok(());
    while !next.is_null() {
        // SAFETY: ib_core passes a list of valid requests.
        result = unsafe { post_one(&qp, next) };
        if result.is_err() {
            // SAFETY: ib_core passes a place for it.
            unsafe { *bad = next };
            break;
        }
        // SAFETY: The request is valid.
        next = unsafe { (*next).next };
    }
    qp.posted();
    errno(result)
}

/// # Safety
///
/// `request` is a valid one, part of what its opcode says; its list has so many pieces as it says,
/// and where it is inline they are in memory of the kernel.
unsafe fn post_one(qp: &Qp, request: *const ffi::ib_send_wr) -> Result {
    let device = &qp.shape.device;
    if faults::take(&device.faults.fail_posts) {
        return Err(ENOMEM);
    }
    // SAFETY: The request is valid, and part of what its opcode says, by the caller's promise; what it
    // names was created. Nobody writes to it during the post.
    unsafe {
        let wr = &*request;
        let mut head = Head {
            id: wr.__bindgen_anon_1.wr_id,
            opcode: wr.opcode,
            flags: wr.send_flags as u32,
            extra: wr.ex.invalidate_rkey,
            ..Head::default()
        };
        match (wr.opcode, qp.shape.datagrams) {
            (opcode::SEND | opcode::SEND_WITH_IMM, true) => {
                let ud = &*request.cast::<ffi::ib_ud_wr>();
                if ud.ah.is_null() {
                    return Err(EINVAL);
                }
                head.target = Target::Datagram {
                    ah: own::<_, Ah>(ud.ah).into(),
                    qpn: ud.remote_qpn,
                    qkey: ud.remote_qkey,
                };
            }
            (opcode::SEND | opcode::SEND_WITH_IMM, false) => {}
            (opcode::SEND_WITH_INV, false) => {}
            (
                opcode::WRITE | opcode::WRITE_WITH_IMM | opcode::READ | opcode::READ_WITH_INV,
                false,
            ) => {
                let rdma = &*request.cast::<ffi::ib_rdma_wr>();
                head.address = rdma.remote_addr;
                head.key = rdma.rkey;
                if head.is_read()
                    && (wr.num_sge > device.limits.max_sge_rd as c_int || head.is_inline())
                {
                    return Err(EINVAL);
                }
            }
            (opcode::LOCAL_INV, false) if device.limits.mem_mgt => {}
            (opcode::REG_MR, false) if device.limits.mem_mgt => {
                let reg = &*request.cast::<ffi::ib_reg_wr>();
                if reg.mr.is_null() {
                    return Err(EINVAL);
                }
                let region: Arc<Mr> = own::<_, Mr>(reg.mr).into();
                head.target = Target::Region(
                    region,
                    Registration {
                        key: reg.key,
                        rights: reg.access as u32,
                        start: (*reg.mr).iova,
                        len: (*reg.mr).length,
                    },
                );
            }
            _ => return Err(EINVAL),
        }
        let given = if head.is_local() {
            &[]
        } else {
            pieces(wr.sg_list, wr.num_sge)?
        };
        qp.post_send(head, given)
    }
}

unsafe extern "C" fn post_recv(
    ib: *mut ffi::ib_qp,
    first: *const ffi::ib_recv_wr,
    bad: *mut *const ffi::ib_recv_wr,
) -> c_int {
    // SAFETY: It was created.
    let qp = unsafe { own::<_, Qp>(ib) };
    // SAFETY: A list of valid requests.
    unsafe { each_receive(first, bad, |id, given| qp.post_receive(id, given)) }
}

unsafe extern "C" fn post_srq_recv(
    ib: *mut ffi::ib_srq,
    first: *const ffi::ib_recv_wr,
    bad: *mut *const ffi::ib_recv_wr,
) -> c_int {
    // SAFETY: It was created.
    let srq = unsafe { own::<_, Srq>(ib) };
    // SAFETY: A list of valid requests.
    unsafe { each_receive(first, bad, |id, given| srq.push(id, given)) }
}

/// # Safety
///
/// `first` is null or the first of a list of valid requests, and `bad` a place for one that fails.
unsafe fn each_receive(
    first: *const ffi::ib_recv_wr,
    bad: *mut *const ffi::ib_recv_wr,
    mut post: impl FnMut(u64, &[ffi::ib_sge]) -> Result,
) -> c_int {
    let mut next = first;
    while !next.is_null() {
        // SAFETY: The request is valid, by the caller's promise, and nobody writes to it during the
        // post.
        unsafe {
            let wr = &*next;
            let result = pieces(wr.sg_list, wr.num_sge)
                .and_then(|given| post(wr.__bindgen_anon_1.wr_id, given));
            if let Err(error) = result {
                *bad = next;
                return error.to_errno();
            }
            next = wr.next;
        }
    }
    0
}

unsafe extern "C" fn attach_mcast(ib: *mut ffi::ib_qp, gid: *mut ffi::ib_gid, _lid: u16) -> c_int {
    // SAFETY: It was created, and `gid` is valid. Every bit pattern is a GID.
    let (qp, gid) = unsafe { (own::<_, Qp>(ib), (*gid).raw) };
    errno(qp.shape.device.groups.join(gid, qp.number))
}

unsafe extern "C" fn detach_mcast(ib: *mut ffi::ib_qp, gid: *mut ffi::ib_gid, _lid: u16) -> c_int {
    // SAFETY: It was created, and `gid` is valid. Every bit pattern is a GID.
    let (qp, gid) = unsafe { (own::<_, Qp>(ib), (*gid).raw) };
    errno(qp.shape.device.groups.leave(gid, qp.number))
}

// Memory regions.

/// # Safety
///
/// `pd` is valid, and its device ours.
unsafe fn new_mr(pd: *mut ffi::ib_pd, pages: u32, all: Option<u32>) -> Result<*mut ffi::ib_mr> {
    // SAFETY: `pd` is valid, and its device ours, by the caller's promise.
    let device = unsafe { Device::of((*pd).device) };
    let region = device
        .regions
        .enter(|index| Mr::new(index, pd as usize, pages as usize, all))?;
    let key = region.index << 8;
    let object = KBox::new(
        Object::<ffi::ib_mr, Mr> {
            ib: ffi::ib_mr {
                lkey: key,
                rkey: key,
                ..Default::default()
            },
            own: core::ptr::null(),
        },
        GFP_KERNEL,
    );
    let object = match object {
        Ok(object) => object,
        Err(error) => {
            drop(device.regions.remove(region.index));
            return Err(error.into());
        }
    };
    let ib = KBox::into_raw(object).cast::<ffi::ib_mr>();
    // SAFETY: It is being created.
    unsafe { attach(ib, region) };
    Ok(ib)
}

fn or_error(result: Result<*mut ffi::ib_mr>) -> *mut ffi::ib_mr {
    match result {
        Ok(ib) => ib,
        Err(error) => error.to_ptr(),
    }
}

unsafe extern "C" fn get_dma_mr(pd: *mut ffi::ib_pd, rights: c_int) -> *mut ffi::ib_mr {
    // SAFETY: ib_core passes a valid one of our device.
    or_error(unsafe { new_mr(pd, 0, Some(rights as u32)) })
}

unsafe extern "C" fn reg_user_mr(
    _pd: *mut ffi::ib_pd,
    _start: u64,
    _length: u64,
    _address: u64,
    _rights: c_int,
    _dmah: *mut ffi::ib_dmah,
    _udata: *mut ffi::ib_udata,
) -> *mut ffi::ib_mr {
    // User verbs are not supported.
    EOPNOTSUPP.to_ptr()
}

unsafe extern "C" fn alloc_mr(
    pd: *mut ffi::ib_pd,
    kind: ffi::ib_mr_type,
    pages: u32,
) -> *mut ffi::ib_mr {
    // SAFETY: `pd` is valid, and its device ours.
    let device = unsafe { Device::of((*pd).device) };
    if kind != ffi::ib_mr_type_IB_MR_TYPE_MEM_REG
        || !device.limits.mem_mgt
        || pages > device.limits.max_mr_pages
    {
        return EINVAL.to_ptr();
    }
    // SAFETY: ib_core passes a valid one of our device.
    or_error(unsafe { new_mr(pd, pages, None) })
}

unsafe extern "C" fn dereg_mr(ib: *mut ffi::ib_mr, _udata: *mut ffi::ib_udata) -> c_int {
    // SAFETY: It was created, and its device is ours.
    unsafe {
        let region = detach::<_, Mr>(ib);
        let device = Device::of((*ib).device);
        drop(device.regions.remove(region.index));
        region.revoke();
        drop(KBox::from_raw(ib.cast::<Object<ffi::ib_mr, Mr>>()));
    }
    0
}

/// What `ib_sg_to_pages` gets instead of a region: it reads the size of a page, writes the address
/// and the length, and hands its argument on to `map_page`. So the list of the pages is there
/// without a lock.
#[repr(C)]
struct Mapping {
    ib: ffi::ib_mr,
    pages: Pages,
}

unsafe extern "C" fn map_page(ib: *mut ffi::ib_mr, address: u64) -> c_int {
    // SAFETY: It is the first field of the `Mapping` of `map_mr_sg`.
    errno(unsafe { &mut (*ib.cast::<Mapping>()).pages }.push(address))
}

unsafe extern "C" fn map_mr_sg(
    ib: *mut ffi::ib_mr,
    list: *mut ffi::scatterlist,
    count: c_int,
    offset: *mut c_uint,
) -> c_int {
    // SAFETY: It was created.
    let (mr, page_size) = unsafe { (own::<_, Mr>(ib), (*ib).page_size) };
    let pages = match mr.begin_map(page_size) {
        Ok(pages) => pages,
        Err(error) => return error.to_errno(),
    };
    let mut mapping = Mapping {
        ib: ffi::ib_mr {
            page_size,
            ..pin_init::zeroed()
        },
        pages,
    };
    let argument = (&raw mut mapping).cast();
    // SAFETY: The list is valid.
    let count = unsafe { ffi::ib_sg_to_pages(argument, list, count, offset, Some(map_page)) };
    mr.end_map(mapping.pages);
    // SAFETY: It was created, and its consumer waits for this call.
    unsafe { ((*ib).iova, (*ib).length) = (mapping.ib.iova, mapping.ib.length) };
    count
}
