// SPDX-License-Identifier: GPL-2.0

//! The table of a namespace's ports, and of the bindings of each.
//!
//! Locks: under [`NetState::ports`](crate::netns::NetState::ports).

use super::binding::{
    Binding,
    Claim,
    Place,
    Terms, //
};
use crate::{
    engine::types::Ip,
    prelude::*, //
};
use kernel::rbtree::RBTree;

/// One port.
pub(super) struct Port {
    pub(super) bindings: RBTree<Place, Binding>,
    /// The ones of these with a port that connect() has not chosen.
    pub(super) fixed: u32,
}

impl Port {
    /// Those without a peer.
    pub(super) fn unconnected(&self) -> impl Iterator<Item = (&Place, &Binding)> {
        let all = self.bindings.iter();
        all.take_while(|(place, _)| place.peer.is_none())
    }

    /// All connections of `ip` with `peer`: there may be closed ones, beside one that
    /// has taken their place.
    pub(super) fn connections(
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
    pub(super) fn connection(
        &self,
        ip: Ip,
        peer: (Ip, u16),
        vrf: i32,
    ) -> Option<(Place, &Binding)> {
        self.connections(ip, peer)
            .find(|(_, binding)| !binding.aside && binding.terms().vrf == vrf)
    }
}

/// All bindings of a namespace.
pub(crate) struct PortTable {
    pub(super) ports: RBTree<u16, Port>,
    next_id: u64,
}

// SAFETY: The socket pointers are only used under the lock of the table, and a
// socket leaves the table before its memory goes: by the promise that its lease was made
// with.
unsafe impl Send for PortTable {}

impl PortTable {
    pub(crate) fn new() -> Self {
        Self {
            ports: RBTree::new(),
            next_id: 1,
        }
    }

    pub(super) fn conflicts(&self, port: u16, claim: &Claim, terms: &Terms) -> bool {
        self.ports.get(&port).is_some_and(|port| {
            let mut all = port.bindings.iter();
            all.any(|(at, b)| b.overlaps(at.ip, claim.ip, claim.dual) && !b.tolerates(terms))
        })
    }

    /// Has a binding on `port`; returns where it is.
    pub(super) fn enter(
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
    pub(super) fn leave(&mut self, port: u16, place: &Place) {
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

    pub(super) fn find(&mut self, port: u16, place: &Place) -> Option<&mut Binding> {
        self.ports.get_mut(&port)?.bindings.get_mut(place)
    }

    /// Gives a binding another place, for which no memory is needed.
    pub(super) fn rebind(&mut self, port: u16, from: &Place, to: Place, dual: bool) {
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
    pub(super) fn ephemeral(
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

#[kunit_tests(sdp_ports)]
mod tests {
    use super::*;
    use crate::netns::ports::binding::tests::{
        binding,
        ANY4,
        ANY6,
        ONE,
        SIX,
        TWO, //
    };

    const PORT: u16 = 7000;

    fn port(table: &PortTable) -> Option<(usize, u32)> {
        let port = table.ports.get(&PORT)?;
        Some((port.bindings.iter().count(), port.fixed))
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
        // A binding that is not there changes nothing.
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
        // No binding is where it came from, and none appears.
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
}
