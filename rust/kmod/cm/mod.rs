// SPDX-License-Identifier: GPL-2.0

//! Connection management: from an address to a connected queue pair.
//!
//! [`resolve`] finds the route, [`active`] requests a connection, [`passive`] finds the
//! listener of a request and [`answer`] answers it; both sides share the code here.
//! [`client`] hears of devices.
//! rdma_cm resolves the address and the route. The IB connection manager is driven
//! directly, because the Hello needs the private data from offset 0 and rdma_cm refuses
//! SDP's service ids.
//!
//! Contexts: handlers run in workqueues of rdma_cm and ib_cm and may sleep.
//! An identifier is never destroyed from its own handler: the handler returns
//! non-zero and the core does it.

mod active;
pub(crate) mod answer;
pub(crate) mod client;
pub(crate) mod identifier;
mod outcome;
pub(crate) mod passive;
pub(crate) mod request;
pub(crate) mod resolve;
pub(crate) mod resolver;
pub(crate) mod ticket;
pub(crate) mod way;

use crate::{
    addr::Addr,
    alarm::Alarm,
    devices::{
        Lease,
        Leasing, //
    },
    endpoint::{
        Inner,
        Phase, //
    },
    engine::{
        conn::{
            Config,
            Zcopy,
            ADVERTS_MAX, //
        },
        types::Ip,
        wire::{
            hello::HELLO_ACK_LEN,
            BSDH_LEN, //
        },
    },
    ffi,
    link::{
        Shape,
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
    random::random_u32,
    rdma::{
        cm::{
            Event,
            Handler,
            Reason, //
        },
        route::SockAddr, //
    }, //
};
use kernel::sync::Arc;

/// Transport retries. Retries for receiver-not-ready only cover races, because a sender
/// has credits.
const RETRY_COUNT: u8 = 5;
const RNR_RETRY_COUNT: u8 = 7;

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
fn shape(knobs: &Knobs, sock: &Sock, peer: Ip, able: bool) -> Shape {
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
        zcopy: sock.wants_zcopy(able) && !sock.net().is_excepted(peer),
    }
}

fn config(shape: &Shape) -> Config {
    Config {
        rcv_size: shape.rcv_size,
        rx_depth: shape.rx_depth,
        rx_initial: RX_INITIAL,
        tx_depth: shape.send_depth,
        max_send_payload: crate::link::MAX_PAYLOAD,
        max_adverts: if shape.zcopy { ADVERTS_MAX as u8 } else { 1 },
        rcv_size_max: shape.rcv_size_max,
        zcopy: if shape.zcopy { ZCOPY } else { Zcopy::OFF },
    }
}

/// The right to use `device` for a link of `sock`.
fn lease_of(device: &Arc<Leasing>, sock: &SockRef) -> Result<Lease> {
    let lease = device.lease(sock.clone(), user_share());
    if matches!(&lease, Err(e) if *e == ENOBUFS) {
        sock.net().stats.user_share_exceeded.inc();
    }
    lease
}

/// A packet number of 24 bits to start with.
fn random_psn() -> u32 {
    random_u32() & 0x00ff_ffff
}

pub(crate) fn sockaddr(addr: &Addr) -> SockAddr {
    let mut raw = [0u8; 28];
    let family = match addr.ip {
        Ip::V4(_) => crate::addr::Family::V4,
        Ip::V6(_) => crate::addr::Family::V6,
    };
    addr.emit(family, &mut raw);
    let mut storage: ffi::__kernel_sockaddr_storage = pin_init::zeroed();
    // SAFETY: 28 bytes fit into the 128 of the storage.
    unsafe {
        core::ptr::copy_nonoverlapping(raw.as_ptr(), (&raw mut storage).cast::<u8>(), raw.len())
    };
    SockAddr::new(storage)
}

/// Events of connections, active or passive. The context is a ticket's.
pub(crate) struct Connections;

impl Handler for Connections {
    fn on_event(context: usize, event: Event<'_>) {
        // None where the identifier is on its way out.
        let Some((sock, generation)) = ticket::find(context) else {
            return;
        };
        let sock = &sock;
        let is_last = event.is_last();
        if is_last {
            ticket::set_parted(context);
        }
        on_event(sock, generation, event);
        if is_last && !sock.look(|inner| inner.is_current(generation)) {
            sock.set_alarm(Alarm::Parting, 0);
        }
    }
}

