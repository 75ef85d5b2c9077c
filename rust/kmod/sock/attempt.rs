// SPDX-License-Identifier: GPL-2.0

//! connect() of a socket that may use SDP or TCP.
//!
//! A non-blocking connect() that fails over SDP is not reported. A worker starts TCP's
//! attempt in its place, or beside it (`race`). Neither pollers of any kind nor tasks that wait in send() or
//! recv() for the connection see the change.
//!
//! Contexts: process context, may sleep, no lock held.

use crate::{
    addr::{
        Addr,
        Parsed, //
    },
    alarm::Alarm,
    errno::is_worth_tcp,
    ffi,
    net::{
        msg::SendMsg,
        socket::{
            Socket,
            SS_UNCONNECTED, //
        },
    },
    object::Sock,
    prelude::*,
    sock::companion::{
        Tcp,
        MOVED, //
    },
};

/// Whether connect() returned while the attempt goes on.
fn is_under_way(result: Result) -> bool {
    result.is_err_and(|e| e == EINPROGRESS || e == EALREADY || e == EINTR || e == ERESTARTSYS)
}

impl Sock {
    /// sendmsg(2) with MSG_FASTOPEN, which connects if it has an address.
    pub(super) fn fast_open(&self, msg: &mut SendMsg, len: usize) -> Result<i32> {
        let Some(tcp) = self.tcp_after_connect() else {
            return Err(EOPNOTSUPP);
        };
        if let Some(name) = msg.name()? {
            self.permit_connect(tcp, name)?;
        }
        tcp.socket()
            .send(msg, len)
            .inspect_err(|_| self.settle_tcp_error())
    }

    /// connect(2) of a socket that may have two halves. `addr` is the call's own.
    pub(crate) fn connect_halves(&self, socket: &Socket, addr: &mut [u8], flags: u32) -> Result {
        let Some(tcp) = self.companion() else {
            return self.connect(socket, addr, flags);
        };
        let len = addr.len();
        Addr::name_for_tcp(addr, len);
        if !self.permit_connect(tcp, addr)? {
            let result = self.connect(socket, addr, flags);
            // Another task has begun the connect(), and the socket uses TCP now.
            return result.map_err(|e| if e == MOVED { EPERM } else { e });
        }
        if self.tcp_after_connect().is_some() {
            return tcp.connect(addr, flags);
        }
        self.connect_either(tcp, socket, addr, flags)
    }

    /// connect(2) over SDP, and over TCP, which is the companion, if that fails.
    fn connect_either(&self, tcp: Tcp<'_>, socket: &Socket, addr: &[u8], flags: u32) -> Result {
        // Before it can fail, because another thread may be polling.
        let began = self.begin_attempt(tcp, socket, addr);
        let result = self.connect(socket, addr, flags);
        // SDP may have no free port while TCP has some.
        let portless = |e| e == EADDRNOTAVAIL && self.look(|inner| inner.binding.lease().is_none());
        // A connect() that has succeeded is not repeated, even if the connection ended
        // before any call asked. Nor is one that shutdown() has ended.
        let shut = !self.is_attempt_open();
        match result {
            Err(e) if !shut && (is_worth_tcp(e) || portless(e)) => {
                {
                    let _call = self.lock();
                    self.fall_back(tcp, -e.to_errno());
                }
                tcp.connect(addr, flags)
            }
            Err(e) if e == MOVED => {
                match tcp.connect(addr, flags) {
                    // The worker has begun TCP's attempt on behalf of this call.
                    Err(e) if e == EALREADY && began => Err(EINPROGRESS),
                    // Another thread has waited for it as well.
                    Err(e) if e == EISCONN => Ok(()),
                    result => result,
                }
            }
            _ => {
                let parsed = Addr::parse(addr);
                if matches!((parsed, result), (Ok(Parsed::Unspec), Ok(()))) {
                    // It may have been listening, too.
                    tcp.connect(addr, flags)?;
                }
                self.settle_attempt(result)
            }
        }
    }

    /// The result of SDP's connect() is the result of the call.
    fn settle_attempt(&self, result: Result) -> Result {
        let pending = is_under_way(result) || self.tcp_state() == ffi::TCP_SYN_SENT;
        if result.is_ok() || !pending {
            self.end_attempt();
            self.look(|inner| inner.fallback.close());
        }
        result
    }

    /// Records the target of connect(), if this call begins one.
    fn begin_attempt(&self, tcp: Tcp<'_>, socket: &Socket, addr: &[u8]) -> bool {
        if !matches!(Addr::parse(addr), Ok(Parsed::Addr(..))) {
            return false;
        }
        let _call = self.lock();
        let unconnected = socket.state() == SS_UNCONNECTED;
        let begins = unconnected && self.tcp_state() == ffi::TCP_CLOSE && self.tcp().is_none();
        if begins {
            self.leave_race();
            self.look(|inner| inner.fallback.begin());
            tcp.begin_attempt(addr);
        }
        begins
    }

    /// Repeats a failed connect() over TCP; [`Alarm::Engine`] calls it.
    pub(crate) fn give_way(&self) {
        let Some(_call) = self.lock_or_defer(Alarm::Engine) else {
            return;
        };
        let Some(error) = self.look(|inner| inner.fallback.take_failure()) else {
            return;
        };
        let attempt = self.is_attempting();
        let Some(tcp) = self.other_half().filter(|_| attempt) else {
            return self.drive(|inner| inner.tell_failure(self, error));
        };
        // The port is free before the peer of TCP's attempt, or a program that sees the
        // decision, can bind it. The rest is in this order because a program that looks
        // meanwhile sees a connect() under way.
        let racing = self.look(|inner| {
            inner.binding.release();
            inner.fallback.stop_race().is_some()
        });
        if !racing {
            tcp.retry();
        }
        self.take_tcp(tcp, error);
    }

    /// TCP's attempt, which has begun, makes the connection. With `lock_sock`.
    pub(super) fn take_tcp(&self, tcp: Tcp<'_>, reason: Error) {
        self.fall_back(tcp, -reason.to_errno());
        self.leave_peer();
        tcp.catch_up();
    }
}
