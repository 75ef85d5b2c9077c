// SPDX-License-Identifier: GPL-2.0

//! Datagrams of UD queue pairs, including connection managers'.
//!
//! They are sent as frames through the interfaces, so that loss, delay and filters of the network
//! apply to them. Datagrams to the own interface are delivered directly.
//!
//! Contexts: [`send`] in a task, or in a softirq where it does not sleep; [`receive`] in softirq or
//! process context.

use crate::{
    device::QueuePair,
    ffi,
    memory::{
        self,
        End,
        Fault,
        Side,
        LOCAL_WRITE, //
    },
    names::{
        opcode,
        state,
        status, //
    },
    path::{
        self,
        Ah, //
    },
    port::{
        is_multicast,
        GSI,
        GSI_QKEY, //
    },
    prelude::*,
    qp::{
        Device,
        Qp, //
    },
    receive::{
        Pieces,
        Receive, //
    },
    send::{
        Request,
        Target, //
    }, //
};
use kernel::sync::Arc;

/// The bytes before the payload in a receive.
const GRH: u64 = 40;
/// The maximum length of a datagram.
const MAX_LEN: u64 = 4096;

/// The bytes before the payload, where C fills in a header as a struct.
#[repr(align(8))]
struct Header([u8; GRH as usize]);

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
    let head = header(qp, request, ah, *qpn, qkey);
    device.port.counters.datagrams_sent.one();
    let administrator = ah.av.is_administrator();
    let multicast = ah.av.is_multicast();
    if ah.av.is_own() || administrator || multicast {
        let Ok(mut payload) = KVec::from_elem(0u8, len as usize, GFP_KERNEL) else {
            return status::SUCCESS;
        };
        if !gather(qp, request, &mut payload) {
            return status::LOC_PROT_ERR;
        }
        if administrator {
            device.administrator.ask(device, &head, &payload);
            return status::SUCCESS;
        }
        // Local members of a group get it as well.
        receive(device, &head, &payload);
        if !multicast {
            return status::SUCCESS;
        }
    }
    let mut good = true;
    path::send(&ah.av, &head, |payload| {
        good = gather(qp, request, payload);
        good
    });
    if good {
        status::SUCCESS
    } else {
        device.port.counters.local_errors.one();
        status::LOC_PROT_ERR
    }
}

/// The header of the frame for a datagram.
fn header(qp: &Qp, request: &Request, ah: &Ah, qpn: u32, qkey: u32) -> ffi::rlo_frame {
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
    // For those that do not go to the wire; otherwise the receiver knows better.
    if !ah.av.is_infiniband() && u32::from(ah.av.0.vlan) != ffi::RLO_NO_VLAN {
        flags |= ffi::RLO_FRAME_VLAN;
    }
    ffi::rlo_frame {
        magic: ffi::RLO_FRAME_MAGIC,
        kind: ffi::rlo_frame_kind_RLO_FRAME_DATAGRAM as u16,
        flags: flags as u16,
        sgid: ah.av.0.sgid,
        dgid: ah.av.0.dgid,
        src_qpn: qp.number,
        dest_qpn: qpn,
        qkey,
        immediate: request.head.extra,
        len: request.head.len as u32,
        traffic_class: ah.av.0.traffic_class,
        hop_limit: ah.av.0.hop_limit,
        pkey: 0xffff,
        slid: ah.av.0.slid,
        dlid: ah.av.0.dlid,
        vlan: ah.av.0.vlan,
        ..Default::default()
    }
}

