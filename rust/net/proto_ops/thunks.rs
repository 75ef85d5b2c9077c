// SPDX-License-Identifier: GPL-2.0

//! What C calls of a `struct proto_ops`: each function makes references of its arguments, and calls
//! a method of [`Operations`].

use super::{
    AcceptArg,
    NewSocket,
    Operations,
    Table, //
};
use crate::{
    ffi,
    net::{
        msg::{
            RecvMsg,
            SendMsg, //
        },
        option::{
            OptionRoom,
            OptionValue, //
        },
        sk::Object,
        socket::{
            Socket,
            Storage, //
        },
        splice::Splice,
    },
    prelude::*, //
};
use core::{
    marker::PhantomData,
    ptr::NonNull, //
};
use kernel::{
    error::from_result,
    fs::LocalFile,
    sync::aref::ARef, //
};

impl<O: Operations> Table<O> {
    /// The operations of sockets of `family`.
    pub(crate) const fn new(family: c_int, owner: *mut ffi::core::module) -> Self {
        // INVARIANT: No `struct socket` has them yet.
        Self(
            ffi::core::proto_ops {
                family,
                owner,
                release: Some(release_cb::<O>),
                bind: Some(bind_cb::<O>),
                connect: Some(connect_cb::<O>),
                socketpair: Some(ffi::sock_no_socketpair),
                accept: Some(accept_cb::<O>),
                getname: Some(getname_cb::<O>),
                poll: Some(poll_cb::<O>),
                ioctl: Some(ioctl_cb::<O>),
                gettstamp: Some(ffi::sock_gettstamp),
                listen: Some(listen_cb::<O>),
                shutdown: Some(shutdown_cb::<O>),
                setsockopt: Some(setsockopt_cb::<O>),
                getsockopt: Some(getsockopt_cb::<O>),
                sendmsg: Some(sendmsg_cb::<O>),
                recvmsg: Some(recvmsg_cb::<O>),
                mmap: Some(mmap_cb),
                splice_read: Some(splice_read_cb::<O>),
                splice_eof: Some(splice_eof_cb::<O>),
                set_peek_off: Some(set_peek_off_cb),
                set_rcvlowat: Some(set_rcvlowat_cb::<O>),
                ..pin_init::zeroed()
            },
            PhantomData,
        )
    }
}

/// The object of a `struct socket`, and the socket itself.
///
/// # Safety
///
/// `socket` has the operations of `O`, and an `sk`. It is not released for `'a`.
unsafe fn of<'a, O: Operations>(socket: *mut ffi::core::socket) -> (&'a O::Object, &'a Socket) {
    // SAFETY: The `sk` is the beginning of an object, by the invariant of `Table`, and the
    // socket has a reference to that; it has operations, and is not released.
    unsafe {
        let sk = (&raw const (*socket).sk).read();
        (O::Object::from_sk(sk.cast()), Socket::from_raw(socket))
    }
}

/// # Safety
///
/// `addr` points to `len` bytes, if that is not negative, which stay for `'a` and which are
/// the caller's alone.
unsafe fn name_of<'a>(addr: *mut ffi::core::sockaddr_unsized, len: c_int) -> Result<&'a mut [u8]> {
    let len = usize::try_from(len).map_err(|_| EINVAL)?;
    let addr = NonNull::new(addr.cast::<u8>()).ok_or(EINVAL)?;
    // SAFETY: It has `len` bytes, by the caller's promise.
    Ok(unsafe { core::slice::from_raw_parts_mut(addr.as_ptr(), len) })
}

/// # Safety
///
/// Called from C, with the arguments that the slot it stands in promises.
unsafe extern "C" fn release_cb<O: Operations>(socket: *mut ffi::core::socket) -> c_int {
    // SAFETY: The caller passes the socket for the last time. Its `sk` is null or an object, and
    // it gives up the reference to that.
    unsafe {
        let Some(sk) = NonNull::new((*socket).sk) else {
            return 0;
        };
        let sock = ARef::<O::Object>::from_raw(sk.cast());
        let rest = O::release(&sock);
        (*socket).sk = core::ptr::null_mut();
        drop(rest);
    }
    0
}

/// # Safety
///
/// Called from C, with the arguments that the slot it stands in promises.
unsafe extern "C" fn bind_cb<O: Operations>(
    socket: *mut ffi::core::socket,
    addr: *mut ffi::core::sockaddr_unsized,
    len: c_int,
) -> c_int {
    // SAFETY: A live socket with these operations, and an address of `len` bytes, copied to the
    // kernel.
    let (sock, name) = unsafe { (of::<O>(socket).0, name_of(addr, len)) };
    from_result(|| O::bind(sock, name?).map(|()| 0))
}

