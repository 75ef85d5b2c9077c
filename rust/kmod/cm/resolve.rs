// SPDX-License-Identifier: GPL-2.0

//! The route to the peer: address, device, route, resolved by rdma_cm.

use crate::{
    addr::Addr,
    alarm::Alarm,
    cm::{
        active,
        sockaddr,
        way::Way, //
    },
    devices,
    endpoint::{
        Inner,
        Phase, //
    },
    engine::types::Ip,
    ffi,
    link::Origin,
    object::{
        Sock,
        SockRef, //
    },
    prelude::*, //
};
use core::ptr::NonNull;
use kernel::error::to_result;

/// One try to resolve an address. The first packet to a cold neighbour may
/// cost a whole try, so tries are short and many; together they last as long
/// as TCP waits before EHOSTUNREACH.
const RESOLVE_TRY_MS: u32 = 200;
const RESOLVE_TRIES: u32 = 16;
const ROUTE_MS: u32 = 2000;

/// A resolution in progress.
///
/// # Invariants
///
/// `id` is valid, and this value or a running handler destroys it.
pub(crate) struct Resolver {
    id: NonNull<ffi::rdma_cm_id>,
    origin: KBox<Origin>,
    tries: u32,
    /// The address being resolved is the next hop, not the peer.
    through: bool,
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
        // SAFETY: Valid by the invariant. The call waits for a running handler, so a
        // caller holds no lock that handlers take.
        unsafe { ffi::rdma_destroy_id(self.id.as_ptr()) };
    }
}

/// Starts to resolve the peer of `sock`, which is `Connecting`.
///
/// # Safety
///
/// The caller holds `lock_sock`.
pub(crate) unsafe fn start(sock: &Sock, tries: u32) -> Result {
    let (generation, peer, source, class) = sock.look(|inner| {
        let class = inner.options.service_class(inner.peer.ip);
        (inner.generation(), inner.peer, inner.local, class)
    });
    let net = sock.net().as_ptr();
    let mut device = 0;
    let mut through = false;
    let (dst, src) = if Addr::is_loopback(peer.ip) {
        // No device owns the loopback address: use a device of this namespace.
        let family = match peer.ip {
            Ip::V4(_) => ffi::AF_INET,
            Ip::V6(_) => ffi::AF_INET6,
        };
        // SAFETY: A socket's namespace is alive.
        let own = unsafe { devices::local_address(net, family) }.map_err(|_| ENETUNREACH)?;
        (own, None)
    } else {
        let anonymous = |addr: Addr| sockaddr(&Addr { port: 0, ..addr });
        let way = Way::find(sock, &peer, &source)?;
        device = way.device;
        through = way.next.is_some();
        let to = way.next.unwrap_or_else(|| anonymous(peer));
        (to, Some(anonymous(source)))
    };

    let origin = KBox::new(
        Origin {
            sock: SockRef::of(sock),
            generation,
        },
        GFP_KERNEL,
    )?;
    let context = core::ptr::from_ref(&*origin).cast_mut().cast();
    // SAFETY: A socket's namespace is alive; the origin outlives the identifier, by which no
    // event comes once it is destroyed.
    let id = unsafe { ffi::sdp_rdma_create_id(net, Some(resolver_cb), context) };
    let id = NonNull::new(kernel::error::from_err_ptr(id)?).ok_or(ENOMEM)?;
    if class != 0 {
        // Without a service type, the device uses the administrator's default.
        // SAFETY: The identifier is new and ours.
        unsafe { ffi::rdma_set_service_type(id.as_ptr(), class.into()) };
    }
    // SAFETY: The identifier is new and ours.
    unsafe { ffi::sdp_way_set_device(id.as_ptr(), device) };
    let resolver = Resolver {
        id,
        origin,
        tries,
        through,
    };
    let older = sock.look(|inner| inner.resolver.replace(resolver));
    drop(older);
    let mut dst = dst;
    let mut src = src;
    if let (Some(src), Ip::V6(_)) = (src.as_mut(), peer.ip) {
        // SAFETY: The address is one of IPv6, as that of the peer is: both are of one way.
        unsafe { ffi::sdp_addr_set_class((&raw mut *src).cast(), class) };
    }
    let src = src
        .as_mut()
        .map_or(core::ptr::null_mut(), |s| (&raw mut *s).cast());
    let started = {
        let _starting = sock.starting().lock();
        // SAFETY: The identifier is valid: it is destroyed under `lock_sock`,
        // which the caller holds, or by a handler at its end. No event but the
        // device's removal can come before the query is queued, and that one
        // waits for `starting`.
        unsafe { query(id, src, (&raw mut dst).cast()) }
    };
    if started.is_err() {
        let resolver = sock.look(|inner| inner.resolver.take());
        drop(resolver);
    }
    started.map_err(unresolved_errno)
}

