// SPDX-License-Identifier: GPL-2.0

//! The port space of a namespace: who is bound where.
//!
//! SDP ports are their own: a TCP socket and an SDP socket may use one number.
//! The rules of sharing are those of TCP (SO_REUSEADDR, SO_REUSEPORT, device,
//! wildcard against specific address, listeners exclude each other).
//!
//! Locks: the table is inside [`NetState::ports`], innermost.

use crate::{
    addr::Addr,
    engine::types::Ip,
    ffi,
    net::NetState,
    sock::{
        Sock,
        SockRef, //
    },
};
use core::ptr::NonNull;
use kernel::{
    prelude::*,
    rbtree::RBTree, //
};

/// One bound socket.
struct Binding {
    id: u64,
    sock: NonNull<Sock>,
    ip: Ip,
    peer: Option<(Ip, u16)>,
    /// Takes connections to IPv4 and IPv6 addresses alike.
    dual: bool,
    listening: bool,
}

impl Binding {
    /// What it has been bound to, as it is now.
    fn terms(&self) -> Terms {
        // SAFETY: A bound socket leaves the table before its memory goes.
        Terms::of(unsafe { self.sock.as_ref() })
    }

    /// Whether both may be bound where they overlap.
    fn tolerates(&self, other: &Terms) -> bool {
        let own = self.terms();
        own.is_apart(other)
            || own.reuse && other.reuse && !self.listening
            || own.shares_port_with(other)
    }

    /// Whether both could be asked for one connection.
    fn overlaps(&self, ip: Ip, dual: bool) -> bool {
        if Addr::is_any(self.ip) {
            return self.dual || Addr::is_any(ip) && dual || Addr::same_family(self.ip, ip);
        }
        if Addr::is_any(ip) {
            return dual || Addr::same_family(self.ip, ip);
        }
        self.ip == ip
    }

    /// How well a connection to `ip` that came in by `device` fits, higher is
    /// better.
    fn fit(&self, ip: Ip, device: i32) -> Option<u8> {
        let own = self.terms().device;
        if own != 0 && own != device {
            return None;
        }
        let bound = u8::from(own != 0);
        if self.ip == ip {
            return Some(2 + bound);
        }
        let any = Addr::is_any(self.ip) && (self.dual || Addr::same_family(self.ip, ip));
        any.then_some(bound)
    }
}

/// All bindings of a namespace.
pub(crate) struct PortTable {
    ports: RBTree<u16, KVVec<Binding>>,
    next_id: u64,
}

// SAFETY: The socket pointers are only used under the lock of the table, and a
// socket leaves the table before its memory goes.
unsafe impl Send for PortTable {}

/// A socket's claim on a port. Ends when dropped.
pub(crate) struct PortLease {
    net: NonNull<NetState>,
    port: u16,
    id: u64,
}

// SAFETY: The namespace outlives the socket that owns the lease.
unsafe impl Send for PortLease {}

/// What a socket wants to bind to.
pub(crate) struct Claim {
    pub(crate) ip: Ip,
    pub(crate) dual: bool,
}

/// What says whether two sockets may have one port.
struct Terms {
    /// SO_REUSEADDR.
    reuse: bool,
    /// SO_REUSEPORT.
    reuseport: bool,
    user: u32,
    /// SO_BINDTODEVICE, or 0.
    device: i32,
}

impl Terms {
    fn of(sock: &Sock) -> Self {
        let sk = sock.sk();
        // SAFETY: Single words of a valid socket.
        unsafe {
            Self {
                reuse: ffi::sdp_sock_reuse(sk),
                reuseport: ffi::sdp_sock_reuseport(sk),
                user: ffi::sdp_sock_uid(sk),
                device: ffi::sdp_sock_device(sk),
            }
        }
    }

    /// Nothing can come in for both.
    fn is_apart(&self, other: &Self) -> bool {
        self.device != 0 && other.device != 0 && self.device != other.device
    }

    fn shares_port_with(&self, other: &Self) -> bool {
        self.reuseport && other.reuseport && self.user == other.user
    }
}

