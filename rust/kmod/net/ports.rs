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
    prelude::*,
    sk::{
        Sk,
        SkRef, //
    },
};
use core::ptr::NonNull;
use kernel::rbtree::RBTree;

/// Where a binding is among those of its port. Those without a peer come first: they
/// are few, however many connections there are.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    peer: Option<(Ip, u16)>,
    ip: Ip,
    id: u64,
}

/// One bound socket.
struct Binding {
    sock: NonNull<Sk>,
    /// Takes connections to IPv4 and IPv6 addresses alike.
    dual: bool,
    listening: bool,
    /// connect() has chosen the port, for this peer.
    chosen: bool,
    /// Its program has closed the connection, and another socket may have one of the
    /// same addresses.
    aside: bool,
}

impl Binding {
    /// What it has been bound to, as it is now.
    fn terms(&self) -> Terms {
        // SAFETY: A bound socket leaves the table before its memory goes: by the promise
        // that its lease was made with. It may be at its end, so that no reference is made.
        unsafe { Terms::of_sk(self.sock.as_ptr().cast()) }
    }

    /// Whether both may be bound where they overlap.
    fn tolerates(&self, other: &Terms) -> bool {
        self.terms().tolerate(self.listening, other)
    }

    /// Whether both could be asked for one connection. It is at `own`.
    fn overlaps(&self, own: Ip, ip: Ip, dual: bool) -> bool {
        if Addr::is_any(own) {
            return self.dual || Addr::is_any(ip) && dual || Addr::same_family(own, ip);
        }
        if Addr::is_any(ip) {
            return dual || Addr::same_family(own, ip);
        }
        own == ip
    }

    /// How well a connection to `ip` that came in so fits, higher is better. It is at
    /// `own`.
    fn fit(&self, own: Ip, ip: Ip, arrival: &Arrival) -> Option<u8> {
        self.fit_on(self.terms().device, own, ip, arrival)
    }

    /// The same of one that is bound to the device `bound_to`, or to none.
    fn fit_on(&self, bound_to: i32, own: Ip, ip: Ip, arrival: &Arrival) -> Option<u8> {
        if !arrival.is_for(bound_to) {
            return None;
        }
        let bound = u8::from(bound_to != 0);
        if own == ip {
            return Some(2 + bound);
        }
        let any = Addr::is_any(own) && (self.dual || Addr::same_family(own, ip));
        any.then_some(bound)
    }
}

/// The interface that a connection has come in by.
#[derive(Clone, Copy)]
pub(crate) struct Arrival {
    device: i32,
    /// The VRF that it is part of, or 0.
    vrf: i32,
    /// Who is bound to no interface takes connections of VRFs as well.
    open: bool,
}

impl Arrival {
    pub(crate) fn new(state: &NetState, device: i32) -> Self {
        // SAFETY: The namespace is alive.
        unsafe {
            Self {
                device,
                vrf: ffi::sdp_vrf_of(state.as_ptr(), device),
                open: ffi::sdp_vrfs_are_open(state.as_ptr()),
            }
        }
    }

    /// The VRF, or 0.
    pub(crate) fn vrf(&self) -> i32 {
        self.vrf
    }

    /// The VRF whose ports are meant; 0 for those that all have in common.
    pub(crate) fn space(&self) -> i32 {
        if self.open {
            0
        } else {
            self.vrf
        }
    }

    /// As `inet_bound_dev_eq()`.
    fn is_for(&self, bound_to: i32) -> bool {
        match bound_to {
            0 => self.vrf == 0 || self.open,
            _ => bound_to == self.device || bound_to == self.vrf,
        }
    }
}

/// One port.
struct Port {
    bindings: RBTree<Place, Binding>,
    /// Of these, those whose port connect() has not chosen.
    fixed: u32,
}

impl Port {
    /// Those without a peer.
    fn unconnected(&self) -> impl Iterator<Item = (&Place, &Binding)> {
        let all = self.bindings.iter();
        all.take_while(|(place, _)| place.peer.is_none())
    }

