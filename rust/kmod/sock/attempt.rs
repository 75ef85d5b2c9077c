// SPDX-License-Identifier: GPL-2.0

//! connect() of a socket that may use SDP or TCP.
//!
//! A non-blocking connect() that fails over SDP is not reported. A worker starts TCP's
//! attempt in its place. Neither pollers of any kind nor tasks that wait in send() or
//! recv() for the connection see the change.
//!
//! Contexts: process context, may sleep, no lock held.

use crate::{
    addr::{
        Addr,
        Parsed, //
    },
    errno::is_worth_tcp,
    ffi,
    object::Sock,
    prelude::*,
    sock::companion::{
        Tcp,
        MOVED, //
    },
};
use kernel::error::to_result;

/// Whether connect() returned while the attempt goes on.
fn is_under_way(result: Result) -> bool {
    result.is_err_and(|e| e == EINPROGRESS || e == EALREADY || e == EINTR || e == ERESTARTSYS)
}

impl Sock {
    /// sendmsg(2) with MSG_FASTOPEN, which connects if it has an address.
    ///
    /// # Safety
    ///
    /// `msg` is a message to send `len` bytes with, ours for the call.
    pub(super) unsafe fn fast_open(&self, msg: *mut ffi::core::msghdr, len: usize) -> Result<i32> {
        let (Some(tcp), Some(sendmsg)) = (
            self.tcp_after_connect(),
            self.tcp().and_then(|tcp| tcp.ops().sendmsg),
        ) else {
            return Err(EOPNOTSUPP);
        };
        // SAFETY: The message is ours for the call, by the caller's promise.
        let (name, name_len) = unsafe { ((*msg).msg_name, (*msg).msg_namelen) };
        if !name.is_null() {
            let name_len = usize::try_from(name_len).map_err(|_| EINVAL)?;
            // SAFETY: The core has checked the name's length and copied it.
            unsafe { self.permit_connect(tcp, name.cast(), name_len) }?;
        }
        // SAFETY: The companion is there, by the invariant of `Tcp`; the message is ours for
        // the call, by the caller's promise.
        let result = unsafe { sendmsg(tcp.socket(), msg, len) };
        if result < 0 {
            self.settle_tcp_error();
        }
        to_result(result.min(0)).map(|()| result)
    }

    /// connect(2) of a socket that may have two halves.
    ///
    /// # Safety
    ///
    /// `socket` is this socket's, `addr` points to `len` bytes.
    pub(crate) unsafe fn connect_halves(
        &self,
        socket: *mut ffi::core::socket,
        addr: *mut u8,
        len: usize,
        flags: u32,
    ) -> Result {
        let Some(tcp) = self.companion() else {
            // SAFETY: `socket` is ours and `addr` has `len` bytes, by the caller's promise.
            return unsafe { self.connect(socket, addr, len, flags) };
        };
        // SAFETY: `addr` has `len` bytes, by the caller's promise, and is this call's to change.
        let takes_part = unsafe {
            Addr::name_for_tcp(addr, addr, len);
            self.permit_connect(tcp, addr, len)?
        };
        if !takes_part {
            // SAFETY: `socket` is ours and `addr` has `len` bytes, by the caller's promise.
            let result = unsafe { self.connect(socket, addr, len, flags) };
            // Another task has begun the connect(), and the socket uses TCP now.
            return result.map_err(|e| if e == MOVED { EPERM } else { e });
        }
        if self.tcp_after_connect().is_some() {
            // SAFETY: `addr` has `len` bytes, by the caller's promise; `tcp` is our companion.
            return unsafe { tcp.connect(self, addr, len, flags) };
        }
        // SAFETY: `socket` is ours and `addr` has `len` bytes, by the caller's promise.
        unsafe { self.connect_either(tcp, socket, addr, len, flags) }
    }

