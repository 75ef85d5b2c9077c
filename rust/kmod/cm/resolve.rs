// SPDX-License-Identifier: GPL-2.0

//! The route to the peer: address, device, route, resolved by rdma_cm.

use crate::{
    addr::Addr,
    alarm::Alarm,
    cm::{
        active,
        resolver::{
            Attempt,
            Resolver, //
        },
        way::{
            sockaddr,
            Way, //
        },
    },
    devices,
    endpoint::{
        Inner,
        Phase, //
    },
    engine::types::Ip,
    errno,
    ffi,
    handle::Origin,
    object::{
        Sock,
        SockRef, //
    },
    prelude::*,
    rdma::route::{
        Bound,
        Event,
        OnResolved, //
    }, //
};

/// One try to resolve an address. The first packet to a cold neighbour may
/// cost a whole try, so tries are short and many; together they last as long
/// as TCP waits before EHOSTUNREACH.
const RESOLVE_TRY_MS: u32 = 200;
const RESOLVE_TRIES: u32 = 16;
const ROUTE_MS: u32 = 2000;

/// Starts to resolve the peer of `sock`, which is `Connecting`. With `lock_sock`, which
/// keeps other calls from ending the attempt.
pub(crate) fn start(sock: &Sock, tries: u32) -> Result {
    let (generation, peer, source, class) = sock.look(|inner| {
        let class = inner.options.service_class(inner.peer.ip);
        (inner.generation(), inner.peer, inner.local, class)
    });
    let net = sock.net().namespace();
    let mut device = 0;
    let mut through = false;
    let (dst, src) = if Addr::is_loopback(peer.ip) {
        // No device owns the loopback address: use a device of this namespace.
        let family = match peer.ip {
            Ip::V4(_) => ffi::AF_INET,
            Ip::V6(_) => ffi::AF_INET6,
        };
        let own = devices::local_address(net, family).map_err(|_| ENETUNREACH)?;
        (own, None)
    } else {
        let anonymous = |addr: Addr| sockaddr(&Addr { port: 0, ..addr });
        let way = Way::find(sock, &peer, &source)?;
        device = way.device;
        through = way.next.is_some();
        let to = way.next.unwrap_or_else(|| anonymous(peer));
        (to, Some(anonymous(source)))
    };

    let attempt = Attempt {
        origin: Origin {
            sock: SockRef::of(sock),
            generation,
        },
        tries,
        through,
    };
    // Without a class, the device uses the administrator's default.
    let resolver = Resolver::new(net, attempt, class, device)?;
    let query = resolver.query();
    let older = sock.look(|inner| inner.resolving.resolver.replace(resolver));
    drop(older);
    let mut src = src;
    if let (Some(src), Ip::V6(_)) = (src.as_mut(), peer.ip) {
        let src = core::ptr::from_mut(src.storage_mut()).cast();
        // SAFETY: The address is one of IPv6, like the peer's: both belong to one route.
        unsafe { ffi::sdp_addr_set_class(src, class) };
    }
    let started = query.start(src, dst, RESOLVE_TRY_MS);
    if started.is_err() {
        let resolver = sock.look(|inner| inner.resolving.stop());
        drop(resolver);
    }
    started.map_err(errno::of_unresolved)
}

/// The next try, from the alarm that a failed one set.
pub(crate) fn again(sock: &Sock) {
    let Some(_call) = sock.lock_or_defer(Alarm::Engine) else {
        return;
    };
    let tries = sock.look(|inner| {
        let waiting = inner.phase == Phase::Connecting && inner.link.is_none();
        let resolving = &inner.resolving;
        (waiting && resolving.resolver.is_none()).then_some(resolving.tries)
    });
    let Some(tries) = tries else { return };
    if let Err(e) = start(sock, tries) {
        sock.drive(|inner| inner.fail_connect(sock, e));
    }
}

impl OnResolved for Attempt {
    fn on_event(&self, event: Event<'_>) -> Option<Resolver> {
        let sock = self.origin.sock.clone();
        let generation = self.origin.generation;
        // Whether this handler has to end the identifier. Otherwise another task has taken
        // it and waits for this handler. The identifier may outlive its attempt.
        let is_mine = |inner: &Inner| {
            inner
                .resolving
                .resolver
                .as_ref()
                .is_some_and(|r| r.context().origin.generation == generation)
        };
        let (mine, wanted) = sock.look(|inner| {
            let mine = is_mine(inner);
            (mine, mine && inner.generation() == generation)
        });
        if !mine {
            return None;
        }
        let outcome = match event {
            _ if !wanted => Ok(()),
            Event::AddressResolved(bound) => match self.resolve_route(&sock, bound) {
                Ok(()) => return None,
                failed => failed,
            },
            Event::RouteResolved(path) => active::request(&sock, generation, &path),
            Event::AddressError(e) if e == ETIMEDOUT || e == ENODATA => Err(EAGAIN),
            Event::AddressError(e) => Err(e),
            Event::RouteError => Err(ETIMEDOUT),
            Event::DeviceRemoved => Err(ENODEV),
            Event::Other => return None,
        };
        // The identifier is no longer needed. Dropped outside of the lock, because it
        // may have the last reference to the socket.
        let mut spent = None;
        sock.drive(|inner| {
            if !is_mine(inner) {
                return;
            }
            spent = inner.resolving.stop();
            if inner.generation() != generation {
                return;
            }
            match outcome {
                Ok(()) => {}
                Err(e) if e == EAGAIN && self.tries < RESOLVE_TRIES => {
                    inner.resolving.tries = self.tries.saturating_add(1);
                    sock.set_alarm(Alarm::Engine, 0);
                }
                Err(e) if e == EAGAIN => inner.fail_connect(&sock, EHOSTUNREACH),
                Err(e) => inner.fail_connect(&sock, errno::of_unresolved(e)),
            }
        });
        spent
    }
}

impl Attempt {
    /// The address is resolved: checks that the device belongs to this namespace, and
    /// resolves the route.
    fn resolve_route(&self, sock: &Sock, bound: Bound<'_>) -> Result {
        let net = sock.net();
        let peer = sock.look(|inner| inner.peer);
        if self.through {
            bound.set_peer(&sockaddr(&Addr { port: 0, ..peer }));
        }
        // Within the host any device is good.
        let device = if Addr::is_loopback(peer.ip) || peer.is_local(net.namespace(), sock.device())
        {
            0
        } else {
            sock.device()
        };
        if !bound.is_in(net.namespace(), device) {
            return Err(ENODEV);
        }
        bound.resolve_route(ROUTE_MS)
    }
}
