// SPDX-License-Identifier: GPL-2.0

//! The TCP companion of an SDP socket: the calls that SDP makes on it, and the ways to it.
//!
//! [`decision`](crate::sock::decision) says when it is used.
//!
//! Contexts: process context, may sleep. `lock_sock` of the SDP socket may be
//! held while the companion's is taken, never the other way.

use crate::{
    addr::{
        Addr,
        Parsed, //
    },
    ffi,
    object::Sock,
    prelude::*, //
};
use core::marker::PhantomData;
use kernel::error::to_result;

/// Ends a wait on the SDP half when TCP has taken over: the call is repeated on the TCP
/// half. No program sees this error.
pub(crate) const MOVED: Error = EOPENSTALE;

/// Largest name of an Internet socket.
pub(super) const NAME_LEN: usize = 28;

/// The companion's `struct socket`.
///
/// # Invariants
///
/// It is there as long as this: the file of our socket keeps it, which is open while a
/// system call is under way, and is not closed to the end while `lock_sock` is held. Every
/// question for the companion is asked in a system call or with that lock.
#[derive(Clone, Copy)]
pub(crate) struct Tcp<'a>(*mut ffi::core::socket, PhantomData<&'a Sock>);

impl<'a> Tcp<'a> {
    /// `None` for null.
    ///
    /// # Safety
    ///
    /// The pointer is null, or that of `sock`'s companion.
    unsafe fn of(_sock: &'a Sock, tcp: *mut ffi::socket) -> Option<Self> {
        // INVARIANT: by the caller's promise, and as `Sock`'s methods are called.
        (!tcp.is_null()).then_some(Self(tcp.cast(), PhantomData))
    }

    pub(crate) fn socket(self) -> *mut ffi::core::socket {
        self.0
    }

