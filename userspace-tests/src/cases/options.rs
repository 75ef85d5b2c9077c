// SPDX-License-Identifier: MIT
//! `setsockopt`, `getsockopt`, `ioctl` and `fcntl`.

use std::fs;
use std::ptr;

use libc::{
    c_int, socklen_t, EFAULT, EINVAL, ENOPROTOOPT, SOL_SOCKET, SOL_TCP, SO_LINGER, SO_RCVTIMEO,
    SO_SNDTIMEO,
};

use crate::case::{Case, Difference};
use crate::errno::{checked_unit, Errno};
use crate::netns::{self, Sysctl};
use crate::role::{Role, SIOCATMARK, SIOCINQ, SIOCOUTQ};
use crate::sock::{Sock, TCP_CLOSE, TCP_CLOSE_WAIT, TCP_ESTABLISHED, TCP_FIN_WAIT2, TCP_LISTEN};
use crate::uapi;
use crate::world::Family;

const NO_FASTOPEN: &str = "no data goes with the first message of an SDP connection";
/// The number of an option that no longer exists.
const GONE: c_int = 88;
const OWN_OPTION: &str = "the option belongs to the family";

fn switch(t: &Role, name: &str, sock: &Sock, level: c_int, option: c_int) {
    t.eq(&format!("{name} at first"), sock.get(level, option), Ok(0));
    t.ok(&format!("{name} on"), sock.set(level, option, &1));
    t.eq(&format!("{name} is on"), sock.get(level, option), Ok(1));
    t.ok(&format!("{name} off"), sock.set(level, option, &0));
    t.eq(&format!("{name} is off"), sock.get(level, option), Ok(0));
}

fn processors() -> c_int {
    // SAFETY: no memory is involved.
    unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) as c_int }
}

