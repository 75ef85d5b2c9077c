// SPDX-License-Identifier: MIT
//! Every option number at every level that TCP programs use: options that are not declared here
//! must behave on SDP as on TCP.

use std::ptr;

use libc::{c_int, socklen_t, SOL_IP, SOL_IPV6, SOL_SOCKET, SOL_TCP};

use crate::case::{Case, Difference, Turn};
use crate::errno::Res;
use crate::observe::Shown;
use crate::role::Role;
use crate::uapi;
use crate::world::Family;

const NUMBERS: std::ops::RangeInclusive<c_int> = 0..=127;

/// Options with values that differ between sockets, machines, or IP versions.
const VARYING: &[(c_int, c_int)] = &[
    (SOL_SOCKET, libc::SO_SNDBUF),
    (SOL_SOCKET, libc::SO_RCVBUF),
    (SOL_SOCKET, libc::SO_DOMAIN),
    (SOL_TCP, libc::TCP_CONGESTION),
    (SOL_TCP, libc::TCP_TIMESTAMP),
    (SOL_IP, IP_MULTICAST_ALL),
];

const IP_MULTICAST_ALL: c_int = 49;

/// Options that only SDP has; other cases test them.
const OWN: std::ops::RangeInclusive<c_int> = uapi::SDP_ZCOPY_THRESH..=uapi::SDP_AHEAD_WAIT;

/// The answers of a socket about an option: get it, set the same value (zero if get failed), set a
/// single byte, set nothing, and get it again.
fn attempt(t: &Role, level: c_int, option: c_int) -> String {
    let sock = t.socket();
    let varies = VARYING.contains(&(level, option));
    let ask = || -> Res<(c_int, socklen_t)> {
        let mut value: c_int = 0;
        let mut len = size_of::<c_int>() as socklen_t;
        sock.get_raw(level, option, (&raw mut value).cast(), &raw mut len)?;
        Ok((value, len))
    };
    let told = |got: &Res<(c_int, socklen_t)>| match got {
        Ok(_) if varies => "a number".to_string(),
        Ok((value, 4)) => value.to_string(),
        Ok((value, len)) => format!("{value} of {len} bytes"),
        Err(errno) => errno.to_string(),
    };
    let got = ask();
    let again = sock.set(level, option, &got.map_or(0, |(value, _)| value)).shown();
    let byte = sock.set(level, option, &1_u8).shown();
    let nothing = sock.set_raw(level, option, ptr::null(), 0).shown();
    let (got, then) = (told(&got), told(&ask()));
    if [&again, &byte, &nothing, &then].iter().all(|result| **result == got) {
        return got;
    }
    format!("get {got}, set {again}, byte {byte}, nothing {nothing}, then {then}")
}

fn sweep(t: &Role, name: &str, level: c_int) {
    for option in NUMBERS {
        if level == SOL_TCP && OWN.contains(&option) && t.family != Family::Tcp {
            t.see(&format!("{name} {option}"), UNKNOWN_TO_TCP);
            continue;
        }
        t.see(&format!("{name} {option}"), attempt(t, level, option));
    }
}

/// TCP's answer for an unknown number of its level.
const UNKNOWN_TO_TCP: &str =
    "get ENOPROTOOPT, set ENOPROTOOPT, byte EINVAL, nothing EINVAL, then ENOPROTOOPT";

/// TCP's answer for an option that is set to a larger struct than an int, and cannot be read.
const SET_OF_ANOTHER_FORM: &str =
    "get ENOPROTOOPT, set EINVAL, byte EINVAL, nothing EINVAL, then ENOPROTOOPT";

/// TCP's answer for the older form of policies, which the kernel only has with `PF_KEY`.
const POLICY_OF_IPSEC: &str =
    "get ENOPROTOOPT, set EOPNOTSUPP, byte EOPNOTSUPP, nothing ok, then ENOPROTOOPT";

/// TCP's answer for a policy that is too short.
const POLICY_OF_XFRM: &str =
    "get ENOPROTOOPT, set EINVAL, byte EINVAL, nothing ok, then ENOPROTOOPT";

/// An option of TCP that SDP lacks.
const fn no_tcp(label: &'static str, tcp: &'static str, reason: &'static str) -> Difference {
    Difference { label, tcp, sdp: UNKNOWN_TO_TCP, reason }
}

