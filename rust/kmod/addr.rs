// SPDX-License-Identifier: GPL-2.0

//! Addresses: from and to `struct sockaddr`, and questions about them.
//!
//! Accepted from programs: AF_INET and 27 as `sockaddr_in`, AF_INET6 and 28 as
//! `sockaddr_in6`, and 27 with the length of a `sockaddr_in6`. Returned: AF_INET and AF_INET6 only.
//!
//! Contexts: process context. No locks.

use crate::{
    engine::types::Ip,
    ffi,
    net::namespace::Namespace,
    prelude::*, //
};
use core::cmp::Ordering;

/// Smallest `sockaddr_in6`: the one of RFC 2133, without a scope id.
const SIN6_LEN_RFC2133: usize = 24;

/// Largest name of an Internet socket.
pub(crate) const NAME_LEN: usize = 28;

/// The order of addresses in trees. The engine needs none, and a derived one would
/// bring `clamp()` along, which can panic.
impl Ord for Ip {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Ip::V4(a), Ip::V4(b)) => a.cmp(b),
            (Ip::V6(a), Ip::V6(b)) => a.cmp(b),
            (Ip::V4(_), Ip::V6(_)) => Ordering::Less,
            (Ip::V6(_), Ip::V4(_)) => Ordering::Greater,
        }
    }
}

impl PartialOrd for Ip {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// An address and a port in host order.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Addr {
    pub(crate) ip: Ip,
    pub(crate) port: u16,
    /// Interface of a link-local address, or 0.
    pub(crate) scope: u32,
}

/// An address that a program passed.
pub(crate) enum Parsed {
    /// AF_UNSPEC: forget the peer.
    Unspec,
    /// An address, and whether it came as IPv6 (maybe v4-mapped).
    Addr(Addr, Family),
}

/// Family of the names of a socket.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Family {
    V4,
    V6,
}

impl Addr {
    pub(crate) const ANY4: Addr = Addr {
        ip: Ip::V4([0; 4]),
        port: 0,
        scope: 0,
    };
    pub(crate) const ANY6: Addr = Addr {
        ip: Ip::V6([0; 16]),
        port: 0,
        scope: 0,
    };

    /// As with TCP, only a link-local address has an interface, `scope`.
    pub(crate) fn new(ip: Ip, port: u16, scope: u32) -> Addr {
        let scope = if Self::is_link_local(ip) { scope } else { 0 };
        Addr { ip, port, scope }
    }

    /// The wildcard of `family`.
    pub(crate) fn any(family: Family) -> Addr {
        match family {
            Family::V4 => Self::ANY4,
            Family::V6 => Self::ANY6,
        }
    }

    pub(crate) fn is_any(ip: Ip) -> bool {
        match ip {
            Ip::V4(a) => a == [0; 4],
            Ip::V6(a) => a == [0; 16],
        }
    }

    pub(crate) fn is_loopback(ip: Ip) -> bool {
        match ip {
            Ip::V4(a) => a[0] == 127,
            Ip::V6(a) => a == [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1],
        }
    }

    /// Whether the address is valid only together with an interface.
    pub(crate) fn is_link_local(ip: Ip) -> bool {
        matches!(ip, Ip::V6([0xfe, 0x80..=0xbf, ..]))
    }

    /// The address on an interface: its own or the socket's `device`. EINVAL
    /// for a link-local address that has none, or another.
    pub(crate) fn on_interface(mut self, device: i32) -> Result<Addr> {
        if Self::is_link_local(self.ip) {
            let device = u32::try_from(device).unwrap_or(0);
            if self.scope == 0 {
                self.scope = device;
            }
            if self.scope == 0 || device != 0 && device != self.scope {
                return Err(EINVAL);
            }
        }
        Ok(self)
    }

    pub(crate) fn is_multicast(ip: Ip) -> bool {
        match ip {
            Ip::V4(a) => a[0] & 0xf0 == 0xe0 || a == [255; 4],
            Ip::V6(a) => a[0] == 0xff,
        }
    }

    pub(crate) fn same_family(a: Ip, b: Ip) -> bool {
        matches!((a, b), (Ip::V4(_), Ip::V4(_)) | (Ip::V6(_), Ip::V6(_)))
    }

    /// Whether the address is one of this namespace, in the VRF of an interface if that
    /// is part of one.
    pub(crate) fn is_local(&self, net: &Namespace, device: c_int) -> bool {
        match (self.ip, self.scope) {
            (Ip::V4(a), _) => net.is_local4(a, device),
            (Ip::V6(a), 0) => net.is_local6(a, device),
            (Ip::V6(a), scope) => net.is_local6(a, scope as c_int),
        }
    }

    /// Reads an address that a program passed to bind or connect, with the checks and
    /// errors of TCP.
    pub(crate) fn parse(addr: &[u8]) -> Result<Parsed> {
        Self::parse_beginning(addr, addr.len())
    }

