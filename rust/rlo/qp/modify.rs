// SPDX-License-Identifier: GPL-2.0

//! ib_modify_qp: attributes and transitions.
//!
//! Contexts: sleeps.

use super::{
    Joint,
    Origin,
    Qp,
    Route, //
};
use crate::{
    ffi,
    names::state,
    path::Av,
    prelude::*, //
};
use kernel::sync::Arc;

const fn bit(mask: ffi::ib_qp_attr_mask) -> u32 {
    mask
}

const STATE: u32 = bit(ffi::ib_qp_attr_mask_IB_QP_STATE);
const CUR_STATE: u32 = bit(ffi::ib_qp_attr_mask_IB_QP_CUR_STATE);
const EN_SQD_ASYNC_NOTIFY: u32 = bit(ffi::ib_qp_attr_mask_IB_QP_EN_SQD_ASYNC_NOTIFY);
const ACCESS_FLAGS: u32 = bit(ffi::ib_qp_attr_mask_IB_QP_ACCESS_FLAGS);
const PKEY_INDEX: u32 = bit(ffi::ib_qp_attr_mask_IB_QP_PKEY_INDEX);
const PORT: u32 = bit(ffi::ib_qp_attr_mask_IB_QP_PORT);
const QKEY: u32 = bit(ffi::ib_qp_attr_mask_IB_QP_QKEY);
const AV: u32 = bit(ffi::ib_qp_attr_mask_IB_QP_AV);
const PATH_MTU: u32 = bit(ffi::ib_qp_attr_mask_IB_QP_PATH_MTU);
const TIMEOUT: u32 = bit(ffi::ib_qp_attr_mask_IB_QP_TIMEOUT);
const RETRY_CNT: u32 = bit(ffi::ib_qp_attr_mask_IB_QP_RETRY_CNT);
const RNR_RETRY: u32 = bit(ffi::ib_qp_attr_mask_IB_QP_RNR_RETRY);
const RQ_PSN: u32 = bit(ffi::ib_qp_attr_mask_IB_QP_RQ_PSN);
const MAX_QP_RD_ATOMIC: u32 = bit(ffi::ib_qp_attr_mask_IB_QP_MAX_QP_RD_ATOMIC);
const MIN_RNR_TIMER: u32 = bit(ffi::ib_qp_attr_mask_IB_QP_MIN_RNR_TIMER);
const SQ_PSN: u32 = bit(ffi::ib_qp_attr_mask_IB_QP_SQ_PSN);
const MAX_DEST_RD_ATOMIC: u32 = bit(ffi::ib_qp_attr_mask_IB_QP_MAX_DEST_RD_ATOMIC);
const DEST_QPN: u32 = bit(ffi::ib_qp_attr_mask_IB_QP_DEST_QPN);
const ALT_PATH: u32 = bit(ffi::ib_qp_attr_mask_IB_QP_ALT_PATH);
const CAP: u32 = bit(ffi::ib_qp_attr_mask_IB_QP_CAP);

/// The times for the 32 codes of an RNR NAK, in units of 10 us.
const RNR_TIMERS: [u32; 32] = [
    65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536,
    2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
];

fn rnr_timer(code: u8) -> u64 {
    let units = RNR_TIMERS
        .get(usize::from(code & 31))
        .copied()
        .unwrap_or(65536);
    u64::from(units) * 10_000
}

/// 4.096 us times a power of two; 0: unlimited.
fn timeout(code: u8) -> u64 {
    if code == 0 {
        0
    } else {
        4096 << (code & 31)
    }
}

fn check(qp: &Qp, attr: &ffi::ib_qp_attr, mask: u32, from: u32, to: u32) -> Result {
    // SAFETY: `ib` lives; ib_core compares numbers.
    let allowed = unsafe {
        ffi::ib_modify_qp_is_ok(from, to, (*qp.ib()).qp_type, mask as ffi::ib_qp_attr_mask)
    };
    let limits = &qp.port().limits;
    let good = allowed
        && mask & (CAP | ALT_PATH) == 0
        && (mask & CUR_STATE == 0 || attr.cur_qp_state == from)
        && (mask & PORT == 0 || attr.port_num == 1)
        && (mask & PKEY_INDEX == 0 || attr.pkey_index == 0)
        && (mask & MAX_QP_RD_ATOMIC == 0 || u32::from(attr.max_rd_atomic) <= limits.max_rd_atomic)
        && (mask & MAX_DEST_RD_ATOMIC == 0
            || u32::from(attr.max_dest_rd_atomic) <= limits.max_rd_atomic)
        && (mask & TIMEOUT == 0 || attr.timeout <= 31)
        && (mask & RETRY_CNT == 0 || attr.retry_cnt <= 7)
        && (mask & RNR_RETRY == 0 || attr.rnr_retry <= 7)
        && (mask & MIN_RNR_TIMER == 0 || attr.min_rnr_timer <= 31)
        && (mask & PATH_MTU == 0
            || (ffi::ib_mtu_IB_MTU_256..=ffi::ib_mtu_IB_MTU_4096).contains(&attr.path_mtu));
    if good {
        Ok(())
    } else {
        Err(EINVAL)
    }
}

