// SPDX-License-Identifier: GPL-2.0

//! Options that SDP refuses and that a program needs: an undecided socket falls back to
//! TCP for them (`Sock::give_up_for`).
//!
//! These options choose addresses, ports, routes or peers, or change the treatment of
//! the bytes. Options that concern datagrams, or that TCP stores without effect, are
//! not among them. Nor is TCP_FASTOPEN: a program that sets it gets a connection
//! without it, too.

use crate::{
    ffi,
    prelude::*, //
};

const FAST_OPENING: [u32; 4] = [
    ffi::TCP_FASTOPEN,
    ffi::TCP_FASTOPEN_CONNECT,
    ffi::TCP_FASTOPEN_KEY,
    ffi::TCP_FASTOPEN_NO_COOKIE,
];

const OF_SOCKETS: [u32; 4] = [
    ffi::SO_ATTACH_FILTER,
    ffi::SO_ATTACH_BPF,
    ffi::SO_ATTACH_REUSEPORT_CBPF,
    ffi::SO_ATTACH_REUSEPORT_EBPF,
];

const OF_IP: [u32; 6] = [
    ffi::IP_OPTIONS,
    ffi::IP_IPSEC_POLICY,
    ffi::IP_XFRM_POLICY,
    ffi::IP_TRANSPARENT,
    ffi::IP_UNICAST_IF,
    ffi::IP_LOCAL_PORT_RANGE,
];

const OF_IPV6: [u32; 12] = [
    ffi::IPV6_FLOWLABEL_MGR,
    ffi::IPV6_FLOWINFO_SEND,
    ffi::IPV6_IPSEC_POLICY,
    ffi::IPV6_XFRM_POLICY,
    ffi::IPV6_HOPOPTS,
    ffi::IPV6_RTHDRDSTOPTS,
    ffi::IPV6_RTHDR,
    ffi::IPV6_DSTOPTS,
    ffi::IPV6_ADDR_PREFERENCES,
    ffi::IPV6_MINHOPCOUNT,
    ffi::IPV6_TRANSPARENT,
    ffi::IPV6_UNICAST_IF,
];

/// Whether the option is one of these.
pub(super) fn is_needed(level: c_int, option: c_int) -> bool {
    let (Ok(level), Ok(option)) = (u32::try_from(level), u32::try_from(option)) else {
        return false;
    };
    match level {
        ffi::SOL_TCP => !FAST_OPENING.contains(&option),
        ffi::SOL_SOCKET => OF_SOCKETS.contains(&option),
        ffi::SOL_IP => OF_IP.contains(&option),
        ffi::SOL_IPV6 => OF_IPV6.contains(&option),
        _ => false,
    }
}
