// SPDX-License-Identifier: MIT

//! RDMA devices, by the netlink interface that rdma(8) uses. Each call concerns the network namespace of
//! the calling thread. In the shared mode of namespaces all devices are in each namespace. In the exclusive
//! mode a device is in the namespace of its interface alone.

use std::io::{self, ErrorKind};

use netlink_packet_core::{
    parse_string, parse_u32, parse_u8, DecodeError, DefaultNla, ErrorContext,
    NetlinkDeserializable, NetlinkHeader, NlasIterator,
};
use sdp_netlink::protocols::NETLINK_RDMA;
use sdp_netlink::{ask, number, text, Request, NLM_F_ACK, NLM_F_DUMP};

use crate::namespace::{self, Namespace};

/// `RDMA_NL_GET_TYPE` of `RDMA_NL_NLDEV`, to which a command is added.
const NLDEV: u16 = 5 << 10;
const GET: u16 = NLDEV + 1;
const NEWLINK: u16 = NLDEV + 3;
const DELLINK: u16 = NLDEV + 4;
const PORT_GET: u16 = NLDEV + 5;
const SYS_GET: u16 = NLDEV + 6;

const DEV_INDEX: u16 = 1;
const DEV_NAME: u16 = 2;
const PORT_INDEX: u16 = 3;
const NDEV_INDEX: u16 = 50;
const NDEV_NAME: u16 = 51;
const LINK_TYPE: u16 = 65;
const SYS_NETNS_MODE: u16 = 66;

/// The answer of the kernel about a device, its port, or the mode of namespaces.
#[derive(Default, Debug, PartialEq, Eq)]
pub(crate) struct Device {
    pub(crate) index: u32,
    pub(crate) name: String,
    /// The number of the port's interface, if that is in the namespace that asks.
    interface: Option<u32>,
    is_shared: bool,
}

impl NetlinkDeserializable for Device {
    type Error = DecodeError;

    fn deserialize(_: &NetlinkHeader, payload: &[u8]) -> Result<Self, DecodeError> {
        let mut device = Self::default();
        for attribute in NlasIterator::new(payload) {
            let attribute = attribute.context("an attribute of an RDMA device")?;
            let value = attribute.value();
            match attribute.kind() {
                DEV_INDEX => device.index = parse_u32(value)?,
                DEV_NAME => device.name = parse_string(value)?,
                NDEV_INDEX => device.interface = Some(parse_u32(value)?),
                SYS_NETNS_MODE => device.is_shared = parse_u8(value)? != 0,
                _ => {}
            }
        }
        Ok(device)
    }
}

fn request(kind: u16, flags: u16, attributes: &[DefaultNla]) -> io::Result<Vec<Device>> {
    let mut found = Vec::new();
    let question = Request {
        kind,
        flags,
        head: &[],
        attributes,
    };
    ask(NETLINK_RDMA, question, &mut |device| {
        found.push(device);
        Ok(())
    })?;
    Ok(found)
}

/// Whether all namespaces see all devices; see rdma-system(8).
fn are_shared() -> io::Result<bool> {
    let answers = request(SYS_GET, NLM_F_ACK, &[])?;
    Ok(answers.iter().any(|answer| answer.is_shared))
}

fn all() -> io::Result<Vec<Device>> {
    request(GET, NLM_F_DUMP, &[])
}

/// All devices of the machine, each with a namespace that it is in.
pub(crate) fn everywhere() -> io::Result<Vec<(Namespace, Device)>> {
    let mut found = Vec::new();
    let is_one_enough = are_shared()?;
    for namespace in namespace::all()? {
        match namespace::inside(namespace, all) {
            Ok(devices) => found.extend(devices.into_iter().map(|device| (namespace, device))),
            // It has ended meanwhile.
            Err(e) if e.kind() == ErrorKind::NotFound => continue,
            Err(e) => return Err(e),
        }
        if is_one_enough {
            break;
        }
    }
    Ok(found)
}

/// The number of the device with this name.
pub(crate) fn by_name(name: &str) -> io::Result<Option<u32>> {
    let found = all()?.into_iter().find(|device| device.name == name);
    Ok(found.map(|device| device.index))
}

/// The number of the device's interface: None if it is not in this namespace, or the device is gone.
pub(crate) fn interface_of(index: u32) -> io::Result<Option<u32>> {
    let port = [number(DEV_INDEX, index), number(PORT_INDEX, 1)];
    match request(PORT_GET, NLM_F_ACK, &port) {
        Ok(answers) => Ok(answers.iter().find_map(|port| port.interface)),
        Err(e) if e.kind() == ErrorKind::InvalidInput => Ok(None),
        Err(e) => Err(e),
    }
}

/// Whether the device with this number is in the namespace.
pub(crate) fn is_in(namespace: Namespace, index: u32) -> io::Result<bool> {
    let ask = || request(GET, NLM_F_ACK, &[number(DEV_INDEX, index)]);
    match namespace::inside(namespace, ask) {
        Ok(_) => Ok(true),
        Err(e) if is_gone(&e) => Ok(false),
        Err(e) => Err(e),
    }
}

/// The device or its namespace is gone. The kernel removes the devices of a namespace that ends.
fn is_gone(error: &io::Error) -> bool {
    [ErrorKind::InvalidInput, ErrorKind::NotFound].contains(&error.kind())
}

/// Makes an rlo device on the interface with this name. EEXIST: the interface has one. ENFILE: another
/// device has the name.
pub(crate) fn add(name: &str, interface: &str) -> io::Result<()> {
    let device = [
        text(DEV_NAME, name),
        text(LINK_TYPE, "rlo"),
        text(NDEV_NAME, interface),
    ];
    request(NEWLINK, NLM_F_ACK, &device).map(drop)
}

/// Removes a device of this namespace, and waits until its users have let go of it. A device that is
/// gone is no error.
pub(crate) fn remove(index: u32) -> io::Result<()> {
    match request(DELLINK, NLM_F_ACK, &[number(DEV_INDEX, index)]) {
        Err(e) if !is_gone(&e) => Err(e),
        _ => Ok(()),
    }
}

/// The same inside a namespace, which may have ended.
pub(crate) fn remove_in(namespace: Namespace, index: u32) -> io::Result<()> {
    match namespace::inside(namespace, || remove(index)) {
        Err(e) if !is_gone(&e) => Err(e),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_read() {
        let mut payload = Vec::new();
        for (kind, value) in [(DEV_INDEX, &[4, 0, 0, 0][..]), (DEV_NAME, b"rlo-b-7\0")] {
            let length = u16::try_from(value.len() + 4).unwrap_or(0);
            payload.extend([length.to_ne_bytes(), kind.to_ne_bytes()].concat());
            payload.extend(value);
        }
        let read = |bytes: &[u8]| Device::deserialize(&NetlinkHeader::default(), bytes);
        let expected = Device {
            index: 4,
            name: "rlo-b-7".to_owned(),
            interface: None,
            is_shared: false,
        };
        assert_eq!(read(&payload).ok(), Some(expected));
        assert!(read(payload.get(..6).unwrap_or_default()).is_err());
    }
}
