// SPDX-License-Identifier: MIT
//! Network namespaces: a socket sees the namespace in which it was made.

use libc::{
    EADDRINUSE, EADDRNOTAVAIL, EAGAIN, ECONNREFUSED, ENETUNREACH, SOL_SOCKET, SO_REUSEADDR,
};

use crate::case::Case;
use crate::netns::{enter_fresh, Netns, Sysctl};

/// Outside the default ephemeral range and the ranges of other cases, so it is free.
const QUIET_PORT: u16 = 20_040;

pub const CASES: &[Case] = &[
    Case::two(
        "namespace_hides_its_listeners",
        |t| {
            t.listens_unheard(t.socket());
        },
        |t| {
            let port = t.hear("port");
            t.err("own address", t.socket().connect(&t.here(port)), ECONNREFUSED);
            t.say("tried");
        },
    )
    .two_hosts()
    .both_versions(),
    Case::two(
        "namespace_has_ports_of_its_own",
        |t| {
            let sock = t.socket();
            // Other variants of this case have used the port recently.
            sock.set(SOL_SOCKET, SO_REUSEADDR, &1).expect("SO_REUSEADDR");
            sock.bind(&t.any(QUIET_PORT)).expect("bind");
            t.err("twice here", t.socket().bind(&t.any(QUIET_PORT)), EADDRINUSE);
            sock.listen(1).expect("listen");
            t.say("listening");
            let _accepted = sock.accept().expect("accept");
            t.meet("done");
        },
        |t| {
            t.wait("listening");
            let sock = t.socket();
            t.ok("the same there", sock.bind(&t.any(QUIET_PORT)));
            t.ok("listen", sock.listen(1));
            let client = t.connected(QUIET_PORT);
            t.ok("peer", client.peer());
            t.meet("done");
        },
    )
    .two_hosts()
    .both_versions(),
    Case::two(
        "namespace_of_a_socket_is_the_one_it_was_made_in",
        |t| {
            let sock = t.socket();
            enter_fresh().expect("a fresh namespace");
            t.ok("bind", sock.bind(&t.here(0)));
            t.ok("listen", sock.listen(1));
            t.tell("port", t.port_of(&sock));
            let accepted = sock.accept().expect("accept");
            t.ok("peer", accepted.peer());
            t.eq("data", t.recv_to_end(&accepted), b"hello".to_vec());
        },
        |t| {
            let port = t.hear("port");
            let sock = t.socket();
            enter_fresh().expect("a fresh namespace");
            t.ok("connect", sock.connect(&t.there(port)));
            t.send_all(&sock, b"hello");
        },
    )
    .two_hosts(),
    Case::alone("namespace_without_addresses_has_none_to_bind", |t| {
        enter_fresh().expect("a fresh namespace");
        t.err("here", t.socket().bind(&t.here(0)), EADDRNOTAVAIL);
        t.err("there", t.socket().bind(&t.there(0)), EADDRNOTAVAIL);
        let sock = t.socket();
        t.ok("wildcard", sock.bind(&t.any(0)));
        t.ok("listen", sock.listen(1));
    })
    .two_hosts(),
    Case::alone("namespace_without_routes_reaches_nobody", |t| {
        enter_fresh().expect("a fresh namespace");
        t.err("connect", t.socket().connect(&t.there(9)), ENETUNREACH);
    })
    .two_hosts(),
    Case::alone("namespace_left_by_its_processes_lives_with_its_socket", |t| {
        let home = Netns::current();
        enter_fresh().expect("a fresh namespace");
        let listener = t.socket();
        listener.bind(&t.any(0)).expect("bind");
        listener.listen(1).expect("listen");
        home.enter().expect("going back");
        let name = t.ok("name", listener.name());
        listener.set_nonblocking(true).expect("O_NONBLOCK");
        t.err("accept", listener.accept(), EAGAIN);
        t.err("not visible at home", t.socket().connect(&t.here(name.port())), ECONNREFUSED);
        t.ok("close", listener.close());
    }),
    Case::alone("namespaces_come_and_go_with_listeners_in_them", |t| {
        let home = Netns::current();
        for _ in 0..2 {
            enter_fresh().expect("a fresh namespace");
            let listener = t.socket();
            listener.bind(&t.any(0)).expect("bind");
            listener.listen(1).expect("listen");
            home.enter().expect("going back");
        }
        let (server, client) = t.own_pair();
        t.send_all(&client, b"home");
        t.eq("data", t.recv_exactly(&server, 4), b"home".to_vec());
    }),
    Case::two(
        "namespace_has_port_settings_of_its_own",
        |t| {
            let _range = Sysctl::set("ipv4/ip_local_port_range", "20020 20021");
            t.holds("narrow here", (20020..=20021).contains(&t.port_of(&t.bound())));
            t.meet("set");
            t.meet("bound");
        },
        |t| {
            t.meet("set");
            t.holds("unchanged there", !(20020..=20021).contains(&t.port_of(&t.bound())));
            t.meet("bound");
        },
    )
    .two_hosts(),
];
