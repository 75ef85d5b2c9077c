// SPDX-License-Identifier: GPL-2.0

//! The passive side: Hello in, a new socket, HelloAck out.

use crate::{
    addr::{
        Addr,
        Family, //
    },
    alarm::Alarm,
    cm::{
        config,
        connection_cb,
        private_data,
        random_psn,
        shape,
        sockaddr,
        ticket::Ticket,
        RNR_RETRY_COUNT,
        RX_INITIAL, //
    },
    devices,
    endpoint::{
        Inner,
        Listener,
        Phase, //
    },
    engine::{
        conn::Connection,
        types::Ip,
        wire::hello::{
            Hello,
            HELLO_ACK_LEN,
            HELLO_LEN, //
        },
    },
    ffi,
    link::{
        CmId,
        Link,
        Origin,
        MAX_PAYLOAD, //
    },
    net::{
        ports::Claim,
        NetState, //
    },
    sock::{
        Sock,
        SockRef, //
    },
    verbs::{
        device::Device,
        qp::Reply, //
    },
};
use core::ptr::NonNull;
use kernel::{
    error::to_result,
    prelude::*,
    sync::Arc, //
};

/// How long a connection may wait for its RTU, whatever the peer's request says
/// of its own patience: as TCP in SYN_RECV.
const EMBRYO_MS: u32 = 60_000;

/// The index of the loopback interface, in every namespace.
const LOOPBACK_INDEX: c_int = 1;

/// How a Hello is turned away.
enum Refusal {
    /// REJ: the peer's connect() fails with ECONNREFUSED.
    Refuse,
    /// Nothing: the peer's CM tries again.
    Drop,
}

impl From<Error> for Refusal {
    /// What may go better the next time is worth one; the rest is refused.
    fn from(error: Error) -> Self {
        if error == ENOMEM || error == ENOBUFS || error == EAGAIN {
            Refusal::Drop
        } else {
            Refusal::Refuse
        }
    }
}

/// A Hello for one of our service ids.
///
/// # Safety
///
/// Called from C, with the arguments that the slot it stands in promises.
pub(crate) unsafe extern "C" fn request_cb(
    id: *mut ffi::ib_cm_id,
    event: *const ffi::ib_cm_event,
) -> c_int {
    // SAFETY: Both are valid for the call.
    if unsafe { (*event).event } != ffi::ib_cm_event_type_IB_CM_REQ_RECEIVED {
        // A datagram service is asked for: the CM turns it down and destroys
        // the identifier.
        return -(ffi::EINVAL as c_int);
    }
    // SAFETY: As above, and it is a request.
    match unsafe { incoming(id, event) } {
        Ok(()) => 0,
        // The CM rejects with "consumer defined" for every error but this one.
        //= spec: HELLO-11
        Err(Refusal::Refuse) => -(ffi::ECONNREFUSED as c_int),
        Err(Refusal::Drop) => -(ffi::ENOMEM as c_int),
    }
}

/// A namespace held for the duration of a request.
struct HeldNet(NonNull<ffi::net>);

impl Drop for HeldNet {
    fn drop(&mut self) {
        // SAFETY: The reference is ours.
        unsafe { ffi::sdp_put_net(self.0.as_ptr()) };
    }
}

