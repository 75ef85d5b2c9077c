// SPDX-License-Identifier: GPL-2.0

//! What a socket is bound to: which others may be bound beside it, and which connections
//! are for it.
//!
//! Locks: under [`NetState::ports`](crate::netns::NetState::ports).

use crate::{
    addr::Addr,
    engine::types::Ip,
    net::{
        namespace::Namespace,
        sk::Sk, //
    },
    prelude::*, //
};
use core::ptr::NonNull;

/// Where a binding is among the bindings of its port. Bindings without a peer come first: they
/// are few, however many connections there are.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) peer: Option<(Ip, u16)>,
    pub(super) ip: Ip,
    pub(super) id: u64,
}

/// One bound socket.
pub(super) struct Binding {
    pub(super) sock: NonNull<Sk>,
    /// Takes connections to IPv4 and IPv6 addresses alike.
    pub(super) dual: bool,
    pub(super) listening: bool,
    /// connect() has chosen the port, for this peer.
    pub(super) chosen: bool,
    /// Its program has closed the connection, and another socket may have one of the
    /// same addresses.
    pub(super) aside: bool,
}

impl Binding {
    /// The terms of its binding, as they are now.
    pub(super) fn terms(&self) -> Terms {
        // SAFETY: A bound socket leaves the table before its memory goes: by the promise
        // that its lease was made with. It may be at its end, and nothing counts a reference.
        Terms::of(unsafe { self.sock.as_ref() })
    }

    /// Whether both may be bound where they overlap.
    pub(super) fn tolerates(&self, other: &Terms) -> bool {
        self.terms().tolerate(self.listening, other)
    }

    /// Whether both could be asked for one connection. It is at `own`.
    pub(super) fn overlaps(&self, own: Ip, ip: Ip, dual: bool) -> bool {
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
    pub(super) fn fit(&self, own: Ip, ip: Ip, arrival: &Arrival) -> Option<u8> {
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
    /// A socket without SO_BINDTODEVICE also accepts connections from VRFs.
    open: bool,
}

impl Arrival {
    pub(crate) fn new(namespace: &Namespace, device: i32) -> Self {
        Self {
            device,
            vrf: namespace.vrf_of(device),
            open: namespace.serves_vrfs(),
        }
    }

    /// The VRF, or 0.
    pub(crate) fn vrf(&self) -> i32 {
        self.vrf
    }

    /// The VRF with these ports; 0 for the ports that all have in common.
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

/// The address and port that a socket wants.
pub(crate) struct Claim {
    pub(crate) ip: Ip,
    pub(crate) dual: bool,
}

/// The terms that say whether two sockets may have one port.
pub(super) struct Terms {
    /// SO_REUSEADDR.
    reuse: bool,
    /// SO_REUSEPORT.
    reuseport: bool,
    user: u32,
    /// SO_BINDTODEVICE, or 0.
    device: i32,
    /// The VRF with its ports, or 0.
    pub(super) vrf: i32,
}

impl Terms {
    pub(super) fn of(sock: &Sk) -> Self {
        Self {
            reuse: sock.reuse(),
            reuseport: sock.reuseport(),
            // Not as the namespace shows it: all users that it does not map look alike there.
            user: sock.kuid(),
            device: sock.device(),
            vrf: sock.vrf(),
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

/// A number of a peer that is spread evenly: FNV-1a, its halves folded.
pub(super) fn spread((ip, port): (Ip, u16)) -> usize {
    let step = |hash: u32, byte: &u8| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
    let hash = match &ip {
        Ip::V4(bytes) => bytes.iter().fold(0x811c_9dc5, step),
        Ip::V6(bytes) => bytes.iter().fold(0x811c_9dc5, step),
    };
    let hash = port.to_be_bytes().iter().fold(hash, step);
    (hash ^ hash >> 16) as usize
}

#[kunit_tests(sdp_bindings)]
pub(super) mod tests {
    use super::*;

    pub(in crate::netns::ports) const ANY4: Ip = Ip::V4([0; 4]);
    pub(in crate::netns::ports) const ANY6: Ip = Ip::V6([0; 16]);
    pub(in crate::netns::ports) const ONE: Ip = Ip::V4([10, 0, 0, 1]);
    pub(in crate::netns::ports) const TWO: Ip = Ip::V4([10, 0, 0, 2]);
    pub(in crate::netns::ports) const SIX: Ip =
        Ip::V6([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9]);

    const BY: Arrival = Arrival {
        device: 3,
        vrf: 0,
        open: false,
    };

    /// One of no socket, for what looks at none.
    pub(in crate::netns::ports) fn binding(dual: bool, chosen: bool) -> Binding {
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
        // SO_REUSEADDR, as long as no socket listens.
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
