// SPDX-License-Identifier: MIT

//! Which way bytes take, why, and what to do about it.

use std::fmt;

use serde::Serialize;

use crate::names;
use crate::socket::{Socket, Transport};
use crate::uapi;

/// A cause: its name, its words, and a remedy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Cause(&'static str, &'static str, &'static str);

macro_rules! causes {
    ($($it:ident $name:literal: $words:literal, $remedy:literal;)*) => {
        $(const $it: Cause = Cause($name, $words, $remedy);)*
    };
}

causes! {
    SHORT "short": "pieces of fewer bytes than the threshold", "net.sdp.zcopy_thresh; a copy of few bytes is cheaper";
    SHORT_OWN "short": "pieces of fewer bytes than the threshold",
        "SDP_ZCOPY_THRESH in the program; a copy of few bytes is cheaper";
    NOWAIT "nowait": "a long send() may not wait for the peer (an event loop)",
        "lend the memory: MSG_ZEROCOPY, io_uring's SEND_ZC or SDP_BORROW";
    MEMORY "memory": "the memory cannot be pinned; to be borrowed, no other program may have it",
        "send from private anonymous memory";
    LIMIT "limit": "memory regions (region_shortages) or memory to pin (pin_failures) have run out",
        "raise net.sdp.zcopy_regions or RLIMIT_MEMLOCK";
    BUSY "busy": "the peer took no offer in time: it did not read, had enough of them, or the call ended",
        "nothing, or let the reader be as fast as the writer";
    OFF "off": "zero copy is off at this end",
        "sysctl net.sdp.zcopy_thresh=262144, and connect again";
    OFF_OWN "off": "zero copy is off at this end",
        "SDP_ZCOPY_THRESH in the program, before it connects or listens";
    EXCEPTED "excepted": "the peer is in net.sdp.zcopy_except",
        "take it out of the list, and connect again";
    DEVICE "device": "the device has too few work requests, or pages in a memory region",
        "lower net.sdp.send_depth, or use another device";
    PEER "peer": "the peer has zero copy off, or takes one offer at a time",
        "sysctl net.sdp.zcopy_thresh=262144 there, and connect again";
    UNREAD "unread": "the peer has zero copy off, or did not wait in a long read lately",
        "nothing, or let the reader wait in recv()";
    SENDER "sender": "the sender's choice, or no reader waited", "sdp_ss --why on the peer's host";
    READ_SHORT "short": "a short read, a look with MSG_PEEK, zero copy off, or memory that cannot be pinned",
        "read at least 8 KiB at a time into memory of the program";
    READ_NOWAIT "nowait": "the peer offered its memory, and the read may not wait (an event loop)",
        "a blocking read takes the offer";

    CHOSEN "chosen": "the program or a rule has chosen TCP", "libsdp.conf(5) has the rules";
    NO_DEVICE "no_device": "no RDMA device here has that address or leads to the peer",
        "sdp_chk names the devices and what is wrong";
    IPSEC "ipsec": "a policy of IPsec demands TCP's packets",
        "ip xfrm policy shows it; RDMA cannot be transformed";
    OPTION "option": "the program has set an option that SDP lacks",
        "a rule of libsdp.conf(5) may say SDP alone";
    PORT "port": "SDP has no such port free", "sdp_ss -a shows which socket has it";
    SHORTAGE "limit": "the device, the memory or the user's share has run out",
        "net.sdp.user_share and net.sdp.mem are the limits";
    SILENT "silent": "the peer did not answer over SDP", "sdp_chk HOST, and load sdp there";
    REFUSED "refused": "no program listens there over SDP, or its host refuses (hellos_refused, ipsec_refused)",
        "start the server with sdp_run; sdp_ss -s there";
    REMEMBERED "remembered": "the peer was silent in the last minute, so it was not asked",
        "sdp_ss -P shows for how long; sdp_chk HOST";
    ERROR "error": "SDP has failed", "sdp_chk HOST";
    UNKNOWN "unknown": "the connection has ended, so its settings are gone", "sdp_ss --why while it lives";
}

const COPIES: &str = "copies";

macro_rules! ways {
    ($($direction:literal $way:expr, $counter:literal $($cause:ident)?;)*) => {
        /// Direction, way, counter and cause.
        const WAYS: &[(&str, &str, &str, &[Cause])] =
            &[$(($direction, $way, $counter, &[$($cause)?])),*];
    };
}

