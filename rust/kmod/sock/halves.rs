// SPDX-License-Identifier: GPL-2.0

//! The calls of a socket that may use SDP or TCP, except connect() and those for options.
//!
//! Contexts: process context, may sleep, no lock held.

use crate::{
    addr::Addr,
    endpoint::Phase,
    ffi,
    object::Sock,
    prelude::*,
    sock::companion::{
        Tcp,
        NAME_LEN, //
    },
};
use kernel::error::to_result;

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
            let mut call = self.begin();
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
}
