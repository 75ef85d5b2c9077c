// SPDX-License-Identifier: MIT

//! A stand-in for a kernel that has SDP. It is preloaded after `libsdp.so` and answers that
//! library's calls about family 27. Its "SDP sockets" are TCP sockets. It stores their descriptors
//! and the options set on them.
//!
//! `FAKE_SDP_SOCKET_ERRNO`, `FAKE_SDP_FAMILY_ERRNO` and `FAKE_SDP_TRANSPORT_ERRNO` make
//! `socket(27)` and the setting of an option fail with that errno. `FAKE_SDP_REASON` makes
//! connect() and listen() fall back to TCP with that errno as the reason. `FAKE_SDP_BIND_ERRNO`
//! does the same for bind(), which fails for an SDP-only socket.

use core::ffi::CStr;
use core::sync::atomic::{AtomicI32, Ordering::Relaxed};
use libc::{c_int, c_long, c_void, sockaddr, socklen_t};
use sdp_uapi::{
    AF_INET_SDP, SDP_FALLBACK_REASON, SDP_SOCK_FAMILY, SDP_TRANSPORT, SDP_TRANSPORT_BOTH,
    SDP_TRANSPORT_SDP, SDP_TRANSPORT_TCP,
};

const SOCKETS: usize = 64;

/// The state of the SDP socket with a descriptor.
struct Slot {
    /// 0 if there is none.
    family: AtomicI32,
    transport: AtomicI32,
    reason: AtomicI32,
}

static SLOTS: [Slot; SOCKETS] = [const {
    Slot {
        family: AtomicI32::new(0),
        transport: AtomicI32::new(0),
        reason: AtomicI32::new(0),
    }
}; SOCKETS];

fn place(fd: c_int) -> Option<&'static Slot> {
    SLOTS.get(usize::try_from(fd).ok()?)
}

fn sdp(fd: c_int) -> Option<&'static Slot> {
    place(fd).filter(|slot| slot.family.load(Relaxed) != 0)
}

/// The number in the environment variable `name`.
fn wanted(name: &CStr) -> Option<c_int> {
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
    // SAFETY: the arguments are the intercepted call's; its caller vouches for them.
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
    let is_sdp = domain == AF_INET_SDP;
    if let Some(errno) = wanted(c"FAKE_SDP_SOCKET_ERRNO").filter(|_| is_sdp) {
        return fail(errno);
    }
    let domain = if is_sdp { libc::AF_INET } else { domain };
    let fd = call(
        libc::SYS_socket,
        [word(domain), word(kind), word(protocol), 0, 0],
    );
    if let Some(slot) = place(fd).filter(|_| is_sdp) {
        slot.family.store(libc::AF_INET, Relaxed);
        slot.transport.store(0, Relaxed);
        slot.reason.store(0, Relaxed);
    }
    fd
}