    /// All connections of `ip` with `peer`: there may be closed ones, beside one that
    /// has taken their place.
    fn connections(
        &self,
        ip: Ip,
        peer: (Ip, u16),
    ) -> impl Iterator<Item = (Place, &Binding)> + use<'_> {
        let mut least = Some(Place {
            peer: Some(peer),
            ip,
            id: 0,
        });
        core::iter::from_fn(move || {
            let place = *self.bindings.cursor_lower_bound(&least?)?.current().0;
            if place.peer != Some(peer) || place.ip != ip {
                return None;
            }
            least = place.id.checked_add(1).map(|id| Place { id, ..place });
            Some((place, self.bindings.get(&place)?))
        })
    }

    /// The connection of `ip` with `peer`, in that VRF, that lets no other take its place.
    fn connection(&self, ip: Ip, peer: (Ip, u16), vrf: i32) -> Option<(Place, &Binding)> {
        self.connections(ip, peer)
            .find(|(_, binding)| !binding.aside && binding.terms().vrf == vrf)
    }
}

/// All bindings of a namespace.
pub(crate) struct PortTable {
    ports: RBTree<u16, Port>,
    next_id: u64,
}

// SAFETY: The socket pointers are only used under the lock of the table, and a
// socket leaves the table before its memory goes: by the promise that its lease was made
// with.
unsafe impl Send for PortTable {}

/// A socket's claim on a port. Ends when dropped.
pub(crate) struct PortLease {
    net: NonNull<NetState>,
    port: u16,
    place: Place,
}

// SAFETY: The namespace outlives the socket, and that the lease, by the promise that it was
// made with; its table has a lock.
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
    /// The VRF whose ports it uses, or 0.
    vrf: i32,
}

impl Terms {
    fn of(sock: &Sk) -> Self {
        // SAFETY: The socket is valid as long as it is borrowed.
        unsafe { Self::of_sk(sock.sk()) }
    }

    /// # Safety
    ///
    /// The memory of `sk` is there.
    unsafe fn of_sk(sk: *mut ffi::sock) -> Self {
        // SAFETY: Single words of a socket that is there, by the caller's promise.
        unsafe {
            Self {
                reuse: ffi::sdp_sock_reuse(sk),
                reuseport: ffi::sdp_sock_reuseport(sk),
                user: ffi::sdp_sock_uid(sk),
                device: ffi::sdp_sock_device(sk),
                vrf: ffi::sdp_sock_vrf(sk),
            }
        }
    }

    /// Whether who has these, and listens or not, may be where `other` wants to be, too.
    fn tolerate(&self, listening: bool, other: &Self) -> bool {
        self.is_apart(other)
            || self.reuse && other.reuse && !listening
            || self.shares_port_with(other)
    }

    /// Nothing can come in for both.
    fn is_apart(&self, other: &Self) -> bool {
        self.vrf != other.vrf
            || self.device != 0 && other.device != 0 && self.device != other.device
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
        self.ports.get(&port).is_some_and(|port| {
            let mut all = port.bindings.iter();
            all.any(|(at, b)| b.overlaps(at.ip, claim.ip, claim.dual) && !b.tolerates(terms))
        })
    }

    /// Has a binding on `port`; returns where it is.
    fn enter(
        &mut self,
        port: u16,
        (ip, peer): (Ip, Option<(Ip, u16)>),
        binding: Binding,
    ) -> Result<Place> {
        if self.ports.get(&port).is_none() {
            let empty = Port {
                bindings: RBTree::new(),
                fixed: 0,
            };
            self.ports.try_create_and_insert(port, empty, GFP_KERNEL)?;
        }
        let id = self.next_id;
        self.next_id = id.wrapping_add(1);
        let place = Place { peer, ip, id };
        if let Some(bound) = self.ports.get_mut(&port) {
            let fixed = u32::from(!binding.chosen);
            let entered = bound
                .bindings
                .try_create_and_insert(place, binding, GFP_KERNEL);
            if let Err(e) = entered {
                if bound.bindings.is_empty() {
                    self.ports.remove(&port);
                }
                return Err(e);
            }
            bound.fixed = bound.fixed.saturating_add(fixed);
        }
        Ok(place)
    }

