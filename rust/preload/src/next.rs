// SPDX-License-Identifier: MIT

//! The functions that this library stands in front of: the next ones in the
//! program's search order, which is the C library or another preloaded library.
//!
//! `socket()` may be called from a signal handler and `dlsym()` may not, so the
//! addresses are looked up while the library is loaded. A constructor that runs
//! earlier than ours finds them still unknown and looks them up itself.

use core::ffi::CStr;
use core::mem::transmute;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, Ordering};
use libc::{c_int, c_void, socklen_t};

type Socket = unsafe extern "C" fn(c_int, c_int, c_int) -> c_int;
type Getsockopt = unsafe extern "C" fn(c_int, c_int, c_int, *mut c_void, *mut socklen_t) -> c_int;

static SOCKET: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
static GETSOCKOPT: AtomicPtr<c_void> = AtomicPtr::new(null_mut());

/// The address of the next `name`, remembered in `slot`; null when there is none.
fn resolve(slot: &AtomicPtr<c_void>, name: &CStr) -> *mut c_void {
    // Relaxed: every thread that looks finds the same address, and nothing is
    // read through it that another thread has written.
    let known = slot.load(Ordering::Relaxed);
    if !known.is_null() {
        return known;
    }
    // SAFETY: `name` is a C string that lives for the whole call.
    let found = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    slot.store(found, Ordering::Relaxed);
    found
}

/// Looks all of them up.
pub(crate) fn resolve_all() {
    resolve(&SOCKET, c"socket");
    resolve(&GETSOCKOPT, c"getsockopt");
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
/// As for getsockopt(2): `value` and `len` are checked by the kernel, but what
/// they point to is written.
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
