// SPDX-License-Identifier: GPL-2.0

//! Connection management: from an address to a connected queue pair.
//!
//! [`resolve`] finds the route, [`active`] requests a connection, [`passive`] finds the
//! listener of a request and [`answer`] answers it; both sides have their [`parameters`] and their
//! events in common.
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
pub(crate) mod arrival;
pub(crate) mod client;
pub(crate) mod identifier;
mod outcome;
mod parameters;
pub(crate) mod passive;
pub(crate) mod request;
pub(crate) mod resolve;
pub(crate) mod resolver;
pub(crate) mod resolving;
pub(crate) mod ticket;
pub(crate) mod way;

use crate::{
    alarm::Alarm,
    cm::parameters::Connections,
    endpoint::{
        Inner,
        Phase, //
    },
    engine::wire::hello::HELLO_ACK_LEN,
    object::{
        Sock,
        SockRef, //
    },
    prelude::*,
    rdma::cm::{
        Event,
        Handler,
        Reason, //
    }, //
};

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
        Event::Rejected(_) if sock.look(|inner| inner.arrival.has_request()) => {
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
        if inner.arrival.is_pending() && may_wait && inner.is_deferrable(sock) {
            let secs = inner.options.deferral_secs();
            inner.arrival.deferred = true;
            sock.set_alarm(Alarm::Keepalive, secs.saturating_mul(1000));
            return None;
        }
        inner.arrival.deferred = false;
        // The option belongs to the listener alone; it has had its effect.
        inner.options.forget_deferral();
        Some((inner.arrival.listener.take()?, inner.arrival.number))
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
        if queued {
            // Before a program can accept it and look.
            sock.net().stats.passive_opens.inc();
        }
        inner.wake().readable = queued;
        queued
    });
    if !queued {
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
            self.note_answer(sock);
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