/// # Safety
///
/// Called from C, with the arguments that the slot it stands in promises.
unsafe extern "C" fn connect_cb<O: Operations>(
    socket: *mut ffi::core::socket,
    addr: *mut ffi::core::sockaddr_unsized,
    len: c_int,
    flags: c_int,
) -> c_int {
    // SAFETY: A live socket with these operations, and an address of `len` bytes, copied to the
    // kernel and the call's alone.
    let ((sock, socket), name) = unsafe { (of::<O>(socket), name_of(addr, len)) };
    from_result(|| O::connect(sock, socket, name?, flags as u32).map(|()| 0))
}

/// # Safety
///
/// Called from C, with the arguments that the slot it stands in promises.
unsafe extern "C" fn accept_cb<O: Operations>(
    socket: *mut ffi::core::socket,
    new: *mut ffi::core::socket,
    arg: *mut ffi::core::proto_accept_arg,
) -> c_int {
    // SAFETY: A live socket with these operations; `new` is fresh, has the same operations, and
    // is, as `arg`, the call's alone.
    let (sock, new, arg) = unsafe {
        (
            of::<O>(socket).0,
            Socket::from_raw(new),
            &mut *arg.cast::<AcceptArg>(),
        )
    };
    // INVARIANT: It has no `sk` yet.
    from_result(|| O::accept(sock, &mut NewSocket(new), arg).map(|()| 0))
}

/// # Safety
///
/// Called from C, with the arguments that the slot it stands in promises.
unsafe extern "C" fn getname_cb<O: Operations>(
    socket: *mut ffi::core::socket,
    addr: *mut ffi::core::sockaddr,
    peer: c_int,
) -> c_int {
    // SAFETY: A live socket, and memory for any name.
    let (other, name) = unsafe { (Socket::from_raw(socket), &mut *addr.cast::<Storage>()) };
    let result = if core::ptr::eq(other.ops(), &O::table().0) {
        // SAFETY: A live socket with these operations.
        O::name(unsafe { of::<O>(socket) }.0, name, peer)
    } else {
        // accept() asks the operations of the listener for the name of what it has accepted,
        // which may have others.
        other.name(name, peer)
    };
    from_result(|| c_int::try_from(result?).map_err(|_| EINVAL))
}

/// # Safety
///
/// Called from C, with the arguments that the slot it stands in promises.
unsafe extern "C" fn poll_cb<O: Operations>(
    file: *mut ffi::core::file,
    socket: *mut ffi::core::socket,
    wait: *mut ffi::core::poll_table_struct,
) -> ffi::core::__poll_t {
    // SAFETY: A live socket with these operations, its file, and the list that the file's
    // waiters get into.
    let (sock, file) = unsafe {
        ffi::rust_net_sock_poll_wait(file.cast(), socket.cast(), wait.cast());
        (of::<O>(socket).0, LocalFile::from_raw_file(file))
    };
    O::poll(sock, file)
}

/// # Safety
///
/// Called from C, with the arguments that the slot it stands in promises.
unsafe extern "C" fn ioctl_cb<O: Operations>(
    socket: *mut ffi::core::socket,
    command: c_uint,
    arg: c_ulong,
) -> c_int {
    // SAFETY: A live socket with these operations.
    let (sock, socket) = unsafe { of::<O>(socket) };
    from_result(|| O::ioctl(sock, socket, command, arg))
}

/// # Safety
///
/// Called from C, with the arguments that the slot it stands in promises.
unsafe extern "C" fn listen_cb<O: Operations>(
    socket: *mut ffi::core::socket,
    backlog: c_int,
) -> c_int {
    // SAFETY: A live socket with these operations.
    let (sock, socket) = unsafe { of::<O>(socket) };
    from_result(|| O::listen(sock, socket, backlog).map(|()| 0))
}

/// # Safety
///
/// Called from C, with the arguments that the slot it stands in promises.
unsafe extern "C" fn shutdown_cb<O: Operations>(
    socket: *mut ffi::core::socket,
    how: c_int,
) -> c_int {
    // SAFETY: A live socket with these operations.
    let (sock, socket) = unsafe { of::<O>(socket) };
    from_result(|| O::shutdown(sock, socket, how).map(|()| 0))
}