/// # Safety
///
/// `event` is a connection request that came with the new identifier `id`.
unsafe fn incoming(
    id: *mut ffi::ib_cm_id,
    event: *const ffi::ib_cm_event,
) -> core::result::Result<(), Refusal> {
    // SAFETY: By the caller's promise.
    let device = devices::find(unsafe { (*id).device }).ok_or(Refusal::Refuse)?;
    // SAFETY: A REQ carries 92 bytes of private data.
    let hello = Hello::parse(unsafe { private_data(event, HELLO_LEN) }).and_then(|hello| {
        Connection::check_rcv_size(hello.local_rcv_size, MAX_PAYLOAD)?;
        Ok(hello)
    });
    // SAFETY: Valid identifier.
    let service = u64::from_be(unsafe { (*id).service_id });
    let port = (service & 0xffff) as u16;
    let mut device_index = 0;
    // SAFETY: Valid event; the address is only read.
    let net = unsafe {
        let dst = hello.as_ref().map(|h| h.dst).unwrap_or(Ip::V4([0; 4]));
        let dst = sockaddr(&Addr {
            ip: dst,
            port,
            scope: 0,
        });
        ffi::sdp_cm_req_net(id, event, (&raw const dst).cast(), &mut device_index)
    };
    let net = HeldNet(NonNull::new(net).ok_or(Refusal::Refuse)?);
    // SAFETY: Held.
    let state = unsafe { NetState::of(net.0.as_ptr()) };
    let hello = match hello {
        Ok(hello) => hello,
        Err(_) => {
            state.stats.violations.inc();
            state.stats.hellos_refused.inc();
            return Err(Refusal::Refuse);
        }
    };
    // SAFETY: Valid request of a connection.
    let honest = unsafe { addresses_are_honest(id, event, &hello, port, state, device_index) };
    // To TCP, too, what comes from this host to another of its addresses has
    // come by the interface of that address.
    let arrival = if Addr::is_loopback(hello.dst) {
        LOOPBACK_INDEX
    } else {
        device_index
    };
    let listener = honest
        .then(|| state.find_listener((hello.dst, port), arrival, (hello.src, hello.local_port)))
        .flatten();
    let Some(listener) = listener else {
        state.stats.hellos_refused.inc();
        return Err(Refusal::Refuse);
    };
    let admitted = listener.look(|inner| {
        let l = inner.listener.as_mut()?;
        let used = u32::try_from(l.ready())
            .unwrap_or(u32::MAX)
            .saturating_add(l.pending);
        // One more than the backlog, as TCP counts.
        let room = used <= l.backlog;
        if room {
            l.pending = l.pending.saturating_add(1);
        }
        Some(room)
    });
    match admitted {
        Some(true) => {}
        Some(false) => {
            state.stats.hellos_dropped.inc();
            return Err(Refusal::Drop);
        }
        None => {
            // It stopped to listen just now.
            state.stats.hellos_refused.inc();
            return Err(Refusal::Refuse);
        }
    }
    // SAFETY: As promised by our caller.
    let made = unsafe {
        let req = &(*event).param.req_rcvd;
        let entry = Entry {
            port: u32::from(req.port),
            pkey: (*req.primary_path).pkey,
            begins: req.responder_resources,
            answers: req.initiator_depth,
        };
        embryo(id, &device, &listener, &hello, (port, device_index), &entry)
    };
    if made.is_err() {
        listener.look(|inner| {
            if let Some(l) = inner.listener.as_mut() {
                l.pending = l.pending.saturating_sub(1);
            }
        });
        state.stats.hellos_dropped.inc();
    }
    Ok(made?)
}

/// Whether the addresses in the Hello can be true.
///
/// The Hello's addresses become the names that programs see and trust: a peer
/// may not claim to be local, nor to come from another address than its GID.
///
/// # Safety
///
/// `event` is a connection request that came with `id` by the interface `device`.
unsafe fn addresses_are_honest(
    id: *mut ffi::ib_cm_id,
    event: *const ffi::ib_cm_event,
    hello: &Hello,
    port: u16,
    state: &NetState,
    device: c_int,
) -> bool {
    // SAFETY: By the caller's promise.
    let (gid, number) = unsafe {
        let req = &(*event).param.req_rcvd;
        ((*req.primary_path).dgid.raw, req.remote_qpn)
    };
    let anonymous = |ip| Addr {
        ip,
        port: 0,
        scope: 0,
    };
    // SAFETY: The namespace is alive.
    let is_local = |ip| unsafe { anonymous(ip).is_local(state.as_ptr()) };
    if !is_local(hello.dst) {
        return false;
    }
    if Addr::is_loopback(hello.dst) || is_local(hello.src) {
        // Both GIDs stand in the message, which anybody on the fabric can write: that
        // it is from this host is known by the socket here that has sent it.
        let own = (hello.src, hello.local_port);
        let connecting = state.find_connection(own, (hello.dst, port));
        return connecting.is_some_and(|sock| sock.look(|inner| inner.asks_from(number)));
    }
    // On RoCE a GID is an address. InfiniBand GIDs say nothing about it.
    // SAFETY: By the caller's promise.
    if unsafe { ffi::sdp_cm_req_is_roce(id, event) } {
        return Addr::unmap(Ip::V6(gid)) == hello.src;
    }
    let (local, peer) = (
        sockaddr(&anonymous(hello.dst)),
        sockaddr(&anonymous(hello.src)),
    );
    // SAFETY: The namespace is alive, the addresses are only read.
    unsafe {
        ffi::sdp_route_is_by(
            state.as_ptr(),
            device,
            (&raw const local).cast(),
            (&raw const peer).cast(),
        )
    }
}

impl Inner {
    /// Whether a Hello of this socket is under way for the queue pair of that number.
    fn asks_from(&self, number: u32) -> bool {
        let link = self.link.as_ref();
        self.phase == Phase::Connecting && link.is_some_and(|link| link.qp().number() == number)
    }
}

/// What a REQ says of the transport.
struct Entry {
    /// Of the device.
    port: u32,
    pkey: u16,
    /// RDMA Reads that the peer begins, and answers, at a time.
    begins: u8,
    answers: u8,
}

