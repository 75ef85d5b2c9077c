// SPDX-License-Identifier: GPL-2.0

//! connect(2).

use crate::{
    addr::{
        Addr,
        Family,
        Parsed, //
    },
    cm::{
        self,
        way::Way, //
    },
    endpoint::Phase,
    engine::{
        policy::answers::Advice,
        types::Ip, //
    },
    ffi,
    net::socket::{
        Socket,
        SS_CONNECTED,
        SS_CONNECTING,
        SS_UNCONNECTED, //
    },
    netns::ports::PortLease,
    object::{
        Sock,
        SockRef, //
    },
    prelude::*,
    sock::{
        call::Call,
        companion::MOVED, //
    },
};

impl Sock {
    /// connect(2), with the states and errors of TCP.
    pub(crate) fn connect(&self, socket: &Socket, addr: &[u8], flags: u32) -> Result {
        let parsed = Addr::parse(addr);
        let mut call = self.begin();
        let set_state = |to| socket.set_state(to);
        if let Ok(Parsed::Unspec) = parsed {
            self.await_promises(&mut call);
            // Tells waiters: see `wait_for_peer`.
            call.guard()?.note_disconnect();
            self.disconnect();
            set_state(SS_UNCONNECTED);
            return Ok(());
        }
        let nonblock = flags & ffi::core::O_NONBLOCK != 0;
        let mut error = match socket.state() {
            SS_CONNECTED => return Err(EISCONN),
            SS_CONNECTING => EALREADY,
            SS_UNCONNECTED => {
                if self.tcp_state() != ffi::TCP_CLOSE || self.look(|i| i.phase == Phase::Listening)
                {
                    return Err(EISCONN);
                }
                let (addr, family) = match parsed? {
                    Parsed::Addr(addr, family) => (addr, family),
                    Parsed::Unspec => return Err(EINVAL),
                };
                self.start_connect(addr, family)?;
                set_state(SS_CONNECTING);
                if self.send_timeout(nonblock) == 0 {
                    // Even if the answer has arrived already, as with TCP, which
                    // handles it after this call.
                    return Err(EINPROGRESS);
                }
                EINPROGRESS
            }
            _ => return Err(EINVAL),
        };

        self.await_attempt(&mut call, nonblock, error)?;
        if self.tcp().is_some() {
            return Err(MOVED);
        }
        // Another thread may have reset the state while this one waited.
        if self.tcp_state() == ffi::TCP_CLOSE {
            error = self.forget_err().unwrap_or(ECONNABORTED);
            set_state(SS_UNCONNECTED);
            call.guard()?.note_disconnect();
            self.disconnect();
            return Err(error);
        }
        set_state(SS_CONNECTED);
        Ok(())
    }

