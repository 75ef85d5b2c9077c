// SPDX-License-Identifier: MIT

//! What the rules say once an address is known, told to the kernel; and what
//! has become of a socket, told to the user.
//!
//! Everything here changes errno.

use crate::birth::count_fallback;
use crate::config::{Role, Transport};
use crate::log::level;
use crate::rules::Decision;
use crate::settings::{self, Settings};
use crate::text::Errno;
use crate::{errno, options, uapi};
use core::ptr::from_mut;
use libc::{c_int, sockaddr, sockaddr_in, sockaddr_in6, socklen_t};
use std::net::{IpAddr, SocketAddr};

/// The Internet address in a `sockaddr`; `None` for anything else.
///
/// # Safety
///
/// `address` is null or readable for `len` bytes.
unsafe fn parse(address: *const sockaddr, len: socklen_t) -> Option<SocketAddr> {
    let len = usize::try_from(len).ok()?;
    if address.is_null() || len < size_of::<sockaddr_in>() {
        return None;
    }
    // SAFETY: By the caller's promise; it may stand anywhere.
    let family = unsafe { (&raw const (*address).sa_family).read_unaligned() };
    match c_int::from(family) {
        libc::AF_INET => {
            // SAFETY: As above, and it is long enough.
            let name = unsafe { address.cast::<sockaddr_in>().read_unaligned() };
            let ip = IpAddr::from(name.sin_addr.s_addr.to_ne_bytes());
            Some(SocketAddr::new(ip, u16::from_be(name.sin_port)))
        }
        libc::AF_INET6 if len >= size_of::<sockaddr_in6>() => {
            // SAFETY: As above, and it is long enough.
            let name = unsafe { address.cast::<sockaddr_in6>().read_unaligned() };
            let ip = IpAddr::from(name.sin6_addr.s6_addr);
            Some(SocketAddr::new(ip, u16::from_be(name.sin6_port)))
        }
        _ => None,
    }
}

/// The socket's own address.
fn own_address(fd: c_int) -> Option<SocketAddr> {
    // SAFETY: An all-zero address is a valid one.
    let mut name: libc::sockaddr_storage = unsafe { core::mem::zeroed() };
    let mut len = socklen_t::try_from(size_of_val(&name)).ok()?;
    // SAFETY: `name` is valid for writes of `len` bytes.
    let result = unsafe { libc::getsockname(fd, from_mut(&mut name).cast(), &raw mut len) };
    if result != 0 {
        return None;
    }
    // SAFETY: The kernel has written it.
    unsafe { parse(from_mut(&mut name).cast(), len) }
}

/// Tells the kernel. A socket that is no longer open to it stays what it is.
fn tell(fd: c_int, transport: Transport) {
    let value = match transport {
        Transport::Sdp => uapi::SDP_TRANSPORT_SDP,
        Transport::Tcp => uapi::SDP_TRANSPORT_TCP,
        Transport::Both => uapi::SDP_TRANSPORT_BOTH,
    };
    options::set_tcp(fd, uapi::SDP_TRANSPORT, value);
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
///
/// # Safety
///
/// `address` is null or readable for `len` bytes.
pub(crate) unsafe fn before_bind(fd: c_int, address: *const sockaddr, len: socklen_t) {
    let settings = settings::get();
    if is_settled(settings, settings.server) {
        return;
    }
    // SAFETY: By the caller's promise.
    let Some(address) = (unsafe { parse(address, len) }) else {
        return;
    };
    let is_known = settings.server.is_some() || address.port() != 0;
    if is_known && options::is_sdp(fd) {
        let decision = decide(settings, Role::Server, address);
        if decision.transport == Transport::Sdp {
            tell(fd, Transport::Sdp);
        }
    }
}

/// # Safety
///
/// `address` is null or readable for `len` bytes.
pub(crate) unsafe fn before_connect(fd: c_int, address: *const sockaddr, len: socklen_t) {
    let settings = settings::get();
    // bind() may have settled it for a server.
    if settings.certain().is_some()
        || is_settled(settings, settings.client) && is_settled(settings, settings.server)
    {
        return;
    }
    // SAFETY: By the caller's promise.
    if let Some(address) = unsafe { parse(address, len) } {
        if options::is_sdp(fd) {
            tell(fd, decide(settings, Role::Client, address).transport);
        }
    }
}

pub(crate) fn before_listen(fd: c_int) {
    let settings = settings::get();
    if is_settled(settings, settings.server) || !options::is_sdp(fd) {
        return;
    }
    let transport = match settings.server {
        Some(transport) => Some(transport),
        None => own_address(fd).map(|address| decide(settings, Role::Server, address).transport),
    };
    if let Some(transport) = transport {
        tell(fd, transport);
    }
}

/// # Safety
///
/// `address` is null or readable for `len` bytes.
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
        0 => report(
            settings,
            fd,
            transport,
            format_args!("connect to {address}"),
        ),
        libc::EINPROGRESS => report(
            settings,
            fd,
            transport,
            format_args!("connect to {address} (under way)"),
        ),
        errno => settings.log.say(
            level::CALL,
            format_args!("connect to {address}: errno {errno}"),
        ),
    }
}

pub(crate) fn after_listen(fd: c_int, result: c_int) {
    let settings = settings::get();
    if result != 0 || !settings.log.wants(level::SUMMARY) {
        return;
    }
    if let (Some(transport), Some(address)) = (options::transport(fd), own_address(fd)) {
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
        // SAFETY: Null is allowed.
        assert_eq!(unsafe { parse(core::ptr::null(), 16) }, None);
    }
}
