// SPDX-License-Identifier: GPL-2.0

//! The passive side: a Hello comes in, and a listener is found for it.
//! [`super::answer`] does the rest.

use crate::{
    addr::Addr,
    cm::{
        answer::{
            dismiss,
            PeerReads,
            Request, //
        },
        private_data,
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
    net::{
        ports::Arrival,
        NetState, //
    },
    object::SockRef,
    prelude::*, //
};
use core::ptr::NonNull;

/// The index of the loopback interface, in every namespace.
const LOOPBACK_INDEX: c_int = 1;

/// The ways to refuse a Hello.
enum Refusal {
    /// REJ: the peer's connect() fails with ECONNREFUSED.
    Refuse,
    /// Nothing: the peer's CM tries again.
    Drop,
}

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
        // The peer requests a datagram service: the CM rejects it and destroys the
        // identifier.
        return -(ffi::EINVAL as c_int);
    }
    // SAFETY: Both are valid for the call, and the event is a request, which came with `id`.
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
    // SAFETY: The identifier is valid, by the caller's promise.
    let device = devices::find(unsafe { (*id).device }).ok_or(Refusal::Refuse)?;
    // SAFETY: A REQ carries 92 bytes of private data, and its handler runs.
    let hello = Hello::parse(unsafe { private_data(event, HELLO_LEN) }).and_then(|hello| {
        Connection::check_rcv_size(hello.local_rcv_size, MAX_PAYLOAD)?;
        Ok(hello)
    });
    // SAFETY: The identifier is valid, by the caller's promise.
    let service = u64::from_be(unsafe { (*id).service_id });
    let port = (service & 0xffff) as u16;
    let mut device_index = 0;
    // SAFETY: Identifier and event are valid, and belong together, by the caller's promise;
    // the address is only read.
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
    // SAFETY: The namespace is held as long as `net`.
    let state = unsafe { NetState::of(net.0.as_ptr()) };
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
    // SAFETY: A request of a connection and its identifier, by the caller's promise.
    let honest =
        unsafe { addresses_are_honest(id, event, &hello, port, state, (device_index, &arrival)) };
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
    // SAFETY: A request of a connection, and its new identifier, by the caller's promise.
    let taken = unsafe {
        let req = &(*event).param.req_rcvd;
        let reads = PeerReads {
            begins: req.responder_resources,
            answers: req.initiator_depth,
        };
        let way = (port, device_index, arrival.vrf());
        Request::take(id, device, &listener, hello, way, reads)
    };
    if taken.is_err() {
        dismiss(&listener);
    }
    Ok(taken?)
}

/// Whether the addresses in the Hello can be true.
///
/// The Hello's addresses become the names that programs see and trust. A peer may not
/// claim to be local, nor use another address than its GID's.
///
/// # Safety
///
/// `event` is a connection request that came with `id`, by the interface `device`.
unsafe fn addresses_are_honest(
    id: *mut ffi::ib_cm_id,
    event: *const ffi::ib_cm_event,
    hello: &Hello,
    port: u16,
    state: &NetState,
    (device, arrival): (c_int, &Arrival),
) -> bool {
    // SAFETY: The event is a request, by the caller's promise, and has a path.
    let (gid, number) = unsafe {
        let req = &(*event).param.req_rcvd;
        ((*req.primary_path).dgid.raw, req.remote_qpn)
    };
    let anonymous = |ip| Addr {
        ip,
        port: 0,
        scope: 0,
    };
    let domain = if arrival.vrf() != 0 { device } else { 0 };
    // SAFETY: The namespace is alive.
    let is_local = |ip| unsafe { anonymous(ip).is_local(state.as_ptr(), domain) };
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
        return connecting.is_some_and(|sock| sock.look(|inner| inner.asks_from(number)));
    }
    // On RoCE a GID is an address. InfiniBand GIDs say nothing about it.
    // SAFETY: A request and its identifier, by the caller's promise.
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
    /// Whether this socket has sent a Hello for the queue pair of that number.
    fn asks_from(&self, number: u32) -> bool {
        let link = self.link.as_ref();
        self.phase == Phase::Connecting && link.is_some_and(|link| link.qp().number() == number)
    }
}