    /// Its operations at this moment.
    pub(crate) fn ops(self) -> &'static ffi::core::proto_ops {
        // SAFETY: The companion is there, by the invariant, and operations are static. They
        // may change from one table to another that fits as well.
        unsafe { &*core::ptr::read_volatile(&raw const (*self.0).ops) }
    }

    pub(super) fn bind(self, name: &mut [u8; NAME_LEN], len: usize) -> Result {
        let len = len.min(NAME_LEN);
        // SAFETY: The companion is there, by the invariant; the address is ours, and `len` no
        // more than it has.
        to_result(unsafe { ffi::sdp_ask_bind(self.0.cast(), name.as_ptr().cast(), len as c_int) })?;
        let bind = self.ops().bind.ok_or(EOPNOTSUPP)?;
        // SAFETY: The companion is there, by the invariant; the address is ours, and `len` no
        // more than it has.
        to_result(unsafe { bind(self.0, name.as_mut_ptr().cast(), len as c_int) })
    }

    /// The verdict of the security modules about a connect(), for which the core does
    /// not ask them.
    ///
    /// # Safety
    ///
    /// `addr` points to `len` bytes.
    pub(super) unsafe fn ask_connect(self, addr: *const u8, len: usize) -> Result {
        // SAFETY: `addr` has `len` bytes, by the caller's promise; the companion is there, by
        // the invariant.
        to_result(unsafe { ffi::sdp_ask_connect(self.0.cast(), addr.cast(), len as c_int) })
    }

    /// connect(2), after [`Sock::permit_connect`].
    ///
    /// # Safety
    ///
    /// `addr` points to `len` bytes. `sock` is the socket whose companion this is.
    pub(super) unsafe fn connect(
        self,
        sock: &Sock,
        addr: *mut u8,
        len: usize,
        flags: u32,
    ) -> Result {
        // SAFETY: `addr` has `len` bytes, by the caller's promise.
        if matches!(unsafe { Addr::parse(addr, len) }, Ok(Parsed::Addr(..))) {
            // SAFETY: The companion of `sock` is there, by the invariant.
            to_result(unsafe { ffi::sdp_companion_retry_error(sock.sk()) })?;
        }
        let connect = self.ops().connect.ok_or(EOPNOTSUPP)?;
        // SAFETY: The companion is there, by the invariant; `addr` has `len` bytes, by the
        // caller's promise.
        let result = unsafe { connect(self.0, addr.cast(), len as c_int, flags as c_int) };
        sock.settle_tcp_error();
        // SAFETY: The companion of `sock` is there, by the invariant.
        unsafe {
            ffi::sdp_companion_show_moved(sock.sk());
            ffi::sdp_companion_show_state(sock.sk());
        }
        to_result(result)
    }

    /// recvmsg(2).
    ///
    /// # Safety
    ///
    /// `msg` is a message to receive up to `len` bytes with, ours for the call. `sock` is the
    /// socket whose companion this is.
    pub(super) unsafe fn receive(
        self,
        sock: &Sock,
        msg: *mut ffi::core::msghdr,
        len: usize,
        flags: c_int,
    ) -> c_int {
        let result = match self.ops().recvmsg {
            // SAFETY: The companion is there, by the invariant; the message is ours, by the
            // caller's promise.
            Some(recvmsg) => unsafe { recvmsg(self.0, msg, len, flags) },
            None => EOPNOTSUPP.to_errno(),
        };
        if result < 0 {
            sock.settle_tcp_error();
        }
        // SAFETY: The companion of `sock` is there, by the invariant.
        unsafe { ffi::sdp_companion_show_moved(sock.sk()) };
        result
    }

    /// The port it is bound to.
    pub(super) fn port(self) -> Result<u16> {
        let getname = self.ops().getname.ok_or(EOPNOTSUPP)?;
        // Of the size and alignment of a `sockaddr_storage`.
        let mut name = [0u64; 16];
        // SAFETY: The companion is there, by the invariant, and there is room for its name.
        let len = unsafe { getname(self.0, name.as_mut_ptr().cast(), 0) };
        if len < 0 {
            return Err(Error::from_errno(len));
        }
        let [_, _, hi, lo, ..] = name[0].to_ne_bytes();
        Ok(u16::from_be_bytes([hi, lo]))
    }

    /// accept(2) without waiting.
    ///
    /// # Safety
    ///
    /// `new` is a fresh `struct socket` with operations of this module. `sock` is the socket
    /// whose companion this is.
    pub(super) unsafe fn accept(
        self,
        sock: &Sock,
        new: *mut ffi::core::socket,
        arg: &mut ffi::proto_accept_arg,
    ) -> Result {
        // SAFETY: `new` is fresh, and the companion that of `sock`, by the caller's promise.
        to_result(unsafe { ffi::sdp_companion_accept(sock.sk(), new.cast(), arg) })
    }
}

impl Sock {
    /// The companion, if calls go there.
    pub(crate) fn tcp(&self) -> Option<Tcp<'_>> {
        // SAFETY: `sk` is valid, and what is found there is its companion.
        unsafe { Tcp::of(self, ffi::sdp_companion_enter(self.sk())) }
    }

    /// Called after a call that may have fetched TCP's error, so that it is not
    /// reported again.
    pub(super) fn settle_tcp_error(&self) {
        let _ = self.tcp();
    }

    /// As [`Sock::tcp`], for a call that finds out how a connect() has ended.
    pub(crate) fn tcp_after_connect(&self) -> Option<Tcp<'_>> {
        // SAFETY: `sk` is valid.
        if unsafe { ffi::sdp_companion_attempt(self.sk()) } {
            self.look_after_attempt();
        }
        self.tcp()
    }

    /// The companion while it takes part: undecided, listening on both, or in
    /// use.
    pub(super) fn companion(&self) -> Option<Tcp<'_>> {
        // SAFETY: `sk` is valid, and what is found there is its companion.
        unsafe { Tcp::of(self, ffi::sdp_companion_ready(self.sk())) }
    }

    pub(crate) fn has_companion(&self) -> bool {
        self.companion().is_some()
    }

    /// The other half of a socket that still has both.
    pub(super) fn other_half(&self) -> Option<Tcp<'_>> {
        match self.tcp() {
            Some(_) => None,
            None => self.companion(),
        }
    }
}
