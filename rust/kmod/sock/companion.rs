// SPDX-License-Identifier: GPL-2.0

//! The TCP companion of an SDP socket: the calls that SDP makes on it, and the ways to it.
//!
//! [`decision`](crate::sock::decision) says when it is used.
//!
//! Contexts: process context, may sleep. `lock_sock` of the SDP socket may be
//! held while the companion's is taken, never the other way.
//!
//! A dump by netlink does not hold the socket's file, so it reads the companion under RCU. A wait
//! queue entry passes the companion's events on to the waiters of the SDP socket, so epoll, dup,
//! fork and SCM_RIGHTS need no code of their own. The entry also copies TCP's error to the SDP
//! socket, because the core reads SO_ERROR without a call of the protocol. `sk_user_data` is never
//! null, with or without a companion: in-kernel users that attach to TCP's sockets check that
//! pointer. The wait queue's lock of the companion is taken before the socket's.
//!
//! The core asks security modules about the SDP socket and never about the companion. So every call
//! that has the companion bind, connect or listen first asks `Sock::permit_tcp` or
//! `permit_connect`, in the context of the caller: the knob `companion`, and the modules that a
//! module can ask (`ffi/permission.c`). A worker that goes on over TCP acts for the connect() that
//! was permitted.

use crate::{
    addr::{
        Addr,
        Parsed, //
    },
    calls::calls,
    endpoint::{
        Inner,
        Phase, //
    },
    ffi,
    net::{
        msg::RecvMsg,
        option::{
            OptionRoom,
            OptionValue, //
        },
        proto_ops::{
            AcceptArg,
            NewSocket, //
        },
        socket::{
            Socket,
            Storage, //
        },
    },
    object::Sock,
    prelude::*, //
};
use core::ptr::NonNull;
use kernel::{
    error::to_result,
    fs::LocalFile, //
};

/// Ends a wait on the SDP half when TCP has taken over: the call is repeated on the TCP
/// half. No program sees this error.
pub(crate) const MOVED: Error = EOPENSTALE;

/// The companion's `struct socket`.
///
/// # Invariants
///
/// The companion outlives `'a`. The file of our socket keeps it. That file is open during a
/// system call, and its close() does not end while another thread holds `lock_sock`. Each user
/// of the companion is a system call, or holds that lock.
#[derive(Clone, Copy)]
pub(crate) struct Tcp<'a> {
    /// The socket of the companion.
    owner: &'a Sock,
    socket: &'a Socket,
}

impl<'a> Tcp<'a> {
    /// `None` for null.
    ///
    /// # Safety
    ///
    /// The pointer is null, or `sock`'s companion.
    unsafe fn of(owner: &'a Sock, tcp: *mut ffi::socket) -> Option<Self> {
        if tcp.is_null() {
            return None;
        }
        // SAFETY: The companion is there as long as this, and has operations.
        let socket = unsafe { Socket::from_raw(tcp.cast()) };
        // INVARIANT: by the caller's promise, and as `Sock`'s methods are called.
        Some(Self { owner, socket })
    }

    pub(crate) fn socket(self) -> &'a Socket {
        self.socket
    }

    pub(super) fn bind(self, name: &[u8]) -> Result {
        to_result(self.ask_bind(name))?;
        self.socket.bind(name)
    }

    /// The verdict of the security modules about a connect(), for which the core does
    /// not ask them.
    pub(super) fn ask_connect(self, addr: &[u8]) -> Result {
        to_result(self.ask_for_connect(addr))
    }

    /// connect(2), after [`Sock::permit_connect`].
    pub(super) fn connect(self, addr: &[u8], flags: u32) -> Result {
        if matches!(Addr::parse(addr), Ok(Parsed::Addr(..))) {
            to_result(self.retried_error())?;
        }
        let result = self.socket.connect(addr, flags);
        self.owner.settle_tcp_error();
        self.show_moved();
        self.show_state();
        result
    }

    /// recvmsg(2).
    pub(super) fn receive(self, msg: &mut RecvMsg, len: usize, flags: c_int) -> Result<c_int> {
        let result = self.socket.receive(msg, len, flags);
        if result.is_err() {
            self.owner.settle_tcp_error();
        }
        self.show_moved();
        result
    }

    /// The port it is bound to.
    pub(super) fn port(self) -> Result<u16> {
        let mut name = Storage::new();
        self.socket.name(&mut name, 0)?;
        let [_, _, hi, lo, ..] = *name.bytes();
        Ok(u16::from_be_bytes([hi, lo]))
    }

    /// accept(2) without waiting.
    pub(super) fn accept(self, new: &mut NewSocket<'_>, arg: &mut AcceptArg) -> Result {
        to_result(self.accept_into(new, arg))
    }

    /// listen(2).
    pub(super) fn listen(self, backlog: c_int) -> Result {
        to_result(self.start_listening(backlog))
    }

    /// shutdown(2).
    pub(super) fn shutdown(self, how: c_int) -> Result {
        to_result(self.shut(how))
    }

    /// Sets an option, as setsockopt(2) of it.
    pub(super) fn set_option(self, level: c_int, option: c_int, value: OptionValue<'_>) -> Result {
        to_result(self.set_tcp(level, option, value))
    }

    /// Gets an option, as getsockopt(2) of it.
    pub(super) fn option(self, level: c_int, option: c_int, room: OptionRoom) -> Result {
        to_result(self.get_option(level, option, room))
    }
}

