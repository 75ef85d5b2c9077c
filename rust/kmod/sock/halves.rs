// SPDX-License-Identifier: GPL-2.0

//! The calls of a socket that may use SDP or TCP.
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
    endpoint::Phase,
    errno::is_worth_tcp,
    ffi,
    object::Sock,
    prelude::*,
    sock::{
        companion::{
            is_under_way,
            Tcp,
            MOVED,
            NAME_LEN, //
        },
        needed::is_needed, //
    },
};
use kernel::error::to_result;

/// Whether the option is SDP's own.
fn is_own(level: c_int, option: c_int) -> bool {
    level == ffi::SOL_TCP as c_int
        && (ffi::SDP_ZCOPY_THRESH as c_int..=ffi::SDP_TRAFFIC as c_int).contains(&option)
}

impl Sock {
    /// bind(2) of a socket that may have two halves. The port is chosen by TCP.
    ///
    /// # Safety
    ///
    /// `addr` points to `len` bytes.
    pub(crate) unsafe fn bind_halves(&self, addr: *const u8, len: usize) -> Result {
        let sdp_alone = !self.permit_tcp()?
            || self.tcp().is_none() && self.look(|inner| inner.phase != Phase::Idle);
        if sdp_alone {
            // SAFETY: `addr` has `len` bytes, by the caller's promise.
            return unsafe { self.bind(addr, len) };
        }
        let mut name = [0u8; NAME_LEN];
        let n = len.min(NAME_LEN);
        // SAFETY: `addr` has `len` bytes, by the caller's promise, and `n` is no more, nor more
        // than `name` has.
        unsafe {
            core::ptr::copy_nonoverlapping(addr, name.as_mut_ptr(), n);
            Addr::name_for_tcp(name.as_mut_ptr(), addr, len);
        }
        if let Some(tcp) = self.tcp() {
            return tcp.bind(&mut name, n);
        }
        let Some(tcp) = self.companion() else {
            return Err(EINVAL);
        };
        tcp.bind(&mut name, n)?;
        let [_, _, port @ ..] = &mut name;
        let [hi, lo, ..] = port;
        let chosen = [*hi, *lo] == [0, 0];
        [*hi, *lo] = tcp.port()?.to_be_bytes();
        let result = if chosen {
            // SAFETY: The copy has `n` bytes.
            unsafe { self.bind_where_tcp_chose(name.as_ptr(), n) }
        } else {
            // SAFETY: The copy has `n` bytes.
            unsafe { self.bind(name.as_ptr(), n) }
        };
        if let Err(e) = result {
            let _call = self.lock();
            let detail = self.look(|inner| inner.last_bind_err);
            self.fall_back(tcp, -if detail == 0 { e.to_errno() } else { detail });
        }
        Ok(())
    }

