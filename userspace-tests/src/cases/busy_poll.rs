// SPDX-License-Identifier: MIT
//! `SO_BUSY_POLL`: a call that has to wait looks for messages before it sleeps.

use libc::{c_int, EAGAIN, EPOLLET, EPOLLIN, MSG_DONTWAIT, POLLRDHUP, SOL_SOCKET, SO_BUSY_POLL};

use super::zcopy::Counters;
use crate::case::Case;
use crate::child;
use crate::poller::{Epoll, Events};
use crate::role::{Role, LIMIT, SIOCINQ};
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

/// The number of answers that come after the end of polling.
const LATE: i64 = 10;

/// Turns after which a connection knows that its waits are short.
const TURNS: u32 = 300;

fn begin_turns(t: &Role, s: &Sock) {
    for _ in 0..TURNS {
        t.send_all(s, &[MORE]);
        assert_eq!(t.recv_exactly(s, 1), [MORE]);
    }
}

fn answer_turns(t: &Role, s: &Sock) {
    for _ in 0..TURNS {
        assert_eq!(t.recv_exactly(s, 1), [MORE]);
        t.send_all(s, &[MORE]);
    }
}

pub const CASES: &[Case] = &[
    Case::connected(
        "after_quick_turns_epoll_tells_of_news",
        |t, s| {
            begin_turns(t, s);
            let epoll = Epoll::new().expect("epoll");
            epoll.watch(s, EPOLLIN | EPOLLET).expect("watch");
            t.say("watched");
            t.eq("first", epoll.wait_one(t.patience()), Ok(Events(EPOLLIN)));
            t.eq("data", t.recv_exactly(s, 5), b"first".to_vec());
            begin_turns(t, s);
            t.say("again");
            t.eq("second", epoll.wait_one(t.patience()), Ok(Events(EPOLLIN)));
            t.eq("more", t.recv_exactly(s, 6), b"second".to_vec());
        },
        |t, s| {
            answer_turns(t, s);
            t.wait("watched");
            t.send_all(s, b"first");
            answer_turns(t, s);
            t.wait("again");
            t.send_all(s, b"second");
        },
    )
    .both_versions(),
    Case::connected(
        "after_quick_turns_calls_that_do_not_wait_find_news",
        |t, s| {
            begin_turns(t, s);
            t.say("first");
            let mut room = [0; 5];
            t.holds("data", t.until(|| s.recv(&mut room, MSG_DONTWAIT) == Ok(5)));
            begin_turns(t, s);
            t.say("second");
            t.holds("unread", t.until(|| s.ioctl(SIOCINQ) == Ok(6)));
            t.eq("more", t.recv_exactly(s, 6), b"second".to_vec());
            begin_turns(t, s);
            t.say("end");
            t.await_events(s, POLLRDHUP);
            t.eq("end", s.recv(&mut room, MSG_DONTWAIT), Ok(0));
        },
        |t, s| {
            answer_turns(t, s);
            t.wait("first");
            t.send_all(s, b"first");
            answer_turns(t, s);
            t.wait("second");
            t.send_all(s, b"second");
            answer_turns(t, s);
            t.wait("end");
            s.shutdown(libc::SHUT_WR).expect("shutdown");
        },
    ),
    Case::connected(
        "after_quick_turns_a_reader_of_another_process_gets_news",
        |t, s| {
            begin_turns(t, s);
            let child = child::spawn(|| {
                let mut room = [0; 5];
                assert_eq!(s.recv(&mut room, 0), Ok(5), "received by the child");
            });
            t.await_asleep(child.pid(), child.pid(), &[libc::SYS_recvfrom]);
            t.say("asleep");
            child.join();
            begin_turns(t, s);
        },
        |t, s| {
            answer_turns(t, s);
            t.wait("asleep");
            t.send_all(s, b"first");
            answer_turns(t, s);
        },
    ),
    Case::connected(
        "busy_poll_is_not_ended_by_the_completion_of_a_send",
        |t, s| {
            poll_for(s, POLLS);
            let before = Counters::now(t);
            for _ in 0..LATE {
                t.tell_sleeping("asking");
                t.send_all(s, &[MORE]);
                assert_eq!(t.recv_exactly(s, 1), [MORE]);
            }
            // Control messages may have been found.
            let few = t.family != Family::Sdp || before.since(t, "polled_waits") < LATE / 2;
            t.holds("most polling is in vain", few);
        },
        |t, s| {
            for _ in 0..LATE {
                assert_eq!(t.recv_exactly(s, 1), [MORE]);
                // It has polled in vain, and sleeps.
                t.hear_asleep("asking", &[libc::SYS_recvfrom]);
                t.send_all(s, &[MORE]);
            }
        },
    ),
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
