// SPDX-License-Identifier: MIT

//! A socket from the attributes of an answer.
//!
//! This code and the library check lengths. Unknown attributes are ignored, because a newer module
//! may have more.

use std::net::IpAddr;

use netlink_packet_core::{
    parse_ip, parse_string, parse_u16_be, parse_u32, parse_u64, parse_u8, DecodeError,
    NetlinkDeserializable, NetlinkHeader, NlasIterator,
};

use crate::socket::{Flow, Socket, Transport};
use crate::uapi;

/// The u64 values of an attribute; it is an error if the length is not a multiple of 8.
fn numbers(bytes: &[u8]) -> Result<Vec<u64>, DecodeError> {
    bytes.chunks(8).map(parse_u64).collect()
}

fn address(bytes: &[u8]) -> Result<IpAddr, DecodeError> {
    parse_ip(bytes)
}

fn set(socket: &mut Socket, kind: u16, value: &[u8]) -> Result<(), DecodeError> {
    match kind {
        uapi::SDP_DIAG_STATE => socket.state = parse_u8(value)?,
        uapi::SDP_DIAG_TRANSPORT => socket.transport = Transport::of(parse_u8(value)?),
        uapi::SDP_DIAG_REASON => socket.reason = parse_u32(value)?,
        uapi::SDP_DIAG_LOCAL_ADDR => socket.local.address = address(value)?,
        uapi::SDP_DIAG_LOCAL_PORT => socket.local.port = parse_u16_be(value)?,
        uapi::SDP_DIAG_LOCAL_SCOPE => socket.local.scope = parse_u32(value)?,
        uapi::SDP_DIAG_PEER_ADDR => socket.peer.address = address(value)?,
        uapi::SDP_DIAG_PEER_PORT => socket.peer.port = parse_u16_be(value)?,
        uapi::SDP_DIAG_PEER_SCOPE => socket.peer.scope = parse_u32(value)?,
        uapi::SDP_DIAG_RX_QUEUE => socket.rx_queue = parse_u32(value)?,
        uapi::SDP_DIAG_TX_QUEUE => socket.tx_queue = parse_u32(value)?,
        uapi::SDP_DIAG_INODE => socket.inode = parse_u64(value)?,
        uapi::SDP_DIAG_UID => socket.uid = parse_u32(value)?,
        uapi::SDP_DIAG_COOKIE => socket.cookie = Some(parse_u64(value)?),
        uapi::SDP_DIAG_IFINDEX => socket.interface = parse_u32(value)?,
        uapi::SDP_DIAG_DEVICE => socket.device = Some(parse_string(value)?),
        uapi::SDP_DIAG_MODE_SEND => socket.mode_send = Some(parse_u8(value)?),
        uapi::SDP_DIAG_MODE_RECEIVE => socket.mode_receive = Some(parse_u8(value)?),
        uapi::SDP_DIAG_OFFERED => socket.offered = parse_u64(value)?,
        uapi::SDP_DIAG_END => socket.end = Some(parse_u8(value)?),
        uapi::SDP_DIAG_RULE => socket.rule = Some(parse_string(value)?),
        uapi::SDP_DIAG_TRAFFIC => socket.traffic = numbers(value)?,
        uapi::SDP_DIAG_CAUSE => socket.cause = parse_u8(value)?,
        uapi::SDP_DIAG_THRESHOLD => socket.threshold = Some(parse_u32(value)?),
        uapi::SDP_DIAG_OWN_THRESHOLD => socket.own_threshold = parse_u8(value)? != 0,
        uapi::SDP_DIAG_TCP_SENT => socket.tcp_sent = parse_u64(value)?,
        uapi::SDP_DIAG_TCP_RECEIVED => socket.tcp_received = parse_u64(value)?,
        _ => return set_flow(socket, kind, value),
    }
    Ok(())
}

fn set_flow(socket: &mut Socket, kind: u16, value: &[u8]) -> Result<(), DecodeError> {
    let flow: fn(&mut Flow) -> &mut u32 = match kind {
        uapi::SDP_DIAG_CREDITS => |flow| &mut flow.credits,
        uapi::SDP_DIAG_POSTED => |flow| &mut flow.posted,
        uapi::SDP_DIAG_RCV_SIZE => |flow| &mut flow.rcv_size,
        uapi::SDP_DIAG_MAX_PAYLOAD => |flow| &mut flow.max_payload,
        uapi::SDP_DIAG_CREDIT_STALLS => |flow| &mut flow.credit_stalls,
        uapi::SDP_DIAG_SLOT_STALLS => |flow| &mut flow.slot_stalls,
        uapi::SDP_DIAG_ROUND_TRIP_US => |flow| &mut flow.round_trip_us,
        _ => return Ok(()),
    };
    *flow(socket.flow.get_or_insert_default()) = parse_u32(value)?;
    Ok(())
}

impl NetlinkDeserializable for Socket {
    type Error = DecodeError;

