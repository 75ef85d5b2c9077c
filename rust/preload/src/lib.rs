// SPDX-License-Identifier: MIT

//! `libsdp.so`: loaded into a program by `LD_PRELOAD`, makes its TCP sockets SDP
//! sockets.
//!
//! The kernel speaks sockets, so only their birth is intercepted: `socket()`
//! asks for family 27 where the program asked for TCP. Everything after that,
//! all data included, goes straight to the kernel. Where the kernel has no SDP
//! or refuses it, the program gets the TCP socket it asked for.
//!
//! One question about a socket betrays the exchange: `SO_DOMAIN` and
//! `SO_PROTOCOL` name the family and protocol it was really made with. Programs
//! that are handed a socket (by inheritance, systemd or a Unix socket) ask it
//! before they use its addresses, which are `AF_INET` or `AF_INET6`; so
//! `getsockopt()` answers these two, and only these two, as TCP would.
//!
//! The library keeps no table of sockets: file descriptors can be duplicated,
//! passed on and inherited without its knowing, and the kernel can be asked. It
//! allocates nothing, prints nothing unless asked to (`SDP_DEBUG`, to stderr),
//! and leaves `errno` as the C library would have.

mod absence;
mod next;
mod report;
mod rule;
mod uapi;

use absence::Absence;
use core::ptr::{from_mut, from_ref};
use libc::{c_int, c_void, socklen_t};
use report::Outcome;
use rule::TcpFamily;

/// The kernel's last answer that it does not know the family.
static ABSENCE: Absence = Absence::unknown();

/// Runs while the library is loaded, before the program's own code.
#[used]
#[link_section = ".init_array"]
static ON_LOAD: extern "C" fn() = on_load;

extern "C" fn on_load() {
    next::resolve_all();
    report::enable_from_environment();
}

/// socket(2), with SDP where TCP is asked for.
#[cfg_attr(not(test), no_mangle)]
pub extern "C" fn socket(domain: c_int, type_and_flags: c_int, protocol: c_int) -> c_int {
    if let Some(family) = rule::tcp_family(domain, type_and_flags, protocol) {
        // A call that succeeds leaves errno alone, so the failures on the way
        // must not show either.
        let errno = errno();
        let outcome = sdp_socket(family, type_and_flags, protocol);
        report::socket(family, outcome);
        set_errno(errno);
        if let Outcome::Sdp(fd) = outcome {
            return fd;
        }
    }
    next::socket(domain, type_and_flags, protocol)
}

/// Tries to make an SDP socket with addresses of `family`.
fn sdp_socket(family: TcpFamily, type_and_flags: c_int, protocol: c_int) -> Outcome {
    if ABSENCE.holds_at(absence::now()) {
        return Outcome::Absent;
    }
    let fd = next::socket(uapi::AF_INET_SDP, type_and_flags, protocol);
    if fd < 0 {
        let refusal = errno();
        if refusal == libc::EAFNOSUPPORT {
            ABSENCE.seen_at(absence::now());
        }
        return Outcome::Refused(refusal);
    }
    // An SDP socket begins as an IPv4 one. A program that asked for IPv6 must see
    // :: as its wildcard and AF_INET6 in every name.
    if family == TcpFamily::V6 {
        let number = family.number();
        // SAFETY: `number` is valid for reads of its size during the call.
        let result = unsafe {
            libc::setsockopt(
                fd,
                libc::IPPROTO_TCP,
                uapi::SDP_SOCK_FAMILY,
                from_ref(&number).cast(),
                INT_LEN,
            )
        };
        if result != 0 {
            let refusal = errno();
            // SAFETY: `fd` was made above and no one else knows it.
            unsafe { libc::close(fd) };
            return Outcome::Refused(refusal);
        }
    }
    Outcome::Sdp(fd)
}

/// getsockopt(2), with TCP's answers to the two questions about a socket's origin.
///
/// # Safety
///
/// As for getsockopt(2): `len` and `value` must be what the kernel may write to.
#[cfg_attr(not(test), no_mangle)]
pub unsafe extern "C" fn getsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    len: *mut socklen_t,
) -> c_int {
    let answer = if level == libc::SOL_SOCKET {
        match name {
            libc::SO_DOMAIN => tcp_domain(fd),
            libc::SO_PROTOCOL => tcp_domain(fd).map(|_| libc::IPPROTO_TCP),
            _ => None,
        }
    } else {
        None
    };
    // SAFETY: the caller vouches for the pointers.
    let result = unsafe { next::getsockopt(fd, level, name, value, len) };
    if let (0, Some(answer)) = (result, answer) {
        // The kernel has written an int, cut off where the caller gave less room,
        // and said how much of it; the answer takes the same place.
        let bytes = answer.to_ne_bytes();
        // SAFETY: the kernel has just read and written both.
        unsafe {
            let written = usize::try_from(*len).unwrap_or(0).min(bytes.len());
            core::ptr::copy_nonoverlapping(bytes.as_ptr(), value.cast::<u8>(), written);
        }
    }
    result
}

/// The family that TCP would name for `fd`, if it is an SDP socket.
fn tcp_domain(fd: c_int) -> Option<c_int> {
    let errno = errno();
    let family = match int_option(fd, libc::SOL_SOCKET, libc::SO_DOMAIN) {
        Some(uapi::AF_INET_SDP) => int_option(fd, libc::IPPROTO_TCP, uapi::SDP_SOCK_FAMILY),
        _ => None,
    };
    set_errno(errno);
    family
}

/// The size of an int, as socket options are told it.
#[expect(clippy::cast_possible_truncation, reason = "it is four")]
const INT_LEN: socklen_t = size_of::<c_int>() as socklen_t;

/// The value of an option that is an int, or `None` when the kernel gives none.
fn int_option(fd: c_int, level: c_int, name: c_int) -> Option<c_int> {
    let mut value: c_int = 0;
    let mut len = INT_LEN;
    // SAFETY: `value` is valid for writes of `len` bytes, and `len` for writes.
    let result =
        unsafe { next::getsockopt(fd, level, name, from_mut(&mut value).cast(), &raw mut len) };
    (result == 0 && len == INT_LEN).then_some(value)
}

fn errno() -> c_int {
    // SAFETY: the C library gives each thread an errno that lives as long as it.
    unsafe { *libc::__errno_location() }
}

fn set_errno(errno: c_int) {
    // SAFETY: the C library gives each thread an errno that lives as long as it.
    unsafe { *libc::__errno_location() = errno }
}
