// SPDX-License-Identifier: MIT

//! SDP sockets, as far as they are tried out here.

use std::io::{self, Error};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

pub(crate) const AF_INET_SDP: i32 = 27;
pub(crate) const IPPROTO_SDP: i32 = 257;
pub(crate) const SDP_LAST_BIND_ERR: i32 = 81;
pub(crate) const SDP_SOCK_FAMILY: i32 = 82;
pub(crate) const SDP_TRANSPORT: i32 = 83;
pub(crate) const SDP_TRANSPORT_BOTH: i32 = 1;

/// A stream socket.
pub(crate) struct Socket(OwnedFd);

/// An address as the kernel takes it.
struct Name {
    bytes: libc::sockaddr_in6,
    len: libc::socklen_t,
}

impl From<SocketAddr> for Name {
    fn from(address: SocketAddr) -> Self {
        // SAFETY: An all-zero name is a valid one, and the smaller kind fits
        // into the larger.
        unsafe {
            let mut bytes: libc::sockaddr_in6 = core::mem::zeroed();
            match address {
                SocketAddr::V4(v4) => {
                    let name = &raw mut bytes;
                    let name = name.cast::<libc::sockaddr_in>();
                    (*name).sin_family = 2;
                    (*name).sin_port = v4.port().to_be();
                    (*name).sin_addr.s_addr = u32::from_ne_bytes(v4.ip().octets());
                    Self { bytes, len: 16 }
                }
                SocketAddr::V6(v6) => {
                    bytes.sin6_family = 10;
                    bytes.sin6_port = v6.port().to_be();
                    bytes.sin6_addr.s6_addr = v6.ip().octets();
                    bytes.sin6_scope_id = v6.scope_id();
                    Self { bytes, len: 28 }
                }
            }
        }
    }
}

fn checked(result: i32) -> io::Result<i32> {
    if result < 0 {
        Err(Error::last_os_error())
    } else {
        Ok(result)
    }
}

impl Socket {
    /// socket(2).
    pub(crate) fn new(domain: i32, protocol: i32) -> io::Result<Self> {
        let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC;
        // SAFETY: It takes integers, and what it returns is nobody else's.
        unsafe {
            let fd = checked(libc::socket(domain, kind, protocol))?;
            Ok(Self(OwnedFd::from_raw_fd(fd)))
        }
    }

    /// An SDP socket for addresses like this one.
    pub(crate) fn for_address(address: SocketAddr) -> io::Result<Self> {
        let socket = Self::new(AF_INET_SDP, 0)?;
        if address.is_ipv6() {
            socket.set(SDP_SOCK_FAMILY, libc::AF_INET6)?;
        }
        Ok(socket)
    }

    /// Sets an option of level SOL_TCP.
    pub(crate) fn set(&self, option: i32, value: i32) -> io::Result<()> {
        let value: *const i32 = &raw const value;
        // SAFETY: `value` is an int.
        let result = unsafe {
            libc::setsockopt(
                self.0.as_raw_fd(),
                libc::IPPROTO_TCP,
                option,
                value.cast(),
                4,
            )
        };
        checked(result).map(|_| ())
    }

    /// An option of level SOL_TCP.
    pub(crate) fn get(&self, option: i32) -> io::Result<i32> {
        let mut value = 0_i32;
        let mut len = 4;
        let place: *mut i32 = &raw mut value;
        // SAFETY: `value` is an int.
        let result = unsafe {
            libc::getsockopt(
                self.0.as_raw_fd(),
                libc::IPPROTO_TCP,
                option,
                place.cast(),
                &raw mut len,
            )
        };
        checked(result).map(|_| value)
    }

    /// bind(2).
    pub(crate) fn bind(&self, address: SocketAddr) -> io::Result<()> {
        let name = Name::from(address);
        let place: *const libc::sockaddr_in6 = &raw const name.bytes;
        // SAFETY: A name of that length.
        checked(unsafe { libc::bind(self.0.as_raw_fd(), place.cast(), name.len) }).map(|_| ())
    }

    /// connect(2).
    pub(crate) fn connect(&self, address: SocketAddr) -> io::Result<()> {
        let name = Name::from(address);
        let place: *const libc::sockaddr_in6 = &raw const name.bytes;
        // SAFETY: A name of that length.
        checked(unsafe { libc::connect(self.0.as_raw_fd(), place.cast(), name.len) }).map(|_| ())
    }

    /// What std makes of it: to listen, and to move bytes.
    pub(crate) fn into_fd(self) -> OwnedFd {
        self.0
    }
}
