// SPDX-License-Identifier: MIT

//! `libsdp_async.so`: a send() of a program returns while the peer still reads the program's pages.
//!
//! The module lends whole pages of a long send (`SDP_BORROW`, sdp(7)). This library protects them by
//! userfaultfd until the module's counter says that they are the program's own again. A write to
//! them waits for a moment; then the program gets copies of the pages, and the peer reads the old ones.
//! So the bytes on the wire are always the call's.
//!
//! A recv() returns while RDMA Reads still write to the program's pages (`SDP_AHEAD`). Such pages are
//! protected against reading as well.
//!
//! It replaces the calls that send and receive, which costs every long one a question to the kernel; so it is a
//! library of its own, and `sdp_run --async` loads it. It does nothing unless `SDP_ASYNC` is set, or
//! `libsdp.so` has a rule for the program.

mod ahead;
mod counters;
mod exchange;
mod forks;
mod guard;
mod handler;
mod ledger;
mod lend;
#[cfg(all(not(test), any(target_arch = "x86_64", target_arch = "aarch64")))]
#[path = "../../preload/src/linked.rs"]
mod linked;
#[cfg(test)]
mod model;
mod next;
pub mod reads;
mod rights;
mod settings;

use libc::{
    c_char, c_int, c_uint, c_void, iovec, mmsghdr, msghdr, pid_t, size_t, sockaddr, socklen_t,
    ssize_t,
};
use sdp_uapi as uapi;

/// Runs while the library is loaded, before the program's own code.
#[used]
#[link_section = ".init_array"]
static ON_LOAD: extern "C" fn() = on_load;

extern "C" fn on_load() {
    next::resolve_all();
    // SAFETY: It takes a number.
    let is_secure = unsafe { libc::getauxval(libc::AT_SECURE) != 0 };
    // SAFETY: No other thread runs yet, and the name is a string that ends.
    let value = unsafe { libc::getenv(c"SDP_ASYNC".as_ptr()) };
    if is_secure {
        return;
    }
    let value = if value.is_null() {
        way_of_the_rules()
    } else {
        value
    };
    if value.is_null() {
        return;
    }
    // SAFETY: A string of the environment, or of the other library.
    let value = unsafe { core::ffi::CStr::from_ptr(value) };
    if let Some(settings) = settings::parse(value.to_bytes()) {
        lend::switch_on(settings);
    }
}

/// The statement of `libsdp.conf` about this program, by the library that reads it; null if that is not loaded or
/// the file says nothing.
fn way_of_the_rules() -> *const c_char {
    // SAFETY: The name is a string that ends.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"libsdp_async_way".as_ptr()) };
    if found.is_null() {
        return core::ptr::null();
    }
    // SAFETY: The function of that name in libsdp.so has no arguments and returns a pointer.
    let ask =
        unsafe { core::mem::transmute::<*mut c_void, extern "C" fn() -> *const c_char>(found) };
    ask()
}

/// socket(2)
#[cfg_attr(not(test), no_mangle)]
pub extern "C" fn socket(domain: c_int, type_and_flags: c_int, protocol: c_int) -> c_int {
    // SAFETY: It takes three integers.
    let fd = unsafe { next::socket(domain, type_and_flags, protocol) };
    if fd >= 0 && (domain == uapi::AF_INET_SDP || protocol == uapi::IPPROTO_SDP) {
        lend::on_socket(fd);
    }
    fd
}

/// fork(2)
#[cfg_attr(not(test), no_mangle)]
pub extern "C" fn fork() -> pid_t {
    forks::fork()
}

/// Sends one part, if some of it may be lent.
///
/// # Safety
///
/// As for send(2).
unsafe fn send_part(fd: c_int, data: *const c_void, len: size_t, flags: c_int) -> Option<ssize_t> {
    if !lend::is_for_us(len) {
        return None;
    }
    let part = iovec {
        iov_base: data.cast_mut(),
        iov_len: len,
    };
    // SAFETY: The caller vouches for the data.
    unsafe { lend::send(fd, &raw const part, 1, flags) }
}

/// send(2)
///
/// # Safety
///
/// As for send(2).
#[cfg_attr(not(test), no_mangle)]
pub unsafe extern "C" fn send(
    fd: c_int,
    data: *const c_void,
    len: size_t,
    flags: c_int,
) -> ssize_t {
    // SAFETY: The caller vouches for the data.
    if let Some(sent) = unsafe { send_part(fd, data, len, flags) } {
        return sent;
    }
    // SAFETY: As above.
    unsafe { next::send(fd, data, len, flags) }
}

