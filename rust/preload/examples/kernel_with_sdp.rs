// SPDX-License-Identifier: MIT

//! A stand-in for a kernel that has SDP: preloaded behind `libsdp.so`, it answers
//! the three calls which that makes about family 27. Its "SDP sockets" are Unix
//! stream sockets, which no program mistakes for TCP.
//!
//! `FAKE_SDP_SOCKET_ERRNO` and `FAKE_SDP_FAMILY_ERRNO` make `socket(27)` and the
//! setting of the socket's family fail with that number.

use core::ffi::CStr;
use core::sync::atomic::{AtomicI32, Ordering};
use libc::{c_int, c_long, c_void, socklen_t};

const AF_INET_SDP: c_int = 27;
const SDP_SOCK_FAMILY: c_int = 82;
const SOCKETS: usize = 64;

/// The family of the SDP socket with that descriptor; 0 where there is none.
static FAMILY: [AtomicI32; SOCKETS] = [const { AtomicI32::new(0) }; SOCKETS];

fn slot(fd: c_int) -> Option<&'static AtomicI32> {
    FAMILY.get(usize::try_from(fd).ok()?)
}

/// The errno that the environment wants `name` to fail with.
fn wanted_errno(name: &CStr) -> Option<c_int> {
    // SAFETY: the name is a C string; the fixture's program leaves its environment alone.
    let value = unsafe { libc::getenv(name.as_ptr()) };
    if value.is_null() {
        return None;
    }
    // SAFETY: getenv() returned a C string.
    unsafe { CStr::from_ptr(value) }.to_str().ok()?.parse().ok()
}

fn fail(errno: c_int) -> c_int {
    // SAFETY: the C library gives each thread an errno.
    unsafe { *libc::__errno_location() = errno };
    -1
}

fn call(number: c_long, arguments: [usize; 5]) -> c_int {
    let [a, b, c, d, e] = arguments;
    // SAFETY: the arguments are those of the intercepted call, which vouches for them.
    let result = unsafe { libc::syscall(number, a, b, c, d, e) };
    c_int::try_from(result).unwrap_or(-1)
}

#[expect(clippy::cast_sign_loss, reason = "the kernel looks at the low 32 bits")]
fn word(value: c_int) -> usize {
    value as usize
}

/// socket(2) of a kernel with SDP.
#[no_mangle]
pub extern "C" fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    if domain != AF_INET_SDP {
        return call(
            libc::SYS_socket,
            [word(domain), word(kind), word(protocol), 0, 0],
        );
    }
    if let Some(errno) = wanted_errno(c"FAKE_SDP_SOCKET_ERRNO") {
        return fail(errno);
    }
    let fd = call(libc::SYS_socket, [word(libc::AF_UNIX), word(kind), 0, 0, 0]);
    if let Some(family) = slot(fd) {
        family.store(libc::AF_INET, Ordering::Relaxed);
    }
    fd
}

/// setsockopt(2) of a kernel with SDP.
///
/// # Safety
///
/// `value` must be valid for reads of `len` bytes.
#[no_mangle]
pub unsafe extern "C" fn setsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *const c_void,
    len: socklen_t,
) -> c_int {
    let family = slot(fd).filter(|family| family.load(Ordering::Relaxed) != 0);
    match family {
        Some(family) if (level, name) == (libc::IPPROTO_TCP, SDP_SOCK_FAMILY) => {
            if let Some(errno) = wanted_errno(c"FAKE_SDP_FAMILY_ERRNO") {
                return fail(errno);
            }
            // SAFETY: the caller vouches for `value`.
            family.store(unsafe { value.cast::<c_int>().read() }, Ordering::Relaxed);
            0
        }
        _ => call(
            libc::SYS_setsockopt,
            [
                word(fd),
                word(level),
                word(name),
                value.addr(),
                len as usize,
            ],
        ),
    }
}

/// getsockopt(2) of a kernel with SDP.
///
/// # Safety
///
/// `len` must be valid for reads and writes, and `value` for writes of `*len` bytes.
#[no_mangle]
pub unsafe extern "C" fn getsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    len: *mut socklen_t,
) -> c_int {
    let family = slot(fd).map_or(0, |family| family.load(Ordering::Relaxed));
    let answer = match (family, level, name) {
        (0, _, _) => None,
        (_, libc::SOL_SOCKET, libc::SO_DOMAIN) => Some(AF_INET_SDP),
        (_, libc::SOL_SOCKET, libc::SO_PROTOCOL) => Some(0),
        (family, libc::IPPROTO_TCP, SDP_SOCK_FAMILY) => Some(family),
        _ => None,
    };
    let Some(answer) = answer else {
        return call(
            libc::SYS_getsockopt,
            [word(fd), word(level), word(name), value.addr(), len.addr()],
        );
    };
    let bytes = answer.to_ne_bytes();
    // SAFETY: the caller vouches for both pointers.
    unsafe {
        *len = (*len).min(4);
        core::ptr::copy_nonoverlapping(bytes.as_ptr(), value.cast::<u8>(), *len as usize);
    }
    0
}

/// close(2), which ends what is known of the descriptor.
#[no_mangle]
pub extern "C" fn close(fd: c_int) -> c_int {
    if let Some(family) = slot(fd) {
        family.store(0, Ordering::Relaxed);
    }
    call(libc::SYS_close, [word(fd), 0, 0, 0, 0])
}
