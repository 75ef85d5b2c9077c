// SPDX-License-Identifier: GPL-2.0

//! The passive side after a listener was found: a new socket, HelloAck out.
//!
//! The connection manager handles one request after the other on a processor, and
//! making a queue pair takes a card milliseconds. So the handler of a request makes the
//! socket and asks the peer for patience (MRA), and a worker does the rest. All
//! processors then answer a burst of requests, and no connect() gives up meanwhile.
//!
//! A request that finds the backlog full is taken as well, and waits for room without an answer. The
//! peer repeats it until it gives up, as if it had been dropped.
//!
//! Contexts: the handler of a listening identifier; an alarm. Locks: the endpoint's,
//! and the listener's apart from it.

use crate::{
    addr::{
        Addr,
        Family, //
    },
    alarm::Alarm,
    cm::{
        identifier::CmId,
        parameters::{
            config,
            lease_of,
            random_psn,
            shape,
            Connections,
            RNR_RETRY_COUNT, //
        },
        request::Request,
        ticket::Ticket, //
    },
    devices::Leasing,
    endpoint::{
        Engine,
        Listener,
        Phase, //
    },
    engine::{
        conn::Connection,
        types::Ip,
        wire::hello::{
            Hello,
            HELLO_ACK_LEN, //
        },
    },
    ffi,
    handle::Origin,
    link::{
        Link,
        Shape,
        RX_INITIAL, //
    },
    object::{
        Sock,
        SockRef, //
    },
    prelude::*,
    rdma::{
        cm::{
            Arrived,
            ReplyParameters, //
        },
        qp::{
            Reply,
            State, //
        },
    }, //
};
use kernel::{
    sync::Arc,
    time::Instant, //
};

/// Maximum wait for an RTU, whatever patience the peer's request announces: as TCP in
/// SYN_RECV.
const EMBRYO_MS: u32 = 60_000;

/// Pause before another try to answer.
const AGAIN_MS: u32 = 100;

/// Time that a request waits for room in the backlog. Then it is forgotten, and the peer's next repetition is
/// a new one. It is half as long as our own peers repeat a request: a CM that has given up tells nothing, and
/// the answer to it would occupy the backlog until the tries of our own CM end.
const HOLD_MS: u32 = 10_000;

/// The listener waits for one connection less.
pub(super) fn dismiss(listener: &Sock) {
    listener.lose_pending();
    listener.net().stats.hellos_dropped.inc();
}

/// The request of `sock` waits for room in the backlog of `listener`, where there may be room already.
fn wait_for_room(sock: &SockRef, listener: &SockRef) {
    // This comes first, because the admission sets the same alarm.
    sock.set_alarm(Alarm::Engine, HOLD_MS);
    let held = listener.look(|inner| {
        let l = inner.listener.as_mut().ok_or(ECONNREFUSED)?;
        l.hold(sock.clone())
    });
    match held {
        Ok(()) => listener.admit_held(),
        // The listener has just been closed, or memory is short. The worker forgets the request, because
        // its identifier cannot be destroyed here, in its handler.
        Err(_) => sock.set_alarm(Alarm::Engine, 0),
    }
}

/// The socket of a connection to `ip`, which inherits from `listener`, and the number of its Hello there.
fn child_of(listener: &SockRef, ip: Ip) -> Result<(SockRef, u64)> {
    let (family, options, arrival) = listener.look(|inner| {
        let arrival = inner.listener.as_mut().map_or(0, Listener::next_arrival);
        // A listener that was not bound has IPv4 names, and takes either version.
        let family = match ip {
            Ip::V6(_) => Family::V6,
            Ip::V4(_) => inner.family,
        };
        (family, inner.options, arrival)
    });
    let sock = Sock::create(listener.net().namespace(), None, Some(listener), family)?;
    // SAFETY: Both are valid sockets.
    unsafe { ffi::sdp_sock_inherit(sock.sk(), listener.sk()) };
    sock.look(|inner| inner.options = options);
    Ok((sock, arrival))
}

impl Request {
    /// Makes the socket of an incoming connection, and schedules the answer.
    pub(super) fn take(
        arrived: &Arrived<'_>,
        device: Arc<Leasing>,
        listener: &SockRef,
        hello: Hello,
        (port, device_index, vrf): (u16, c_int, c_int),
        held: bool,
    ) -> Result {
        let (sock, arrival) = child_of(listener, hello.dst)?;
        sock.enter_vrf(vrf);
        let peer = (hello.src, hello.local_port);
        // SAFETY: The endpoint gets the lease below; before that it is dropped ahead of `sock`.
        let claim = unsafe { listener.net().share_port(&sock, port, hello.dst, peer) }?;
        let lease = lease_of(&device, &sock)?;
        let generation = sock.look(|inner| inner.next_generation());
        let ticket = Ticket::new(&sock, generation)?;
        let place = KBox::<Request>::new_uninit(GFP_KERNEL)?;
        // Nothing may fail from here on, because the identifier is ours then.
        let id = arrived.accept::<Connections>(&device, ticket.context())?;
        if !held {
            // An error would mean that the peer has gone already.
            let _ = id.ask_for_patience();
        }
        let cm = CmId::new(id, ticket);
        let request = KBox::write(
            place,
            Request {
                cm: Some(cm),
                lease: Some(lease),
                device,
                listener: listener.clone(),
                arrival,
                hello,
                reads: arrived.reads(),
                since: Instant::now(),
                held,
            },
        );
        let scope = u32::try_from(device_index).unwrap_or(0);
        sock.look(|inner| {
            inner.local = Addr::new(hello.dst, port, scope);
            inner.peer = Addr::new(hello.src, hello.local_port, scope);
            inner.binding.on_arrived(claim);
            inner.arrival.request = Some(request);
            inner.show_state(&sock, ffi::TCP_SYN_RECV);
        });
        if held {
            wait_for_room(&sock, listener);
        } else {
            sock.set_alarm(Alarm::Engine, 0);
        }
        Ok(())
    }

