// SPDX-License-Identifier: GPL-2.0

//! The passive side: a Hello comes in, and a listener is found for it.
//! [`super::answer`] does the rest.

use crate::{
    addr::Addr,
    cm::{
        answer::{
            dismiss,
            Request, //
        },
        sockaddr, //
    },
    devices,
    endpoint::{
        Inner,
        Phase, //
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
    object::SockRef,
    prelude::*,
    rdma::cm::{
        Arrived,
        OnRequest,
        Refusal, //
    }, //
};

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
    let dst = sockaddr(&Addr {
        ip: hello.as_ref().map(|h| h.dst).unwrap_or(Ip::V4([0; 4])),
        port,
        scope: 0,
    });
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
    // As with TCP, a connection from this host to another of its addresses has come in
    // by the interface of that address.
    let arrival = if Addr::is_loopback(hello.dst) {
        Arrival::new(state, LOOPBACK_INDEX)
    } else {
        Arrival::new(state, device_index)
    };
    let honest = addresses_are_honest(request, &hello, port, state, (device_index, &arrival));
    let listener = honest
        .then(|| state.find_listener((hello.dst, port), &arrival, (hello.src, hello.local_port)))
        .flatten()
        .map(SockRef::from);
    let Some(listener) = listener else {
        state.stats.hellos_refused.inc();
        return Err(Refusal::Refuse);
    };
    if listener.is_memory_out() {
        state.stats.hellos_dropped.inc();
        return Err(Refusal::Drop);
    }
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
            // It has stopped listening just now.
            state.stats.hellos_refused.inc();
            return Err(Refusal::Refuse);
        }
    }
    let way = (port, device_index, arrival.vrf());
    let taken = Request::take(request, device, &listener, hello, way);
    if taken.is_err() {
        dismiss(&listener);
    }
    Ok(taken?)
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
    let anonymous = |ip| Addr {
        ip,
        port: 0,
        scope: 0,
    };
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