/// Has rdma_cm resolve `dst`, from `src` if that is not null.
///
/// The source address binds the identifier to its device, and from then on the device
/// may be removed. A separate call binds it, because an identifier whose device goes
/// between the two halves of `rdma_resolve_addr` causes a warning there. Between the
/// two calls the same removal gives EINVAL, which has no other cause here.
///
/// # Safety
///
/// `id` is valid and new, and stays for the call; the addresses are valid.
unsafe fn query(
    id: NonNull<ffi::rdma_cm_id>,
    src: *mut ffi::sockaddr,
    dst: *mut ffi::sockaddr,
) -> Result {
    // SAFETY: The identifier is new and stays, and the addresses are valid, by the caller's
    // promise.
    unsafe {
        if !src.is_null() {
            to_result(ffi::rdma_bind_addr(id.as_ptr(), src))?;
        }
        to_result(ffi::rdma_resolve_addr(
            id.as_ptr(),
            src,
            dst,
            RESOLVE_TRY_MS as usize,
        ))
    }
    .map_err(|e| if e == EINVAL { ENODEV } else { e })
}

/// TCP's error if there is no route to the peer, or no device for it.
fn unresolved_errno(error: Error) -> Error {
    if error == ENODEV || error == EADDRNOTAVAIL || error == ENOENT {
        // A route, but not over an RDMA device.
        ENETUNREACH
    } else if error == ETIMEDOUT || error == EHOSTUNREACH {
        EHOSTUNREACH
    } else if error == EINVAL || error == EBUSY || error == ENOSPC {
        // Drivers return this when the device has no more queue pairs.
        ENOBUFS
    } else {
        error
    }
}

/// The next try, from the alarm that a failed one set.
pub(crate) fn again(sock: &Sock) {
    let _call = sock.lock();
    let tries = sock.look(|inner| {
        let waiting = inner.phase == Phase::Connecting && inner.link.is_none();
        (waiting && inner.resolver.is_none()).then_some(inner.resolve_tries)
    });
    let Some(tries) = tries else { return };
    // SAFETY: `_call` has it.
    if let Err(e) = unsafe { start(sock, tries) } {
        sock.drive(|inner| inner.fail_connect(sock, e));
    }
}

/// Events of the resolving identifier.
///
/// # Safety
///
/// Called from C, with the arguments that the slot it stands in promises.
unsafe extern "C" fn resolver_cb(
    id: *mut ffi::rdma_cm_id,
    event: *mut ffi::rdma_cm_event,
) -> c_int {
    // SAFETY: Both are valid for the call. The context is the origin, which is there as long
    // as handlers run, by the drop of `Resolver` and the end of this one.
    let (kind, status, origin) = unsafe {
        (
            (*event).event,
            (*event).status,
            &*(*id).context.cast::<Origin>(),
        )
    };
    let sock = origin.sock.clone();
    let generation = origin.generation;
    // Whether this handler has to end the identifier. Otherwise another task has taken
    // it and waits for this handler. The identifier may outlive its attempt.
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
    if kind == ffi::rdma_cm_event_type_RDMA_CM_EVENT_DEVICE_REMOVAL {
        // The core may have reported the removal before its query was queued. If the
        // identifier were destroyed then, nobody would cancel the query.
        drop(sock.starting().lock());
    }
    let outcome = match kind {
        _ if !wanted => Ok(()),
        ffi::rdma_cm_event_type_RDMA_CM_EVENT_ADDR_RESOLVED => {
            // SAFETY: The identifier is valid in its handler, and bound, since its address is
            // resolved.
            let next = unsafe { route(&sock, id) };
            if next.is_ok() {
                return 0;
            }
            next
        }
        ffi::rdma_cm_event_type_RDMA_CM_EVENT_ROUTE_RESOLVED => {
            // SAFETY: The identifier is valid in its handler, and has a route.
            unsafe { active::request(&sock, generation, id) }
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
    // The identifier is no longer needed. Dropped outside of the lock, because the
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

/// The address is resolved: checks that the device belongs to this namespace, and
/// resolves the route.
///
/// # Safety
///
/// `id` is valid and bound to a device.
unsafe fn route(sock: &Sock, id: *mut ffi::rdma_cm_id) -> Result {
    // SAFETY: The identifier is valid and bound, by the caller's promise; a socket's
    // namespace is alive.
    unsafe {
        let net = sock.net().as_ptr();
        let (peer, through) = sock.look(|inner| {
            let resolver = inner.resolver.as_ref();
            (inner.peer, resolver.is_some_and(|r| r.through))
        });
        if through {
            ffi::sdp_way_set_peer(id, &sockaddr(&Addr { port: 0, ..peer }));
        }
        // Within the host any device is good.
        let device = if Addr::is_loopback(peer.ip) || peer.is_local(net, sock.device()) {
            0
        } else {
            sock.device()
        };
        if !ffi::sdp_way_is_in_net(id, net, device) {
            return Err(ENODEV);
        }
        to_result(ffi::rdma_resolve_route(id, ROUTE_MS as usize))
    }
}
