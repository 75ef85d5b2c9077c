// SPDX-License-Identifier: MIT
//! `TCP_USER_TIMEOUT` and `TCP_DEFER_ACCEPT`: time limits for a silent peer.

use std::time::Instant;

use libc::{
    EAGAIN, EPIPE, ETIMEDOUT, MSG_NOSIGNAL, POLLERR, POLLIN, SHUT_WR, SOL_TCP, TCP_DEFER_ACCEPT,
    TCP_USER_TIMEOUT,
};

use crate::case::Case;
use crate::errno::Errno;
use crate::role::{Role, SIOCINQ};
use crate::sock::Sock;

/// A listener that waits for the first bytes of its connections.
fn deferring(t: &Role, seconds: i32) -> Sock {
    let listener = t.bound();
    listener.set(SOL_TCP, TCP_DEFER_ACCEPT, &seconds).expect("TCP_DEFER_ACCEPT");
    listener.listen(8).expect("listen");
    listener.set_nonblocking(true).expect("O_NONBLOCK");
    t.tell("port", t.port_of(&listener));
    listener
}

pub const CASES: &[Case] = &[
    Case::connected(
        "patience_ends_with_a_peer_that_does_not_read",
        |t, _s| t.wait("over"),
        |t, s| {
            // Filling takes several waits; the limit must be longer.
            let limit = 500 + 8 * t.glance();
            s.set(SOL_TCP, TCP_USER_TIMEOUT, &limit).expect("TCP_USER_TIMEOUT");
            let start = Instant::now();
            t.fill(s);
            t.await_events(s, POLLERR);
            t.holds("not at once", start.elapsed().as_millis() >= limit as u128 * 9 / 10);
            t.eq("error", s.error(), Ok(Some(Errno(ETIMEDOUT))));
            t.err("send", s.send(b"x", MSG_NOSIGNAL), EPIPE);
            t.say("over");
        },
    )
    .both_versions(),
    Case::connected(
        "patience_of_a_send_that_waits",
        |t, _s| t.wait("over"),
        |t, s| {
            s.set(SOL_TCP, TCP_USER_TIMEOUT, &1000).expect("TCP_USER_TIMEOUT");
            let block = [7; 65536];
            let end = loop {
                match s.send(&block, MSG_NOSIGNAL) {
                    Ok(0) => panic!("nothing was taken"),
                    Ok(_) => {}
                    Err(errno) => break errno,
                }
            };
            t.eq("end", end, Errno(ETIMEDOUT));
            t.say("over");
        },
    ),
    Case::connected(
        "patience_is_not_asked_of_who_has_sent_nothing",
        |t, s| {
            t.wait("quiet");
            t.eq("data", t.recv_exactly(s, 1), b"x".to_vec());
        },
        |t, s| {
            s.set(SOL_TCP, TCP_USER_TIMEOUT, &30).expect("TCP_USER_TIMEOUT");
            t.eq("events", s.poll(POLLIN, t.glance()).map(|up| up.0), Ok(0));
            s.set(SOL_TCP, TCP_USER_TIMEOUT, &0).expect("TCP_USER_TIMEOUT");
            t.say("quiet");
            t.send_all(s, b"x");
        },
    ),
    Case::two(
        "deferred_accept_waits_for_data",
        |t| {
            let listener = deferring(t, 100);
            t.wait("connected");
            t.eq("events", listener.poll(POLLIN, t.glance()).map(|up| up.0), Ok(0));
            t.err("accept", listener.accept(), EAGAIN);
            t.say("send");
            t.await_events(&listener, POLLIN);
            let sock = listener.accept().expect("accept");
            t.eq("bytes are there", sock.ioctl(SIOCINQ), Ok(5));
            t.eq("the connection's own", sock.get(SOL_TCP, TCP_DEFER_ACCEPT), Ok(0));
            t.eq("data", t.recv_exactly(&sock, 5), b"hello".to_vec());
            t.meet("done");
        },
        |t| {
            let sock = t.connect_told();
            t.say("connected");
            t.wait("send");
            t.send_all(&sock, b"hello");
            t.meet("done");
        },
    )
    .both_versions(),
    Case::two(
        "deferred_accept_takes_who_has_data_first",
        |t| {
            let listener = deferring(t, 100);
            t.wait("second has sent");
            t.await_events(&listener, POLLIN);
            let sock = listener.accept().expect("accept");
            t.eq("data", t.recv_exactly(&sock, 6), b"second".to_vec());
            t.err("no other", listener.accept(), EAGAIN);
            t.say("first");
            t.await_events(&listener, POLLIN);
            let sock = listener.accept().expect("accept");
            t.eq("data", t.recv_exactly(&sock, 5), b"first".to_vec());
            t.meet("done");
        },
        |t| {
            let port = t.hear("port");
            let (first, second) = (t.connected(port), t.connected(port));
            t.send_all(&second, b"second");
            t.say("second has sent");
            t.wait("first");
            t.send_all(&first, b"first");
            t.meet("done");
        },
    ),
    Case::two(
        "deferred_accept_takes_who_only_closes",
        |t| {
            let listener = deferring(t, 100);
            t.await_events(&listener, POLLIN);
            let sock = listener.accept().expect("accept");
            t.eq("end", t.recv_to_end(&sock).len(), 0);
            t.meet("done");
        },
        |t| {
            let sock = t.connect_told();
            sock.shutdown(SHUT_WR).expect("shutdown");
            t.meet("done");
        },
    ),
    Case::two(
        "deferred_accept_ends_with_its_time",
        |t| {
            let listener = deferring(t, 1);
            t.wait("connected");
            t.await_events(&listener, POLLIN);
            let sock = listener.accept().expect("accept");
            t.eq("bytes", sock.ioctl(SIOCINQ), Ok(0));
            t.say("accepted");
            t.eq("data", t.recv_exactly(&sock, 4), b"late".to_vec());
        },
        |t| {
            let sock = t.connect_told();
            t.say("connected");
            t.wait("accepted");
            t.send_all(&sock, b"late");
        },
    ),
];