pub const CASES: &[Case] = &[
    Case::alone("option_type_domain_and_protocol", |t| {
        let sock = t.socket();
        t.eq("SO_TYPE", sock.get(SOL_SOCKET, libc::SO_TYPE), Ok(libc::SOCK_STREAM));
        t.see("SO_DOMAIN", sock.get(SOL_SOCKET, libc::SO_DOMAIN));
        t.eq("SO_PROTOCOL", sock.get(SOL_SOCKET, libc::SO_PROTOCOL), Ok(libc::IPPROTO_TCP));
        for option in [libc::SO_TYPE, libc::SO_DOMAIN, libc::SO_PROTOCOL] {
            t.err("set", sock.set(SOL_SOCKET, option, &1), ENOPROTOOPT);
        }
    })
    .differs(&[Difference {
        label: "SO_DOMAIN",
        tcp: "2",
        sdp: "27",
        reason: "the kernel reports the family the socket was made with",
    }]),
    Case::alone("option_acceptconn_is_set_while_listening", |t| {
        let sock = t.bound();
        t.eq("bound", sock.get(SOL_SOCKET, libc::SO_ACCEPTCONN), Ok(0));
        sock.listen(1).expect("listen");
        t.eq("listening", sock.get(SOL_SOCKET, libc::SO_ACCEPTCONN), Ok(1));
        let (server, client) = t.own_pair();
        t.eq("accepted", server.get(SOL_SOCKET, libc::SO_ACCEPTCONN), Ok(0));
        t.eq("connected", client.get(SOL_SOCKET, libc::SO_ACCEPTCONN), Ok(0));
    })
    .both_versions(),
    Case::alone("option_switches_keep_their_setting", |t| {
        let sock = t.socket();
        switch(t, "SO_REUSEADDR", &sock, SOL_SOCKET, libc::SO_REUSEADDR);
        switch(t, "SO_KEEPALIVE", &sock, SOL_SOCKET, libc::SO_KEEPALIVE);
        switch(t, "SO_OOBINLINE", &sock, SOL_SOCKET, libc::SO_OOBINLINE);
        switch(t, "SO_DONTROUTE", &sock, SOL_SOCKET, libc::SO_DONTROUTE);
        switch(t, "TCP_NODELAY", &sock, SOL_TCP, libc::TCP_NODELAY);
        switch(t, "TCP_CORK", &sock, SOL_TCP, libc::TCP_CORK);
    })
    .both_versions(),
    Case::connected(
        "option_switches_work_on_a_connection",
        |t, s| {
            switch(t, "SO_KEEPALIVE", s, SOL_SOCKET, libc::SO_KEEPALIVE);
            switch(t, "TCP_NODELAY", s, SOL_TCP, libc::TCP_NODELAY);
            switch(t, "TCP_CORK", s, SOL_TCP, libc::TCP_CORK);
            t.send_all(s, b"x");
        },
        |t, s| t.eq("data", t.recv_exactly(s, 1), b"x".to_vec()),
    ),
    Case::alone("option_keepalive_times_keep_their_setting", |t| {
        let sock = t.socket();
        for (name, option, value) in [
            ("TCP_KEEPIDLE", libc::TCP_KEEPIDLE, 77),
            ("TCP_KEEPINTVL", libc::TCP_KEEPINTVL, 11),
            ("TCP_KEEPCNT", libc::TCP_KEEPCNT, 4),
        ] {
            t.ok(&format!("set {name}"), sock.set(SOL_TCP, option, &value));
            t.eq(name, sock.get(SOL_TCP, option), Ok(value));
            t.err(&format!("zero {name}"), sock.set(SOL_TCP, option, &0), EINVAL);
        }
    }),
    Case::alone("option_linger_keeps_both_numbers", |t| {
        let sock = t.socket();
        let read = |label: &str| {
            let off = libc::linger { l_onoff: -1, l_linger: -1 };
            let linger = sock.get_as(SOL_SOCKET, SO_LINGER, off).expect("SO_LINGER");
            t.see(label, (linger.l_onoff, linger.l_linger));
            linger
        };
        t.eq("at first on", read("at first").l_onoff, 0);
        t.ok("set 7 seconds", sock.set_linger(true, 7));
        let linger = read("set");
        t.eq("on", linger.l_onoff, 1);
        t.eq("seconds", linger.l_linger, 7);
        t.ok("set off", sock.set_linger(false, 0));
        t.eq("off", read("off").l_onoff, 0);
        t.err("short", sock.set(SOL_SOCKET, SO_LINGER, &1), EINVAL);
    }),
    Case::alone("option_buffer_sizes_are_doubled_and_bounded", |t| {
        for (name, option) in [("SO_SNDBUF", libc::SO_SNDBUF), ("SO_RCVBUF", libc::SO_RCVBUF)] {
            let sock = t.socket();
            t.holds(&format!("{name} at first"), sock.get(SOL_SOCKET, option).unwrap_or(0) > 0);
            t.ok(&format!("set {name}"), sock.set(SOL_SOCKET, option, &40_000));
            t.eq(name, sock.get(SOL_SOCKET, option), Ok(80_000));
            t.ok(&format!("set tiny {name}"), sock.set(SOL_SOCKET, option, &1));
            t.see(&format!("tiny {name}"), sock.get(SOL_SOCKET, option));
            t.ok(&format!("set huge {name}"), sock.set(SOL_SOCKET, option, &c_int::MAX));
            let huge = sock.get(SOL_SOCKET, option).expect("get");
            t.holds(&format!("huge {name} is bounded"), huge > 80_000 && huge < c_int::MAX);
        }
    }),
    Case::alone("option_timeouts_keep_their_setting", |t| {
        let sock = t.socket();
        let zero = libc::timeval { tv_sec: 0, tv_usec: 0 };
        for (name, option) in [("SO_RCVTIMEO", SO_RCVTIMEO), ("SO_SNDTIMEO", SO_SNDTIMEO)] {
            let read = || {
                let limit = sock.get_as(SOL_SOCKET, option, zero).expect("get");
                (limit.tv_sec, limit.tv_usec)
            };
            t.eq(&format!("{name} at first"), read(), (0, 0));
            t.ok(&format!("set {name}"), sock.set_timeout(option, 1500));
            t.eq(name, read(), (1, 500_000));
            let crooked = libc::timeval { tv_sec: 1, tv_usec: 1_000_000 };
            t.err("too many microseconds", sock.set(SOL_SOCKET, option, &crooked), libc::EDOM);
            t.err("short", sock.set(SOL_SOCKET, option, &1), EINVAL);
        }
    }),
    Case::alone("option_rcvlowat_keeps_its_setting", |t| {
        let sock = t.socket();
        t.eq("at first", sock.get(SOL_SOCKET, libc::SO_RCVLOWAT), Ok(1));
        t.ok("set", sock.set(SOL_SOCKET, libc::SO_RCVLOWAT, &100));
        t.eq("set to", sock.get(SOL_SOCKET, libc::SO_RCVLOWAT), Ok(100));
        t.ok("set zero", sock.set(SOL_SOCKET, libc::SO_RCVLOWAT, &0));
        t.eq("zero means", sock.get(SOL_SOCKET, libc::SO_RCVLOWAT), Ok(1));
        t.eq("SO_SNDLOWAT", sock.get(SOL_SOCKET, libc::SO_SNDLOWAT), Ok(1));
        t.err("set SO_SNDLOWAT", sock.set(SOL_SOCKET, libc::SO_SNDLOWAT, &1), ENOPROTOOPT);
    }),
    Case::alone("option_v6only_begins_as_the_namespace_says", |t| {
        let v6only = |t: &Role| t.socket().get(libc::SOL_IPV6, libc::IPV6_V6ONLY);
        t.eq("at first", v6only(t), Ok(0));
        {
            let _setting = Sysctl::set("ipv6/bindv6only", "1");
            t.eq("where it is set", v6only(t), Ok(1));
            let sock = t.socket();
            t.ok("off", sock.set(libc::SOL_IPV6, libc::IPV6_V6ONLY, &0));
            t.eq("is off", sock.get(libc::SOL_IPV6, libc::IPV6_V6ONLY), Ok(0));
        }
        t.eq("after", v6only(t), Ok(0));
    })
    .only_v6()
    .two_hosts(),
    Case::alone("option_error_is_none_and_cannot_be_set", |t| {
        let sock = t.socket();
        t.eq("SO_ERROR", sock.error(), Ok(None));
        t.err("set", sock.set(SOL_SOCKET, libc::SO_ERROR, &0), ENOPROTOOPT);
    }),
    Case::alone("option_that_is_unknown_is_refused", |t| {
        let sock = t.socket();
        for (level, option) in [(SOL_SOCKET, 9999), (SOL_TCP, 9999), (SOL_TCP, -1)] {
            let what = format!("level {level} option {option}");
            t.err(&format!("set {what}"), sock.set(level, option, &1), ENOPROTOOPT);
            t.err(&format!("get {what}"), sock.get(level, option), ENOPROTOOPT);
        }
        t.err("set at no level", sock.set(9999, 1, &1), ENOPROTOOPT);
        t.see("get at no level", sock.get(9999, 1));
    }),
    Case::alone("option_that_only_tcp_can_keep_is_refused", |t| {
        if t.family == Family::Sdp {
            let sock = t.socket();
            for (name, option) in [
                ("TCP_MD5SIG", 14),
                ("TCP_REPAIR", 19),
                ("TCP_FASTOPEN", 23),
                ("TCP_FASTOPEN_CONNECT", 30),
                ("TCP_ULP", 31),
                ("TCP_FASTOPEN_KEY", 33),
                ("TCP_ZEROCOPY_RECEIVE", 35),
                ("TCP_AO_ADD_KEY", 38),
            ] {
                let set = sock.set(SOL_TCP, option, b"tls\0");
                assert_eq!(set, Err(Errno(ENOPROTOOPT)), "set {name}");
                let get = sock.get(SOL_TCP, option);
                assert_eq!(get, Err(Errno(ENOPROTOOPT)), "get {name}");
            }
        }
    }),
    Case::alone("option_msg_fastopen_is_not_for_sdp", |t| {
        let listener = t.listener(1);
        let sock = t.socket();
        let there = t.here(t.port_of(&listener));
        let sent = sock.send_to(b"x", libc::MSG_FASTOPEN, &there);
        t.see("send", sent);
        if sent.is_err() {
            // The socket has not changed.
            sock.connect(&there).expect("connect");
            t.send_all(&sock, b"x");
        }
        let other = listener.accept().expect("accept");
        t.eq("data", t.recv_exactly(&other, 1), b"x".to_vec());
        t.see("once more", sock.send_to(b"y", libc::MSG_FASTOPEN, &there));
    })
    .both_versions()
    .differs(&[
        Difference { label: "send", tcp: "1", sdp: "EOPNOTSUPP", reason: NO_FASTOPEN },
        Difference { label: "once more", tcp: "EISCONN", sdp: "EOPNOTSUPP", reason: NO_FASTOPEN },
    ]),
    Case::connected(
        "option_incoming_cpu_names_a_processor",
        |t, s| {
            t.eq("fresh", t.socket().get(SOL_SOCKET, libc::SO_INCOMING_CPU), Ok(-1));
            let is_one = || {
                let number = s.get(SOL_SOCKET, libc::SO_INCOMING_CPU).expect("SO_INCOMING_CPU");
                (0..processors()).contains(&number)
            };
            // A socket that passes its calls on to TCP learns it with the first bytes.
            assert!(t.family == Family::Companion || is_one(), "connected");
            t.recv_exactly(s, 1);
            t.holds("received", is_one());
        },
        |t, s| t.send_all(s, b"x"),
    )
    .both_versions(),
    Case::alone("option_memory_is_checked", |t| {
        let sock = t.socket();
        let mut len: socklen_t = 4;
        let mut value: c_int = 0;
        for (name, level, option) in [
            ("SO_KEEPALIVE", SOL_SOCKET, libc::SO_KEEPALIVE),
            ("TCP_NODELAY", SOL_TCP, libc::TCP_NODELAY),
        ] {
            t.err(
                &format!("set {name} from null"),
                sock.set_raw(level, option, ptr::null(), 4),
                EFAULT,
            );
            t.err(&format!("set {name} short"), sock.set(level, option, &1_u8), EINVAL);
            let to_null = sock.get_raw(level, option, ptr::null_mut(), &raw mut len);
            t.err(&format!("get {name} to null"), to_null, EFAULT);
            let no_length = sock.get_raw(level, option, (&raw mut value).cast(), ptr::null_mut());
            t.err(&format!("get {name} without length"), no_length, EFAULT);
            let mut negative = -1_i32 as socklen_t;
            let cut = sock.get_raw(level, option, (&raw mut value).cast(), &raw mut negative);
            t.err(&format!("get {name} of negative length"), cut, EINVAL);
            sock.set(level, option, &1).expect("set");
            t.eq(&format!("get {name} into a byte"), sock.get_as(level, option, 0_u8), Ok(1));
            t.eq(&format!("get {name} into eight"), sock.get_as(level, option, 0_u64), Ok(1));
            sock.set(level, option, &0_u64).expect("set from eight bytes");
            t.eq(&format!("get {name} after eight"), sock.get(level, option), Ok(0));
        }
    }),
    Case::alone("option_of_ip_is_read_as_a_byte_into_less_than_an_int", |t| {
        let sock = t.socket();
        sock.set(libc::SOL_IP, libc::IP_TTL, &77).expect("IP_TTL");
        for room in [-1, 0, 1, 2, 3, 4, 8] {
            let (mut value, mut len) = ([0xaa_u8; 8], room as socklen_t);
            let got =
                sock.get_raw(libc::SOL_IP, libc::IP_TTL, value.as_mut_ptr().cast(), &raw mut len);
            t.see(&format!("{room} bytes"), got);
            t.see(&format!("length of {room} bytes"), len as c_int);
            t.see(&format!("value of {room} bytes"), value.to_vec());
        }
    })
    .both_versions(),
    Case::alone("option_of_negative_length_by_level", |t| {
        let sock = t.socket();
        for (level, option) in [
            (SOL_TCP, libc::TCP_NODELAY),
            (SOL_TCP, 9999),
            (libc::SOL_IP, libc::IP_TTL),
            (libc::SOL_IPV6, libc::IPV6_V6ONLY),
            (libc::SOL_IPV6, libc::IPV6_UNICAST_HOPS),
            (libc::SOL_IPV6, 9999),
            (9999, 1),
            (-1, 1),
        ] {
            let (mut value, mut len) = (0 as c_int, -1_i32 as socklen_t);
            let got = sock.get_raw(level, option, (&raw mut value).cast(), &raw mut len);
            t.see(&format!("level {level} option {option}"), got);
            t.see(&format!("length at level {level} option {option}"), len as c_int);
        }
    })
    .both_versions(),
    Case::alone("option_of_spreading_programs_is_checked", |t| {
        let sock = t.socket();
        // A program that returns 0, for listeners that are alone in their group.
        let code = [libc::sock_filter { code: 0x06, jt: 0, jf: 0, k: 0 }];
        let program = libc::sock_fprog { len: 1, filter: code.as_ptr().cast_mut() };
        let attach = |len: usize| {
            let at = (&raw const program).cast();
            sock.set_raw(SOL_SOCKET, libc::SO_ATTACH_REUSEPORT_CBPF, at, len as socklen_t)
        };
        for len in [0, 3, 4, 15, 17] {
            t.err(&format!("classic, {len} bytes"), attach(len), EINVAL);
        }
        let null = |option, len| sock.set_raw(SOL_SOCKET, option, ptr::null(), len);
        t.err("classic, null", null(libc::SO_ATTACH_REUSEPORT_CBPF, 16), EFAULT);
        t.err("extended, null", null(libc::SO_ATTACH_REUSEPORT_EBPF, 4), EFAULT);
        for len in [0, 3, 8] {
            let value = [-1_i32; 2];
            let at = value.as_ptr().cast();
            let set = sock.set_raw(SOL_SOCKET, libc::SO_ATTACH_REUSEPORT_EBPF, at, len);
            t.err(&format!("extended, {len} bytes"), set, EINVAL);
        }
        let detach = || sock.set(SOL_SOCKET, libc::SO_DETACH_REUSEPORT_BPF, &0);
        t.err("detach", detach(), EINVAL);
        sock.set(SOL_SOCKET, libc::SO_REUSEPORT, &1).expect("SO_REUSEPORT");
        t.err("detach with SO_REUSEPORT", detach(), libc::ENOENT);
        t.see("classic", attach(size_of::<libc::sock_fprog>()));
    })
    .differs(&[Difference {
        label: "classic",
        tcp: "ok",
        sdp: "EOPNOTSUPP",
        reason: "no program spreads connections over listeners",
    }]),
    Case::two(
        "option_tcp_info_tells_the_state",
        |t| {
            t.eq("fresh", t.socket().state(), Ok(TCP_CLOSE));
            let listener = t.listener(1);
            t.eq("listening", listener.state(), Ok(TCP_LISTEN));
            t.tell("port", t.port_of(&listener));
            let sock = listener.accept().expect("accept");
            t.eq("accepted", sock.state(), Ok(TCP_ESTABLISHED));
            t.meet("both are connected");
            sock.shutdown(libc::SHUT_WR).expect("shutdown");
            t.wait("end seen");
            t.holds("half closed", t.until(|| sock.state() == Ok(TCP_FIN_WAIT2)));
            t.say("go on");
            t.eq("rest", t.recv_to_end(&sock).len(), 1);
        },
        |t| {
            let sock = t.connect_told();
            t.eq("connected", sock.state(), Ok(TCP_ESTABLISHED));
            t.meet("both are connected");
            t.eq("end", t.recv_to_end(&sock).len(), 0);
            t.eq("peer has closed", sock.state(), Ok(TCP_CLOSE_WAIT));
            t.say("end seen");
            t.wait("go on");
            t.send_all(&sock, b"x");
        },
    )
    .both_versions(),
    Case::connected(
        "option_maxseg_is_known_on_a_connection",
        |t, s| {
            let size = s.get(SOL_TCP, libc::TCP_MAXSEG).expect("TCP_MAXSEG");
            t.holds("positive", size > 0);
        },
        |t, s| {
            let size = s.get(SOL_TCP, libc::TCP_MAXSEG).expect("TCP_MAXSEG");
            t.holds("positive", size > 0);
        },
    ),
    Case::connected(
        "option_tcp_info_is_cut_to_the_room_given",
        |t, s| {
            for room in [1, 8, 100, 4096] {
                let mut info = [0_u8; 4096];
                let mut len = room as socklen_t;
                let got =
                    s.get_raw(SOL_TCP, libc::TCP_INFO, info.as_mut_ptr().cast(), &raw mut len);
                t.ok("get", got);
                t.holds("length", len as usize <= room && len > 0);
                t.eq("state", info[0], TCP_ESTABLISHED);
            }
        },
        |_, _| {},
    ),
    Case::alone("option_family_of_the_names", |t| {
        let sock = t.plain_socket();
        t.see("names at first", sock.get(SOL_TCP, uapi::SDP_SOCK_FAMILY));
        t.see("set names", sock.set(SOL_TCP, uapi::SDP_SOCK_FAMILY, &libc::AF_INET6));
        t.see("names then", sock.get(SOL_TCP, uapi::SDP_SOCK_FAMILY));
        t.see("name", sock.name());
        let other = t.plain_socket();
        t.see("set nonsense", other.set(SOL_TCP, uapi::SDP_SOCK_FAMILY, &libc::AF_UNIX));
    })
    .differs(&[
        Difference { label: "names at first", tcp: "ENOPROTOOPT", sdp: "2", reason: OWN_OPTION },
        Difference { label: "set names", tcp: "ENOPROTOOPT", sdp: "ok", reason: OWN_OPTION },
        Difference { label: "names then", tcp: "ENOPROTOOPT", sdp: "10", reason: OWN_OPTION },
        Difference {
            label: "name",
            tcp: "AF_INET 0.0.0.0",
            sdp: "AF_INET6 ::",
            reason: OWN_OPTION,
        },
        Difference {
            label: "set nonsense",
            tcp: "ENOPROTOOPT",
            sdp: "EAFNOSUPPORT",
            reason: OWN_OPTION,
        },
    ]),
    Case::alone("knob_of_the_zero_copy_threshold_is_a_page_at_least_or_none", |t| {
        const PATH: &str = "/proc/sys/net/sdp/zcopy_thresh";
        if t.family == Family::Sdp {
            let before = fs::read_to_string(PATH).expect("zcopy_thresh");
            for wrong in ["-1", "1", "4095", "1048577"] {
                let refused = fs::write(PATH, wrong).map_err(|e| e.raw_os_error());
                assert_eq!(refused, Err(Some(EINVAL)), "{wrong}");
            }
            assert_eq!(fs::read_to_string(PATH).expect("zcopy_thresh"), before);
            for right in ["0", "4096", "1048576", before.trim()] {
                fs::write(PATH, right).expect("a number that there is");
                assert_eq!(fs::read_to_string(PATH).expect("zcopy_thresh").trim(), right);
            }
        }
    }),
    Case::alone("option_of_the_zero_copy_threshold", |t| {
        let sock = t.socket();
        t.see("threshold", sock.get(SOL_TCP, uapi::SDP_ZCOPY_THRESH));
        t.see("set threshold", sock.set(SOL_TCP, uapi::SDP_ZCOPY_THRESH, &65536));
        t.see("threshold then", sock.get(SOL_TCP, uapi::SDP_ZCOPY_THRESH));
        t.see("less than a page", sock.set(SOL_TCP, uapi::SDP_ZCOPY_THRESH, &4095));
        t.see("too much", sock.set(SOL_TCP, uapi::SDP_ZCOPY_THRESH, &((1 << 20) + 1)));
        t.see("off", sock.set(SOL_TCP, uapi::SDP_ZCOPY_THRESH, &0));
        t.see("threshold at last", sock.get(SOL_TCP, uapi::SDP_ZCOPY_THRESH));
        t.see("less than none", sock.set(SOL_TCP, uapi::SDP_ZCOPY_THRESH, &-1));
        t.see("far less", sock.set(SOL_TCP, uapi::SDP_ZCOPY_THRESH, &i32::MIN));
        t.see("none still", sock.get(SOL_TCP, uapi::SDP_ZCOPY_THRESH));
        t.see("a number that went", sock.get(SOL_TCP, GONE));
        t.see("set it", sock.set(SOL_TCP, GONE, &1));
        t.see("writers", sock.set(SOL_TCP, uapi::SDP_ZCOPY_SOURCE_THRESH, &8192));
        t.see("readers", sock.set(SOL_TCP, uapi::SDP_ZCOPY_SINK_THRESH, &16384));
        t.see("writers then", sock.get(SOL_TCP, uapi::SDP_ZCOPY_SOURCE_THRESH));
        t.see("readers then", sock.get(SOL_TCP, uapi::SDP_ZCOPY_SINK_THRESH));
        t.see("traffic", sock.get_as(SOL_TCP, uapi::SDP_TRAFFIC, [1u64; 4]).map(|row| row[0]));
    })
    .differs(&[
        Difference {
            label: "less than none",
            tcp: "ENOPROTOOPT",
            sdp: "EINVAL",
            reason: OWN_OPTION,
        },
        Difference { label: "far less", tcp: "ENOPROTOOPT", sdp: "EINVAL", reason: OWN_OPTION },
        Difference { label: "none still", tcp: "ENOPROTOOPT", sdp: "0", reason: OWN_OPTION },
        Difference { label: "writers", tcp: "ENOPROTOOPT", sdp: "ok", reason: OWN_OPTION },
        Difference { label: "readers", tcp: "ENOPROTOOPT", sdp: "ok", reason: OWN_OPTION },
        Difference { label: "writers then", tcp: "ENOPROTOOPT", sdp: "8192", reason: OWN_OPTION },
        Difference { label: "readers then", tcp: "ENOPROTOOPT", sdp: "16384", reason: OWN_OPTION },
        Difference { label: "traffic", tcp: "ENOPROTOOPT", sdp: "0", reason: OWN_OPTION },
        Difference { label: "threshold", tcp: "ENOPROTOOPT", sdp: "262144", reason: OWN_OPTION },
        Difference { label: "set threshold", tcp: "ENOPROTOOPT", sdp: "ok", reason: OWN_OPTION },
        Difference {
            label: "threshold then",
            tcp: "ENOPROTOOPT",
            sdp: "65536",
            reason: OWN_OPTION,
        },
        Difference {
            label: "less than a page",
            tcp: "ENOPROTOOPT",
            sdp: "EINVAL",
            reason: OWN_OPTION,
        },
        Difference { label: "too much", tcp: "ENOPROTOOPT", sdp: "EINVAL", reason: OWN_OPTION },
        Difference { label: "off", tcp: "ENOPROTOOPT", sdp: "ok", reason: OWN_OPTION },
        Difference { label: "threshold at last", tcp: "ENOPROTOOPT", sdp: "0", reason: OWN_OPTION },
    ]),
    Case::connected(
        "ioctl_counts_unread_bytes",
        |t, s| {
            t.eq("nothing", s.ioctl(SIOCINQ), Ok(0));
            t.say("send");
            t.holds("all counted", t.until(|| s.ioctl(SIOCINQ) == Ok(1000)));
            t.recv_exactly(s, 300);
            t.eq("after a part", s.ioctl(SIOCINQ), Ok(700));
            let mut room = [0; 100];
            s.recv(&mut room, libc::MSG_PEEK).expect("peek");
            t.eq("after a peek", s.ioctl(SIOCINQ), Ok(700));
            t.recv_exactly(s, 700);
            t.eq("after all", s.ioctl(SIOCINQ), Ok(0));
            t.say("close");
            t.await_events(s, libc::POLLRDHUP);
            t.eq("at the end", s.ioctl(SIOCINQ), Ok(0));
        },
        |t, s| {
            t.wait("send");
            t.send_all(s, &[1; 1000]);
            t.wait("close");
            s.close().expect("close");
        },
    )
    .both_versions(),
    Case::connected(
        "ioctl_counts_unsent_bytes",
        |t, s| {
            t.eq("nothing", s.ioctl(SIOCOUTQ), Ok(0));
            let sent = t.fill(s);
            let queued = s.ioctl(SIOCOUTQ).expect("SIOCOUTQ");
            t.holds("some wait", queued > 0 && queued as usize <= sent);
            t.tell("sent", sent);
            t.holds("none in the end", t.until(|| s.ioctl(SIOCOUTQ) == Ok(0)));
        },
        |t, s| {
            let sent = t.hear("sent");
            t.holds("all came", t.recv_exactly(s, sent).len() == sent);
        },
    ),
    Case::alone("ioctl_queue_sizes_of_other_states", |t| {
        let sock = t.socket();
        t.see("unread, fresh", sock.ioctl(SIOCINQ));
        t.see("unsent, fresh", sock.ioctl(SIOCOUTQ));
        t.see("at mark, fresh", sock.ioctl(SIOCATMARK));
        let listener = t.listener(1);
        t.err("unread, listening", listener.ioctl(SIOCINQ), EINVAL);
        t.err("unsent, listening", listener.ioctl(SIOCOUTQ), EINVAL);
    }),
    Case::alone("ioctl_switches_nonblocking_mode", |t| {
        let listener = t.listener(1);
        t.ok("on", listener.ioctl_set(libc::FIONBIO, 1));
        t.eq("is on", listener.is_nonblocking(), Ok(true));
        t.err("accept", listener.accept(), libc::EAGAIN);
        t.ok("off", listener.ioctl_set(libc::FIONBIO, 0));
        t.eq("is off", listener.is_nonblocking(), Ok(false));
    }),
    Case::alone("ioctl_tells_the_address_of_an_interface", |t| {
        let ask = |sock: &Sock| {
            let mut request = netns::loopback();
            // SAFETY: the request is as long as the kernel takes it to be.
            let told = checked_unit(unsafe {
                libc::ioctl(sock.fd(), libc::SIOCGIFADDR, &raw mut request)
            });
            // SAFETY: every view of the union is plain bytes.
            let address = unsafe { request.ifr_ifru.ifru_addr.sa_data };
            told.map(|()| format!("{address:?}"))
        };
        t.see("of the loopback device", ask(&t.socket()));
    })
    .both_versions(),
    Case::alone("ioctl_that_is_unknown_is_refused", |t| {
        let sock = t.socket();
        t.err("nonsense", sock.ioctl(0xdead), libc::ENOTTY);
        t.err("terminal", sock.ioctl(libc::TIOCGWINSZ), libc::ENOTTY);
    }),
];
