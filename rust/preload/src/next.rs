// SPDX-License-Identifier: MIT

//! The functions that this library replaces: the next ones in the program's search order, from the
//! C library or another preloaded library.
//!
//! `socket()` may be called from a signal handler and `dlsym()` may not, so the addresses are
//! looked up while the library is loaded. Constructors that run earlier look them up themselves.

use core::ffi::CStr;
use core::mem::transmute;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, Ordering};
use libc::{c_int, c_void, sockaddr, socklen_t};

type Socket = unsafe extern "C" fn(c_int, c_int, c_int) -> c_int;
type Getsockopt = unsafe extern "C" fn(c_int, c_int, c_int, *mut c_void, *mut socklen_t) -> c_int;
type Named = unsafe extern "C" fn(c_int, *const sockaddr, socklen_t) -> c_int;
type Listen = unsafe extern "C" fn(c_int, c_int) -> c_int;

static SOCKET: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
static GETSOCKOPT: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
static BIND: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
static CONNECT: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
static LISTEN: AtomicPtr<c_void> = AtomicPtr::new(null_mut());

/// The address of the next `name`, stored in `slot`; null if there is none.
fn resolve(slot: &AtomicPtr<c_void>, name: &CStr) -> *mut c_void {
    // Relaxed: every thread finds the same address, and no data written by another thread is read
    // through it.
    let known = slot.load(Ordering::Relaxed);
    if !known.is_null() {
        return known;
    }
    // SAFETY: `name` is a C string that lives for the whole call.
    let found = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    slot.store(found, Ordering::Relaxed);
    found
}

/// Looks up all of them.
pub(crate) fn resolve_all() {
    resolve(&SOCKET, c"socket");
    resolve(&GETSOCKOPT, c"getsockopt");
    resolve(&BIND, c"bind");
    resolve(&CONNECT, c"connect");
    resolve(&LISTEN, c"listen");
}

/// socket(2)
pub(crate) fn socket(domain: c_int, type_and_flags: c_int, protocol: c_int) -> c_int {
    let next = resolve(&SOCKET, c"socket");
    if next.is_null() {
        // SAFETY: socket(2) takes three integers and touches no memory of ours.
        let fd = unsafe { libc::syscall(libc::SYS_socket, domain, type_and_flags, protocol) };
        return c_int::try_from(fd).unwrap_or(-1);
    }
    // SAFETY: `next` is the address of a function named `socket`, which has this
    // type in every C library.
    let next = unsafe { transmute::<*mut c_void, Socket>(next) };
    // SAFETY: socket(2) takes three integers and touches no memory of ours.
    unsafe { next(domain, type_and_flags, protocol) }
}

/// getsockopt(2)
///
/// # Safety
///
/// As for getsockopt(2): the kernel checks `value` and `len`, but writes to the memory they point
/// to.
pub(crate) unsafe fn getsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    len: *mut socklen_t,
) -> c_int {
    let next = resolve(&GETSOCKOPT, c"getsockopt");
    if next.is_null() {
        // SAFETY: the caller vouches for the pointers.
        let result = unsafe { libc::syscall(libc::SYS_getsockopt, fd, level, name, value, len) };
        return c_int::try_from(result).unwrap_or(-1);
    }
    // SAFETY: `next` is the address of a function named `getsockopt`, which has
    // this type in every C library.
    let next = unsafe { transmute::<*mut c_void, Getsockopt>(next) };
    // SAFETY: the caller vouches for the pointers.
    unsafe { next(fd, level, name, value, len) }
}

/// bind(2)
///
/// # Safety
///
/// As for bind(2): `address` is checked by the kernel, and read.
pub(crate) unsafe fn bind(fd: c_int, address: *const sockaddr, len: socklen_t) -> c_int {
    // SAFETY: The caller vouches for the pointer.
    unsafe { named(&BIND, c"bind", libc::SYS_bind, fd, address, len) }
}

/// connect(2)
///
/// # Safety
///
/// As for connect(2): `address` is checked by the kernel, and read.
pub(crate) unsafe fn connect(fd: c_int, address: *const sockaddr, len: socklen_t) -> c_int {
    // SAFETY: The caller vouches for the pointer.
    unsafe { named(&CONNECT, c"connect", libc::SYS_connect, fd, address, len) }
}

/// A call that takes a socket and an address.
///
/// # Safety
///
/// The same as for the call.
unsafe fn named(
    slot: &AtomicPtr<c_void>,
    name: &CStr,
    number: libc::c_long,
    fd: c_int,
    address: *const sockaddr,
    len: socklen_t,
) -> c_int {
    let next = resolve(slot, name);
    if next.is_null() {
        // SAFETY: The caller vouches for the pointer.
        let result = unsafe { libc::syscall(number, fd, address, len) };
        return c_int::try_from(result).unwrap_or(-1);
    }
    // SAFETY: `next` is the address of bind() or connect(), which have this
    // type in every C library.
    let next = unsafe { transmute::<*mut c_void, Named>(next) };
    // SAFETY: The caller vouches for the pointer.
    unsafe { next(fd, address, len) }
}

/// listen(2)
pub(crate) fn listen(fd: c_int, backlog: c_int) -> c_int {
    let next = resolve(&LISTEN, c"listen");
    if next.is_null() {
        // SAFETY: listen(2) takes two integers and touches no memory of ours.
        let result = unsafe { libc::syscall(libc::SYS_listen, fd, backlog) };
        return c_int::try_from(result).unwrap_or(-1);
    }
    // SAFETY: `next` is the address of a function named `listen`, which has
    // this type in every C library.
    let next = unsafe { transmute::<*mut c_void, Listen>(next) };
    // SAFETY: listen(2) takes two integers and touches no memory of ours.
    unsafe { next(fd, backlog) }
}