    /// Ends a binding.
    fn leave(&mut self, port: u16, place: &Place) {
        let Some(bound) = self.ports.get_mut(&port) else {
            return;
        };
        if let Some(gone) = bound.bindings.remove(place) {
            bound.fixed = bound.fixed.saturating_sub(u32::from(!gone.chosen));
        }
        if bound.bindings.is_empty() {
            self.ports.remove(&port);
        }
    }

    fn find(&mut self, port: u16, place: &Place) -> Option<&mut Binding> {
        self.ports.get_mut(&port)?.bindings.get_mut(place)
    }

    /// Gives a binding another place, for which no memory is needed.
    fn rebind(&mut self, port: u16, from: &Place, to: Place, dual: bool) {
        let bindings = match self.ports.get_mut(&port) {
            Some(port) => &mut port.bindings,
            None => return,
        };
        let Some(sock) = bindings.get(from).map(|b| (b.sock, b.listening, b.chosen)) else {
            return;
        };
        let (sock, listening, chosen) = sock;
        if let Some(node) = bindings.remove_node(from) {
            let binding = Binding {
                sock,
                dual,
                listening,
                chosen,
                aside: false,
            };
            bindings.insert(node.into_reservation().into_node(to, binding));
        }
    }

    /// The first port of `low` to `high` that `suits` and is not reserved; begins at the
    /// port so far from `low`, and comes round.
    fn ephemeral(
        &self,
        (low, high): (u16, u16),
        from: u32,
        is_reserved: impl Fn(u16) -> bool,
        suits: impl Fn(Option<&Port>) -> bool,
    ) -> Result<u16> {
        let low = u32::from(low);
        let count = u32::from(high).saturating_sub(low).saturating_add(1);
        let start = from.checked_rem(count).unwrap_or(0);
        for i in 0..count {
            let at = start.wrapping_add(i).checked_rem(count).unwrap_or(0);
            let Ok(port) = u16::try_from(low.wrapping_add(at)) else {
                continue;
            };
            if !is_reserved(port) && suits(self.ports.get(&port)) {
                return Ok(port);
            }
        }
        Err(EADDRINUSE)
    }
}

impl NetState {
    /// A port of the range for ephemeral ones that `suits`.
    fn ephemeral_port(
        &self,
        table: &PortTable,
        suits: impl Fn(Option<&Port>) -> bool,
    ) -> Result<u16> {
        let (mut low, mut high) = (0, 0);
        // SAFETY: The namespace is alive, both results are ours.
        unsafe { ffi::sdp_local_port_range(self.as_ptr(), &mut low, &mut high) };
        let low = u16::try_from(low).unwrap_or(1).max(1);
        let high = u16::try_from(high).unwrap_or(u16::MAX).max(low);
        // SAFETY: A plain number.
        let from = unsafe { ffi::sdp_random_u32() };
        // SAFETY: The namespace is alive.
        let is_reserved = |port| unsafe { ffi::sdp_port_is_reserved(self.as_ptr(), port) };
        table.ephemeral((low, high), from, is_reserved, suits)
    }

    fn lease(&self, port: u16, place: Place) -> PortLease {
        PortLease {
            net: NonNull::from(self),
            port,
            place,
        }
    }

    /// Binds `sock` to `port`, or to an ephemeral one for 0, which is shared with nobody.
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

#[kunit_tests(sdp_ports)]
mod tests {
    use super::*;

    const ANY4: Ip = Ip::V4([0; 4]);
    const ANY6: Ip = Ip::V6([0; 16]);
    const ONE: Ip = Ip::V4([10, 0, 0, 1]);
    const TWO: Ip = Ip::V4([10, 0, 0, 2]);
    const SIX: Ip = Ip::V6([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9]);
    const PORT: u16 = 7000;
    const BY: Arrival = Arrival {
        device: 3,
        vrf: 0,
        open: false,
    };