/// An option of IP that SDP lacks.
const fn no_ip(label: &'static str, tcp: &'static str, reason: &'static str) -> Difference {
    Difference { label, tcp, sdp: "ENOPROTOOPT", reason }
}

const SPREADING: &str = "no program spreads connections over listeners";
const OF_TCP: &str = "the kernel itself keeps it to TCP";
const TAKEN_BACK: &str = "what is told at first is no name of TCP's, and may be set again";
const REPAIR: &str = "no state of a connection can be taken out and put back";
const FASTOPEN: &str = "no data goes with the first message of a connection";
const TRANSPORT: &str = "the transport of the device decides";
const NO_SYN: &str = "there is no SYN";
const ULP: &str = "nothing can lie between the program and the stream";
const MAPPING: &str = "what was received is not mapped";
const MPTCP: &str = "there is one path";
const GROUPS: &str = "a stream has one peer";
const ADDRESSES: &str = "addresses are those that a device has";
const IPSEC: &str = "a device transforms nothing, so a socket has no policies of IPsec";
const HEADERS: &str = "there are no packets of IP";
const CONTROL: &str = "a stream of RDMA has nothing to put into control messages";

const SOCKETS: &[Difference] = &[
    // SO_ATTACH_REUSEPORT_EBPF
    Difference {
        label: "SOL_SOCKET 52",
        tcp: SET_OF_ANOTHER_FORM,
        sdp: "get ENOPROTOOPT, set EOPNOTSUPP, byte EINVAL, nothing EINVAL, then ENOPROTOOPT",
        reason: SPREADING,
    },
    // SO_TXREHASH
    Difference {
        label: "SOL_SOCKET 74",
        tcp: "get 1, set ok, byte EINVAL, nothing EINVAL, then 1",
        sdp: "get EOPNOTSUPP, set EOPNOTSUPP, byte EINVAL, nothing EINVAL, then EOPNOTSUPP",
        reason: OF_TCP,
    },
    // SO_DEVMEM_DONTNEED
    Difference {
        label: "SOL_SOCKET 80",
        tcp: SET_OF_ANOTHER_FORM,
        sdp: "get ENOPROTOOPT, set EBADF, byte EINVAL, nothing EINVAL, then ENOPROTOOPT",
        reason: OF_TCP,
    },
];