    /// connect(2) over SDP, and over TCP if that fails.
    ///
    /// # Safety
    ///
    /// `socket` is this socket's, `addr` points to `len` bytes. `tcp` is this socket's.
    unsafe fn connect_either(
        &self,
        tcp: Tcp<'_>,
        socket: *mut ffi::core::socket,
        addr: *mut u8,
        len: usize,
        flags: u32,
    ) -> Result {
        // Before it can fail, because another thread may be polling.
        // SAFETY: `socket` is ours and `addr` has `len` bytes, by the caller's promise.
        let began = unsafe { self.begin_attempt(socket, addr, len) };
        // SAFETY: `socket` is ours and `addr` has `len` bytes, by the caller's promise.
        let result = unsafe { self.connect(socket, addr, len, flags) };
        // SDP may have no free port while TCP has some.
        let portless = |e| e == EADDRNOTAVAIL && self.look(|inner| inner.port.is_none());
        // A connect() that has succeeded is not repeated, even if the connection ended
        // before anybody asked. Nor is one that shutdown() has ended.
        // SAFETY: `sk` is valid.
        let shut = !unsafe { ffi::sdp_companion_attempt(self.sk()) }
            || self.look(|inner| inner.came_about);
        match result {
            Err(e) if !shut && (is_worth_tcp(e) || portless(e)) => {
                {
                    let _call = self.lock();
                    self.fall_back(tcp, -e.to_errno());
                }
                // SAFETY: `addr` has `len` bytes, by the caller's promise; `tcp` is our companion.
                unsafe { tcp.connect(self, addr, len, flags) }
            }
            Err(e) if e == MOVED => {
                // SAFETY: `addr` has `len` bytes, by the caller's promise; `tcp` is our companion.
                match unsafe { tcp.connect(self, addr, len, flags) } {
                    // The worker has begun TCP's attempt on behalf of this call.
                    Err(e) if e == EALREADY && began => Err(EINPROGRESS),
                    result => result,
                }
            }
            _ => {
                // SAFETY: `addr` has `len` bytes, by the caller's promise.
                let parsed = unsafe { Addr::parse(addr, len) };
                if matches!((parsed, result), (Ok(Parsed::Unspec), Ok(()))) {
                    // It may have been listening, too.
                    // SAFETY: `addr` has `len` bytes, by the caller's promise; `tcp` is our companion.
                    unsafe { tcp.connect(self, addr, len, flags) }?;
                }
                self.settle_attempt(result)
            }
        }
    }

    /// What SDP's connect() says is the result of the call.
    fn settle_attempt(&self, result: Result) -> Result {
        let pending = is_under_way(result) || self.tcp_state() == ffi::TCP_SYN_SENT;
        if result.is_ok() || !pending {
            // SAFETY: `sk` is valid.
            unsafe { ffi::sdp_companion_end(self.sk()) };
        }
        result
    }

    /// Records the target of connect(), if this call begins one.
    ///
    /// # Safety
    ///
    /// `socket` is this socket's, `addr` points to `len` bytes.
    unsafe fn begin_attempt(
        &self,
        socket: *const ffi::core::socket,
        addr: *const u8,
        len: usize,
    ) -> bool {
        // SAFETY: `addr` has `len` bytes, by the caller's promise.
        if !matches!(unsafe { Addr::parse(addr, len) }, Ok(Parsed::Addr(..))) {
            return false;
        }
        let _call = self.lock();
        // SAFETY: `socket` is ours, by the caller's promise, and `lock_sock` held, with which
        // alone the state is written.
        let unconnected = unsafe { (*socket).state } == ffi::core::socket_state_SS_UNCONNECTED;
        let begins = unconnected && self.tcp_state() == ffi::TCP_CLOSE && self.tcp().is_none();
        if begins {
            self.look(|inner| {
                inner.has_way_out = true;
                inner.came_about = false;
            });
            // SAFETY: `addr` has `len` bytes, by the caller's promise. There is a companion:
            // connect() has seen it, and it stays as long as the file is open.
            unsafe { ffi::sdp_companion_begin(self.sk(), addr.cast(), len as c_int) };
        }
        begins
    }

    /// The attempt of an earlier connect() has ended if there is a connection.
    pub(super) fn look_after_attempt(&self) {
        let begun = |state| {
            state == ffi::TCP_CLOSE || state == ffi::TCP_SYN_SENT || state == ffi::TCP_SYN_RECV
        };
        if begun(self.tcp_state()) {
            return;
        }
        let _call = self.lock();
        if !begun(self.tcp_state()) {
            // SAFETY: `sk` is valid.
            unsafe { ffi::sdp_companion_end(self.sk()) };
        }
    }

    /// Repeats a failed connect() over TCP; [`Alarm::Engine`](crate::alarm::Alarm)
    /// calls it.
    pub(crate) fn give_way(&self) {
        let _call = self.lock();
        let Some(error) = self.look(|inner| inner.failure.take()) else {
            return;
        };
        // SAFETY: `sk` is valid.
        let attempt = unsafe { ffi::sdp_companion_attempt(self.sk()) };
        let Some(tcp) = self.other_half().filter(|_| attempt) else {
            return self.drive(|inner| inner.tell_failure(self, error));
        };
        // In this order, so that whoever looks meanwhile sees a connect() under way.
        // SAFETY: The companion is there, with `lock_sock`, and the attempt's address was kept.
        unsafe { ffi::sdp_companion_retry(self.sk()) };
        self.fall_back(tcp, -error.to_errno());
        self.leave_peer();
        self.look(|inner| inner.port = None);
        // SAFETY: The companion is there, with `lock_sock`.
        unsafe { ffi::sdp_companion_catch_up(self.sk()) };
    }
}
