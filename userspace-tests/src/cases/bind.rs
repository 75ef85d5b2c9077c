// SPDX-License-Identifier: MIT
//! `bind`: addresses, ports and their sharing.

use std::net::{IpAddr, Ipv6Addr};

use libc::{
    EACCES, EADDRINUSE, EADDRNOTAVAIL, EAFNOSUPPORT, EFAULT, EINVAL, SOL_SOCKET, SO_REUSEADDR,
};

use crate::addr::Addr;
use crate::case::{Case, Difference};
use crate::netns::{drop_bind_privilege, enter_fresh, Sysctl};
use crate::role::Role;
use crate::sock::Sock;
use crate::uapi;

/// Ports outside the default range, so that no earlier connection holds them.
const QUIET_PORT: u16 = 20_030;

/// A port range outside the default one, small enough to use up.
const RANGE: &str = "20000 20003";

fn reusing(t: &Role) -> Sock {
    let sock = t.socket();
    sock.set(SOL_SOCKET, SO_REUSEADDR, &1).expect("SO_REUSEADDR");
    sock
}

fn v4_of(t: &Role, side_is_here: bool) -> std::net::Ipv4Addr {
    let text = match (t.there == t.here, side_is_here) {
        (true, _) => "127.0.0.1",
        (false, true) => "10.0.0.1",
        (false, false) => "10.0.0.2",
    };
    text.parse().expect("an address")
}

