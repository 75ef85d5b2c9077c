// SPDX-License-Identifier: MIT

//! The interfaces of a network namespace, as rtnetlink(7) tells them.

use std::collections::HashMap;
use std::io;

use netlink_packet_core::{
    parse_i32, parse_string, parse_u32, DecodeError, ErrorContext, NetlinkDeserializable,
    NetlinkHeader, NlasIterator,
};
use sdp_netlink::protocols::NETLINK_ROUTE;
use sdp_netlink::{ask, number, Request, Socket, SocketAddr, NLM_F_ACK, NLM_F_DUMP};

const RTM_NEWLINK: u16 = 16;
const RTM_GETLINK: u16 = 18;
/// `struct ifinfomsg`.
const HEAD_LEN: usize = 16;
const IFLA_IFNAME: u16 = 3;
const IFLA_LINK: u16 = 5;
const IFLA_MASTER: u16 = 10;
const IFLA_LINKINFO: u16 = 18;
const IFLA_INFO_KIND: u16 = 1;
const IFLA_EXT_MASK: u16 = 29;
const RTEXT_FILTER_SKIP_STATS: u32 = 1 << 3;
const IFLA_LINK_NETNSID: u16 = 37;
const RTNLGRP_LINK: u32 = 1;

/// An interface.
#[derive(Default, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) index: u32,
    pub(crate) name: String,
    kind: String,
    /// The number of its bridge, if it is a port.
    master: Option<u32>,
    /// The other end of a veth pair.
    peer: Option<u32>,
    /// The namespace of the other end, if it is another one than the interface's.
    peer_namespace: Option<i32>,
}

/// An interface in another namespace: numbers, because a container can change names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// The number that this namespace has for the other one.
    pub(crate) namespace: i32,
    /// The number of the interface there.
    pub(crate) interface: u32,
}

/// The ports of a bridge that are ends of veth pairs, with their other ends.
pub(crate) type Ports = HashMap<u32, Place>;

fn kind_of(information: &[u8]) -> Result<String, DecodeError> {
    for attribute in NlasIterator::new(information) {
        let attribute = attribute?;
        if attribute.kind() == IFLA_INFO_KIND {
            return parse_string(attribute.value());
        }
    }
    Ok(String::new())
}

impl NetlinkDeserializable for Link {
    type Error = DecodeError;

    fn deserialize(header: &NetlinkHeader, payload: &[u8]) -> Result<Self, DecodeError> {
        if header.message_type != RTM_NEWLINK {
            return Err(format!("a message of kind {}", header.message_type).into());
        }
        let Some((head, attributes)) = payload.split_at_checked(HEAD_LEN) else {
            return Err("an interface without its head".into());
        };
        let mut link = Self {
            index: parse_u32(head.get(4..8).unwrap_or_default())?,
            ..Self::default()
        };
        for attribute in NlasIterator::new(attributes) {
            let attribute = attribute.context("an attribute of an interface")?;
            let value = attribute.value();
            match attribute.kind() {
                IFLA_IFNAME => link.name = parse_string(value)?,
                IFLA_LINK => link.peer = Some(parse_u32(value)?),
                IFLA_MASTER => link.master = Some(parse_u32(value)?),
                IFLA_LINK_NETNSID => link.peer_namespace = Some(parse_i32(value)?),
                IFLA_LINKINFO => link.kind = kind_of(value)?,
                _ => {}
            }
        }
        Ok(link)
    }
}

impl Link {
    pub(crate) fn is_veth_with(&self, peer: u32) -> bool {
        self.kind == "veth" && self.peer == Some(peer)
    }

    /// The other end of a veth pair, if it is in another namespace.
    fn other_end(&self) -> Option<Place> {
        (self.kind == "veth").then_some(())?;
        Some(Place {
            // A number below 0 is of a namespace that is about to end.
            namespace: self.peer_namespace.filter(|number| *number >= 0)?,
            interface: self.peer?,
        })
    }
}

fn get(index: u32, flags: u16, show: &mut impl FnMut(Link) -> io::Result<()>) -> io::Result<()> {
    let [a, b, c, d] = index.to_ne_bytes();
    let request = Request {
        kind: RTM_GETLINK,
        flags,
        head: &[0, 0, 0, 0, a, b, c, d, 0, 0, 0, 0, 0, 0, 0, 0],
        attributes: &[number(IFLA_EXT_MASK, RTEXT_FILTER_SKIP_STATS)],
    };
    ask(NETLINK_ROUTE, request, show)
}