    /// Leaves the request to the peer's retry.
    fn forget(&self) {
        self.listener.net().stats.hellos_dropped.inc();
        if let Some(cm) = self.cm.as_ref() {
            // An error means that the peer has given up.
            let _ = cm.forget();
        }
    }

    /// Makes the link and answers with the HelloAck. A failure leaves everything as it
    /// was.
    fn answer(&mut self, sock: &SockRef) -> Result {
        let hello = &self.hello;
        // With one advertisement at a time nothing is worth its price.
        let able = hello.max_adverts > 1;
        let shape = shape(&sock.net().knobs(), sock, hello.src, able).fit(&self.device);
        let origin = Origin {
            sock: sock.clone(),
            generation: sock.look(|inner| inner.generation()),
        };
        let mut link = Link::new(&self.device, origin, &shape, &mut self.lease)?;
        link.cm = self.cm.take();
        let reply = Reply {
            starting_psn: random_psn(),
            reads: link.reads().meet(self.reads.begins, self.reads.answers),
            class: sock.look(|inner| inner.options.service_class(hello.src)),
        };
        let mut failed = None;
        let answered = sock.drive(|inner| {
            let mut engine = accepting(&link, &shape, hello, &reply);
            inner.options.tell(&mut engine);
            let size = engine.rcv_size();
            if size > shape.rcv_size.into() && !link.stock(size, RX_INITIAL) {
                engine.keep_rcv_size();
            }
            let answered = link
                .initialise()
                .and_then(|()| {
                    link.post_first(&mut engine)?;
                    link.modify(State::ReadyToReceive, Some(&reply))
                })
                .and_then(|()| link.modify(State::ReadyToSend, Some(&reply)))
                .and_then(|()| engine.hello_ack().map_err(|_| ENOMEM));
            let answered = answered.and_then(|ack| {
                link.check_device()?;
                send_reply(&link, &ack, &reply)
            });
            match answered {
                Ok(()) => {
                    inner.phase = Phase::Connected;
                    inner.arrival.unaccepted = true;
                    inner.arrival.listener = Some(self.listener.clone());
                    inner.arrival.number = self.arrival;
                    sock.set_alarm(Alarm::Keepalive, EMBRYO_MS);
                    inner.link = Some(link);
                    inner.engine = Some(Engine::new(engine));
                }
                Err(_) => failed = Some(link),
            }
            answered
        });
        if let Some(link) = failed {
            let (cm, lease) = link.undo();
            self.cm = cm;
            self.lease = Some(lease);
        }
        answered
    }
}

/// The engine of a connection that `hello` asks for.
fn accepting(link: &Link, shape: &Shape, hello: &Hello, reply: &Reply) -> Connection {
    let mut engine = Connection::accepting(config(shape), hello);
    engine.limit_reads(
        link.reads_to_begin(reply.reads.begun),
        reply.reads.answered > 0,
    );
    engine.hold_rcv_size(true);
    engine
}

fn send_reply(link: &Link, ack: &[u8; HELLO_ACK_LEN], reply: &Reply) -> Result {
    let cm = link.cm.as_ref().ok_or(EINVAL)?;
    cm.reply(
        link.qp().number(),
        &ReplyParameters {
            starting_psn: reply.starting_psn,
            reads: reply.reads,
            rnr_retries: RNR_RETRY_COUNT,
            data: ack,
        },
    )
}

impl Sock {
    /// Answers the request that created this socket, or forgets it if it still waits for room: its time has
    /// ended, the peer has given up, or the device goes.
    pub(crate) fn answer(&self) {
        let Some(mut request) = self.look(|inner| inner.arrival.request.take()) else {
            return;
        };
        if request.held {
            request.listener.look(|inner| {
                if let Some(l) = inner.listener.as_mut() {
                    l.forget_held(self);
                }
            });
            return request.forget();
        }
        let sock = SockRef::of(self);
        match request.answer(&sock) {
            Ok(()) => {}
            Err(e) if request.may_try_again(e) => {
                sock.look(|inner| inner.arrival.request = Some(request));
                sock.set_alarm(Alarm::Engine, AGAIN_MS);
            }
            Err(_) => dismiss(&request.listener),
        }
    }

    /// Admits requests that wait for room in the backlog of this listener, as far as there is room. Without
    /// locks of endpoints.
    pub(crate) fn admit_held(&self) {
        let next = || self.look(|inner| inner.listener.as_mut().and_then(Listener::take_held));
        while let Some(child) = next() {
            let admitted = child.look(|inner| inner.arrival.request.as_mut().map(|r| r.admit()));
            match admitted {
                Some(()) => child.set_alarm(Alarm::Engine, 0),
                // It has just been forgotten.
                None => self.count_out(),
            }
        }
    }

    /// The backlog of this listener counts one connection less.
    fn count_out(&self) {
        self.look(|inner| {
            if let Some(l) = inner.listener.as_mut() {
                l.lose_pending();
            }
        });
    }

    /// A connection of this listener has ended before it was ready.
    pub(crate) fn lose_pending(&self) {
        self.count_out();
        self.admit_held();
    }

    /// Leaves the request that created this socket to the peer's retry, because its listener is closed. As
    /// with TCP, the retry finds another listener of the port, or is refused.
    pub(crate) fn forget_request(&self) {
        if let Some(request) = self.look(|inner| inner.arrival.request.take()) {
            request.forget();
        }
        self.clear_alarm(Alarm::Engine);
    }
}
