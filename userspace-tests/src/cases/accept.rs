// SPDX-License-Identifier: MIT
//! `listen` and `accept`: the queue, its limits, and connections that end before they are accepted.

use std::collections::HashMap;
use std::ptr;
use std::sync::mpsc;

use libc::{
    EADDRINUSE, EAGAIN, ECONNREFUSED, ECONNRESET, EFAULT, EINTR, EINVAL, ENOTCONN, POLLIN, POLLOUT,
    SOL_SOCKET, SOL_TCP, SO_REUSEADDR,
};

use super::zcopy::counted;
use crate::addr::Addr;
use crate::blocked::{kill_thread, pid, sleeps_of, tid};
use crate::case::Case;
use crate::errno::Errno;
use crate::role::{Role, ENOUGH, LIMIT, SIOCOUTQ};
use crate::signal;
use crate::sock::Sock;

/// A listener that has told its port; the case itself accepts.
fn told_listener(t: &Role, backlog: i32) -> Sock {
    let listener = t.listener(backlog);
    t.tell("port", t.port_of(&listener));
    listener
}

fn await_pending(t: &Role, listener: &Sock) {
    t.await_events(listener, POLLIN);
}

/// Number of connects; there is no room at once for most of them.
const CROWD: usize = 5;

pub const CASES: &[Case] = &[
    Case::two(
        "accept_takes_connections_in_their_order",
        |t| {
            let listener = told_listener(t, 8);
            t.wait("all connected");
            // The client's end of a connection is ready before the server's.
            t.holds("all wait", t.until(|| listener.queue() == Ok((5, 8))));
            for number in 0..5_u8 {
                let sock = listener.accept().expect("accept");
                t.eq("number", t.recv_exactly(&sock, 1), vec![number]);
            }
            t.say("taken");
        },
        |t| {
            let port = t.hear("port");
            let mut socks = Vec::new();
            for number in 0..5_u8 {
                let sock = t.connected(port);
                t.send_all(&sock, &[number]);
                socks.push(sock);
            }
            t.say("all connected");
            t.wait("taken");
        },
    )
    .both_versions(),
    Case::alone("accept_of_a_listener_that_was_not_bound", |t| {
        // SDP's address family number is valid for both IP versions.
        let listener = t.plain_socket();
        t.ok("listen", listener.listen(1));
        let client = t.plain_socket();
        t.ok("connect", client.connect(&t.here(t.port_of(&listener))));
        let (server, from) = listener.accept_named().expect("accept");
        let client_name = client.name().expect("name");
        t.holds("named after the client", from.to_string() == client_name.to_string());
        t.ok("name", server.name());
    })
    .both_versions(),
    Case::alone("accept_on_an_empty_queue_would_block", |t| {
        let listener = t.listener(1);
        listener.set_nonblocking(true).expect("O_NONBLOCK");
        t.err("accept", listener.accept(), EAGAIN);
        t.err("accept4", listener.accept4(libc::SOCK_CLOEXEC), EAGAIN);
        t.eq("events", listener.poll(POLLIN | POLLOUT, 0).map(|up| up.0), Ok(0));
    })
    .both_versions(),
    Case::alone("accept_waits_no_longer_than_so_rcvtimeo", |t| {
        let listener = t.listener(1);
        listener.set_timeout(libc::SO_RCVTIMEO, LIMIT).expect("SO_RCVTIMEO");
        let start = std::time::Instant::now();
        t.err("accept", listener.accept(), EAGAIN);
        t.holds("waited", start.elapsed().as_millis() >= ENOUGH);
    }),
    Case::alone("accept_needs_a_listening_socket", |t| {
        t.err("fresh", t.socket().accept(), EINVAL);
        t.err("bound", t.bound().accept(), EINVAL);
        let (server, client) = t.own_pair();
        t.err("accepted", server.accept(), EINVAL);
        t.err("connected", client.accept(), EINVAL);
    }),
    Case::two(
        "accept_is_woken_by_a_connection",
        |t| {
            let listener = told_listener(t, 1);
            t.tell_sleeping("accepting");
            let sock = t.ok("accept", listener.accept());
            t.eq("data", t.recv_exactly(&sock, 2), b"hi".to_vec());
        },
        |t| {
            let port = t.hear("port");
            t.hear_asleep("accepting", &[libc::SYS_accept4]);
            let sock = t.connected(port);
            t.send_all(&sock, b"hi");
            t.eq("end", t.recv_to_end(&sock).len(), 0);
        },
    ),
    Case::two(
        "accept_wakes_one_of_those_who_wait",
        |t| {
            const THREADS: usize = 3;
            let listener = told_listener(t, 8);
            let (tell, told) = mpsc::channel::<(i32, Option<Sock>)>();
            // The waiting thread ends with the last connection, so nothing may fail before that.
            let disturbed = std::thread::scope(|scope| {
                for _ in 0..THREADS {
                    let (tell, listener) = (tell.clone(), &listener);
                    scope.spawn(move || {
                        tell.send((tid(), None)).expect("told");
                        let sock = listener.accept().expect("accept");
                        tell.send((tid(), Some(sock))).expect("told");
                    });
                }
                let hear = || told.recv().expect("hear");
                let mut waiting: Vec<i32> = (0..THREADS).map(|_| hear().0).collect();
                for thread in &waiting {
                    t.await_asleep(pid(), *thread, &[libc::SYS_accept4]);
                }
                let mut sleeps: HashMap<i32, u64> =
                    waiting.iter().map(|thread| (*thread, sleeps_of(*thread))).collect();
                let mut disturbed = 0;
                while !waiting.is_empty() {
                    t.say("connect");
                    let (thread, _sock) = hear();
                    waiting.retain(|other| *other != thread);
                    for other in &waiting {
                        let now = sleeps_of(*other);
                        disturbed += usize::from(sleeps.insert(*other, now) != Some(now));
                    }
                }
                disturbed
            });
            t.eq("threads that were woken for others", disturbed, 0);
        },
        |t| {
            let port = t.hear("port");
            let mut socks = Vec::new();
            for _ in 0..3 {
                t.wait("connect");
                socks.push(t.connected(port));
            }
            for sock in &socks {
                t.eq("end", t.recv_to_end(sock).len(), 0);
            }
        },
    )
    .both_versions(),
    Case::alone("accept_is_interrupted_by_a_signal", |t| {
        signal::catch(libc::SIGUSR1, false);
        let listener = t.listener(1);
        let poke = |thread| kill_thread(thread, libc::SIGUSR1).expect("tgkill");
        let result = t.while_asleep(&[libc::SYS_accept4], poke, || listener.accept());
        t.err("accept", result, EINTR);
        t.eq("signals", signal::caught(libc::SIGUSR1), 1);
    }),
    Case::two(
        "accept_is_restarted_after_a_signal",
        |t| {
            signal::catch(libc::SIGUSR1, true);
            let listener = told_listener(t, 1);
            let calls = [libc::SYS_accept4];
            let poke = |thread| {
                kill_thread(thread, libc::SIGUSR1).expect("tgkill");
                assert!(t.until(|| signal::caught(libc::SIGUSR1) == 1), "the signal came");
                t.await_asleep(crate::blocked::pid(), thread, &calls);
                t.say("sleeps again");
            };
            let result = t.while_asleep(&calls, poke, || listener.accept());
            t.ok("accept", result);
        },
        |t| {
            let port = t.hear("port");
            t.wait("sleeps again");
            let sock = t.connected(port);
            t.eq("end", t.recv_to_end(&sock).len(), 0);
        },
    ),
    Case::two(
        "accept4_sets_the_descriptor_flags",
        |t| {
            let listener = told_listener(t, 4);
            for flags in [0, libc::SOCK_NONBLOCK, libc::SOCK_CLOEXEC] {
                let sock = listener.accept4(flags).expect("accept4");
                t.eq("nonblocking", sock.is_nonblocking(), Ok(flags == libc::SOCK_NONBLOCK));
                t.eq("cloexec", sock.is_cloexec(), Ok(flags == libc::SOCK_CLOEXEC));
            }
            t.err("unknown flag", listener.accept4(1), EINVAL);
            t.meet("done");
        },
        |t| {
            let port = t.hear("port");
            let _socks = [t.connected(port), t.connected(port), t.connected(port)];
            t.meet("done");
        },
    ),
    Case::two(
        "accept_does_not_pass_on_nonblocking_mode",
        |t| {
            let listener = told_listener(t, 1);
            listener.set_nonblocking(true).expect("O_NONBLOCK");
            await_pending(t, &listener);
            let sock = t.ok("accept", listener.accept());
            t.eq("nonblocking", sock.is_nonblocking(), Ok(false));
            t.meet("done");
        },
        |t| {
            let _sock = t.connect_told();
            t.meet("done");
        },
    ),
    Case::two(
        "accept_passes_on_the_options_of_the_listener",
        |t| {
            let listener = t.bound();
            for (level, option) in [
                (SOL_SOCKET, libc::SO_KEEPALIVE),
                (SOL_SOCKET, libc::SO_OOBINLINE),
                (SOL_TCP, libc::TCP_NODELAY),
            ] {
                listener.set(level, option, &1).expect("setsockopt");
            }
            listener.set(SOL_SOCKET, libc::SO_RCVLOWAT, &7).expect("SO_RCVLOWAT");
            listener.set_linger(true, 3).expect("SO_LINGER");
            listener.set(SOL_SOCKET, libc::SO_SNDBUF, &50_000).expect("SO_SNDBUF");
            listener.listen(1).expect("listen");
            t.tell("port", t.port_of(&listener));
            let sock = listener.accept().expect("accept");
            t.eq("SO_KEEPALIVE", sock.get(SOL_SOCKET, libc::SO_KEEPALIVE), Ok(1));
            t.eq("SO_OOBINLINE", sock.get(SOL_SOCKET, libc::SO_OOBINLINE), Ok(1));
            t.eq("TCP_NODELAY", sock.get(SOL_TCP, libc::TCP_NODELAY), Ok(1));
            t.eq("SO_RCVLOWAT", sock.get(SOL_SOCKET, libc::SO_RCVLOWAT), Ok(7));
            t.eq("SO_SNDBUF", sock.get(SOL_SOCKET, libc::SO_SNDBUF), Ok(100_000));
            let off = libc::linger { l_onoff: 0, l_linger: 0 };
            let linger = sock.get_as(SOL_SOCKET, libc::SO_LINGER, off).expect("SO_LINGER");
            t.eq("SO_LINGER", (linger.l_onoff, linger.l_linger), (1, 3));
            t.meet("done");
        },
        |t| {
            let _sock = t.connect_told();
            t.meet("done");
        },
    ),
    Case::two(
        "accept_cuts_the_address_to_the_room_given",
        |t| {
            let listener = told_listener(t, 4);
            let whole = t.there(0).len();
            for room in [0, 2, 8] {
                let mut addr = Addr::empty().with_len(room);
                let name = addr.as_mut_ptr();
                t.ok("accept", listener.accept_raw(name, addr.len_mut(), 0));
                t.eq("length", addr.len(), whole);
            }
            t.meet("done");
        },
        |t| {
            let port = t.hear("port");
            let _socks = [t.connected(port), t.connected(port), t.connected(port)];
            t.meet("done");
        },
    )
    .both_versions(),
    Case::two(
        "accept_to_bad_memory_faults",
        |t| {
            let listener = told_listener(t, 4);
            let mut len = 128;
            let name = ptr::dangling_mut::<libc::sockaddr>();
            t.err("bad address", listener.accept_raw(name, &raw mut len, 0), EFAULT);
            let mut addr = Addr::empty();
            let bad_len = listener.accept_raw(addr.as_mut_ptr(), ptr::null_mut(), 0);
            t.err("no length", bad_len, EFAULT);
            let mut negative = -1_i32 as libc::socklen_t;
            let name = addr.as_mut_ptr();
            t.err("negative length", listener.accept_raw(name, &raw mut negative, 0), EINVAL);
            let sock = t.ok("afterwards", listener.accept());
            t.eq("data", t.recv_exactly(&sock, 4), b"last".to_vec());
        },
        |t| {
            let port = t.hear("port");
            let socks: Vec<Sock> = (0..4).map(|_| t.connected(port)).collect();
            t.send_all(&socks[3], b"last");
            // The first three were removed from the queue and closed when their call failed.
            for sock in &socks[..3] {
                t.eq("end", t.recv_to_end(sock).len(), 0);
            }
        },
    ),
    Case::two(
        "accept_of_a_connection_closed_by_its_peer",
        |t| {
            let listener = told_listener(t, 1);
            t.wait("closed");
            let (sock, from) = listener.accept_named().expect("accept");
            t.see("from", from);
            t.eq("end", t.recv_to_end(&sock).len(), 0);
            t.ok("peer", sock.peer());
        },
        |t| {
            let sock = t.connect_told();
            sock.close().expect("close");
            t.say("closed");
        },
    )
    .both_versions(),
    Case::two(
        "accept_of_a_closed_connection_with_data_in_it",
        |t| {
            let listener = told_listener(t, 1);
            t.wait("closed");
            let sock = listener.accept().expect("accept");
            t.eq("data", t.recv_to_end(&sock), b"last words".to_vec());
            t.eq("end again", t.recv_to_end(&sock).len(), 0);
        },
        |t| {
            let sock = t.connect_told();
            t.send_all(&sock, b"last words");
            sock.close().expect("close");
            t.say("closed");
        },
    )
    .both_versions(),
    Case::two(
        "accept_of_a_connection_reset_by_its_peer",
        |t| {
            let listener = told_listener(t, 1);
            t.wait("reset");
            let sock = t.ok("accept", listener.accept());
            t.await_events(&sock, libc::POLLHUP);
            t.err("recv", sock.recv(&mut [0; 8], 0), ECONNRESET);
            t.eq("recv again", sock.recv(&mut [0; 8], 0), Ok(0));
            t.err("peer", sock.peer(), ENOTCONN);
        },
        |t| {
            let sock = t.connect_told();
            sock.set_linger(true, 0).expect("SO_LINGER");
            sock.close().expect("close");
            t.say("reset");
        },
    )
    .both_versions(),
    Case::two(
        "accept_of_a_reset_connection_with_data_in_it",
        |t| {
            let listener = told_listener(t, 1);
            t.wait("reset");
            let sock = listener.accept().expect("accept");
            t.await_events(&sock, libc::POLLHUP);
            let mut room = [0; 16];
            let first = sock.recv(&mut room, 0);
            t.see("first", first);
            t.see("second", sock.recv(&mut room, 0));
            t.see("third", sock.recv(&mut room, 0));
        },
        |t| {
            let sock = t.connect_told();
            t.send_all(&sock, b"last words");
            // A reset may overtake bytes in flight.
            t.holds("delivered", t.until(|| sock.ioctl(SIOCOUTQ) == Ok(0)));
            sock.set_linger(true, 0).expect("SO_LINGER");
            sock.close().expect("close");
            t.say("reset");
        },
    ),
    Case::two(
        "accept_keeps_data_that_came_before_it",
        |t| {
            let listener = told_listener(t, 1);
            t.wait("sent");
            let sock = listener.accept().expect("accept");
            t.await_events(&sock, POLLIN);
            t.eq("data", t.recv_exactly(&sock, 3000), vec![7; 3000]);
            t.send_all(&sock, b"thanks");
        },
        |t| {
            let sock = t.connect_told();
            t.send_all(&sock, &[7; 3000]);
            t.say("sent");
            t.eq("answer", t.recv_to_end(&sock), b"thanks".to_vec());
        },
    ),
    Case::two(
        "listener_close_resets_connections_nobody_took",
        |t| {
            let listener = told_listener(t, 4);
            t.wait("connected");
            await_pending(t, &listener);
            t.ok("close", listener.close());
            t.meet("done");
        },
        |t| {
            let port = t.hear("port");
            let (first, second) = (t.connected(port), t.connected(port));
            t.send_all(&second, b"x");
            t.say("connected");
            for sock in [&first, &second] {
                t.await_events(sock, libc::POLLHUP);
                t.err("recv", sock.recv(&mut [0; 8], 0), ECONNRESET);
            }
            t.err("connect", t.socket().connect(&t.there(port)), ECONNREFUSED);
            t.meet("done");
        },
    )
    .both_versions(),
    Case::two(
        "listener_close_spares_accepted_connections",
        |t| {
            let listener = told_listener(t, 1);
            let sock = listener.accept().expect("accept");
            listener.close().expect("close");
            t.say("closed");
            t.eq("data", t.recv_to_end(&sock), b"alive".to_vec());
        },
        |t| {
            let port: u16 = t.hear("port");
            let sock = t.connected(port);
            t.wait("closed");
            t.err("connect", t.socket().connect(&t.there(port)), ECONNREFUSED);
            t.send_all(&sock, b"alive");
        },
    ),
    Case::two(
        "listener_shut_down_for_reading_stops_listening",
        |t| {
            // Only a port that was bound by number outlives the listening state.
            let listener = t.socket();
            listener.bind(&t.here(t.free_port())).expect("bind");
            listener.listen(4).expect("listen");
            t.tell("port", t.port_of(&listener));
            t.wait("connected");
            await_pending(t, &listener);
            t.ok("shutdown", listener.shutdown(libc::SHUT_RD));
            t.err("accept", listener.accept(), EINVAL);
            t.eq("listens", listener.get(SOL_SOCKET, libc::SO_ACCEPTCONN), Ok(0));
            t.meet("shut");
            t.wait("refused");
            t.ok("listen again", listener.listen(4));
            t.tell("again", t.port_of(&listener));
            t.ok("accept again", listener.accept());
        },
        |t| {
            let port: u16 = t.hear("port");
            let first = t.connected(port);
            t.say("connected");
            t.meet("shut");
            t.await_events(&first, libc::POLLHUP);
            t.err("recv", first.recv(&mut [0; 8], 0), ECONNRESET);
            t.err("connect", t.socket().connect(&t.there(port)), ECONNREFUSED);
            t.say("refused");
            let again: u16 = t.hear("again");
            t.holds("same port", again == port);
            let sock = t.connected(again);
            t.eq("end", t.recv_to_end(&sock).len(), 0);
        },
    ),
    Case::two(
        "listener_shut_down_for_writing_goes_on_listening",
        |t| {
            let listener = told_listener(t, 4);
            t.ok("shutdown", listener.shutdown(libc::SHUT_WR));
            t.say("shut");
            t.ok("accept", listener.accept());
        },
        |t| {
            let port = t.hear("port");
            t.wait("shut");
            let sock = t.connected(port);
            t.eq("end", t.recv_to_end(&sock).len(), 0);
        },
    ),
    Case::two(
        "listener_reports_pending_connections_to_poll",
        |t| {
            let listener = told_listener(t, 4);
            t.eq("idle", listener.poll(POLLIN | POLLOUT, 0).map(|up| up.0), Ok(0));
            t.say("connect");
            t.see("pending", t.await_events(&listener, POLLIN));
            listener.accept().expect("accept");
            t.eq("taken", listener.poll(POLLIN | POLLOUT, 0).map(|up| up.0), Ok(0));
        },
        |t| {
            let port = t.hear("port");
            t.wait("connect");
            let sock = t.connected(port);
            t.eq("end", t.recv_to_end(&sock).len(), 0);
        },
    )
    .both_versions(),
    Case::alone("listener_cannot_transfer_data", |t| {
        let listener = t.listener(1);
        t.err("recv", listener.recv(&mut [0; 8], 0), ENOTCONN);
        t.err("send", listener.send(b"x", libc::MSG_NOSIGNAL), libc::EPIPE);
    })
    .both_versions(),
    Case::alone("listen_without_bind_takes_a_free_port", |t| {
        let sock = t.socket();
        t.ok("listen", sock.listen(1));
        let name = t.ok("name", sock.name());
        t.holds("has a port", name.port() != 0);
        let client = t.socket();
        t.ok("connect", client.connect(&t.here(name.port())));
        t.ok("accept", sock.accept());
    })
    .both_versions(),
    Case::alone("listen_again_changes_the_backlog", |t| {
        let listener = t.listener(1);
        for backlog in [5, 0, -1, i32::MAX] {
            t.ok(&format!("backlog {backlog}"), listener.listen(backlog));
        }
        let client = t.socket();
        t.ok("connect", client.connect(&t.here(t.port_of(&listener))));
        t.ok("accept", listener.accept());
    }),
    Case::alone("listen_on_a_connected_socket_is_invalid", |t| {
        let (server, client) = t.own_pair();
        t.err("accepted", server.listen(1), EINVAL);
        t.err("connected", client.listen(1), EINVAL);
    }),
    Case::alone("listen_on_a_shared_port_works_once", |t| {
        let socks = [t.socket(), t.socket()];
        let mut port = 0;
        for sock in &socks {
            sock.set(SOL_SOCKET, SO_REUSEADDR, &1).expect("SO_REUSEADDR");
            sock.bind(&t.here(port)).expect("bind");
            port = t.port_of(sock);
        }
        t.ok("first", socks[0].listen(1));
        t.err("second", socks[1].listen(1), EADDRINUSE);
        socks[0].close().expect("close");
        t.ok("second, after the close", socks[1].listen(1));
    }),
    Case::two(
        "backlog_limits_the_connections_that_wait",
        |t| {
            let listener = told_listener(t, 3);
            t.wait("no more");
            let accepted = (0..3).filter(|_| listener.accept().is_ok()).count();
            t.eq("accepted", accepted, 3);
            t.say("room again");
            t.ok("one more", listener.accept());
            t.meet("done");
        },
        |t| {
            let port: u16 = t.hear("port");
            // Enough attempts to exceed every interpretation of the limit, with a short wait for
            // each.
            let attempts: Vec<Sock> = (0..10)
                .map(|_| {
                    let sock = t.socket_with(libc::SOCK_NONBLOCK);
                    t.err("connect", sock.connect(&t.there(port)), libc::EINPROGRESS);
                    sock.poll(POLLOUT, t.glance()).expect("poll");
                    sock
                })
                .collect();
            let through = attempts.iter().filter(|sock| sock.peer().is_ok()).count();
            t.holds("at least the backlog", through >= 3);
            t.holds("one more at most", through <= 4);
            drop(attempts);
            t.say("no more");
            t.wait("room again");
            let sock = t.socket();
            t.holds(
                "through in the end",
                t.until(|| match sock.connect(&t.there(port)) {
                    Ok(()) => true,
                    Err(Errno(ECONNREFUSED)) => false,
                    Err(errno) => panic!("connect: {errno}"),
                }),
            );
            t.meet("done");
        },
    ),
    Case::two(
        "connects_that_find_no_room_wait_for_it",
        |t| {
            let listener = told_listener(t, 1);
            counted(
                t,
                || {
                    t.wait("all have begun");
                    for _ in 0..CROWD {
                        t.ok("accept", listener.accept());
                    }
                    t.meet("all are through");
                },
                // One that is forgotten waits for its next try, and all of them try at the same moment.
                |of| assert_eq!(of("hellos_dropped"), 0, "no Hello is forgotten"),
            );
        },
        |t| {
            let port: u16 = t.hear("port");
            let attempts: Vec<Sock> = (0..CROWD)
                .map(|_| {
                    let sock = t.socket_with(libc::SOCK_NONBLOCK);
                    t.err("connect", sock.connect(&t.there(port)), libc::EINPROGRESS);
                    // TCP would answer several SYNs at once with cookies, and lose their connections.
                    sock.poll(POLLOUT, t.glance()).expect("poll");
                    sock
                })
                .collect();
            t.say("all have begun");
            for sock in &attempts {
                t.await_events(sock, POLLOUT);
                t.ok("connected", sock.peer());
            }
            t.meet("all are through");
        },
    ),
    Case::two(
        "a_connect_that_waits_for_room_ends_with_its_listener",
        |t| {
            let listener = told_listener(t, 0);
            t.wait("one waits");
            drop(listener);
            t.meet("refused");
        },
        |t| {
            let port: u16 = t.hear("port");
            let first = t.connected(port);
            let second = t.socket_with(libc::SOCK_NONBLOCK);
            t.err("connect", second.connect(&t.there(port)), libc::EINPROGRESS);
            second.poll(POLLOUT, t.glance()).expect("poll");
            t.say("one waits");
            t.await_events(&second, POLLOUT);
            t.eq("error", second.error(), Ok(Some(Errno(ECONNREFUSED))));
            drop(first);
            t.meet("refused");
        },
    ),
    Case::two(
        "backlog_holds_many_connections",
        |t| {
            let listener = told_listener(t, 64);
            t.wait("connected");
            let mut numbers: Vec<u8> = (0..50)
                .map(|_| t.recv_exactly(&listener.accept().expect("accept"), 1)[0])
                .collect();
            numbers.sort_unstable();
            t.eq("numbers", numbers, (0..50).collect());
        },
        |t| {
            let port = t.hear("port");
            let socks: Vec<Sock> = (0..50_u8)
                .map(|number| {
                    let sock = t.connected(port);
                    t.send_all(&sock, &[number]);
                    sock
                })
                .collect();
            t.say("connected");
            for sock in &socks {
                t.eq("end", t.recv_to_end(sock).len(), 0);
            }
        },
    ),
];
