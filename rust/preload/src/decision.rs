// SPDX-License-Identifier: MIT

//! Applies the rules once an address is known and tells the kernel the result. Reports to the user
//! which transport a socket uses.
//!
//! All functions here change errno.

use crate::birth::count_fallback;
use crate::config::{Role, Transport};
use crate::descriptors::Descriptors;
use crate::log::level;
use crate::rules::Decision;
use crate::settings::{self, Settings};
use crate::text::Errno;
use crate::{errno, memory, options, uapi};
use core::ptr::from_mut;
use libc::{c_int, sockaddr, sockaddr_in, sockaddr_in6, socklen_t};
use std::net::{IpAddr, SocketAddr};

/// Used while sockets are logged: the sockets with a connect() in progress and a result that has
/// not been logged yet.
static UNDER_WAY: Descriptors = Descriptors::new();

/// getsockname(2) or getpeername(2).
type Naming = unsafe extern "C" fn(c_int, *mut sockaddr, *mut socklen_t) -> c_int;

/// The Internet address in a `sockaddr`; `None` for other families and for memory that cannot be
/// read.
///
/// # Safety
///
/// The readable part of the `len` bytes at `address` stays readable during the call.
unsafe fn parse(address: *const sockaddr, len: socklen_t) -> Option<SocketAddr> {
    let len = usize::try_from(len).ok()?;
    let is_readable = |len| memory::is_readable(address.addr(), len);
    if len < size_of::<sockaddr_in>() || !is_readable(size_of::<sockaddr_in>()) {
        return None;
    }
    // SAFETY: `is_readable()` was true, and the caller promises that it stays so. The address may
    // be unaligned.
    let family = unsafe { (&raw const (*address).sa_family).read_unaligned() };
    match c_int::from(family) {
        libc::AF_INET => {
            // SAFETY: Readable, as the caller promises, and long enough for a `sockaddr_in`.
            let name = unsafe { address.cast::<sockaddr_in>().read_unaligned() };
            let ip = IpAddr::from(name.sin_addr.s_addr.to_ne_bytes());
            Some(SocketAddr::new(ip, u16::from_be(name.sin_port)))
        }
        libc::AF_INET6
            if len >= size_of::<sockaddr_in6>() && is_readable(size_of::<sockaddr_in6>()) =>
        {
            // SAFETY: Readable, as the caller promises, and long enough for a `sockaddr_in6`.
            let name = unsafe { address.cast::<sockaddr_in6>().read_unaligned() };
            let ip = IpAddr::from(name.sin6_addr.s6_addr);
            Some(SocketAddr::new(ip, u16::from_be(name.sin6_port)))
        }
        _ => None,
    }
}

/// An address of the socket.
fn address_of(fd: c_int, naming: Naming) -> Option<SocketAddr> {
    // SAFETY: An all-zero address is a valid one.
    let mut name: libc::sockaddr_storage = unsafe { core::mem::zeroed() };
    let mut len = socklen_t::try_from(size_of_val(&name)).ok()?;
    // SAFETY: `name` is valid for writes of `len` bytes.
    let result = unsafe { naming(fd, from_mut(&mut name).cast(), &raw mut len) };
    if result != 0 {
        return None;
    }
    // SAFETY: The kernel has written the name.
    unsafe { parse(from_mut(&mut name).cast(), len) }
}

/// Tells the kernel the transport; returns whether the kernel accepted it. A socket for which the
/// choice is no longer possible is unchanged.
fn tell(fd: c_int, transport: Transport) -> bool {
    let value = match transport {
        Transport::Sdp => uapi::SDP_TRANSPORT_SDP,
        Transport::Tcp => uapi::SDP_TRANSPORT_TCP,
        Transport::Both => uapi::SDP_TRANSPORT_BOTH,
    };
    options::set_tcp(fd, uapi::SDP_TRANSPORT, value)
}

