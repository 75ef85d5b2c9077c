// SPDX-License-Identifier: MIT
//! Receiving: the result of a call, when it blocks, and the bytes left for the next one.

use std::time::Duration;

use libc::{
    EAGAIN, EFAULT, EINVAL, MSG_DONTWAIT, MSG_NOSIGNAL, MSG_PEEK, MSG_TRUNC, MSG_WAITALL, POLLIN,
    POLLRDHUP, SHUT_WR, SOL_SOCKET, SO_ZEROCOPY,
};

use crate::addr::Addr;
use crate::case::Case;
use crate::pages::{Cliff, PAGE};
use crate::payload::bytes;
use crate::poller::Epoll;
use crate::role::{Role, ENOUGH, LIMIT, SIOCINQ};
use crate::sock::Sock;

/// Waits until so many bytes are unread.
#[track_caller]
fn await_unread(t: &Role, s: &Sock, count: i32) {
    let came = t.until(|| s.ioctl(SIOCINQ) == Ok(count));
    assert!(came, "{:?} bytes are unread instead of {count}", s.ioctl(SIOCINQ));
}

/// Sends the first `len` bytes of pattern 1 and ends the stream.
fn send_pattern(t: &Role, s: &Sock, len: usize) {
    t.send_all(s, &bytes(1, len));
    s.shutdown(SHUT_WR).expect("shutdown");
}

fn keep_open(_: &Role, _: &Sock) {}

/// Number of bytes of a long write.
const LENT: usize = 339_369;

