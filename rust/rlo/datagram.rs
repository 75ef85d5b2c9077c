// SPDX-License-Identifier: GPL-2.0

//! Datagrams of UD queue pairs, those of connection managers included.
//!
//! They are sent as frames through the interfaces, so that loss, delay and filters of the network
//! apply to them. Datagrams to the own interface are delivered directly.
//!
//! Contexts: [`send`] in a task, or in a softirq where it does not sleep; [`receive`] in softirq or
//! process context.

use crate::{
    device::{
        Device,
        GSI, //
    },
    ffi,
    joint::{
        self,
        Av, //
    },
    memory::{
        self,
        End,
        Side,
        LOCAL_WRITE, //
    },
    names::{
        opcode,
        state,
        status, //
    },
    prelude::*,
    qp::Qp,
    receive::Pieces,
    send::{
        Request,
        Target, //
    },
    subnet, //
};
use kernel::sync::Arc;

/// The bytes before the payload in a receive.
const GRH: u64 = 40;
pub(crate) const GSI_QKEY: u32 = 0x8001_0000;
/// The maximum length of a datagram.
const MAX_LEN: u64 = 4096;

/// An address handle.
pub(crate) struct Ah {
    pub(crate) av: Av,
    /// The attributes that it was made of, without the entry of the GID.
    pub(crate) attr: ffi::rdma_ah_attr,
    pub(crate) pd: usize,
}

// SAFETY: The only pointer in `attr` is not there.
unsafe impl Send for Ah {}
// SAFETY: Nothing in it changes, and the only pointer in `attr` is not there.
unsafe impl Sync for Ah {}

/// Whether [`send`] may sleep for this one, which does not go to the wire alone.
pub(crate) fn may_sleep(request: &Request) -> bool {
    match &request.head.target {
        Target::Datagram { ah, .. } => {
            ah.av.is_own() || ah.av.is_administrator() || ah.av.is_multicast()
        }
        _ => false,
    }
}

/// Sends a datagram and returns the status of its completion. A datagram that is lost counts as
/// sent.
pub(crate) fn send(qp: &Qp, request: &Request) -> u32 {
    let Target::Datagram { ah, qpn, qkey } = &request.head.target else {
        return status::LOC_QP_OP_ERR;
    };
    let device = &qp.shape.device;
    let len = request.head.len;
    if len > MAX_LEN {
        return status::LOC_LEN_ERR;
    }
    if ah.pd != qp.shape.pd {
        return status::LOC_QP_OP_ERR;
    }
    // If the highest bit is set, the queue pair's own qkey is used.
    let qkey = if qkey & 0x8000_0000 != 0 {
        qp.attributes.lock().0.qkey
    } else {
        *qkey
    };
    let mut flags = 0;
    if request.head.opcode == opcode::SEND_WITH_IMM {
        flags |= ffi::RLO_FRAME_IMMEDIATE;
    }
    if request.head.is_solicited() {
        flags |= ffi::RLO_FRAME_SOLICITED;
    }
    if ah.av.0.has_grh != 0 {
        flags |= ffi::RLO_FRAME_GRH;
    }
    let head = ffi::rlo_frame {
        magic: ffi::RLO_FRAME_MAGIC,
        kind: ffi::rlo_frame_kind_RLO_FRAME_DATAGRAM as u16,
        flags: flags as u16,
        sgid: ah.av.0.sgid,
        dgid: ah.av.0.dgid,
        src_qpn: qp.number,
        dest_qpn: *qpn,
        qkey,
        immediate: request.head.extra,
        len: len as u32,
        traffic_class: ah.av.0.traffic_class,
        hop_limit: ah.av.0.hop_limit,
        pkey: 0xffff,
        slid: ah.av.0.slid,
        dlid: ah.av.0.dlid,
        ..Default::default()
    };
    let gather = |payload: &mut [u8]| {
        let from = End {
            device,
            pd: qp.shape.pd,
            side: if request.head.is_inline() {
                Side::Inline(request.inline())
            } else {
                Side::Local {
                    pieces: request.pieces(),
                    rights: 0,
                }
            },
        };
        let mut done = 0;
        while done < payload.len() {
            let Ok(piece) = from.piece(done as u64, payload.len() - done) else {
                return false;
            };
            let Some(room) = payload.get_mut(done..done + piece.len) else {
                return false;
            };
            // SAFETY: It is memory for so long, by the invariant of `Piece`, and `room` is as
            // long. By C, as in `memory::copy`.
            unsafe {
                ffi::rlo_copy_run(room.as_mut_ptr().cast(), piece.start.cast(), piece.len);
            }
            done += piece.len;
        }
        true
    };
    device.counters.datagrams_sent.one();
    let administrator = ah.av.is_administrator();
    let multicast = ah.av.is_multicast();
    if ah.av.is_own() || administrator || multicast {
        let Ok(mut payload) = KVec::from_elem(0u8, len as usize, GFP_KERNEL) else {
            return status::SUCCESS;
        };
        if !gather(&mut payload) {
            return status::LOC_PROT_ERR;
        }
        if administrator {
            subnet::ask(device, &head, &payload);
            return status::SUCCESS;
        }
        // Local members of a group get it as well.
        receive(device, &head, &payload);
        if !multicast {
            return status::SUCCESS;
        }
    }
    let mut good = true;
    joint::send(&ah.av, &head, |payload| {
        good = gather(payload);
        good
    });
    if good {
        status::SUCCESS
    } else {
        device.counters.local_errors.one();
        status::LOC_PROT_ERR
    }
}

