// SPDX-License-Identifier: MIT
//! `connect`: all ways to succeed and to fail.

use std::net::Ipv4Addr;

use libc::{
    c_int, EADDRINUSE, EADDRNOTAVAIL, EAFNOSUPPORT, EAGAIN, EALREADY, ECONNREFUSED, ECONNRESET,
    EFAULT, EHOSTUNREACH, EINPROGRESS, EINTR, EINVAL, EISCONN, ENETUNREACH, ENOTCONN, EPIPE,
    POLLERR, POLLHUP, POLLIN, POLLOUT, SOL_SOCKET, SO_REUSEADDR,
};

use crate::addr::Addr;
use crate::blocked::kill_thread;
use crate::case::{Case, Difference};
use crate::errno::Errno;
use crate::netns::{impatient_neighbours, Sysctl};
use crate::poller::{Epoll, Events};
use crate::role::Role;
use crate::signal;
use crate::sock::Sock;
use crate::world::Ip;

const NEVER_ANSWERED: u16 = 9;

fn impatient(t: &Role) -> Vec<Sysctl> {
    impatient_neighbours(match t.ip {
        Ip::V4 => "ipv4",
        Ip::V6 => "ipv6",
    })
}

/// A non-blocking socket that connects to an address which no host has.
fn connecting(t: &Role) -> Sock {
    let sock = t.socket_with(libc::SOCK_NONBLOCK);
    t.err("connect", sock.connect(&t.nobody(NEVER_ANSWERED)), EINPROGRESS);
    sock
}

/// Serves `count` connections one after the other and keeps them until the client has finished.
fn serve(t: &Role, count: usize) {
    let listener = t.listener(16);
    t.tell("port", t.port_of(&listener));
    let _socks: Vec<Sock> = (0..count).map(|_| listener.accept().expect("accept")).collect();
    t.meet("done");
}

/// Three listeners of one host.
const PEERS: [&str; 3] = ["first", "second", "third"];