/// Puts a TCP socket of `family` in the place of `fd`.
fn change_family(fd: c_int, family: c_int) {
    let new = call(
        libc::SYS_socket,
        [word(family), word(libc::SOCK_STREAM), 0, 0, 0],
    );
    let flags = call(libc::SYS_fcntl, [word(fd), word(libc::F_GETFL), 0, 0, 0]);
    let cloexec = call(libc::SYS_fcntl, [word(fd), word(libc::F_GETFD), 0, 0, 0]);
    call(
        libc::SYS_fcntl,
        [word(new), word(libc::F_SETFL), word(flags), 0, 0],
    );
    let cloexec = if cloexec == libc::FD_CLOEXEC {
        libc::O_CLOEXEC
    } else {
        0
    };
    call(libc::SYS_dup3, [word(new), word(fd), word(cloexec), 0, 0]);
    call(libc::SYS_close, [word(new), 0, 0, 0, 0]);
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
    let (errno, slot) = match (sdp(fd), level, name) {
        (Some(slot), libc::IPPROTO_TCP, SDP_SOCK_FAMILY) => {
            (wanted(c"FAKE_SDP_FAMILY_ERRNO"), &slot.family)
        }
        (Some(slot), libc::IPPROTO_TCP, SDP_TRANSPORT) => {
            (wanted(c"FAKE_SDP_TRANSPORT_ERRNO"), &slot.transport)
        }
        _ => {
            return call(
                libc::SYS_setsockopt,
                [
                    word(fd),
                    word(level),
                    word(name),
                    value.addr(),
                    len as usize,
                ],
            )
        }
    };
    if let Some(errno) = errno {
        return fail(errno);
    }
    // SAFETY: the caller vouches for `value`.
    let value = unsafe { value.cast::<c_int>().read() };
    let is_tcp = slot.load(Relaxed) == SDP_TRANSPORT_TCP;
    if name == SDP_TRANSPORT && is_tcp && value != SDP_TRANSPORT_TCP {
        return fail(libc::EINVAL);
    }
    if name == SDP_SOCK_FAMILY {
        change_family(fd, value);
    }
    slot.store(value, Relaxed);
    0
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
    let answer = sdp(fd).and_then(|slot| match (level, name) {
        (libc::SOL_SOCKET, libc::SO_DOMAIN) => Some(AF_INET_SDP),
        (libc::IPPROTO_TCP, SDP_SOCK_FAMILY) => Some(slot.family.load(Relaxed)),
        (libc::IPPROTO_TCP, SDP_TRANSPORT) => Some(slot.transport.load(Relaxed)),
        (libc::IPPROTO_TCP, SDP_FALLBACK_REASON) => Some(slot.reason.load(Relaxed)),
        _ => None,
    });
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

/// Falls back to TCP if there is a reason to.
fn give_up(fd: c_int, reason: Option<c_int>) {
    if let (Some(slot), Some(reason)) = (sdp(fd), reason) {
        if slot.transport.load(Relaxed) == SDP_TRANSPORT_BOTH {
            slot.transport.store(SDP_TRANSPORT_TCP, Relaxed);
            slot.reason.store(reason, Relaxed);
        }
    }
}

/// bind(2) of a kernel with SDP.
///
/// # Safety
///
/// `address` must be valid for reads of `len` bytes.
#[no_mangle]
pub unsafe extern "C" fn bind(fd: c_int, address: *const sockaddr, len: socklen_t) -> c_int {
    let reason = wanted(c"FAKE_SDP_BIND_ERRNO");
    let is_sdp = sdp(fd).is_some_and(|slot| slot.transport.load(Relaxed) == SDP_TRANSPORT_SDP);
    if let Some(errno) = reason.filter(|_| is_sdp) {
        return fail(errno);
    }
    give_up(fd, reason);
    call(
        libc::SYS_bind,
        [word(fd), address.addr(), len as usize, 0, 0],
    )
}

/// connect(2) of a kernel with SDP.
///
/// # Safety
///
/// `address` must be valid for reads of `len` bytes.
#[no_mangle]
pub unsafe extern "C" fn connect(fd: c_int, address: *const sockaddr, len: socklen_t) -> c_int {
    give_up(fd, wanted(c"FAKE_SDP_REASON"));
    call(
        libc::SYS_connect,
        [word(fd), address.addr(), len as usize, 0, 0],
    )
}

/// listen(2) of a kernel with SDP.
#[no_mangle]
pub extern "C" fn listen(fd: c_int, backlog: c_int) -> c_int {
    give_up(fd, wanted(c"FAKE_SDP_REASON"));
    call(libc::SYS_listen, [word(fd), word(backlog), 0, 0, 0])
}

/// close(2), which also removes the state of the descriptor.
#[no_mangle]
pub extern "C" fn close(fd: c_int) -> c_int {
    if let Some(slot) = place(fd) {
        slot.family.store(0, Relaxed);
    }
    call(libc::SYS_close, [word(fd), 0, 0, 0, 0])
}
