// SPDX-License-Identifier: MIT
//! A socket address as the kernel sees it: bytes, a length, and a family that may be any number.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use libc::{c_int, sockaddr, socklen_t};

#[derive(Clone, Copy)]
pub struct Addr {
    storage: libc::sockaddr_storage,
    len: socklen_t,
}

impl Addr {
    pub fn new(ip: IpAddr, port: u16) -> Self {
        match ip {
            IpAddr::V4(ip) => Self::v4(ip, port),
            IpAddr::V6(ip) => Self::v6(ip, port),
        }
    }

    pub fn v4(ip: Ipv4Addr, port: u16) -> Self {
        let mut addr = Self::empty();
        addr.len = size_of::<libc::sockaddr_in>() as socklen_t;
        // SAFETY: `sockaddr_storage` is larger than and aligned for every other address type.
        let name = unsafe { &mut *(&raw mut addr.storage).cast::<libc::sockaddr_in>() };
        name.sin_family = libc::AF_INET as libc::sa_family_t;
        name.sin_port = port.to_be();
        name.sin_addr.s_addr = u32::from_ne_bytes(ip.octets());
        addr
    }

    pub fn v6(ip: Ipv6Addr, port: u16) -> Self {
        let mut addr = Self::empty();
        addr.len = size_of::<libc::sockaddr_in6>() as socklen_t;
        // SAFETY: as in `v4`.
        let name = unsafe { &mut *(&raw mut addr.storage).cast::<libc::sockaddr_in6>() };
        name.sin6_family = libc::AF_INET6 as libc::sa_family_t;
        name.sin6_port = port.to_be();
        name.sin6_addr.s6_addr = ip.octets();
        addr
    }

    /// Room for the kernel to write a name into.
    pub fn empty() -> Self {
        Addr {
            // SAFETY: all zeroes is a valid `sockaddr_storage`.
            storage: unsafe { std::mem::zeroed() },
            len: size_of::<libc::sockaddr_storage>() as socklen_t,
        }
    }

    pub fn with_family(mut self, family: c_int) -> Self {
        self.storage.ss_family = family as libc::sa_family_t;
        self
    }

    /// The same on an interface.
    pub fn with_scope(mut self, scope: u32) -> Self {
        // SAFETY: as in `v4`; only IPv6 names have one.
        let name = unsafe { &mut *(&raw mut self.storage).cast::<libc::sockaddr_in6>() };
        name.sin6_scope_id = scope;
        self
    }

    pub fn scope(&self) -> u32 {
        // SAFETY: as in `ip`.
        let name = unsafe { &*(&raw const self.storage).cast::<libc::sockaddr_in6>() };
        name.sin6_scope_id
    }

    pub fn with_len(mut self, len: usize) -> Self {
        self.len = len as socklen_t;
        self
    }

    pub fn family(&self) -> c_int {
        c_int::from(self.storage.ss_family)
    }

    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// The IP address, when the family is one of the two that have one.
    pub fn ip(&self) -> Option<IpAddr> {
        match self.family() {
            libc::AF_INET => {
                // SAFETY: see `v4`; every bit pattern is a valid `sockaddr_in`.
                let name = unsafe { &*(&raw const self.storage).cast::<libc::sockaddr_in>() };
                Some(IpAddr::from(name.sin_addr.s_addr.to_ne_bytes()))
            }
            libc::AF_INET6 => {
                // SAFETY: as above, for `sockaddr_in6`.
                let name = unsafe { &*(&raw const self.storage).cast::<libc::sockaddr_in6>() };
                Some(IpAddr::from(name.sin6_addr.s6_addr))
            }
            _ => None,
        }
    }

    pub fn port(&self) -> u16 {
        // SAFETY: the port is at the same offset in both address types, inside the storage.
        let name = unsafe { &*(&raw const self.storage).cast::<libc::sockaddr_in>() };
        u16::from_be(name.sin_port)
    }

    pub fn as_ptr(&self) -> *const sockaddr {
        (&raw const self.storage).cast()
    }

    pub fn as_mut_ptr(&mut self) -> *mut sockaddr {
        (&raw mut self.storage).cast()
    }

    pub fn len_mut(&mut self) -> &mut socklen_t {
        &mut self.len
    }
}

/// Shown without the port, which differs from run to run.
impl fmt::Display for Addr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.family(), self.ip()) {
            (libc::AF_INET, Some(ip)) => write!(f, "AF_INET {ip}"),
            (libc::AF_INET6, Some(ip)) => write!(f, "AF_INET6 {ip}"),
            (family, _) => write!(f, "family {family}"),
        }
    }
}

impl fmt::Debug for Addr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self} port {}", self.port())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_address_types_keep_address_and_port() {
        for text in ["10.0.0.1", "fd00::2"] {
            let ip: IpAddr = text.parse().unwrap();
            let addr = Addr::new(ip, 4711);
            assert_eq!((addr.ip(), addr.port()), (Some(ip), 4711));
        }
    }

    #[test]
    fn a_foreign_family_is_shown_by_its_number() {
        let addr = Addr::v4(Ipv4Addr::LOCALHOST, 1).with_family(27);
        assert_eq!(addr.to_string(), "family 27");
    }
}
