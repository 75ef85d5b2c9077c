// SPDX-License-Identifier: MIT
//! `getsockname` and `getpeername` in every state, and the bytes that they write.

use std::net::Ipv6Addr;
use std::ptr;

use libc::{socklen_t, EFAULT, EINVAL, ENOTCONN};

use crate::addr::Addr;
use crate::case::Case;
use crate::role::Role;

/// The link-local address of this host towards the other one, and the number of its interface.
fn link_local() -> (Ipv6Addr, u32) {
    let list = std::fs::read_to_string("/proc/thread-self/net/if_inet6").expect("if_inet6");
    let mut found = list.lines().filter(|line| line.starts_with("fe80"));
    let words: Vec<&str> = found.next().expect("an address").split_whitespace().collect();
    let bits = u128::from_str_radix(words[0], 16).expect("an address");
    (Ipv6Addr::from(bits), u32::from_str_radix(words[1], 16).expect("an index"))
}

fn on_interface(t: &Role, label: &str, name: &Addr) {
    t.holds(label, name.scope() == link_local().1);
}

pub const CASES: &[Case] = &[
    Case::two(
        "names_of_link_local_ends_have_the_interface",
        |t| {
            let listener = t.socket();
            listener.bind(&t.any(0)).expect("bind");
            listener.listen(1).expect("listen");
            t.tell("port", t.port_of(&listener));
            t.tell("address", link_local().0);
            let (sock, peer) = listener.accept_named().expect("accept");
            on_interface(t, "accepted", &peer);
            on_interface(t, "peer", &sock.peer().expect("getpeername"));
            on_interface(t, "own", &sock.name().expect("getsockname"));
            t.eq("data", t.recv_exactly(&sock, 1), b"x".to_vec());
            t.meet("done");
        },
        |t| {
            let port = t.hear("port");
            let to = Addr::v6(t.hear("address"), port);
            let (_, interface) = link_local();
            t.err("without an interface", t.socket().connect(&to), libc::EINVAL);
            let sock = t.socket();
            t.ok("connect", sock.connect(&to.with_scope(interface)));
            on_interface(t, "peer", &sock.peer().expect("getpeername"));
            on_interface(t, "own", &sock.name().expect("getsockname"));
            t.send_all(&sock, b"x");
            t.meet("done");
        },
    )
    .only_v6()
    .two_hosts(),
    Case::alone("names_of_a_fresh_socket", |t| {
        let sock = t.socket();
        let name = t.ok("name", sock.name());
        t.eq("port", name.port(), 0);
        t.eq("length", name.len(), t.here(0).len());
        t.err("peer", sock.peer(), ENOTCONN);
    })
    .both_versions(),
    Case::alone("names_of_a_bound_and_a_listening_socket", |t| {
        let sock = t.bound();
        t.ok("bound", sock.name());
        t.err("bound peer", sock.peer(), ENOTCONN);
        sock.listen(1).expect("listen");
        t.ok("listening", sock.name());
        t.err("listening peer", sock.peer(), ENOTCONN);
    })
    .both_versions(),
    Case::two(
        "names_of_both_ends_match",
        |t| {
            let listener = t.listener(1);
            let port = t.port_of(&listener);
            t.tell("port", port);
            let (sock, from) = listener.accept_named().expect("accept");
            t.see("accept's peer", from);
            t.eq("length", from.len(), t.there(0).len());
            let (name, peer) = (t.ok("name", sock.name()), t.ok("peer", sock.peer()));
            t.holds("name has the listening port", name.port() == port);
            t.holds("peer is the one of accept", peer.port() == from.port());
            t.tell("seen from", peer.port());
            t.meet("compared");
        },
        |t| {
            let port = t.hear("port");
            let sock = t.connected(port);
            let (name, peer) = (t.ok("name", sock.name()), t.ok("peer", sock.peer()));
            t.holds("peer has the listening port", peer.port() == port);
            let seen: u16 = t.hear("seen from");
            t.holds("own port as the server sees it", name.port() == seen);
            t.meet("compared");
        },
    )
    .both_versions(),
    Case::two(
        "names_behind_a_wildcard_listener_are_addresses",
        |t| {
            let listener = t.socket();
            listener.bind(&t.any(0)).expect("bind");
            listener.listen(1).expect("listen");
            t.tell("port", t.port_of(&listener));
            let sock = listener.accept().expect("accept");
            t.ok("listener", listener.name());
            t.ok("name", sock.name());
            t.ok("peer", sock.peer());
            t.meet("seen");
        },
        |t| {
            let sock = t.connect_told();
            t.ok("name", sock.name());
            t.meet("seen");
        },
    )
    .both_versions(),
    Case::connected(
        "names_stay_after_the_peer_has_closed",
        |_t, s| s.close().expect("close"),
        |t, s| {
            t.eq("end", t.recv_to_end(s).len(), 0);
            t.ok("name", s.name());
            t.ok("peer", s.peer());
            t.ok("shutdown", s.shutdown(libc::SHUT_WR));
            t.ok("name after shutdown", s.name());
        },
    ),
    Case::connected(
        "names_after_half_close",
        |t, s| {
            t.ok("shutdown", s.shutdown(libc::SHUT_WR));
            t.ok("name", s.name());
            t.ok("peer", s.peer());
            t.meet("shut");
        },
        |t, s| {
            t.meet("shut");
            t.eq("end", t.recv_to_end(s).len(), 0);
            t.ok("peer", s.peer());
        },
    ),
    Case::connected(
        "names_after_a_reset",
        |_t, s| {
            s.set_linger(true, 0).expect("SO_LINGER");
            s.close().expect("close");
        },
        |t, s| {
            t.await_events(s, libc::POLLHUP);
            t.ok("name", s.name());
            t.err("peer", s.peer(), ENOTCONN);
        },
    ),
    Case::alone("names_are_cut_to_the_room_given", |t| {
        let (server, client) = t.own_pair();
        let whole = t.here(0).len() as socklen_t;
        for room in [0, 1, 2, 8, whole - 1] {
            for sock in [&server, &client] {
                let mut addr = Addr::empty().with_len(room as usize);
                let name = addr.as_mut_ptr();
                t.ok("name", sock.name_raw(name, addr.len_mut()));
                t.eq("length of name", addr.len() as socklen_t, whole);
                let mut addr = Addr::empty().with_len(room as usize);
                let name = addr.as_mut_ptr();
                t.ok("peer", sock.peer_raw(name, addr.len_mut()));
                t.eq("length of peer", addr.len() as socklen_t, whole);
            }
        }
    })
    .both_versions(),
    Case::alone("names_go_to_valid_memory_only", |t| {
        let (server, _client) = t.own_pair();
        let mut len: socklen_t = 128;
        t.err("name to null", server.name_raw(ptr::null_mut(), &raw mut len), EFAULT);
        t.err("peer to null", server.peer_raw(ptr::null_mut(), &raw mut len), EFAULT);
        let mut addr = Addr::empty();
        t.err("no length", server.name_raw(addr.as_mut_ptr(), ptr::null_mut()), EFAULT);
        let mut negative = -1_i32 as socklen_t;
        let name = addr.as_mut_ptr();
        t.err("negative length", server.name_raw(name, &raw mut negative), EINVAL);
        t.err("negative length of peer", server.peer_raw(name, &raw mut negative), EINVAL);
        t.ok("afterwards", server.name());
    }),
    Case::two(
        "names_of_a_client_bound_to_its_port",
        |t| {
            let listener = t.listener(1);
            t.tell("port", t.port_of(&listener));
            let (_sock, from) = listener.accept_named().expect("accept");
            t.tell("from", from.port());
        },
        |t| {
            let port = t.hear("port");
            let sock = t.bound();
            let own = t.port_of(&sock);
            t.ok("connect", sock.connect(&t.there(port)));
            t.holds("kept its port", t.port_of(&sock) == own);
            t.holds("server saw it", t.hear::<u16>("from") == own);
        },
    )
    .both_versions(),
];
