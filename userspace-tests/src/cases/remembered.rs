// SPDX-License-Identifier: MIT
//! Options without an effect on SDP, which are stored as in TCP.

use libc::{c_int, SOL_SOCKET, SOL_TCP};

use crate::case::{Case, Difference};
use crate::errno::Res;
use crate::role::Role;
use crate::sock::Sock;
use crate::world::Ip;

const SO_RCVMARK: c_int = 75;
const SO_RCVPRIORITY: c_int = 82;
const TCP_NOTSENT_LOWAT: c_int = 25;
const TCP_SAVE_SYN: c_int = 27;
const IPV6_AUTOFLOWLABEL: c_int = 70;

/// The option at first, and after each value it is set to, valid or not.
fn walk(t: &Role, sock: &Sock, level: c_int, option: c_int, values: &[c_int]) {
    t.see("at first", sock.get(level, option));
    for value in values {
        t.see(&format!("set {value}"), sock.set(level, option, value));
        t.see(&format!("after {value}"), sock.get(level, option));
    }
}

/// The name in `TCP_CONGESTION`.
fn congestion(sock: &Sock) -> Res<String> {
    let name = sock.get_as(SOL_TCP, libc::TCP_CONGESTION, [0xff_u8; 16])?;
    let text = name.split(|byte| *byte == 0).next().unwrap_or(&name);
    Ok(String::from_utf8_lossy(text).into_owned())
}

/// The options of a listener that its connections inherit.
fn furnish(listener: &Sock) {
    for option in [libc::SO_RCVTIMEO, libc::SO_SNDTIMEO] {
        listener.set_timeout(option, 77_500).expect("a limit");
    }
    listener.set_linger(true, 7).expect("SO_LINGER");
    for (level, option, value) in INHERITED {
        listener.set(*level, *option, value).expect("an option");
    }
    listener.set(SOL_TCP, libc::TCP_CONGESTION, b"reno").expect("TCP_CONGESTION");
}

const INHERITED: &[(c_int, c_int, c_int)] = &[
    (SOL_SOCKET, libc::SO_PRIORITY, 6),
    (SOL_SOCKET, libc::SO_MARK, 5),
    (SOL_SOCKET, libc::SO_KEEPALIVE, 1),
    (SOL_SOCKET, libc::SO_OOBINLINE, 1),
    (SOL_SOCKET, libc::SO_RCVLOWAT, 3),
    (SOL_SOCKET, libc::SO_BUSY_POLL, 9),
    (SOL_SOCKET, libc::SO_MAX_PACING_RATE, 100_000_000),
    (SOL_SOCKET, libc::SO_TIMESTAMP, 1),
    (SOL_SOCKET, libc::SO_RXQ_OVFL, 1),
    (SOL_SOCKET, libc::SO_SELECT_ERR_QUEUE, 1),
    (SOL_SOCKET, libc::SO_PREFER_BUSY_POLL, 1),
    (SOL_SOCKET, SO_RCVMARK, 1),
    (SOL_SOCKET, SO_RCVPRIORITY, 1),
    (SOL_SOCKET, libc::SO_TIMESTAMPING, libc::SOF_TIMESTAMPING_SOFTWARE as c_int),
    (SOL_SOCKET, libc::SO_NOFCS, 1),
    (SOL_TCP, libc::TCP_NODELAY, 1),
    (SOL_TCP, libc::TCP_CORK, 1),
    (SOL_TCP, libc::TCP_KEEPIDLE, 777),
    (SOL_TCP, libc::TCP_KEEPINTVL, 111),
    (SOL_TCP, libc::TCP_KEEPCNT, 4),
    (SOL_TCP, libc::TCP_SYNCNT, 3),
    (SOL_TCP, libc::TCP_LINGER2, 30),
    (libc::SOL_IP, libc::IP_TOS, 0x10),
    (libc::SOL_IP, libc::IP_TTL, 33),
];

fn see_inherited(t: &Role, sock: &Sock) {
    let zero = libc::timeval { tv_sec: 0, tv_usec: 0 };
    for option in [libc::SO_RCVTIMEO, libc::SO_SNDTIMEO] {
        let limit = sock.get_as(SOL_SOCKET, option, zero).expect("a limit");
        t.see(&format!("limit {option}"), (limit.tv_sec, limit.tv_usec));
    }
    let off = libc::linger { l_onoff: -1, l_linger: -1 };
    let linger = sock.get_as(SOL_SOCKET, libc::SO_LINGER, off).expect("SO_LINGER");
    t.see("linger", (linger.l_onoff, linger.l_linger));
    for (level, option, _) in INHERITED {
        t.see(&format!("option {option} of level {level}"), sock.get(*level, *option));
    }
    t.see("congestion", congestion(sock));
}