    /// The same for an address of `len` bytes; `addr` has the ones that matter.
    fn parse_beginning(addr: &[u8], len: usize) -> Result<Parsed> {
        if len < 2 {
            return Err(EINVAL);
        }
        let mut raw = [0u8; NAME_LEN];
        for (to, from) in raw.iter_mut().zip(addr) {
            *to = *from;
        }
        let family = u32::from(u16::from_ne_bytes([raw[0], raw[1]]));
        let port = u16::from_be_bytes([raw[2], raw[3]]);
        match family {
            ffi::AF_UNSPEC => Ok(Parsed::Unspec),
            // A caller that can only name the socket's own family (socat) passes
            // 27 also over a `sockaddr_in6`; the length tells.
            ffi::AF_INET | ffi::AF_INET_SDP if !(family == ffi::AF_INET_SDP && len == 28) => {
                if len < core::mem::size_of::<ffi::sockaddr_in>() {
                    return Err(EINVAL);
                }
                let ip = Ip::V4([raw[4], raw[5], raw[6], raw[7]]);
                Ok(Parsed::Addr(Addr { ip, port, scope: 0 }, Family::V4))
            }
            ffi::AF_INET6 | ffi::AF_INET6_SDP | ffi::AF_INET_SDP => {
                if len < SIN6_LEN_RFC2133 {
                    return Err(EINVAL);
                }
                let mut a = [0u8; 16];
                for (to, from) in a.iter_mut().zip(raw.iter().skip(8)) {
                    *to = *from;
                }
                let mut scope = [0u8; 4];
                for (to, from) in scope.iter_mut().zip(raw.iter().skip(24)) {
                    *to = *from;
                }
                let addr = Addr::new(Self::unmap(Ip::V6(a)), port, u32::from_ne_bytes(scope));
                Ok(Parsed::Addr(addr, Family::V6))
            }
            _ if len < core::mem::size_of::<ffi::sockaddr_in>() => Err(EINVAL),
            _ => Err(EAFNOSUPPORT),
        }
    }

    /// Changes the family of a name of `len` bytes (`name` has the ones that matter) from
    /// 27 or 28 to the one that TCP knows.
    pub(crate) fn name_for_tcp(name: &mut [u8], len: usize) {
        if let Ok(Parsed::Addr(_, family)) = Self::parse_beginning(name, len) {
            let number = match family {
                Family::V4 => ffi::AF_INET,
                Family::V6 => ffi::AF_INET6,
            };
            if let [low, high, ..] = name {
                [*low, *high] = (number as u16).to_ne_bytes();
            }
        }
    }

    /// A v4-mapped address as the IPv4 address it stands for.
    pub(crate) fn unmap(ip: Ip) -> Ip {
        match ip {
            Ip::V6([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, d]) => Ip::V4([a, b, c, d]),
            other => other,
        }
    }

    /// Writes the address as a name of `family`; returns its length. An IPv4
    /// address becomes v4-mapped on an IPv6 socket.
    pub(crate) fn emit(&self, family: Family, out: &mut [u8; NAME_LEN]) -> usize {
        *out = [0; NAME_LEN];
        let port = self.port.to_be_bytes();
        let put = |out: &mut [u8; NAME_LEN], at: usize, bytes: &[u8]| {
            for (to, from) in out.iter_mut().skip(at).zip(bytes) {
                *to = *from;
            }
        };
        put(out, 2, &port);
        match (family, self.ip) {
            (Family::V4, Ip::V4(a)) => {
                put(out, 0, &(ffi::AF_INET as u16).to_ne_bytes());
                put(out, 4, &a);
                core::mem::size_of::<ffi::sockaddr_in>()
            }
            (_, ip) => {
                put(out, 0, &(ffi::AF_INET6 as u16).to_ne_bytes());
                match ip {
                    Ip::V6(a) => {
                        put(out, 8, &a);
                        put(out, 24, &self.scope.to_ne_bytes());
                    }
                    Ip::V4(a) if a == [0; 4] => {}
                    Ip::V4(a) => {
                        put(out, 18, &[0xff, 0xff]);
                        put(out, 20, &a);
                    }
                }
                28
            }
        }
    }
}

impl kernel::fmt::Display for Addr {
    fn fmt(&self, f: &mut kernel::fmt::Formatter<'_>) -> kernel::fmt::Result {
        match self.ip {
            // The form of /proc/net/tcp: the address as a host-order word.
            Ip::V4(a) => write!(f, "{:08X}:{:04X}", u32::from_ne_bytes(a), self.port),
            Ip::V6(a) => {
                for word in a.chunks_exact(4) {
                    if let [a, b, c, d] = *word {
                        write!(f, "{:08X}", u32::from_ne_bytes([a, b, c, d]))?;
                    }
                }
                write!(f, ":{:04X}", self.port)
            }
        }
    }
}

