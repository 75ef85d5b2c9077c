// SPDX-License-Identifier: MIT

//! The attributes of one socket, and their JSON form.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr};

use serde::Serialize;

use crate::names;
use crate::owners::{Owner, Owners};
use crate::uapi;
use crate::why::{self, Share};

/// Address, port and, for a link-local address, the interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub(crate) struct Name {
    pub(crate) address: IpAddr,
    pub(crate) port: u16,
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) scope: u32,
}

impl Default for Name {
    fn default() -> Self {
        Self {
            address: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            port: 0,
            scope: 0,
        }
    }
}

impl fmt::Display for Name {
    /// The format of ss: the address, in brackets if it has colons, or a star for any.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.address {
            any if any.is_unspecified() => write!(f, "*"),
            IpAddr::V4(address) => write!(f, "{address}"),
            IpAddr::V6(address) if self.scope != 0 => write!(f, "[{address}%{}]", self.scope),
            IpAddr::V6(address) => write!(f, "[{address}]"),
        }
    }
}

/// The transport of a socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Transport {
    #[default]
    Sdp,
    Tcp,
    /// Not decided, or a listener on both.
    Both,
    /// Not in the answer.
    Unknown,
}

impl Transport {
    pub(crate) fn of(number: u8) -> Self {
        match number {
            0 => Self::Sdp,
            uapi::SDP_TRANSPORT_BOTH => Self::Both,
            uapi::SDP_TRANSPORT_TCP => Self::Tcp,
            _ => Self::Unknown,
        }
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Sdp => "SDP",
            Self::Tcp => "TCP",
            Self::Both => "SDP/TCP",
            Self::Unknown => "-",
        })
    }
}

/// The details of `--info`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub(crate) struct Flow {
    pub(crate) credits: u32,
    pub(crate) posted: u32,
    pub(crate) rcv_size: u32,
    pub(crate) max_payload: u32,
    pub(crate) credit_stalls: u32,
    pub(crate) slot_stalls: u32,
    pub(crate) round_trip_us: u32,
}

/// One socket.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Socket {
    pub(crate) state: u8,
    pub(crate) transport: Transport,
    pub(crate) reason: u32,
    pub(crate) local: Name,
    pub(crate) peer: Name,
    pub(crate) rx_queue: u32,
    pub(crate) tx_queue: u32,
    pub(crate) inode: u64,
    pub(crate) uid: u32,
    pub(crate) cookie: Option<u64>,
    pub(crate) interface: u32,
    pub(crate) device: Option<String>,
    pub(crate) mode_send: Option<u8>,
    pub(crate) mode_receive: Option<u8>,
    pub(crate) offered: u64,
    pub(crate) end: Option<u8>,
    pub(crate) rule: Option<String>,
    pub(crate) flow: Option<Flow>,
    /// In the order of `uapi::TRAFFIC`; an older module sends fewer.
    pub(crate) traffic: Vec<u64>,
    /// Why all that is sent is copied, or why it is on TCP.
    pub(crate) cause: u8,
    pub(crate) threshold: Option<u32>,
    pub(crate) own_threshold: bool,
    pub(crate) tcp_sent: u64,
    pub(crate) tcp_received: u64,
}

impl Socket {
    /// The counters of its traffic, by name.
    pub(crate) fn traffic(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        uapi::TRAFFIC.into_iter().zip(self.traffic.iter().copied())
    }

    /// The modes of sending and receiving.
    pub(crate) fn modes(&self) -> Option<(&'static str, &'static str)> {
        let (send, receive) = (self.mode_send?, self.mode_receive?);
        Some((names::mode(send), names::mode(receive)))
    }

    /// The reason of the fallback, or how the connection ended.
    pub(crate) fn why(&self) -> Option<String> {
        if self.reason != 0 {
            return Some(names::errno(self.reason));
        }
        let end = names::end(self.end?);
        Some(match &self.rule {
            Some(rule) => format!("{end}:{}", names::printable(rule)),
            None => end.to_owned(),
        })
    }
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// The JSON form of a socket: names instead of numbers, without unknown values.
#[derive(Serialize)]
pub(crate) struct Shown<'a> {
    /// The inode of its network namespace, if it is one of several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) namespace: Option<u64>,
    transport: Transport,
    state: &'static str,
    local: Name,
    peer: Name,
    recv_q: u32,
    send_q: u32,
    uid: u32,
    inode: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    cookie: Option<u64>,
    #[serde(skip_serializing_if = "is_zero")]
    interface: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    device: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mode_send: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mode_receive: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fallback: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    end: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<&'a str>,
    offered: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    threshold: Option<u32>,
    own_threshold: bool,
    tcp_sent: u64,
    tcp_received: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    flow: Option<&'a Flow>,
    traffic: BTreeMap<&'static str, u64>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    processes: &'a [Owner],
    #[serde(skip_serializing_if = "Vec::is_empty")]
    why: Vec<Share>,
}

impl<'a> Shown<'a> {
    /// `why`: with the way of its bytes.
    pub(crate) fn new(socket: &'a Socket, owners: &'a Owners, why: bool) -> Self {
        Self {
            namespace: None,
            transport: socket.transport,
            state: names::state(socket.state),
            local: socket.local,
            peer: socket.peer,
            recv_q: socket.rx_queue,
            send_q: socket.tx_queue,
            uid: socket.uid,
            inode: socket.inode,
            cookie: socket.cookie,
            interface: socket.interface,
            device: socket.device.as_deref(),
            mode_send: socket.mode_send.map(names::mode),
            mode_receive: socket.mode_receive.map(names::mode),
            fallback: (socket.reason != 0).then(|| names::errno(socket.reason)),
            end: socket.end.map(names::end),
            rule: socket.rule.as_deref(),
            offered: socket.offered,
            threshold: socket.threshold,
            own_threshold: socket.own_threshold,
            tcp_sent: socket.tcp_sent,
            tcp_received: socket.tcp_received,
            flow: socket.flow.as_ref(),
            traffic: socket.traffic().collect(),
            processes: owners.of(socket.inode),
            why: if why {
                why::of_socket(socket)
            } else {
                Vec::new()
            },
        }
    }
}
