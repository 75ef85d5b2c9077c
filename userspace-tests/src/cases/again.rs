// SPDX-License-Identifier: MIT
//! A connection with the four addresses of an earlier one, which is closed or still open.

use libc::{EADDRINUSE, EADDRNOTAVAIL, EPIPE, MSG_NOSIGNAL, POLLHUP, SOL_SOCKET, SO_REUSEADDR};

use crate::case::Case;
use crate::role::Role;
use crate::sock::Sock;

const ROUNDS: u32 = 8;

/// A socket at this port of the host, or at a free one; it may share the port with closed sockets.
#[track_caller]
fn at(t: &Role, port: u16) -> Sock {
    let sock = t.socket();
    sock.set(SOL_SOCKET, SO_REUSEADDR, &1).expect("SO_REUSEADDR");
    sock.bind(&t.here(port)).expect("bind");
    sock
}

/// Whether a closed socket still waits until the peer's host has learnt of it.
fn is_telling(port: u16) -> bool {
    const FIN_WAIT1: &str = "04";
    let own = format!(":{port:04X}");
    ["tcp", "tcp6", "sdp"].iter().any(|name| {
        let table = std::fs::read_to_string(format!("/proc/self/net/{name}")).unwrap_or_default();
        table.lines().any(|line| {
            let mut words = line.split_whitespace().skip(1);
            let local = words.next().is_some_and(|name| name.ends_with(&own));
            local && words.nth(1) == Some(FIN_WAIT1)
        })
    })
}

/// Closes a connection. TCP keeps the addresses until the end is acknowledged. That may take a
/// moment after the program has seen the end.
#[track_caller]
fn close(t: &Role, sock: Sock, end: &str) {
    let port = t.port_of(&sock);
    t.ok("close", sock.close());
    t.wait(end);
    t.holds("the end is acknowledged", t.until(|| !is_telling(port)));
}

pub const CASES: &[Case] = &[
    Case::two(
        "again_after_a_close_that_the_peer_has_not_answered",
        |t| {
            let listener = t.listener(8);
            t.tell("port", t.port_of(&listener));
            let (old, first) = listener.accept_named().expect("accept");
            t.eq("bytes of the old one", t.recv_to_end(&old), b"first".to_vec());
            t.say("the end");
            let (new, second) = listener.accept_named().expect("accept");
            t.holds("the same names", first.port() == second.port());
            t.eq("bytes of the new one", t.recv_exactly(&new, 6), b"second".to_vec());
            // It ended when the other one began.
            t.await_events(&old, POLLHUP);
            t.err("send by the old one", old.send(b"x", MSG_NOSIGNAL), EPIPE);
            t.send_all(&new, b"answer");
            t.eq("end of the new one", t.recv_to_end(&new).len(), 0);
        },
        |t| {
            let there = t.there(t.hear("port"));
            let old = at(t, 0);
            let port = t.port_of(&old);
            t.ok("connect", old.connect(&there));
            t.send_all(&old, b"first");
            close(t, old, "the end");
            let new = at(t, port);
            t.ok("connect again", new.connect(&there));
            t.send_all(&new, b"second");
            t.eq("answer", t.recv_exactly(&new, 6), b"answer".to_vec());
        },
    )
    .both_versions(),
    Case::two(
        "again_and_again_while_the_peer_closes_nothing",
        |t| {
            let listener = t.listener(8);
            t.tell("port", t.port_of(&listener));
            let mut kept = Vec::new();
            for round in 0..ROUNDS {
                let sock = listener.accept().expect("accept");
                t.eq("bytes", t.recv_to_end(&sock), round.to_be_bytes().to_vec());
                t.say(&format!("end {round}"));
                kept.push(sock);
            }
            t.meet("all");
        },
        |t| {
            let there = t.there(t.hear("port"));
            let mut port = 0;
            for round in 0..ROUNDS {
                let sock = at(t, port);
                port = t.port_of(&sock);
                t.ok("connect", sock.connect(&there));
                t.send_all(&sock, &round.to_be_bytes());
                close(t, sock, &format!("end {round}"));
            }
            t.meet("all");
        },
    ),
    Case::two(
        "again_while_the_connection_is_there",
        |t| {
            let listener = t.listener(8);
            t.tell("port", t.port_of(&listener));
            let sock = listener.accept().expect("accept");
            t.eq("bytes", t.recv_exactly(&sock, 5), b"still".to_vec());
        },
        |t| {
            let there = t.there(t.hear("port"));
            let old = at(t, 0);
            t.ok("connect", old.connect(&there));
            let new = at(t, t.port_of(&old));
            t.err("connect again", new.connect(&there), EADDRNOTAVAIL);
            t.send_all(&old, b"still");
        },
    ),
    Case::two(
        "again_while_written_bytes_are_under_way",
        |t| {
            let listener = t.listener(8);
            t.tell("port", t.port_of(&listener));
            let sock = listener.accept().expect("accept");
            let sent: usize = t.hear("sent");
            t.wait("tried");
            t.holds("all bytes", t.recv_to_end(&sock).len() == sent);
        },
        |t| {
            let there = t.there(t.hear("port"));
            let old = at(t, 0);
            let port = t.port_of(&old);
            t.ok("connect", old.connect(&there));
            let sent = t.fill(&old);
            old.close().expect("close");
            t.tell("sent", sent);
            let new = at(t, port);
            t.err("connect again", new.connect(&there), EADDRNOTAVAIL);
            t.say("tried");
        },
    ),
    Case::two(
        "again_needs_both_to_share_the_port",
        |t| {
            let listener = t.listener(8);
            t.tell("port", t.port_of(&listener));
            let sock = listener.accept().expect("accept");
            t.eq("end", t.recv_to_end(&sock).len(), 0);
            t.say("the end");
            t.wait("tried");
        },
        |t| {
            let there = t.there(t.hear("port"));
            let old = t.bound();
            let port = t.port_of(&old);
            t.ok("connect", old.connect(&there));
            old.close().expect("close");
            t.wait("the end");
            let new = t.socket();
            new.set(SOL_SOCKET, SO_REUSEADDR, &1).expect("SO_REUSEADDR");
            t.err("bind", new.bind(&t.here(port)), EADDRINUSE);
            t.say("tried");
        },
    ),
];
