// SPDX-License-Identifier: MIT
//! The end of a connection: half close, close, reset, linger, and the data that each side still
//! gets.

use libc::{
    ECONNRESET, EINVAL, ENOTCONN, EPIPE, MSG_NOSIGNAL, POLLERR, POLLHUP, POLLIN, POLLRDHUP,
    SHUT_RD, SHUT_RDWR, SHUT_WR,
};

use crate::case::Case;
use crate::child;
use crate::errno::Errno;
use crate::payload::{bytes, Digest};
use crate::role::{Role, SIOCINQ, SIOCOUTQ};
use crate::sock::{Sock, TCP_CLOSE};

fn reset(s: &Sock) {
    s.set_linger(true, 0).expect("SO_LINGER");
    s.close().expect("close");
}

fn nothing(_: &Role, _: &Sock) {}

/// The turn of a client, after which no event tells SDP of what comes until the next call.
fn ask(t: &Role, s: &Sock) {
    t.send_all(s, b"?");
    t.eq("answer", t.recv_exactly(s, 1), b"!".to_vec());
}

/// The same turn of a server.
fn answer(t: &Role, s: &Sock) {
    t.eq("request", t.recv_exactly(s, 1), b"?".to_vec());
    t.send_all(s, b"!");
}

/// Sends, shuts down and reads to the end; both sides may do this concurrently.
fn send_and_drain(t: &Role, s: &Sock) {
    t.send_all(s, &bytes(1, 30_000));
    t.meet("sent");
    t.ok("shutdown", s.shutdown(SHUT_WR));
    let data = t.recv_to_end(s);
    t.see("data", Digest::of(&data));
    t.await_events(s, POLLHUP);
    t.ok("close", s.close());
}

/// Sends until an error; returns it.
fn send_until_error(t: &Role, s: &Sock) -> Errno {
    let block = [1; 4096];
    loop {
        if let Err(errno) = s.send(&block, MSG_NOSIGNAL) {
            return errno;
        }
        t.report.note(&crate::observe::Note::At("sends until an error comes".into()));
    }
}

