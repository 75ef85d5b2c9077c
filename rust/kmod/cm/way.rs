// SPDX-License-Identifier: GPL-2.0

//! The route to a peer that the routing tables and rules give for a socket.
//!
//! rdma_cm looks up a route as well, but knows only addresses and an interface. Rules
//! about the socket's mark, user and VRF are evaluated here first. rdma_cm gets the
//! result as a source address, an interface and the next hop.

use crate::{
    addr::{
        Addr,
        Family, //
    },
    engine::types::Ip,
    ffi,
    object::Sock,
    prelude::*,
    rdma::route::SockAddr, //
};
use kernel::error::to_result;

/// `addr` as rdma_cm and the routing tables have it.
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

/// See the module.
pub(crate) struct Way {
    /// The address that this host uses.
    pub(crate) source: Ip,
    /// The interface, or 0 if rdma_cm shall find one by the source.
    pub(super) device: c_int,
    /// The next hop, if rdma_cm would take another one.
    pub(super) next: Option<SockAddr>,
}

impl Way {
    /// The route of `sock` to `peer`, or TCP's error if there is none: ENETUNREACH and
    /// similar, also if IPsec would have to transform the packets. `from` is the chosen part of the local address; the rest is zeros.
    pub(crate) fn find(sock: &Sock, peer: &Addr, from: &Addr) -> Result<Self> {
        let class = sock.look(|inner| inner.options.service_class(peer.ip));
        let from = match peer.ip {
            _ if Addr::same_family(from.ip, peer.ip) => *from,
            Ip::V4(_) => Addr {
                port: from.port,
                ..Addr::ANY4
            },
            Ip::V6(_) => Addr {
                port: from.port,
                ..Addr::ANY6
            },
        };
        let dst = sockaddr(peer);
        let mut src = sockaddr(&from);
        let mut way: ffi::sdp_way = pin_init::zeroed();
        // SAFETY: `sk` is valid, the addresses are of one family, and all are ours.
        let found = to_result(unsafe {
            ffi::sdp_find_way(sock.sk(), class, dst.storage(), src.storage_mut(), &mut way)
        });
        sock.look(|inner| inner.fallback.set_ipsec(way.is_for_ipsec));
        if way.is_for_ipsec {
            sock.net().stats.ipsec_refused.inc();
        }
        found?;
        let family = match peer.ip {
            Ip::V4(_) => Family::V4,
            Ip::V6(_) => Family::V6,
        };
        Ok(Self {
            source: ip_of(src.storage(), family),
            device: way.device,
            next: way.through.then_some(SockAddr::new(way.next)),
        })
    }
}

/// The IP address in a socket address of that family.
fn ip_of(name: &ffi::__kernel_sockaddr_storage, family: Family) -> Ip {
    let name = core::ptr::from_ref(name);
    match family {
        Family::V4 => {
            // SAFETY: The storage is larger; every bit pattern is an address.
            let addr = unsafe { (*name.cast::<ffi::sockaddr_in>()).sin_addr.s_addr };
            Ip::V4(addr.to_ne_bytes())
        }
        Family::V6 => {
            // SAFETY: The storage is larger; every view of the union is plain bytes.
            let addr = unsafe { (*name.cast::<ffi::sockaddr_in6>()).sin6_addr.in6_u.u6_addr8 };
            Ip::V6(addr)
        }
    }
}