/// Tells the kernel the transport of the call that follows. It is an error if only one transport is
/// allowed, but the socket can no longer use it: bind(), an option or an earlier connect() has made
/// it a TCP socket, or it is an SDP socket and its port is not free in TCP.
fn settle(fd: c_int, transport: Transport) -> Result<(), c_int> {
    if tell(fd, transport) {
        return Ok(());
    }
    let error = errno::get();
    let is_fresh = || {
        options::get(fd, libc::SOL_SOCKET, libc::SO_ACCEPTCONN) == Some(0)
            && address_of(fd, libc::getpeername).is_none()
    };
    match transport {
        Transport::Both => return Ok(()),
        // The kernel returns this for a bound socket that is neither connected nor listening.
        Transport::Tcp if error == libc::EADDRINUSE => return Err(error),
        // net.sdp.companion denies this process the TCP half, and the rules deny it SDP.
        Transport::Tcp if error == libc::EPERM => return Err(error),
        Transport::Tcp => return Ok(()),
        Transport::Sdp => {}
    }
    if options::transport(fd) != Some(uapi::SDP_TRANSPORT_TCP) || !is_fresh() {
        return Ok(());
    }
    match options::get(fd, libc::IPPROTO_TCP, uapi::SDP_FALLBACK_REASON) {
        Some(reason @ (libc::EADDRINUSE | libc::EOPNOTSUPP)) => Err(reason),
        _ => Err(libc::EADDRNOTAVAIL),
    }
}

fn decide(settings: &Settings, role: Role, address: SocketAddr) -> Decision {
    let decision = settings.rules.decide(role, address);
    let role = match role {
        Role::Server => "listen on",
        Role::Client => "connect to",
    };
    match decision.line {
        Some(line) => settings.log.say(
            level::MATCH,
            format_args!(
                "{role} {address}: rule in line {line}: {:?}",
                decision.transport
            ),
        ),
        None => settings
            .log
            .say(level::NO_MATCH, format_args!("{role} {address}: no rule")),
    }
    decision
}

/// Whether the kernel already knows the final decision.
fn is_settled(settings: &Settings, role: Option<Transport>) -> bool {
    settings.certain().is_some() || role == Some(Transport::Both)
}

/// If a server may use SDP only, the kernel is told before bind(), so that a port in use in TCP
/// does not matter. If it may use TCP only, the kernel is told in listen(), because the socket may
/// still connect. Returns whether the socket is limited to SDP now, although a client has more
/// choice.
///
/// # Safety
///
/// As for `parse()`.
pub(crate) unsafe fn before_bind(fd: c_int, address: *const sockaddr, len: socklen_t) -> bool {
    let settings = settings::get();
    if is_settled(settings, settings.server) {
        return false;
    }
    // SAFETY: By the caller's promise.
    let Some(address) = (unsafe { parse(address, len) }) else {
        return false;
    };
    let is_known = settings.server.is_some() || address.port() != 0;
    is_known
        && options::is_sdp(fd)
        && decide(settings, Role::Server, address).transport == Transport::Sdp
        && tell(fd, Transport::Sdp)
        && settings.client != Some(Transport::Sdp)
}

/// SDP does not have the address. As a client the socket may have it, and becomes a TCP socket.
/// Returns whether bind() shall be tried again.
pub(crate) fn open_again(fd: c_int) -> bool {
    tell(fd, Transport::Both)
}

/// The error is the result of the call.
///
/// # Safety
///
/// As for `parse()`.
pub(crate) unsafe fn before_connect(
    fd: c_int,
    address: *const sockaddr,
    len: socklen_t,
) -> Result<(), c_int> {
    let settings = settings::get();
    // bind() may have set the transport for a server.
    if settings.certain().is_some()
        || is_settled(settings, settings.client) && is_settled(settings, settings.server)
    {
        return Ok(());
    }
    // SAFETY: The caller promises that the address stays readable.
    match unsafe { parse(address, len) } {
        Some(address) if options::is_sdp(fd) => {
            settle(fd, decide(settings, Role::Client, address).transport)
        }
        _ => Ok(()),
    }
}

/// The error is the result of the call.
pub(crate) fn before_listen(fd: c_int) -> Result<(), c_int> {
    let settings = settings::get();
    if is_settled(settings, settings.server) || !options::is_sdp(fd) {
        return Ok(());
    }
    let transport = match settings.server {
        Some(transport) => Some(transport),
        None => address_of(fd, libc::getsockname)
            .map(|address| decide(settings, Role::Server, address).transport),
    };
    transport.map_or(Ok(()), |transport| settle(fd, transport))
}