pub const CASES: &[Case] = &[
    Case::connected(
        "close_ends_the_peer_stream",
        |_, s| s.close().expect("close"),
        |t, s| {
            t.eq("end", t.recv_to_end(s).len(), 0);
            t.eq("SO_ERROR", s.error(), Ok(None));
        },
    )
    .both_versions(),
    Case::connected(
        "close_delivers_queued_data_first",
        |t, s| {
            t.send_all(s, &bytes(1, 200_000));
            t.ok("close", s.close());
        },
        |t, s| {
            let data = t.recv_to_end(s);
            t.eq("data", Digest::of(&data), Digest::of(&bytes(1, 200_000)));
            t.eq("SO_ERROR", s.error(), Ok(None));
        },
    )
    .both_versions(),
    Case::connected(
        "close_delivers_data_that_waits_for_room",
        |t, s| {
            let filled = t.fill(s);
            t.holds("some of it is not sent yet", s.ioctl(SIOCOUTQ).expect("SIOCOUTQ") > 0);
            s.close().expect("close");
            t.tell("filled", filled);
        },
        |t, s| {
            let filled: usize = t.hear("filled");
            t.holds("all of it came", t.recv_to_end(s).len() == filled);
            t.eq("SO_ERROR", s.error(), Ok(None));
        },
    )
    .both_versions(),
    Case::connected(
        "close_with_unread_data_resets_the_peer",
        |t, s| {
            t.await_events(s, POLLIN);
            s.close().expect("close");
        },
        |t, s| {
            t.send_all(s, b"never read");
            t.await_events(s, POLLHUP);
            t.err("recv", s.recv(&mut [0; 8], 0), ECONNRESET);
            t.eq("recv again", s.recv(&mut [0; 8], 0), Ok(0));
            t.err("send", s.send(b"x", MSG_NOSIGNAL), EPIPE);
        },
    )
    .both_versions(),
    Case::connected(
        "close_with_data_that_came_since_the_last_call_resets_the_peer",
        |t, s| {
            answer(t, s);
            t.wait("arrived");
            s.close().expect("close");
        },
        |t, s| {
            ask(t, s);
            t.send_all(s, b"never read");
            t.holds("acknowledged", t.until(|| s.ioctl(SIOCOUTQ) == Ok(0)));
            t.say("arrived");
            t.await_events(s, POLLHUP);
            t.err("recv", s.recv(&mut [0; 8], 0), ECONNRESET);
            t.err("send", s.send(b"x", MSG_NOSIGNAL), EPIPE);
        },
    )
    .both_versions(),
    Case::connected(
        "close_while_the_peer_sends_ends_in_an_error",
        |t, s| {
            t.recv_exactly(s, 10_000);
            s.close().expect("close");
        },
        |t, s| {
            let errno = send_until_error(t, s);
            t.holds("broken", errno == Errno(EPIPE) || errno == Errno(ECONNRESET));
            t.await_events(s, POLLHUP);
            t.see("last word", s.send(b"x", MSG_NOSIGNAL));
        },
    ),
    Case::connected(
        "half_close_lets_data_flow_back",
        |t, s| {
            t.eq("request", t.recv_to_end(s), b"request".to_vec());
            t.send_all(s, &bytes(2, 50_000));
            s.close().expect("close");
        },
        |t, s| {
            t.send_all(s, b"request");
            t.ok("shutdown", s.shutdown(SHUT_WR));
            let data = t.recv_to_end(s);
            t.eq("answer", Digest::of(&data), Digest::of(&bytes(2, 50_000)));
        },
    )
    .both_versions(),
    Case::connected(
        "half_close_by_the_server_lets_data_flow_back",
        |t, s| {
            t.ok("shutdown", s.shutdown(SHUT_WR));
            let data = t.recv_to_end(s);
            t.eq("data", Digest::of(&data), Digest::of(&bytes(2, 50_000)));
        },
        |t, s| {
            t.eq("end", t.recv_to_end(s).len(), 0);
            t.send_all(s, &bytes(2, 50_000));
            t.ok("shutdown", s.shutdown(SHUT_WR));
        },
    )
    .both_versions(),
    Case::connected(
        "half_close_delivers_queued_data_first",
        |t, s| {
            let filled = t.fill(s);
            t.ok("shutdown", s.shutdown(SHUT_WR));
            t.tell("filled", filled);
            t.eq("answer", t.recv_to_end(s), b"got it".to_vec());
        },
        |t, s| {
            let filled: usize = t.hear("filled");
            t.holds("all of it came", t.recv_to_end(s).len() == filled);
            t.send_all(s, b"got it");
            s.close().expect("close");
        },
    ),
    Case::connected("simultaneous_shutdown_delivers_both_streams", send_and_drain, send_and_drain)
        .both_versions(),
    Case::connected(
        "simultaneous_close_leaves_nothing_behind",
        |t, s| {
            t.meet("now");
            t.ok("close", s.close());
        },
        |t, s| {
            t.meet("now");
            t.ok("close", s.close());
        },
    )
    .both_versions(),
    Case::connected(
        "simultaneous_reset_leaves_nothing_behind",
        |t, s| {
            t.meet("now");
            reset(s);
        },
        |t, s| {
            t.meet("now");
            reset(s);
        },
    ),
    Case::alone("shutdown_needs_a_connection", |t| {
        for how in [SHUT_RD, SHUT_WR, SHUT_RDWR] {
            t.err("fresh", t.socket().shutdown(how), ENOTCONN);
            t.err("bound", t.bound().shutdown(how), ENOTCONN);
        }
    })
    .both_versions(),
    Case::connected(
        "shutdown_of_an_unknown_kind_is_invalid",
        |t, s| {
            t.err("3", s.shutdown(3), EINVAL);
            t.err("-1", s.shutdown(-1), EINVAL);
            t.send_all(s, b"x");
        },
        |t, s| t.eq("data", t.recv_exactly(s, 1), b"x".to_vec()),
    ),
    Case::connected(
        "shutdown_twice_is_fine",
        |t, s| {
            t.ok("first", s.shutdown(SHUT_WR));
            t.ok("second", s.shutdown(SHUT_WR));
            t.ok("reading", s.shutdown(SHUT_RD));
            t.ok("both", s.shutdown(SHUT_RDWR));
        },
        |t, s| t.eq("end", t.recv_to_end(s).len(), 0),
    ),
    Case::connected(
        "shutdown_after_the_peer_has_closed",
        |t, s| {
            s.close().expect("close");
            t.say("closed");
        },
        |t, s| {
            t.wait("closed");
            t.await_events(s, POLLRDHUP);
            t.ok("writing", s.shutdown(SHUT_WR));
            t.await_events(s, POLLHUP);
            t.holds("closed", t.until(|| s.state() == Ok(TCP_CLOSE)));
            t.err("again", s.shutdown(SHUT_WR), ENOTCONN);
        },
    ),
    Case::connected(
        "shutdown_after_a_reset_is_not_connected",
        |_, s| reset(s),
        |t, s| {
            t.await_events(s, POLLHUP);
            t.err("shutdown", s.shutdown(SHUT_WR), ENOTCONN);
        },
    ),
    Case::connected(
        "shutdown_for_reading_is_not_seen_by_the_peer",
        |t, s| {
            t.ok("shutdown", s.shutdown(SHUT_RD));
            t.meet("shut");
            t.meet("looked");
            t.send_all(s, b"still talking");
        },
        |t, s| {
            t.meet("shut");
            t.eq("events", s.poll(POLLRDHUP | POLLIN, 0).map(|up| up.0), Ok(0));
            t.meet("looked");
            t.eq("data", t.recv_exactly(s, 13), b"still talking".to_vec());
            t.ok("send", s.send(b"x", MSG_NOSIGNAL));
        },
    ),
    Case::connected(
        "linger_zero_resets_the_peer",
        |_, s| reset(s),
        |t, s| {
            t.await_events(s, POLLHUP | POLLERR);
            t.eq("SO_ERROR", s.error(), Ok(Some(Errno(ECONNRESET))));
            t.eq("SO_ERROR again", s.error(), Ok(None));
            t.eq("recv", s.recv(&mut [0; 8], 0), Ok(0));
        },
    )
    .both_versions(),
    Case::connected(
        "linger_zero_throws_queued_data_away",
        |t, s| {
            let filled = t.fill(s);
            reset(s);
            t.tell("filled", filled);
        },
        |t, s| {
            let filled: usize = t.hear("filled");
            t.await_events(s, POLLHUP);
            let mut got = 0;
            let last = loop {
                match s.recv(&mut [0; 65536], 0) {
                    Ok(count) if count > 0 => got += count,
                    other => break other,
                }
            };
            t.err("last", last, ECONNRESET);
            t.holds("not all of it came", got < filled);
        },
    ),
    Case::connected(
        "linger_zero_after_half_close_resets_the_peer",
        |t, s| {
            t.ok("shutdown", s.shutdown(SHUT_WR));
            t.wait("end seen");
            reset(s);
        },
        |t, s| {
            t.eq("end", t.recv_to_end(s).len(), 0);
            t.say("end seen");
            t.await_events(s, POLLHUP);
            t.see("send", s.send(b"x", MSG_NOSIGNAL));
        },
    ),
    Case::connected(
        "linger_waits_until_the_data_is_delivered",
        |t, s| {
            s.set_linger(true, t.patience() / 1000).expect("SO_LINGER");
            let filled = t.fill(s);
            t.tell("filled", filled);
            t.tell_sleeping("closing");
            t.ok("close", s.close());
        },
        |t, s| {
            let filled: usize = t.hear("filled");
            t.hear_asleep("closing", &[libc::SYS_close]);
            t.holds("all of it came", t.recv_to_end(s).len() == filled);
            s.close().expect("close");
        },
    ),
    Case::connected(
        "linger_gives_up_after_its_time",
        |t, s| {
            s.set_linger(true, 1).expect("SO_LINGER");
            let _ = t.fill(s);
            let start = std::time::Instant::now();
            t.ok("close", s.close());
            t.holds("waited", start.elapsed().as_millis() >= 800);
            t.say("closed");
        },
        |t, s| {
            t.wait("closed");
            t.holds("something came", t.recv_exactly(s, 4096).len() == 4096);
        },
    ),
    Case::connected(
        "linger_without_queued_data_does_not_wait",
        |t, s| {
            s.set_linger(true, 1000).expect("SO_LINGER");
            t.send_all(s, b"abc");
            t.wait("read");
            t.holds("delivered", t.until(|| s.ioctl(SIOCOUTQ) == Ok(0)));
            t.ok("close", s.close());
        },
        |t, s| {
            t.eq("data", t.recv_exactly(s, 3), b"abc".to_vec());
            t.say("read");
            t.eq("end", t.recv_to_end(s).len(), 0);
            s.close().expect("close");
        },
    ),
    Case::connected(
        "reset_in_mid_transfer_stops_the_reader",
        |t, s| {
            t.send_all(s, &[1; 100_000]);
            t.wait("read some");
            reset(s);
        },
        |t, s| {
            t.recv_exactly(s, 50_000);
            t.say("read some");
            t.await_events(s, POLLHUP);
            let mut got = 0;
            let last = loop {
                match s.recv(&mut [0; 65536], 0) {
                    Ok(count) if count > 0 => got += count,
                    other => break other,
                }
            };
            t.err("last", last, ECONNRESET);
            t.holds("no byte too many", got <= 50_000);
        },
    ),
    Case::connected(
        "reset_is_reported_once_by_each_way_of_asking",
        |_, s| reset(s),
        |t, s| {
            t.await_events(s, POLLHUP);
            t.err("recv", s.recv(&mut [0; 8], 0), ECONNRESET);
            t.eq("SO_ERROR", s.error(), Ok(None));
            t.eq("recv again", s.recv(&mut [0; 8], 0), Ok(0));
            t.err("send", s.send(b"x", MSG_NOSIGNAL), EPIPE);
            t.see("events", s.poll(POLLIN | POLLRDHUP | libc::POLLOUT, 0));
        },
    ),
    Case::connected(
        "reset_shows_in_so_error_without_a_wait",
        |_, s| reset(s),
        |t, s| {
            let mut error = None;
            t.until(|| {
                error = s.error().expect("SO_ERROR");
                error.is_some()
            });
            t.eq("the first time", error, Some(Errno(ECONNRESET)));
            t.eq("the second time", s.error(), Ok(None));
            t.eq("recv", s.recv(&mut [0; 8], 0), Ok(0));
        },
    ),
    Case::connected(
        "reset_shows_in_so_error_although_no_call_looks",
        |t, s| {
            answer(t, s);
            t.wait("read");
            reset(s);
        },
        |t, s| {
            ask(t, s);
            t.say("read");
            t.holds("reset", t.until(|| s.error() == Ok(Some(Errno(ECONNRESET)))));
            t.err("send", s.send(b"x", MSG_NOSIGNAL), EPIPE);
        },
    ),
    Case::connected(
        "exit_of_a_process_closes_its_connection",
        |t, s| {
            let (fd, copy) = (s.fd(), s.dup().expect("dup"));
            let child = child::spawn(|| {
                let end = Sock::from_fd(fd);
                end.send(b"goodbye", 0).expect("send");
                std::mem::forget(end);
            });
            // Only the child's descriptor is left, and it is not closed.
            s.close().expect("close");
            copy.close().expect("close");
            child.join();
            t.say("gone");
        },
        |t, s| {
            t.wait("gone");
            t.eq("data", t.recv_to_end(s), b"goodbye".to_vec());
        },
    ),
    Case::connected(
        "kill_of_a_process_closes_its_connection",
        |t, s| {
            let child = child::spawn(|| {
                let mut room = [0; 8];
                while s.recv(&mut room, 0).is_ok() {}
            });
            t.await_asleep(child.pid(), child.pid(), &[libc::SYS_recvfrom]);
            s.close().expect("close");
            t.say("only the child has it");
            t.wait("kill it");
            child.kill();
        },
        |t, s| {
            t.wait("only the child has it");
            t.eq("events", s.poll(POLLIN | POLLRDHUP, 0).map(|up| up.0), Ok(0));
            t.say("kill it");
            t.eq("end", t.recv_to_end(s).len(), 0);
        },
    ),
    Case::alone("close_in_every_early_state", |t| {
        t.ok("fresh", t.socket().close());
        t.ok("bound", t.bound().close());
        t.ok("listening", t.listener(1).close());
        let sock = t.socket();
        let _ = sock.connect(&t.here(t.free_port()));
        t.ok("refused", sock.close());
        t.err("twice", sock.close(), libc::EBADF);
    })
    .both_versions(),
    Case::connected(
        "close_of_the_reader_after_the_writer",
        |t, s| {
            t.send_all(s, &[1; 1000]);
            s.close().expect("close");
            t.say("closed");
        },
        |t, s| {
            t.wait("closed");
            t.holds("came", t.until(|| s.ioctl(SIOCINQ) == Ok(1000)));
            t.ok("close without reading", s.close());
        },
    ),
    Case::connected(
        "close_right_after_connect",
        |t, s| {
            t.eq("end", t.recv_to_end(s).len(), 0);
            t.ok("send into the void", s.send(b"x", MSG_NOSIGNAL));
        },
        |_, s| s.close().expect("close"),
    ),
    Case::connected("connection_may_stay_idle", nothing, nothing).both_versions(),
];
