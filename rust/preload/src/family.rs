// SPDX-License-Identifier: MIT

//! The `socket()` calls that ask for TCP, which SDP may serve.
//!
//! Pure: it maps numbers to a decision. `birth` acts on the decision.

use libc::c_int;

/// The bits of socket()'s second argument that name the type; the others are
/// flags (`SOCK_CLOEXEC`, `SOCK_NONBLOCK`) and do not change the decision.
const TYPE_MASK: c_int = 0xf;

/// The address family a program expects its TCP socket to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TcpFamily {
    /// `AF_INET`
    V4,
    /// `AF_INET6`
    V6,
}

impl TcpFamily {
    /// The number the program used, and expects to read back.
    pub(crate) const fn number(self) -> c_int {
        match self {
            Self::V4 => libc::AF_INET,
            Self::V6 => libc::AF_INET6,
        }
    }

    /// The name used in programs.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::V4 => "AF_INET",
            Self::V6 => "AF_INET6",
        }
    }
}

/// The family of the TCP socket that these arguments ask for. `None` if they ask for anything else;
/// such calls are unchanged.
pub(crate) const fn tcp_family(
    domain: c_int,
    type_and_flags: c_int,
    protocol: c_int,
) -> Option<TcpFamily> {
    if type_and_flags & TYPE_MASK != libc::SOCK_STREAM {
        return None;
    }
    if protocol != 0 && protocol != libc::IPPROTO_TCP {
        return None;
    }
    match domain {
        libc::AF_INET => Some(TcpFamily::V4),
        libc::AF_INET6 => Some(TcpFamily::V6),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use libc::{
        AF_INET, AF_INET6, AF_NETLINK, AF_UNIX, AF_UNSPEC, IPPROTO_TCP, IPPROTO_UDP, SOCK_CLOEXEC,
        SOCK_DGRAM, SOCK_NONBLOCK, SOCK_RAW, SOCK_SEQPACKET, SOCK_STREAM,
    };

    #[test]
    fn both_ways_to_say_tcp_are_tcp() {
        for protocol in [0, IPPROTO_TCP] {
            assert_eq!(
                tcp_family(AF_INET, SOCK_STREAM, protocol),
                Some(TcpFamily::V4)
            );
            assert_eq!(
                tcp_family(AF_INET6, SOCK_STREAM, protocol),
                Some(TcpFamily::V6)
            );
        }
    }

    #[test]
    fn type_flags_do_not_change_the_decision() {
        for flags in [SOCK_CLOEXEC, SOCK_NONBLOCK, SOCK_CLOEXEC | SOCK_NONBLOCK] {
            assert_eq!(
                tcp_family(AF_INET, SOCK_STREAM | flags, 0),
                Some(TcpFamily::V4)
            );
            assert_eq!(tcp_family(AF_INET, SOCK_DGRAM | flags, 0), None);
        }
    }

    #[test]
    fn other_types_are_left_alone() {
        for kind in [SOCK_DGRAM, SOCK_RAW, SOCK_SEQPACKET, 0, 0xf] {
            assert_eq!(tcp_family(AF_INET, kind, 0), None);
        }
    }

    #[test]
    fn other_protocols_are_left_alone() {
        const IPPROTO_SMC: c_int = 256;
        const IPPROTO_MPTCP: c_int = 262;
        for protocol in [
            IPPROTO_UDP,
            libc::IPPROTO_SCTP,
            IPPROTO_SMC,
            IPPROTO_MPTCP,
            -1,
        ] {
            assert_eq!(tcp_family(AF_INET, SOCK_STREAM, protocol), None);
            assert_eq!(tcp_family(AF_INET6, SOCK_STREAM, protocol), None);
        }
    }

    #[test]
    fn other_families_are_left_alone_and_so_is_sdp_itself() {
        for domain in [AF_UNSPEC, AF_UNIX, AF_NETLINK, crate::uapi::AF_INET_SDP, -1] {
            assert_eq!(tcp_family(domain, SOCK_STREAM, 0), None);
        }
    }
}
