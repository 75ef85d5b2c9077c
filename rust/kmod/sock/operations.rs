// SPDX-License-Identifier: GPL-2.0

//! The operations of a socket: `proto_ops`.
//!
//! The callbacks only convert and call a method of [`Sock`], or pass the call on
//! to the TCP companion where that is in use. Contexts: process
//! context, may sleep, no lock held.

use crate::{
    ffi,
    object::Sock,
    prelude::*,
    sock::{
        companion::MOVED,
        family::release_cb, //
    },
};
use kernel::error::from_result;

struct Operations(ffi::core::proto_ops);
// SAFETY: Never written.
unsafe impl Sync for Operations {}

static OPS: Operations = Operations(ffi::core::proto_ops {
    family: ffi::AF_INET_SDP as c_int,
    owner: this_module(),
    release: Some(release_cb),
    bind: Some(bind_cb),
    connect: Some(connect_cb),
    socketpair: Some(ffi::sock_no_socketpair),
    accept: Some(accept_cb),
    getname: Some(getname_cb),
    poll: Some(poll_cb),
    ioctl: Some(sock_ioctl_cb),
    gettstamp: Some(ffi::sock_gettstamp),
    listen: Some(listen_cb),
    shutdown: Some(shutdown_cb),
    setsockopt: Some(setsockopt_cb),
    getsockopt: Some(getsockopt_cb),
    sendmsg: Some(sendmsg_cb),
    recvmsg: Some(recvmsg_cb),
    mmap: Some(sock_no_mmap_cb),
    splice_read: Some(splice_read_cb),
    splice_eof: Some(splice_eof_cb),
    set_peek_off: Some(set_peek_off_cb),
    set_rcvlowat: Some(set_rcvlowat_cb),
    ..pin_init::zeroed()
});

/// Ends a callback of `$sock` with the answer of the TCP companion, where that
/// is in use.
macro_rules! delegate {
    ($sock:expr, $slot:ident($($arg:expr),*)) => {
        if let Some(tcp) = $sock.tcp_after_connect() {
            let result = match tcp.ops().$slot {
                // SAFETY: A live socket of TCP, and the arguments that the
                // caller vouches for.
                Some(call) => unsafe { call(tcp.socket(), $($arg),*) },
                None => EOPNOTSUPP.to_errno(),
            };
            if result < 0 {
                $sock.settle_tcp_error();
            }
            return result;
        }
    };
}

pub(crate) fn table() -> *const ffi::core::proto_ops {
    &OPS.0
}

/// Gives `socket` the operations of this family.
///
/// # Safety
///
/// `socket` is valid and being created or accepted.
pub(crate) unsafe fn adopt(socket: *mut ffi::core::socket) {
    // SAFETY: It is valid, and nobody else looks at it yet, by the caller's promise.
    unsafe { (*socket).ops = &OPS.0 };
}

/// The socket behind a `struct socket`.
///
/// # Safety
///
/// `socket` was created by `create_cb` or by `protocol::make_cb`, or accepted, and is not
/// released.
unsafe fn of<'a>(socket: *mut ffi::core::socket) -> &'a Sock {
    // SAFETY: Its `sk` is set, and ours, by the caller's promise; the file has a reference.
    unsafe { Sock::from_sk((*socket).sk.cast()) }
}

/// # Safety
///
/// Called from C, with the arguments that the slot it stands in promises.
unsafe extern "C" fn bind_cb(
    socket: *mut ffi::core::socket,
    addr: *mut ffi::core::sockaddr_unsized,
    len: c_int,
) -> c_int {
    // SAFETY: A live socket of ours, and an address of `len` bytes, copied to the kernel.
    from_result(|| unsafe { of(socket).bind_halves(addr.cast(), len as usize) }.map(|()| 0))
}

/// # Safety
///
/// Called from C, with the arguments that the slot it stands in promises.
unsafe extern "C" fn connect_cb(
    socket: *mut ffi::core::socket,
    addr: *mut ffi::core::sockaddr_unsized,
    len: c_int,
    flags: c_int,
) -> c_int {
    from_result(|| {
        // SAFETY: A live socket of ours, and an address of `len` bytes, copied to the kernel and
        // the call's alone.
        unsafe { of(socket).connect_halves(socket, addr.cast(), len as usize, flags as u32) }
            .map(|()| 0)
    })
}

/// # Safety
///
/// Called from C, with the arguments that the slot it stands in promises.
unsafe extern "C" fn accept_cb(
    socket: *mut ffi::core::socket,
    new: *mut ffi::core::socket,
    arg: *mut ffi::core::proto_accept_arg,
) -> c_int {
    // SAFETY: A live socket of ours; `new` is fresh, and `arg` the call's alone.
    from_result(|| unsafe { of(socket).accept_halves(new, &mut *arg.cast()) }.map(|()| 0))
}