// SAFETY: The companion is there, by the invariant of `Tcp`. Each function asks a hook or an operation of
// TCP, which takes the socket lock of the companion itself. Addresses have the length that is
// given, and TCP checks pointers of the program.
calls! { unsafe {
    impl Tcp<'_>, |me| me.socket.as_ptr().cast();
    fn ask_bind(name: &[u8]) -> c_int = sdp_ask_bind(
        at: name.as_ptr().cast::<c_void>(), len: name.len() as c_int
    );
    fn ask_for_connect(addr: &[u8]) -> c_int = sdp_ask_connect(
        at: addr.as_ptr().cast::<c_void>(), len: addr.len() as c_int
    );
    fn get_option(level: c_int, option: c_int, room: OptionRoom) -> c_int = sdp_companion_getsockopt(
        level: level, option: option, at: room.raw().0, len: room.raw().1
    );
}}

// SAFETY: The companion is there, by the invariant of `Tcp`. Each function calls an operation of TCP, which
// takes the socket lock of the companion itself. `NewSocket` is fresh, and the file of poll(2) is
// the one that is asked.
calls! { unsafe {
    impl Tcp<'_>, |me| me.owner.sk();
    fn accept_into(new: &mut NewSocket<'_>, arg: &mut AcceptArg) -> c_int = sdp_companion_accept(
        to: new.as_ptr().cast::<ffi::socket>(), arg: arg
    );
    /// The events of poll(2). With `file`, its pollers wait for the companion as well.
    pub(super) fn poll(file: Option<&LocalFile>) -> u32 = sdp_companion_poll(
        asked: file.map_or(core::ptr::null_mut(), LocalFile::as_ptr).cast::<ffi::file>()
    );
    fn set_tcp(level: c_int, option: c_int, value: OptionValue<'_>) -> c_int = sdp_companion_set_tcp(
        level: level, option: option, at: value.raw().0, len: value.raw().1
    );
    fn start_listening(backlog: c_int) -> c_int = sdp_companion_listen;
    fn shut(how: c_int) -> c_int = sdp_companion_shutdown;
    /// Repeats the connect() that has begun, on the companion. With `lock_sock` of the owner.
    pub(super) fn retry() = sdp_companion_retry;
    /// Begins that connect() on the companion while SDP's attempt goes on; returns whether it is
    /// under way. With `lock_sock` of the owner.
    pub(super) fn race() -> bool = sdp_companion_race;
    /// Gives it up, with `made` even if it has succeeded. Returns whether it has ended. With
    /// `lock_sock` of the owner.
    pub(super) fn leave_race(made: bool) -> bool = sdp_companion_leave_race(made: made);
}}