#[kunit_tests(sdp_addr)]
mod tests {
    use super::*;

    const FOUR: Ip = Ip::V4([10, 1, 2, 3]);
    const MAPPED: Ip = Ip::V6([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 1, 2, 3]);
    const SIX: Ip = Ip::V6([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9]);
    const LINK: Ip = Ip::V6([0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9]);

    fn addr(ip: Ip, scope: u32) -> Addr {
        Addr {
            ip,
            port: 0x1234,
            scope,
        }
    }

    /// The result of parsing a name of family `number`, cut to `len`.
    fn read(of: &Addr, family: Family, number: u32, len: usize) -> Result<Parsed> {
        let mut name = [0; 28];
        of.emit(family, &mut name);
        let [low, high] = (number as u16).to_ne_bytes();
        name[0] = low;
        name[1] = high;
        Addr::parse(name.get(..len).unwrap_or(&name))
    }

    fn is(parsed: Result<Parsed>, ip: Ip, scope: u32, family: Family) -> bool {
        matches!(parsed, Ok(Parsed::Addr(a, f))
            if a.ip == ip && a.port == 0x1234 && a.scope == scope && f == family)
    }

    fn fails(parsed: Result<Parsed>, error: Error) -> bool {
        matches!(parsed, Err(e) if e == error)
    }

    #[test]
    fn names_are_read_as_they_were_written() {
        let four = addr(FOUR, 0);
        for number in [ffi::AF_INET, ffi::AF_INET_SDP] {
            assert!(is(read(&four, Family::V4, number, 16), FOUR, 0, Family::V4));
        }
        for (ip, scope) in [(SIX, 0), (LINK, 7)] {
            let six = addr(ip, scope);
            for number in [ffi::AF_INET6, ffi::AF_INET6_SDP, ffi::AF_INET_SDP] {
                assert!(is(
                    read(&six, Family::V6, number, 28),
                    ip,
                    scope,
                    Family::V6
                ));
            }
        }
        // An IPv4 address on an IPv6 socket, and back.
        assert!(is(
            read(&four, Family::V6, ffi::AF_INET6, 28),
            FOUR,
            0,
            Family::V6
        ));
        assert!(Addr::unmap(MAPPED) == FOUR && Addr::unmap(SIX) == SIX);
    }

    #[test]
    fn names_that_are_cut_short_are_invalid() {
        let (four, six) = (addr(FOUR, 0), addr(LINK, 7));
        for len in [0, 1, 2, 15] {
            assert!(fails(read(&four, Family::V4, ffi::AF_INET, len), EINVAL));
        }
        assert!(fails(read(&six, Family::V6, ffi::AF_INET6, 23), EINVAL));
        // The length before scopes were introduced.
        assert!(is(
            read(&six, Family::V6, ffi::AF_INET6, 24),
            LINK,
            0,
            Family::V6
        ));
        assert!(fails(read(&four, Family::V4, 99, 16), EAFNOSUPPORT));
        assert!(matches!(
            read(&four, Family::V4, ffi::AF_UNSPEC, 2),
            Ok(Parsed::Unspec)
        ));
    }

    #[test]
    fn a_scope_is_for_link_local_addresses() {
        assert!(is(
            read(&addr(SIX, 7), Family::V6, ffi::AF_INET6, 28),
            SIX,
            0,
            Family::V6
        ));
        assert!(matches!(addr(LINK, 7).on_interface(0), Ok(a) if a.scope == 7));
        assert!(matches!(addr(LINK, 0).on_interface(7), Ok(a) if a.scope == 7));
        assert!(addr(LINK, 7).on_interface(8).is_err() && addr(LINK, 0).on_interface(0).is_err());
        assert!(matches!(addr(SIX, 0).on_interface(7), Ok(a) if a.scope == 0));
    }

    #[test]
    fn kinds_of_addresses() {
        for family in [Family::V4, Family::V6] {
            assert!(Addr::is_any(Addr::any(family).ip));
        }
        assert!(!Addr::is_any(FOUR) && !Addr::is_any(SIX));
        assert!(Addr::is_loopback(Ip::V4([127, 9, 9, 9])) && !Addr::is_loopback(FOUR));
        assert!(!Addr::is_loopback(Addr::ANY6.ip) && !Addr::is_loopback(SIX));
        assert!(Addr::is_multicast(Ip::V4([239, 0, 0, 1])) && Addr::is_multicast(Ip::V4([255; 4])));
        assert!(!Addr::is_multicast(FOUR) && !Addr::is_multicast(LINK));
        assert!(Addr::same_family(SIX, LINK) && !Addr::same_family(FOUR, MAPPED));
    }
}