fn on_event(sock: &SockRef, generation: u64, event: Event<'_>) {
    let drive = |f: &mut dyn FnMut(&mut Inner)| {
        sock.drive(|inner| {
            if inner.is_current(generation) {
                f(inner);
            }
        });
    };
    match event {
        Event::Reply { data, reads } => {
            let data = data.get(..HELLO_ACK_LEN).unwrap_or_default();
            drive(&mut |inner| inner.on_reply(sock, data, reads));
            // Behind the wake-up of the connecting program, which the first call delivers.
            drive(&mut Inner::confirm);
        }
        Event::Established => established(sock, generation, true),
        // The peer of a request that has no answer yet gave up.
        Event::Rejected(_) if sock.look(|inner| inner.request.is_some()) => {
            sock.set_alarm(Alarm::Engine, 0);
        }
        Event::Rejected(reason) => drive(&mut |inner| inner.on_rejected(sock, reason)),
        Event::Unanswered => drive(&mut |inner| inner.on_unanswered(sock)),
        Event::DisconnectRequested(request) => {
            //= spec: CLOSE-6
            drop(request);
            // A peer that disconnects was connected. DREQ may overtake RTU, and
            // accept() returns a connection even if it has ended.
            established(sock, generation, false);
            peer_disconnects(sock, generation);
        }
        Event::Disconnected => drive(&mut |inner| {
            if let Some(engine) = inner.engine.as_mut() {
                engine.handle_disconnected();
            }
        }),
        Event::Other => {}
    }
}

/// Time that a disconnected link waits for its sends to complete.
const LAST_ACK_MS: u32 = 100;

/// DREQ: the connection has ended, but earlier messages may still be in the completion
/// queue, because DREQ overtakes them. The reaper drains it, so that the workqueue of
/// the CM stays free for other handshakes.
///
/// DREQ also overtakes the acknowledgement of our last messages. They get a moment to
/// complete: not every driver survives the destruction of a queue pair while packets
/// for it arrive (rxe warns of a use after the last reference).
fn peer_disconnects(sock: &SockRef, generation: u64) {
    // Sends that have completed need no moment.
    sock.reap();
    // Events tell of the others from here on.
    sock.drive(|inner| {
        if let Some(link) = inner.link.as_mut() {
            if link.generation() == generation {
                //= spec: CLOSE-7
                link.draining = true;
                let wait = if link.is_send_idle() { 0 } else { LAST_ACK_MS };
                sock.set_alarm(Alarm::Reap, wait);
            }
        }
    });
}

/// The passive side is established: hands the connection to its listener, at once or
/// when there is something to read.
fn established(sock: &SockRef, generation: u64, may_wait: bool) {
    let listener = sock.drive(|inner| {
        if !inner.is_current(generation) {
            return None;
        }
        if let Some(engine) = inner.engine.as_mut() {
            engine.handle_established();
        }
        if inner.parent.is_some() && may_wait && inner.is_deferrable(sock) {
            let secs = inner.options.deferral_secs();
            inner.deferred = true;
            sock.set_alarm(Alarm::Keepalive, secs.saturating_mul(1000));
            return None;
        }
        inner.deferred = false;
        // The option belongs to the listener alone; it has had its effect.
        inner.options.forget_deferral();
        Some((inner.parent.take()?, inner.arrival))
    });
    let Some((listener, arrival)) = listener else {
        return;
    };
    let queued = listener.drive(|inner| {
        let Some(l) = inner.listener.as_mut() else {
            return false;
        };
        l.lose_pending();
        let queued = l.push_ready(arrival, sock.clone()).is_ok();
        inner.wake().readable = queued;
        queued
    });
    if queued {
        sock.net().stats.passive_opens.inc();
    } else {
        listener.admit_held();
        sock.drive(|inner| inner.abandon(sock));
    }
}

/// Hands over a connection that TCP_DEFER_ACCEPT has delayed: its first bytes, the end
/// of the stream, or the timeout has come.
pub(crate) fn hand_over_deferred(sock: &Sock) {
    let generation = sock.look(|inner| inner.link.as_ref().map(|link| link.generation()));
    if let Some(generation) = generation {
        established(&SockRef::of(sock), generation, false);
    }
}

impl Inner {
    /// REJ, of our Hello or of our HelloAck.
    fn on_rejected(&mut self, sock: &Sock, reason: Reason) {
        if self.phase == Phase::Connecting {
            if reason == Reason::StaleConnection && self.asks_anew(sock) {
                return;
            }
            let error = match reason {
                // The peer's CM gave up waiting for its SDP.
                Reason::Timeout => ETIMEDOUT,
                _ => ECONNREFUSED,
            };
            self.fail_connect(sock, error);
        } else if let Some(engine) = self.engine.as_mut() {
            engine.handle_disconnect_requested();
        }
    }
}