/// Copies the datagram to `payload`. Returns false if its memory is not there.
fn gather(qp: &Qp, request: &Request, payload: &mut [u8]) -> bool {
    let from = End {
        port: qp.port(),
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
}

impl QueuePair for Qp {
    fn on_datagram(device: &Arc<Device>, head: &ffi::rlo_frame, payload: &[u8]) {
        receive(device, head, payload);
    }
}

/// Handles a received datagram.
pub(crate) fn receive(device: &Arc<Device>, head: &ffi::rlo_frame, payload: &[u8]) {
    if device.port.is_infiniband() && is_multicast(head.dlid) {
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
        device.port.counters.datagrams_received.one();
    } else {
        device.port.counters.datagrams_dropped.one();
    }
}

fn deliver(device: &Arc<Device>, number: u32, head: &ffi::rlo_frame, payload: &[u8]) -> Option<()> {
    if device.port.is_silent() {
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
    let len = GRH + payload.len() as u64;
    let mut pieces = Pieces::new();
    // One that is too long for the next receive is dropped and leaves it there: its sender may be
    // any sender, and consumers such as ib_mad do not post a receive again that failed.
    let receive = {
        let mut inbound = qp.inbound.lock();
        if !qp.can_receive() {
            return None;
        }
        let receive = qp.pop_receive(&mut inbound, &mut pieces, len)?;
        inbound.busy += 1;
        receive
    };
    let copied = fill(&qp, &pieces, head, payload);
    let mut entry = entry(&qp, &receive, head);
    entry.byte_len = len as u32;
    if copied.is_err() {
        entry.status = status::LOC_PROT_ERR;
    }
    let solicited = u32::from(head.flags) & ffi::RLO_FRAME_SOLICITED != 0;
    let mut inbound = qp.inbound.lock();
    inbound.busy -= 1;
    if qp.state() == state::RESET {
        return None;
    }
    qp.receive_done(&mut inbound, entry, solicited, 0);
    qp.settled(&mut inbound);
    drop(inbound);
    if copied.is_err() {
        // The receive was faulty, which is an error of its consumer.
        device.port.counters.local_errors.one();
        qp.fail(None);
    }
    Some(())
}

/// Copies a datagram, and the header before it, to the pieces of a receive.
fn fill(qp: &Qp, pieces: &Pieces, head: &ffi::rlo_frame, payload: &[u8]) -> Result<(), Fault> {
    let to = End {
        port: qp.port(),
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
    let mut grh = Header([0; GRH as usize]);
    // SAFETY: C fills `GRH` bytes, which there are, with the alignment that it wants; `head` is
    // valid.
    unsafe { ffi::rlo_grh_fill(grh.0.as_mut_ptr(), head) };
    memory::copy((bytes(&grh.0), 0), (to, 0), grh.0.len())?;
    memory::copy((bytes(payload), 0), (to, GRH), payload.len())
}

/// The completion of a received datagram.
fn entry(qp: &Qp, receive: &Receive, head: &ffi::rlo_frame) -> ffi::ib_wc {
    let mut entry = qp.receive_entry(receive.id, status::SUCCESS);
    entry.src_qp = head.src_qpn;
    if qp.port().is_infiniband() {
        entry.slid = head.slid.into();
        if u32::from(head.flags) & ffi::RLO_FRAME_GRH != 0 {
            entry.wc_flags = ffi::ib_wc_flags_IB_WC_GRH as i32;
        }
    } else {
        entry.wc_flags =
            (ffi::ib_wc_flags_IB_WC_GRH | ffi::ib_wc_flags_IB_WC_WITH_NETWORK_HDR_TYPE) as i32;
        // SAFETY: `head` is valid.
        entry.network_hdr_type = unsafe { ffi::rlo_network_type(head) };
        if u32::from(head.flags) & ffi::RLO_FRAME_VLAN != 0 {
            entry.wc_flags |= ffi::ib_wc_flags_IB_WC_WITH_VLAN as i32;
            entry.vlan_id = head.vlan;
        }
    }
    entry.port_num = 1;
    if u32::from(head.flags) & ffi::RLO_FRAME_IMMEDIATE != 0 {
        entry.wc_flags |= ffi::ib_wc_flags_IB_WC_WITH_IMM as i32;
        entry.ex.imm_data = head.immediate;
    }
    entry
}