ways! {
    "sent" "no copy (Read)", "zcopy_bytes_sent";
    "sent" "no copy (Write)", "written_bytes_sent";
    "sent" "one copy, by the reader", "gathered_bytes_sent" UNREAD;
    "sent" "no copy here (sendfile, splice)", "spliced_bytes";
    "sent" COPIES, "copied_nowait_bytes" NOWAIT;
    "sent" COPIES, "copied_memory_bytes" MEMORY;
    "sent" COPIES, "copied_limit_bytes" LIMIT;
    "sent" COPIES, "copied_busy_bytes" BUSY;
    "sent" COPIES, "copied_off_bytes" OFF;
    "sent" COPIES, "copied_excepted_bytes" EXCEPTED;
    "sent" COPIES, "copied_device_bytes" DEVICE;
    "sent" COPIES, "copied_peer_bytes" PEER;
    "received" "no copy (Read)", "zcopy_bytes_received";
    "received" "no copy (Write)", "written_bytes_received";
    "received" COPIES, "fetched_bytes_received" READ_SHORT;
    "received" COPIES, "declined_bytes" READ_NOWAIT;
}

/// Why a socket is on TCP, by the errno of the fallback.
fn of_errno(reason: u32) -> Cause {
    match reason {
        2 | 19 | 101 => NO_DEVICE,
        12 | 105 => SHORTAGE,
        95 => OPTION,
        98 | 99 => PORT,
        110 | 113 => SILENT,
        111 => REFUSED,
        112 => REMEMBERED,
        _ => ERROR,
    }
}

/// Bytes of one direction with the same way and cause.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(crate) struct Share {
    direction: &'static str,
    way: &'static str,
    bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    cause: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    because: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    remedy: Option<&'static str>,
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "\t {:<8} {:>12} {}",
            self.direction, self.bytes, self.way
        )?;
        if let Some(because) = &self.because {
            write!(f, ": {because}")?;
        }
        self.remedy
            .map_or(Ok(()), |remedy| write!(f, "\n\t{:23}-> {remedy}", ""))
    }
}

fn share(direction: &'static str, way: &'static str, bytes: u64, cause: Option<&Cause>) -> Share {
    Share {
        direction,
        way,
        bytes,
        cause: cause.map(|cause| cause.0),
        because: cause.map(|cause| cause.1.to_owned()),
        remedy: cause.map(|cause| cause.2),
    }
}

/// The shares that counters tell, by their names. Bytes sent that no cause has are for `rest`. A socket has no
/// count of the pages of sendfile() and splice(), so they are in its rest.
fn of_counters(count: impl Fn(&str) -> u64, rest: Share) -> Vec<Share> {
    let is_cause = |name: &&str| {
        name.starts_with("copied_") && name.ends_with("_bytes") || *name == "spliced_bytes"
    };
    let names = WAYS.iter().map(|(_, _, name, _)| *name);
    let counted: u64 = names.filter(is_cause).map(&count).sum();
    // Causes are counted when bytes are copied, and the sum when they leave.
    let sent = count("bcopy_bytes_sent").saturating_add(count("copied_bytes_written"));
    let received = count("bcopy_bytes_received").saturating_sub(count("declined_bytes"));
    let rest = Share {
        bytes: sent.saturating_sub(counted),
        ..rest
    };
    let mut shares: Vec<_> = WAYS
        .iter()
        .map(|(direction, way, name, cause)| share(direction, way, count(name), cause.first()))
        .chain([rest, share("received", COPIES, received, Some(&SENDER))])
        .filter(|share| share.bytes > 0)
        .collect();
    shares.sort_by_key(|share| share.direction != "sent");
    shares
}

fn of_tcp(socket: &Socket) -> Vec<Share> {
    let cause = match socket.reason {
        0 => CHOSEN,
        _ if socket.cause == uapi::SDP_CAUSE_IPSEC => IPSEC,
        reason => of_errno(reason),
    };
    let both = [("sent", socket.tcp_sent), ("received", socket.tcp_received)];
    let mut shares = both.map(|(direction, bytes)| share(direction, "TCP", bytes, Some(&cause)));
    for because in shares.iter_mut().filter_map(|share| share.because.as_mut()) {
        if socket.reason != 0 {
            *because = format!("{because} ({})", names::errno(socket.reason));
        }
    }
    shares.into()
}

