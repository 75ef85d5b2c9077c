// SPDX-License-Identifier: MIT
//! `SO_REUSEPORT` and `SO_BINDTODEVICE`: several sockets on one port, and the choice among them.

use libc::{
    c_int, EADDRINUSE, ECONNREFUSED, EINVAL, POLLIN, SOL_SOCKET, SO_BINDTODEVICE, SO_REUSEADDR,
    SO_REUSEPORT,
};

use crate::case::Case;
use crate::errno::{Errno, Res};
use crate::netns::enter_foreign;
use crate::role::Role;
use crate::sock::Sock;

fn sharing(t: &Role) -> Sock {
    let sock = t.socket();
    sock.set(SOL_SOCKET, SO_REUSEPORT, &1).expect("SO_REUSEPORT");
    sock
}

/// Two listeners that share a port.
#[track_caller]
fn two_listeners(t: &Role, backlog: c_int) -> ([Sock; 2], u16) {
    let first = sharing(t);
    first.bind(&t.here(0)).expect("bind");
    let port = t.port_of(&first);
    let second = sharing(t);
    second.bind(&t.here(port)).expect("bind");
    first.listen(backlog).expect("listen");
    second.listen(backlog).expect("listen");
    ([first, second], port)
}

fn set_device(sock: &Sock, name: &str) -> Res<()> {
    sock.set_raw(SOL_SOCKET, SO_BINDTODEVICE, name.as_ptr().cast(), name.len() as u32)
}

fn on_device(t: &Role, name: &str) -> Sock {
    let sock = t.socket();
    set_device(&sock, name).expect("SO_BINDTODEVICE");
    sock
}

/// The interface of this host towards the other one.
fn device() -> &'static str {
    let own = std::path::Path::new("/proc/sys/net/ipv4/conf");
    let found = ["va", "vb", "x0"].into_iter().find(|name| own.join(name).exists());
    found.expect("an interface of the topology")
}

/// A socket on the loopback device and one on the device to the other host, bound to one port.
///
/// A port that is free on the one device may be taken on the other, for instance by a connection
/// in `TIME_WAIT`, so another port is tried then.
#[track_caller]
fn one_port_on_two_devices(t: &Role) -> (Sock, Sock, u16) {
    let found = (0..20).find_map(|_| {
        let inner = on_device(t, "lo");
        inner.bind(&t.any(0)).expect("bind");
        let port = t.port_of(&inner);
        let outer = on_device(t, device());
        match outer.bind(&t.any(port)) {
            Err(Errno(EADDRINUSE)) => None,
            bound => {
                t.ok("the same port", bound);
                Some((inner, outer, port))
            }
        }
    });
    found.expect("a port that is free on both devices")
}