    /// One of no socket, for what looks at none.
    fn binding(dual: bool, chosen: bool) -> Binding {
        Binding {
            sock: NonNull::dangling(),
            dual,
            listening: false,
            chosen,
            aside: false,
        }
    }

    fn terms(reuse: bool, reuseport: bool, user: u32, device: i32) -> Terms {
        Terms {
            reuse,
            reuseport,
            user,
            device,
            vrf: 0,
        }
    }

    fn port(table: &PortTable) -> Option<(usize, u32)> {
        let port = table.ports.get(&PORT)?;
        Some((port.bindings.iter().count(), port.fixed))
    }

    #[test]
    fn addresses_overlap_where_one_connection_could_be_for_both() {
        let alone = binding(false, false);
        let dual = binding(true, false);
        for (own, ip, other_is_dual, overlaps) in [
            (ONE, ONE, false, true),
            (ONE, TWO, false, false),
            (ONE, SIX, false, false),
            (ANY4, ONE, false, true),
            (ONE, ANY4, false, true),
            (ANY4, SIX, false, false),
            (ANY6, ONE, false, false),
            (ANY6, ANY4, false, false),
            (ONE, ANY6, false, false),
            (ONE, ANY6, true, true),
            (ANY4, ANY6, true, true),
            (SIX, ANY6, false, true),
        ] {
            assert!(alone.overlaps(own, ip, other_is_dual) == overlaps);
        }
        for ip in [ONE, SIX, ANY4, ANY6] {
            assert!(dual.overlaps(ANY6, ip, false));
        }
    }

    #[test]
    fn a_port_is_shared_on_the_terms_of_both() {
        let plain = terms(false, false, 1, 0);
        let reuse = terms(true, false, 1, 0);
        let group = terms(false, true, 1, 0);
        assert!(!plain.tolerate(false, &plain));
        assert!(!plain.tolerate(false, &reuse) && !reuse.tolerate(false, &plain));
        // SO_REUSEADDR, as long as nobody listens.
        assert!(reuse.tolerate(false, &reuse) && !reuse.tolerate(true, &reuse));
        // SO_REUSEPORT, of one user.
        assert!(group.tolerate(true, &group));
        assert!(!group.tolerate(false, &reuse) && !group.tolerate(false, &plain));
        assert!(!group.tolerate(false, &terms(false, true, 2, 0)));
        // On different devices nothing comes in for both.
        let (here, there) = (terms(false, false, 1, 3), terms(false, false, 1, 4));
        assert!(here.tolerate(true, &there));
        assert!(!here.tolerate(true, &here) && !here.tolerate(true, &plain));
    }

    #[test]
    fn the_nearest_listener_fits_best() {
        let (alone, dual) = (binding(false, false), binding(true, false));
        assert!(alone.fit_on(0, ANY4, ONE, &BY) == Some(0));
        assert!(alone.fit_on(3, ANY4, ONE, &BY) == Some(1));
        assert!(alone.fit_on(0, ONE, ONE, &BY) == Some(2));
        assert!(alone.fit_on(3, ONE, ONE, &BY) == Some(3));
        assert!(alone.fit_on(4, ONE, ONE, &BY).is_none());
        assert!(alone.fit_on(0, TWO, ONE, &BY).is_none());
        assert!(alone.fit_on(0, ANY6, ONE, &BY).is_none());
        assert!(dual.fit_on(0, ANY6, ONE, &BY) == Some(0));
    }

    #[test]
    fn a_port_is_there_as_long_as_somebody_has_it() -> Result {
        let mut table = PortTable::new();
        let bound = table.enter(PORT, (ANY4, None), binding(false, false))?;
        assert!(port(&table) == Some((1, 1)));
        let chosen = table.enter(PORT, (ONE, Some((TWO, 1))), binding(false, true))?;
        assert!(port(&table) == Some((2, 1)) && bound != chosen);
        table.leave(PORT, &bound);
        assert!(port(&table) == Some((1, 0)));
        // Who is not there changes nothing.
        table.leave(PORT, &bound);
        table.leave(PORT + 1, &chosen);
        assert!(port(&table) == Some((1, 0)));
        table.leave(PORT, &chosen);
        assert!(port(&table).is_none());
        Ok(())
    }