/// Makes the socket of an incoming connection and answers with the HelloAck.
///
/// # Safety
///
/// `id` is the new identifier of the request that is being handled.
unsafe fn embryo(
    id: *mut ffi::ib_cm_id,
    device: &Arc<Device>,
    listener: &SockRef,
    hello: &Hello,
    (port, device_index): (u16, c_int),
    entry: &Entry,
) -> Result {
    let (family, options, arrival) = listener.look(|inner| {
        let arrival = inner.listener.as_mut().map_or(0, Listener::next_arrival);
        // A listener that was not bound has IPv4's names, and takes either version.
        let family = match hello.dst {
            Ip::V6(_) => Family::V6,
            Ip::V4(_) => inner.family,
        };
        (family, inner.options, arrival)
    });
    let state = listener.net();
    // SAFETY: The listener keeps the namespace alive.
    let sock = unsafe { Sock::create(state.as_ptr(), core::ptr::null_mut(), family) }?;
    // SAFETY: Both are valid sockets.
    unsafe { ffi::sdp_sock_inherit(sock.sk(), listener.sk()) };
    let claim = Claim {
        ip: hello.dst,
        dual: false,
    };
    let scope = |ip| {
        if Addr::is_link_local(ip) {
            u32::try_from(device_index).unwrap_or(0)
        } else {
            0
        }
    };
    let lease = state.share_port(&sock, port, &claim)?;
    let generation = sock.look(|inner| {
        inner.options = options;
        inner.next_generation()
    });
    let shape = shape(&state.knobs(), &sock, hello.src).fit(device);
    let mut link = Link::new(
        device,
        Origin {
            sock: sock.clone(),
            generation,
        },
        &shape,
    )?;
    let id = NonNull::new(id).ok_or(EINVAL)?;
    let ticket = Ticket::new(&sock, generation)?;
    // SAFETY: The identifier is new and ours as long as we return success.
    unsafe {
        (*id.as_ptr()).context = ticket.context();
        (*id.as_ptr()).cm_handler = Some(connection_cb);
        link.cm = Some(CmId::from_raw(id, ticket));
    }
    let reply = Reply {
        starting_psn: random_psn(),
        reads: link.reads().meet(entry.begins, entry.answers),
    };
    let mut failed = None;
    let answered = sock.drive(|inner| {
        inner.family = family;
        inner.phase = Phase::Connected;
        inner.local = Addr {
            ip: hello.dst,
            port,
            scope: scope(hello.dst),
        };
        inner.peer = Addr {
            ip: hello.src,
            port: hello.local_port,
            scope: scope(hello.src),
        };
        inner.bound_ip = true;
        inner.port = Some(lease);
        let mut engine = Connection::accepting(config(&shape), hello);
        engine.limit_reads(
            link.reads_to_begin(reply.reads.begun),
            reply.reads.answered > 0,
        );
        engine.hold_rcv_size(true);
        inner.unaccepted = true;
        inner.options.tell(&mut engine);
        let size = engine.rcv_size();
        if size > shape.rcv_size && !link.stock(size, RX_INITIAL) {
            engine.keep_rcv_size();
        }
        let answered = link
            .qp()
            .initialise(entry.port, entry.pkey)
            .and_then(|()| {
                engine.on_receives_posted(link.post_receives(RX_INITIAL, engine.rcv_size()));
                link.modify(ffi::ib_qp_state_IB_QPS_RTR, Some(&reply))
            })
            .and_then(|()| link.modify(ffi::ib_qp_state_IB_QPS_RTS, Some(&reply)))
            .and_then(|()| engine.hello_ack().map_err(|_| ENOMEM));
        sock.set_tcp_state(ffi::TCP_SYN_RECV);
        let answered = answered.and_then(|ack| {
            if link.qp().device().is_leaving() {
                return Err(ENODEV);
            }
            send_reply(&link, &ack, &reply)
        });
        match answered {
            Ok(()) => {
                inner.parent = Some(listener.clone());
                inner.arrival = arrival;
                sock.set_alarm(Alarm::Keepalive, EMBRYO_MS);
                inner.link = Some(link);
                inner.engine = Some(engine);
            }
            Err(_) => failed = Some(link),
        }
        answered
    });
    if let Some(mut link) = failed {
        // The CM destroys the identifier when the handler returns an error.
        if let Some(cm) = link.cm.take() {
            cm.forget();
        }
        drop(link.destroy());
    }
    answered
}

fn send_reply(link: &Link, ack: &[u8; HELLO_ACK_LEN], reply: &Reply) -> Result {
    let cm = link.cm.as_ref().ok_or(EINVAL)?;
    let mut param = ffi::ib_cm_rep_param {
        qp_num: link.qp().number(),
        starting_psn: reply.starting_psn,
        private_data: ack.as_ptr().cast(),
        private_data_len: ack.len() as u8,
        responder_resources: reply.reads.answered,
        initiator_depth: reply.reads.begun,
        rnr_retry_count: RNR_RETRY_COUNT,
        ..pin_init::zeroed()
    };
    // SAFETY: The identifier is ours, the parameters are read during the call.
    to_result(unsafe { ffi::ib_send_cm_rep(cm.as_ptr(), &mut param) })
}