    /// bind() to a port that the program has not named. As with TCP's, it is released
    /// with the peer, or with the listener.
    ///
    /// # Safety
    ///
    /// `addr` points to `len` bytes.
    unsafe fn bind_where_tcp_chose(&self, addr: *const u8, len: usize) -> Result {
        // SAFETY: `addr` has `len` bytes, by the caller's promise.
        unsafe { self.bind(addr, len) }?;
        self.look(|inner| inner.bound_port = false);
        Ok(())
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
                let pending = is_under_way(result) || self.tcp_state() == ffi::TCP_SYN_SENT;
                if result.is_ok() || !pending {
                    // SAFETY: `sk` is valid.
                    unsafe { ffi::sdp_companion_end(self.sk()) };
                }
                result
            }
        }
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

    /// listen(2) of a socket that may have two halves.
    ///
    /// # Safety
    ///
    /// `socket` is this socket's.
    pub(crate) unsafe fn listen_halves(
        &self,
        socket: *mut ffi::core::socket,
        backlog: c_int,
    ) -> Result {
        let Some(tcp) = self.companion() else {
            // SAFETY: `socket` is ours, by the caller's promise.
            return unsafe { self.listen(socket, backlog) };
        };
        if !self.permit_tcp()? {
            // SAFETY: `socket` is ours, by the caller's promise.
            return unsafe { self.listen(socket, backlog) };
        }
        let may_listen = self.look(|inner| matches!(inner.phase, Phase::Idle | Phase::Listening));
        if self.tcp().is_none() && !may_listen {
            // SAFETY: `socket` is ours, by the caller's promise.
            return unsafe { self.listen(socket, backlog) };
        }
        // An earlier connection may have ended without a report.
        // SAFETY: `sk` is valid.
        unsafe { ffi::sdp_companion_end(self.sk()) };
        // SAFETY: The companion is there.
        to_result(unsafe { ffi::sdp_companion_listen(self.sk(), backlog) })?;
        if self.tcp().is_some() {
            return Ok(());
        }
        let result = self.bind_where_tcp_is(tcp).and_then(|()| {
            // SAFETY: `socket` is ours, by the caller's promise.
            unsafe { self.listen(socket, backlog) }
        });
        if let Err(e) = result {
            let _call = self.lock();
            self.fall_back(tcp, -e.to_errno());
            // SAFETY: The companion is there.
            unsafe { ffi::sdp_companion_show_state(self.sk()) };
        }
        Ok(())
    }

    /// listen() without bind(), or one without a port (IP_BIND_ADDRESS_NO_PORT), has
    /// given TCP a port; SDP takes the same.
    fn bind_where_tcp_is(&self, tcp: Tcp<'_>) -> Result {
        let port = tcp.port()?;
        let (bound, local, family) = self.look(|inner| {
            let any = Addr::any(inner.family);
            let local = if inner.bound_ip { inner.local } else { any };
            let bound = inner
                .port
                .as_ref()
                .is_some_and(|lease| lease.port() == port);
            if !bound {
                inner.port = None;
            }
            (bound, local, inner.family)
        });
        if bound {
            return Ok(());
        }
        let local = Addr { port, ..local };
        let mut name = [0u8; NAME_LEN];
        let len = local.emit(family, &mut name);
        // SAFETY: A name of ours, which has `len` bytes.
        unsafe { self.bind_where_tcp_chose(name.as_ptr(), len) }
    }

    /// accept(2) of a socket that may have two halves, in turn.
    ///
    /// # Safety
    ///
    /// `new` is a fresh `struct socket` with operations of this module.
    pub(crate) unsafe fn accept_halves(
        &self,
        new: *mut ffi::core::socket,
        arg: &mut ffi::proto_accept_arg,
    ) -> Result {
        if let Some(tcp) = self.tcp() {
            // SAFETY: `new` is fresh, by the caller's promise; `tcp` is our companion.
            return unsafe { tcp.accept(self, new, arg) };
        }
        let Some(tcp) = self.companion() else {
            // SAFETY: `new` is fresh, by the caller's promise.
            return unsafe { self.accept(new, arg) };
        };
        let nonblock = ffi::core::O_NONBLOCK as c_int;
        let flags = arg.flags;
        let mut timeo = self.receive_timeout(flags & nonblock != 0);
        loop {
            arg.flags = flags | nonblock;
            // SAFETY: There is a companion, which is `tcp`. `new` is fresh, by the caller's
            // promise, and still so where nothing was accepted.
            let result = unsafe {
                if ffi::sdp_companion_turn(self.sk()) {
                    match tcp.accept(self, new, arg) {
                        Err(e) if e == EAGAIN => self.accept(new, arg),
                        result => result,
                    }
                } else {
                    match self.accept(new, arg) {
                        Err(e) if e == EAGAIN => tcp.accept(self, new, arg),
                        result => result,
                    }
                }
            };
            arg.flags = flags;
            match result {
                Err(e) if e == EAGAIN => {}
                Ok(()) => {
                    // The other half may have more connections.
                    arg.is_empty = 0;
                    return Ok(());
                }
                result => return result,
            }
            if timeo == 0 {
                return Err(EAGAIN);
            }
            let mut call = Some(self.lock());
            self.wait_in_turn(&mut call, &mut timeo, || {
                let ours = self.look(|inner| match inner.listener.as_ref() {
                    Some(listener) => listener.ready() > 0,
                    // No longer a listener: accept() reports it.
                    None => true,
                });
                (ours || self.companion_events(tcp) != 0).then_some(())
            })?;
        }
    }

    /// What poll(2) would say of the companion, which is there.
    fn companion_events(&self, _there: Tcp<'_>) -> u32 {
        // SAFETY: There is a companion, which the caller has seen; without a file nothing is
        // registered.
        unsafe { ffi::sdp_companion_poll(self.sk(), core::ptr::null_mut()) }
    }

    /// poll(2) of a socket that may have two halves. After `sock_poll_wait`.
    ///
    /// # Safety
    ///
    /// `file` is the one that is asked.
    pub(crate) unsafe fn poll_halves(&self, file: *mut ffi::core::file) -> u32 {
        let mask = match self.tcp_after_connect() {
            Some(_) => 0,
            None => self.poll(),
        };
        // The events seen may be those of a fallback to TCP.
        smp_rmb();
        if self.tcp().is_some() {
            // SAFETY: There is a companion, which calls go to; `file` is the one that is asked,
            // by the caller's promise.
            return unsafe { ffi::sdp_companion_poll(self.sk(), file.cast()) };
        }
        match self.other_half() {
            Some(tcp) if self.tcp_state() == ffi::TCP_LISTEN => mask | self.companion_events(tcp),
            _ => mask,
        }
    }

    /// shutdown(2) of a socket that may have two halves.
    ///
    /// # Safety
    ///
    /// `socket` is this socket's.
    pub(crate) unsafe fn shutdown_halves(
        &self,
        socket: *mut ffi::core::socket,
        how: c_int,
    ) -> Result {
        let decided = self.tcp_after_connect().is_some();
        let listening = self.tcp_state() == ffi::TCP_LISTEN;
        if decided || listening && self.companion().is_some() {
            // SAFETY: The companion is there.
            let result = to_result(unsafe { ffi::sdp_companion_shutdown(self.sk(), how) });
            if decided || result.is_err() {
                return result;
            }
        }
        if (0..=2).contains(&how) {
            // Before the shutdown, so that a task that waits in connect() does not go
            // on to TCP.
            // SAFETY: `sk` is valid.
            unsafe { ffi::sdp_companion_end(self.sk()) };
        }
        // SAFETY: `socket` is ours, by the caller's promise.
        let result = unsafe { self.shutdown(socket, how) };
        if self.tcp().is_some() {
            // The socket has fallen back to TCP meanwhile.
            // SAFETY: The companion is there.
            return to_result(unsafe { ffi::sdp_companion_shutdown(self.sk(), how) });
        }
        result
    }

    /// setsockopt(2) of a socket that may have two halves.
    ///
    /// # Safety
    ///
    /// `value` is a pointer of the user program, or has `len` bytes of the kernel.
    pub(crate) unsafe fn set_option_halves(
        &self,
        level: c_int,
        option: c_int,
        value: ffi::core::sockptr_t,
        len: c_uint,
    ) -> Result {
        let own = is_own(level, option);
        if own {
            // SAFETY: `value` is the program's or has `len` bytes, by the caller's promise.
            return unsafe { self.set_option(level, option, value, len) };
        }
        // A companion that has been put aside gets the option, too, because
        // SDP_TRANSPORT may reactivate it.
        let general = level == ffi::SOL_SOCKET as c_int;
        let result = if general || self.tcp().is_some() {
            Ok(())
        } else {
            // SAFETY: `value` is the program's or has `len` bytes, by the caller's promise.
            unsafe { self.set_option(level, option, value, len) }
        };
        let result = result.map_or_else(Error::to_errno, |()| 0);
        // SAFETY: `sk` is valid; of `value` the callees check a program's pointer, and read no
        // more than `len` bytes of the kernel's.
        let result = to_result(unsafe {
            ffi::sdp_companion_setsockopt(self.sk(), level, option, value, len, result)
        });
        match result {
            // Resetting an option that was never set is no need.
            Err(refused) if len != 0 && is_needed(level, option) => {
                // SAFETY: `value` is the program's or has `len` bytes, by the caller's promise.
                unsafe { self.give_up_for((level, option), value, len, refused) }
            }
            result => result,
        }
    }

    /// SDP has refused an option that the program needs: a socket that may still become
    /// TCP does so, if TCP takes the option and the caller may have it.
    ///
    /// # Safety
    ///
    /// `value` is a pointer of the user program, or has `len` bytes of the kernel.
    unsafe fn give_up_for(
        &self,
        (level, option): (c_int, c_int),
        value: ffi::core::sockptr_t,
        len: c_uint,
        refused: Error,
    ) -> Result {
        let open_half = || {
            // SAFETY: `sk` is valid.
            let attempt = unsafe { ffi::sdp_companion_attempt(self.sk()) };
            let idle = !attempt && self.look(|inner| inner.phase == Phase::Idle);
            self.other_half().filter(|_| idle)
        };
        if open_half().is_none() || !self.may_use_tcp() {
            return Err(refused);
        }
        let _call = self.lock();
        // Another thread may have begun something.
        let tcp = open_half().ok_or(refused)?;
        // SAFETY: The companion is there; of `value` the callee checks a program's pointer,
        // and reads no more than `len` bytes of the kernel's.
        to_result(unsafe { ffi::sdp_companion_set_tcp(self.sk(), level, option, value, len) })
            .map_err(|_| refused)?;
        self.fall_back(tcp, -EOPNOTSUPP.to_errno());
        Ok(())
    }

    /// getsockopt(2) of a socket that may have two halves.
    ///
    /// # Safety
    ///
    /// `value` and `len` are pointers of the user program.
    pub(crate) unsafe fn get_option_halves(
        &self,
        level: c_int,
        option: c_int,
        value: *mut u8,
        len: *mut c_int,
    ) -> Result {
        let own = is_own(level, option);
        match self.tcp() {
            // SAFETY: The companion is there; the callee checks the pointers.
            Some(tcp) if !own => to_result(unsafe {
                ffi::sdp_companion_getsockopt(tcp.socket().cast(), level, option, value.cast(), len)
            }),
            // SAFETY: The pointers are the program's, by the caller's promise.
            _ => unsafe { self.get_option(level, option, value, len) },
        }
    }
}
