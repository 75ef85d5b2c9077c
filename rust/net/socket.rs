// SPDX-License-Identifier: GPL-2.0

//! `struct socket`: what a file of the socket layer has, and calls on one of any family.
//!
//! C header: [`include/linux/net.h`](srctree/include/linux/net.h)
//!
//! Contexts: process context, may sleep, except for the words of a socket: any. Locks: none;
//! the callee takes `lock_sock` of its own socket.

use crate::{
    ffi,
    net::msg::{
        RecvMsg,
        SendMsg, //
    },
    prelude::*, //
};
use kernel::{
    error::to_result,
    types::Opaque, //
};

/// States of a `struct socket`.
pub(crate) use crate::ffi::core::{
    socket_state_SS_CONNECTED as SS_CONNECTED,
    socket_state_SS_CONNECTING as SS_CONNECTING,
    socket_state_SS_UNCONNECTED as SS_UNCONNECTED, //
};

/// The size of `struct sockaddr_storage`: no name is longer.
const STORAGE_LEN: usize = size_of::<ffi::__kernel_sockaddr_storage>();

/// Memory for a name of any family: a `struct sockaddr_storage`.
#[repr(C, align(8))]
pub(crate) struct Storage([u8; STORAGE_LEN]);

impl Storage {
    pub(crate) const fn new() -> Self {
        Self([0; STORAGE_LEN])
    }

    /// A name with zeros behind it. EINVAL if it is longer than any can be.
    fn of(name: &[u8]) -> Result<Self> {
        let mut storage = Self::new();
        let room = storage.0.get_mut(..name.len()).ok_or(EINVAL)?;
        room.copy_from_slice(name);
        Ok(storage)
    }

    pub(crate) fn bytes(&self) -> &[u8; STORAGE_LEN] {
        &self.0
    }

    /// Writes a name; returns its length. EINVAL if it is longer than any can be.
    pub(crate) fn put(&mut self, name: &[u8]) -> Result<usize> {
        *self = Self::of(name)?;
        Ok(name.len())
    }

    fn as_mut_ptr<T>(&mut self) -> *mut T {
        self.0.as_mut_ptr().cast()
    }
}

/// `struct socket`.
///
/// # Invariants
///
/// It has operations, and is not released as long as there is a reference.
#[repr(transparent)]
pub(crate) struct Socket(Opaque<ffi::core::socket>);

impl Socket {
    /// # Safety
    ///
    /// `socket` is valid for `'a`, has operations, and is not released meanwhile.
    pub(crate) unsafe fn from_raw<'a>(socket: *mut ffi::core::socket) -> &'a Self {
        // SAFETY: It is valid by the caller's promise, and `Self` transparent.
        unsafe { &*socket.cast() }
    }

    pub(crate) fn as_ptr(&self) -> *mut ffi::core::socket {
        self.0.get()
    }

    /// One of the `SS_*` states. Any context.
    pub(crate) fn state(&self) -> ffi::core::socket_state {
        // SAFETY: A word of a valid socket; others may write it meanwhile, hence volatile.
        unsafe { (&raw const (*self.0.get()).state).read_volatile() }
    }

    /// Changes the state, by one store. System calls do that with `lock_sock`, so that they come
    /// one after the other.
    pub(crate) fn set_state(&self, state: ffi::core::socket_state) {
        // SAFETY: A word of a valid socket; others may read it meanwhile, hence volatile.
        unsafe { (&raw mut (*self.0.get()).state).write_volatile(state) };
    }

    /// The present operations of the socket. They may change to another table that is also valid for
    /// it.
    pub(super) fn ops(&self) -> &'static ffi::core::proto_ops {
        // SAFETY: A valid socket has operations, which are static.
        unsafe { &*(&raw const (*self.0.get()).ops).read_volatile() }
    }

    /// bind(2).
    pub(crate) fn bind(&self, name: &[u8]) -> Result {
        let bind = self.ops().bind.ok_or(EOPNOTSUPP)?;
        let mut storage = Storage::of(name)?;
        // SAFETY: The operation is the socket's. The name has the memory of any.
        to_result(unsafe { bind(self.as_ptr(), storage.as_mut_ptr(), name.len() as c_int) })
    }

    /// connect(2).
    pub(crate) fn connect(&self, name: &[u8], flags: u32) -> Result {
        let connect = self.ops().connect.ok_or(EOPNOTSUPP)?;
        let mut storage = Storage::of(name)?;
        let len = name.len() as c_int;
        // SAFETY: The operation is the socket's. The name has the memory of any.
        to_result(unsafe { connect(self.as_ptr(), storage.as_mut_ptr(), len, flags as c_int) })
    }

    /// getsockname(2) and getpeername(2); returns the length.
    pub(crate) fn name(&self, name: &mut Storage, peer: c_int) -> Result<usize> {
        let getname = self.ops().getname.ok_or(EOPNOTSUPP)?;
        // SAFETY: The operation is the socket's. There is memory for any name.
        let len = unsafe { getname(self.as_ptr(), name.as_mut_ptr(), peer) };
        usize::try_from(len).map_err(|_| Error::from_errno(len))
    }

    /// ioctl(2). The callee checks what `arg` points to.
    pub(crate) fn ioctl(&self, command: c_uint, arg: c_ulong) -> Result<c_int> {
        let ioctl = self.ops().ioctl.ok_or(EOPNOTSUPP)?;
        // SAFETY: The operation is the socket's.
        number(unsafe { ioctl(self.as_ptr(), command, arg) })
    }

    /// ioctl(2) of the Internet families, for what concerns addresses, routes and neighbours.
    /// The callee checks what `arg` points to. EINVAL without a `struct sock`.
    pub(crate) fn inet_ioctl(&self, command: c_uint, arg: c_ulong) -> Result<c_int> {
        // SAFETY: A valid socket; the callee looks for its `struct sock`.
        number(unsafe { ffi::rust_net_inet_ioctl(self.as_ptr().cast(), command, arg) })
    }

    /// sendmsg(2); returns the number of bytes taken.
    pub(crate) fn send(&self, msg: &mut SendMsg, len: usize) -> Result<c_int> {
        let sendmsg = self.ops().sendmsg.ok_or(EOPNOTSUPP)?;
        // SAFETY: The operation is the socket's, and the message the caller's own.
        number(unsafe { sendmsg(self.as_ptr(), msg.as_ptr(), len) })
    }

    /// recvmsg(2); returns the number of bytes given.
    pub(crate) fn receive(&self, msg: &mut RecvMsg, len: usize, flags: c_int) -> Result<c_int> {
        let recvmsg = self.ops().recvmsg.ok_or(EOPNOTSUPP)?;
        // SAFETY: The operation is the socket's, and the message the caller's own.
        number(unsafe { recvmsg(self.as_ptr(), msg.as_ptr(), len, flags) })
    }

    /// The end of a splice(2) or sendfile(2) that had announced more.
    pub(crate) fn splice_eof(&self) {
        if let Some(splice_eof) = self.ops().splice_eof {
            // SAFETY: The operation is the socket's.
            unsafe { splice_eof(self.as_ptr()) }
        }
    }
}

/// A result that is an errno if it is negative.
fn number(result: c_int) -> Result<c_int> {
    to_result(result.min(0)).map(|()| result)
}
