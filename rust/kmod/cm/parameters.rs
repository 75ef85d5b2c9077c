// SPDX-License-Identifier: GPL-2.0

//! The parameters of a connection, which both sides choose alike.

use crate::{
    devices::{
        Lease,
        Leasing, //
    },
    engine::{
        conn::{
            Config,
            Zcopy,
            ADVERTS_MAX, //
        },
        policy::copying,
        types::Ip,
        wire::BSDH_LEN,
    },
    link::{
        Shape,
        MAX_PAYLOAD,
        READ_DEPTH,
        RX_INITIAL,
        RX_LEAST,
        WRITE_DEPTH, //
    },
    netns::{
        user_share,
        Knobs, //
    },
    object::{
        Sock,
        SockRef, //
    },
    prelude::*,
    random::random_u32, //
};
use kernel::sync::Arc;

/// Transport retries. Retries for receiver-not-ready only cover races, because a sender
/// has credits.
pub(super) const RETRY_COUNT: u8 = 5;
pub(super) const RNR_RETRY_COUNT: u8 = 7;

/// Zero copy in both directions, by Reads and Writes.
const ZCOPY: Zcopy = Zcopy {
    advertise: true,
    read: true,
    write: true,
    read_depth: READ_DEPTH,
    write_depth: WRITE_DEPTH,
    max_write: 1 << 20,
};

/// The header of a message, which the sizes that peers are told include.
const HEADER: u32 = BSDH_LEN as u32;

/// Minimum number of receive buffers that have the largest size.
const LARGEST_LEAST: u32 = 8;

/// As in TCP, a receive buffer size that the program has set is a limit; the default is
/// the size where growth begins.
///
/// Grown buffers have room for another header behind the payload: a peer counts it twice in
/// our answer to its question for larger buffers, and fills the pages nevertheless.
///
/// `able`: for all that is known the peer takes part in zero copy.
pub(super) fn shape(knobs: &Knobs, sock: &Sock, peer: Ip, able: bool) -> Shape {
    let limit = if sock.has_own_rcvbuf() {
        sock.rcvbuf()
    } else {
        u32::MAX
    };
    let least = knobs.rcv_size_initial.min(knobs.rcv_size);
    // With a small limit, many buffers are better than large ones.
    let part = limit / u32::from(RX_LEAST);
    let part = part.min(knobs.rcv_size / 2).max(limit / LARGEST_LEAST);
    let largest = knobs.rcv_size.min(part).max(least);
    let by_buffer = limit / largest.max(1);
    Shape {
        // The knob has 16 bits, with room for the header.
        rcv_size: u16::try_from(least.saturating_add(HEADER)).unwrap_or(u16::MAX),
        rcv_size_max: largest.saturating_add(HEADER).saturating_add(HEADER),
        rx_depth: u16::try_from(by_buffer)
            .unwrap_or(u16::MAX)
            .clamp(RX_LEAST, knobs.rcv_depth.max(RX_LEAST)),
        send_depth: knobs.send_depth,
        copied: copying::of_new(
            |able| sock.wants_zcopy(able),
            able,
            sock.net().is_excepted(peer),
        ),
    }
}

pub(super) fn config(shape: &Shape) -> Config {
    Config {
        rcv_size: shape.rcv_size,
        rx_depth: shape.rx_depth,
        rx_initial: RX_INITIAL,
        tx_depth: shape.send_depth,
        max_send_payload: MAX_PAYLOAD,
        max_adverts: if shape.is_zcopy() {
            ADVERTS_MAX as u8
        } else {
            1
        },
        rcv_size_max: shape.rcv_size_max,
        zcopy: if shape.is_zcopy() { ZCOPY } else { Zcopy::OFF },
    }
}

/// The right to use `device` for a link of `sock`.
pub(super) fn lease_of(device: &Arc<Leasing>, sock: &SockRef) -> Result<Lease> {
    let lease = device.lease(sock.clone(), user_share());
    if matches!(&lease, Err(e) if *e == ENOBUFS) {
        sock.net().stats.user_share_exceeded.inc();
    }
    lease
}

/// A packet number of 24 bits to start with.
pub(super) fn random_psn() -> u32 {
    random_u32() & 0x00ff_ffff
}

/// The handler of the events of connections, active or passive, see [`super`]. The context is a ticket's.
pub(crate) struct Connections;
