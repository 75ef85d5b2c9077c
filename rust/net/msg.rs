// SPDX-License-Identifier: GPL-2.0

//! `struct msghdr`: the message of a sendmsg(2) or recvmsg(2).
//!
//! C header: [`include/linux/socket.h`](srctree/include/linux/socket.h)
//!
//! A message is the call's alone, so a method that changes it takes it mutably. The bytes are
//! an [`IovIterSource`] or an [`IovIterDest`] of the kernel crate. Contexts: process context;
//! copies may sleep.

use crate::{
    calls::calls,
    ffi,
    net::sk::Sk,
    prelude::*, //
};
use core::ptr::NonNull;
use kernel::{
    error::to_result,
    iov::{
        IovIterDest,
        IovIterSource, //
    },
    types::Opaque, //
};

/// A message: what both directions share.
///
/// # Invariants
///
/// It is valid, and changed by its owner alone.
#[repr(transparent)]
struct Msg(Opaque<ffi::core::msghdr>);

impl Msg {
    fn segment(&self) -> (usize, usize) {
        let mut addr = 0;
        let len = self.next_segment(&mut addr);
        (addr, len)
    }
}

// SAFETY: The message is valid, by the invariant. Both functions only read it.
calls! { unsafe {
    impl Msg, |me| me.0.get().cast();
    fn next_segment(addr: &mut c_ulong) -> usize = rust_net_user_segment;
    fn wants_inq() -> bool = rust_net_wants_inq;
}}

/// A message to send.
///
/// # Invariants
///
/// Its iterator is a source. Its name is null, or points to as many bytes as it says.
#[repr(transparent)]
pub(crate) struct SendMsg(Msg);

impl SendMsg {
    /// # Safety
    ///
    /// `msg` is a message to send, and for `'a` the caller's alone.
    pub(super) unsafe fn from_raw<'a>(msg: *mut ffi::core::msghdr) -> &'a mut Self {
        // SAFETY: It is valid by the caller's promise, and `Self` transparent.
        unsafe { &mut *msg.cast() }
    }

    pub(crate) fn as_ptr(&mut self) -> *mut ffi::core::msghdr {
        self.0 .0.get()
    }

    /// `MSG_*`.
    pub(crate) fn flags(&self) -> u32 {
        // SAFETY: Valid, by the invariant of `Msg`.
        unsafe { (*self.0 .0.get()).msg_flags }
    }

    /// The name of the receiver, if there is one.
    pub(crate) fn name(&self) -> Result<Option<&[u8]>> {
        let msg = self.0 .0.get();
        // SAFETY: Valid, by the invariant of `Msg`.
        let (name, len) = unsafe { ((*msg).msg_name, (*msg).msg_namelen) };
        let Some(name) = NonNull::new(name.cast::<u8>()) else {
            return Ok(None);
        };
        let len = usize::try_from(len).map_err(|_| EINVAL)?;
        // SAFETY: The name has `len` bytes, by the invariant.
        Ok(Some(unsafe {
            core::slice::from_raw_parts(name.as_ptr(), len)
        }))
    }

    /// The bytes to send.
    pub(crate) fn source(&mut self) -> &mut IovIterSource<'_> {
        // SAFETY: It is a source, by the invariant, and borrowed with the message.
        unsafe { IovIterSource::from_raw(&raw mut (*self.as_ptr()).msg_iter) }
    }

    /// The address of the next bytes in the program's memory, and their number; 0 if they are not
    /// in a program's memory.
    pub(crate) fn segment(&self) -> (usize, usize) {
        self.0.segment()
    }

    /// Calls `f`, and moves the message back by as many bytes as the second part of its result
    /// says, at most by those that `f` has taken.
    pub(crate) fn undoing<R>(&mut self, f: impl FnOnce(&mut Self) -> (R, usize)) -> R {
        let before = self.source().len();
        let (result, back) = f(self);
        let taken = before.saturating_sub(self.source().len());
        // SAFETY: The message was advanced by no less.
        unsafe { self.source().revert(back.min(taken)) };
        result
    }

    /// Whether the control messages are valid for `sk`.
    pub(crate) fn check_controls(&mut self, sk: &Sk) -> Result {
        // SAFETY: `sk` is valid, and the message the caller's.
        to_result(unsafe { ffi::rust_net_sock_cmsg_check(sk.sk(), self.as_ptr().cast()) })
    }
}

/// A message to receive with.
///
/// # Invariants
///
/// Its iterator is a destination.
#[repr(transparent)]
pub(crate) struct RecvMsg(Msg);

impl RecvMsg {
    /// # Safety
    ///
    /// `msg` is a message to receive with, and for `'a` the caller's alone.
    pub(super) unsafe fn from_raw<'a>(msg: *mut ffi::core::msghdr) -> &'a mut Self {
        // SAFETY: It is valid by the caller's promise, and `Self` transparent.
        unsafe { &mut *msg.cast() }
    }

    pub(crate) fn as_ptr(&mut self) -> *mut ffi::core::msghdr {
        self.0 .0.get()
    }

    /// Sets some of `MSG_*`.
    pub(crate) fn add_flags(&mut self, flags: u32) {
        // SAFETY: Valid, by the invariant of `Msg`, and borrowed mutably.
        unsafe { (*self.as_ptr()).msg_flags |= flags };
    }

    /// The memory to fill.
    pub(crate) fn dest(&mut self) -> &mut IovIterDest<'_> {
        // SAFETY: It is a destination, by the invariant, and borrowed with the message.
        unsafe { IovIterDest::from_raw(&raw mut (*self.as_ptr()).msg_iter) }
    }

    /// As [`SendMsg::segment`], of the memory to fill.
    pub(crate) fn segment(&self) -> (usize, usize) {
        self.0.segment()
    }

    /// Whether the caller wants to know how many bytes are left.
    pub(crate) fn wants_inq(&self) -> bool {
        self.0.wants_inq()
    }

    /// Says how many bytes are left, and if `as_message` in a control message as well.
    pub(crate) fn tell_inq(&mut self, left: c_int, as_message: bool) {
        // SAFETY: Valid, by the invariant of `Msg`, and borrowed mutably.
        unsafe { ffi::rust_net_tell_inq(self.as_ptr().cast(), left, as_message) };
    }
}
