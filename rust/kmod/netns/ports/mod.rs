// SPDX-License-Identifier: GPL-2.0

//! The port space of a namespace: who is bound where.
//!
//! SDP ports are their own: a TCP socket and an SDP socket may use one number.
//! The rules of sharing are TCP's (SO_REUSEADDR, SO_REUSEPORT, device,
//! wildcard against specific address, listeners exclude each other).
//!
//! Locks: the table is inside [`NetState::ports`], innermost.

mod binding;
pub(super) mod table;

pub(crate) use binding::{
    Arrival,
    Claim, //
};

use crate::{
    engine::types::Ip,
    net::sk::{
        Sk,
        SkRef, //
    },
    netns::NetState,
    prelude::*,
    random::random_u32,
};
use binding::{
    spread,
    Binding,
    Place,
    Terms, //
};
use core::ptr::NonNull;
use table::{
    Port,
    PortTable, //
};

/// A socket's claim on a port. Ends when dropped.
pub(crate) struct PortLease {
    net: NonNull<NetState>,
    port: u16,
    place: Place,
}

// SAFETY: The namespace outlives the socket, and that the lease, by the promise that it was
// made with; its table has a lock.
unsafe impl Send for PortLease {}

impl NetState {
    /// A port of the range for ephemeral ones that `suits`.
    fn ephemeral_port(
        &self,
        table: &PortTable,
        suits: impl Fn(Option<&Port>) -> bool,
    ) -> Result<u16> {
        let (low, high) = self.namespace().local_port_range();
        let low = u16::try_from(low).unwrap_or(1).max(1);
        let high = u16::try_from(high).unwrap_or(u16::MAX).max(low);
        let is_reserved = |port| self.namespace().is_reserved(port);
        table.ephemeral((low, high), random_u32(), is_reserved, suits)
    }

    fn lease(&self, port: u16, place: Place) -> PortLease {
        PortLease {
            net: NonNull::from(self),
            port,
            place,
        }
    }

    /// Binds `sock` to `port`, or to an ephemeral one for 0, which is not shared.
    /// EADDRINUSE as TCP says it.
    ///
    /// # Safety
    ///
    /// The lease is dropped before the memory of `sock` goes: the endpoint keeps it.
    pub(crate) unsafe fn bind_port(
        &self,
        sock: &Sk,
        port: u16,
        claim: &Claim,
    ) -> Result<PortLease> {
        let mut table = self.ports.lock();
        let port = if port == 0 {
            self.ephemeral_port(&table, |there| there.is_none())?
        } else if table.conflicts(port, claim, &Terms::of(sock)) {
            return Err(EADDRINUSE);
        } else {
            port
        };
        let binding = Binding {
            sock: NonNull::from(sock),
            dual: claim.dual,
            listening: false,
            chosen: false,
            aside: false,
        };
        let place = table.enter(port, (claim.ip, None), binding)?;
        Ok(self.lease(port, place))
    }

    /// Takes an ephemeral port for a connection of `ip` with `peer`. Others may have
    /// connections on it with other peers, as with TCP. EADDRINUSE if there is none.
    ///
    /// # Safety
    ///
    /// The lease is dropped before the memory of `sock` goes: the endpoint keeps it.
    pub(crate) unsafe fn connect_port(
        &self,
        sock: &Sk,
        ip: Ip,
        peer: (Ip, u16),
    ) -> Result<PortLease> {
        let mut table = self.ports.lock();
        let port = self.ephemeral_port(&table, |there| {
            there.is_none_or(|port| port.fixed == 0 && port.connections(ip, peer).next().is_none())
        })?;
        let binding = Binding {
            sock: NonNull::from(sock),
            dual: false,
            listening: false,
            chosen: true,
            aside: false,
        };
        let place = table.enter(port, (ip, Some(peer)), binding)?;
        Ok(self.lease(port, place))
    }

    /// Adds an accepted connection of `ip` with `peer` to the port of its listener.
    ///
    /// # Safety
    ///
    /// The lease is dropped before the memory of `sock` goes: the endpoint keeps it.
    pub(crate) unsafe fn share_port(
        &self,
        sock: &Sk,
        port: u16,
        ip: Ip,
        peer: (Ip, u16),
    ) -> Result<PortLease> {
        let binding = Binding {
            sock: NonNull::from(sock),
            dual: false,
            listening: false,
            chosen: false,
            aside: false,
        };
        let place = self.ports.lock().enter(port, (ip, Some(peer)), binding)?;
        Ok(self.lease(port, place))
    }