    #[test]
    fn a_connection_is_found_by_both_its_ends() -> Result {
        let mut table = PortTable::new();
        let mut places = KVec::new();
        for peer in 1..=20u16 {
            let place = table.enter(PORT, (ONE, Some((TWO, peer))), binding(false, true))?;
            places.push(place, GFP_KERNEL)?;
        }
        table.enter(PORT, (ANY4, None), binding(false, false))?;
        table.enter(PORT, (ONE, None), binding(false, false))?;
        let port = table.ports.get(&PORT).ok_or(EINVAL)?;
        for (peer, place) in (1..=20).zip(&places) {
            let mut found = port.connections(ONE, (TWO, peer));
            assert!(found.next().is_some_and(|(at, _)| at == *place) && found.next().is_none());
        }
        for (ip, peer) in [(ONE, (TWO, 21)), (ONE, (SIX, 1)), (SIX, (TWO, 1))] {
            assert!(port.connections(ip, peer).next().is_none());
        }
        // Only those are looked at where a port is bound.
        assert!(port.unconnected().count() == 2);
        Ok(())
    }

    #[test]
    fn a_binding_moves_to_its_peer_and_back() -> Result {
        let mut table = PortTable::new();
        let from = table.enter(PORT, (ANY6, None), binding(true, false))?;
        if let Some(own) = table.find(PORT, &from) {
            own.listening = true;
        }
        let to = Place {
            peer: Some((TWO, 9)),
            ip: ONE,
            id: from.id,
        };
        table.rebind(PORT, &from, to, false);
        assert!(table.find(PORT, &from).is_none() && port(&table) == Some((1, 1)));
        let moved = table.find(PORT, &to).ok_or(EINVAL)?;
        assert!(moved.listening && !moved.dual && !moved.chosen);
        table.rebind(PORT, &to, from, true);
        assert!(table.find(PORT, &from).is_some_and(|own| own.dual));
        // Nobody is where it came from, and nobody appears.
        table.rebind(PORT, &to, from, false);
        assert!(port(&table) == Some((1, 1)));
        Ok(())
    }

    #[test]
    fn a_free_port_is_looked_for_once_round_the_range() -> Result {
        let mut table = PortTable::new();
        let free = |there: Option<&Port>| there.is_none();
        let none = |_| false;
        assert!(table.ephemeral((7000, 7003), 2, none, free) == Ok(7002));
        assert!(table.ephemeral((7000, 7003), u32::MAX, none, free) == Ok(7003));
        for taken in [7002, 7003, 7000] {
            table.enter(taken, (ANY4, None), binding(false, false))?;
        }
        assert!(table.ephemeral((7000, 7003), 2, none, free) == Ok(7001));
        let reserved = |port| port == 7001;
        assert!(table.ephemeral((7000, 7003), 2, reserved, free) == Err(EADDRINUSE));
        assert!(table.ephemeral((7000, 7003), 2, reserved, |_| true) == Ok(7002));
        assert!(table.ephemeral((u16::MAX, u16::MAX), 5, none, free) == Ok(u16::MAX));
        assert!(table.ephemeral((7000, 7000), 5, none, free) == Err(EADDRINUSE));
        Ok(())
    }

    #[test]
    fn peers_are_spread_over_listeners() {
        let mut counts = [0u32; 4];
        for port in 0..4000u16 {
            assert!(spread((TWO, port)) == spread((TWO, port)));
            if let Some(count) = counts.get_mut(spread((TWO, port)) % 4) {
                *count += 1;
            }
        }
        assert!(counts.iter().all(|count| *count > 800));
    }
}
