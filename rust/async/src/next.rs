// SPDX-License-Identifier: MIT

//! The functions that this library replaces: the next ones in the program's search order.

use core::ffi::CStr;
use core::mem::transmute;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, Ordering};
use libc::{
    c_int, c_uint, c_void, iovec, mmsghdr, msghdr, pid_t, size_t, sockaddr, socklen_t, ssize_t,
};

struct Next {
    name: &'static CStr,
    found: AtomicPtr<c_void>,
}

impl Next {
    const fn new(name: &'static CStr) -> Self {
        Self {
            name,
            found: AtomicPtr::new(null_mut()),
        }
    }

    fn get(&self) -> *mut c_void {
        let known = self.found.load(Ordering::Relaxed);
        if !known.is_null() {
            return known;
        }
        // SAFETY: The name is a C string that lives for the whole call.
        let found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        self.found.store(found, Ordering::Relaxed);
        found
    }
}

macro_rules! next {
    ($slot:ident, $name:ident, $text:literal, $number:expr,
     ($($arg:ident: $type:ty),*) -> $result:ty) => {
        static $slot: Next = Next::new($text);

        /// # Safety
        ///
        /// As for the function of that name.
        pub(crate) unsafe fn $name($($arg: $type),*) -> $result {
            let next = $slot.get();
            if next.is_null() {
                // SAFETY: The caller vouches for the arguments.
                let result = unsafe { libc::syscall($number, $($arg),*) };
                return <$result>::try_from(result).unwrap_or(-1);
            }
            // SAFETY: It is the address of a function of that name, which has this type in every C
            // library; the caller vouches for the arguments.
            unsafe {
                transmute::<*mut c_void, unsafe extern "C" fn($($type),*) -> $result>(next)($($arg),*)
            }
        }
    };
}

next!(SOCKET, socket, c"socket", libc::SYS_socket,
    (domain: c_int, kind: c_int, protocol: c_int) -> c_int);
next!(WRITE, write, c"write", libc::SYS_write,
    (fd: c_int, data: *const c_void, len: size_t) -> ssize_t);
next!(WRITEV, writev, c"writev", libc::SYS_writev,
    (fd: c_int, parts: *const iovec, count: c_int) -> ssize_t);
next!(SENDTO, sendto, c"sendto", libc::SYS_sendto,
    (fd: c_int, data: *const c_void, len: size_t, flags: c_int, to: *const sockaddr, to_len: socklen_t)
    -> ssize_t);
next!(SENDMSG, sendmsg, c"sendmsg", libc::SYS_sendmsg,
    (fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t);
next!(SENDMMSG, sendmmsg, c"sendmmsg", libc::SYS_sendmmsg,
    (fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int) -> c_int);

next!(READ, read, c"read", libc::SYS_read,
    (fd: c_int, data: *mut c_void, len: size_t) -> ssize_t);
next!(READV, readv, c"readv", libc::SYS_readv,
    (fd: c_int, parts: *const iovec, count: c_int) -> ssize_t);
next!(RECVFROM, recvfrom, c"recvfrom", libc::SYS_recvfrom,
    (fd: c_int, data: *mut c_void, len: size_t, flags: c_int, from: *mut sockaddr,
     from_len: *mut socklen_t) -> ssize_t);
next!(RECVMSG, recvmsg, c"recvmsg", libc::SYS_recvmsg,
    (fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t);

static SEND: Next = Next::new(c"send");
static RECV: Next = Next::new(c"recv");

/// # Safety
///
/// As for send(2).
pub(crate) unsafe fn send(fd: c_int, data: *const c_void, len: size_t, flags: c_int) -> ssize_t {
    let next = SEND.get();
    if next.is_null() {
        // SAFETY: The caller vouches for the arguments.
        return unsafe { sendto(fd, data, len, flags, core::ptr::null(), 0) };
    }
    type Send = unsafe extern "C" fn(c_int, *const c_void, size_t, c_int) -> ssize_t;
    // SAFETY: It is the address of send(), which has this type in every C library; the caller
    // vouches for the arguments.
    unsafe { transmute::<*mut c_void, Send>(next)(fd, data, len, flags) }
}

/// # Safety
///
/// As for recv(2).
pub(crate) unsafe fn recv(fd: c_int, data: *mut c_void, len: size_t, flags: c_int) -> ssize_t {
    let next = RECV.get();
    if next.is_null() {
        let nobody = core::ptr::null_mut();
        // SAFETY: The caller vouches for the arguments.
        return unsafe { recvfrom(fd, data, len, flags, nobody, core::ptr::null_mut()) };
    }
    type Recv = unsafe extern "C" fn(c_int, *mut c_void, size_t, c_int) -> ssize_t;
    // SAFETY: It is the address of recv(), which has this type in every C library; the caller
    // vouches for the arguments.
    unsafe { transmute::<*mut c_void, Recv>(next)(fd, data, len, flags) }
}

static FORK: Next = Next::new(c"fork");

/// # Safety
///
/// As for fork(2).
pub(crate) unsafe fn fork() -> pid_t {
    let next = FORK.get();
    if next.is_null() {
        // SAFETY: A child that is a copy of the process, on the same stack.
        let child = unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) };
        return pid_t::try_from(child).unwrap_or(-1);
    }
    // SAFETY: It is the address of fork(), which has this type in every C library.
    unsafe { transmute::<*mut c_void, unsafe extern "C" fn() -> pid_t>(next)() }
}

/// Looks up all of them: dlsym() may not be called from a signal handler.
pub(crate) fn resolve_all() {
    for next in [
        &SOCKET, &SEND, &SENDTO, &WRITE, &WRITEV, &SENDMSG, &SENDMMSG, &RECV, &RECVFROM, &READ,
        &READV, &RECVMSG, &FORK,
    ] {
        next.get();
    }
}
