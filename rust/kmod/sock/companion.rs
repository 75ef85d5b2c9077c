// SPDX-License-Identifier: GPL-2.0

//! Which of its two halves an SDP socket with a TCP companion uses.
//!
//! `SDP_TRANSPORT` gives a socket a TCP socket of its own. Until the decision both
//! halves are bound and get the options; connect() tries SDP and then TCP; listen()
//! listens on both, and accept() takes from both. After a fallback every call goes to
//! the companion. The decision is final and the companion lives as long as the file, so
//! a call that raced with it is the same as an earlier call.
//!
//! The calls of such a socket are in `halves`.
//!
//! Contexts: process context, may sleep. `lock_sock` of the SDP socket may be
//! held while the companion's is taken, never the other way.

use crate::{
    addr::{
        Addr,
        Family,
        Parsed, //
    },
    endpoint::Phase,
    ffi,
    object::Sock,
    prelude::*,
    trace, //
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

/// Whether connect() returned while the attempt goes on.
pub(super) fn is_under_way(result: Result) -> bool {
    result.is_err_and(|e| e == EINPROGRESS || e == EALREADY || e == EINTR || e == ERESTARTSYS)
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

    /// Whether `net.sdp.companion` lets the caller use the TCP half. Counts refusals.
    pub(super) fn may_use_tcp(&self) -> bool {
        let may = match self.net().companion() {
            ffi::SDP_COMPANION_NEVER => false,
            // SAFETY: Looks at the caller.
            ffi::SDP_COMPANION_UNCONFINED => !unsafe { ffi::sdp_is_confined() },
            _ => true,
        };
        if !may {
            self.net().stats.tcp_refused.inc();
        }
        may
    }

    /// Called before the TCP half binds, connects or listens; returns whether it may.
    /// If the caller may not use the TCP half, a socket that uses TCP refuses the call,
    /// and an undecided socket uses SDP alone from now on. Attempts of other tasks go
    /// on.
    pub(super) fn permit_tcp(&self) -> Result<bool> {
        if self.companion().is_none() {
            return Ok(false);
        }
        if self.may_use_tcp() {
            return Ok(true);
        }
        self.leave_tcp_out(EPERM).map(|()| false)
    }

    /// Makes the socket use SDP alone, or fails with `otherwise` if it uses TCP.
    fn leave_tcp_out(&self, otherwise: Error) -> Result {
        let _call = self.lock();
        if self.tcp().is_some() {
            return Err(otherwise);
        }
        // SAFETY: `sk` is valid.
        let attempt = unsafe { ffi::sdp_companion_attempt(self.sk()) };
        if !attempt && self.look(|inner| inner.phase == Phase::Idle) {
            // SAFETY: `sk` is valid, and `lock_sock` held, so that its companion stays.
            unsafe { ffi::sdp_companion_set_idle(self.sk(), true) };
        }
        Ok(())
    }

    /// As `permit_tcp`, for connect(): asks the security modules, too. Every caller may
    /// disconnect (AF_UNSPEC).
    ///
    /// # Safety
    ///
    /// `addr` points to `len` bytes, which TCP would be given.
    pub(super) unsafe fn permit_connect(
        &self,
        tcp: Tcp<'_>,
        addr: *const u8,
        len: usize,
    ) -> Result<bool> {
        // SAFETY: `addr` has `len` bytes, by the caller's promise.
        if matches!(unsafe { Addr::parse(addr, len) }, Ok(Parsed::Unspec)) {
            return Ok(true);
        }
        if !self.permit_tcp()? {
            return Ok(false);
        }
        // SAFETY: `addr` has `len` bytes, by the caller's promise.
        match unsafe { tcp.ask_connect(addr, len) } {
            Ok(()) => Ok(true),
            // The modules could not be asked for lack of memory; a refusal has another
            // errno.
            Err(e) if e == ENOMEM => self.leave_tcp_out(e).map(|()| false),
            Err(e) => Err(e),
        }
    }

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

    /// Gives SDP up for the companion, which is there, and the port with it. With
    /// `lock_sock`.
    pub(super) fn fall_back(&self, _there: Tcp<'_>, reason: i32) {
        let already = self.tcp().is_some();
        // SAFETY: The socket has a companion, which the caller has seen.
        unsafe { ffi::sdp_companion_use(self.sk(), reason) };
        self.look(|inner| {
            if reason != 0 && !already {
                trace::fallback(inner.of(self), reason);
            }
            if inner.phase == Phase::Idle {
                inner.port = None;
            }
        });
        if reason != 0 && !already {
            self.net().stats.tcp_fallbacks.inc();
        }
    }

    /// Sets SDP_TRANSPORT. With `lock_sock`.
    pub(crate) fn set_transport(&self, value: i32) -> Result {
        let value = u32::try_from(value).map_err(|_| EINVAL)?;
        if value > ffi::SDP_TRANSPORT_TCP {
            return Err(EINVAL);
        }
        if self.tcp().is_some() {
            // Setting the current value changes nothing.
            return if value == ffi::SDP_TRANSPORT_TCP {
                Ok(())
            } else {
                Err(EINVAL)
            };
        }
        let (idle, family) = self.look(|inner| (inner.phase == Phase::Idle, inner.family));
        if !idle {
            return Err(EINVAL);
        }
        if value == ffi::SDP_TRANSPORT_SDP {
            // SAFETY: `sk` is valid; a socket without a companion has none to
            // put aside.
            unsafe { ffi::sdp_companion_set_idle(self.sk(), true) };
            return Ok(());
        }
        if !self.may_use_tcp() {
            return Err(EPERM);
        }
        if self.companion().is_none() {
            let family = match family {
                Family::V4 => ffi::AF_INET,
                Family::V6 => ffi::AF_INET6,
            };
            // SAFETY: `lock_sock` is held and the socket has a file.
            unsafe {
                to_result(ffi::sdp_companion_make(self.sk(), family as c_int))?;
                ffi::sdp_companion_set_idle(self.sk(), false);
            }
            if let Err(e) = self.bind_companion() {
                // SAFETY: `sk` is valid, and `lock_sock` held, so that its companion stays.
                unsafe { ffi::sdp_companion_set_idle(self.sk(), true) };
                return Err(e);
            }
        }
        if value == ffi::SDP_TRANSPORT_TCP {
            self.fall_back(self.companion().ok_or(EINVAL)?, 0);
        }
        Ok(())
    }

    /// Repeats on the companion a bind() that was made before it existed.
    fn bind_companion(&self) -> Result {
        let (bound, local, family) =
            self.look(|inner| (inner.port.is_some(), inner.local, inner.family));
        let Some(tcp) = self.companion().filter(|_| bound) else {
            return Ok(());
        };
        if tcp.port()? != 0 {
            return Ok(());
        }
        let mut name = [0u8; NAME_LEN];
        let len = local.emit(family, &mut name);
        tcp.bind(&mut name, len)
    }

    pub(crate) fn transport(&self) -> u32 {
        if self.tcp().is_some() {
            return ffi::SDP_TRANSPORT_TCP;
        }
        let open = self.look(|inner| matches!(inner.phase, Phase::Idle | Phase::Listening));
        // SAFETY: `sk` is valid.
        let attempt = unsafe { ffi::sdp_companion_attempt(self.sk()) };
        if self.companion().is_some() && (open || attempt) {
            ffi::SDP_TRANSPORT_BOTH
        } else {
            ffi::SDP_TRANSPORT_SDP
        }
    }

    pub(crate) fn fallback_reason(&self) -> i32 {
        // SAFETY: `sk` is valid.
        unsafe { ffi::sdp_companion_reason(self.sk()) }
    }
}
