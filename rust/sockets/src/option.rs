// SPDX-License-Identifier: MIT

//! Options of level `SOL_TCP` that only SDP sockets have, and the creation of sockets with them.

use crate::Transport;
use libc::{c_int, socklen_t};
use socket2::{Domain, Socket, Type};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd};

#[expect(clippy::cast_possible_truncation, reason = "it is four")]
const INT_LEN: socklen_t = size_of::<c_int>() as socklen_t;

fn checked(result: c_int) -> io::Result<()> {
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

pub(crate) fn set(socket: impl AsFd, name: c_int, value: c_int) -> io::Result<()> {
    // SAFETY: `value` is valid for reads of its size, which is given.
    checked(unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            name,
            (&raw const value).cast(),
            INT_LEN,
        )
    })
}

pub(crate) fn get(socket: impl AsFd, name: c_int) -> io::Result<c_int> {
    let mut value: c_int = 0;
    let mut len = INT_LEN;
    // SAFETY: `value` is valid for writes of `len` bytes, and `len` for writes.
    checked(unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            name,
            (&raw mut value).cast(),
            &raw mut len,
        )
    })?;
    Ok(value)
}

/// The transport of the socket. A socket that the kernel does not know as SDP's uses TCP.
pub(crate) fn transport(socket: impl AsFd) -> io::Result<Transport> {
    match get(socket, sdp_uapi::SDP_TRANSPORT) {
        Ok(number) => Transport::of(number)
            .ok_or_else(|| io::Error::other(format!("the kernel says transport {number}"))),
        Err(error) if error.raw_os_error() == Some(libc::ENOPROTOOPT) => Ok(Transport::Tcp),
        Err(error) => Err(error),
    }
}

/// The reason of the fallback. A plain TCP socket did not begin with SDP and has none.
pub(crate) fn fallback_reason(socket: impl AsFd) -> io::Result<Option<io::Error>> {
    match get(socket, sdp_uapi::SDP_FALLBACK_REASON) {
        Ok(0) => Ok(None),
        Ok(errno) => Ok(Some(io::Error::from_raw_os_error(errno))),
        Err(error) if error.raw_os_error() == Some(libc::ENOPROTOOPT) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Sets the transports that an SDP socket may use. It must be set before the socket is connected or
/// listens.
///
/// # Errors
///
/// `EPERM` for [`Transport::Both`] if `net.sdp.companion` forbids it; `ENOPROTOOPT` for plain TCP
/// sockets.
pub fn allow(socket: impl AsFd, transport: Transport) -> io::Result<()> {
    set(socket, sdp_uapi::SDP_TRANSPORT, transport.number())
}

/// The reason why the last bind(2) of an SDP socket found no RDMA device, if it found none.
///
/// # Errors
///
/// `ENOPROTOOPT` for plain TCP sockets.
pub fn last_bind_error(socket: impl AsFd) -> io::Result<Option<io::Error>> {
    Ok(match get(socket, sdp_uapi::SDP_LAST_BIND_ERR)? {
        0 => None,
        negative => Some(io::Error::from_raw_os_error(negative.saturating_neg())),
    })
}

/// A socket for addresses of the family of `address`, neither bound nor connected, so that options
/// can be set first. With [`Transport::Tcp`] it is a plain TCP socket. With [`Transport::Both`] it
/// is a plain TCP socket if the kernel has no SDP or denies this process sockets for both
/// (`net.sdp.companion`).
///
/// # Errors
///
/// `EAFNOSUPPORT` for [`Transport::Sdp`] if the kernel has no SDP.
pub fn socket(address: SocketAddr, transport: Transport) -> io::Result<Socket> {
    let tcp = || Socket::new(Domain::for_address(address), Type::STREAM, None);
    match transport {
        Transport::Tcp => tcp(),
        Transport::Sdp => of_sdp(address, transport),
        Transport::Both => of_sdp(address, transport).or_else(|error| match error.raw_os_error() {
            Some(libc::EAFNOSUPPORT | libc::EPERM) => tcp(),
            _ => Err(error),
        }),
    }
}

fn of_sdp(address: SocketAddr, transport: Transport) -> io::Result<Socket> {
    let socket = Socket::new(Domain::from(sdp_uapi::AF_INET_SDP), Type::STREAM, None)?;
    if address.is_ipv6() {
        set(&socket, sdp_uapi::SDP_SOCK_FAMILY, libc::AF_INET6)?;
    }
    if transport == Transport::Both {
        allow(&socket, transport)?;
    }
    Ok(socket)
}