const TCP: &[Difference] = &[
    // TCP_CONGESTION
    Difference {
        label: "SOL_TCP 13",
        tcp: "get a number, set ENOENT, byte ENOENT, nothing EINVAL, then a number",
        sdp: "get a number, set ok, byte ENOENT, nothing EINVAL, then a number",
        reason: TAKEN_BACK,
    },
    // TCP_REPAIR
    no_tcp("SOL_TCP 19", "get 0, set ok, byte EINVAL, nothing EINVAL, then 0", REPAIR),
    // TCP_REPAIR_QUEUE
    no_tcp("SOL_TCP 20", "get EINVAL, set EPERM, byte EINVAL, nothing EINVAL, then EINVAL", REPAIR),
    // TCP_QUEUE_SEQ
    no_tcp("SOL_TCP 21", "EINVAL", REPAIR),
    // TCP_REPAIR_OPTIONS
    no_tcp("SOL_TCP 22", SET_OF_ANOTHER_FORM, REPAIR),
    // TCP_FASTOPEN
    no_tcp("SOL_TCP 23", "get 0, set ok, byte EINVAL, nothing EINVAL, then 0", FASTOPEN),
    // TCP_TIMESTAMP
    no_tcp(
        "SOL_TCP 24",
        "get a number, set EPERM, byte EINVAL, nothing EINVAL, then a number",
        REPAIR,
    ),
    // TCP_CC_INFO
    no_tcp(
        "SOL_TCP 26",
        "get 0 of 0 bytes, set ENOPROTOOPT, byte EINVAL, nothing EINVAL, then 0 of 0 bytes",
        TRANSPORT,
    ),
    // TCP_SAVED_SYN
    no_tcp(
        "SOL_TCP 28",
        "get 0 of 0 bytes, set ENOPROTOOPT, byte EINVAL, nothing EINVAL, then 0 of 0 bytes",
        NO_SYN,
    ),
    // TCP_REPAIR_WINDOW
    no_tcp("SOL_TCP 29", "get EINVAL, set EPERM, byte EINVAL, nothing EINVAL, then EINVAL", REPAIR),
    // TCP_FASTOPEN_CONNECT
    no_tcp("SOL_TCP 30", "get 0, set ok, byte EINVAL, nothing EINVAL, then 0", FASTOPEN),
    // TCP_ULP
    no_tcp(
        "SOL_TCP 31",
        "get 0 of 0 bytes, set ENOENT, byte ENOENT, nothing EINVAL, then 0 of 0 bytes",
        ULP,
    ),
    // TCP_FASTOPEN_KEY
    no_tcp(
        "SOL_TCP 33",
        "get 0 of 0 bytes, set EINVAL, byte EINVAL, nothing EINVAL, then 0 of 0 bytes",
        FASTOPEN,
    ),
    // TCP_FASTOPEN_NO_COOKIE
    no_tcp("SOL_TCP 34", "get 0, set ok, byte EINVAL, nothing EINVAL, then 0", FASTOPEN),
    // TCP_ZEROCOPY_RECEIVE
    no_tcp(
        "SOL_TCP 35",
        "get EINVAL, set ENOPROTOOPT, byte EINVAL, nothing EINVAL, then EINVAL",
        MAPPING,
    ),
    // TCP_TX_DELAY
    no_tcp("SOL_TCP 37", "get 0, set ok, byte EINVAL, nothing EINVAL, then 0", TRANSPORT),
    // TCP_IS_MPTCP
    no_tcp("SOL_TCP 43", "get 0, set ENOPROTOOPT, byte EINVAL, nothing EINVAL, then 0", MPTCP),
    // TCP_RTO_MAX_MS
    no_tcp("SOL_TCP 44", "get 120000, set ok, byte EINVAL, nothing EINVAL, then 120000", TRANSPORT),
    // TCP_RTO_MIN_US
    no_tcp("SOL_TCP 45", "get 200000, set ok, byte EINVAL, nothing EINVAL, then 200000", TRANSPORT),
    // TCP_DELACK_MAX_US
    no_tcp("SOL_TCP 46", "get 200000, set ok, byte EINVAL, nothing EINVAL, then 200000", TRANSPORT),
];

