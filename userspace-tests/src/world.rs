// SPDX-License-Identifier: MIT
//! The environment of a case: socket family, IP version, and hosts.

use std::fmt;
use std::net::IpAddr;

use libc::c_int;

use crate::uapi;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// The reference.
    Tcp,
    Sdp,
    /// `IPPROTO_SDP` with the addresses' own family: SDP first, then TCP.
    Protocol,
    /// An SDP socket that was set to TCP, and passes every call on.
    Companion,
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Family::Tcp => "tcp",
            Family::Sdp => "sdp",
            Family::Protocol => "protocol",
            Family::Companion => "companion",
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ip {
    V4,
    V6,
}

impl Ip {
    /// The family in addresses of this version.
    pub fn family(self) -> c_int {
        match self {
            Ip::V4 => libc::AF_INET,
            Ip::V6 => libc::AF_INET6,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Server,
    Client,
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Side::Server => "server",
            Side::Client => "client",
        })
    }
}

/// The first argument of `socket` for this family and version.
pub fn domain(family: Family, ip: Ip) -> c_int {
    match family {
        Family::Tcp | Family::Protocol => ip.family(),
        Family::Sdp | Family::Companion => uapi::AF_INET_SDP,
    }
}

/// The third argument of `socket` for this family.
pub fn protocol(family: Family) -> c_int {
    match family {
        Family::Protocol => uapi::IPPROTO_SDP,
        _ => 0,
    }
}

/// The places of the two roles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hosts {
    /// Both in the program's initial namespace, on the loopback addresses.
    Loopback,
    /// Each in its own network namespace, joined by a link with fixed addresses.
    Namespaces,
}

impl Hosts {
    pub fn are_two(self) -> bool {
        self == Hosts::Namespaces
    }

    pub fn address(self, side: Side, ip: Ip) -> IpAddr {
        let text = match (self, ip, side) {
            (Hosts::Loopback, Ip::V4, _) => "127.0.0.1",
            (Hosts::Loopback, Ip::V6, _) => "::1",
            (Hosts::Namespaces, Ip::V4, Side::Server) => "10.0.0.1",
            (Hosts::Namespaces, Ip::V4, Side::Client) => "10.0.0.2",
            (Hosts::Namespaces, Ip::V6, Side::Server) => "fd00::1",
            (Hosts::Namespaces, Ip::V6, Side::Client) => "fd00::2",
        };
        text.parse().expect("the table holds addresses")
    }
}
