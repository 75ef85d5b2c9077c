// SPDX-License-Identifier: MIT

//! The calls that read. Those that the C library checks for a program which was built with
//! `_FORTIFY_SOURCE` are calls of their own.

use crate::{ahead, lend, next, total};
use libc::{c_int, c_void, iovec, msghdr, size_t, sockaddr, socklen_t, ssize_t};

/// Reads into one part, if that may be ahead.
///
/// # Safety
///
/// As for recv(2).
unsafe fn read_part(fd: c_int, data: *mut c_void, len: size_t, flags: c_int) -> Option<ssize_t> {
    if !lend::may_be_ahead(len) {
        return None;
    }
    let part = iovec {
        iov_base: data,
        iov_len: len,
    };
    // SAFETY: The caller vouches for the room.
    unsafe { ahead::receive(fd, &raw const part, 1, flags, &mut 0) }
}

/// recv(2)
///
/// # Safety
///
/// As for recv(2).
#[cfg_attr(not(test), no_mangle)]
pub unsafe extern "C" fn recv(fd: c_int, data: *mut c_void, len: size_t, flags: c_int) -> ssize_t {
    // SAFETY: The caller vouches for the room.
    if let Some(read) = unsafe { read_part(fd, data, len, flags) } {
        return read;
    }
    // SAFETY: As above.
    unsafe { next::recv(fd, data, len, flags) }
}

/// recv(2) into room of `room` bytes.
///
/// # Safety
///
/// As for recv(2).
#[cfg_attr(not(test), no_mangle)]
pub unsafe extern "C" fn __recv_chk(
    fd: c_int,
    data: *mut c_void,
    len: size_t,
    room: size_t,
    flags: c_int,
) -> ssize_t {
    check(len, room);
    // SAFETY: The caller vouches for the room.
    unsafe { recv(fd, data, len, flags) }
}

/// recvfrom(2); with room for an address nothing is ahead.
///
/// # Safety
///
/// As for recvfrom(2).
#[cfg_attr(not(test), no_mangle)]
pub unsafe extern "C" fn recvfrom(
    fd: c_int,
    data: *mut c_void,
    len: size_t,
    flags: c_int,
    from: *mut sockaddr,
    from_len: *mut socklen_t,
) -> ssize_t {
    if from.is_null() {
        // SAFETY: The caller vouches for the room.
        if let Some(read) = unsafe { read_part(fd, data, len, flags) } {
            return read;
        }
    }
    // SAFETY: The caller vouches for the room and the address.
    unsafe { next::recvfrom(fd, data, len, flags, from, from_len) }
}

/// recvfrom(2) into room of `room` bytes.
///
/// # Safety
///
/// As for recvfrom(2).
#[cfg_attr(not(test), no_mangle)]
pub unsafe extern "C" fn __recvfrom_chk(
    fd: c_int,
    data: *mut c_void,
    len: size_t,
    room: size_t,
    flags: c_int,
    from: *mut sockaddr,
    from_len: *mut socklen_t,
) -> ssize_t {
    check(len, room);
    // SAFETY: The caller vouches for the room and the address.
    unsafe { recvfrom(fd, data, len, flags, from, from_len) }
}

/// read(2)
///
/// # Safety
///
/// As for read(2).
#[cfg_attr(not(test), no_mangle)]
pub unsafe extern "C" fn read(fd: c_int, data: *mut c_void, len: size_t) -> ssize_t {
    // SAFETY: The caller vouches for the room.
    if let Some(read) = unsafe { read_part(fd, data, len, 0) } {
        return read;
    }
    // SAFETY: As above.
    unsafe { next::read(fd, data, len) }
}

/// read(2) into room of `room` bytes.
///
/// # Safety
///
/// As for read(2).
#[cfg_attr(not(test), no_mangle)]
pub unsafe extern "C" fn __read_chk(
    fd: c_int,
    data: *mut c_void,
    len: size_t,
    room: size_t,
) -> ssize_t {
    check(len, room);
    // SAFETY: The caller vouches for the room.
    unsafe { read(fd, data, len) }
}

/// Ends the program as the C library does, if a read would overflow its room.
fn check(len: size_t, room: size_t) {
    if len <= room {
        return;
    }
    // Not by a reference, which no C library but glibc resolves.
    // SAFETY: The name is a string that ends.
    let fail = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"__chk_fail".as_ptr()) };
    if !fail.is_null() {
        // SAFETY: The function of that name takes no arguments and does not return.
        let fail = unsafe { core::mem::transmute::<*mut c_void, extern "C" fn() -> !>(fail) };
        fail();
    }
    // SAFETY: It has no conditions.
    unsafe { libc::abort() }
}

/// readv(2)
///
/// # Safety
///
/// As for readv(2).
#[cfg_attr(not(test), no_mangle)]
pub unsafe extern "C" fn readv(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t {
    let number = usize::try_from(count).unwrap_or(0);
    // SAFETY: The caller vouches for the parts.
    if lend::may_be_ahead(usize::MAX) && lend::may_be_ahead(unsafe { total(parts, number) }) {
        // SAFETY: As above.
        if let Some(read) = unsafe { ahead::receive(fd, parts, number, 0, &mut 0) } {
            return read;
        }
    }
    // SAFETY: The caller vouches for the parts.
    unsafe { next::readv(fd, parts, count) }
}

/// Reads into a message that has room neither for an address nor for control messages.
///
/// # Safety
///
/// As for recvmsg(2).
unsafe fn read_message(fd: c_int, message: *mut msghdr, flags: c_int) -> Option<ssize_t> {
    if message.is_null() || !lend::may_be_ahead(usize::MAX) {
        return None;
    }
    // SAFETY: The caller vouches for the message.
    unsafe {
        let plain = (*message).msg_controllen == 0 && (*message).msg_name.is_null();
        let (parts, count) = ((*message).msg_iov.cast_const(), (*message).msg_iovlen);
        if !plain || !lend::may_be_ahead(total(parts, count)) {
            return None;
        }
        let mut told = 0;
        let read = ahead::receive(fd, parts, count, flags, &mut told)?;
        if read >= 0 {
            (*message).msg_flags = told;
        }
        Some(read)
    }
}

/// recvmsg(2)
///
/// # Safety
///
/// As for recvmsg(2).
#[cfg_attr(not(test), no_mangle)]
pub unsafe extern "C" fn recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t {
    // SAFETY: The caller vouches for the message.
    if let Some(read) = unsafe { read_message(fd, message, flags) } {
        return read;
    }
    // SAFETY: The caller vouches for the message.
    unsafe { next::recvmsg(fd, message, flags) }
}
