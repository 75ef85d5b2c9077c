// SPDX-License-Identifier: GPL-2.0

//! The passive side: a Hello comes in, and a listener is found for it.
//! [`super::answer`] does the rest.

use crate::{
    addr::Addr,
    cm::{
        answer::dismiss,
        request::Request,
        way::sockaddr, //
    },
    devices,
    endpoint::{
        Inner,
        Phase,
        Room, //
    },
    engine::{
        conn::Connection,
        types::Ip,
        wire::hello::{
            Hello,
            HELLO_LEN, //
        },
    },
    ffi,
    link::MAX_PAYLOAD,
    netns::{
        ports::Arrival,
        NetState, //
    },
    object::{
        Sock,
        SockRef, //
    },
    prelude::*,
    rdma::cm::{
        Arrived,
        OnRequest,
        Refusal, //
    }, //
};
use kernel::error::to_result;

/// The index of the loopback interface, in every namespace.
const LOOPBACK_INDEX: c_int = 1;

impl From<Error> for Refusal {
    /// Errors that another try may avoid lead to one; all others are refused.
    fn from(error: Error) -> Self {
        if error == ENOMEM || error == ENOBUFS || error == EAGAIN {
            Refusal::Drop
        } else {
            Refusal::Refuse
        }
    }
}

/// Hellos for our service ids. A refused one fails the peer's connect() with ECONNREFUSED.
pub(crate) struct Requests;

impl OnRequest for Requests {
    //= spec: HELLO-11
    fn on_request(request: &Arrived<'_>) -> core::result::Result<(), Refusal> {
        incoming(request)
    }
}

fn incoming(request: &Arrived<'_>) -> core::result::Result<(), Refusal> {
    let device = devices::find(request.device()).ok_or(Refusal::Refuse)?;
    let data = request.data().get(..HELLO_LEN).unwrap_or_default();
    let hello = Hello::parse(data).and_then(|hello| {
        Connection::check_rcv_size(hello.local_rcv_size, MAX_PAYLOAD)?;
        Ok(hello)
    });
    let port = (request.service() & 0xffff) as u16;
    let ip = hello.as_ref().map_or(Ip::V4([0; 4]), |hello| hello.dst);
    let dst = sockaddr(&Addr::new(ip, port, 0));
    let (net, device_index) = request.namespace(&dst).ok_or(Refusal::Refuse)?;
    // SAFETY: The namespace is held as long as `net`.
    let state = unsafe { NetState::of(net.as_ptr()) };
    let hello = match hello {
        Ok(hello) => hello,
        Err(_) => {
            state.stats.violations.inc();
            state.stats.hellos_refused.inc();
            return Err(Refusal::Refuse);
        }
    };
    let arrival = arrival(state, &hello, device_index);
    let honest = addresses_are_honest(request, &hello, port, state, (device_index, &arrival));
    if honest {
        state.forget_silence(hello.dst, hello.src);
    }
    let listener = honest
        .then(|| state.find_listener((hello.dst, port), &arrival, (hello.src, hello.local_port)))
        .flatten()
        .map(SockRef::from);
    let Some(listener) = listener else {
        state.stats.hellos_refused.inc();
        return Err(Refusal::Refuse);
    };
    if let Err(e) = may_be_plain(&listener, device_index, port, &hello) {
        state.stats.hellos_refused.inc();
        return Err(e.into());
    }
    if listener.is_memory_out() {
        state.stats.hellos_dropped.inc();
        return Err(Refusal::Drop);
    }
    let held = must_wait(&listener)?;
    let way = (port, device_index, arrival.vrf());
    let taken = Request::take(request, device, &listener, hello, way, held);
    match taken {
        Err(_) if held => state.stats.hellos_dropped.inc(),
        Err(_) => dismiss(&listener),
        Ok(()) => {}
    }
    Ok(taken?)
}

/// The interface by which a connection has come in. As with TCP, a connection of this host to another of its
/// addresses has come in by the interface of that address.
fn arrival(state: &NetState, hello: &Hello, device: c_int) -> Arrival {
    let index = if Addr::is_loopback(hello.dst) {
        LOOPBACK_INDEX
    } else {
        device
    };
    Arrival::new(state.namespace(), index)
}

/// Whether another connection has to wait for room in the backlog of `listener`, which counts it.
fn must_wait(listener: &Sock) -> core::result::Result<bool, Refusal> {
    let stats = &listener.net().stats;
    match listener.look(|inner| inner.listener.as_mut().map(|l| l.admit())) {
        Some(Room::Now) => Ok(false),
        Some(Room::Later) => Ok(true),
        Some(Room::Never) => {
            stats.hellos_dropped.inc();
            Err(Refusal::Drop)
        }
        None => {
            // It has stopped listening just now.
            stats.hellos_refused.inc();
            Err(Refusal::Refuse)
        }
    }
}

/// Whether the policies of IPsec let TCP's packets pass as they are.
fn may_be_plain(listener: &Sock, device: c_int, port: u16, hello: &Hello) -> Result {
    let own = Addr::new(hello.dst, port, 0);
    let peer = Addr::new(hello.src, hello.local_port, 0);
    let state = listener.net();
    let (device, within_host) = if Addr::is_loopback(own.ip) {
        (LOOPBACK_INDEX, true)
    } else {
        (device, peer.is_local(state.namespace(), device))
    };
    let (local, remote) = (sockaddr(&own), sockaddr(&peer));
    // SAFETY: The listener is valid, the addresses are ours and of one family, as in a Hello.
    let asked = to_result(unsafe {
        ffi::sdp_ask_ipsec(
            listener.sk(),
            device,
            within_host,
            local.storage(),
            remote.storage(),
        )
    });
    asked.inspect_err(|e| {
        if *e != ENOMEM {
            state.stats.ipsec_refused.inc();
        }
    })
}

/// Whether the addresses in the Hello can be true.
///
/// The Hello's addresses become the names that programs see and trust. A peer may not
/// claim to be local, nor use another address than its GID's.
fn addresses_are_honest(
    request: &Arrived<'_>,
    hello: &Hello,
    port: u16,
    state: &NetState,
    (device, arrival): (c_int, &Arrival),
) -> bool {
    let anonymous = |ip| Addr::new(ip, 0, 0);
    let domain = if arrival.vrf() != 0 { device } else { 0 };
    let is_local = |ip| anonymous(ip).is_local(state.namespace(), domain);
    if !is_local(hello.dst) {
        return false;
    }
    if Addr::is_loopback(hello.dst) || is_local(hello.src) {
        // Both GIDs are part of the message, which any host on the fabric can forge. So
        // a request is from this host only if a socket here has sent it.
        let own = (hello.src, hello.local_port);
        let connecting = state
            .find_connection(own, (hello.dst, port), arrival.space())
            .map(SockRef::from);
        return connecting
            .is_some_and(|sock| sock.look(|inner| inner.asks_from(request.queue_pair())));
    }
    // On RoCE a GID is an address. InfiniBand GIDs say nothing about it.
    if request.is_roce() {
        return Addr::unmap(Ip::V6(request.peer_gid())) == hello.src;
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
            core::ptr::from_ref(local.storage()).cast(),
            core::ptr::from_ref(peer.storage()).cast(),
        )
    }
}

impl Inner {
    /// Whether this socket has sent a Hello for the queue pair of that number.
    fn asks_from(&self, number: u32) -> bool {
        let link = self.link.as_ref();
        self.phase == Phase::Connecting && link.is_some_and(|link| link.qp().number() == number)
    }
}