const IP: &[Difference] = &[
    // IP_HDRINCL
    no_ip("SOL_IP 3", "get 0, set ENOPROTOOPT, byte ENOPROTOOPT, nothing ENOPROTOOPT, then 0", HEADERS),
    // IP_OPTIONS
    no_ip("SOL_IP 4", "get 0 of 0 bytes, set ok, byte ok, nothing ok, then 0 of 0 bytes", HEADERS),
    // IP_ROUTER_ALERT
    no_ip("SOL_IP 5", "get 0, set EINVAL, byte EINVAL, nothing EINVAL, then 0", HEADERS),
    // IP_RECVOPTS
    no_ip("SOL_IP 6", "get 0, set ok, byte ok, nothing ok, then 0", CONTROL),
    // IP_RETOPTS
    no_ip("SOL_IP 7", "get 0, set ok, byte ok, nothing ok, then 0", CONTROL),
    // IP_PKTINFO
    no_ip("SOL_IP 8", "get 0, set ok, byte ok, nothing ok, then 0", CONTROL),
    // IP_PKTOPTIONS
    no_ip("SOL_IP 9", "get 0 of 0 bytes, set ENOPROTOOPT, byte ENOPROTOOPT, nothing ENOPROTOOPT, then 0 of 0 bytes", CONTROL),
    // IP_RECVTTL
    no_ip("SOL_IP 12", "get 0, set ok, byte ok, nothing ok, then 0", CONTROL),
    // IP_RECVTOS
    no_ip("SOL_IP 13", "get 0, set ok, byte ok, nothing ok, then 0", CONTROL),
    // IP_MTU
    no_ip("SOL_IP 14", "get ENOTCONN, set ENOPROTOOPT, byte ENOPROTOOPT, nothing ENOPROTOOPT, then ENOTCONN", HEADERS),
    // IP_IPSEC_POLICY
    no_ip("SOL_IP 16", POLICY_OF_IPSEC, IPSEC),
    // IP_XFRM_POLICY
    no_ip("SOL_IP 17", POLICY_OF_XFRM, IPSEC),
    // The same of an IPv6 socket; its policies are options of SOL_IPV6.
    no_ip(
        "SOL_IP 17",
        "get ENOPROTOOPT, set EOPNOTSUPP, byte EOPNOTSUPP, nothing ok, then ENOPROTOOPT",
        IPSEC,
    ),
    // IP_PASSSEC
    no_ip("SOL_IP 18", "get 0, set ok, byte ok, nothing ok, then 0", CONTROL),
    // IP_TRANSPARENT
    no_ip("SOL_IP 19", "get 0, set ok, byte ok, nothing EINVAL, then 1", ADDRESSES),
    // IP_ORIGDSTADDR
    no_ip("SOL_IP 20", "get 0, set ok, byte ok, nothing ok, then 0", CONTROL),
    // IP_NODEFRAG
    no_ip("SOL_IP 22", "get 0, set ENOPROTOOPT, byte ENOPROTOOPT, nothing ENOPROTOOPT, then 0", HEADERS),
    // IP_CHECKSUM
    no_ip("SOL_IP 23", "get 0, set ok, byte ok, nothing ok, then 0", CONTROL),
    // IP_RECVFRAGSIZE
    no_ip("SOL_IP 25", "get 0, set EINVAL, byte EINVAL, nothing EINVAL, then 0", CONTROL),
    // IP_RECVERR_RFC4884
    no_ip("SOL_IP 26", "get 0, set ok, byte ok, nothing ok, then 0", CONTROL),
    // IP_MULTICAST_IF
    no_ip("SOL_IP 32", "get 0, set EINVAL, byte EINVAL, nothing EINVAL, then 0", GROUPS),
    // IP_MULTICAST_TTL
    no_ip("SOL_IP 33", "get 1, set EINVAL, byte EINVAL, nothing EINVAL, then 1", GROUPS),
    // IP_MULTICAST_LOOP
    no_ip("SOL_IP 34", "get 1, set ok, byte ok, nothing EINVAL, then 1", GROUPS),
    // IP_ADD_MEMBERSHIP
    no_ip("SOL_IP 35", "get ENOPROTOOPT, set EPROTO, byte EPROTO, nothing EPROTO, then ENOPROTOOPT", GROUPS),
    // IP_DROP_MEMBERSHIP
    no_ip("SOL_IP 36", "get ENOPROTOOPT, set EPROTO, byte EPROTO, nothing EPROTO, then ENOPROTOOPT", GROUPS),
    // IP_UNBLOCK_SOURCE
    no_ip("SOL_IP 37", SET_OF_ANOTHER_FORM, GROUPS),
    // IP_BLOCK_SOURCE
    no_ip("SOL_IP 38", SET_OF_ANOTHER_FORM, GROUPS),
    // IP_ADD_SOURCE_MEMBERSHIP
    no_ip("SOL_IP 39", SET_OF_ANOTHER_FORM, GROUPS),
    // IP_DROP_SOURCE_MEMBERSHIP
    no_ip("SOL_IP 40", SET_OF_ANOTHER_FORM, GROUPS),
    // IP_MSFILTER
    no_ip("SOL_IP 41", "EINVAL", GROUPS),
    // MCAST_JOIN_GROUP
    no_ip("SOL_IP 42", SET_OF_ANOTHER_FORM, GROUPS),
    // MCAST_BLOCK_SOURCE
    no_ip("SOL_IP 43", SET_OF_ANOTHER_FORM, GROUPS),
    // MCAST_UNBLOCK_SOURCE
    no_ip("SOL_IP 44", SET_OF_ANOTHER_FORM, GROUPS),
    // MCAST_LEAVE_GROUP
    no_ip("SOL_IP 45", SET_OF_ANOTHER_FORM, GROUPS),
    // MCAST_JOIN_SOURCE_GROUP
    no_ip("SOL_IP 46", SET_OF_ANOTHER_FORM, GROUPS),
    // MCAST_LEAVE_SOURCE_GROUP
    no_ip("SOL_IP 47", SET_OF_ANOTHER_FORM, GROUPS),
    // MCAST_MSFILTER
    no_ip("SOL_IP 48", "EINVAL", GROUPS),
    // IP_MULTICAST_ALL
    no_ip("SOL_IP 49", "get a number, set ok, byte ok, nothing EINVAL, then a number", GROUPS),
    // IP_UNICAST_IF
    no_ip("SOL_IP 50", "get 0, set ok, byte EINVAL, nothing EINVAL, then 0", ADDRESSES),
    // IP_LOCAL_PORT_RANGE
    no_ip("SOL_IP 51", "get 0, set ok, byte EINVAL, nothing EINVAL, then 0", ADDRESSES),
    // IP_PROTOCOL
    no_ip("SOL_IP 52", "get 0, set ENOPROTOOPT, byte ENOPROTOOPT, nothing ENOPROTOOPT, then 0", HEADERS),
];

