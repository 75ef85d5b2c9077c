// SPDX-License-Identifier: MIT
//! `SO_BUSY_POLL`: a call that has to wait looks for messages before it sleeps.

use libc::{c_int, EAGAIN, MSG_DONTWAIT, SOL_SOCKET, SO_BUSY_POLL};

use super::zcopy::Counters;
use crate::case::Case;
use crate::role::{Role, LIMIT};
use crate::sock::Sock;
use crate::world::Family;

/// Microseconds; longer than a round trip, usually.
const POLLS: c_int = 10_000;
/// Round trips if nothing has to be found, and their maximum.
const ROUNDS: (u32, u32) = (20, 5000);

const MORE: u8 = b'm';
const END: u8 = b'e';

fn poll_for(s: &Sock, us: c_int) {
    s.set(SOL_SOCKET, SO_BUSY_POLL, &us).expect("SO_BUSY_POLL");
}

/// Answers until polling has found a message.
fn answer(t: &Role, s: &Sock) {
    let before = Counters::now(t);
    for round in 1.. {
        let byte = t.recv_exactly(s, 1);
        let found = t.family != Family::Sdp || before.since(t, "polled_waits") > 0;
        let over = round >= ROUNDS.0 && found || round == ROUNDS.1;
        if !over {
            assert_eq!(byte, [MORE], "round {round}");
        }
        t.send_all(s, &[if over { END } else { MORE }]);
        if over {
            t.holds("found by polling", found);
            return;
        }
    }
}

fn ask(t: &Role, s: &Sock) {
    loop {
        t.send_all(s, &[MORE]);
        if t.recv_exactly(s, 1) == [END] {
            break;
        }
    }
}

pub const CASES: &[Case] = &[
    Case::connected(
        "busy_poll_finds_messages",
        |t, s| {
            poll_for(s, POLLS);
            answer(t, s);
        },
        |t, s| {
            poll_for(s, POLLS);
            ask(t, s);
        },
    )
    .both_versions(),
    Case::connected(
        "busy_poll_of_one_end_finds_messages",
        |t, s| {
            poll_for(s, POLLS);
            answer(t, s);
        },
        ask,
    ),
    Case::connected(
        "busy_poll_ends_with_the_time",
        |t, s| {
            poll_for(s, POLLS);
            let mut room = [0; 8];
            t.err("dontwait", s.recv(&mut room, MSG_DONTWAIT), EAGAIN);
            s.set_timeout(libc::SO_RCVTIMEO, LIMIT).expect("SO_RCVTIMEO");
            t.err("recv", s.recv(&mut room, 0), EAGAIN);
            t.say("send");
            s.set_timeout(libc::SO_RCVTIMEO, 0).expect("SO_RCVTIMEO");
            t.eq("data", t.recv_exactly(s, 3), b"abc".to_vec());
            t.eq("end", s.recv(&mut room, 0), Ok(0));
        },
        |t, s| {
            t.wait("send");
            t.send_all(s, b"abc");
            s.shutdown(libc::SHUT_WR).expect("shutdown");
        },
    ),
];