/// The shares of a socket.
pub(crate) fn of_socket(socket: &Socket) -> Vec<Share> {
    if socket.state == names::LISTEN {
        return Vec::new();
    }
    if socket.transport == Transport::Tcp {
        return of_tcp(socket);
    }
    let (short, off, owner) = if socket.own_threshold {
        (SHORT_OWN, OFF_OWN, "the program's")
    } else {
        (SHORT, OFF, "the namespace's")
    };
    let rest = match socket.cause {
        _ if socket.state == names::CLOSE => UNKNOWN,
        uapi::SDP_CAUSE_OFF => off,
        uapi::SDP_CAUSE_EXCEPTED => EXCEPTED,
        uapi::SDP_CAUSE_DEVICE => DEVICE,
        uapi::SDP_CAUSE_PEER => PEER,
        _ => short,
    };
    let mut rest = share("sent", COPIES, 0, Some(&rest));
    if let (Some(threshold), true) = (socket.threshold, rest.cause == Some("short")) {
        rest.because = Some(format!("{} ({owner}: {threshold})", short.1));
    }
    let count = |wanted: &str| {
        let mut all = socket.traffic();
        all.find(|(name, _)| *name == wanted).map_or(0, |(_, n)| n)
    };
    of_counters(count, rest)
}

/// The shares of a namespace, by its counters, and by its sockets on TCP that exist.
pub(crate) fn of_namespace(count: impl Fn(&str) -> u64, tcp: Vec<Share>) -> Vec<Share> {
    let mut shares = of_counters(count, share("sent", COPIES, 0, Some(&SHORT)));
    for one in tcp {
        let is_same =
            |share: &&mut Share| (share.direction, &share.because) == (one.direction, &one.because);
        match shares.iter_mut().find(is_same) {
            Some(share) => share.bytes = share.bytes.saturating_add(one.bytes),
            None => shares.push(one),
        }
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    fn socket(counted: &[(&str, u64)]) -> Socket {
        let value = |name: &&str| {
            counted
                .iter()
                .find(|(n, _)| n == name)
                .map_or(0, |(_, n)| *n)
        };
        Socket {
            traffic: uapi::TRAFFIC.iter().map(value).collect(),
            threshold: Some(8192),
            ..Socket::default()
        }
    }

    fn brief(shares: &[Share]) -> Vec<(&str, u64, Option<&str>)> {
        let brief = |share: &Share| (share.way, share.bytes, share.cause);
        shares.iter().map(brief).collect()
    }

    #[test]
    fn what_no_cause_has_is_short() {
        let mut socket = socket(&[
            ("bcopy_bytes_sent", 1000),
            ("copied_nowait_bytes", 700),
            ("zcopy_bytes_sent", 5),
            ("bcopy_bytes_received", 30),
            ("declined_bytes", 10),
        ]);
        let shares = of_socket(&socket);
        let expected = [
            ("no copy (Read)", 5, None),
            (COPIES, 700, Some("nowait")),
            (COPIES, 300, Some("short")),
            (COPIES, 10, Some("nowait")),
            (COPIES, 20, Some("sender")),
        ];
        assert_eq!(brief(&shares), expected);
        let text = shares.iter().map(ToString::to_string).collect::<String>();
        assert!(text.contains("(the namespace's: 8192)"), "{text}");
        socket.state = names::CLOSE;
        assert!(brief(&of_socket(&socket)).contains(&(COPIES, 300, Some("unknown"))));
        socket.state = 0;
        // All is copied for one cause.
        socket.cause = 4;
        assert!(brief(&of_socket(&socket)).contains(&(COPIES, 300, Some("peer"))));
        // Bytes that have not left.
        socket = super::tests::socket(&[("bcopy_bytes_sent", 1), ("copied_busy_bytes", 9)]);
        assert_eq!(brief(&of_socket(&socket)), [(COPIES, 9, Some("busy"))]);
    }

    #[test]
    fn pages_of_files_are_not_copied_here() {
        let count = |name: &str| match name {
            "bcopy_bytes_sent" => 1000,
            "spliced_bytes" => 900,
            _ => 0,
        };
        let expected = [
            ("no copy here (sendfile, splice)", 900, None),
            (COPIES, 100, Some("short")),
        ];
        assert_eq!(brief(&of_namespace(count, Vec::new())), expected);
    }

    #[test]
    fn tcp_has_the_kernels_bytes_and_the_errno() {
        let mut socket = socket(&[]);
        (socket.transport, socket.reason) = (Transport::Tcp, 101);
        (socket.tcp_sent, socket.tcp_received) = (7, 8);
        let both = |cause| [("TCP", 7, Some(cause)), ("TCP", 8, Some(cause))];
        let first = of_socket(&socket);
        assert_eq!(brief(&first), both("no_device"));
        assert!(first
            .iter()
            .all(|s| s.to_string().contains("(ENETUNREACH)")));
        socket.cause = uapi::SDP_CAUSE_IPSEC;
        assert_eq!(brief(&of_socket(&socket)), both("ipsec"));
        let sum = of_namespace(|_| 0, [first.clone(), first].concat());
        let twice = [
            ("TCP", 14, Some("no_device")),
            ("TCP", 16, Some("no_device")),
        ];
        assert_eq!(brief(&sum), twice);
    }
}
