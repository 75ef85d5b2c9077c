// SPDX-License-Identifier: MIT
//! Addresses: mostly the addresses of this program's sockets, so that they connect to each other.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use sdp_uapi::{AF_INET6_SDP, AF_INET_SDP};

use crate::chance::Chance;

/// Few ports, so that they are reused while state of their last use is left.
const PORTS: u16 = 6;
const FIRST_PORT: u16 = 7700;

/// The addresses of both hosts, the wildcards, and unused ones.
const ADDRESSES: [IpAddr; 8] = [
    IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)),
    IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2)),
    IpAddr::V4(Ipv4Addr::LOCALHOST),
    IpAddr::V4(Ipv4Addr::UNSPECIFIED),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2)),
    IpAddr::V6(Ipv6Addr::LOCALHOST),
    IpAddr::V6(Ipv6Addr::UNSPECIFIED),
];

/// The addresses at which a listener of each host can be reached.
pub const HOSTS: [[IpAddr; 2]; 2] = [[ADDRESSES[0], ADDRESSES[4]], [ADDRESSES[1], ADDRESSES[5]]];

/// The name of an address and a port.
pub fn whole(address: IpAddr, port: u16) -> Vec<u8> {
    let (family, len): (u16, _) = if address.is_ipv4() { (2, 16) } else { (10, 28) };
    let mut bytes = vec![0; len];
    bytes[..2].copy_from_slice(&family.to_ne_bytes());
    bytes[2..4].copy_from_slice(&port.to_be_bytes());
    match address {
        IpAddr::V4(v4) => bytes[4..8].copy_from_slice(&v4.octets()),
        IpAddr::V6(v6) => bytes[8..24].copy_from_slice(&v6.octets()),
    }
    bytes
}

/// The bytes of an address, and its length argument.
pub fn name(chance: &mut Chance) -> (Vec<u8>, u32) {
    let mut address = chance.of(&ADDRESSES);
    if chance.one_in(16) {
        // A mapped IPv4 address.
        address = IpAddr::V6(Ipv4Addr::new(10, 0, 0, 1 + chance.below(2) as u8).to_ipv6_mapped());
    }
    let port = if chance.one_in(12) {
        chance.word() as u16
    } else {
        FIRST_PORT + chance.below(PORTS.into()) as u16
    };
    let mut bytes = whole(address, port);
    let mut family = u16::from_ne_bytes([bytes[0], bytes[1]]);
    match chance.below(30) {
        0 => family = 0,
        1 => family = AF_INET_SDP as u16,
        2 => family = AF_INET6_SDP as u16,
        3 => family = chance.word() as u16,
        4 => bytes.iter_mut().for_each(|byte| *byte = chance.word() as u8),
        5 => bytes.resize(128, 0xff),
        _ => {}
    }
    bytes[..2].copy_from_slice(&family.to_ne_bytes());
    let len = bytes.len() as u32;
    let told = if chance.one_in(20) { chance.number() as u32 } else { len };
    (bytes, told)
}
