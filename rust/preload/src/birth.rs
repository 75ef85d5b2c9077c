// SPDX-License-Identifier: MIT

//! Makes a socket: an SDP socket with the transports that the rules allow, or `None` for a TCP
//! socket.

use crate::absence::{self, Absence};
use crate::config::Transport;
use crate::family::TcpFamily;
use crate::log::level;
use crate::settings::{self, Settings};
use crate::text::Errno;
use crate::{errno, next, options, uapi};
use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering};
use libc::c_int;

/// The kernel's last answer that it does not know the family.
static ABSENCE: Absence = Absence::unknown();

/// The number of sockets that use TCP for another reason than a rule.
static FALLBACKS: AtomicU64 = AtomicU64::new(0);

/// Counts a fallback; returns its number in this process.
pub(crate) fn count_fallback() -> u64 {
    FALLBACKS.fetch_add(1, Ordering::Relaxed).saturating_add(1)
}

/// A socket for a program that asked for TCP. Changes errno.
pub(crate) fn socket(family: TcpFamily, type_and_flags: c_int, protocol: c_int) -> Option<c_int> {
    let settings = settings::get();
    let transport = settings.certain().unwrap_or(Transport::Both);
    if transport == Transport::Tcp {
        settings.log.say(
            level::CALL,
            format_args!("{} socket: TCP (by the rules)", family.name()),
        );
        return None;
    }
    match sdp_socket(family, type_and_flags, protocol, transport) {
        Ok(fd) => {
            report(settings, family, fd, transport);
            Some(fd)
        }
        Err(refusal) => {
            let count = count_fallback();
            settings.log.say(
                level::SUMMARY,
                format_args!(
                    "{} socket: TCP ({refusal}) [fallback {count}]",
                    family.name()
                ),
            );
            None
        }
    }
}

fn report(settings: &Settings, family: TcpFamily, fd: c_int, transport: Transport) {
    let name = family.name();
    match transport {
        Transport::Both => settings
            .log
            .say(level::CALL, format_args!("{name} socket: open (fd {fd})")),
        _ => settings
            .log
            .say(level::SUMMARY, format_args!("{name} socket: SDP (fd {fd})")),
    }
}

/// The reason why there is no SDP socket.
enum Refusal {
    /// The errno of the kernel.
    Errno(c_int),
    /// An SDP socket is possible, but not one that may use TCP as well.
    Companion,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Errno(errno) => Errno(*errno).fmt(f),
            Self::Companion => f.write_str(
                "net.sdp.companion allows this process no socket for both; sdp_chk says more",
            ),
        }
    }
}

/// Tries to make an SDP socket with addresses of `family`.
fn sdp_socket(
    family: TcpFamily,
    type_and_flags: c_int,
    protocol: c_int,
    transport: Transport,
) -> Result<c_int, Refusal> {
    if ABSENCE.holds_at(absence::now()) {
        return Err(Refusal::Errno(libc::EAFNOSUPPORT));
    }
    let fd = next::socket(uapi::AF_INET_SDP, type_and_flags, protocol);
    if fd < 0 {
        let refusal = errno::get();
        if refusal == libc::EAFNOSUPPORT {
            ABSENCE.seen_at(absence::now());
        }
        return Err(Refusal::Errno(refusal));
    }
    // An SDP socket begins as an IPv4 socket. A program that asked for IPv6 must see :: as its
    // wildcard and AF_INET6 in every address.
    let named =
        family == TcpFamily::V4 || options::set_tcp(fd, uapi::SDP_SOCK_FAMILY, family.number());
    let open = named
        && (transport != Transport::Both
            || options::set_tcp(fd, uapi::SDP_TRANSPORT, uapi::SDP_TRANSPORT_BOTH));
    if open {
        return Ok(fd);
    }
    let refusal = errno::get();
    // SAFETY: `fd` was made above and no other code has it.
    unsafe { libc::close(fd) };
    Err(match refusal {
        libc::EPERM if named => Refusal::Companion,
        errno => Refusal::Errno(errno),
    })
}
