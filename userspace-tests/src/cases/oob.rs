// SPDX-License-Identifier: MIT
//! Urgent data: one byte out of band, its mark in the stream, and its notifications.

use libc::{
    EAGAIN, EINTR, EINVAL, MSG_DONTWAIT, MSG_OOB, MSG_PEEK, POLLIN, POLLOUT, POLLPRI, SHUT_WR,
    SOL_SOCKET, SO_OOBINLINE,
};

use crate::blocked::pid;
use crate::case::Case;
use crate::poller::{select, Epoll};
use crate::role::{Role, SIOCATMARK, SIOCINQ};
use crate::signal;
use crate::sock::Sock;

fn urgent(t: &Role, s: &Sock) -> crate::errno::Res<Vec<u8>> {
    let mut room = [0; 8];
    let got = s.recv(&mut room, MSG_OOB);
    t.see("urgent count", got);
    got.map(|count| room[..count].to_vec())
}

fn at_mark(s: &Sock) -> crate::errno::Res<i32> {
    s.ioctl(SIOCATMARK)
}

/// "ab", the urgent "!", "cd".
fn send_around_a_mark(t: &Role, s: &Sock) {
    t.send_all(s, b"ab");
    t.ok("urgent", s.send(b"!", MSG_OOB));
    t.send_all(s, b"cd");
    t.wait("read");
}

#[track_caller]
fn await_unread(t: &Role, s: &Sock, count: i32) {
    assert!(t.until(|| s.ioctl(SIOCINQ) == Ok(count)), "{:?} unread", s.ioctl(SIOCINQ));
}

fn recv_some(s: &Sock) -> crate::errno::Res<Vec<u8>> {
    let mut room = [0; 64];
    s.recv(&mut room, MSG_DONTWAIT).map(|count| room[..count].to_vec())
}