    /// Waits until no attempt to connect is under way. Without time for that, as for a non-blocking
    /// socket, the result is `pending`.
    fn await_attempt<'a>(&'a self, call: &mut Call<'a>, nonblock: bool, pending: Error) -> Result {
        let connecting = || {
            let tcp = self.tcp_state();
            tcp == ffi::TCP_SYN_SENT || tcp == ffi::TCP_SYN_RECV
        };
        if !connecting() {
            return Ok(());
        }
        let mut timeo = self.send_timeout(nonblock);
        if timeo == 0 {
            return Err(pending);
        }
        self.wait_for_peer(call, &mut timeo, || (!connecting()).then_some(()))
            .map_err(|e| if e == EAGAIN { pending } else { e })
    }

    /// The peer that `peer` and `family` of a connect() name, with TCP's errors.
    fn target(&self, mut peer: Addr, family: Family) -> Result<(Addr, Family)> {
        let own = self.look(|inner| (inner.family, inner.options.v6only));
        let family = match (own.0, family) {
            (Family::V4, Family::V4) => Family::V4,
            (Family::V6, Family::V4) => return Err(EAFNOSUPPORT),
            // The TCP half is an IPv4 socket and stays one.
            (Family::V4, Family::V6) if self.has_companion() => return Err(EAFNOSUPPORT),
            (_, Family::V6) => Family::V6,
        };
        if Addr::is_any(peer.ip) {
            // As TCP does: the wildcard is this host.
            peer.ip = match peer.ip {
                Ip::V4(_) => Ip::V4([127, 0, 0, 1]),
                Ip::V6(_) => Ip::V6([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]),
            };
        }
        if Addr::is_multicast(peer.ip) {
            return Err(ENETUNREACH);
        }
        peer = peer.on_interface(self.device())?;
        if own.1 && matches!(peer.ip, Ip::V4(_)) && family == Family::V6 {
            return Err(ENETUNREACH);
        }
        if peer.port == 0 {
            // No service has port 0.
            return Err(ECONNREFUSED);
        }
        let mismatch = self
            .look(|inner| inner.binding.has_ip() && !Addr::same_family(inner.local.ip, peer.ip));
        if mismatch {
            return Err(ENETUNREACH);
        }
        Ok((peer, family))
    }

    fn start_connect(&self, peer: Addr, family: Family) -> Result {
        let (peer, family) = self.target(peer, family)?;
        let from = self.look(|inner| Addr {
            ip: if inner.binding.has_ip() {
                inner.local.ip
            } else {
                Addr::any(family).ip
            },
            ..inner.local
        });
        let source = Way::find(self, &peer, &from)?.source;
        if self.look(|inner| inner.fallback.is_open())
            && self.net().advice(&self.pair(source, peer.ip)) == Advice::Skip
        {
            self.net().stats.silent_peers_skipped.inc();
            return Err(EHOSTDOWN);
        }
        let port = self.look(|inner| inner.binding.lease().map(PortLease::port));
        if let Some(port) = port {
            self.make_way((source, port), (peer.ip, peer.port));
        }
        self.look(|inner| {
            if let Some(lease) = inner.binding.lease_mut() {
                lease.connect(source, (peer.ip, peer.port))?;
            } else {
                // SAFETY: The endpoint has the lease, here or until it is freed.
                let lease = unsafe { self.net().connect_port(self, source, (peer.ip, peer.port)) }
                    .map_err(|e| if e == EADDRINUSE { EADDRNOTAVAIL } else { e })?;
                inner.local.port = lease.port();
                inner.binding.on_chosen(lease);
            }
            inner.family = family;
            inner.local.ip = source;
            if matches!(source, Ip::V6(_)) {
                inner.local.scope = peer.scope;
            }
            // Bytes of an earlier connection.
            inner.recv.clear();
            inner.engine = None;
            inner.next_generation();
            inner.resolving.begin();
            inner.phase = Phase::Connecting;
            inner.peer = peer;
            Ok::<(), Error>(())
        })?;
        self.reset_flags();
        // An unread error belongs to an earlier connection.
        let _ = self.forget_err();
        self.look(|inner| inner.show_state(self, ffi::TCP_SYN_SENT));
        if let Err(e) = cm::resolve::start(self, 1) {
            self.look(|inner| inner.forget_connection(self));
            self.net().stats.failed_opens.inc();
            return Err(e);
        }
        Ok(())
    }

    fn reset_flags(&self) {
        self.look(|inner| {
            inner.peer_done = false;
            self.clear_shutdown();
        });
    }

    /// Back to an unconnected socket: connect() to AF_UNSPEC, a failed
    /// connect(), shutdown() of one that is not connected yet. With
    /// `lock_sock`.
    pub(crate) fn disconnect(&self) {
        if self.may_be_reset() {
            self.set_err(ECONNRESET);
        }
        self.forget_peer(false);
        self.leave_race();
        self.set_peek_off(-1);
    }

    /// Whether leaving the peer sets ECONNRESET, as in `tcp_disconnect()`.
    fn may_be_reset(&self) -> bool {
        matches!(
            self.tcp_state(),
            ffi::TCP_ESTABLISHED
                | ffi::TCP_SYN_SENT
                | ffi::TCP_SYN_RECV
                | ffi::TCP_FIN_WAIT1
                | ffi::TCP_FIN_WAIT2
                | ffi::TCP_CLOSE_WAIT
        )
    }

    /// The same without an event for pollers. Tasks that sleep in a call look again.
    /// With `lock_sock`.
    pub(super) fn leave_peer(&self) {
        self.forget_peer(true);
    }

    fn forget_peer(&self, quietly: bool) {
        let mut dead = (None, None);
        self.drive(|inner| {
            dead = (inner.listener.take(), inner.resolving.stop());
            if dead.0.is_some() {
                if let Some(port) = inner.binding.lease() {
                    port.unlisten();
                }
            }
            inner.forget_connection(self);
            if quietly {
                let wake = inner.wake();
                (wake.hangup, wake.writable, wake.sleepers) = (false, false, true);
            }
        });
        // Without the endpoint's lock: both wait for handlers that take it.
        if let Some(listener) = dead.0 {
            listener.close();
        }
        drop(dead.1);
        self.reset_flags();
    }

    /// Waits until a connection is established, for send(): as
    /// `sk_stream_wait_connect`.
    pub(crate) fn wait_connected<'a>(&'a self, call: &mut Call<'a>, timeo: &mut isize) -> Result {
        let sendable = |sock: &Sock| {
            let tcp = sock.tcp_state();
            tcp == ffi::TCP_ESTABLISHED || tcp == ffi::TCP_CLOSE_WAIT
        };
        if sendable(self) {
            return Ok(());
        }
        self.wait_for_peer(call, timeo, || {
            if self.tcp().is_some() {
                return Some(Err(MOVED));
            }
            if let Err(e) = self.take_err() {
                return Some(Err(e));
            }
            if sendable(self) {
                return Some(Ok(()));
            }
            let tcp = self.tcp_state();
            if tcp != ffi::TCP_SYN_SENT && tcp != ffi::TCP_SYN_RECV {
                return Some(Err(EPIPE));
            }
            None
        })?
    }
}

impl Sock {
    /// Has a closed connection between `own` and `peer` stand aside for a new one of
    /// this socket, if it can. Without the locks of endpoints.
    fn make_way(&self, own: (Ip, u16), peer: (Ip, u16)) {
        let vrf = self.vrf();
        while let Some(holder) = self.net().find_connection(own, peer, vrf) {
            if !SockRef::from(holder).drive(|inner| inner.stand_aside()) {
                return;
            }
        }
    }
}