impl PortTable {
    pub(crate) fn new() -> Self {
        Self {
            ports: RBTree::new(),
            next_id: 1,
        }
    }

    fn conflicts(&self, port: u16, claim: &Claim, terms: &Terms) -> bool {
        self.ports.get(&port).is_some_and(|bound| {
            bound
                .iter()
                .any(|b| b.overlaps(claim.ip, claim.dual) && !b.tolerates(terms))
        })
    }

    fn insert(
        &mut self,
        net: &NetState,
        sock: &Sock,
        port: u16,
        claim: &Claim,
    ) -> Result<PortLease> {
        if self.ports.get(&port).is_none() {
            self.ports
                .try_create_and_insert(port, KVVec::new(), GFP_KERNEL)?;
        }
        let id = self.next_id;
        self.next_id = id.wrapping_add(1);
        if let Some(bound) = self.ports.get_mut(&port) {
            let pushed = bound.push(
                Binding {
                    id,
                    sock: NonNull::from(sock),
                    ip: claim.ip,
                    peer: None,
                    dual: claim.dual,
                    listening: false,
                },
                GFP_KERNEL,
            );
            if let Err(e) = pushed {
                if bound.is_empty() {
                    self.ports.remove(&port);
                }
                return Err(e.into());
            }
        }
        Ok(PortLease {
            net: NonNull::from(net),
            port,
            id,
        })
    }

    fn find(&mut self, port: u16, id: u64) -> Option<&mut Binding> {
        self.ports.get_mut(&port)?.iter_mut().find(|b| b.id == id)
    }
}

impl NetState {
    /// Binds `sock` to `port`, or to an ephemeral one for 0. EADDRINUSE as TCP
    /// says it.
    pub(crate) fn bind_port(&self, sock: &Sock, port: u16, claim: &Claim) -> Result<PortLease> {
        let mut table = self.ports.lock();
        if port != 0 {
            if table.conflicts(port, claim, &Terms::of(sock)) {
                return Err(EADDRINUSE);
            }
            return table.insert(self, sock, port, claim);
        }
        let (mut low, mut high) = (0, 0);
        // SAFETY: The namespace is alive, both results are ours.
        unsafe { ffi::sdp_local_port_range(self.as_ptr(), &mut low, &mut high) };
        let low = u32::try_from(low).unwrap_or(1).clamp(1, 65535);
        let high = u32::try_from(high).unwrap_or(65535).clamp(low, 65535);
        let count = high.wrapping_sub(low).wrapping_add(1);
        // SAFETY: A plain number.
        let start = unsafe { ffi::sdp_random_u32() }
            .checked_rem(count)
            .unwrap_or(0);
        for i in 0..count {
            let at = start.wrapping_add(i).checked_rem(count).unwrap_or(0);
            let Ok(port) = u16::try_from(low.wrapping_add(at)) else {
                continue;
            };
            // SAFETY: The namespace is alive.
            if unsafe { ffi::sdp_port_is_reserved(self.as_ptr(), port) } {
                continue;
            }
            // An ephemeral port is shared with nobody.
            if table.ports.get(&port).is_none() {
                return table.insert(self, sock, port, claim);
            }
        }
        Err(EADDRINUSE)
    }

    /// Adds an accepted connection to the port of its listener.
    pub(crate) fn share_port(&self, sock: &Sock, port: u16, claim: &Claim) -> Result<PortLease> {
        self.ports.lock().insert(self, sock, port, claim)
    }

    /// The listener that a connection from `peer` to (`ip`, `port`) is for,
    /// which came in by `device`. Of several that share the port each gets some
    /// of the peers.
    pub(crate) fn find_listener(
        &self,
        (ip, port): (Ip, u16),
        device: i32,
        peer: (Ip, u16),
    ) -> Option<SockRef> {
        let table = self.ports.lock();
        let fits = || {
            let bound = table.ports.get(&port)?.iter().filter(|b| b.listening);
            Some(bound.filter_map(|b| b.fit(ip, device).map(|fit| (fit, b.sock))))
        };
        let best = fits()?.map(|(fit, _)| fit).max()?;
        let group = || fits().map(|found| found.filter(|(fit, _)| *fit == best));
        let turn = spread(peer).checked_rem(group()?.count()).unwrap_or(0);
        let (_, sock) = group()?.nth(turn)?;
        // SAFETY: A bound socket leaves the table before its memory goes.
        unsafe { SockRef::try_get(sock.as_ptr()) }
    }
}

