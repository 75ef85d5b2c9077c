// SPDX-License-Identifier: GPL-2.0

//! bind, getsockname, getpeername.

use crate::{
    addr::{
        Addr,
        Family,
        Parsed, //
    },
    endpoint::{
        Inner,
        Phase, //
    },
    engine::types::Ip,
    ffi,
    net::ports::Claim,
    object::Sock,
    prelude::*, //
};
use core::ptr::NonNull;
use kernel::error::to_result;

impl Sock {
    /// bind(2).
    ///
    /// # Safety
    ///
    /// `addr` points to `len` bytes.
    pub(crate) unsafe fn bind(&self, addr: *const u8, len: usize) -> Result {
        // SAFETY: `addr` points to `len` bytes, by the caller's promise.
        let (addr, family) = match unsafe { Addr::parse(addr, len) }? {
            Parsed::Addr(addr, family) => (addr, family),
            // As AF_INET does: AF_UNSPEC is accepted with the wildcard.
            Parsed::Unspec if len >= core::mem::size_of::<ffi::sockaddr_in>() => {
                // SAFETY: At least a `sockaddr_in` long.
                let raw = unsafe { core::slice::from_raw_parts(addr, 8) };
                match *raw {
                    [_, _, hi, lo, 0, 0, 0, 0] => {
                        let mut any = Addr::ANY4;
                        any.port = u16::from_be_bytes([hi, lo]);
                        (any, Family::V4)
                    }
                    _ => return Err(EAFNOSUPPORT),
                }
            }
            Parsed::Unspec => return Err(EINVAL),
        };
        let _call = self.lock();
        let bound = self.bind_to(addr, family);
        self.look(|inner| {
            inner.last_bind_err = match bound {
                Ok(()) => 0,
                // libsdp reads this as "no RDMA under this address".
                Err(e) if e == ENODEV => -(ffi::ENOENT as i32),
                Err(e) => e.to_errno(),
            };
        });
        bound.map_err(|e| if e == ENODEV { EADDRNOTAVAIL } else { e })
    }

    fn bind_to(&self, mut addr: Addr, family: Family) -> Result {
        let net = self.net().as_ptr();
        addr = addr.on_interface(self.device())?;
        if Addr::is_multicast(addr.ip) {
            return Err(EADDRNOTAVAIL);
        }
        if !Addr::is_any(addr.ip) {
            // SAFETY: The namespace is alive.
            if !unsafe { addr.is_local(net, self.device()) } {
                return Err(EADDRNOTAVAIL);
            }
            self.has_rdma(&addr)?;
        }
        // SAFETY: The namespace is alive.
        if addr.port != 0 && !unsafe { ffi::sdp_may_bind_low_port(net, addr.port) } {
            return Err(EACCES);
        }
        self.look(|inner| {
            if inner.phase != Phase::Idle || inner.port.is_some() {
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
            inner.bound_port = addr.port != 0;
            addr.port = lease.port();
            inner.family = family;
            inner.bound_ip = !Addr::is_any(addr.ip);
            inner.local = addr;
            inner.port = Some(lease);
            Ok(())
        })
    }

    /// Takes an ephemeral port for a listener without bind(). Neither the family's
    /// number nor bind() has chosen a version of IP, so the listener takes both. With
    /// `lock_sock`.
    pub(crate) fn autobind_listener(&self) -> Result {
        self.look(|inner| {
            if inner.port.is_some() {
                return Ok(());
            }
            let claim = Claim {
                ip: inner.local.ip,
                dual: Addr::is_any(inner.local.ip) && !inner.options.v6only,
            };
            // SAFETY: The endpoint has the lease, here or until it is freed.
            let lease = unsafe { self.net().bind_port(self, 0, &claim) }?;
            inner.local.port = lease.port();
            inner.port = Some(lease);
            Ok(())
        })
    }

    /// ENODEV unless an RDMA device has this local address.
    fn has_rdma(&self, addr: &Addr) -> Result {
        let net = self.net().as_ptr();
        if Addr::is_loopback(addr.ip) {
            let family = match addr.ip {
                Ip::V4(_) => ffi::AF_INET,
                Ip::V6(_) => ffi::AF_INET6,
            };
            // SAFETY: The namespace is alive.
            return unsafe { crate::devices::local_address(net, family) }.map(|_| ());
        }
        let mut name = [0u8; 28];
        let mut plain = *addr;
        plain.port = 0;
        let family = match addr.ip {
            Ip::V4(_) => Family::V4,
            Ip::V6(_) => Family::V6,
        };
        plain.emit(family, &mut name);
        // SAFETY: The namespace is alive. The only event of a bound identifier is the
        // removal of its device, and the handler leaves that to rdma_cm.
        let id = unsafe { ffi::sdp_rdma_create_id(net, Some(no_event_cb), core::ptr::null_mut()) };
        let id = NonNull::new(kernel::error::from_err_ptr(id)?).ok_or(ENOMEM)?;
        // SAFETY: The identifier is ours, the address is valid for its family.
        let bound = unsafe {
            let bound = to_result(ffi::rdma_bind_addr(id.as_ptr(), name.as_mut_ptr().cast()));
            ffi::rdma_destroy_id(id.as_ptr());
            bound
        };
        bound.map_err(|e| if e == ENOMEM { e } else { ENODEV })
    }

    /// getsockname(2) and getpeername(2); returns the length.
    ///
    /// # Safety
    ///
    /// `out` has room for a `sockaddr_storage`.
    pub(crate) unsafe fn name(&self, out: *mut u8, peer: c_int) -> Result<i32> {
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
        let mut name = [0u8; 28];
        let len = addr.emit(family, &mut name);
        // SAFETY: `out` has the 128 bytes of a `sockaddr_storage`, by the caller's promise,
        // and `len` is at most 28.
        unsafe { core::ptr::copy_nonoverlapping(name.as_ptr(), out, len) };
        i32::try_from(len).map_err(|_| EINVAL)
    }
}

/// # Safety
///
/// Called from C, with the arguments that the slot it stands in promises.
unsafe extern "C" fn no_event_cb(
    _id: *mut ffi::rdma_cm_id,
    _event: *mut ffi::rdma_cm_event,
) -> c_int {
    0
}

impl Inner {
    /// Whether a wildcard address means both families.
    pub(crate) fn is_dual(&self, ip: Ip, family: Family) -> bool {
        family == Family::V6 && matches!(ip, Ip::V6(_)) && Addr::is_any(ip) && !self.options.v6only
    }
}