pub const CASES: &[Case] = &[
    Case::two(
        "connect_to_a_port_nobody_listens_on_is_refused",
        |t| {
            t.tell("port", t.free_port());
            t.meet("tried");
        },
        |t| {
            let port = t.hear("port");
            let sock = t.socket();
            t.err("connect", sock.connect(&t.there(port)), ECONNREFUSED);
            t.eq("SO_ERROR", sock.error(), Ok(None));
            t.err("peer", sock.peer(), ENOTCONN);
            t.meet("tried");
        },
    )
    .both_versions(),
    Case::two(
        "connect_to_a_bound_port_without_listen_is_refused",
        |t| {
            let bound = t.bound();
            t.tell("port", t.port_of(&bound));
            t.meet("tried");
        },
        |t| {
            let port = t.hear("port");
            t.err("connect", t.socket().connect(&t.there(port)), ECONNREFUSED);
            t.meet("tried");
        },
    ),
    Case::two(
        "connect_to_port_zero_is_refused",
        |_| {},
        |t| t.err("connect", t.socket().connect(&t.there(0)), ECONNREFUSED),
    ),
    Case::two(
        "connect_that_was_refused_can_be_tried_again",
        |t| {
            let bound = t.bound();
            t.tell("port", t.port_of(&bound));
            t.wait("refused");
            bound.listen(1).expect("listen");
            t.say("listening");
            let sock = bound.accept().expect("accept");
            t.eq("data", t.recv_to_end(&sock), b"second try".to_vec());
        },
        |t| {
            let port = t.hear("port");
            let sock = t.socket();
            t.err("first", sock.connect(&t.there(port)), ECONNREFUSED);
            t.say("refused");
            t.wait("listening");
            t.ok("second", sock.connect(&t.there(port)));
            t.send_all(&sock, b"second try");
            sock.close().expect("close");
        },
    )
    .both_versions(),
    Case::two(
        "connect_nonblocking_reports_refusal_through_so_error",
        |t| {
            t.tell("port", t.free_port());
            t.meet("tried");
        },
        |t| {
            let port = t.hear("port");
            let sock = t.socket_with(libc::SOCK_NONBLOCK);
            t.err("connect", sock.connect(&t.there(port)), EINPROGRESS);
            // TCP sets the error, the state and the shutdown one after the other, on another processor.
            let events = t.await_events(&sock, POLLERR | POLLHUP);
            t.see("events", events);
            t.await_events(&sock, libc::POLLRDHUP);
            t.see("all events", sock.poll(POLLIN | POLLOUT | libc::POLLRDHUP, 0));
            t.eq("SO_ERROR", sock.error(), Ok(Some(Errno(ECONNREFUSED))));
            t.eq("SO_ERROR again", sock.error(), Ok(None));
            t.see("events afterwards", sock.poll(POLLIN | POLLOUT | libc::POLLRDHUP, 0));
            t.err("peer", sock.peer(), ENOTCONN);
            t.meet("tried");
        },
    )
    .both_versions(),
    Case::two(
        "connect_nonblocking_reports_refusal_through_connect",
        |t| {
            t.tell("port", t.free_port());
            t.meet("tried");
        },
        |t| {
            let port = t.hear("port");
            let sock = t.socket_with(libc::SOCK_NONBLOCK);
            t.err("first", sock.connect(&t.there(port)), EINPROGRESS);
            t.await_events(&sock, POLLERR);
            t.err("second", sock.connect(&t.there(port)), ECONNREFUSED);
            t.eq("SO_ERROR", sock.error(), Ok(None));
            t.err("third starts again", sock.connect(&t.there(port)), EINPROGRESS);
            t.meet("tried");
        },
    ),
    Case::two(
        "connect_nonblocking_reports_refusal_through_recv",
        |t| {
            t.tell("port", t.free_port());
            t.meet("tried");
        },
        |t| {
            let port = t.hear("port");
            let sock = t.socket_with(libc::SOCK_NONBLOCK);
            t.err("connect", sock.connect(&t.there(port)), EINPROGRESS);
            t.await_events(&sock, POLLERR);
            let mut room = [0; 8];
            t.err("recv", sock.recv(&mut room, 0), ECONNREFUSED);
            t.see("recv again", sock.recv(&mut room, 0));
            t.meet("tried");
        },
    ),
    Case::two(
        "connect_nonblocking_completes",
        |t| serve(t, 1),
        |t| {
            let port = t.hear("port");
            let sock = t.socket_with(libc::SOCK_NONBLOCK);
            t.err("connect", sock.connect(&t.there(port)), EINPROGRESS);
            t.see("events", t.await_events(&sock, POLLOUT));
            t.eq("SO_ERROR", sock.error(), Ok(None));
            t.ok("peer", sock.peer());
            t.ok("second connect", sock.connect(&t.there(port)));
            t.err("third connect", sock.connect(&t.there(port)), EISCONN);
            t.meet("done");
        },
    )
    .both_versions(),
    Case::alone("the_connecting_end_is_ready_before_the_accepted_one", |t| {
        let listener = t.listener(1);
        let there = t.here(t.port_of(&listener));
        for _ in 0..20 {
            let client = t.socket_with(libc::SOCK_NONBLOCK);
            t.err("connect", client.connect(&there), EINPROGRESS);
            let server = listener.accept().expect("accept");
            t.eq("events", client.poll(POLLOUT, 0), Ok(Events(c_int::from(POLLOUT))));
            t.eq("send", client.send(b"?", 0), Ok(1));
            t.eq("data", t.recv_exactly(&server, 1), b"?".to_vec());
        }
    })
    .both_versions(),
    Case::two(
        "connect_nonblocking_wakes_epoll",
        |t| serve(t, 1),
        |t| {
            let port = t.hear("port");
            let sock = t.socket_with(libc::SOCK_NONBLOCK);
            let epoll = Epoll::new().expect("epoll");
            t.err("connect", sock.connect(&t.there(port)), EINPROGRESS);
            epoll.watch(&sock, libc::EPOLLOUT | libc::EPOLLIN | libc::EPOLLET).expect("watch");
            t.see("events", t.await_epoll(&epoll));
            t.eq("SO_ERROR", sock.error(), Ok(None));
            t.meet("done");
        },
    )
    .both_versions(),
    Case::two(
        "connect_while_blocked_elsewhere_is_noticed_by_poll",
        |t| {
            let bound = t.bound();
            t.tell("port", t.port_of(&bound));
            bound.listen(1).expect("listen");
            t.say("listening");
            let sock = bound.accept().expect("accept");
            t.send_all(&sock, b"hello");
            t.meet("done");
        },
        |t| {
            let port = t.hear("port");
            t.wait("listening");
            let sock = t.socket_with(libc::SOCK_NONBLOCK);
            t.err("connect", sock.connect(&t.there(port)), EINPROGRESS);
            t.await_events(&sock, POLLIN | POLLOUT);
            t.eq("data", t.recv_exactly(&sock, 5), b"hello".to_vec());
            t.meet("done");
        },
    ),
    Case::two(
        "connect_twice_is_connected_already",
        |t| serve(t, 1),
        |t| {
            let port = t.hear("port");
            let sock = t.connected(port);
            t.err("same address", sock.connect(&t.there(port)), EISCONN);
            t.err("other address", sock.connect(&t.there(1)), EISCONN);
            t.meet("done");
        },
    )
    .both_versions(),
    Case::alone("connect_on_a_listening_socket_is_connected_already", |t| {
        let listener = t.listener(1);
        t.err("connect", listener.connect(&t.here(9)), EISCONN);
        t.eq("still listens", listener.get(SOL_SOCKET, libc::SO_ACCEPTCONN), Ok(1));
    }),
    Case::alone("connect_on_an_accepted_socket_is_connected_already", |t| {
        let (server, _client) = t.own_pair();
        t.err("connect", server.connect(&t.here(9)), EISCONN);
    }),
    Case::alone("connect_with_a_short_address_is_invalid", |t| {
        let whole = t.here(9);
        for len in [0, 1, 2, 8, 15] {
            t.err(&format!("{len} bytes"), t.socket().connect(&whole.with_len(len)), EINVAL);
        }
        t.err("129 bytes", t.socket().connect(&whole.with_len(129)), EINVAL);
        let foreign = whole.with_family(libc::AF_VSOCK);
        for len in [2, 8, 15] {
            t.err(
                &format!("{len} bytes of a foreign family"),
                t.socket().connect(&foreign.with_len(len)),
                EINVAL,
            );
            t.err(
                &format!("{len} bytes of it to bind"),
                t.socket().bind(&foreign.with_len(len)),
                EINVAL,
            );
        }
    })
    .both_versions(),
    Case::alone("connect_with_a_bad_pointer_faults", |t| {
        t.err("null", t.socket().connect_raw(std::ptr::null(), 16), EFAULT);
        t.err("unmapped", t.socket().connect_raw(std::ptr::dangling(), 16), EFAULT);
    }),
    Case::alone("connect_with_a_foreign_family_is_not_supported", |t| {
        for family in [libc::AF_UNIX, libc::AF_PACKET, libc::AF_VSOCK, 200] {
            let sock = t.socket();
            let addr = t.here(9).with_family(family);
            t.err(&format!("family {family}"), sock.connect(&addr), EAFNOSUPPORT);
        }
    })
    .both_versions(),
    Case::two(
        "connect_takes_the_family_of_the_socket",
        |t| serve(t, 1),
        |t| {
            let port = t.hear("port");
            let sock = t.socket();
            t.ok("connect", sock.connect(&t.there(port).with_family(t.own_family())));
            t.ok("peer", sock.peer());
            t.meet("done");
        },
    )
    .both_versions(),
    Case::two(
        "connect_to_a_mapped_address_reaches_ipv4",
        |t| {
            let listener = t.socket_v4();
            let own =
                if t.here == t.there { Ipv4Addr::LOCALHOST } else { Ipv4Addr::new(10, 0, 0, 1) };
            listener.bind(&Addr::v4(own, 0)).expect("bind");
            listener.listen(1).expect("listen");
            t.tell("port", t.port_of(&listener));
            let (sock, from) = listener.accept_named().expect("accept");
            t.see("from", from);
            t.send_all(&sock, b"four");
            t.meet("done");
        },
        |t| {
            let port = t.hear("port");
            let to =
                if t.here == t.there { Ipv4Addr::LOCALHOST } else { Ipv4Addr::new(10, 0, 0, 1) };
            let sock = t.socket();
            t.ok("connect", sock.connect(&Addr::v6(to.to_ipv6_mapped(), port)));
            t.eq("data", t.recv_exactly(&sock, 4), b"four".to_vec());
            t.ok("name", sock.name());
            t.ok("peer", sock.peer());
            t.meet("done");
        },
    )
    .only_v6(),
    Case::two(
        "connect_from_ipv4_reaches_an_ipv6_wildcard",
        |t| {
            let listener = t.socket();
            listener.bind(&t.any(0)).expect("bind");
            listener.listen(1).expect("listen");
            t.tell("port", t.port_of(&listener));
            let (sock, from) = listener.accept_named().expect("accept");
            t.see("from", from);
            t.send_all(&sock, b"dual");
            t.meet("done");
        },
        |t| {
            let port = t.hear("port");
            let to =
                if t.here == t.there { Ipv4Addr::LOCALHOST } else { Ipv4Addr::new(10, 0, 0, 1) };
            let sock = t.socket_v4();
            t.ok("connect", sock.connect(&Addr::v4(to, port)));
            t.eq("data", t.recv_exactly(&sock, 4), b"dual".to_vec());
            t.meet("done");
        },
    )
    .only_v6(),
    Case::two(
        "connect_from_ipv4_to_a_v6only_listener_is_refused",
        |t| {
            let listener = t.socket();
            listener.set(libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, &1).expect("IPV6_V6ONLY");
            listener.bind(&t.any(0)).expect("bind");
            listener.listen(1).expect("listen");
            t.tell("port", t.port_of(&listener));
            t.meet("done");
        },
        |t| {
            let port = t.hear("port");
            let to =
                if t.here == t.there { Ipv4Addr::LOCALHOST } else { Ipv4Addr::new(10, 0, 0, 1) };
            t.err("connect", t.socket_v4().connect(&Addr::v4(to, port)), ECONNREFUSED);
            t.meet("done");
        },
    )
    .only_v6(),
    Case::two(
        "connect_to_an_absent_host_is_unreachable",
        |_| {},
        |t| {
            let _quick = impatient(t);
            let sock = t.socket();
            t.err("connect", sock.connect(&t.nobody(NEVER_ANSWERED)), EHOSTUNREACH);
            t.eq("SO_ERROR", sock.error(), Ok(None));
        },
    )
    .two_hosts()
    .both_versions(),
    Case::two(
        "connect_nonblocking_to_an_absent_host_ends_in_so_error",
        |_| {},
        |t| {
            let _quick = impatient(t);
            let sock = connecting(t);
            t.see("events", t.await_events(&sock, POLLERR | POLLHUP));
            t.eq("SO_ERROR", sock.error(), Ok(Some(Errno(EHOSTUNREACH))));
            t.eq("SO_ERROR again", sock.error(), Ok(None));
        },
    )
    .two_hosts(),
    Case::two(
        "connect_under_way_answers_every_call",
        |_| {},
        |t| {
            let sock = connecting(t);
            t.err("connect again", sock.connect(&t.nobody(NEVER_ANSWERED)), EALREADY);
            t.see("events", sock.poll(POLLIN | POLLOUT | libc::POLLRDHUP | libc::POLLPRI, 0));
            t.err("send", sock.send(b"x", libc::MSG_NOSIGNAL), EAGAIN);
            t.err("recv", sock.recv(&mut [0; 8], 0), EAGAIN);
            t.err("peer", sock.peer(), ENOTCONN);
            let name = t.ok("name", sock.name());
            t.holds("has a port", name.port() != 0);
            t.eq("SO_ERROR", sock.error(), Ok(None));
            t.err("bind", sock.bind(&t.here(0)), EINVAL);
            t.err("listen", sock.listen(1), EINVAL);
            t.ok("close", sock.close());
        },
    )
    .two_hosts()
    .both_versions(),
    Case::two(
        "connect_under_way_can_be_shut_down",
        |_| {},
        |t| {
            let sock = connecting(t);
            t.see("shutdown", sock.shutdown(libc::SHUT_RDWR));
            t.await_events(&sock, POLLHUP);
            t.err("peer", sock.peer(), ENOTCONN);
        },
    )
    .two_hosts(),
    Case::two(
        "connect_interrupted_by_a_signal_goes_on",
        |_| {},
        |t| {
            signal::catch(libc::SIGUSR1, false);
            let sock = t.socket();
            let poke = |thread| kill_thread(thread, libc::SIGUSR1).expect("tgkill");
            let result = t.while_asleep(&[libc::SYS_connect], poke, || {
                sock.connect(&t.nobody(NEVER_ANSWERED))
            });
            t.err("connect", result, EINTR);
            sock.set_nonblocking(true).expect("O_NONBLOCK");
            t.err("again", sock.connect(&t.nobody(NEVER_ANSWERED)), EALREADY);
        },
    )
    .two_hosts(),
    Case::two(
        "connect_gives_up_waiting_after_so_sndtimeo",
        |_| {},
        |t| {
            let sock = t.socket();
            sock.set_timeout(libc::SO_SNDTIMEO, 40).expect("SO_SNDTIMEO");
            t.err("connect", sock.connect(&t.nobody(NEVER_ANSWERED)), EINPROGRESS);
        },
    )
    .two_hosts(),
    Case::two(
        "connect_without_a_route_is_unreachable",
        |_| {},
        |t| {
            let text = if t.ip == Ip::V4 { "192.0.2.1" } else { "2001:db8::1" };
            let nowhere = Addr::new(text.parse().expect("an address"), 9);
            t.err("blocking", t.socket().connect(&nowhere), ENETUNREACH);
            let sock = t.socket_with(libc::SOCK_NONBLOCK);
            t.err("nonblocking", sock.connect(&nowhere), ENETUNREACH);
            t.see("events", sock.poll(POLLIN | POLLOUT, 0));
            t.eq("SO_ERROR", sock.error(), Ok(None));
        },
    )
    .two_hosts()
    .both_versions(),
    Case::two(
        "connect_to_group_addresses_is_unreachable",
        |_| {},
        |t| {
            for text in ["224.0.0.1", "255.255.255.255", "10.0.0.255"] {
                let group = Addr::new(text.parse().expect("an address"), 9);
                t.err(text, t.socket().connect(&group), ENETUNREACH);
            }
        },
    )
    .two_hosts(),
    Case::two(
        "connect_to_an_unspecified_family_disconnects",
        |t| {
            let listener = t.listener(2);
            t.tell("port", t.port_of(&listener));
            let sock = listener.accept().expect("accept");
            t.meet("connected");
            t.await_events(&sock, POLLHUP);
            t.err("recv", sock.recv(&mut [0; 8], 0), ECONNRESET);
            let sock = listener.accept().expect("accept");
            t.eq("data", t.recv_to_end(&sock), b"again".to_vec());
        },
        |t| {
            let port: u16 = t.hear("port");
            let sock = t.connected(port);
            t.meet("connected");
            t.ok("disconnect", sock.connect(&t.any(0).with_family(libc::AF_UNSPEC)));
            t.err("peer", sock.peer(), ENOTCONN);
            t.ok("connect again", sock.connect(&t.there(port)));
            t.send_all(&sock, b"again");
            sock.close().expect("close");
        },
    ),
    Case::two(
        "connect_to_an_unspecified_family_leaves_an_error",
        |t| serve(t, 3),
        |t| {
            let port: u16 = t.hear("port");
            let sock = t.connected(port);
            t.leave(&sock);
            t.see("error", sock.error());
            t.see("once", sock.error());
            t.ok("connect again", sock.connect(&t.there(port)));
            t.leave(&sock);
            // The error was not read.
            t.ok("and again", sock.connect(&t.there(port)));
            t.eq("no error", sock.error(), Ok(None));
            t.eq("send", sock.send(b"x", libc::MSG_NOSIGNAL), Ok(1));
            t.meet("done");
        },
    ),
    Case::two(
        "connect_forgets_the_error_of_before",
        |t| {
            let listener = t.listener(2);
            t.tell("port", t.port_of(&listener));
            let sock = listener.accept().expect("accept");
            t.wait("connected");
            sock.set_linger(true, 0).expect("SO_LINGER");
            sock.close().expect("close");
            let sock = listener.accept().expect("accept");
            t.eq("data", t.recv_to_end(&sock), b"again".to_vec());
        },
        |t| {
            let port: u16 = t.hear("port");
            let sock = t.connected(port);
            t.say("connected");
            t.await_events(&sock, POLLHUP);
            t.leave(&sock);
            t.ok("connect again", sock.connect(&t.there(port)));
            t.eq("no error", sock.error(), Ok(None));
            t.send_all(&sock, b"again");
        },
    ),
    Case::connected(
        "connect_to_an_unspecified_family_ends_a_read",
        |t, _s| t.wait("left"),
        |t, s| {
            let result =
                t.while_asleep(&[libc::SYS_recvfrom], |_| t.leave(s), || s.recv(&mut [0; 8], 0));
            t.err("recv", result, EPIPE);
            t.say("left");
        },
    ),
    Case::two(
        "connect_to_an_unspecified_family_ends_another_connect",
        |_| {},
        |t| {
            let sock = t.socket();
            let result = t.while_asleep(
                &[libc::SYS_connect],
                |_| t.leave(&sock),
                || sock.connect(&t.nobody(NEVER_ANSWERED)),
            );
            t.err("connect", result, EPIPE);
        },
    )
    .two_hosts(),
    Case::two(
        "connect_that_waits_can_be_shut_down",
        |_| {},
        |t| {
            let sock = t.socket();
            let shut = |_| sock.shutdown(libc::SHUT_RDWR).expect("shutdown");
            let result = t.while_asleep(&[libc::SYS_connect], shut, || {
                sock.connect(&t.nobody(NEVER_ANSWERED))
            });
            t.err("connect", result, ECONNRESET);
            t.eq("no error is left", sock.error(), Ok(None));
        },
    )
    .two_hosts(),
    Case::alone("connect_to_an_unspecified_family_on_a_fresh_socket", |t| {
        let sock = t.socket();
        t.ok("connect", sock.connect(&t.any(0).with_family(libc::AF_UNSPEC)));
        t.err("peer", sock.peer(), ENOTCONN);
    }),
    Case::two(
        "connect_from_one_port_to_two_listeners",
        |t| {
            let (first, second) = (t.listener(1), t.listener(1));
            t.tell("first", t.port_of(&first));
            t.tell("second", t.port_of(&second));
            let (_one, from_one) = first.accept_named().expect("accept");
            let (_two, from_two) = second.accept_named().expect("accept");
            t.holds("same port", from_one.port() == from_two.port());
            t.meet("done");
        },
        |t| {
            let (first, second): (u16, u16) = (t.hear("first"), t.hear("second"));
            let (one, two, three) = (t.socket(), t.socket(), t.socket());
            for sock in [&one, &two, &three] {
                sock.set(SOL_SOCKET, SO_REUSEADDR, &1).expect("SO_REUSEADDR");
            }
            one.bind(&t.here(0)).expect("bind");
            let port = t.port_of(&one);
            t.ok("second bind", two.bind(&t.here(port)));
            t.ok("third bind", three.bind(&t.here(port)));
            t.ok("connect to the first", one.connect(&t.there(first)));
            t.ok("connect to the second", two.connect(&t.there(second)));
            t.err("again to the first", three.connect(&t.there(first)), EADDRNOTAVAIL);
            t.meet("done");
        },
    ),
    Case::two(
        "connect_fails_when_all_ports_are_taken",
        |t| serve(t, 1),
        |t| {
            let port: u16 = t.hear("port");
            let _range = Sysctl::set("ipv4/ip_local_port_range", "20010 20013");
            let held: Vec<Sock> = (0..4).map(|_| t.bound()).collect();
            let sock = t.socket();
            t.err("connect", sock.connect(&t.there(port)), EADDRNOTAVAIL);
            held[1].set_linger(true, 0).expect("SO_LINGER");
            held[1].close().expect("close");
            t.ok("after one close", sock.connect(&t.there(port)));
            // A reset leaves no connection that would hold the port.
            sock.set_linger(true, 0).expect("SO_LINGER");
            t.meet("done");
        },
    ),
    Case::two(
        "connect_from_a_bound_port_needs_none_of_the_range",
        |t| serve(t, 3),
        |t| {
            let port: u16 = t.hear("port");
            let _range = Sysctl::set("ipv4/ip_local_port_range", "20070 20070");
            for own in 20071..20074 {
                let sock = t.socket();
                t.ok("bind", sock.bind(&t.here(own)));
                t.ok("connect", sock.connect(&t.there(port)));
                // No connection is left that would hold the port.
                sock.set_linger(true, 0).expect("SO_LINGER");
            }
            t.meet("done");
        },
    ),
    Case::alone("connect_within_one_host_from_a_bound_port_needs_none_of_the_range", |t| {
        let listener = t.listener(8);
        let _range = Sysctl::set("ipv4/ip_local_port_range", "20080 20080");
        for own in 20081..20084 {
            let sock = t.socket();
            t.ok("bind", sock.bind(&t.here(own)));
            t.ok("connect", sock.connect(&t.here(t.port_of(&listener))));
            sock.set_linger(true, 0).expect("SO_LINGER");
        }
    }),
    Case::two(
        "connect_shares_ports_between_different_peers",
        |t| {
            let listeners: Vec<Sock> = (0..3).map(|_| t.listener(4)).collect();
            for (listener, name) in listeners.iter().zip(PEERS) {
                t.tell(name, t.port_of(listener));
            }
            let two = |l: &Sock| [(); 2].map(|()| l.accept().expect("accept"));
            let held: Vec<[Sock; 2]> = listeners.iter().map(two).collect();
            for sock in held.iter().flatten() {
                assert_eq!(t.recv_exactly(sock, 1), b"?");
                t.send_all(sock, b"!");
            }
            t.meet("done");
        },
        |t| {
            let ports = PEERS.map(|name| t.hear::<u16>(name));
            let _range = Sysctl::set("ipv4/ip_local_port_range", "20060 20061");
            let connect = |port: &u16| {
                let sock = t.socket();
                t.ok("connect", sock.connect(&t.there(*port)));
                // No connection is left that would hold the port.
                sock.set_linger(true, 0).expect("SO_LINGER");
                sock
            };
            let held: Vec<Sock> = ports.iter().chain(&ports).map(connect).collect();
            let (here, mut taken) = (|s: &Sock| t.port_of(s), Vec::new());
            taken.extend(held.iter().map(here));
            taken.sort_unstable();
            t.eq("ports", taken, [[20060; 3], [20061; 3]].concat());
            let sock = t.socket();
            t.err("a third one to a peer", sock.connect(&t.there(ports[0])), EADDRNOTAVAIL);
            t.err("bind to such a port", sock.bind(&t.here(20060)), EADDRINUSE);
            t.err("bind to any port", sock.bind(&t.here(0)), EADDRINUSE);
            // The other side checks them in another order.
            for sock in &held {
                t.send_all(sock, b"?");
            }
            for sock in &held {
                t.eq("answer", t.recv_exactly(sock, 1), b"!".to_vec());
            }
            t.meet("done");
        },
    ),
    Case::alone("connect_within_one_host", |t| {
        let (server, client) = t.own_pair();
        t.ok("server name", server.name());
        t.ok("client name", client.name());
        t.send_all(&client, b"to myself");
        t.eq("data", t.recv_exactly(&server, 9), b"to myself".to_vec());
        server.close().expect("close");
        t.eq("end", t.recv_to_end(&client).len(), 0);
    })
    .both_versions(),
    Case::alone("connect_over_the_loopback_address", |t| {
        let listener = t.socket();
        listener.bind(&t.loopback(0)).expect("bind");
        listener.listen(1).expect("listen");
        let client = t.socket();
        t.ok("connect", client.connect(&t.loopback(t.port_of(&listener))));
        t.ok("name", client.name());
        let (server, from) = listener.accept_named().expect("accept");
        t.see("from", from);
        t.send_all(&server, b"around");
        t.eq("data", t.recv_exactly(&client, 6), b"around".to_vec());
    })
    .both_versions(),
    Case::alone("connect_to_the_wildcard_reaches_this_host", |t| {
        let listener = t.socket();
        listener.bind(&t.any(0)).expect("bind");
        listener.listen(1).expect("listen");
        let client = t.socket();
        t.ok("connect", client.connect(&t.any(t.port_of(&listener))));
        t.ok("peer", client.peer());
        let server = listener.accept().expect("accept");
        t.send_all(&client, b"zero");
        t.eq("data", t.recv_exactly(&server, 4), b"zero".to_vec());
    })
    .both_versions(),
    Case::alone("connect_to_its_own_address", |t| {
        let sock = t.bound();
        t.see("connect to itself", sock.connect(&t.here(t.port_of(&sock))));
    })
    .differs(&[Difference {
        label: "connect to itself",
        tcp: "ok",
        sdp: "ECONNREFUSED",
        reason: "a connection is made by a request to a listener, never by two crossing requests",
    }]),
    Case::two(
        "connect_many_in_a_row",
        |t| {
            let listener = t.listener(64);
            t.tell("port", t.port_of(&listener));
            let mut came: Vec<_> = (0..30)
                .map(|_| {
                    let sock = listener.accept().expect("accept");
                    t.recv_to_end(&sock)
                })
                .collect();
            // Connections that are established concurrently have no defined order.
            came.sort();
            t.eq("data", came, (0..30_u8).map(|number| vec![number]).collect::<Vec<_>>());
        },
        |t| {
            let port = t.hear("port");
            for number in 0..30_u8 {
                let sock = t.connected(port);
                t.send_all(&sock, &[number]);
            }
        },
    ),
    Case::two(
        "connect_survives_a_close_while_under_way",
        |t| {
            let listener = t.listener(16);
            t.tell("port", t.port_of(&listener));
            t.meet("closed");
            // Whatever happened to the abandoned connections, a new one must succeed.
            let through = (0..9).any(|_| {
                let sock = listener.accept().expect("accept");
                let mut room = [0; 8];
                matches!(sock.recv(&mut room, 0), Ok(7)) && &room[..7] == b"through"
            });
            t.holds("through", through);
        },
        |t| {
            let port = t.hear("port");
            for _ in 0..8 {
                let sock = t.socket_with(libc::SOCK_NONBLOCK);
                t.err("connect", sock.connect(&t.there(port)), EINPROGRESS);
                sock.close().expect("close");
            }
            t.meet("closed");
            let sock = t.connected(port);
            t.send_all(&sock, b"through");
            t.eq("end", t.recv_to_end(&sock).len(), 0);
        },
    ),
];
