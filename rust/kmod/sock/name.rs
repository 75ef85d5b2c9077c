// SPDX-License-Identifier: GPL-2.0

//! bind, getsockname, getpeername.

use crate::{
    addr::{
        Addr,
        Family,
        Parsed,
        NAME_LEN, //
    },
    endpoint::Phase,
    engine::types::Ip,
    ffi,
    net::socket::Storage,
    netns::ports::Claim,
    object::Sock,
    prelude::*,
    rdma::route, //
};

impl Sock {
    /// bind(2).
    pub(crate) fn bind(&self, addr: &[u8]) -> Result {
        let (addr, family) = match Addr::parse(addr)? {
            Parsed::Addr(addr, family) => (addr, family),
            // As AF_INET does: AF_UNSPEC is accepted with the wildcard.
            Parsed::Unspec if addr.len() >= core::mem::size_of::<ffi::sockaddr_in>() => match *addr
            {
                [_, _, hi, lo, 0, 0, 0, 0, ..] => {
                    let mut any = Addr::ANY4;
                    any.port = u16::from_be_bytes([hi, lo]);
                    (any, Family::V4)
                }
                _ => return Err(EAFNOSUPPORT),
            },
            Parsed::Unspec => return Err(EINVAL),
        };
        let _call = self.lock();
        let bound = self.bind_to(addr, family);
        self.look(|inner| {
            let errno = match bound {
                Ok(()) => 0,
                // libsdp reads this as "no RDMA under this address".
                Err(e) if e == ENODEV => -(ffi::ENOENT as i32),
                Err(e) => e.to_errno(),
            };
            inner.binding.set_last_err(errno);
        });
        bound.map_err(|e| if e == ENODEV { EADDRNOTAVAIL } else { e })
    }

    fn bind_to(&self, mut addr: Addr, family: Family) -> Result {
        let net = self.namespace();
        addr = addr.on_interface(self.device())?;
        if Addr::is_multicast(addr.ip) {
            return Err(EADDRNOTAVAIL);
        }
        if !Addr::is_any(addr.ip) {
            if !addr.is_local(net, self.device()) {
                return Err(EADDRNOTAVAIL);
            }
            self.has_rdma(&addr)?;
        }
        if addr.port != 0 && !net.may_bind(addr.port) {
            return Err(EACCES);
        }
        self.look(|inner| {
            if inner.phase != Phase::Idle || inner.binding.lease().is_some() {
                return Err(EINVAL);
            }
            let family = match (inner.family, family) {
                (Family::V4, Family::V4) => Family::V4,
                // An IPv4 wildcard on an IPv6 socket is not TCP's v6 wildcard.
                (Family::V6, Family::V4) => return Err(EAFNOSUPPORT),
                (_, Family::V6) => Family::V6,
            };
            if inner.options.v6only && matches!(addr.ip, Ip::V4(_)) && family == Family::V6 {
                return Err(EINVAL);
            }
            let claim = Claim {
                ip: addr.ip,
                dual: inner.is_dual(addr.ip, family),
            };
            // SAFETY: The endpoint has the lease, here or until it is freed.
            let lease = unsafe { self.net().bind_port(self, addr.port, &claim) }?;
            let (named_ip, named_port) = (!Addr::is_any(addr.ip), addr.port != 0);
            addr.port = lease.port();
            inner.family = family;
            inner.local = addr;
            inner.binding.on_bound(lease, named_ip, named_port);
            Ok(())
        })
    }

    /// Takes an ephemeral port for a listener without bind(). Neither the family's
    /// number nor bind() has chosen a version of IP, so the listener takes both. With
    /// `lock_sock`.
    pub(crate) fn autobind_listener(&self) -> Result {
        self.look(|inner| {
            if inner.binding.lease().is_some() {
                return Ok(());
            }
            let claim = Claim {
                ip: inner.local.ip,
                dual: Addr::is_any(inner.local.ip) && !inner.options.v6only,
            };
            // SAFETY: The endpoint has the lease, here or until it is freed.
            let lease = unsafe { self.net().bind_port(self, 0, &claim) }?;
            inner.local.port = lease.port();
            inner.binding.on_chosen(lease);
            Ok(())
        })
    }

    /// ENODEV unless an RDMA device has this local address.
    fn has_rdma(&self, addr: &Addr) -> Result {
        let net = self.net().namespace();
        if Addr::is_loopback(addr.ip) {
            let family = match addr.ip {
                Ip::V4(_) => ffi::AF_INET,
                Ip::V6(_) => ffi::AF_INET6,
            };
            return crate::devices::local_address(net, family).map(|_| ());
        }
        route::check_local(net, crate::cm::way::sockaddr(&Addr { port: 0, ..*addr }))
    }

    /// getsockname(2) and getpeername(2); returns the length.
    pub(crate) fn name(&self, out: &mut Storage, peer: c_int) -> Result<usize> {
        let (addr, family) = self.look(|inner| {
            if peer == 0 {
                return Ok((inner.local, inner.family));
            }
            let state = self.tcp_state();
            // accept() passes 2 and wants the name even of a connection that has ended.
            let gone = state == ffi::TCP_CLOSE || state == ffi::TCP_SYN_SENT;
            if inner.peer.port == 0 || gone && peer == 1 {
                return Err(ENOTCONN);
            }
            Ok((inner.peer, inner.family))
        })?;
        let mut name = [0u8; NAME_LEN];
        let len = addr.emit(family, &mut name);
        out.put(name.get(..len).unwrap_or(&name))
    }
}