const IPV6: &[Difference] = &[
    // IPV6_ADDRFORM
    no_ip(
        "SOL_IPV6 1",
        "get ENOTCONN, set EINVAL, byte EINVAL, nothing EINVAL, then ENOTCONN",
        ADDRESSES,
    ),
    // IPV6_2292PKTINFO
    no_ip("SOL_IPV6 2", "get 0, set ok, byte EINVAL, nothing EINVAL, then 0", CONTROL),
    // IPV6_2292HOPOPTS
    no_ip("SOL_IPV6 3", "get 0, set ok, byte EINVAL, nothing EINVAL, then 0", CONTROL),
    // IPV6_2292DSTOPTS
    no_ip("SOL_IPV6 4", "get 0, set ok, byte EINVAL, nothing EINVAL, then 0", CONTROL),
    // IPV6_2292RTHDR
    no_ip("SOL_IPV6 5", "get 0, set ok, byte EINVAL, nothing EINVAL, then 0", CONTROL),
    // IPV6_2292PKTOPTIONS
    no_ip(
        "SOL_IPV6 6",
        "get 0 of 0 bytes, set ok, byte ok, nothing ok, then 0 of 0 bytes",
        CONTROL,
    ),
    // IPV6_2292HOPLIMIT
    no_ip("SOL_IPV6 8", "get 0, set ok, byte EINVAL, nothing EINVAL, then 0", CONTROL),
    // IPV6_FLOWINFO
    no_ip("SOL_IPV6 11", "get 0, set ok, byte EINVAL, nothing EINVAL, then 0", CONTROL),
    // IPV6_MULTICAST_IF
    no_ip(
        "SOL_IPV6 17",
        "get 0, set ENOPROTOOPT, byte ENOPROTOOPT, nothing ENOPROTOOPT, then 0",
        GROUPS,
    ),
    // IPV6_MULTICAST_HOPS
    no_ip(
        "SOL_IPV6 18",
        "get 1, set ENOPROTOOPT, byte ENOPROTOOPT, nothing ENOPROTOOPT, then 1",
        GROUPS,
    ),
    // IPV6_MULTICAST_LOOP
    no_ip("SOL_IPV6 19", "get 1, set ok, byte EINVAL, nothing EINVAL, then 1", GROUPS),
    // IPV6_ADD_MEMBERSHIP
    no_ip("SOL_IPV6 20", SET_OF_ANOTHER_FORM, GROUPS),
    // IPV6_DROP_MEMBERSHIP
    no_ip("SOL_IPV6 21", SET_OF_ANOTHER_FORM, GROUPS),
    // IPV6_ROUTER_ALERT
    no_ip("SOL_IPV6 22", "get 0, set ENOPROTOOPT, byte EINVAL, nothing EINVAL, then 0", HEADERS),
    // IPV6_MTU
    no_ip(
        "SOL_IPV6 24",
        "get ENOTCONN, set ok, byte EINVAL, nothing EINVAL, then ENOTCONN",
        HEADERS,
    ),
    // IPV6_JOIN_ANYCAST
    no_ip("SOL_IPV6 27", SET_OF_ANOTHER_FORM, GROUPS),
    // IPV6_LEAVE_ANYCAST
    no_ip("SOL_IPV6 28", SET_OF_ANOTHER_FORM, GROUPS),
    // IPV6_MULTICAST_ALL
    no_ip("SOL_IPV6 29", "get 1, set ok, byte EINVAL, nothing EINVAL, then 1", GROUPS),
    // IPV6_ROUTER_ALERT_ISOLATE
    no_ip("SOL_IPV6 30", "get 0, set ok, byte EINVAL, nothing EINVAL, then 0", HEADERS),
    // IPV6_RECVERR_RFC4884
    no_ip("SOL_IPV6 31", "get 0, set ok, byte EINVAL, nothing EINVAL, then 0", CONTROL),
    // IPV6_FLOWLABEL_MGR
    no_ip("SOL_IPV6 32", "EINVAL", HEADERS),
    // IPV6_FLOWINFO_SEND
    no_ip("SOL_IPV6 33", "get 0, set ok, byte EINVAL, nothing EINVAL, then 0", HEADERS),
    // IPV6_IPSEC_POLICY
    no_ip("SOL_IPV6 34", POLICY_OF_IPSEC, IPSEC),
    // IPV6_XFRM_POLICY
    no_ip("SOL_IPV6 35", POLICY_OF_XFRM, IPSEC),
    // MCAST_JOIN_GROUP
    no_ip("SOL_IPV6 42", SET_OF_ANOTHER_FORM, GROUPS),
    // MCAST_BLOCK_SOURCE
    no_ip("SOL_IPV6 43", SET_OF_ANOTHER_FORM, GROUPS),
    // MCAST_UNBLOCK_SOURCE
    no_ip("SOL_IPV6 44", SET_OF_ANOTHER_FORM, GROUPS),
    // MCAST_LEAVE_GROUP
    no_ip("SOL_IPV6 45", SET_OF_ANOTHER_FORM, GROUPS),
    // MCAST_JOIN_SOURCE_GROUP
    no_ip("SOL_IPV6 46", SET_OF_ANOTHER_FORM, GROUPS),
    // MCAST_LEAVE_SOURCE_GROUP
    no_ip("SOL_IPV6 47", SET_OF_ANOTHER_FORM, GROUPS),
    // MCAST_MSFILTER
    no_ip("SOL_IPV6 48", "EINVAL", GROUPS),
    // IPV6_RECVPKTINFO
    no_ip("SOL_IPV6 49", "get 0, set ok, byte EINVAL, nothing EINVAL, then 0", CONTROL),
    // IPV6_PKTINFO
    no_ip("SOL_IPV6 50", SET_OF_ANOTHER_FORM, HEADERS),
    // IPV6_RECVHOPLIMIT
    no_ip("SOL_IPV6 51", "get 0, set ok, byte EINVAL, nothing EINVAL, then 0", CONTROL),
    // IPV6_RECVHOPOPTS
    no_ip("SOL_IPV6 53", "get 0, set ok, byte EINVAL, nothing EINVAL, then 0", CONTROL),
    // IPV6_HOPOPTS
    no_ip(
        "SOL_IPV6 54",
        "get 0 of 0 bytes, set EINVAL, byte EINVAL, nothing ok, then 0 of 0 bytes",
        HEADERS,
    ),
    // IPV6_RTHDRDSTOPTS
    no_ip(
        "SOL_IPV6 55",
        "get 0 of 0 bytes, set EINVAL, byte EINVAL, nothing ok, then 0 of 0 bytes",
        HEADERS,
    ),
    // IPV6_RECVRTHDR
    no_ip("SOL_IPV6 56", "get 0, set ok, byte EINVAL, nothing EINVAL, then 0", CONTROL),
    // IPV6_RTHDR
    no_ip(
        "SOL_IPV6 57",
        "get 0 of 0 bytes, set EINVAL, byte EINVAL, nothing ok, then 0 of 0 bytes",
        HEADERS,
    ),
    // IPV6_RECVDSTOPTS
    no_ip("SOL_IPV6 58", "get 0, set ok, byte EINVAL, nothing EINVAL, then 0", CONTROL),
    // IPV6_DSTOPTS
    no_ip(
        "SOL_IPV6 59",
        "get 0 of 0 bytes, set EINVAL, byte EINVAL, nothing ok, then 0 of 0 bytes",
        HEADERS,
    ),
    // IPV6_RECVPATHMTU
    no_ip("SOL_IPV6 60", "get 0, set ok, byte EINVAL, nothing EINVAL, then 0", CONTROL),
    // IPV6_PATHMTU
    no_ip(
        "SOL_IPV6 61",
        "get EINVAL, set ENOPROTOOPT, byte ENOPROTOOPT, nothing ENOPROTOOPT, then EINVAL",
        HEADERS,
    ),
    // IPV6_RECVTCLASS
    no_ip("SOL_IPV6 66", "get 0, set ok, byte EINVAL, nothing EINVAL, then 0", CONTROL),
    // IPV6_ADDR_PREFERENCES
    no_ip("SOL_IPV6 72", "get 1280, set ok, byte EINVAL, nothing EINVAL, then 1280", ADDRESSES),
    // IPV6_MINHOPCOUNT
    no_ip("SOL_IPV6 73", "get 0, set ok, byte EINVAL, nothing EINVAL, then 0", HEADERS),
    // IPV6_ORIGDSTADDR
    no_ip("SOL_IPV6 74", "get 0, set ok, byte EINVAL, nothing EINVAL, then 0", CONTROL),
    // IPV6_TRANSPARENT
    no_ip("SOL_IPV6 75", "get 0, set ok, byte EINVAL, nothing EINVAL, then 0", ADDRESSES),
    // IPV6_UNICAST_IF
    no_ip("SOL_IPV6 76", "get 0, set ok, byte EINVAL, nothing EINVAL, then 0", ADDRESSES),
    // IPV6_RECVFRAGSIZE
    no_ip("SOL_IPV6 77", "get 0, set ok, byte ok, nothing ok, then 0", CONTROL),
];