impl NetState {
    /// The socket that has the connection between (`ip`, `port`), which are its own,
    /// and `peer`.
    pub(crate) fn find_connection(
        &self,
        (ip, port): (Ip, u16),
        peer: (Ip, u16),
    ) -> Option<SockRef> {
        let table = self.ports.lock();
        let mut bound = table.ports.get(&port)?.iter();
        let found = bound.find(|b| b.ip == ip && b.peer == Some(peer))?;
        // SAFETY: A bound socket leaves the table before its memory goes.
        unsafe { SockRef::try_get(found.sock.as_ptr()) }
    }
}

/// A number of a peer that is spread evenly: FNV-1a, its halves folded.
fn spread((ip, port): (Ip, u16)) -> usize {
    let step = |hash: u32, byte: &u8| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
    let hash = match &ip {
        Ip::V4(bytes) => bytes.iter().fold(0x811c_9dc5, step),
        Ip::V6(bytes) => bytes.iter().fold(0x811c_9dc5, step),
    };
    let hash = port.to_be_bytes().iter().fold(hash, step);
    (hash ^ hash >> 16) as usize
}

impl PortLease {
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    fn net(&self) -> &NetState {
        // SAFETY: The owner of the lease keeps its namespace alive.
        unsafe { self.net.as_ref() }
    }

    /// Starts to listen; EADDRINUSE when another listener overlaps.
    pub(crate) fn listen(&self) -> Result {
        let mut table = self.net().ports.lock();
        let Some(own) = table.find(self.port, self.id) else {
            return Err(EINVAL);
        };
        let (ip, dual, terms) = (own.ip, own.dual, own.terms());
        let taken = table.ports.get(&self.port).is_some_and(|bound| {
            bound.iter().any(|b| {
                b.id != self.id && b.listening && b.overlaps(ip, dual) && !b.tolerates(&terms)
            })
        });
        if taken {
            return Err(EADDRINUSE);
        }
        if let Some(own) = table.find(self.port, self.id) {
            own.listening = true;
        }
        Ok(())
    }

    /// Stops to listen, stays bound.
    pub(crate) fn unlisten(&self) {
        if let Some(own) = self.net().ports.lock().find(self.port, self.id) {
            own.listening = false;
        }
    }

    /// The two ends became known. EADDRNOTAVAIL when another socket has this
    /// very connection.
    pub(crate) fn connect(&self, ip: Ip, peer: (Ip, u16)) -> Result {
        let mut table = self.net().ports.lock();
        let taken = table.ports.get(&self.port).is_some_and(|bound| {
            bound
                .iter()
                .any(|b| b.id != self.id && b.ip == ip && b.peer == Some(peer))
        });
        if taken {
            return Err(EADDRNOTAVAIL);
        }
        if let Some(own) = table.find(self.port, self.id) {
            own.ip = ip;
            own.peer = Some(peer);
            own.dual = false;
        }
        Ok(())
    }

    /// The connection is gone; the socket is bound to `ip` as before.
    pub(crate) fn disconnect(&self, ip: Ip, dual: bool) {
        if let Some(own) = self.net().ports.lock().find(self.port, self.id) {
            own.ip = ip;
            own.peer = None;
            own.dual = dual;
        }
    }
}

impl Drop for PortLease {
    fn drop(&mut self) {
        let mut table = self.net().ports.lock();
        let mut empty = false;
        if let Some(bound) = table.ports.get_mut(&self.port) {
            bound.retain(|b| b.id != self.id);
            empty = bound.is_empty();
        }
        if empty {
            table.ports.remove(&self.port);
        }
    }
}