/// Stores the attributes that `mask` names.
fn keep(kept: &mut ffi::ib_qp_attr, attr: &ffi::ib_qp_attr, mask: u32) {
    macro_rules! take {
        ($($bit:ident => $field:ident),* $(,)?) => {
            $(if mask & $bit != 0 {
                kept.$field = attr.$field;
            })*
        };
    }
    take!(
        ACCESS_FLAGS => qp_access_flags,
        PKEY_INDEX => pkey_index,
        PORT => port_num,
        QKEY => qkey,
        PATH_MTU => path_mtu,
        TIMEOUT => timeout,
        RETRY_CNT => retry_cnt,
        RNR_RETRY => rnr_retry,
        MAX_QP_RD_ATOMIC => max_rd_atomic,
        MIN_RNR_TIMER => min_rnr_timer,
        MAX_DEST_RD_ATOMIC => max_dest_rd_atomic,
        DEST_QPN => dest_qp_num,
        EN_SQD_ASYNC_NOTIFY => en_sqd_async_notify,
    );
    if mask & RQ_PSN != 0 {
        kept.rq_psn = attr.rq_psn & 0xff_ffff;
    }
    if mask & SQ_PSN != 0 {
        kept.sq_psn = attr.sq_psn & 0xff_ffff;
    }
    if mask & AV != 0 {
        // SAFETY: Plain C data, without a destructor.
        kept.ah_attr = unsafe { core::ptr::read(&attr.ah_attr) };
        // ib_core holds the reference to the GID, and shows it itself.
        kept.ah_attr.grh.sgid_attr = core::ptr::null();
    }
}

/// The joint of a connection's new path, or None if `attr` has none.
///
/// # Safety
///
/// `attr` is valid, with the reference to the GID of its address that ib_core has taken.
unsafe fn join(qp: &Qp, attr: &ffi::ib_qp_attr, mask: u32) -> Result<Option<Arc<Joint>>> {
    if mask & AV == 0 || qp.shape.datagrams {
        return Ok(None);
    }
    qp.reserve_arrivals()?;
    // SAFETY: `attr` is valid and its GID's entry held, by the caller's promise; the device is
    // registered as long as it has queue pairs.
    let av = unsafe { Av::new(qp.port(), &attr.ah_attr)? };
    if av.is_multicast() {
        return Err(EINVAL);
    }
    let device = &qp.shape.device;
    device.joints.join(device, av).map(Some)
}

fn origin(joint: Arc<Joint>, kept: &ffi::ib_qp_attr) -> Origin {
    Origin {
        joint,
        from: kept.dest_qp_num,
        psn: kept.rq_psn,
        rights: kept.qp_access_flags as u32,
        rnr_timer: rnr_timer(kept.min_rnr_timer),
        max_reads: u32::from(kept.max_dest_rd_atomic),
    }
}

/// Changes what a known peer may do. Returns the joint to it.
fn change_origin(qp: &Qp, kept: &ffi::ib_qp_attr) -> Option<Arc<Joint>> {
    let mut inbound = qp.inbound.lock();
    let known = inbound.origin.as_mut()?;
    known.rights = kept.qp_access_flags as u32;
    known.rnr_timer = rnr_timer(kept.min_rnr_timer);
    known.max_reads = u32::from(kept.max_dest_rd_atomic);
    Some(known.joint.clone())
}

fn route(joint: Arc<Joint>, kept: &ffi::ib_qp_attr) -> Route {
    Route {
        joint,
        dest: kept.dest_qp_num,
        psn: kept.sq_psn,
        timeout: timeout(kept.timeout),
        retries: u32::from(kept.retry_cnt),
        rnr_retries: u32::from(kept.rnr_retry),
        max_reads: u32::from(kept.max_rd_atomic),
    }
}

/// Changes attributes and state.
///
/// # Errors
///
/// `EINVAL` for attributes that violate the standard or the device's limits, `ENODEV` if the
/// interface of the path is gone, `ENOMEM`.
///
/// # Safety
///
/// `attr` is valid, with the reference to the GID of its address that ib_core has taken.
pub(crate) unsafe fn modify(qp: &Qp, attr: &ffi::ib_qp_attr, mask: u32) -> Result {
    let from = qp.state();
    let to = if mask & STATE != 0 {
        attr.qp_state
    } else {
        from
    };
    check(qp, attr, mask, from, to)?;
    if to == state::RESET {
        qp.reset();
        let mut attributes = qp.attributes.lock();
        attributes.0 = ffi::ib_qp_attr::default();
        return Ok(());
    }
    if to == state::ERR {
        qp.fail(None);
        return Ok(());
    }
    // SAFETY: `attr` is valid and its GID's entry held, by the caller's promise.
    let joint = unsafe { join(qp, attr, mask)? };
    let kept = {
        let mut attributes = qp.attributes.lock();
        keep(&mut attributes.0, attr, mask);
        attributes.copied()
    };
    let (way, origin) = match joint {
        Some(joint) => (Some(joint.clone()), Some(origin(joint, &kept))),
        None => (change_origin(qp, &kept), None),
    };
    let route = way.map(|joint| route(joint, &kept));
    let drained = to == state::SQD && kept.en_sqd_async_notify != 0;
    qp.enter((from, to), origin, route, drained);
    Ok(())
}