// SAFETY: The companion is there, by the invariant of `Tcp`. Each function reads and stores words of it and
// of the owner, one at a time, and may wake tasks that wait for the owner. Addresses have the
// length that is given.
calls! { unsafe {
    impl Tcp<'_>, |me| me.owner.sk();
    /// A connect() to `addr` begins. With `lock_sock` of the owner.
    pub(super) fn begin_attempt(addr: &[u8]) = sdp_companion_begin(
        at: addr.as_ptr().cast::<c_void>(), len: addr.len() as c_int
    );
    /// Whether it is the companion's turn to accept a connection.
    pub(super) fn takes_turn() -> bool = sdp_companion_turn;
    /// Its state, one of TCP's.
    pub(super) fn state() -> c_int = sdp_companion_state;
    /// Whether its peer has reset it, after it was connected.
    pub(super) fn is_reset() -> bool = sdp_companion_is_reset;
    fn retried_error() -> c_int = sdp_companion_retry_error;
    /// Shows the state of the companion as the owner's.
    pub(super) fn show_state() = sdp_companion_show_state;
    /// Shows in the owner what a call may have moved in the companion.
    fn show_moved() = sdp_companion_show_moved;
    /// From now on every call goes to the companion. With `lock_sock` of the owner.
    pub(super) fn take_over(reason: c_int) = sdp_companion_use;
    /// Reports what has happened to the companion before it took over. With `lock_sock` of the
    /// owner.
    pub(super) fn catch_up() = sdp_companion_catch_up;
}}

// SAFETY: `sk` is valid. Each function reads or stores one word of its companion, if it has one.
calls! { unsafe {
    impl Sock, |me| me.sk();
    /// Whether a connect() is under way that may go on over TCP.
    pub(super) fn is_attempting() -> bool = sdp_companion_attempt;
    /// No connect() is under way any more that may go on over TCP.
    pub(super) fn end_attempt() = sdp_companion_end;
    /// Puts the companion aside, or takes it back, if there is one. With `lock_sock`.
    pub(super) fn set_companion_idle(idle: bool) = sdp_companion_set_idle;
    /// Why the socket has fallen back to TCP, as SDP_FALLBACK_REASON shows it.
    pub(crate) fn fallback_reason() -> c_int = sdp_companion_reason;
}}

/// A companion that has no socket any more.
///
/// # Invariants
///
/// No other code has it.
pub(super) struct Detached(NonNull<ffi::sdp_companion>);

impl Drop for Detached {
    fn drop(&mut self) {
        // SAFETY: No other code has it, by the invariant.
        unsafe { ffi::sdp_companion_free(self.0.as_ptr()) };
    }
}

impl Sock {
    /// Whether a connect() is under way that may go on over TCP. A poller that takes the
    /// completions itself learns that it has succeeded before any call ends the attempt.
    pub(super) fn is_attempt_open(&self) -> bool {
        self.is_attempting() && !self.look(|inner| inner.fallback.has_come_about())
    }

    /// The attempt of an earlier connect() has ended if there is a connection.
    fn look_after_attempt(&self) {
        let begun = |state| {
            state == ffi::TCP_CLOSE || state == ffi::TCP_SYN_SENT || state == ffi::TCP_SYN_RECV
        };
        if begun(self.tcp_state()) {
            return;
        }
        let _call = self.lock();
        if !begun(self.tcp_state()) {
            self.end_attempt();
        }
    }

    /// Gives TCP's attempt up, if one is left of a connect() that has ended: the companion is as new for
    /// the next call. With `lock_sock`.
    pub(super) fn leave_race(&self) {
        let race = self.look(|inner| inner.fallback.stop_race());
        if let (Some(_), Some(tcp)) = (race, self.other_half()) {
            tcp.leave_race(true);
        }
    }

    /// The same before a call, which may come while a connect() goes on.
    pub(super) fn leave_old_race(&self) {
        let is_old =
            |inner: &mut Inner| inner.fallback.race().is_some() && inner.phase != Phase::Connecting;
        if self.look(is_old) {
            let _call = self.lock();
            if self.look(is_old) {
                self.leave_race();
            }
        }
    }

    /// Takes the companion away. With `lock_sock`, unless no other code knows the socket.
    ///
    /// # Safety
    ///
    /// No system call is under way on the socket, and none comes.
    pub(super) unsafe fn detach_companion(&self) -> Option<Detached> {
        // SAFETY: `sk` is valid, and no code has a `Tcp`, by the caller's promise.
        let companion = unsafe { ffi::sdp_companion_detach(self.sk()) };
        // INVARIANT: just taken from the socket.
        NonNull::new(companion).map(Detached)
    }

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
        if self.is_attempting() {
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