    /// The listener that a connection from `peer` to (`ip`, `port`) is for,
    /// which came in so. Of several that share the port each gets some of the peers.
    pub(crate) fn find_listener(
        &self,
        (ip, port): (Ip, u16),
        arrival: &Arrival,
        peer: (Ip, u16),
    ) -> Option<SkRef> {
        let table = self.ports.lock();
        let fits = || {
            let bound = table.ports.get(&port)?.unconnected();
            let bound = bound.filter(|(_, b)| b.listening);
            Some(bound.filter_map(|(at, b)| b.fit(at.ip, ip, arrival).map(|fit| (fit, b.sock))))
        };
        let best = fits()?.map(|(fit, _)| fit).max()?;
        let group = || fits().map(|found| found.filter(|(fit, _)| *fit == best));
        let turn = spread(peer).checked_rem(group()?.count()).unwrap_or(0);
        let (_, sock) = group()?.nth(turn)?;
        // SAFETY: A bound socket leaves the table before its memory goes, and that needs the
        // lock held here.
        unsafe { SkRef::try_get(sock.as_ptr()) }
    }
}

impl NetState {
    /// The socket that has the connection between (`ip`, `port`), which are its own,
    /// and `peer`, in that VRF, and lets no other take its place.
    pub(crate) fn find_connection(
        &self,
        (ip, port): (Ip, u16),
        peer: (Ip, u16),
        vrf: i32,
    ) -> Option<SkRef> {
        let table = self.ports.lock();
        let (_, found) = table.ports.get(&port)?.connection(ip, peer, vrf)?;
        // SAFETY: A bound socket leaves the table before its memory goes, and that needs the
        // lock held here.
        unsafe { SkRef::try_get(found.sock.as_ptr()) }
    }
}

impl PortLease {
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    fn net(&self) -> &NetState {
        // SAFETY: The socket that the lease was made for keeps its namespace alive, and
        // outlives the lease.
        unsafe { self.net.as_ref() }
    }

    /// Starts to listen; EADDRINUSE when another listener overlaps.
    pub(crate) fn listen(&self) -> Result {
        let mut table = self.net().ports.lock();
        let (ip, dual, terms) = {
            let own = table.find(self.port, &self.place).ok_or(EINVAL)?;
            (self.place.ip, own.dual, own.terms())
        };
        let taken = table.ports.get(&self.port).is_some_and(|port| {
            port.unconnected().any(|(at, b)| {
                *at != self.place
                    && b.listening
                    && b.overlaps(at.ip, ip, dual)
                    && !b.tolerates(&terms)
            })
        });
        if taken {
            return Err(EADDRINUSE);
        }
        if let Some(own) = table.find(self.port, &self.place) {
            own.listening = true;
        }
        Ok(())
    }

    /// Stops to listen, stays bound.
    pub(crate) fn unlisten(&self) {
        if let Some(own) = self.net().ports.lock().find(self.port, &self.place) {
            own.listening = false;
        }
    }

    /// The two ends became known. EADDRNOTAVAIL when another socket has this
    /// very connection.
    pub(crate) fn connect(&mut self, ip: Ip, peer: (Ip, u16)) -> Result {
        let mut table = self.net().ports.lock();
        let port = table.ports.get(&self.port).ok_or(EINVAL)?;
        let own = port.bindings.get(&self.place).ok_or(EINVAL)?;
        if port
            .connection(ip, peer, own.terms().vrf)
            .is_some_and(|(at, _)| at != self.place)
        {
            return Err(EADDRNOTAVAIL);
        }
        let to = Place {
            peer: Some(peer),
            ip,
            id: self.place.id,
        };
        table.rebind(self.port, &self.place, to, false);
        drop(table);
        self.place = to;
        Ok(())
    }

    /// Others may have a connection of the same addresses from now on.
    pub(crate) fn stand_aside(&self) {
        if let Some(own) = self.net().ports.lock().find(self.port, &self.place) {
            own.aside = true;
        }
    }

    /// The connection is gone; the socket is bound to `ip` as before.
    pub(crate) fn disconnect(&mut self, ip: Ip, dual: bool) {
        let to = Place {
            peer: None,
            ip,
            id: self.place.id,
        };
        let mut table = self.net().ports.lock();
        table.rebind(self.port, &self.place, to, dual);
        drop(table);
        self.place = to;
    }
}

impl Drop for PortLease {
    fn drop(&mut self) {
        self.net().ports.lock().leave(self.port, &self.place);
    }
}
