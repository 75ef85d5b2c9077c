// SPDX-License-Identifier: GPL-2.0

//! Completion queues and shared receive queues.
//!
//! Contexts: polling and arming work in any; the rest sleeps.

use super::object::{
    attach,
    detach,
    errno,
    own, //
};
use crate::{
    cq::Cq,
    ffi,
    prelude::*,
    qp::Device,
    receive::Srq, //
};
use core::mem::MaybeUninit;

pub(super) unsafe extern "C" fn create_cq(
    ib: *mut ffi::ib_cq,
    attr: *const ffi::ib_cq_init_attr,
    _attrs: *mut ffi::uverbs_attr_bundle,
) -> c_int {
    // SAFETY: All are valid; `ib` is being created.
    unsafe {
        let (device, attr) = (Device::of((*ib).device), &*attr);
        if attr.flags != 0 || attr.cqe == 0 || attr.cqe > device.port.limits.max_cqe {
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

pub(super) unsafe extern "C" fn destroy_cq(
    ib: *mut ffi::ib_cq,
    _udata: *mut ffi::ib_udata,
) -> c_int {
    // SAFETY: It was created, and no queue pair uses it.
    unsafe { detach::<_, Cq>(ib) }.stop();
    0
}

pub(super) unsafe extern "C" fn poll_cq(
    ib: *mut ffi::ib_cq,
    count: c_int,
    out: *mut ffi::ib_wc,
) -> c_int {
    // SAFETY: It was created, and there is room for so many.
    unsafe {
        let room = core::slice::from_raw_parts_mut(
            out.cast::<MaybeUninit<ffi::ib_wc>>(),
            count.max(0) as usize,
        );
        own::<_, Cq>(ib).poll(room) as c_int
    }
}

pub(super) unsafe extern "C" fn req_notify_cq(
    ib: *mut ffi::ib_cq,
    flags: ffi::ib_cq_notify_flags,
) -> c_int {
    // SAFETY: It was created.
    c_int::from(unsafe { own::<_, Cq>(ib) }.arm(flags))
}

pub(super) unsafe extern "C" fn create_srq(
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
            || attr.max_wr > device.port.limits.max_srq_wr
            || attr.max_sge > device.port.limits.max_sge
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

pub(super) unsafe extern "C" fn modify_srq(
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

pub(super) unsafe extern "C" fn query_srq(
    ib: *mut ffi::ib_srq,
    attr: *mut ffi::ib_srq_attr,
) -> c_int {
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

pub(super) unsafe extern "C" fn destroy_srq(
    ib: *mut ffi::ib_srq,
    _udata: *mut ffi::ib_udata,
) -> c_int {
    // SAFETY: It was created, and no queue pair uses it.
    unsafe { detach::<_, Srq>(ib) }.stop();
    0
}