/// Handles a received datagram.
pub(crate) fn receive(device: &Arc<Device>, head: &ffi::rlo_frame, payload: &[u8]) {
    if device.is_infiniband() && joint::is_multicast(head.dlid) {
        // SAFETY: Every bit pattern is a GID.
        let gid = unsafe { head.dgid.raw };
        device
            .groups
            .each(gid, |number| deliver_counted(device, number, head, payload));
    } else {
        deliver_counted(device, head.dest_qpn, head, payload);
    }
}

fn deliver_counted(device: &Arc<Device>, number: u32, head: &ffi::rlo_frame, payload: &[u8]) {
    if deliver(device, number, head, payload).is_some() {
        device.counters.datagrams_received.one();
    } else {
        device.counters.datagrams_dropped.one();
    }
}

fn deliver(device: &Arc<Device>, number: u32, head: &ffi::rlo_frame, payload: &[u8]) -> Option<()> {
    if device.is_silent() {
        return None;
    }
    let qp = device.qp(number)?;
    if !qp.shape.datagrams {
        return None;
    }
    let qkey = if qp.number == GSI {
        GSI_QKEY
    } else {
        qp.attributes.lock().0.qkey
    };
    if head.qkey != qkey {
        return None;
    }
    let mut pieces = Pieces::new();
    let receive = {
        let mut inbound = qp.inbound.lock();
        if !matches!(
            inbound.state,
            state::RTR | state::RTS | state::SQD | state::SQE
        ) {
            return None;
        }
        let receive = match (&qp.shape.srq, inbound.receives.as_mut()) {
            (Some(srq), _) => srq.pop(&mut pieces),
            (None, Some(receives)) => receives.pop(&mut pieces),
            (None, None) => None,
        }?;
        inbound.busy += 1;
        receive
    };
    let len = GRH + payload.len() as u64;
    let mut entry = qp.receive_entry(receive.id, status::SUCCESS);
    if pieces.len() < len {
        entry.status = status::LOC_LEN_ERR;
    } else {
        let to = End {
            device,
            pd: qp.shape.pd,
            side: Side::Local {
                pieces: pieces.as_slice(),
                rights: LOCAL_WRITE,
            },
        };
        let bytes = |bytes| End {
            side: Side::Inline(bytes),
            ..to
        };
        let mut grh = [0; GRH as usize];
        // SAFETY: C fills `GRH` bytes, which there are; `head` is valid.
        unsafe { ffi::rlo_grh_fill(grh.as_mut_ptr(), head) };
        let copied = memory::copy((bytes(&grh), 0), (to, 0), grh.len())
            .and_then(|()| memory::copy((bytes(payload), 0), (to, GRH), payload.len()));
        if copied.is_err() {
            entry.status = status::LOC_PROT_ERR;
        }
    }
    entry.byte_len = len as u32;
    entry.src_qp = head.src_qpn;
    if device.is_infiniband() {
        entry.slid = head.slid.into();
        if u32::from(head.flags) & ffi::RLO_FRAME_GRH != 0 {
            entry.wc_flags = ffi::ib_wc_flags_IB_WC_GRH as i32;
        }
    } else {
        entry.wc_flags =
            (ffi::ib_wc_flags_IB_WC_GRH | ffi::ib_wc_flags_IB_WC_WITH_NETWORK_HDR_TYPE) as i32;
        // SAFETY: `head` is valid.
        entry.network_hdr_type = unsafe { ffi::rlo_network_type(head) };
    }
    entry.port_num = 1;
    if u32::from(head.flags) & ffi::RLO_FRAME_IMMEDIATE != 0 {
        entry.wc_flags |= ffi::ib_wc_flags_IB_WC_WITH_IMM as i32;
        entry.ex.imm_data = head.immediate;
    }
    let solicited = u32::from(head.flags) & ffi::RLO_FRAME_SOLICITED != 0;
    let mut inbound = qp.inbound.lock();
    inbound.busy -= 1;
    if inbound.state == state::RESET {
        return None;
    }
    qp.receive_done(&mut inbound, entry, solicited, 0);
    qp.settled(&mut inbound);
    Some(())
}