/// # Safety
///
/// As for `parse()`.
pub(crate) unsafe fn after_connect(
    fd: c_int,
    address: *const sockaddr,
    len: socklen_t,
    result: c_int,
) {
    let settings = settings::get();
    if !settings.log.wants(level::SUMMARY) {
        return;
    }
    let outcome = if result == 0 { 0 } else { errno::get() };
    // SAFETY: The caller promises that the address stays readable.
    let Some(address) = (unsafe { parse(address, len) }) else {
        return;
    };
    let Some(transport) = options::transport(fd) else {
        return;
    };
    match outcome {
        0 => {
            UNDER_WAY.remove(fd);
            report(
                settings,
                fd,
                transport,
                format_args!("connect to {address}"),
            );
        }
        // A connect() that a signal interrupts continues in the background.
        libc::EINPROGRESS | libc::EINTR => {
            UNDER_WAY.insert(fd);
            settings
                .log
                .say(level::CALL, format_args!("connect to {address}: under way"));
        }
        // Another way to ask whether a connect() in progress has succeeded.
        libc::EISCONN => after_error(fd, 0),
        errno => settings.log.say(
            level::CALL,
            format_args!("connect to {address}: errno {errno}"),
        ),
    }
}

/// The program has asked for the result of its connect(): `error`, or as far as is known success.
pub(crate) fn after_error(fd: c_int, error: c_int) {
    if !UNDER_WAY.contains(fd) {
        return;
    }
    let settings = settings::get();
    if error != 0 {
        UNDER_WAY.remove(fd);
        settings.log.say(
            level::CALL,
            format_args!("connect (fd {fd}): errno {error}"),
        );
        return;
    }
    // Without a peer the connect() has not ended yet.
    let Some(peer) = address_of(fd, libc::getpeername) else {
        return;
    };
    if let (true, Some(transport)) = (UNDER_WAY.remove(fd), options::transport(fd)) {
        report(settings, fd, transport, format_args!("connect to {peer}"));
    }
}

/// The descriptor belongs to a new socket.
pub(crate) fn after_socket(fd: c_int) {
    UNDER_WAY.remove(fd);
}

pub(crate) fn after_listen(fd: c_int, result: c_int) {
    let settings = settings::get();
    if result != 0 || !settings.log.wants(level::SUMMARY) {
        return;
    }
    if let (Some(transport), Some(address)) =
        (options::transport(fd), address_of(fd, libc::getsockname))
    {
        report(settings, fd, transport, format_args!("listen on {address}"));
    }
}

/// Reports the transport of a socket, and the reason.
fn report(settings: &Settings, fd: c_int, transport: c_int, call: core::fmt::Arguments<'_>) {
    let say = |text: core::fmt::Arguments<'_>| {
        settings
            .log
            .say(level::SUMMARY, format_args!("{call}: {text}"));
    };
    match transport {
        uapi::SDP_TRANSPORT_SDP => say(format_args!("SDP")),
        uapi::SDP_TRANSPORT_BOTH => say(format_args!("SDP and TCP")),
        _ => match options::get(fd, libc::IPPROTO_TCP, uapi::SDP_FALLBACK_REASON) {
            Some(reason) if reason != 0 => {
                let count = count_fallback();
                say(format_args!("TCP ({}) [fallback {count}]", Errno(reason)));
            }
            _ => say(format_args!("TCP (by the rules)")),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::ptr::from_ref;

    fn parsed<T>(name: &T, len: usize) -> Option<SocketAddr> {
        // SAFETY: `len` is at most the size of the name.
        unsafe {
            parse(
                from_ref(name).cast(),
                socklen_t::try_from(len.min(size_of::<T>())).unwrap_or(0),
            )
        }
    }

    #[test]
    fn names_of_both_families_are_read() {
        // SAFETY: All-zero names are valid.
        let (mut v4, mut v6) = unsafe {
            (
                core::mem::zeroed::<sockaddr_in>(),
                core::mem::zeroed::<sockaddr_in6>(),
            )
        };
        v4.sin_family = 2;
        v4.sin_port = 80_u16.to_be();
        v4.sin_addr.s_addr = u32::from_ne_bytes([10, 0, 0, 2]);
        assert_eq!(parsed(&v4, 16), "10.0.0.2:80".parse().ok());
        assert_eq!(parsed(&v4, 15), None);
        v6.sin6_family = 10;
        v6.sin6_port = 81_u16.to_be();
        v6.sin6_addr.s6_addr[15] = 1;
        assert_eq!(parsed(&v6, 28), "[::1]:81".parse().ok());
        assert_eq!(parsed(&v6, 27), None);
        v4.sin_family = 1;
        assert_eq!(parsed(&v4, 16), None);
        for nowhere in [0, 1, usize::MAX - 15] {
            let nowhere = core::ptr::without_provenance(nowhere);
            // SAFETY: The address is not readable, which `parse()` allows.
            assert_eq!(unsafe { parse(nowhere, 28) }, None);
        }
    }
}