pub const CASES: &[Case] = &[
    Case::alone("shared_port_is_for_those_who_all_share", |t| {
        // The third takes the port of every address, which one in `TIME_WAIT` may have.
        let port = {
            let every = t.socket();
            every.bind(&t.any(0)).expect("bind");
            t.port_of(&every)
        };
        let first = sharing(t);
        first.bind(&t.here(port)).expect("bind");
        let second = sharing(t);
        t.ok("who shares", second.bind(&t.here(port)));
        t.err("who does not", t.socket().bind(&t.here(port)), EADDRINUSE);
        let address = t.socket();
        address.set(SOL_SOCKET, SO_REUSEADDR, &1).expect("SO_REUSEADDR");
        t.err("who reuses the address", address.bind(&t.here(port)), EADDRINUSE);
        t.ok("listen", first.listen(1));
        t.ok("listen too", second.listen(1));
        t.ok("a third", sharing(t).bind(&t.any(port)));
    })
    .both_versions(),
    Case::alone("shared_port_is_not_for_a_first_who_does_not_share", |t| {
        let first = t.bound();
        t.err("bind", sharing(t).bind(&t.here(t.port_of(&first))), EADDRINUSE);
    }),
    Case::alone("shared_port_is_not_for_other_users", |t| {
        let first = sharing(t);
        first.bind(&t.here(0)).expect("bind");
        let port = t.port_of(&first);
        // SAFETY: a plain call; this process belongs to the case.
        assert_eq!(unsafe { libc::setresuid(1000, 1000, 0) }, 0);
        t.err("bind", sharing(t).bind(&t.here(port)), EADDRINUSE);
    }),
    Case::alone("shared_port_is_not_for_users_that_the_namespace_does_not_map", |t| {
        // SAFETY: plain calls; this process belongs to the case.
        let become_user = |user| assert_eq!(unsafe { libc::setresuid(user, user, 0) }, 0);
        enter_foreign().expect("a namespace of others");
        become_user(1001);
        let first = sharing(t);
        first.bind(&t.any(0)).expect("bind");
        first.listen(1).expect("listen");
        let port = t.port_of(&first);
        t.ok("the same user", sharing(t).bind(&t.any(port)));
        become_user(0);
        become_user(1002);
        t.err("another", sharing(t).bind(&t.any(port)), EADDRINUSE);
        become_user(0);
        become_user(65_534);
        t.err("user 65534", sharing(t).bind(&t.any(port)), EADDRINUSE);
    })
    .both_versions(),
    Case::two(
        "shared_port_of_a_user_stays_the_users_with_connections_waiting",
        |t| {
            // SAFETY: a plain call; this process belongs to the case.
            assert_eq!(unsafe { libc::setresuid(1000, 1000, 0) }, 0);
            let first = sharing(t);
            first.bind(&t.here(0)).expect("bind");
            first.listen(4).expect("listen");
            let port = t.port_of(&first);
            t.tell("port", port);
            t.wait("connected");
            t.ok("a second", sharing(t).bind(&t.here(port)));
            t.ok("accept", first.accept());
            t.say("accepted");
        },
        |t| {
            let _sock = t.connected(t.hear("port"));
            t.say("connected");
            t.wait("accepted");
        },
    ),
    Case::alone("shared_port_option_can_be_taken_back", |t| {
        let sock = t.socket();
        t.eq("at first", sock.get(SOL_SOCKET, SO_REUSEPORT), Ok(0));
        t.ok("on", sock.set(SOL_SOCKET, SO_REUSEPORT, &7));
        t.eq("is on", sock.get(SOL_SOCKET, SO_REUSEPORT), Ok(1));
        t.ok("off", sock.set(SOL_SOCKET, SO_REUSEPORT, &0));
        t.eq("is off", sock.get(SOL_SOCKET, SO_REUSEPORT), Ok(0));
        t.err("short", sock.set(SOL_SOCKET, SO_REUSEPORT, &1_u8), EINVAL);
    }),
    Case::two(
        "shared_port_spreads_connections_over_its_listeners",
        |t| {
            let ([first, second], port) = two_listeners(t, 64);
            t.tell("port", port);
            t.wait("connected");
            let mut counts = [0_usize; 2];
            while counts.iter().sum::<usize>() < 40 {
                for (listener, count) in [&first, &second].into_iter().zip(&mut counts) {
                    if listener.poll(POLLIN, 0).is_ok_and(|up| up.0 != 0) {
                        let sock = listener.accept().expect("accept");
                        t.eq("data", t.recv_exactly(&sock, 1), b"x".to_vec());
                        *count += 1;
                    }
                }
            }
            t.holds("both have some", counts.iter().all(|count| *count >= 3));
            t.say("taken");
        },
        |t| {
            let port = t.hear("port");
            let socks: Vec<Sock> = (0..40).map(|_| t.connected(port)).collect();
            for sock in &socks {
                t.send_all(sock, b"x");
            }
            t.say("connected");
            t.wait("taken");
        },
    ),
    Case::two(
        "shared_port_goes_on_with_who_is_left",
        |t| {
            let ([first, second], port) = two_listeners(t, 8);
            first.close().expect("close");
            std::mem::forget(first);
            t.tell("port", port);
            for _ in 0..6 {
                t.ok("accept", second.accept());
            }
            t.say("taken");
        },
        |t| {
            let port = t.hear("port");
            let _socks: Vec<Sock> = (0..6).map(|_| t.connected(port)).collect();
            t.wait("taken");
        },
    ),
    Case::two(
        "device_of_a_listener_is_where_connections_come_in",
        |t| {
            let listener = on_device(t, device());
            listener.bind(&t.any(0)).expect("bind");
            listener.listen(4).expect("listen");
            t.tell("port", t.port_of(&listener));
            let sock = listener.accept().expect("accept");
            t.eq("data", t.recv_exactly(&sock, 1), b"x".to_vec());
            t.meet("done");
        },
        |t| {
            let sock = t.connect_told();
            t.send_all(&sock, b"x");
            t.meet("done");
        },
    )
    .two_hosts()
    .both_versions(),
    Case::two(
        "device_of_a_listener_hides_it_from_others",
        |t| {
            t.listens_unheard(on_device(t, "lo"));
        },
        |t| {
            let port = t.hear("port");
            t.err("connect", t.socket().connect(&t.there(port)), ECONNREFUSED);
            t.say("tried");
        },
    )
    .two_hosts()
    .both_versions(),
    Case::two(
        "device_decides_between_two_listeners",
        |t| {
            let (inner, outer, port) = one_port_on_two_devices(t);
            t.err("a third", t.socket().bind(&t.any(port)), EADDRINUSE);
            inner.listen(4).expect("listen");
            outer.listen(4).expect("listen");
            t.tell("port", port);
            t.ok("from outside", outer.accept());
            let client = t.socket();
            t.ok("within", client.connect(&t.loopback(port)));
            t.ok("from within", inner.accept());
            let client = t.socket();
            t.ok("to the address of the other", client.connect(&t.here(port)));
            t.ok("from there", outer.accept());
            t.meet("done");
        },
        |t| {
            let _sock = t.connect_told();
            t.meet("done");
        },
    )
    .two_hosts(),
    Case::two(
        "device_of_a_client_is_where_it_goes_out",
        |t| {
            let listener = t.listener(4);
            t.tell("port", t.port_of(&listener));
            let sock = listener.accept().expect("accept");
            t.eq("data", t.recv_exactly(&sock, 1), b"x".to_vec());
            t.meet("done");
        },
        |t| {
            let sock = on_device(t, device());
            let port = t.hear("port");
            t.ok("connect", sock.connect(&t.there(port)));
            t.send_all(&sock, b"x");
            t.meet("done");
        },
    )
    .two_hosts()
    .both_versions(),
];