pub const CASES: &[Case] = &[
    Case::connected(
        "recv_gives_what_is_there",
        |t, s| {
            await_unread(t, s, 100);
            let mut room = [0; 1000];
            t.eq("recv", s.recv(&mut room, 0), Ok(100));
            t.holds("data", room[..100] == bytes(1, 100)[..]);
            t.holds("rest untouched", room[100..] == [0; 900]);
        },
        |t, s| t.send_all(s, &bytes(1, 100)),
    )
    .both_versions(),
    Case::connected(
        "recv_in_parts_keeps_the_order",
        |t, s| {
            let mut data = Vec::new();
            for len in [1, 2, 3, 500, 7, 487] {
                let mut room = vec![0; len];
                t.eq("recv", s.recv(&mut room, MSG_WAITALL), Ok(len));
                data.extend(room);
            }
            t.holds("data", data == bytes(1, 1000));
        },
        |t, s| t.send_all(s, &bytes(1, 1000)),
    ),
    Case::connected(
        "recv_waits_for_data",
        |t, s| {
            t.tell_sleeping("receiving");
            let mut room = [0; 16];
            t.eq("recv", s.recv(&mut room, 0), Ok(5));
        },
        |t, s| {
            t.hear_asleep("receiving", &[libc::SYS_recvfrom]);
            t.send_all(s, b"hello");
        },
    )
    .both_versions(),
    Case::connected(
        "recv_without_data_would_block",
        |t, s| {
            let mut room = [0; 8];
            t.err("dontwait", s.recv(&mut room, MSG_DONTWAIT), EAGAIN);
            t.err("dontwait waitall", s.recv(&mut room, MSG_DONTWAIT | MSG_WAITALL), EAGAIN);
            t.err("dontwait peek", s.recv(&mut room, MSG_DONTWAIT | MSG_PEEK), EAGAIN);
            s.set_nonblocking(true).expect("O_NONBLOCK");
            t.err("recv", s.recv(&mut room, 0), EAGAIN);
            t.err("read", s.read(&mut room), EAGAIN);
            t.err("readv", s.readv(&mut [&mut room]), EAGAIN);
            t.err("recvmsg", s.recvmsg(&mut [&mut [0; 8]], 0), EAGAIN);
        },
        keep_open,
    )
    .both_versions(),
    Case::connected(
        "recv_of_nothing_leaves_the_data",
        |t, s| {
            t.eq("read without data", s.read(&mut []), Ok(0));
            t.err("recv without data", s.recv(&mut [], MSG_DONTWAIT), EAGAIN);
            t.say("send");
            t.await_events(s, POLLIN);
            t.eq("read", s.read(&mut []), Ok(0));
            t.eq("recv", s.recv(&mut [], MSG_DONTWAIT), Ok(0));
            t.eq("data", t.recv_exactly(s, 3), b"abc".to_vec());
        },
        |t, s| {
            t.wait("send");
            t.send_all(s, b"abc");
        },
    ),
    Case::connected(
        "recv_at_the_end_gives_zero_every_time",
        |t, s| {
            t.eq("data", t.recv_exactly(s, 3), b"abc".to_vec());
            let mut room = [0; 8];
            for _ in 0..3 {
                t.eq("recv", s.recv(&mut room, 0), Ok(0));
            }
            t.eq("read", s.read(&mut room), Ok(0));
            t.eq("peek", s.recv(&mut room, MSG_PEEK), Ok(0));
            t.eq("waitall", s.recv(&mut room, MSG_WAITALL), Ok(0));
            t.eq("dontwait", s.recv(&mut room, MSG_DONTWAIT), Ok(0));
        },
        |t, s| {
            t.send_all(s, b"abc");
            s.shutdown(SHUT_WR).expect("shutdown");
        },
    )
    .both_versions(),
    Case::connected(
        "recv_that_waits_is_woken_by_the_end",
        |t, s| {
            t.tell_sleeping("receiving");
            t.eq("recv", s.recv(&mut [0; 8], 0), Ok(0));
        },
        |t, s| {
            t.hear_asleep("receiving", &[libc::SYS_recvfrom]);
            s.close().expect("close");
        },
    )
    .both_versions(),
    Case::connected(
        "recv_that_waits_is_woken_by_a_reset",
        |t, s| {
            t.tell_sleeping("receiving");
            t.err("recv", s.recv(&mut [0; 8], 0), libc::ECONNRESET);
            t.eq("recv again", s.recv(&mut [0; 8], 0), Ok(0));
        },
        |t, s| {
            t.hear_asleep("receiving", &[libc::SYS_recvfrom]);
            s.set_linger(true, 0).expect("SO_LINGER");
            s.close().expect("close");
        },
    )
    .both_versions(),
    Case::connected(
        "recv_gives_up_after_so_rcvtimeo",
        |t, s| {
            s.set_timeout(libc::SO_RCVTIMEO, LIMIT).expect("SO_RCVTIMEO");
            let start = std::time::Instant::now();
            t.err("recv", s.recv(&mut [0; 8], 0), EAGAIN);
            t.holds("waited", start.elapsed().as_millis() >= ENOUGH);
            s.set_timeout(libc::SO_RCVTIMEO, 0).expect("SO_RCVTIMEO");
            t.say("send");
            t.eq("recv without limit", s.recv(&mut [0; 8], 0), Ok(3));
        },
        |t, s| {
            t.wait("send");
            t.send_all(s, b"abc");
        },
    )
    .both_versions(),
    Case::connected(
        "recv_peek_leaves_the_data",
        |t, s| {
            await_unread(t, s, 100);
            let mut room = [0; 200];
            t.eq("peek", s.recv(&mut room, MSG_PEEK), Ok(100));
            t.holds("peeked data", room[..100] == bytes(1, 100)[..]);
            t.eq("peek a part", s.recv(&mut room[..10], MSG_PEEK), Ok(10));
            t.eq("recv", s.recv(&mut room[..60], 0), Ok(60));
            t.eq("peek the rest", s.recv(&mut room, MSG_PEEK), Ok(40));
            t.holds("rest", room[..40] == bytes(1, 100)[60..]);
            t.eq("recv the rest", s.recv(&mut room, 0), Ok(40));
            t.err("nothing left", s.recv(&mut room, MSG_PEEK | MSG_DONTWAIT), EAGAIN);
        },
        |t, s| t.send_all(s, &bytes(1, 100)),
    )
    .both_versions(),
    Case::connected(
        "recv_peek_spans_several_sends",
        |t, s| {
            await_unread(t, s, 30_000);
            let mut room = vec![0; 40_000];
            t.eq("peek", s.recv(&mut room, MSG_PEEK), Ok(30_000));
            t.holds("peeked data", room[..30_000] == bytes(1, 30_000)[..]);
            t.holds("data", t.recv_exactly(s, 30_000) == bytes(1, 30_000));
        },
        |t, s| {
            for piece in bytes(1, 30_000).chunks(3000) {
                t.send_all(s, piece);
            }
        },
    ),
    Case::connected(
        "recv_peek_waits_for_data",
        |t, s| {
            t.tell_sleeping("peeking");
            t.eq("peek", s.recv(&mut [0; 8], MSG_PEEK), Ok(3));
            t.eq("data", t.recv_exactly(s, 3), b"abc".to_vec());
        },
        |t, s| {
            t.hear_asleep("peeking", &[libc::SYS_recvfrom]);
            t.send_all(s, b"abc");
        },
    ),
    Case::connected(
        "recv_waitall_waits_for_all_of_it",
        |t, s| {
            t.tell_sleeping("receiving");
            let mut room = vec![0; 2000];
            t.eq("recv", s.recv(&mut room, MSG_WAITALL), Ok(2000));
            t.holds("data", room == bytes(1, 2000));
        },
        |t, s| {
            t.hear_asleep("receiving", &[libc::SYS_recvfrom]);
            t.send_all(s, &bytes(1, 2000)[..700]);
            t.send_all(s, &bytes(1, 2000)[700..]);
        },
    )
    .both_versions(),
    Case::connected(
        "recv_waitall_gives_less_at_the_end",
        |t, s| {
            let mut room = vec![0; 2000];
            t.eq("recv", s.recv(&mut room, MSG_WAITALL), Ok(700));
            t.eq("recv again", s.recv(&mut room, MSG_WAITALL), Ok(0));
        },
        |t, s| send_pattern(t, s, 700),
    ),
    Case::connected(
        "recv_waitall_gives_less_after_so_rcvtimeo",
        |t, s| {
            await_unread(t, s, 700);
            s.set_timeout(libc::SO_RCVTIMEO, LIMIT).expect("SO_RCVTIMEO");
            t.eq("recv", s.recv(&mut [0; 2000], MSG_WAITALL), Ok(700));
        },
        |t, s| t.send_all(s, &bytes(1, 700)),
    ),
    Case::connected(
        "recv_waitall_gives_less_after_a_reset",
        |t, s| {
            t.tell_sleeping("receiving");
            let mut room = vec![0; 2000];
            t.eq("recv", s.recv(&mut room, MSG_WAITALL), Ok(700));
            t.err("recv again", s.recv(&mut room, MSG_WAITALL), libc::ECONNRESET);
        },
        |t, s| {
            t.hear_asleep("receiving", &[libc::SYS_recvfrom]);
            t.send_all(s, &bytes(1, 700));
            // The peer's host must have received the bytes before the reset, which may discard
            // them.
            assert!(t.until(|| s.ioctl(crate::role::SIOCOUTQ) == Ok(0)), "not sent");
            s.set_linger(true, 0).expect("SO_LINGER");
            s.close().expect("close");
        },
    ),
    Case::connected(
        "recv_waitall_with_dontwait_gives_what_is_there",
        |t, s| {
            await_unread(t, s, 700);
            t.eq("recv", s.recv(&mut [0; 2000], MSG_WAITALL | MSG_DONTWAIT), Ok(700));
        },
        |t, s| t.send_all(s, &bytes(1, 700)),
    ),
    Case::connected(
        "recv_trunc_throws_data_away",
        |t, s| {
            await_unread(t, s, 1000);
            let mut room = [9; 100];
            t.eq("trunc", s.recv(&mut room, MSG_TRUNC), Ok(100));
            t.holds("room untouched", room == [9; 100]);
            t.eq("null", s.recv_raw(std::ptr::null_mut(), 200, MSG_TRUNC), Ok(200));
            t.holds("rest", t.recv_exactly(s, 700) == bytes(1, 1000)[300..]);
            t.err("empty", s.recv_raw(std::ptr::null_mut(), 8, MSG_TRUNC | MSG_DONTWAIT), EAGAIN);
        },
        |t, s| t.send_all(s, &bytes(1, 1000)),
    ),
    Case::connected(
        "recv_into_bad_memory_leaves_the_data",
        |t, s| {
            await_unread(t, s, 500);
            let cliff = Cliff::new(1);
            t.err("null", s.recv_raw(std::ptr::null_mut(), 100, 0), EFAULT);
            t.err("unmapped", s.recv_raw(cliff.beyond(), 100, 0), EFAULT);
            t.err("peek", s.recv_raw(cliff.beyond(), 100, MSG_PEEK), EFAULT);
            t.eq("still unread", s.ioctl(SIOCINQ), Ok(500));
            t.holds("data", t.recv_exactly(s, 500) == bytes(1, 500));
        },
        |t, s| t.send_all(s, &bytes(1, 500)),
    ),
    Case::connected(
        "recv_across_the_end_of_memory_loses_nothing",
        |t, s| {
            let len = 3 * PAGE;
            await_unread(t, s, len as i32);
            let mut cliff = Cliff::new(1);
            let got = s.recv_raw(cliff.as_mut_ptr(), len, 0).unwrap_or(0);
            t.holds("not more than fits", got <= PAGE);
            let mut data = cliff.bytes()[..got].to_vec();
            data.extend(t.recv_exactly(s, len - got));
            t.holds("data", data == bytes(1, len));
        },
        |t, s| t.send_all(s, &bytes(1, 3 * PAGE)),
    ),
    Case::connected(
        "recvfrom_gives_no_address",
        |t, s| {
            let mut from = Addr::empty();
            let mut room = [0; 8];
            t.eq("recvfrom", s.recv_from(&mut room, 0, &mut from), Ok(3));
            t.eq("length", from.len(), 0);
        },
        |t, s| t.send_all(s, b"abc"),
    ),
    Case::connected(
        "recv_of_the_error_queue_would_block",
        |t, s| {
            t.err("errqueue", s.recv(&mut [0; 8], libc::MSG_ERRQUEUE), EAGAIN);
            t.err("out of band", s.recv(&mut [0; 8], libc::MSG_OOB), EINVAL);
        },
        keep_open,
    ),
    Case::connected(
        "recv_lowat_is_content_with_all_that_can_come",
        |t, s| {
            let many = 100;
            s.set(SOL_SOCKET, libc::SO_RCVLOWAT, &many).expect("SO_RCVLOWAT");
            t.say("send");
            let mut left = many as usize;
            while left > 0 {
                t.await_events(s, POLLIN);
                left -= s.recv(&mut vec![0; left], libc::MSG_DONTWAIT).expect("recv");
                let mark = left.max(1) as libc::c_int;
                s.set(SOL_SOCKET, libc::SO_RCVLOWAT, &mark).expect("SO_RCVLOWAT");
            }
            t.say("send");
            let peeked = s.recv(&mut [0; 100], MSG_PEEK | MSG_WAITALL).expect("recv");
            t.holds("peek", peeked > 0);
            t.recv_exactly(s, 100);
        },
        |t, s| {
            s.set(libc::SOL_TCP, libc::TCP_NODELAY, &1).expect("TCP_NODELAY");
            for _ in 0..2 {
                t.wait("send");
                for _ in 0..100 {
                    t.send_all(s, b"x");
                }
            }
        },
    ),
    Case::connected(
        "recv_lowat_holds_poll_back",
        |t, s| {
            s.set(SOL_SOCKET, libc::SO_RCVLOWAT, &500).expect("SO_RCVLOWAT");
            t.say("send less");
            await_unread(t, s, 499);
            t.eq("one too few", s.poll(POLLIN, 0).map(|up| up.0), Ok(0));
            t.say("send one");
            t.see("enough", t.await_events(s, POLLIN));
            t.recv_exactly(s, 100);
            t.eq("after a read", s.poll(POLLIN, 0).map(|up| up.0), Ok(0));
            s.set(SOL_SOCKET, libc::SO_RCVLOWAT, &1).expect("SO_RCVLOWAT");
            t.see("lowered", s.poll(POLLIN, 0));
        },
        |t, s| {
            t.wait("send less");
            t.send_all(s, &[1; 499]);
            t.wait("send one");
            t.send_all(s, &[1]);
        },
    )
    .both_versions(),
    Case::two(
        "recv_lowat_is_over_when_no_buffer_is_left",
        |t| {
            let listener = t.bound();
            listener.listen(1).expect("listen");
            t.tell("port", t.port_of(&listener));
            let s = listener.accept().expect("accept");
            s.set(SOL_SOCKET, SO_ZEROCOPY, &1).expect("SO_ZEROCOPY");
            t.hear_asleep("polling", &[libc::SYS_poll]);
            for len in [1, 270] {
                t.send_all(&s, &vec![1; len]);
                std::thread::sleep(Duration::from_millis(10));
            }
            // Its offer is preceded by a message without payload.
            let lent = vec![1; LENT].leak();
            let flags = libc::MSG_ZEROCOPY | MSG_NOSIGNAL | MSG_DONTWAIT;
            t.holds("send", s.send(lent, flags).expect("send") > 0);
            t.meet("read");
        },
        |t| {
            let port = t.hear("port");
            let s = t.socket();
            s.set(SOL_SOCKET, libc::SO_RCVBUF, &2048).expect("SO_RCVBUF");
            s.set(SOL_SOCKET, libc::SO_RCVLOWAT, &5000).expect("SO_RCVLOWAT");
            s.connect(&t.there(port)).expect("connect");
            s.shutdown(SHUT_WR).expect("shutdown");
            t.tell_sleeping("polling");
            // At the end of its time a poll() looks again.
            t.see("events", s.poll(POLLIN, -1));
            t.holds("the bytes", t.recv_exactly(&s, 271) == [1; 271]);
            t.meet("read");
        },
    ),
    Case::connected(
        "recv_lowat_that_is_lowered_is_an_event",
        |t, s| {
            let mark = |value: i32| s.set(SOL_SOCKET, libc::SO_RCVLOWAT, &value);
            t.ok("raise", mark(500));
            t.say("send");
            await_unread(t, s, 100);
            let epoll = Epoll::new().expect("epoll");
            epoll.watch(s, libc::EPOLLIN | libc::EPOLLET).expect("watch");
            t.eq("too few", epoll.wait(0).map(|events| events.len()), Ok(0));
            t.ok("lower", mark(101));
            t.eq("still too few", epoll.wait(0).map(|events| events.len()), Ok(0));
            t.ok("lower further", mark(100));
            t.eq("enough", epoll.wait(0).map(|events| events.len()), Ok(1));
            t.eq("told once", epoll.wait(0).map(|events| events.len()), Ok(0));
        },
        |t, s| {
            t.wait("send");
            t.send_all(s, &[1; 100]);
        },
    )
    .both_versions(),
    Case::alone("recv_lowat_is_half_of_the_buffer_at_most", |t| {
        let s = t.socket();
        for value in [1, 0, 5000, i32::MAX, -1] {
            t.ok("set", s.set(SOL_SOCKET, libc::SO_RCVLOWAT, &value));
            t.see("mark", s.get(SOL_SOCKET, libc::SO_RCVLOWAT));
        }
        t.ok("buffer", s.set(SOL_SOCKET, libc::SO_RCVBUF, &20_000));
        t.ok("set", s.set(SOL_SOCKET, libc::SO_RCVLOWAT, &i32::MAX));
        t.see("mark in a buffer of its own", s.get(SOL_SOCKET, libc::SO_RCVLOWAT));
    }),
    Case::connected(
        "recv_lowat_makes_a_waiting_call_wait_for_more",
        |t, s| {
            s.set(SOL_SOCKET, libc::SO_RCVLOWAT, &500).expect("SO_RCVLOWAT");
            t.say("send less");
            await_unread(t, s, 300);
            t.tell_sleeping("receiving");
            let got = s.recv(&mut [0; 1000], 0).expect("recv");
            t.holds("at least the mark", got >= 500);
        },
        |t, s| {
            t.wait("send less");
            t.send_all(s, &[1; 300]);
            t.hear_asleep("receiving", &[libc::SYS_recvfrom]);
            // TCP wakes the reader only if the new bytes alone reach the mark.
            t.send_all(s, &[1; 500]);
        },
    ),
    Case::connected(
        "recv_lowat_does_not_hold_back_the_end",
        |t, s| {
            s.set(SOL_SOCKET, libc::SO_RCVLOWAT, &500).expect("SO_RCVLOWAT");
            t.say("send");
            t.see("events", t.await_events(s, POLLIN | POLLRDHUP));
            t.eq("recv", s.recv(&mut [0; 1000], 0), Ok(10));
            t.eq("end", s.recv(&mut [0; 1000], 0), Ok(0));
        },
        |t, s| {
            t.wait("send");
            send_pattern(t, s, 10);
        },
    ),
    Case::connected(
        "recv_lowat_is_bounded_by_the_request",
        |t, s| {
            s.set(SOL_SOCKET, libc::SO_RCVLOWAT, &500).expect("SO_RCVLOWAT");
            t.say("send");
            await_unread(t, s, 100);
            t.eq("recv", s.recv(&mut [0; 100], 0), Ok(100));
        },
        |t, s| {
            t.wait("send");
            t.send_all(s, &[1; 100]);
        },
    ),
    Case::connected(
        "recv_after_own_shutdown_gives_zero",
        |t, s| {
            t.ok("shutdown", s.shutdown(libc::SHUT_RD));
            t.eq("recv", s.recv(&mut [0; 8], 0), Ok(0));
            t.eq("dontwait", s.recv(&mut [0; 8], MSG_DONTWAIT), Ok(0));
        },
        keep_open,
    )
    .both_versions(),
    Case::connected(
        "recv_after_own_shutdown_gives_queued_data_first",
        |t, s| {
            await_unread(t, s, 100);
            t.ok("shutdown", s.shutdown(libc::SHUT_RD));
            t.eq("recv", s.recv(&mut [0; 200], 0), Ok(100));
            t.eq("then", s.recv(&mut [0; 200], 0), Ok(0));
        },
        |t, s| t.send_all(s, &[1; 100]),
    ),
    Case::connected(
        "recv_after_own_shutdown_gives_data_that_comes_late",
        |t, s| {
            t.ok("shutdown", s.shutdown(libc::SHUT_RD));
            t.say("send");
            await_unread(t, s, 100);
            t.eq("recv", s.recv(&mut [0; 200], 0), Ok(100));
        },
        |t, s| {
            t.wait("send");
            t.ok("send", s.send(&[1; 100], libc::MSG_NOSIGNAL));
        },
    ),
];