pub const CASES: &[Case] = &[
    Case::connected(
        "urgent_byte_is_received_out_of_band",
        |t, s| {
            t.await_events(s, POLLPRI);
            t.eq("urgent", urgent(t, s), Ok(b"!".to_vec()));
            t.eq("rest", t.recv_exactly(s, 4), b"abcd".to_vec());
            t.say("read");
        },
        send_around_a_mark,
    )
    .both_versions(),
    Case::connected(
        "urgent_byte_is_given_once",
        |t, s| {
            t.await_events(s, POLLPRI);
            t.eq("first", urgent(t, s), Ok(b"!".to_vec()));
            t.err("second", urgent(t, s), EINVAL);
            t.see("events", s.poll(POLLPRI, 0));
        },
        |t, s| {
            t.ok("urgent", s.send(b"!", MSG_OOB));
        },
    ),
    Case::connected(
        "urgent_byte_can_be_peeked_at",
        |t, s| {
            t.await_events(s, POLLPRI);
            let mut room = [0; 8];
            t.eq("peek", s.recv(&mut room, MSG_OOB | MSG_PEEK), Ok(1));
            t.eq("byte", room[0], b'!');
            t.eq("urgent", urgent(t, s), Ok(b"!".to_vec()));
        },
        |t, s| {
            t.ok("urgent", s.send(b"!", MSG_OOB));
        },
    ),
    Case::connected(
        "urgent_byte_nobody_sent_is_invalid",
        |t, s| {
            t.err("idle", urgent(t, s), EINVAL);
            t.say("send");
            t.await_events(s, POLLIN);
            t.err("with plain data", urgent(t, s), EINVAL);
            t.see("at mark", at_mark(s));
        },
        |t, s| {
            t.wait("send");
            t.send_all(s, b"plain");
        },
    ),
    Case::connected(
        "urgent_mark_stops_a_read",
        |t, s| {
            t.await_events(s, POLLPRI);
            t.eq("before", recv_some(s), Ok(b"ab".to_vec()));
            t.eq("at the mark", at_mark(s), Ok(1));
            t.eq("after", t.recv_exactly(s, 2), b"cd".to_vec());
            t.eq("past the mark", at_mark(s), Ok(0));
            t.say("read");
        },
        send_around_a_mark,
    )
    .both_versions(),
    Case::connected(
        "urgent_mark_after_reading_the_byte_first",
        |t, s| {
            t.await_events(s, POLLPRI);
            t.eq("urgent", urgent(t, s), Ok(b"!".to_vec()));
            t.eq("not at the mark", at_mark(s), Ok(0));
            t.eq("before", recv_some(s), Ok(b"ab".to_vec()));
            t.see("at the mark", at_mark(s));
            t.eq("after", t.recv_exactly(s, 2), b"cd".to_vec());
            t.say("read");
        },
        send_around_a_mark,
    ),
    Case::connected(
        "urgent_byte_inline_is_part_of_the_stream",
        |t, s| {
            s.set(SOL_SOCKET, SO_OOBINLINE, &1).expect("SO_OOBINLINE");
            t.say("send");
            await_unread(t, s, 5);
            t.err("out of band", urgent(t, s), EINVAL);
            t.eq("before", recv_some(s), Ok(b"ab".to_vec()));
            t.eq("at the mark", at_mark(s), Ok(1));
            t.eq("from the mark on", recv_some(s), Ok(b"!cd".to_vec()));
            t.eq("past the mark", at_mark(s), Ok(0));
            t.say("read");
        },
        |t, s| {
            t.wait("send");
            send_around_a_mark(t, s);
        },
    )
    .both_versions(),
    Case::connected(
        "urgent_byte_that_is_not_read_is_skipped",
        |t, s| {
            t.await_events(s, POLLPRI);
            t.eq("before", recv_some(s), Ok(b"ab".to_vec()));
            t.eq("after", t.recv_exactly(s, 2), b"cd".to_vec());
            t.err("too late", urgent(t, s), EINVAL);
            t.say("read");
        },
        send_around_a_mark,
    ),
    Case::connected(
        "urgent_send_marks_its_last_byte",
        |t, s| {
            t.await_events(s, POLLPRI);
            t.eq("urgent", urgent(t, s), Ok(b"d".to_vec()));
            t.eq("rest", t.recv_exactly(s, 3), b"abc".to_vec());
        },
        |t, s| {
            t.eq("send", s.send(b"abcd", MSG_OOB), Ok(4));
        },
    ),
    Case::connected(
        "urgent_byte_replaces_an_unread_one",
        |t, s| {
            t.await_events(s, POLLPRI);
            t.say("again");
            t.wait("sent again");
            let newer = t.until(|| {
                let mut room = [0; 1];
                s.recv(&mut room, MSG_OOB | MSG_PEEK) == Ok(1) && room[0] == b'2'
            });
            t.holds("the newer one", newer);
            t.eq("urgent", urgent(t, s), Ok(b"2".to_vec()));
            t.see("stream", recv_some(s));
            t.see("rest", recv_some(s));
        },
        |t, s| {
            t.send_all(s, b"a");
            t.ok("first", s.send(b"1", MSG_OOB));
            t.wait("again");
            t.send_all(s, b"b");
            t.ok("second", s.send(b"2", MSG_OOB));
            t.say("sent again");
        },
    ),
    Case::connected(
        "urgent_byte_raises_sigurg",
        |t, s| {
            signal::catch(libc::SIGURG, true);
            t.ok("owner", s.fcntl(libc::F_SETOWN, pid()));
            t.eq("owner is", s.fcntl(libc::F_GETOWN, 0).map(|owner| owner == pid()), Ok(true));
            t.say("send");
            t.holds("signal", t.until(|| signal::caught(libc::SIGURG) == 1));
            t.eq("urgent", urgent(t, s), Ok(b"!".to_vec()));
        },
        |t, s| {
            t.wait("send");
            t.ok("urgent", s.send(b"!", MSG_OOB));
        },
    )
    .both_versions(),
    Case::connected(
        "urgent_byte_is_its_handlers_before_a_waiting_read_passes_it",
        |t, s| {
            signal::catch(libc::SIGURG, false);
            t.ok("owner", s.fcntl(libc::F_SETOWN, pid()));
            t.tell_sleeping("receiving");
            t.err("read", s.recv(&mut [0; 8], 0), EINTR);
            t.holds("signal", t.until(|| signal::caught(libc::SIGURG) == 1));
            t.eq("urgent", urgent(t, s), Ok(b"!".to_vec()));
            t.say("send the rest");
            t.eq("rest", t.recv_exactly(s, 2), b"cd".to_vec());
        },
        |t, s| {
            t.hear_asleep("receiving", &[libc::SYS_recvfrom]);
            t.ok("urgent", s.send(b"!", MSG_OOB));
            t.wait("send the rest");
            t.send_all(s, b"cd");
        },
    )
    .both_versions(),
    Case::connected(
        "urgent_byte_without_an_owner_raises_no_signal",
        |t, s| {
            signal::catch(libc::SIGURG, true);
            t.say("send");
            t.await_events(s, POLLPRI);
            t.eq("signals", signal::caught(libc::SIGURG), 0);
        },
        |t, s| {
            t.wait("send");
            t.ok("urgent", s.send(b"!", MSG_OOB));
        },
    ),
    Case::connected(
        "urgent_byte_is_a_priority_event",
        |t, s| {
            t.see("idle", s.poll(POLLPRI | POLLIN | POLLOUT, 0));
            let epoll = Epoll::new().expect("epoll");
            epoll.watch(s, libc::EPOLLPRI).expect("watch");
            t.say("send");
            t.see("epoll", t.await_epoll(&epoll));
            t.see("poll", t.await_events(s, POLLPRI));
            t.see("poll for everything", s.poll(POLLPRI | POLLIN | POLLOUT, 0));
            t.see("select", select(s.fd(), 0).map(|(_, _, except)| except));
            t.eq("urgent", urgent(t, s), Ok(b"!".to_vec()));
            t.see("read", s.poll(POLLPRI | POLLIN | POLLOUT, 0));
        },
        |t, s| {
            t.wait("send");
            t.ok("urgent", s.send(b"!", MSG_OOB));
        },
    )
    .both_versions(),
    Case::connected(
        "urgent_byte_is_an_edge_of_its_own",
        |t, s| {
            let epoll = Epoll::new().expect("epoll");
            epoll.watch(s, libc::EPOLLPRI | libc::EPOLLIN | libc::EPOLLET).expect("watch");
            t.say("send plain");
            t.see("plain", t.await_epoll(&epoll));
            t.recv_exactly(s, 1);
            t.say("send urgent");
            let came = t.until(|| t.await_epoll(&epoll).0 & libc::EPOLLPRI != 0);
            t.holds("urgent edge", came);
        },
        |t, s| {
            t.wait("send plain");
            t.send_all(s, b"x");
            t.wait("send urgent");
            t.ok("urgent", s.send(b"!", MSG_OOB));
        },
    ),
    Case::connected(
        "urgent_byte_followed_by_the_end",
        |t, s| {
            t.await_events(s, POLLPRI | libc::POLLRDHUP);
            t.eq("urgent", urgent(t, s), Ok(b"!".to_vec()));
            t.eq("stream", t.recv_to_end(s), b"ab".to_vec());
        },
        |t, s| {
            t.send_all(s, b"ab");
            t.ok("urgent", s.send(b"!", MSG_OOB));
            s.shutdown(SHUT_WR).expect("shutdown");
        },
    ),
    Case::connected(
        "urgent_bytes_both_ways",
        |t, s| {
            t.ok("send", s.send(b"s", MSG_OOB));
            t.await_events(s, POLLPRI);
            t.eq("urgent", urgent(t, s), Ok(b"c".to_vec()));
        },
        |t, s| {
            t.ok("send", s.send(b"c", MSG_OOB));
            t.await_events(s, POLLPRI);
            t.eq("urgent", urgent(t, s), Ok(b"s".to_vec()));
        },
    ),
    Case::connected(
        "urgent_byte_many_times",
        |t, s| {
            for number in 0..20_u8 {
                t.await_events(s, POLLPRI);
                assert_eq!(urgent(t, s), Ok(vec![number]));
                assert_eq!(t.recv_exactly(s, 1), [number]);
                t.say("next");
            }
        },
        |t, s| {
            for number in 0..20_u8 {
                t.send_all(s, &[number]);
                t.ok("urgent", s.send(&[number], MSG_OOB));
                t.wait("next");
            }
        },
    ),
    Case::connected(
        "urgent_send_of_nothing",
        |t, s| {
            t.see("send", s.send(b"", MSG_OOB));
            t.meet("sent");
        },
        |t, s| {
            t.meet("sent");
            t.err("urgent", urgent(t, s), EINVAL);
            t.err("stream", recv_some(s), EAGAIN);
        },
    ),
];
