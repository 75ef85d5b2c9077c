// SPDX-License-Identifier: MIT

//! What the rules say once an address is known, told to the kernel; and what
//! has become of a socket, told to the user.
//!
//! Everything here changes errno.

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

/// While what becomes of sockets is logged: those of which connect() has said
/// that it is under way, and nothing was said since.
static UNDER_WAY: Descriptors = Descriptors::new();

/// getsockname(2) or getpeername(2).
type Naming = unsafe extern "C" fn(c_int, *mut sockaddr, *mut socklen_t) -> c_int;

/// The Internet address in a `sockaddr`; `None` for anything else, memory that cannot be
/// read included.
///
/// # Safety
///
/// What can be read of the `len` bytes at `address` stays so for the call.
unsafe fn parse(address: *const sockaddr, len: socklen_t) -> Option<SocketAddr> {
    let len = usize::try_from(len).ok()?;
    let is_readable = |len| memory::is_readable(address.addr(), len);
    if len < size_of::<sockaddr_in>() || !is_readable(size_of::<sockaddr_in>()) {
        return None;
    }
    // SAFETY: It has been looked at, and stays by the caller's promise; it may stand anywhere.
    let family = unsafe { (&raw const (*address).sa_family).read_unaligned() };
    match c_int::from(family) {
        libc::AF_INET => {
            // SAFETY: As above, and it is long enough.
            let name = unsafe { address.cast::<sockaddr_in>().read_unaligned() };
            let ip = IpAddr::from(name.sin_addr.s_addr.to_ne_bytes());
            Some(SocketAddr::new(ip, u16::from_be(name.sin_port)))
        }
        libc::AF_INET6
            if len >= size_of::<sockaddr_in6>() && is_readable(size_of::<sockaddr_in6>()) =>
        {
            // SAFETY: As above, and it is long enough.
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
    // SAFETY: The kernel has written it.
    unsafe { parse(from_mut(&mut name).cast(), len) }
}

/// Tells the kernel; whether it took it. A socket that is no longer open to it stays what
/// it is.
fn tell(fd: c_int, transport: Transport) -> bool {
    let value = match transport {
        Transport::Sdp => uapi::SDP_TRANSPORT_SDP,
        Transport::Tcp => uapi::SDP_TRANSPORT_TCP,
        Transport::Both => uapi::SDP_TRANSPORT_BOTH,
    };
    options::set_tcp(fd, uapi::SDP_TRANSPORT, value)
}

/// Tells the kernel what the call that follows is to use. The error is that of a call which
/// is to use one of the two alone, on a socket that can no longer: bind(), an option or an
/// earlier connect() has made it TCP's, or it is SDP's and TCP has not its port.
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
        // The kernel says so of a bound socket that is neither connected nor listening.
        Transport::Tcp if error == libc::EADDRINUSE => return Err(error),
        // net.sdp.companion keeps this process from TCP's half, and the rules from SDP's.
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

/// Whether the kernel already knows all there is to know.
fn is_settled(settings: &Settings, role: Option<Transport>) -> bool {
    settings.certain().is_some() || role == Some(Transport::Both)
}

/// SDP alone is settled before bind(), so that a port which is taken in TCP is
/// no obstacle. TCP alone is left for listen(): the socket may yet connect.
/// Whether the socket is SDP's now and would be less as a client.
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

/// The address is not SDP's: the socket may have it as a client, and becomes TCP's there.
/// Whether bind() is to be tried again.
pub(crate) fn open_again(fd: c_int) -> bool {
    tell(fd, Transport::Both)
}

/// The error is that of the call.
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
    // bind() may have settled it for a server.
    if settings.certain().is_some()
        || is_settled(settings, settings.client) && is_settled(settings, settings.server)
    {
        return Ok(());
    }
    // SAFETY: By the caller's promise.
    match unsafe { parse(address, len) } {
        Some(address) if options::is_sdp(fd) => {
            settle(fd, decide(settings, Role::Client, address).transport)
        }
        _ => Ok(()),
    }
}

/// The error is that of the call.
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
    // SAFETY: By the caller's promise.
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
        // What a signal ends goes on without the call.
        libc::EINPROGRESS | libc::EINTR => {
            UNDER_WAY.insert(fd);
            settings
                .log
                .say(level::CALL, format_args!("connect to {address}: under way"));
        }
        // The other way to ask whether one that was under way has succeeded.
        libc::EISCONN => after_error(fd, 0),
        errno => settings.log.say(
            level::CALL,
            format_args!("connect to {address}: errno {errno}"),
        ),
    }
}

/// The program has asked how its connect() ended: with `error`, or as far as is
/// known well.
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
    // Without a peer it is not over yet.
    let Some(peer) = address_of(fd, libc::getpeername) else {
        return;
    };
    if let (true, Some(transport)) = (UNDER_WAY.remove(fd), options::transport(fd)) {
        report(settings, fd, transport, format_args!("connect to {peer}"));
    }
}

/// The descriptor is one of a new socket.
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

/// Says what a socket uses, and why.
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
        // SAFETY: `len` is at most the size of what is there.
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
            // SAFETY: Nothing there can be read.
            assert_eq!(unsafe { parse(nowhere, 28) }, None);
        }
    }
}
