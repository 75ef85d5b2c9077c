// SPDX-License-Identifier: GPL-2.0

//! The device and its port.
//!
//! Contexts: all sleep.

use crate::{
    counters::{
        Counters,
        DESCRIPTIONS, //
    },
    ffi,
    port::MAX_REGIONS,
    prelude::*,
    qp::Device, //
};

pub(super) unsafe extern "C" fn dealloc_driver(ib: *mut ffi::ib_device) {
    // SAFETY: ib_core calls this once, for a device that is unregistered.
    unsafe { Device::unmake(ib.cast()) }
}

pub(super) unsafe extern "C" fn query_device(
    ib: *mut ffi::ib_device,
    attr: *mut ffi::ib_device_attr,
    _udata: *mut ffi::ib_udata,
) -> c_int {
    // SAFETY: `ib` is ours, and `attr` valid.
    let (device, attr) = unsafe { (Device::of(ib), &mut *attr) };
    let limits = &device.port.limits;
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

pub(super) unsafe extern "C" fn query_port(
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
        attr.port_cap_flags = Device::of(ib).port.caps();
        attr.max_msg_sz = 1 << 31;
        attr.pkey_tbl_len = 1;
        attr.max_vl_num = 1;
        ffi::rlo_port_state(ib, attr);
    }
    0
}

/// Records the capabilities of users of the port: connection managers, and SRP targets.
pub(super) unsafe extern "C" fn modify_port(
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
    device
        .port
        .change_caps(change.set_port_cap_mask, change.clr_port_cap_mask);
    0
}

pub(super) unsafe extern "C" fn query_gid(
    ib: *mut ffi::ib_device,
    _port: u32,
    index: c_int,
    gid: *mut ffi::ib_gid,
) -> c_int {
    // SAFETY: Both are valid. ib_core keeps the table of RoCE ports by itself; a port of
    // InfiniBand has one entry.
    unsafe {
        let device = Device::of(ib);
        *gid = if device.port.is_infiniband() && index == 0 {
            ffi::ib_gid {
                raw: device.port.gid(),
            }
        } else {
            ffi::ib_gid::default()
        };
    }
    0
}

pub(super) unsafe extern "C" fn query_pkey(
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

pub(super) unsafe extern "C" fn get_port_immutable(
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

pub(super) unsafe extern "C" fn get_link_layer(
    ib: *mut ffi::ib_device,
    _port: u32,
) -> ffi::rdma_link_layer {
    // SAFETY: `ib` is ours.
    if unsafe { Device::of(ib) }.port.is_infiniband() {
        ffi::rdma_link_layer_IB_LINK_LAYER_INFINIBAND
    } else {
        ffi::rdma_link_layer_IB_LINK_LAYER_ETHERNET
    }
}

pub(super) unsafe extern "C" fn alloc_hw_port_stats(
    _ib: *mut ffi::ib_device,
    _port: u32,
) -> *mut ffi::rdma_hw_stats {
    // SAFETY: The descriptions are constant.
    unsafe { ffi::rlo_stats_alloc(DESCRIPTIONS.as_ptr(), Counters::COUNT as c_int) }
}

pub(super) unsafe extern "C" fn get_hw_stats(
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
        let values = Device::of(ib).port.counters.values();
        core::ptr::copy_nonoverlapping(values.as_ptr(), (*stats).value.as_mut_ptr(), values.len());
    }
    Counters::COUNT as c_int
}