/// Offsets in `struct tcp_info`.
const RTT: usize = 68;
const RTT_VARIATION: usize = 72;
const RTT_SHORTEST: usize = 148;
const BYTES_RECEIVED: usize = 128;
/// Two numbers of 32 bits: sent and received.
const SEGMENTS: usize = 136;
const BYTES_SENT: usize = 200;
const BYTES_SENT_AGAIN: usize = 208;

/// Whether `TCP_INFO` reports plausible round trips.
fn measured(sock: &Sock) -> bool {
    let most = 60_000_000;
    let (smoothed, shortest) = (info_u32(sock, RTT), info_u32(sock, RTT_SHORTEST));
    (1..most).contains(&smoothed)
        && (1..most).contains(&shortest)
        && info_u32(sock, RTT_VARIATION) < most
}

/// Sent bytes of the stream; TCP counts retransmitted bytes again.
fn sent_once(sock: &Sock) -> Option<u64> {
    Some(info_u64(sock, BYTES_SENT)? - info_u64(sock, BYTES_SENT_AGAIN)?)
}

fn info_u32(sock: &Sock, offset: usize) -> u32 {
    let both = info_u64(sock, offset).expect("TCP_INFO");
    // The first of the two.
    u32::from_ne_bytes(both.to_ne_bytes()[..4].try_into().expect("four of eight bytes"))
}

fn info_u64(sock: &Sock, offset: usize) -> Option<u64> {
    let mut info = [0_u8; 256];
    let mut len = 256;
    sock.get_raw(SOL_TCP, libc::TCP_INFO, info.as_mut_ptr().cast(), &raw mut len).ok()?;
    let bytes = info.get(offset..offset + 8)?;
    Some(u64::from_ne_bytes(bytes.try_into().ok()?))
}

