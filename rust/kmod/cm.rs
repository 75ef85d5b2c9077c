// SPDX-License-Identifier: GPL-2.0

//! Connection management: from an address to a queue pair that works.
//!
//! rdma_cm resolves the address and the route; the IB connection manager is
//! driven directly, because the Hello needs the private data from offset 0 and
//! rdma_cm refuses SDP's service ids.
//!
//! Contexts: handlers run in workqueues of rdma_cm and ib_cm and may sleep.
//! An identifier is never destroyed from its own handler: the handler returns
//! non-zero and the core does it.

use crate::{
    addr::Addr,
    alarm::Alarm,
    devices,
    endpoint::{
        Inner,
        Phase, //
    },
    engine::{
        conn::{
            Config,
            Connection, //
        },
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
        Shape, //
    },
    net::{
        ports::Claim,
        Knobs,
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

/// One try to resolve an address. The first packet to a cold neighbour may
/// cost a whole try, so tries are short and many; together they last as long
/// as TCP waits before EHOSTUNREACH.
const RESOLVE_TRY_MS: u32 = 200;
const RESOLVE_TRIES: u32 = 16;
const ROUTE_MS: u32 = 2000;

/// Waits of the CM: 4.096 us << 18, about one second a try.
const CM_RESPONSE_TIMEOUT: u8 = 18;
const CM_RETRIES: u8 = 15;

/// Transport retries; the receiver-not-ready one only forgives races, since a
/// sender has credits.
const RETRY_COUNT: u8 = 5;
const RNR_RETRY_COUNT: u8 = 7;

/// Outstanding RDMA Reads.
const READ_DEPTH: u8 = 4;

/// Receive buffers of a connection that was not used yet: with three credits
/// the peer may send one payload message, and then there are more.
const RX_INITIAL: u16 = 3;

/// A resolution under way.
///
/// # Invariants
///
/// `id` is valid, and this value or a running handler destroys it.
pub(crate) struct Resolver {
    id: NonNull<ffi::rdma_cm_id>,
    origin: KBox<Origin>,
    tries: u32,
}

// SAFETY: The identifier may be used from any thread.
unsafe impl Send for Resolver {}

impl Resolver {
    /// For the handler of the identifier, which tells the core to destroy it.
    fn leave_to_core(self) -> KBox<Origin> {
        let this = core::mem::ManuallyDrop::new(self);
        // SAFETY: `this` is never used again, so the box is moved out once.
        unsafe { core::ptr::read(&this.origin) }
    }
}

impl Drop for Resolver {
    fn drop(&mut self) {
        // SAFETY: Valid by the invariant. Waits for a running handler, so no
        // lock that handlers take is held by whoever drops this.
        unsafe { ffi::rdma_destroy_id(self.id.as_ptr()) };
    }
}

fn shape(knobs: &Knobs, sock: &Sock) -> Shape {
    let by_buffer = sock.rcvbuf() / u32::from(knobs.rcv_size.max(1));
    let rx_depth = u16::try_from(by_buffer)
        .unwrap_or(u16::MAX)
        .clamp(RX_INITIAL.saturating_add(1), knobs.rcv_depth.max(4));
    Shape {
        rcv_size: knobs.rcv_size,
        rx_depth,
        send_depth: knobs.send_depth,
    }
}

fn config(shape: &Shape, device: &Device) -> Config {
    Config {
        rcv_size: shape.rcv_size,
        rx_depth: shape.rx_depth,
        rx_initial: RX_INITIAL,
        tx_depth: shape.send_depth,
        max_send_payload: Shape::max_payload(device),
        max_adverts: 1,
    }
}

/// A number of 24 bits to count packets from.
fn random_psn() -> u32 {
    // SAFETY: A plain number.
    unsafe { ffi::sdp_random_u32() & 0x00ff_ffff }
}

fn sockaddr(addr: &Addr) -> ffi::__kernel_sockaddr_storage {
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
    storage
}

/// Starts to resolve the peer of `sock`, which is `Connecting`. With
/// `lock_sock` held.
pub(crate) fn resolve(sock: &Sock, tries: u32) -> Result {
    let (generation, peer, source) =
        sock.look(|inner| (inner.generation(), inner.peer, inner.local));
    let net = sock.net().as_ptr();
    let (dst, src) = if Addr::is_loopback(peer.ip) {
        // No device owns the loopback address: go through one of our own.
        let family = match peer.ip {
            Ip::V4(_) => ffi::AF_INET,
            Ip::V6(_) => ffi::AF_INET6,
        };
        // SAFETY: A socket's namespace is alive.
        let own = unsafe { devices::local_address(net, family) }.map_err(|_| ENETUNREACH)?;
        (own, None)
    } else {
        let anonymous = |addr: Addr| sockaddr(&Addr { port: 0, ..addr });
        (anonymous(peer), Some(anonymous(source)))
    };

    let origin = KBox::new(
        Origin {
            sock: SockRef::of(sock),
            generation,
        },
        GFP_KERNEL,
    )?;
    let context = core::ptr::from_ref(&*origin).cast_mut().cast();
    // SAFETY: The namespace is alive; the origin outlives the identifier.
    let id = unsafe { ffi::sdp_rdma_create_id(net, Some(resolver_cb), context) };
    let id = NonNull::new(kernel::error::from_err_ptr(id)?).ok_or(ENOMEM)?;
    let older = sock.look(|inner| {
        inner.resolver.replace(Resolver {
            id,
            origin,
            tries,
        })
    });
    drop(older);
    let mut dst = dst;
    let mut src = src;
    let src = src
        .as_mut()
        .map_or(core::ptr::null_mut(), |s| (&raw mut *s).cast());
    // SAFETY: The identifier is valid: it is destroyed by a handler at its end
    // only, or under `lock_sock`, which the caller holds.
    let started = to_result(unsafe {
        ffi::rdma_resolve_addr(id.as_ptr(), src, (&raw mut dst).cast(), RESOLVE_TRY_MS as usize)
    });
    if started.is_err() {
        let resolver = sock.look(|inner| inner.resolver.take());
        drop(resolver);
    }
    started.map_err(unresolved_errno)
}

/// What TCP says when there is no way to the peer.
fn unresolved_errno(error: Error) -> Error {
    if error == ENODEV || error == EADDRNOTAVAIL || error == ENOENT {
        // A route, but not over an RDMA device.
        ENETUNREACH
    } else if error == ETIMEDOUT || error == EHOSTUNREACH {
        EHOSTUNREACH
    } else {
        error
    }
}

/// The next try, from the alarm that a failed one set.
pub(crate) fn resolve_again(sock: &Sock) {
    let _call = sock.lock();
    let tries = sock.look(|inner| {
        let waiting = inner.phase == Phase::Connecting && inner.link.is_none();
        (waiting && inner.resolver.is_none()).then_some(inner.resolve_tries)
    });
    let Some(tries) = tries else { return };
    if let Err(e) = resolve(sock, tries) {
        sock.drive(|inner| inner.fail_connect(sock, e));
    }
}

/// Events of the resolving identifier.
unsafe extern "C" fn resolver_cb(
    id: *mut ffi::rdma_cm_id,
    event: *mut ffi::rdma_cm_event,
) -> c_int {
    // SAFETY: Both are valid for the call, and the context is the origin.
    let (kind, status, origin) =
        unsafe { ((*event).event, (*event).status, &*(*id).context.cast::<Origin>()) };
    let sock = origin.sock.clone();
    let generation = origin.generation;
    // Whether the identifier is still ours to end; otherwise whoever took it
    // waits for this handler. It may outlive the attempt it was made for.
    let is_mine = |inner: &Inner| {
        inner
            .resolver
            .as_ref()
            .is_some_and(|r| r.origin.generation == generation)
    };
    let (mine, wanted) = sock.look(|inner| {
        let mine = is_mine(inner);
        (mine, mine && inner.generation() == generation)
    });
    if !mine {
        return 0;
    }
    let outcome = match kind {
        _ if !wanted => Ok(()),
        ffi::rdma_cm_event_type_RDMA_CM_EVENT_ADDR_RESOLVED => {
            // SAFETY: The identifier is valid.
            let next = unsafe { route(&sock, id) };
            if next.is_ok() {
                return 0;
            }
            next
        }
        ffi::rdma_cm_event_type_RDMA_CM_EVENT_ROUTE_RESOLVED => {
            // SAFETY: The identifier is valid and has a route.
            unsafe { request(&sock, generation, id) }
        }
        ffi::rdma_cm_event_type_RDMA_CM_EVENT_ADDR_ERROR => {
            if status == -(ffi::ETIMEDOUT as c_int) || status == -(ffi::ENODATA as c_int) {
                Err(EAGAIN)
            } else {
                Err(Error::from_errno(status))
            }
        }
        ffi::rdma_cm_event_type_RDMA_CM_EVENT_ROUTE_ERROR => Err(ETIMEDOUT),
        ffi::rdma_cm_event_type_RDMA_CM_EVENT_DEVICE_REMOVAL => Err(ENODEV),
        _ => return 0,
    };
    // The identifier has done its work. Bound outside of the lock, because the
    // origin may hold the last reference to the socket.
    let mut spent = None;
    sock.drive(|inner| {
        if !is_mine(inner) {
            return;
        }
        spent = inner.resolver.take();
        if inner.generation() != generation {
            return;
        }
        let tries = spent.as_ref().map_or(0, |r| r.tries);
        match outcome {
            Ok(()) => {}
            Err(e) if e == EAGAIN && tries < RESOLVE_TRIES => {
                inner.resolve_tries = tries.saturating_add(1);
                sock.set_alarm(Alarm::Engine, 0);
            }
            Err(e) if e == EAGAIN => inner.fail_connect(&sock, EHOSTUNREACH),
            Err(e) => inner.fail_connect(&sock, unresolved_errno(e)),
        }
    });
    match spent {
        Some(resolver) => {
            drop(resolver.leave_to_core());
            1
        }
        None => 0,
    }
}

/// The address is resolved: is the device one of this namespace?
///
/// # Safety
///
/// `id` is valid and bound to a device.
unsafe fn route(sock: &Sock, id: *mut ffi::rdma_cm_id) -> Result {
    // SAFETY: By the caller's promise.
    unsafe {
        let attr = (*id).route.addr.dev_addr.sgid_attr;
        if attr.is_null() || !ffi::sdp_gid_attr_in_net(attr, sock.net().as_ptr()) {
            return Err(ENODEV);
        }
        to_result(ffi::rdma_resolve_route(id, ROUTE_MS as usize))
    }
}

/// The route is known: makes the link and sends the Hello.
///
/// # Safety
///
/// `id` is valid and its route is resolved.
unsafe fn request(sock: &SockRef, generation: u64, id: *mut ffi::rdma_cm_id) -> Result {
    // SAFETY: By the caller's promise; in a handler the device stays.
    let device = unsafe { devices::find((*id).device) }.ok_or(ENODEV)?;
    let device = &device;
    let shape = shape(&sock.net().knobs(), sock).fit(device);
    let mut link = Link::new(
        device,
        Origin {
            sock: sock.clone(),
            generation,
        },
        &shape,
    )?;
    // SAFETY: The device is leased by the link; its origin is the context.
    let cm = unsafe {
        ffi::ib_create_cm_id(device.as_ptr(), Some(connection_cb), link.context())
    };
    let cm = NonNull::new(kernel::error::from_err_ptr(cm)?).ok_or(ENOMEM)?;
    // SAFETY: Just created.
    link.cm = Some(unsafe { CmId::from_raw(cm) });

    let mut unused = None;
    let sent = sock.drive(|inner| {
        if inner.generation() != generation || inner.phase != Phase::Connecting {
            unused = Some(link);
            return Ok(());
        }
        let mut engine = Connection::connecting(config(&shape, device));
        // SAFETY: The identifier has a route.
        let (port, pkey) = unsafe { ((*id).port_num, (*(*id).route.path_rec).pkey) };
        let posted = link
            .qp()
            .initialise(port, pkey)
            .map(|()| link.post_receives(RX_INITIAL));
        let sent = posted.and_then(|posted| {
            engine.on_receives_posted(posted);
            let hello = engine
                .hello(inner.local.ip, inner.peer.ip, inner.local.port)
                .map_err(|_| ENOMEM)?;
            // SAFETY: The route is resolved and outlives the call.
            unsafe { send_request(&link, id, inner.peer.port, &hello) }
        });
        let sent = if link.qp().device().is_leaving() {
            Err(ENODEV)
        } else {
            sent
        };
        inner.link = Some(link);
        inner.engine = Some(engine);
        if sent.is_err() {
            inner.retire_link(sock);
            inner.engine = None;
        }
        sent
    });
    if let Some(link) = unused {
        link.destroy();
    }
    sent
}

/// # Safety
///
/// `id` has a resolved route.
unsafe fn send_request(
    link: &Link,
    id: *mut ffi::rdma_cm_id,
    port: u16,
    hello: &[u8; HELLO_LEN],
) -> Result {
    let cm = link.cm.as_ref().ok_or(EINVAL)?;
    let service = u64::from(ffi::SDP_SERVICE_ID_BASE).wrapping_add(port.into());
    // SAFETY: By the caller's promise.
    let mut param = unsafe {
        ffi::ib_cm_req_param {
            primary_path: (*id).route.path_rec,
            ppath_sgid_attr: (*id).route.addr.dev_addr.sgid_attr,
            service_id: service.to_be(),
            qp_num: link.qp().number(),
            qp_type: ffi::ib_qp_type_IB_QPT_RC,
            starting_psn: random_psn(),
            private_data: hello.as_ptr().cast(),
            private_data_len: hello.len() as u8,
            responder_resources: READ_DEPTH,
            initiator_depth: READ_DEPTH,
            remote_cm_response_timeout: CM_RESPONSE_TIMEOUT,
            local_cm_response_timeout: CM_RESPONSE_TIMEOUT,
            flow_control: 0,
            retry_count: RETRY_COUNT,
            rnr_retry_count: RNR_RETRY_COUNT,
            max_cm_retries: CM_RETRIES,
            ..pin_init::zeroed()
        }
    };
    // SAFETY: The identifier is ours, the parameters are read during the call.
    to_result(unsafe { ffi::ib_send_cm_req(cm.as_ptr(), &mut param) })
}

/// Events of a connection, active or passive.
pub(crate) unsafe extern "C" fn connection_cb(
    id: *mut ffi::ib_cm_id,
    event: *const ffi::ib_cm_event,
) -> c_int {
    // SAFETY: Both are valid for the call; the context is the origin, which
    // lives until the identifier is destroyed.
    let (kind, origin) = unsafe { ((*event).event, &*(*id).context.cast::<Origin>()) };
    let sock = &origin.sock;
    let generation = origin.generation;
    match kind {
        ffi::ib_cm_event_type_IB_CM_REP_RECEIVED => {
            // SAFETY: A REP carries 196 bytes of private data.
            let data = unsafe { private_data(event, HELLO_ACK_LEN) };
            sock.drive(|inner| {
                if inner.is_current(generation) {
                    inner.on_reply(sock, data);
                }
            });
        }
        ffi::ib_cm_event_type_IB_CM_RTU_RECEIVED
        | ffi::ib_cm_event_type_IB_CM_USER_ESTABLISHED => established(sock, generation),
        ffi::ib_cm_event_type_IB_CM_REJ_RECEIVED => {
            // SAFETY: The event is a rejection.
            let reason = unsafe { (*event).param.rej_rcvd.reason };
            sock.drive(|inner| {
                if inner.is_current(generation) {
                    inner.on_rejected(sock, reason);
                }
            });
        }
        ffi::ib_cm_event_type_IB_CM_REQ_ERROR | ffi::ib_cm_event_type_IB_CM_REP_ERROR => {
            sock.drive(|inner| {
                if inner.is_current(generation) {
                    inner.on_unanswered(sock);
                }
            });
        }
        ffi::ib_cm_event_type_IB_CM_DREQ_RECEIVED => {
            // SAFETY: The identifier is valid in its handler. An error means
            // that the CM is past it.
            unsafe { ffi::ib_send_cm_drep(id, core::ptr::null(), 0) };
            peer_disconnects(sock, generation);
        }
        ffi::ib_cm_event_type_IB_CM_DREP_RECEIVED
        | ffi::ib_cm_event_type_IB_CM_DREQ_ERROR
        | ffi::ib_cm_event_type_IB_CM_TIMEWAIT_EXIT => sock.drive(|inner| {
            if inner.is_current(generation) {
                if let Some(engine) = inner.engine.as_mut() {
                    engine.handle_disconnected();
                }
            }
        }),
        _ => {}
    }
    0
}

/// # Safety
///
/// The event carries at least `len` bytes of private data.
unsafe fn private_data<'a>(event: *const ffi::ib_cm_event, len: usize) -> &'a [u8] {
    // SAFETY: By the caller's promise.
    unsafe {
        let data: *const u8 = (*event).private_data.cast();
        if data.is_null() {
            return &[];
        }
        core::slice::from_raw_parts(data, len)
    }
}

/// DREQ: the connection is over, but messages that came before it may still
/// lie in the completion queue, which DREQ overtakes.
fn peer_disconnects(sock: &SockRef, generation: u64) {
    let drain = sock.look(|inner| {
        let link = inner.link.as_mut()?;
        (link.generation() == generation).then(|| {
            link.draining = true;
            link.qp().drain()
        })
    });
    let Some(drain) = drain else { return };
    // SAFETY: A link is destroyed after its CM identifier, and destroying that
    // waits for this handler.
    unsafe { drain.run() };
    sock.drive(|inner| {
        if inner.is_current(generation) {
            if let Some(engine) = inner.engine.as_mut() {
                engine.handle_disconnect_requested();
            }
        }
    });
}

/// The passive side is established: hands the connection to its listener.
fn established(sock: &SockRef, generation: u64) {
    let listener = sock.drive(|inner| {
        if !inner.is_current(generation) {
            return None;
        }
        if let Some(engine) = inner.engine.as_mut() {
            engine.handle_established();
        }
        inner.parent.take()
    });
    let Some(listener) = listener else { return };
    let queued = listener.drive(|inner| {
        let Some(l) = inner.listener.as_mut() else { return false };
        l.pending = l.pending.saturating_sub(1);
        let queued = l.ready.push(sock.clone(), GFP_KERNEL).is_ok();
        inner.wake().readable = queued;
        queued
    });
    if queued {
        sock.net().stats.passive_opens.inc();
    } else {
        sock.drive(|inner| inner.abandon(sock));
    }
}

/// How a Hello is turned away.
enum Refusal {
    /// REJ: the peer's connect() fails with ECONNREFUSED.
    Refuse,
    /// Nothing: the peer's CM tries again.
    Drop,
}

impl From<Error> for Refusal {
    fn from(_: Error) -> Self {
        Refusal::Drop
    }
}

/// A Hello for one of our service ids.
pub(crate) unsafe extern "C" fn request_cb(
    id: *mut ffi::ib_cm_id,
    event: *const ffi::ib_cm_event,
) -> c_int {
    // SAFETY: Both are valid for the call.
    if unsafe { (*event).event } != ffi::ib_cm_event_type_IB_CM_REQ_RECEIVED {
        return 0;
    }
    // SAFETY: As above, and it is a request.
    match unsafe { incoming(id, event) } {
        Ok(()) => 0,
        // The CM rejects with "consumer defined" for every error but this one.
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
    // SAFETY: By the caller's promise; in a handler the device stays.
    let device = unsafe { devices::find((*id).device) }.ok_or(Refusal::Refuse)?;
    // SAFETY: A REQ carries 92 bytes of private data.
    let hello = Hello::parse(unsafe { private_data(event, HELLO_LEN) });
    // SAFETY: Valid identifier.
    let service = u64::from_be(unsafe { (*id).service_id });
    let port = (service & 0xffff) as u16;
    // SAFETY: Valid event; the address is only read.
    let net = unsafe {
        let dst = hello.as_ref().map(|h| h.dst).unwrap_or(Ip::V4([0; 4]));
        let dst = sockaddr(&Addr { ip: dst, port, scope: 0 });
        ffi::sdp_cm_req_net(id, event, (&raw const dst).cast())
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
    let honest = unsafe { addresses_are_honest(id, event, &hello, net.0.as_ptr()) };
    let listener = honest
        .then(|| state.find_listener(hello.dst, port))
        .flatten();
    let Some(listener) = listener else {
        state.stats.hellos_refused.inc();
        return Err(Refusal::Refuse);
    };
    let admitted = listener.look(|inner| {
        let l = inner.listener.as_mut()?;
        let used = u32::try_from(l.ready.len()).unwrap_or(u32::MAX).saturating_add(l.pending);
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
        let entry = (u32::from(req.port), (*req.primary_path).pkey);
        embryo(id, &device, &listener, &hello, port, entry)
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
/// `event` is a connection request that came with `id`, `net` is alive.
unsafe fn addresses_are_honest(
    id: *mut ffi::ib_cm_id,
    event: *const ffi::ib_cm_event,
    hello: &Hello,
    net: *mut ffi::net,
) -> bool {
    // SAFETY: By the caller's promise.
    let (own, peer) = unsafe {
        let path = (*event).param.req_rcvd.primary_path;
        ((*path).sgid.raw, (*path).dgid.raw)
    };
    let is_local = |ip| {
        let addr = Addr { ip, port: 0, scope: 0 };
        // SAFETY: By the caller's promise.
        unsafe { addr.is_local(net) }
    };
    if !is_local(hello.dst) {
        return false;
    }
    if Addr::is_loopback(hello.src) || Addr::is_loopback(hello.dst) {
        return own == peer && is_local(hello.src);
    }
    // On RoCE a GID is an address. InfiniBand GIDs say nothing about it.
    // SAFETY: By the caller's promise.
    let roce = unsafe { ffi::sdp_cm_req_is_roce(id, event) };
    !roce || Addr::unmap(Ip::V6(peer)) == hello.src || own == peer && is_local(hello.src)
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
    port: u16,
    (hca_port, pkey): (u32, u16),
) -> Result {
    let (family, options) = listener.look(|inner| (inner.family, inner.options));
    let state = listener.net();
    // SAFETY: The listener keeps the namespace alive.
    let sock = unsafe { Sock::create(state.as_ptr(), core::ptr::null_mut(), family) }?;
    // SAFETY: Both are valid sockets.
    unsafe { ffi::sdp_sock_inherit(sock.sk(), listener.sk()) };
    let claim = Claim {
        ip: hello.dst,
        dual: false,
        // SAFETY: A single word of a valid socket.
        reuse: unsafe { ffi::sdp_sock_reuse(listener.sk()) },
    };
    let lease = state.share_port(&sock, port, &claim)?;
    let shape = shape(&state.knobs(), &sock).fit(device);
    let generation = sock.look(|inner| inner.next_generation());
    let mut link = Link::new(
        device,
        Origin {
            sock: sock.clone(),
            generation,
        },
        &shape,
    )?;
    let id = NonNull::new(id).ok_or(EINVAL)?;
    // SAFETY: The identifier is new and ours as long as we return success.
    unsafe {
        (*id.as_ptr()).context = link.context();
        (*id.as_ptr()).cm_handler = Some(connection_cb);
        link.cm = Some(CmId::from_raw(id));
    }
    let reply = Reply {
        starting_psn: random_psn(),
        read_depth: READ_DEPTH,
    };
    let mut failed = None;
    let answered = sock.drive(|inner| {
        inner.family = family;
        inner.options = options;
        inner.phase = Phase::Connected;
        inner.local = Addr { ip: hello.dst, port, scope: 0 };
        inner.peer = Addr {
            ip: hello.src,
            port: hello.local_port,
            scope: 0,
        };
        inner.bound_ip = true;
        inner.port = Some(lease);
        let mut engine = Connection::accepting(config(&shape, device), hello);
        inner.options.tell(&mut engine);
        let answered = link
            .qp()
            .initialise(hca_port, pkey)
            .and_then(|()| {
                engine.on_receives_posted(link.post_receives(RX_INITIAL));
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
        link.destroy();
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
        responder_resources: reply.read_depth,
        initiator_depth: reply.read_depth,
        rnr_retry_count: RNR_RETRY_COUNT,
        ..pin_init::zeroed()
    };
    // SAFETY: The identifier is ours, the parameters are read during the call.
    to_result(unsafe { ffi::ib_send_cm_rep(cm.as_ptr(), &mut param) })
}

impl Inner {
    /// REP: the peer's HelloAck.
    fn on_reply(&mut self, sock: &Sock, data: &[u8]) {
        let (Some(link), Some(engine)) = (self.link.as_mut(), self.engine.as_mut()) else {
            return;
        };
        if self.phase != Phase::Connecting {
            return;
        }
        let ready = link
            .modify(ffi::ib_qp_state_IB_QPS_RTR, None)
            .and_then(|()| link.modify(ffi::ib_qp_state_IB_QPS_RTS, None));
        if let Err(e) = ready {
            return self.fail_connect(sock, e);
        }
        if engine.handle_hello_ack(data).is_err() {
            sock.net().stats.violations.inc();
            if let Some(cm) = link.cm.as_ref() {
                // SAFETY: The identifier is ours.
                unsafe {
                    ffi::ib_send_cm_rej(
                        cm.as_ptr(),
                        ffi::ib_cm_rej_reason_IB_CM_REJ_CONSUMER_DEFINED,
                        core::ptr::null_mut(),
                        0,
                        core::ptr::null(),
                        0,
                    )
                };
            }
            return self.fail_connect(sock, ECONNREFUSED);
        }
        self.options.tell(engine);
        let sent = link.cm.as_ref().map(|cm| {
            // SAFETY: The identifier is ours.
            to_result(unsafe { ffi::ib_send_cm_rtu(cm.as_ptr(), core::ptr::null(), 0) })
        });
        match sent {
            Some(Ok(())) => {
                self.phase = Phase::Connected;
                sock.net().stats.active_opens.inc();
                self.start_keepalive(sock);
            }
            _ => self.fail_connect(sock, ECONNREFUSED),
        }
    }

    /// REJ, of our Hello or of our HelloAck.
    fn on_rejected(&mut self, sock: &Sock, reason: ffi::ib_cm_rej_reason) {
        if self.phase == Phase::Connecting {
            let error = match reason {
                // The peer's CM gave up to wait for its SDP.
                ffi::ib_cm_rej_reason_IB_CM_REJ_TIMEOUT => ETIMEDOUT,
                _ => ECONNREFUSED,
            };
            self.fail_connect(sock, error);
        } else if let Some(engine) = self.engine.as_mut() {
            engine.handle_disconnect_requested();
        }
    }

    /// Nobody answered our Hello or our HelloAck.
    fn on_unanswered(&mut self, sock: &Sock) {
        if self.phase == Phase::Connecting {
            self.fail_connect(sock, ETIMEDOUT);
        } else if let Some(engine) = self.engine.as_mut() {
            engine.handle_link_failed();
        }
    }

    /// connect() has failed; the socket can try again.
    pub(crate) fn fail_connect(&mut self, sock: &Sock, error: Error) {
        sock.net().stats.failed_opens.inc();
        sock.set_err(error);
        self.retire_link(sock);
        self.engine = None;
        self.phase = Phase::Idle;
        self.next_generation();
        sock.set_tcp_state(ffi::TCP_CLOSE);
        // Until the next connect() there is nothing to read or to write.
        sock.add_shutdown(ffi::SHUTDOWN_MASK);
        self.wake().hangup = true;
        self.wake().error = true;
    }

    /// Ends a connection that nobody will ever use.
    pub(crate) fn abandon(&mut self, sock: &Sock) {
        self.orphan = true;
        if let Some(engine) = self.engine.as_mut() {
            engine.close_receive();
            engine.abort();
        } else {
            self.finish(sock);
        }
    }

    /// The device of the link is about to go.
    pub(crate) fn on_device_removed(&mut self, sock: &Sock, ib: *mut ffi::ib_device) {
        let on_it = self
            .link
            .as_ref()
            .is_some_and(|link| link.qp().device().as_ptr() == ib);
        if !on_it {
            return;
        }
        sock.net().stats.device_removals.inc();
        if self.phase == Phase::Connecting {
            return self.fail_connect(sock, ENETUNREACH);
        }
        if let Some(engine) = self.engine.as_mut() {
            engine.handle_link_failed();
        }
        self.settle(sock);
        if self.link.is_some() {
            self.finish(sock);
        }
    }
}