/// # Safety
///
/// Called from C, with the arguments that the slot it stands in promises.
unsafe extern "C" fn setsockopt_cb<O: Operations>(
    socket: *mut ffi::core::socket,
    level: c_int,
    option: c_int,
    value: ffi::core::sockptr_t,
    len: c_uint,
) -> c_int {
    // SAFETY: A live socket with these operations; `value` is the program's, or the kernel's
    // with `len` bytes.
    let (sock, value) = unsafe { (of::<O>(socket).0, OptionValue::new(value, len)) };
    from_result(|| O::set_option(sock, level, option, value).map(|()| 0))
}

/// # Safety
///
/// Called from C, with the arguments that the slot it stands in promises.
unsafe extern "C" fn getsockopt_cb<O: Operations>(
    socket: *mut ffi::core::socket,
    level: c_int,
    option: c_int,
    value: *mut c_char,
    len: *mut c_int,
) -> c_int {
    // SAFETY: A live socket with these operations.
    let (sock, _) = unsafe { of::<O>(socket) };
    from_result(|| O::option(sock, level, option, OptionRoom::new(value, len)).map(|()| 0))
}

/// # Safety
///
/// Called from C, with the arguments that the slot it stands in promises.
unsafe extern "C" fn sendmsg_cb<O: Operations>(
    socket: *mut ffi::core::socket,
    msg: *mut ffi::core::msghdr,
    len: usize,
) -> c_int {
    // SAFETY: A live socket with these operations, and a message that is the call's alone.
    let (sock, msg) = unsafe { (of::<O>(socket).0, SendMsg::from_raw(msg)) };
    from_result(|| O::send(sock, msg, len))
}

/// # Safety
///
/// Called from C, with the arguments that the slot it stands in promises.
unsafe extern "C" fn recvmsg_cb<O: Operations>(
    socket: *mut ffi::core::socket,
    msg: *mut ffi::core::msghdr,
    len: usize,
    flags: c_int,
) -> c_int {
    // SAFETY: A live socket with these operations, and a message that is the call's alone.
    let (sock, msg) = unsafe { (of::<O>(socket).0, RecvMsg::from_raw(msg)) };
    from_result(|| O::receive(sock, msg, len, flags))
}

/// # Safety
///
/// Called from C, with the arguments that the slot it stands in promises.
unsafe extern "C" fn splice_read_cb<O: Operations>(
    socket: *mut ffi::core::socket,
    position: *mut ffi::core::loff_t,
    pipe: *mut ffi::core::pipe_inode_info,
    len: usize,
    flags: c_uint,
) -> isize {
    // SAFETY: A live socket with these operations, which has a file; the position is the
    // call's own, and the pipe locked, with readers.
    let (sock, splice) = unsafe {
        let (sock, socket) = of::<O>(socket);
        (sock, Splice::new(socket, &mut *position, pipe, len, flags))
    };
    splice
        .and_then(|mut splice| O::splice(sock, &mut splice))
        .map_or_else(
            |e| e.to_errno() as isize,
            |n| isize::try_from(n).unwrap_or(isize::MAX),
        )
}

/// # Safety
///
/// Called from C, with the arguments that the slot it stands in promises.
unsafe extern "C" fn splice_eof_cb<O: Operations>(socket: *mut ffi::core::socket) {
    // SAFETY: A live socket with these operations.
    O::splice_eof(unsafe { of::<O>(socket) }.0);
}

/// # Safety
///
/// Called from C, with the arguments that the slot it stands in promises.
unsafe extern "C" fn set_peek_off_cb(sk: *mut ffi::core::sock, value: c_int) -> c_int {
    // SAFETY: A live socket.
    unsafe { ffi::rust_net_set_peek_off(sk.cast(), value) }
}

/// # Safety
///
/// Called from C, with the arguments that the slot it stands in promises.
unsafe extern "C" fn set_rcvlowat_cb<O: Operations>(
    sk: *mut ffi::core::sock,
    value: c_int,
) -> c_int {
    // SAFETY: `sock_setsockopt` calls it for a live socket with these operations. Its `sk` is
    // the beginning of an object, by the invariant of `Table`.
    O::set_low_water_mark(unsafe { O::Object::from_sk(sk.cast()) }, value);
    0
}

/// A socket cannot be mapped.
///
/// # Safety
///
/// Called from C, with the arguments that the slot it stands in promises.
unsafe extern "C" fn mmap_cb(
    _file: *mut ffi::core::file,
    _socket: *mut ffi::core::socket,
    _vma: *mut ffi::core::vm_area_struct,
) -> c_int {
    ENODEV.to_errno()
}