/// sendto(2); with an address nothing is lent.
///
/// # Safety
///
/// As for sendto(2).
#[cfg_attr(not(test), no_mangle)]
pub unsafe extern "C" fn sendto(
    fd: c_int,
    data: *const c_void,
    len: size_t,
    flags: c_int,
    to: *const sockaddr,
    to_len: socklen_t,
) -> ssize_t {
    if to.is_null() {
        // SAFETY: The caller vouches for the data.
        if let Some(sent) = unsafe { send_part(fd, data, len, flags) } {
            return sent;
        }
    }
    // SAFETY: The caller vouches for the data and the address.
    unsafe { next::sendto(fd, data, len, flags, to, to_len) }
}

/// write(2)
///
/// # Safety
///
/// As for write(2).
#[cfg_attr(not(test), no_mangle)]
pub unsafe extern "C" fn write(fd: c_int, data: *const c_void, len: size_t) -> ssize_t {
    // SAFETY: The caller vouches for the data.
    if let Some(sent) = unsafe { send_part(fd, data, len, 0) } {
        return sent;
    }
    // SAFETY: As above.
    unsafe { next::write(fd, data, len) }
}

/// The bytes of all parts. The kernel refuses a bad array, so one that cannot be read is not looked
/// at: the number of parts is checked first.
///
/// # Safety
///
/// `parts` has `count` elements.
unsafe fn total(parts: *const iovec, count: usize) -> usize {
    if parts.is_null() || count > libc::UIO_MAXIOV.unsigned_abs() as usize {
        return 0;
    }
    // SAFETY: As the caller says.
    let parts = unsafe { core::slice::from_raw_parts(parts, count) };
    parts
        .iter()
        .fold(0, |sum: usize, part| sum.saturating_add(part.iov_len))
}

/// writev(2)
///
/// # Safety
///
/// As for writev(2).
#[cfg_attr(not(test), no_mangle)]
pub unsafe extern "C" fn writev(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t {
    let number = usize::try_from(count).unwrap_or(0);
    // SAFETY: The caller vouches for the parts.
    if lend::is_for_us(usize::MAX) && lend::is_for_us(unsafe { total(parts, number) }) {
        // SAFETY: The caller vouches for the parts.
        if let Some(sent) = unsafe { lend::send(fd, parts, number, 0) } {
            return sent;
        }
    }
    // SAFETY: The caller vouches for the parts.
    unsafe { next::writev(fd, parts, count) }
}

/// Sends a message that has neither an address nor control messages.
///
/// # Safety
///
/// As for sendmsg(2).
unsafe fn send_message(fd: c_int, message: *const msghdr, flags: c_int) -> Option<ssize_t> {
    if message.is_null() || !lend::is_for_us(usize::MAX) {
        return None;
    }
    // SAFETY: The caller vouches for the message.
    unsafe {
        let plain = (*message).msg_controllen == 0 && (*message).msg_namelen == 0;
        let (parts, count) = ((*message).msg_iov.cast_const(), (*message).msg_iovlen);
        if plain && lend::is_for_us(total(parts, count)) {
            return lend::send(fd, parts, count, flags);
        }
    }
    None
}

/// sendmsg(2)
///
/// # Safety
///
/// As for sendmsg(2).
#[cfg_attr(not(test), no_mangle)]
pub unsafe extern "C" fn sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t {
    // SAFETY: The caller vouches for the message.
    if let Some(sent) = unsafe { send_message(fd, message, flags) } {
        return sent;
    }
    // SAFETY: The caller vouches for the message.
    unsafe { next::sendmsg(fd, message, flags) }
}

/// sendmmsg(2); nothing is lent by a call with several messages.
///
/// # Safety
///
/// As for sendmmsg(2).
#[cfg_attr(not(test), no_mangle)]
pub unsafe extern "C" fn sendmmsg(
    fd: c_int,
    messages: *mut mmsghdr,
    count: c_uint,
    flags: c_int,
) -> c_int {
    if !lend::is_for_us(usize::MAX) || messages.is_null() || count != 1 {
        // SAFETY: The caller vouches for the messages.
        return unsafe { next::sendmmsg(fd, messages, count, flags) };
    }
    // SAFETY: The caller vouches for the message.
    let sent = unsafe { send_message(fd, &raw const (*messages).msg_hdr, flags) };
    match sent.map(c_uint::try_from) {
        Some(Ok(len)) => {
            // SAFETY: As above.
            unsafe { (*messages).msg_len = len };
            1
        }
        Some(Err(_)) => -1,
        // SAFETY: The caller vouches for the messages.
        None => unsafe { next::sendmmsg(fd, messages, count, flags) },
    }
}
