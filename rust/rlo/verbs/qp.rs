// SPDX-License-Identifier: GPL-2.0

//! Queue pairs, and their memberships in groups.
//!
//! Contexts: all sleep.

use super::object::{
    attach,
    detach,
    errno,
    own, //
};
use crate::{
    cq::Cq,
    ffi,
    port::GSI,
    prelude::*,
    qp::{
        modify,
        Device,
        Qp,
        Shape, //
    },
    receive::Srq, //
};
use kernel::sync::Arc;

pub(super) unsafe extern "C" fn create_qp(
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
    let limits = &device.port.limits;
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
        (*ib).qp_num = qp.number();
        attach(ib, qp);
    }
    Ok(())
}

pub(super) unsafe extern "C" fn modify_qp(
    ib: *mut ffi::ib_qp,
    attr: *mut ffi::ib_qp_attr,
    mask: c_int,
    _udata: *mut ffi::ib_udata,
) -> c_int {
    // SAFETY: It was created, and `attr` is valid.
    errno(unsafe { modify::modify(&own::<_, Qp>(ib), &*attr, mask as u32) })
}

pub(super) unsafe extern "C" fn query_qp(
    ib: *mut ffi::ib_qp,
    attr: *mut ffi::ib_qp_attr,
    _mask: c_int,
    init: *mut ffi::ib_qp_init_attr,
) -> c_int {
    // SAFETY: It was created, and both are valid.
    unsafe {
        let qp = own::<_, Qp>(ib);
        *attr = qp.attributes();
        (*init).event_handler = (*ib).event_handler;
        (*init).qp_context = (*ib).qp_context;
        (*init).send_cq = (*ib).send_cq;
        (*init).recv_cq = (*ib).recv_cq;
        (*init).srq = (*ib).srq;
        (*init).cap = qp.shape().cap;
        (*init).qp_type = (*ib).qp_type;
        (*init).sq_sig_type = if qp.shape().signal_all {
            ffi::ib_sig_type_IB_SIGNAL_ALL_WR
        } else {
            ffi::ib_sig_type_IB_SIGNAL_REQ_WR
        };
    }
    0
}

pub(super) unsafe extern "C" fn destroy_qp(
    ib: *mut ffi::ib_qp,
    _udata: *mut ffi::ib_udata,
) -> c_int {
    // SAFETY: It was created.
    let qp = unsafe { detach::<_, Qp>(ib) };
    let device = qp.shape().device.clone();
    let listed = if qp.number() == GSI {
        device.joints.close();
        device.set_gsi(None)
    } else {
        device.qps.remove(qp.number())
    };
    drop(listed);
    qp.stop();
    0
}

pub(super) unsafe extern "C" fn attach_mcast(
    ib: *mut ffi::ib_qp,
    gid: *mut ffi::ib_gid,
    _lid: u16,
) -> c_int {
    // SAFETY: It was created, and `gid` is valid. Every bit pattern is a GID.
    let (qp, gid) = unsafe { (own::<_, Qp>(ib), (*gid).raw) };
    errno(qp.shape().device.groups.join(gid, qp.number()))
}

pub(super) unsafe extern "C" fn detach_mcast(
    ib: *mut ffi::ib_qp,
    gid: *mut ffi::ib_gid,
    _lid: u16,
) -> c_int {
    // SAFETY: It was created, and `gid` is valid. Every bit pattern is a GID.
    let (qp, gid) = unsafe { (own::<_, Qp>(ib), (*gid).raw) };
    errno(qp.shape().device.groups.leave(gid, qp.number()))
}