/// The interface with this number in the namespace of the calling thread.
pub(crate) fn by_index(index: u32) -> io::Result<Link> {
    let mut found = None;
    get(index, NLM_F_ACK, &mut |link| {
        found = Some(link);
        Ok(())
    })?;
    found.ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// The ports of the bridge, or None if there is no such bridge. `Interrupted`: ask again.
pub(crate) fn ports(bridge: &str) -> io::Result<Option<Ports>> {
    let mut links = Vec::new();
    get(0, NLM_F_DUMP, &mut |link| {
        links.push(link);
        Ok(())
    })?;
    Ok(ports_among(&links, bridge))
}

fn ports_among(links: &[Link], bridge: &str) -> Option<Ports> {
    let is_it = |link: &&Link| link.kind == "bridge" && link.name == bridge;
    let bridge = links.iter().find(is_it)?.index;
    let mine = links.iter().filter(|link| link.master == Some(bridge));
    Some(
        mine.filter_map(|link| Some((link.index, link.other_end()?)))
            .collect(),
    )
}

/// A socket that becomes readable when an interface of the namespace changes.
pub(crate) fn changes() -> io::Result<Socket> {
    let mut socket = Socket::new(NETLINK_ROUTE)?;
    socket.bind(&SocketAddr::new(0, 0))?;
    socket.add_membership(RTNLGRP_LINK)?;
    socket.set_non_blocking(true)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let length = u16::try_from(value.len() + 4).unwrap_or(0);
        let mut bytes = [length.to_ne_bytes(), kind.to_ne_bytes()].concat();
        bytes.extend(value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    fn parsed(payload: &[u8]) -> Result<Link, DecodeError> {
        let mut header = NetlinkHeader::default();
        header.message_type = RTM_NEWLINK;
        Link::deserialize(&header, payload)
    }

    fn link(index: u8, kind: &str, more: &[Vec<u8>]) -> Link {
        let head = [0, 0, 1, 0, index, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let mut payload = head.to_vec();
        payload.extend(attribute(
            IFLA_IFNAME,
            format!("{kind}{index}\0").as_bytes(),
        ));
        let kind = attribute(IFLA_INFO_KIND, format!("{kind}\0").as_bytes());
        payload.extend(attribute(IFLA_LINKINFO, &kind));
        payload.extend(more.concat());
        parsed(&payload).unwrap_or_default()
    }

    fn word(kind: u16, value: i32) -> Vec<u8> {
        attribute(kind, &value.to_ne_bytes())
    }

    #[test]
    fn a_port_is_a_veth_with_an_end_elsewhere() {
        let (on, end) = (word(IFLA_MASTER, 3), word(IFLA_LINK, 2));
        let elsewhere = |number| word(IFLA_LINK_NETNSID, number);
        let links = [
            link(3, "bridge", &[]),
            link(4, "bridge", &[]),
            link(7, "veth", &[on.clone(), end.clone(), elsewhere(5)]),
            // Both ends here; no end any more; on another bridge; on none; of another kind.
            link(8, "veth", &[on.clone(), end.clone()]),
            link(9, "veth", &[on.clone(), end.clone(), elsewhere(-1)]),
            link(
                10,
                "veth",
                &[word(IFLA_MASTER, 4), end.clone(), elsewhere(5)],
            ),
            link(11, "veth", &[end.clone(), elsewhere(5)]),
            link(12, "vxlan", &[on, end, elsewhere(5)]),
        ];
        let place = Place {
            namespace: 5,
            interface: 2,
        };
        assert_eq!(
            ports_among(&links, "bridge3"),
            Some(Ports::from([(7, place)]))
        );
        assert_eq!(ports_among(&links, "bridge5"), None);
        assert_eq!(ports_among(&links, "veth7"), None);
    }

    #[test]
    fn a_short_message_is_an_error() {
        let whole = [vec![0; HEAD_LEN], word(IFLA_LINK, 2)].concat();
        assert!(parsed(&whole).is_ok());
        for cut in [0, 4, 15, 17, 19, 23] {
            assert!(
                parsed(whole.get(..cut).unwrap_or_default()).is_err(),
                "{cut}"
            );
        }
    }
}
