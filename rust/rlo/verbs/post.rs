// SPDX-License-Identifier: GPL-2.0

//! Posts of sends and receives.
//!
//! Contexts: any.

use super::object::{
    errno,
    own, //
};
use crate::{
    faults,
    ffi,
    mr::{
        Mr,
        Registration, //
    },
    names::opcode,
    path::Ah,
    prelude::*,
    qp::Qp,
    receive::Srq,
    send::{
        Head,
        Target, //
    }, //
};

/// The pieces of a work request.
///
/// # Safety
///
/// `list` has `count` elements.
unsafe fn pieces<'a>(list: *const ffi::ib_sge, count: c_int) -> Result<&'a [ffi::ib_sge]> {
    if count == 0 {
        return Ok(&[]);
    }
    if count < 0 || list.is_null() {
        return Err(EINVAL);
    }
    // SAFETY: There are so many, by the caller's promise, and no code writes to them during the post.
    Ok(unsafe { core::slice::from_raw_parts(list, count as usize) })
}

pub(super) unsafe extern "C" fn post_send(
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
    if faults::take(&qp.port().faults.fail_posts) {
        return Err(ENOMEM);
    }
    // SAFETY: The request is valid, by the caller's promise; no code writes to it during the post.
    unsafe {
        let wr = &*request;
        let mut head = Head {
            id: wr.__bindgen_anon_1.wr_id,
            opcode: wr.opcode,
            flags: wr.send_flags as u32,
            extra: wr.ex.invalidate_rkey,
            ..Head::default()
        };
        name_goal(qp, request, &mut head)?;
        let given = if head.is_local() {
            &[]
        } else {
            pieces(wr.sg_list, wr.num_sge)?
        };
        qp.post_send(head, given)
    }
}

/// Adds to `head` what only requests of its opcode have.
///
/// # Safety
///
/// As for [`post_one`].
unsafe fn name_goal(qp: &Qp, request: *const ffi::ib_send_wr, head: &mut Head) -> Result {
    let limits = &qp.port().limits;
    // SAFETY: The request is valid, and part of what its opcode says, by the caller's promise; what it
    // names was created. No code writes to it during the post.
    unsafe {
        match (head.opcode, qp.shape().datagrams) {
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
                let too_many = rdma.wr.num_sge > limits.max_sge_rd as c_int;
                if head.is_read() && (too_many || head.is_inline()) {
                    return Err(EINVAL);
                }
            }
            (opcode::LOCAL_INV, false) if limits.mem_mgt => {}
            (opcode::REG_MR, false) if limits.mem_mgt => {
                let reg = &*request.cast::<ffi::ib_reg_wr>();
                if reg.mr.is_null() {
                    return Err(EINVAL);
                }
                let registration = Registration {
                    key: reg.key,
                    rights: reg.access as u32,
                    start: (*reg.mr).iova,
                    len: (*reg.mr).length,
                };
                head.target = Target::Region(own::<_, Mr>(reg.mr).into(), registration);
            }
            _ => return Err(EINVAL),
        }
    }
    Ok(())
}

pub(super) unsafe extern "C" fn post_recv(
    ib: *mut ffi::ib_qp,
    first: *const ffi::ib_recv_wr,
    bad: *mut *const ffi::ib_recv_wr,
) -> c_int {
    // SAFETY: It was created.
    let qp = unsafe { own::<_, Qp>(ib) };
    // SAFETY: A list of valid requests.
    unsafe { each_receive(first, bad, |id, given| qp.post_receive(id, given)) }
}

pub(super) unsafe extern "C" fn post_srq_recv(
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
        // SAFETY: The request is valid, by the caller's promise, and no code writes to it during the
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