    fn deserialize(header: &NetlinkHeader, payload: &[u8]) -> Result<Self, DecodeError> {
        if header.message_type != uapi::SOCK_DIAG_BY_FAMILY {
            return Err(format!("a message of kind {}", header.message_type).into());
        }
        let Some((head, attributes)) = payload.split_at_checked(uapi::HEAD_LEN) else {
            return Err("an answer without its head".into());
        };
        if head.first() != Some(&uapi::AF_INET_SDP) {
            return Err("an answer about another family".into());
        }
        let mut socket = Socket::default();
        for attribute in NlasIterator::new(attributes) {
            let attribute = attribute?;
            set(&mut socket, attribute.kind(), attribute.value())?;
        }
        Ok(socket)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(kind: u16) -> NetlinkHeader {
        let mut header = NetlinkHeader::default();
        header.message_type = kind;
        header
    }

    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let length = u16::try_from(value.len() + 4).unwrap_or(0);
        let mut bytes = [length.to_ne_bytes(), kind.to_ne_bytes()].concat();
        bytes.extend(value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    fn decoded(attributes: &[Vec<u8>]) -> Result<Socket, DecodeError> {
        let payload = [vec![27, 0, 0, 0], attributes.concat()].concat();
        Socket::deserialize(&header(uapi::SOCK_DIAG_BY_FAMILY), &payload)
    }

    #[test]
    fn an_answer_is_read() {
        let traffic: Vec<u8> = (1..=40u64).flat_map(u64::to_ne_bytes).collect();
        let socket = decoded(&[
            attribute(uapi::SDP_DIAG_STATE, &[1]),
            attribute(uapi::SDP_DIAG_TRANSPORT, &[2]),
            attribute(uapi::SDP_DIAG_REASON, &111u32.to_ne_bytes()),
            attribute(uapi::SDP_DIAG_LOCAL_ADDR, &[10, 0, 0, 1]),
            attribute(uapi::SDP_DIAG_LOCAL_PORT, &80u16.to_be_bytes()),
            attribute(
                uapi::SDP_DIAG_PEER_ADDR,
                &[0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9],
            ),
            attribute(uapi::SDP_DIAG_PEER_SCOPE, &3u32.to_ne_bytes()),
            attribute(uapi::SDP_DIAG_DEVICE, b"rxe0\0"),
            attribute(uapi::SDP_DIAG_PAD, &[]),
            attribute(uapi::SDP_DIAG_COOKIE, &7u64.to_ne_bytes()),
            attribute(uapi::SDP_DIAG_SLOT_STALLS, &9u32.to_ne_bytes()),
            attribute(uapi::SDP_DIAG_TRAFFIC, &traffic),
            attribute(uapi::SDP_DIAG_CAUSE, &[5]),
            attribute(uapi::SDP_DIAG_THRESHOLD, &4096u32.to_ne_bytes()),
            attribute(uapi::SDP_DIAG_OWN_THRESHOLD, &[1]),
            attribute(uapi::SDP_DIAG_TCP_SENT, &11u64.to_ne_bytes()),
            attribute(uapi::SDP_DIAG_TCP_RECEIVED, &12u64.to_ne_bytes()),
            // An attribute of a newer module.
            attribute(999, &[1, 2, 3]),
        ])
        .unwrap_or_default();
        assert_eq!(
            (socket.state, socket.transport, socket.reason),
            (1, Transport::Tcp, 111)
        );
        assert_eq!(socket.local.to_string(), "10.0.0.1");
        assert_eq!((socket.local.port, socket.peer.scope), (80, 3));
        assert_eq!(socket.peer.to_string(), "[fe80::9%3]");
        assert_eq!(socket.device.as_deref(), Some("rxe0"));
        assert_eq!(socket.cookie, Some(7));
        assert_eq!((socket.cause, socket.own_threshold), (5, true));
        assert_eq!(socket.threshold, Some(4096));
        assert_eq!((socket.tcp_sent, socket.tcp_received), (11, 12));
        assert_eq!(socket.flow.as_ref().map(|flow| flow.slot_stalls), Some(9));
        assert_eq!(socket.traffic().last(), Some(("declined_bytes", 38)));
        assert_eq!(socket.why().as_deref(), Some("ECONNREFUSED"));
    }

    #[test]
    fn fewer_and_more_counters_are_read() {
        let few = decoded(&[attribute(uapi::SDP_DIAG_TRAFFIC, &5u64.to_ne_bytes())]);
        let many: Vec<u8> = (0..50u64).flat_map(u64::to_ne_bytes).collect();
        let many = decoded(&[attribute(uapi::SDP_DIAG_TRAFFIC, &many)]);
        assert_eq!(few.unwrap_or_default().traffic().count(), 1);
        assert_eq!(many.unwrap_or_default().traffic().count(), 38);
    }

    #[test]
    fn what_is_cut_or_wrong_is_an_error() {
        let state = attribute(uapi::SDP_DIAG_STATE, &[1]);
        for payload in [
            &[][..],
            &[27, 0, 0],
            &[2, 0, 0, 0],
            &[27, 0, 0, 0, 5],
            &[27, 0, 0, 0, 3, 0, 2, 0],
        ] {
            let result = Socket::deserialize(&header(uapi::SOCK_DIAG_BY_FAMILY), payload);
            assert!(result.is_err(), "{payload:?}");
        }
        assert!(Socket::deserialize(&header(21), &[27, 0, 0, 0]).is_err());
        for wrong in [
            attribute(uapi::SDP_DIAG_LOCAL_ADDR, &[1, 2, 3]),
            attribute(uapi::SDP_DIAG_INODE, &[1, 2, 3, 4]),
            attribute(uapi::SDP_DIAG_TRAFFIC, &[0; 12]),
            attribute(uapi::SDP_DIAG_DEVICE, &[0xff, 0xfe, 0]),
            state.iter().take(3).copied().collect(),
        ] {
            assert!(
                decoded(&[state.clone(), wrong.clone()]).is_err(),
                "{wrong:?}"
            );
        }
        // Longer than the data that follows.
        let long = state
            .iter()
            .map(|byte| if *byte == 5 { 200 } else { *byte });
        assert!(decoded(&[long.collect()]).is_err());
    }
}
