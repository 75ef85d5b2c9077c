// SPDX-License-Identifier: GPL-2.0

//! `struct proto_ops`: the operations of the sockets of one kind, as a trait with safe
//! signatures.
//!
//! C header: [`include/linux/net.h`](srctree/include/linux/net.h)
//!
//! Contexts: the methods run in process context, may sleep, and are called without a lock,
//! except where their comment says otherwise.

mod thunks;

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
use core::marker::PhantomData;
use kernel::{
    fs::LocalFile,
    sync::aref::ARef, //
};

pub(crate) use crate::ffi::proto_accept_arg as AcceptArg;

/// The operations of sockets with a `struct sock` that is the beginning of an [`Object`].
///
/// [`Table`] makes a `struct proto_ops` of them.
pub(crate) trait Operations: Sized + 'static {
    type Object: Object;

    /// The one table of these operations.
    fn table() -> &'static Table<Self>;

    /// close(2) of the last descriptor. The result is dropped when the `struct socket` has
    /// forgotten the object; the reference of the file goes last.
    fn release(sock: &Self::Object) -> impl Sized;

    /// bind(2), with a name that the program has given.
    fn bind(sock: &Self::Object, name: &[u8]) -> Result;

    /// connect(2). The name is the call's own.
    fn connect(sock: &Self::Object, socket: &Socket, name: &mut [u8], flags: u32) -> Result;

    /// accept(2).
    fn accept(sock: &Self::Object, new: &mut NewSocket<'_>, arg: &mut AcceptArg) -> Result;

    /// getsockname(2), or getpeername(2) if `peer` is not 0; returns the length. accept(2)
    /// passes 2.
    fn name(sock: &Self::Object, name: &mut Storage, peer: c_int) -> Result<usize>;

    /// poll(2), after `sock_poll_wait`: the events of `EPOLL*`.
    fn poll(sock: &Self::Object, file: &LocalFile) -> u32;

    /// ioctl(2). `arg` may be a pointer of the user program.
    fn ioctl(sock: &Self::Object, socket: &Socket, command: c_uint, arg: c_ulong) -> Result<c_int>;

    /// listen(2).
    fn listen(sock: &Self::Object, socket: &Socket, backlog: c_int) -> Result;

    /// shutdown(2).
    fn shutdown(sock: &Self::Object, socket: &Socket, how: c_int) -> Result;

    /// setsockopt(2).
    fn set_option(
        sock: &Self::Object,
        level: c_int,
        option: c_int,
        value: OptionValue<'_>,
    ) -> Result;

    /// getsockopt(2) below SOL_SOCKET.
    fn option(sock: &Self::Object, level: c_int, option: c_int, room: OptionRoom) -> Result;

    /// sendmsg(2) of `len` bytes; returns the number of bytes taken.
    fn send(sock: &Self::Object, msg: &mut SendMsg, len: usize) -> Result<c_int>;

    /// recvmsg(2) of up to `len` bytes; returns the number of bytes given.
    fn receive(sock: &Self::Object, msg: &mut RecvMsg, len: usize, flags: c_int) -> Result<c_int>;

    /// splice(2) from the socket into a pipe; returns the number of bytes moved. With the
    /// pipe locked.
    fn splice(sock: &Self::Object, splice: &mut Splice<'_>) -> Result<usize>;

    /// The end of a splice(2) into the socket, or sendfile(2), that had announced more.
    fn splice_eof(sock: &Self::Object);

    /// SO_RCVLOWAT. With `lock_sock`, and from BPF programs, which may not sleep.
    fn set_low_water_mark(sock: &Self::Object, bytes: c_int);
}

/// A `struct proto_ops`.
///
/// # Invariants
///
/// The `sk` of each `struct socket` that has these operations is null, or the beginning of an
/// `O::Object`, and the `struct socket` has a reference to it.
pub(crate) struct Table<O: Operations>(ffi::core::proto_ops, PhantomData<fn() -> O>);

// SAFETY: Never written.
unsafe impl<O: Operations> Sync for Table<O> {}

impl<O: Operations> Table<O> {
    pub(crate) fn as_ptr(&'static self) -> *const ffi::core::proto_ops {
        &self.0
    }

    /// Gives `socket` these operations.
    ///
    /// # Safety
    ///
    /// `socket` is valid, and is being created or accepted. Its `sk` is the beginning of an
    /// `O::Object`, and it has a reference to that.
    pub(crate) unsafe fn adopt(&'static self, socket: *mut ffi::core::socket) {
        // INVARIANT: By the caller's promise.
        // SAFETY: It is valid, and no other code uses it yet, by the caller's promise.
        unsafe { (*socket).ops = &self.0 };
    }
}

/// A `struct socket` that accept(2) has made.
///
/// # Invariants
///
/// It has the operations of the listener. Its `sk` is null, or what was accepted.
pub(crate) struct NewSocket<'a>(&'a Socket);

impl NewSocket<'_> {
    pub(crate) fn as_ptr(&self) -> *mut ffi::core::socket {
        self.0.as_ptr()
    }

    /// Makes it the `struct socket` of `sock`, which had none, and connected. Takes `lock_sock` of
    /// `sock`. EINVAL if either has another one.
    pub(crate) fn graft<O: Operations>(&mut self, sock: ARef<O::Object>) -> Result {
        let new = self.as_ptr();
        let locked = sock.clone();
        let _lock = locked.lock();
        // SAFETY: The listener's accept(2) alone uses it, and has it borrowed mutably. `sock` is
        // locked. It gets the reference.
        unsafe {
            if !ffi::rust_net_sock_graft(sock.sk(), new) {
                return Err(EINVAL);
            }
            let _ = ARef::into_raw(sock);
            O::table().adopt(new);
        }
        self.0.set_state(ffi::core::socket_state_SS_CONNECTED);
        Ok(())
    }
}