pub const CASES: &[Case] = &[
    Case::alone("bind_takes_an_address_and_a_port", |t| {
        let port = t.free_port();
        let sock = t.socket();
        t.ok("bind", sock.bind(&t.here(port)));
        let name = t.ok("name", sock.name());
        t.holds("port kept", name.port() == port);
    })
    .both_versions(),
    Case::alone("bind_to_port_zero_gives_a_port_of_the_range", |t| {
        let range = Sysctl::get("ipv4/ip_local_port_range");
        let mut limits = range.split_whitespace().map(|word| word.parse().expect("a port"));
        let (low, high): (u16, u16) = (limits.next().unwrap(), limits.next().unwrap());
        for _ in 0..20 {
            let port = t.port_of(&t.bound());
            assert!((low..=high).contains(&port), "port {port} outside {low}..{high}");
        }
        t.holds("in range", true);
    })
    .both_versions(),
    Case::alone("bind_to_the_wildcard_keeps_it_as_the_name", |t| {
        let sock = t.socket();
        t.ok("bind", sock.bind(&t.any(0)));
        let name = t.ok("name", sock.name());
        t.holds("has a port", name.port() != 0);
    })
    .both_versions(),
    Case::alone("bind_twice_is_invalid", |t| {
        let sock = t.bound();
        t.err("same address", sock.bind(&t.here(t.port_of(&sock))), EINVAL);
        t.err("another port", sock.bind(&t.here(0)), EINVAL);
        t.err("wildcard", sock.bind(&t.any(0)), EINVAL);
    })
    .both_versions(),
    Case::alone("bind_to_a_listening_port_is_in_use", |t| {
        let listener = t.listener(1);
        let port = t.port_of(&listener);
        t.err("bind", t.socket().bind(&t.here(port)), EADDRINUSE);
    })
    .both_versions(),
    Case::alone("bind_to_a_bound_port_is_in_use", |t| {
        let bound = t.bound();
        let sock = t.socket();
        t.err("bind", sock.bind(&t.here(t.port_of(&bound))), EADDRINUSE);
        t.ok("bind elsewhere afterwards", sock.bind(&t.here(0)));
    })
    .both_versions(),
    Case::alone("bind_wildcard_conflicts_with_a_bound_address", |t| {
        let bound = t.bound();
        t.err("bind", t.socket().bind(&t.any(t.port_of(&bound))), EADDRINUSE);
    })
    .both_versions(),
    Case::alone("bind_address_conflicts_with_a_bound_wildcard", |t| {
        let wild = t.socket();
        wild.bind(&t.any(0)).expect("bind");
        t.err("bind", t.socket().bind(&t.here(t.port_of(&wild))), EADDRINUSE);
    })
    .both_versions(),
    Case::alone("bind_host_and_loopback_addresses_share_a_port", |t| {
        let (bound, other) = (t.socket(), t.socket());
        t.ok("host", bound.bind(&t.here(QUIET_PORT)));
        t.ok("loopback", other.bind(&t.loopback(QUIET_PORT)));
        t.ok("listen on one", bound.listen(1));
        t.ok("listen on the other", other.listen(1));
    })
    .two_hosts(),
    Case::alone("bind_with_reuseaddr_shares_until_one_listens", |t| {
        let (first, second, third) = (reusing(t), reusing(t), reusing(t));
        t.ok("first", first.bind(&t.here(0)));
        let port = t.port_of(&first);
        t.ok("second", second.bind(&t.here(port)));
        t.ok("first listens", first.listen(1));
        t.err("second listens", second.listen(1), EADDRINUSE);
        t.err("third", third.bind(&t.here(port)), EADDRINUSE);
    })
    .both_versions(),
    Case::alone("bind_reuseaddr_needs_both_sockets_to_agree", |t| {
        let plain = t.bound();
        t.err("new one reuses", reusing(t).bind(&t.here(t.port_of(&plain))), EADDRINUSE);
        let sharing = reusing(t);
        sharing.bind(&t.here(0)).expect("bind");
        t.err("old one reuses", t.socket().bind(&t.here(t.port_of(&sharing))), EADDRINUSE);
    }),
    Case::alone("bind_can_reuse_a_port_after_close", |t| {
        let bound = t.bound();
        let port = t.port_of(&bound);
        bound.close().expect("close");
        let again = t.socket();
        t.ok("after bound", again.bind(&t.here(port)));
        again.listen(1).expect("listen");
        again.close().expect("close");
        t.ok("after listening", t.socket().bind(&t.here(port)));
    })
    .both_versions(),
    Case::two(
        "bind_of_a_closed_listener_waits_for_its_connections",
        |t| {
            let listener = reusing(t);
            listener.bind(&t.here(0)).expect("bind");
            listener.listen(1).expect("listen");
            let port = t.port_of(&listener);
            t.tell("port", port);
            let sock = listener.accept().expect("accept");
            listener.close().expect("close");
            t.err("plain", t.socket().bind(&t.here(port)), EADDRINUSE);
            let again = reusing(t);
            t.ok("reusing", again.bind(&t.here(port)));
            t.ok("listen", again.listen(1));
            t.send_all(&sock, b"still here");
            t.meet("sent");
            t.meet("read");
        },
        |t| {
            let sock = t.connect_told();
            t.meet("sent");
            let data = t.recv_exactly(&sock, 10);
            t.eq("data", data.as_slice() == b"still here", true);
            t.meet("read");
        },
    ),
    Case::two(
        "bind_with_reuseaddr_works_after_a_closed_connection",
        |t| {
            let listener = reusing(t);
            listener.bind(&t.here(0)).expect("bind");
            listener.listen(1).expect("listen");
            let port = t.port_of(&listener);
            t.tell("port", port);
            let sock = listener.accept().expect("accept");
            // The address of the side that closes first stays in use.
            sock.close().expect("close");
            listener.close().expect("close");
            t.wait("closed");
            let again = reusing(t);
            t.ok("bind", again.bind(&t.here(port)));
            t.ok("listen", again.listen(1));
        },
        |t| {
            let sock = t.connect_told();
            t.eq("end", t.recv_to_end(&sock).len(), 0);
            sock.close().expect("close");
            t.say("closed");
        },
    ),
    Case::alone("bind_to_a_foreign_address_is_not_available", |t| {
        let sock = t.socket();
        t.err("peer's", sock.bind(&t.there(0)), EADDRNOTAVAIL);
        t.err("nobody's", sock.bind(&t.nobody(0)), EADDRNOTAVAIL);
        t.ok("own", sock.bind(&t.here(0)));
    })
    .two_hosts()
    .both_versions(),
    Case::alone("bind_with_a_short_address_is_invalid", |t| {
        let whole = t.here(0);
        for len in [0, 1, 2, 8, whole.len() - 5] {
            t.err(&format!("{len} bytes"), t.socket().bind(&whole.with_len(len)), EINVAL);
        }
    }),
    Case::alone("bind_with_an_oversized_length_is_invalid", |t| {
        let sock = t.socket();
        t.err("129 bytes", sock.bind(&t.here(0).with_len(129)), EINVAL);
        t.err("huge", sock.bind_raw(t.here(0).as_ptr(), 0xffff_ffff), EINVAL);
        t.ok("128 bytes", sock.bind(&t.here(0).with_len(128)));
    })
    .both_versions(),
    Case::alone("bind_with_a_bad_pointer_faults", |t| {
        let sock = t.socket();
        t.err("null", sock.bind_raw(std::ptr::null(), 16), EFAULT);
        t.err("unmapped", sock.bind_raw(std::ptr::dangling(), 16), EFAULT);
    }),
    Case::alone("bind_with_a_foreign_family_is_not_supported", |t| {
        for family in [libc::AF_UNIX, libc::AF_PACKET, libc::AF_VSOCK, 200] {
            let addr = t.here(0).with_family(family);
            t.err(&format!("family {family}"), t.socket().bind(&addr), EAFNOSUPPORT);
        }
    })
    .both_versions(),
    Case::alone("bind_with_an_unspecified_family_takes_the_wildcard_only", |t| {
        t.ok("wildcard", t.socket().bind(&t.any(0).with_family(libc::AF_UNSPEC)));
        let address = t.here(0).with_family(libc::AF_UNSPEC);
        t.err("address", t.socket().bind(&address), EAFNOSUPPORT);
    }),
    Case::alone("bind_takes_the_family_of_the_socket", |t| {
        let sock = t.socket();
        t.ok("bind", sock.bind(&t.here(0).with_family(t.own_family())));
        t.ok("name", sock.name());
    })
    .both_versions(),
    Case::alone("bind_below_1024_needs_the_privilege", |t| {
        t.ok("with", t.socket().bind(&t.here(1023)));
        drop_bind_privilege().expect("dropping a capability");
        t.err("without, 1023", t.socket().bind(&t.here(1023)), EACCES);
        t.err("without, 1", t.socket().bind(&t.here(1)), EACCES);
        let sock = t.socket();
        t.err("wildcard", sock.bind(&t.any(80)), EACCES);
        t.ok("then a high one", sock.bind(&t.here(0)));
    })
    .both_versions(),
    Case::alone("bind_follows_the_start_of_unprivileged_ports", |t| {
        let _start = Sysctl::set("ipv4/ip_unprivileged_port_start", "700");
        drop_bind_privilege().expect("dropping a capability");
        t.ok("700", t.socket().bind(&t.here(700)));
        t.err("699", t.socket().bind(&t.here(699)), EACCES);
    }),
    Case::alone("bind_to_port_zero_leaves_reserved_ports_out", |t| {
        let _range = Sysctl::set("ipv4/ip_local_port_range", RANGE);
        let _reserved = Sysctl::set("ipv4/ip_local_reserved_ports", "20001-20002");
        let (first, second) = (t.bound(), t.bound());
        let mut ports = vec![t.port_of(&first), t.port_of(&second)];
        ports.sort_unstable();
        t.eq("ports", ports, vec![20000, 20003]);
        t.err("none is left", t.socket().bind(&t.here(0)), EADDRINUSE);
        t.ok("reserved, by number", t.socket().bind(&t.here(20001)));
    })
    .both_versions(),
    Case::alone("bind_to_port_zero_fails_when_all_are_taken", |t| {
        let _range = Sysctl::set("ipv4/ip_local_port_range", RANGE);
        let held: Vec<Sock> = (0..4).map(|_| t.bound()).collect();
        t.err("fifth", t.socket().bind(&t.here(0)), EADDRINUSE);
        held[2].close().expect("close");
        t.ok("after one close", t.socket().bind(&t.here(0)));
    }),
    Case::alone("listen_without_bind_fails_when_all_ports_are_taken", |t| {
        let _range = Sysctl::set("ipv4/ip_local_port_range", RANGE);
        let held: Vec<Sock> = (0..4).map(|_| t.bound()).collect();
        t.err("listen", t.socket().listen(1), EADDRINUSE);
        drop(held);
        t.ok("after the close", t.socket().listen(1));
    }),
    Case::alone("bind_on_a_listening_or_connected_socket_is_invalid", |t| {
        let listener = t.listener(1);
        t.err("listening", listener.bind(&t.here(0)), EINVAL);
        let (server, client) = t.own_pair();
        t.err("accepted", server.bind(&t.here(0)), EINVAL);
        t.err("connected", client.bind(&t.here(0)), EINVAL);
    }),
    Case::alone("bind_wildcards_of_both_versions_conflict", |t| {
        let six = t.socket();
        six.bind(&t.any(0)).expect("bind");
        let four = t.socket_v4();
        let any = Addr::v4(std::net::Ipv4Addr::UNSPECIFIED, t.port_of(&six));
        t.err("ipv4", four.bind(&any), EADDRINUSE);
    })
    .only_v6(),
    Case::alone("bind_v6only_leaves_the_port_to_ipv4", |t| {
        let six = t.socket();
        t.ok("v6only", six.set(libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, &1));
        six.bind(&t.any(QUIET_PORT)).expect("bind");
        let any = Addr::v4(std::net::Ipv4Addr::UNSPECIFIED, QUIET_PORT);
        t.ok("ipv4", t.socket_v4().bind(&any));
        t.eq("still v6only", six.get(libc::IPPROTO_IPV6, libc::IPV6_V6ONLY), Ok(1));
    })
    .only_v6(),
    Case::alone("bind_to_a_mapped_address_conflicts_with_the_plain_one", |t| {
        let mapped: Ipv6Addr = v4_of(t, true).to_ipv6_mapped();
        let six = t.socket();
        t.ok("mapped", six.bind(&Addr::v6(mapped, 0)));
        t.ok("name", six.name());
        let plain = Addr::new(IpAddr::V4(v4_of(t, true)), t.port_of(&six));
        t.err("plain", t.socket_v4().bind(&plain), EADDRINUSE);
    })
    .only_v6(),
    Case::alone("bind_to_a_foreign_mapped_address_is_not_available", |t| {
        let mapped = v4_of(t, false).to_ipv6_mapped();
        t.err("mapped", t.socket().bind(&Addr::v6(mapped, 0)), EADDRNOTAVAIL);
    })
    .two_hosts()
    .only_v6(),
    Case::alone("bind_tells_why_no_device_was_found", |t| {
        let sock = t.bound();
        t.see("after success", sock.get(libc::SOL_TCP, uapi::SDP_LAST_BIND_ERR));
        let set = sock.set(libc::SOL_TCP, uapi::SDP_LAST_BIND_ERR, &1);
        t.err("set", set, libc::ENOPROTOOPT);
    })
    .differs(&[Difference {
        label: "after success",
        tcp: "ENOPROTOOPT",
        sdp: "0",
        reason: "the option belongs to the family; zero says that a device was found",
    }]),
    Case::alone("bind_to_an_address_without_a_device", |t| {
        enter_fresh().expect("a fresh namespace");
        let sock = t.socket();
        t.see("bind without a device", sock.bind(&t.loopback(0)).map(|()| true));
        t.see("reason", sock.get(libc::SOL_TCP, uapi::SDP_LAST_BIND_ERR));
        t.ok("wildcard on another socket", t.socket().bind(&t.any(0)));
    })
    .differs(&[
        Difference {
            label: "bind without a device",
            tcp: "true",
            sdp: "EADDRNOTAVAIL",
            reason: "the loopback device of a fresh namespace carries no RDMA device",
        },
        Difference {
            label: "reason",
            tcp: "ENOPROTOOPT",
            sdp: "-2",
            reason: "-ENOENT is what programs take as no RDMA device at that address",
        },
    ]),
    Case::alone("bind_makes_a_plain_socket_ipv6", |t| {
        let listener = t.plain_socket();
        t.ok("bind", listener.bind(&t.any(0)));
        t.ok("name", listener.name());
        t.ok("listen", listener.listen(1));
        let client = t.plain_socket();
        t.ok("connect", client.connect(&t.here(t.port_of(&listener))));
        t.ok("client name", client.name());
        let (_server, from) = listener.accept_named().expect("accept");
        t.see("from", from);
    })
    .only_v6(),
    Case::alone("bind_takes_an_ipv6_address_with_the_family_of_socket", |t| {
        // Like generic programs: the number given to socket(), in an address of 28 bytes.
        let listener = t.plain_socket();
        t.ok("bind", listener.bind(&t.here(0).with_family(t.domain())));
        t.ok("listen", listener.listen(1));
        let client = t.plain_socket();
        let to = t.here(t.port_of(&listener)).with_family(t.domain());
        t.ok("connect", client.connect(&to));
        t.ok("peer", client.peer());
    })
    .only_v6(),
    Case::alone("bind_many_ports_and_give_them_all_back", |t| {
        let ports: Vec<u16> = {
            let held: Vec<Sock> = (0..50).map(|_| t.bound()).collect();
            held.iter().map(|sock| t.port_of(sock)).collect()
        };
        let mut unique = ports.clone();
        unique.sort_unstable();
        unique.dedup();
        t.eq("ports", unique.len(), 50);
        let again = ports.iter().map(|&port| t.socket().bind(&t.here(port)));
        t.eq("free again", again.flatten().count(), 50);
    }),
];