/// # Safety
///
/// Called from C, with the arguments that the slot it stands in promises.
unsafe extern "C" fn getname_cb(
    socket: *mut ffi::core::socket,
    addr: *mut ffi::core::sockaddr,
    peer: c_int,
) -> c_int {
    // SAFETY: `socket` is alive, and its operations are static, ours or TCP's.
    let ops = unsafe { &*core::ptr::read_volatile(&raw const (*socket).ops) };
    if !core::ptr::eq(ops, &OPS.0) {
        // accept() asks the operations of the listener for the name of what it
        // has accepted, which may be TCP's.
        return match ops.getname {
            // SAFETY: They are its own, and the name has the room that is asked for.
            Some(getname) => unsafe { getname(socket, addr, peer) },
            None => EOPNOTSUPP.to_errno(),
        };
    }
    // SAFETY: A live socket of ours.
    let sock = unsafe { of(socket) };
    delegate!(sock, getname(addr, peer));
    // SAFETY: `addr` has the size of a `sockaddr_storage`.
    from_result(|| unsafe { sock.name(addr.cast(), peer) })
}

/// # Safety
///
/// Called from C, with the arguments that the slot it stands in promises.
unsafe extern "C" fn poll_cb(
    file: *mut ffi::core::file,
    socket: *mut ffi::core::socket,
    wait: *mut ffi::core::poll_table_struct,
) -> ffi::core::__poll_t {
    // SAFETY: A live socket of ours, its file, and the list that the file's waiters get into.
    unsafe {
        ffi::sdp_sock_poll_wait(file.cast(), socket.cast(), wait.cast());
        of(socket).poll_halves(file)
    }
}

/// # Safety
///
/// Called from C, with the arguments that the slot it stands in promises.
unsafe extern "C" fn splice_eof_cb(socket: *mut ffi::core::socket) {
    // SAFETY: A live socket of ours.
    let sock = unsafe { of(socket) };
    match sock.tcp() {
        Some(tcp) => {
            if let Some(splice_eof) = tcp.ops().splice_eof {
                // SAFETY: A live socket of TCP.
                unsafe { splice_eof(tcp.socket()) }
            }
        }
        None => sock.splice_ends(),
    }
}

/// # Safety
///
/// Called from C, with the arguments that the slot it stands in promises.
unsafe extern "C" fn sock_ioctl_cb(
    socket: *mut ffi::core::socket,
    command: c_uint,
    arg: c_ulong,
) -> c_int {
    // SAFETY: A live socket of ours.
    let sock = unsafe { of(socket) };
    delegate!(sock, ioctl(command, arg));
    from_result(|| {
        let value = match sock.ioctl(command) {
            // Addresses, routes and neighbours: no matter of this socket.
            Err(e) if e == ENOIOCTLCMD && sock.is_ipv4() => {
                // SAFETY: A live socket; the callee checks the user's pointer.
                return Ok(unsafe { ffi::sdp_inet_ioctl(socket.cast(), command, arg) });
            }
            result => result?,
        };
        let bytes = value.to_ne_bytes();
        // SAFETY: The callee checks the user's pointer.
        let left = unsafe {
            ffi::sdp_copy_to_user(arg as *mut c_void, bytes.as_ptr().cast(), bytes.len())
        };
        if left == 0 {
            Ok(0)
        } else {
            Err(EFAULT)
        }
    })
}

/// # Safety
///
/// Called from C, with the arguments that the slot it stands in promises.
unsafe extern "C" fn listen_cb(socket: *mut ffi::core::socket, backlog: c_int) -> c_int {
    // SAFETY: A live socket of ours.
    from_result(|| unsafe { of(socket).listen_halves(socket, backlog) }.map(|()| 0))
}

/// # Safety
///
/// Called from C, with the arguments that the slot it stands in promises.
unsafe extern "C" fn shutdown_cb(socket: *mut ffi::core::socket, how: c_int) -> c_int {
    // SAFETY: A live socket of ours.
    from_result(|| unsafe { of(socket).shutdown_halves(socket, how) }.map(|()| 0))
}

/// # Safety
///
/// Called from C, with the arguments that the slot it stands in promises.
unsafe extern "C" fn setsockopt_cb(
    socket: *mut ffi::core::socket,
    level: c_int,
    option: c_int,
    value: ffi::core::sockptr_t,
    len: c_uint,
) -> c_int {
    from_result(|| {
        // SAFETY: A live socket of ours; `value` is the program's, or the kernel's with `len`
        // bytes.
        unsafe { of(socket).set_option_halves(level, option, value, len) }.map(|()| 0)
    })
}

