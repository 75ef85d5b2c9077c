// SPDX-License-Identifier: MIT

//! Socket options that are ints, and the socket's kind that they reveal.

use crate::{next, uapi};
use core::ptr::{from_mut, from_ref};
use libc::{c_int, socklen_t};

/// The size of an int, as the length of a socket option.
#[expect(clippy::cast_possible_truncation, reason = "it is four")]
const INT_LEN: socklen_t = size_of::<c_int>() as socklen_t;

/// The value of an option, or `None` after an error.
pub(crate) fn get(fd: c_int, level: c_int, name: c_int) -> Option<c_int> {
    let mut value: c_int = 0;
    let mut len = INT_LEN;
    // SAFETY: `value` is valid for writes of `len` bytes, and `len` for writes.
    let result =
        unsafe { next::getsockopt(fd, level, name, from_mut(&mut value).cast(), &raw mut len) };
    (result == 0 && len == INT_LEN).then_some(value)
}

/// Sets an option at level `SOL_TCP`; returns whether the kernel accepted it.
pub(crate) fn set_tcp(fd: c_int, name: c_int, value: c_int) -> bool {
    // SAFETY: `value` is valid for reads of its size during the call.
    let result = unsafe {
        libc::setsockopt(
            fd,
            libc::IPPROTO_TCP,
            name,
            from_ref(&value).cast(),
            INT_LEN,
        )
    };
    result == 0
}

/// Whether `fd` is a socket of the SDP family.
pub(crate) fn is_sdp(fd: c_int) -> bool {
    get(fd, libc::SOL_SOCKET, libc::SO_DOMAIN) == Some(uapi::AF_INET_SDP)
}

/// The transport of an SDP socket; `None` for any other file.
pub(crate) fn transport(fd: c_int) -> Option<c_int> {
    if is_sdp(fd) {
        get(fd, libc::IPPROTO_TCP, uapi::SDP_TRANSPORT)
    } else {
        None
    }
}

/// The domain that a TCP socket in place of `fd` would have, if `fd` is an SDP socket.
pub(crate) fn tcp_domain(fd: c_int) -> Option<c_int> {
    if is_sdp(fd) {
        get(fd, libc::IPPROTO_TCP, uapi::SDP_SOCK_FAMILY)
    } else {
        None
    }
}
