// SPDX-License-Identifier: GPL-2.0

//! What netlink shows of a socket; requests and attributes are in `ffi/diag.c`.
//!
//! Contexts: may sleep. Locks: the lock of the table, then the endpoint's, never together.

use crate::{
    addr::Addr,
    endpoint::{
        Inner,
        Phase, //
    },
    engine::{
        conn::Connection,
        policy::copying::Cause,
        types::Ip,
        wire::mode::Mode, //
    },
    errno,
    ffi,
    netns::NetState,
    object::{
        Sock,
        SockRef, //
    },
    prelude::*,
    proc, //
};
use kernel::error::to_result;

/// The bytes of an address, and how many of them there are.
fn bytes_of(ip: Ip) -> ([u8; 16], u8) {
    match ip {
        Ip::V4([a, b, c, d]) => {
            let mut bytes = [0; 16];
            [bytes[0], bytes[1], bytes[2], bytes[3]] = [a, b, c, d];
            (bytes, 4)
        }
        Ip::V6(bytes) => (bytes, 16),
    }
}

fn number_of(mode: Mode) -> u8 {
    (match mode {
        Mode::Buffered => ffi::SDP_MODE_BUFFERED,
        Mode::Combined => ffi::SDP_MODE_COMBINED,
        Mode::Pipelined => ffi::SDP_MODE_PIPELINED,
    }) as u8
}

/// The cause by which all that is sent is copied, or by which the socket is TCP's.
fn cause_of(sock: &Sock, inner: &Inner) -> u8 {
    let cause = match inner.copies_all(sock) {
        _ if inner.fallback.is_for_ipsec() => ffi::SDP_CAUSE_IPSEC,
        _ if inner.phase != Phase::Connected => 0,
        Some(Cause::Off) => ffi::SDP_CAUSE_OFF,
        Some(Cause::Excepted) => ffi::SDP_CAUSE_EXCEPTED,
        Some(Cause::Device) => ffi::SDP_CAUSE_DEVICE,
        Some(Cause::Peer) => ffi::SDP_CAUSE_PEER,
        _ => 0,
    };
    cause as u8
}

fn clamped(n: u64) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

fn view_names(view: &mut ffi::sdp_view, local: &Addr, peer: &Addr) {
    (view.local, view.local_len) = bytes_of(local.ip);
    (view.peer, view.peer_len) = bytes_of(peer.ip);
    (view.local_port, view.peer_port) = (local.port, peer.port);
    (view.local_scope, view.peer_scope) = (local.scope, peer.scope);
}

fn view_engine(view: &mut ffi::sdp_view, engine: &Connection) {
    view.has_modes = true;
    view.mode_send = number_of(engine.send_mode());
    view.mode_receive = number_of(engine.receive_mode());
    if let Some(ended) = engine.ended() {
        view.end = errno::end_number(ended);
        view.rule = errno::rule(ended);
    }
    view.has_flow = true;
    view.credits = engine.credits().into();
    view.posted = engine.posted().into();
    view.rcv_size = engine.rcv_size();
    view.max_payload = engine.max_payload();
    view.credit_stalls = engine.stats().credit_stalls;
    view.slot_stalls = engine.stats().slot_stalls;
}

fn view_endpoint(view: &mut ffi::sdp_view, sock: &Sock, inner: &Inner) {
    view.cause = cause_of(sock, inner);
    view.threshold = inner.source_threshold(sock).number().unsigned_abs();
    view.own_threshold = inner.options.zcopy_source.is_some();
    view_names(view, &inner.local, &inner.peer);
    view.open = matches!(inner.phase, Phase::Idle | Phase::Listening);
    view.rx_queue = clamped(inner.recv.len());
    view.tx_queue = inner.send.held();
    view.offered = inner.remote_len();
    if let Some(listener) = inner.listener.as_ref() {
        view.rx_queue = clamped(listener.ready() as u64);
        view.tx_queue = listener.backlog;
    }
    if let Some(engine) = inner.engine.as_ref() {
        view_engine(view, engine);
    }
    if let Some(link) = inner.link.as_ref() {
        view.round_trip_us = link.round_trip.smoothed_us();
        view.device = link.qp().device().name();
    }
}

/// Looks at a socket of the table, and hands it over with a reference.
///
/// # Safety
///
/// Called from C, with the arguments that the slot it stands in promises.
unsafe extern "C" fn look_cb(
    net: *mut ffi::net,
    socket: c_ulong,
    view: *mut ffi::sdp_view,
) -> *mut ffi::sock {
    // SAFETY: The netlink socket that asks keeps its namespace alive.
    let net = unsafe { NetState::of(net) };
    let Some(sock) = net.socket_at(socket).map(SockRef::from) else {
        return core::ptr::null_mut();
    };
    // SAFETY: The caller's, for this call.
    let view = unsafe { &mut *view };
    view.state = sock.tcp_state() as u8;
    sock.look(|inner| view_endpoint(view, &sock, inner));
    view.traffic = sock.traffic().report();
    let sk = sock.sk();
    // The caller's reference from now on.
    let _ = sock.into_owned();
    sk
}

/// The registration with NETLINK_SOCK_DIAG.
pub(crate) struct Registration(());

impl Registration {
    pub(crate) fn new() -> Result<Self> {
        // SAFETY: The callbacks have the signatures asked for.
        to_result(unsafe { ffi::sdp_diag_register(Some(proc::socket_after_cb), Some(look_cb)) })?;
        Ok(Self(()))
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        // SAFETY: Registered by `new`. A dump under way holds the module.
        unsafe { ffi::sdp_diag_unregister() };
    }
}