/// Needed options (rust/kmod/sock/needed.rs) for which TCP accepts zero: a socket that may use both
/// falls back to TCP.
const fn turn(label: &'static str) -> Turn {
    Turn { label, seen: "get ENOPROTOOPT, set ok, byte EINVAL, nothing EINVAL, then 0" }
}

// TCP_REPAIR, TCP_TX_DELAY
const TCP_TURNS: &[Turn] = &[turn("SOL_TCP 19"), turn("SOL_TCP 37")];

const IP_TURNS: &[Turn] = &[
    // IP_OPTIONS
    Turn {
        label: "SOL_IP 4",
        seen: "get ENOPROTOOPT, set ok, byte ok, nothing ok, then 0 of 0 bytes",
    },
    // IP_TRANSPARENT
    Turn { label: "SOL_IP 19", seen: "get ENOPROTOOPT, set ok, byte ok, nothing EINVAL, then 1" },
    // IP_UNICAST_IF, IP_LOCAL_PORT_RANGE
    turn("SOL_IP 50"),
    turn("SOL_IP 51"),
];

const IPV6_TURNS: &[Turn] = &[
    // IPV6_FLOWINFO_SEND
    turn("SOL_IPV6 33"),
    // IPV6_ADDR_PREFERENCES
    Turn {
        label: "SOL_IPV6 72",
        seen: "get ENOPROTOOPT, set ok, byte EINVAL, nothing EINVAL, then 1280",
    },
    // IPV6_MINHOPCOUNT, IPV6_TRANSPARENT, IPV6_UNICAST_IF
    turn("SOL_IPV6 73"),
    turn("SOL_IPV6 75"),
    turn("SOL_IPV6 76"),
];

pub const CASES: &[Case] = &[
    Case::alone("option_sweep_of_sockets", |t| sweep(t, "SOL_SOCKET", SOL_SOCKET))
        .both_versions()
        .differs(SOCKETS),
    Case::alone("option_sweep_of_tcp", |t| sweep(t, "SOL_TCP", SOL_TCP))
        .both_versions()
        .differs(TCP)
        .turns(TCP_TURNS),
    Case::alone("option_sweep_of_ip", |t| sweep(t, "SOL_IP", SOL_IP))
        .both_versions()
        .differs(IP)
        .turns(IP_TURNS),
    Case::alone("option_sweep_of_ipv6", |t| sweep(t, "SOL_IPV6", SOL_IPV6))
        .only_v6()
        .differs(IPV6)
        .turns(IPV6_TURNS),
    Case::alone("option_sweep_of_ipv6_on_ipv4", |t| sweep(t, "SOL_IPV6", SOL_IPV6)),
];
