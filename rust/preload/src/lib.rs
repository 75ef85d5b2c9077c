// SPDX-License-Identifier: MIT

//! `libsdp.so`: `LD_PRELOAD` loads it into a program, and it turns the program's TCP sockets into
//! SDP sockets, according to the rules of `libsdp.conf`.
//!
//! The kernel does the switching: a socket of family 27 with `SDP_TRANSPORT` set to *both* tries
//! SDP and then TCP, or listens on both, with the same descriptor throughout. So dup, fork, exec,
//! epoll and threads need no support here. The library makes the socket (`birth`), and tells the
//! kernel which transport the rules want once an address is known (`decision`). It does nothing
//! else, and intercepts no call that transfers data.
//!
//! `SO_DOMAIN` would reveal the exchange, because it is the family with which a socket was made.
//! Programs that inherit a socket, or get it from systemd or through a Unix socket, read it before
//! they use its addresses, which are `AF_INET` or `AF_INET6`. So `getsockopt()` answers this option
//! like TCP.
//!
//! The library keeps no table of sockets; only while it logs, it stores which ones are connecting,
//! to log the result. It allocates nothing once it is loaded, never prints to stdout, and leaves
//! `errno` as the C library would.

mod absence;
mod birth;
mod config;
mod decision;
mod descriptors;
mod errno;
mod family;
mod lending;
#[cfg(all(not(test), any(target_arch = "x86_64", target_arch = "aarch64")))]
mod linked;
mod log;
mod memory;
mod next;
mod options;
mod rules;
mod settings;
mod source;
mod text;
mod version;

use libc::{c_char, c_int, c_void, sockaddr, socklen_t};
use sdp_uapi as uapi;

/// Runs while the library is loaded, before the program's own code.
#[used]
#[link_section = ".init_array"]
static ON_LOAD: extern "C" fn() = on_load;

extern "C" fn on_load() {
    next::resolve_all();
    errno::keep(|| {
        settings::get();
    });
}

/// For `libsdp_async.so`: how the rules want this program to lend its memory, as in `SDP_ASYNC`. Null if
/// they do not.
#[cfg_attr(not(test), no_mangle)]
pub extern "C" fn libsdp_async_way() -> *const c_char {
    settings::get()
        .lending
        .map_or(core::ptr::null(), core::ffi::CStr::as_ptr)
}

/// socket(2): an SDP socket if the program asks for TCP.
#[cfg_attr(not(test), no_mangle)]
pub extern "C" fn socket(domain: c_int, type_and_flags: c_int, protocol: c_int) -> c_int {
    if let Some(family) = family::tcp_family(domain, type_and_flags, protocol) {
        let made = errno::keep(|| birth::socket(family, type_and_flags, protocol));
        if let Some(fd) = made {
            decision::after_socket(fd);
            return fd;
        }
    }
    next::socket(domain, type_and_flags, protocol)
}

/// bind(2), after a rule has decided about the address. If SDP does not have the address and only a
/// rule for servers forbids TCP, the socket may still connect over TCP.
///
/// # Safety
///
/// As for bind(2): the readable part of the `len` bytes at `address` stays readable.
#[cfg_attr(not(test), no_mangle)]
pub unsafe extern "C" fn bind(fd: c_int, address: *const sockaddr, len: socklen_t) -> c_int {
    // SAFETY: The caller vouches for the address.
    let is_servers = errno::keep(|| unsafe { decision::before_bind(fd, address, len) });
    // SAFETY: The caller vouches for the address.
    let bind = || unsafe { next::bind(fd, address, len) };
    let before = errno::get();
    let result = bind();
    let is_tried_again = result != 0
        && is_servers
        && errno::get() == libc::EADDRNOTAVAIL
        && errno::keep(|| decision::open_again(fd));
    if is_tried_again {
        errno::set(before);
        return bind();
    }
    result
}

/// connect(2), after a rule has decided about the address.
///
/// # Safety
///
/// As for connect(2): the readable part of the `len` bytes at `address` stays readable.
#[cfg_attr(not(test), no_mangle)]
pub unsafe extern "C" fn connect(fd: c_int, address: *const sockaddr, len: socklen_t) -> c_int {
    // SAFETY: The caller vouches for the address.
    if let Err(errno) = errno::keep(|| unsafe { decision::before_connect(fd, address, len) }) {
        return errno::fail(errno);
    }
    // SAFETY: The caller vouches for the address.
    let result = unsafe { next::connect(fd, address, len) };
    // SAFETY: The caller vouches for the address.
    errno::keep(|| unsafe { decision::after_connect(fd, address, len, result) });
    result
}

/// listen(2), after a rule has decided about the socket's address.
#[cfg_attr(not(test), no_mangle)]
pub extern "C" fn listen(fd: c_int, backlog: c_int) -> c_int {
    if let Err(errno) = errno::keep(|| decision::before_listen(fd)) {
        return errno::fail(errno);
    }
    let result = next::listen(fd, backlog);
    errno::keep(|| decision::after_listen(fd, result));
    result
}

/// getsockopt(2), with TCP's answer for the socket's domain. A program that reads the error often
/// asks for the result of a connect(), which is logged.
///
/// # Safety
///
/// As for getsockopt(2): the kernel may write to `len` and `value`.
#[cfg_attr(not(test), no_mangle)]
pub unsafe extern "C" fn getsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    len: *mut socklen_t,
) -> c_int {
    let answer = if level == libc::SOL_SOCKET {
        errno::keep(|| match name {
            libc::SO_DOMAIN => options::tcp_domain(fd),
            libc::SO_PROTOCOL => options::tcp_domain(fd).map(|_| libc::IPPROTO_TCP),
            _ => None,
        })
    } else {
        None
    };
    // SAFETY: The caller vouches for the pointers.
    let result = unsafe { next::getsockopt(fd, level, name, value, len) };
    if let (0, Some(answer)) = (result, answer) {
        // The kernel has written an int, truncated to the caller's buffer, and its length; the
        // answer replaces it.
        let bytes = answer.to_ne_bytes();
        // SAFETY: The kernel has just read and written both.
        unsafe {
            let written = usize::try_from(*len).unwrap_or(0).min(bytes.len());
            core::ptr::copy_nonoverlapping(bytes.as_ptr(), value.cast::<u8>(), written);
        }
    }
    if (result, level, name) == (0, libc::SOL_SOCKET, libc::SO_ERROR) {
        // SAFETY: The kernel has just written both; the error is an int if there was room for one.
        let error = unsafe {
            if usize::try_from(*len) != Ok(size_of::<c_int>()) {
                return result;
            }
            value.cast::<c_int>().read_unaligned()
        };
        errno::keep(|| decision::after_error(fd, error));
    }
    result
}