pub const CASES: &[Case] = &[
    Case::alone("remembered_tcp_syncnt", |t| {
        walk(t, &t.socket(), SOL_TCP, libc::TCP_SYNCNT, &[0, 1, 127, 128, -1]);
    }),
    Case::alone("remembered_tcp_linger2", |t| {
        walk(t, &t.socket(), SOL_TCP, libc::TCP_LINGER2, &[0, 30, 1000, -7]);
    }),
    Case::alone("remembered_tcp_defer_accept", |t| {
        walk(t, &t.socket(), SOL_TCP, libc::TCP_DEFER_ACCEPT, &[1, 2, 10, 100, 100_000, 0, -1]);
    }),
    Case::alone("remembered_tcp_window_clamp", |t| {
        walk(t, &t.socket(), SOL_TCP, libc::TCP_WINDOW_CLAMP, &[1, 5000, 0]);
    }),
    Case::alone("remembered_tcp_user_timeout", |t| {
        walk(t, &t.socket(), SOL_TCP, libc::TCP_USER_TIMEOUT, &[30_000, 0, -1]);
    }),
    Case::alone("remembered_tcp_notsent_lowat", |t| {
        walk(t, &t.socket(), SOL_TCP, TCP_NOTSENT_LOWAT, &[16_384, 0]);
    }),
    Case::alone("remembered_tcp_thin_linear_timeouts", |t| {
        walk(t, &t.socket(), SOL_TCP, libc::TCP_THIN_LINEAR_TIMEOUTS, &[1, 2, -1, 0]);
    }),
    Case::alone("remembered_tcp_thin_dupack", |t| {
        walk(t, &t.socket(), SOL_TCP, libc::TCP_THIN_DUPACK, &[1, 2, 0]);
    }),
    Case::alone("remembered_tcp_save_syn", |t| {
        walk(t, &t.socket(), SOL_TCP, TCP_SAVE_SYN, &[1, 2, 3, 0]);
    }),
    Case::alone("remembered_tcp_maxseg", |t| {
        walk(t, &t.socket(), SOL_TCP, libc::TCP_MAXSEG, &[87, 88, 1000, 32_767, 32_768, 0]);
    }),
    Case::alone("remembered_ip_ttl", |t| {
        walk(t, &t.socket(), libc::SOL_IP, libc::IP_TTL, &[1, 255, 0, 256, -2, -1]);
    }),
    Case::alone("remembered_ip_tos", |t| {
        walk(t, &t.socket(), libc::SOL_IP, libc::IP_TOS, &[1, 0x10, 0xff, 256, -1, 0]);
    })
    .both_versions(),
    Case::alone("remembered_ipv6_tclass", |t| {
        let sock = t.socket();
        walk(t, &sock, libc::SOL_IPV6, libc::IPV6_TCLASS, &[1, 0x10, 0xff, 256, -2, 0x20]);
        t.see("the other", sock.get(libc::SOL_IP, libc::IP_TOS));
        t.see("default", sock.set(libc::SOL_IPV6, libc::IPV6_TCLASS, &-1));
        t.see("is", sock.get(libc::SOL_IPV6, libc::IPV6_TCLASS));
    })
    .both_versions(),
    Case::alone("remembered_ip_minttl", |t| {
        walk(t, &t.socket(), libc::SOL_IP, libc::IP_MINTTL, &[200, 255, 256, -1, 0]);
    }),
    Case::alone("remembered_ip_mtu_discover", |t| {
        walk(t, &t.socket(), libc::SOL_IP, libc::IP_MTU_DISCOVER, &[0, 1, 2, 3, 4, 5, 6, -1]);
    }),
    Case::alone("remembered_ip_recverr", |t| {
        walk(t, &t.socket(), libc::SOL_IP, libc::IP_RECVERR, &[5, 0, -1]);
    }),
    Case::alone("remembered_ip_freebind", |t| {
        walk(t, &t.socket(), libc::SOL_IP, libc::IP_FREEBIND, &[5, 0, -1]);
    }),
    Case::alone("remembered_ip_bind_address_no_port", |t| {
        walk(t, &t.socket(), libc::SOL_IP, libc::IP_BIND_ADDRESS_NO_PORT, &[5, 0, -1]);
    }),
    Case::alone("remembered_ipv6_unicast_hops", |t| {
        if t.ip == Ip::V6 {
            walk(t, &t.socket(), libc::SOL_IPV6, libc::IPV6_UNICAST_HOPS, &[0, 255, 256, -2, -1]);
        } else {
            t.see("on IPv4", t.socket().set(libc::SOL_IPV6, libc::IPV6_UNICAST_HOPS, &1));
        }
    })
    .both_versions(),
    Case::alone("remembered_ipv6_mtu_discover", |t| {
        if t.ip == Ip::V6 {
            walk(t, &t.socket(), libc::SOL_IPV6, libc::IPV6_MTU_DISCOVER, &[0, 5, 6, -1]);
        } else {
            t.see("on IPv4", t.socket().set(libc::SOL_IPV6, libc::IPV6_MTU_DISCOVER, &1));
        }
    })
    .both_versions(),
    Case::alone("remembered_ipv6_recverr", |t| {
        if t.ip == Ip::V6 {
            walk(t, &t.socket(), libc::SOL_IPV6, libc::IPV6_RECVERR, &[5, 0, -1]);
        } else {
            t.see("on IPv4", t.socket().set(libc::SOL_IPV6, libc::IPV6_RECVERR, &1));
        }
    })
    .both_versions(),
    Case::alone("remembered_ipv6_dontfrag", |t| {
        if t.ip == Ip::V6 {
            walk(t, &t.socket(), libc::SOL_IPV6, libc::IPV6_DONTFRAG, &[5, 0, -1]);
        } else {
            t.see("on IPv4", t.socket().set(libc::SOL_IPV6, libc::IPV6_DONTFRAG, &1));
        }
    })
    .both_versions(),
    Case::alone("remembered_ipv6_freebind", |t| {
        if t.ip == Ip::V6 {
            walk(t, &t.socket(), libc::SOL_IPV6, libc::IPV6_FREEBIND, &[5, 0, -1]);
        } else {
            t.see("on IPv4", t.socket().set(libc::SOL_IPV6, libc::IPV6_FREEBIND, &1));
        }
    })
    .both_versions(),
    Case::alone("remembered_options_of_the_ip_stack", |t| {
        for (name, option, values) in [
            ("SO_PRIORITY", libc::SO_PRIORITY, [6, 7, 0]),
            ("SO_MARK", libc::SO_MARK, [5, -1, 0]),
            ("SO_MAX_PACING_RATE", libc::SO_MAX_PACING_RATE, [100_000, 0, -1]),
            ("SO_BUSY_POLL", libc::SO_BUSY_POLL, [50, 0, -1]),
            ("SO_TIMESTAMP", libc::SO_TIMESTAMP, [1, 5, 0]),
            ("SO_TIMESTAMPNS", libc::SO_TIMESTAMPNS, [1, 5, 0]),
            ("SO_INCOMING_NAPI_ID", libc::SO_INCOMING_NAPI_ID, [1, 0, -1]),
        ] {
            t.see("of", name);
            walk(t, &t.socket(), SOL_SOCKET, option, &values);
        }
    })
    .both_versions(),
    Case::alone("remembered_tcp_congestion", |t| {
        let sock = t.socket();
        t.see("at first", congestion(&sock));
        for name in [&b"cubic"[..], b"reno\0and more", b"no such name", b"", b"cubic\0"] {
            let set = sock.set_raw(
                SOL_TCP,
                libc::TCP_CONGESTION,
                name.as_ptr().cast(),
                name.len() as libc::socklen_t,
            );
            t.see(&format!("set {name:?}"), set);
            t.see(&format!("after {name:?}"), congestion(&sock));
        }
        let nowhere = sock.set_raw(SOL_TCP, libc::TCP_CONGESTION, std::ptr::null(), 5);
        t.err("set from null", nowhere, libc::EFAULT);
        t.see("cut", sock.get_as(SOL_TCP, libc::TCP_CONGESTION, [0_u8; 3]).map(|n| n.to_vec()));
    })
    .both_versions()
    .differs(&[Difference {
        label: "at first",
        tcp: "cubic",
        sdp: "rdma",
        reason: "the transport of the device regulates the flow",
    }]),
    Case::alone("remembered_filters_are_refused", |t| {
        // struct sock_fprog with one instruction: return all of the packet.
        let accept = [0x06_u64 | (u64::from(u32::MAX) << 32)];
        let program = (1_u64, accept.as_ptr());
        let sock = t.socket();
        t.see("attach", sock.set(SOL_SOCKET, libc::SO_ATTACH_FILTER, &program));
        t.see("attach what is none", sock.set(SOL_SOCKET, libc::SO_ATTACH_FILTER, &(0_u64, 0_u64)));
        t.see("attach no program", sock.set(SOL_SOCKET, libc::SO_ATTACH_BPF, &-1_i32));
        t.see("detach", sock.set(SOL_SOCKET, libc::SO_DETACH_FILTER, &0));
        t.err("detach again", sock.set(SOL_SOCKET, libc::SO_DETACH_FILTER, &0), libc::ENOENT);
    })
    .differs(&[
        Difference {
            label: "attach",
            tcp: "ok",
            sdp: "EOPNOTSUPP",
            reason: "there is no packet that a filter could look at",
        },
        Difference { label: "detach", tcp: "ok", sdp: "ENOENT", reason: "none has been attached" },
    ]),
    Case::connected(
        "remembered_tcp_window_clamp_of_a_connection",
        |t, s| t.err("none", s.set(SOL_TCP, libc::TCP_WINDOW_CLAMP, &0), libc::EINVAL),
        |_, _| {},
    ),
    Case::alone("remembered_options_without_a_value", |t| {
        let sock = t.socket();
        let nothing = |level, option| sock.set_raw(level, option, std::ptr::null(), 0);
        for (name, option) in [
            ("IP_TOS", libc::IP_TOS),
            ("IP_TTL", libc::IP_TTL),
            ("IP_MINTTL", libc::IP_MINTTL),
            ("IP_MTU_DISCOVER", libc::IP_MTU_DISCOVER),
            ("IP_RECVERR", libc::IP_RECVERR),
            ("IP_FREEBIND", libc::IP_FREEBIND),
            ("IP_BIND_ADDRESS_NO_PORT", libc::IP_BIND_ADDRESS_NO_PORT),
        ] {
            sock.set(libc::SOL_IP, option, &1).expect("set");
            t.see(&format!("{name} of nothing"), nothing(libc::SOL_IP, option));
            t.see(name, sock.get(libc::SOL_IP, option));
        }
        for (name, option) in [
            ("IPV6_DONTFRAG", libc::IPV6_DONTFRAG),
            ("IPV6_AUTOFLOWLABEL", IPV6_AUTOFLOWLABEL),
            ("IPV6_TCLASS", libc::IPV6_TCLASS),
            ("IPV6_V6ONLY", libc::IPV6_V6ONLY),
            ("IPV6_RECVERR", libc::IPV6_RECVERR),
            ("IPV6_FREEBIND", libc::IPV6_FREEBIND),
            ("IPV6_MTU_DISCOVER", libc::IPV6_MTU_DISCOVER),
            ("IPV6_UNICAST_HOPS", libc::IPV6_UNICAST_HOPS),
        ] {
            t.see(&format!("{name} on"), sock.set(libc::SOL_IPV6, option, &1));
            t.see(&format!("{name} of nothing"), nothing(libc::SOL_IPV6, option));
            t.see(&format!("{name} of a byte"), sock.set(libc::SOL_IPV6, option, &1_u8));
            t.see(name, sock.get(libc::SOL_IPV6, option));
        }
        for (name, option) in [("TCP_NODELAY", libc::TCP_NODELAY), ("TCP_SYNCNT", libc::TCP_SYNCNT)]
        {
            t.see(&format!("{name} of nothing"), nothing(SOL_TCP, option));
        }
    })
    .both_versions(),
    Case::connected(
        "remembered_round_trips_are_told_by_tcp_info",
        |t, s| {
            for _ in 0..20 {
                let asked = t.recv_exactly(s, 100);
                t.send_all(s, &asked);
            }
            t.meet("both have sent");
            t.holds("measured", t.until(|| measured(s)));
        },
        |t, s| {
            for _ in 0..20 {
                t.send_all(s, &[7; 100]);
                t.recv_exactly(s, 100);
            }
            t.meet("both have sent");
            t.holds("measured", t.until(|| measured(s)));
        },
    )
    .both_versions(),
    Case::connected(
        "remembered_bytes_are_told_by_tcp_info",
        |t, s| {
            t.recv_exactly(s, 30_000);
            t.eq("received", info_u64(s, BYTES_RECEIVED), Some(30_000));
            t.holds("messages", info_u64(s, SEGMENTS).is_some_and(|both| both >> 32 > 0));
            t.say("received");
        },
        |t, s| {
            t.send_all(s, &[7; 30_000]);
            t.wait("received");
            t.eq("sent", sent_once(s), Some(30_000));
        },
    ),
    Case::two(
        "remembered_options_are_inherited",
        |t| {
            let listener = t.bound();
            listener.set(SOL_TCP, libc::TCP_USER_TIMEOUT, &4321).expect("set");
            listener.set(SOL_TCP, TCP_NOTSENT_LOWAT, &5555).expect("set");
            listener.set(libc::SOL_IP, libc::IP_MINTTL, &0).expect("set");
            listener.listen(1).expect("listen");
            t.tell("port", t.port_of(&listener));
            let sock = listener.accept().expect("accept");
            t.eq("user timeout", sock.get(SOL_TCP, libc::TCP_USER_TIMEOUT), Ok(4321));
            t.eq("not sent", sock.get(SOL_TCP, TCP_NOTSENT_LOWAT), Ok(5555));
            t.eq("data", t.recv_exactly(&sock, 1), b"x".to_vec());
        },
        |t| {
            let sock = t.connect_told();
            t.send_all(&sock, b"x");
        },
    ),
    Case::two(
        "remembered_options_are_inherited_from_every_level",
        |t| {
            let listener = t.bound();
            furnish(&listener);
            listener.listen(1).expect("listen");
            t.tell("port", t.port_of(&listener));
            let sock = listener.accept().expect("accept");
            see_inherited(t, &sock);
            t.eq("data", t.recv_exactly(&sock, 3), b"xyz".to_vec());
        },
        |t| {
            let sock = t.connect_told();
            t.send_all(&sock, b"xyz");
        },
    )
    .both_versions(),
    Case::connected(
        "remembered_options_can_be_set_on_a_connection",
        |t, s| {
            for option in [libc::TCP_USER_TIMEOUT, TCP_NOTSENT_LOWAT, libc::TCP_SYNCNT] {
                t.ok("set", s.set(SOL_TCP, option, &77));
                t.eq("get", s.get(SOL_TCP, option), Ok(77));
            }
            t.ok("set congestion", s.set(SOL_TCP, libc::TCP_CONGESTION, b"cubic"));
            t.eq("congestion", congestion(s), Ok("cubic".to_string()));
            t.send_all(s, b"x");
        },
        |t, s| t.eq("data", t.recv_exactly(s, 1), b"x".to_vec()),
    ),
];
