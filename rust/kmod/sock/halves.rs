// SPDX-License-Identifier: GPL-2.0

//! The calls of a socket that may use SDP or TCP, except connect() and those for options.
//!
//! Contexts: process context, may sleep, no lock held.

use crate::{
    addr::{
        Addr,
        NAME_LEN, //
    },
    endpoint::Phase,
    ffi,
    net::{
        proto_ops::{
            AcceptArg,
            NewSocket, //
        },
        socket::Socket,
    },
    object::Sock,
    prelude::*,
    sock::companion::Tcp, //
};
use kernel::fs::LocalFile;

impl Sock {
    /// bind(2) of a socket that may have two halves. The port is chosen by TCP.
    pub(crate) fn bind_halves(&self, addr: &[u8]) -> Result {
        let sdp_alone = !self.permit_tcp()?
            || self.tcp().is_none() && self.look(|inner| inner.phase != Phase::Idle);
        if sdp_alone {
            return self.bind(addr);
        }
        let mut name = [0u8; NAME_LEN];
        for (to, from) in name.iter_mut().zip(addr) {
            *to = *from;
        }
        Addr::name_for_tcp(&mut name, addr.len());
        let name = name.get_mut(..addr.len().min(NAME_LEN)).unwrap_or(&mut []);
        if let Some(tcp) = self.tcp() {
            return tcp.bind(name);
        }
        let Some(tcp) = self.companion() else {
            return Err(EINVAL);
        };
        tcp.bind(name)?;
        let [_, _, hi, lo, ..] = name else {
            return Err(EINVAL);
        };
        let chosen = [*hi, *lo] == [0, 0];
        [*hi, *lo] = tcp.port()?.to_be_bytes();
        let result = if chosen {
            self.bind_where_tcp_chose(name)
        } else {
            self.bind(name)
        };
        if let Err(e) = result {
            let _call = self.lock();
            let detail = self.look(|inner| inner.binding.last_err());
            self.fall_back(tcp, -if detail == 0 { e.to_errno() } else { detail });
        }
        Ok(())
    }

    /// bind() to a port that the program has not named. As with TCP's, it is released
    /// with the peer, or with the listener.
    fn bind_where_tcp_chose(&self, addr: &[u8]) -> Result {
        self.bind(addr)?;
        self.look(|inner| inner.binding.forget_port());
        Ok(())
    }

    /// listen(2) of a socket that may have two halves.
    pub(crate) fn listen_halves(&self, socket: &Socket, backlog: c_int) -> Result {
        let Some(tcp) = self.companion() else {
            return self.listen(socket, backlog);
        };
        if !self.permit_tcp()? {
            return self.listen(socket, backlog);
        }
        let may_listen = self.look(|inner| matches!(inner.phase, Phase::Idle | Phase::Listening));
        if self.tcp().is_none() && !may_listen {
            return self.listen(socket, backlog);
        }
        // An earlier connection may have ended without a report.
        self.end_attempt();
        tcp.listen(backlog)?;
        if self.tcp().is_some() {
            return Ok(());
        }
        let result = self.bind_where_tcp_is(tcp);
        let result = result.and_then(|()| self.listen(socket, backlog));
        if let Err(e) = result {
            let _call = self.lock();
            self.fall_back(tcp, -e.to_errno());
            tcp.show_state();
        }
        Ok(())
    }

    /// listen() without bind(), or one without a port (IP_BIND_ADDRESS_NO_PORT), has
    /// given TCP a port; SDP takes the same.
    fn bind_where_tcp_is(&self, tcp: Tcp<'_>) -> Result {
        let port = tcp.port()?;
        let (bound, local, family) = self.look(|inner| {
            let any = Addr::any(inner.family);
            let local = if inner.binding.has_ip() {
                inner.local
            } else {
                any
            };
            let bound = inner
                .binding
                .lease()
                .is_some_and(|lease| lease.port() == port);
            if !bound {
                inner.binding.release();
            }
            (bound, local, inner.family)
        });
        if bound {
            return Ok(());
        }
        let local = Addr { port, ..local };
        let mut name = [0u8; NAME_LEN];
        let len = local.emit(family, &mut name);
        self.bind_where_tcp_chose(name.get(..len).unwrap_or(&name))
    }

    /// accept(2) of a socket that may have two halves, in turn.
    pub(crate) fn accept_halves(&self, new: &mut NewSocket<'_>, arg: &mut AcceptArg) -> Result {
        if let Some(tcp) = self.tcp() {
            return tcp.accept(new, arg);
        }
        let Some(tcp) = self.companion() else {
            return self.accept(new, arg);
        };
        let nonblock = ffi::core::O_NONBLOCK as c_int;
        let flags = arg.flags;
        let mut timeo = self.receive_timeout(flags & nonblock != 0);
        loop {
            arg.flags = flags | nonblock;
            let result = if tcp.takes_turn() {
                match tcp.accept(new, arg) {
                    Err(e) if e == EAGAIN => self.accept(new, arg),
                    result => result,
                }
            } else {
                match self.accept(new, arg) {
                    Err(e) if e == EAGAIN => tcp.accept(new, arg),
                    result => result,
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
                (ours || tcp.poll(None) != 0).then_some(())
            })?;
        }
    }

    /// poll(2) of a socket that may have two halves. After `sock_poll_wait`.
    pub(crate) fn poll_halves(&self, file: &LocalFile) -> u32 {
        let mask = match self.tcp_after_connect() {
            Some(_) => 0,
            None => self.poll(),
        };
        // The events seen may belong to a fallback to TCP. Pairs with `sdp_companion_use`.
        smp_rmb();
        if let Some(tcp) = self.tcp() {
            return tcp.poll(Some(file));
        }
        if self.tcp_state() != ffi::TCP_LISTEN {
            return mask;
        }
        self.other_half().map_or(mask, |tcp| mask | tcp.poll(None))
    }

    /// shutdown(2) of a socket that may have two halves.
    pub(crate) fn shutdown_halves(&self, socket: &Socket, how: c_int) -> Result {
        let decided = self.tcp_after_connect();
        let listening = self.tcp_state() == ffi::TCP_LISTEN;
        let tcp = decided.or_else(|| self.companion().filter(|_| listening));
        if let Some(tcp) = tcp {
            let result = tcp.shutdown(how);
            if decided.is_some() || result.is_err() {
                return result;
            }
        }
        if (0..=2).contains(&how) {
            // Before the shutdown, so that a task that waits in connect() does not go
            // on to TCP.
            self.end_attempt();
        }
        let result = self.shutdown(socket, how);
        match self.tcp() {
            // The socket has fallen back to TCP meanwhile.
            Some(tcp) => tcp.shutdown(how),
            None => result,
        }
    }
}