/// # Safety
///
/// Called from C, with the arguments that the slot it stands in promises.
unsafe extern "C" fn getsockopt_cb(
    socket: *mut ffi::core::socket,
    level: c_int,
    option: c_int,
    value: *mut c_char,
    len: *mut c_int,
) -> c_int {
    from_result(|| {
        // SAFETY: A live socket of ours; the core lets no pointers but the program's through.
        unsafe { of(socket).get_option_halves(level, option, value.cast(), len) }.map(|()| 0)
    })
}

/// # Safety
///
/// Called from C, with the arguments that the slot it stands in promises.
unsafe extern "C" fn sendmsg_cb(
    socket: *mut ffi::core::socket,
    msg: *mut ffi::core::msghdr,
    len: usize,
) -> c_int {
    // SAFETY: A live socket of ours.
    let sock = unsafe { of(socket) };
    // SAFETY: The message is ours for the call.
    if unsafe { (*msg).msg_flags } & ffi::MSG_FASTOPEN != 0 {
        // SAFETY: The message is ours for the call.
        return from_result(|| unsafe { sock.fast_open(msg, len) });
    }
    delegate!(sock, sendmsg(msg, len));
    // SAFETY: The message is ours for the call.
    let result = from_result(|| unsafe { sock.send(msg, len) });
    if result == MOVED.to_errno() {
        delegate!(sock, sendmsg(msg, len));
    }
    result
}

/// # Safety
///
/// Called from C, with the arguments that the slot it stands in promises.
unsafe extern "C" fn recvmsg_cb(
    socket: *mut ffi::core::socket,
    msg: *mut ffi::core::msghdr,
    len: usize,
    flags: c_int,
) -> c_int {
    // SAFETY: A live socket of ours.
    let sock = unsafe { of(socket) };
    let result = match sock.tcp_after_connect() {
        Some(_) => MOVED.to_errno(),
        // SAFETY: The message is ours for the call.
        None => from_result(|| unsafe { sock.receive(msg, len, flags as u32) }),
    };
    match sock.tcp() {
        // SAFETY: The companion is there; the message is ours for the call.
        Some(tcp) if result == MOVED.to_errno() => unsafe { tcp.receive(sock, msg, len, flags) },
        _ => result,
    }
}

/// # Safety
///
/// Called from C, with the arguments that the slot it stands in promises.
unsafe extern "C" fn splice_read_cb(
    socket: *mut ffi::core::socket,
    position: *mut ffi::core::loff_t,
    pipe: *mut ffi::core::pipe_inode_info,
    len: usize,
    flags: c_uint,
) -> isize {
    // SAFETY: A live socket of ours; the position is the caller's own.
    let (sock, begins) = unsafe { (of(socket), *position == 0) };
    if !begins {
        return ESPIPE.to_errno() as isize;
    }
    let moved = match sock.tcp_after_connect() {
        Some(_) => Err(MOVED),
        // SAFETY: The file is open; the core has locked the pipe, which has readers.
        None => unsafe { sock.splice(pipe, len, ffi::sdp_is_nonblocking(socket.cast())) },
    };
    if moved == Err(MOVED) {
        // TCP asks the file of its socket, and the companion has none.
        // SAFETY: The file is open, and the pipe locked.
        return unsafe { ffi::sdp_splice_copies(socket.cast(), position, pipe.cast(), len, flags) };
    }
    moved.map_or_else(
        |e| e.to_errno() as isize,
        |n| isize::try_from(n).unwrap_or(isize::MAX),
    )
}

/// # Safety
///
/// Called from C, with the arguments that the slot it stands in promises.
unsafe extern "C" fn set_peek_off_cb(sk: *mut ffi::core::sock, value: c_int) -> c_int {
    // SAFETY: A live socket of ours.
    unsafe { ffi::sdp_set_peek_off(sk.cast(), value) }
}

/// SO_RCVLOWAT.
///
/// # Safety
///
/// Called from C, with the arguments that the slot it stands in promises.
unsafe extern "C" fn set_rcvlowat_cb(sk: *mut ffi::core::sock, value: c_int) -> c_int {
    // SAFETY: Called by `sock_setsockopt` for a socket of ours.
    let sock = unsafe { Sock::from_sk(sk.cast()) };
    sock.set_low_water_mark(value);
    0
}

/// A socket cannot be mapped.
///
/// # Safety
///
/// Called from C, with the arguments that the slot it stands in promises.
unsafe extern "C" fn sock_no_mmap_cb(
    _file: *mut ffi::core::file,
    _socket: *mut ffi::core::socket,
    _vma: *mut ffi::core::vm_area_struct,
) -> c_int {
    ENODEV.to_errno()
}
