// SPDX-License-Identifier: MIT
//! `MSG_ZEROCOPY`: it sends from the program's memory and returns, and the error queue reports when
//! the program may reuse the memory. On SDP this is zero copy without waiting for the peer.

use std::collections::HashSet;
use std::fs;
use std::ops::Range;

use libc::{
    c_int, SYS_sendto, EAGAIN, EINVAL, ENOBUFS, MSG_DONTWAIT, MSG_ERRQUEUE, MSG_NOSIGNAL,
    MSG_WAITALL, MSG_ZEROCOPY, POLLERR, POLLIN, POLLOUT, SHUT_WR, SIGUSR1, SOL_SOCKET, SOL_TCP,
    SO_RCVBUF, SO_SNDTIMEO,
};

use super::zcopy::{
    client, counted, given_back, pins, recv_sizes, send_sizes, server, Room, MIB, SIZES,
};
use crate::blocked::kill_thread;
use crate::case::Case;
use crate::child;
use crate::errno::{Errno, Res};
use crate::message::header;
use crate::payload::bytes;
use crate::pipes::Pipe;
use crate::role::Role;
use crate::signal;
use crate::sock::Sock;
use crate::uapi;
use crate::world::{Family, Ip};

pub(super) const SO_ZEROCOPY: c_int = 60;
const SO_EE_ORIGIN_ZEROCOPY: u8 = 5;
const SO_EE_CODE_ZEROCOPY_COPIED: u8 = 1;
const LEND: c_int = MSG_ZEROCOPY | MSG_NOSIGNAL;

/// One message of the error queue: calls from `first` to `last` are complete.
#[derive(Clone, Copy)]
pub(super) struct Notice {
    first: u32,
    last: u32,
    copied: bool,
}

/// The control buffer that `recvmsg` fills.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Told {
    len: usize,
    level: c_int,
    kind: c_int,
    errno: u32,
    origin: u8,
    type_: u8,
    code: u8,
    pad: u8,
    info: u32,
    data: u32,
    /// No offender: all zeroes.
    offender: [u32; 8],
}

fn notice(t: &Role, s: &Sock) -> Res<Notice> {
    let mut told = Told::default();
    let mut message = header(&mut []);
    message.msg_control = (&raw mut told).cast();
    message.msg_controllen = size_of::<Told>();
    let count = s.recvmsg_header(&raw mut message, MSG_ERRQUEUE)?;
    let (level, kind, offender) = match t.ip {
        Ip::V4 => (libc::SOL_IP, libc::IP_RECVERR, 16),
        Ip::V6 => (libc::SOL_IPV6, libc::IPV6_RECVERR, 28),
    };
    assert_eq!((count, message.msg_flags & MSG_ERRQUEUE), (0, MSG_ERRQUEUE));
    assert_eq!((told.level, told.kind, told.len), (level, kind, 16 + 16 + offender));
    assert_eq!((told.errno, told.type_, told.pad, told.offender), (0, 0, 0, [0; 8]));
    assert_eq!(told.origin, SO_EE_ORIGIN_ZEROCOPY);
    assert_eq!(told.code & !SO_EE_CODE_ZEROCOPY_COPIED, 0);
    Ok(Notice { first: told.info, last: told.data, copied: told.code != 0 })
}

/// Waits until the first `calls` calls are complete; each must be reported once.
fn told(t: &Role, s: &Sock, calls: u32) -> Vec<Notice> {
    told_since(t, s, 0..calls)
}

/// The same for later calls; the earlier ones were reported before.
pub(super) fn told_since(t: &Role, s: &Sock, calls: Range<u32>) -> Vec<Notice> {
    let last = calls.end;
    let mut open: HashSet<u32> = calls.collect();
    let mut notices = Vec::new();
    while !open.is_empty() {
        t.await_events(s, POLLERR);
        let notice = notice(t, s).expect("a notice");
        for call in notice.first..=notice.last {
            assert!(open.remove(&call), "call {call} of {last} is told of again");
        }
        notices.push(notice);
    }
    t.err("no more notices", notice(t, s).map(|_| 0), EAGAIN);
    t.holds("no more events", s.poll(0, 0).expect("poll").0 & c_int::from(POLLERR) == 0);
    notices
}

/// The same. On SDP the reports must be in order, and correct about copies.
fn told_of(t: &Role, s: &Sock, calls: u32, copied: bool) {
    let notices = told(t, s, calls);
    if t.family == Family::Sdp {
        assert!(notices.is_sorted_by_key(|notice| notice.first), "told in turn");
        let was = notices.iter().any(|notice| notice.copied);
        assert_eq!(was, copied, "copied");
    }
}

fn lending(t: &Role) -> Sock {
    let s = client(t);
    s.set(SOL_SOCKET, SO_ZEROCOPY, &1).expect("SO_ZEROCOPY");
    s
}

/// Sends all of `data` with `MSG_ZEROCOPY`, waiting for room; returns the number of calls.
pub(super) fn lend(s: &Sock, mut data: &[u8]) -> u32 {
    let mut calls = 0;
    while !data.is_empty() {
        let sent = s.send(data, LEND).expect("send");
        data = &data[sent..];
        calls += 1;
    }
    calls
}

/// Sends as much as possible without waiting; returns the number of bytes, and of calls.
fn lend_at_once(s: &Sock, data: &[u8]) -> (usize, u32) {
    let (mut sent, mut calls) = (0, 0);
    while sent < data.len() {
        match s.send(&data[sent..], LEND | MSG_DONTWAIT) {
            Ok(count) => sent += count,
            Err(errno) => {
                assert_eq!(errno, Errno(EAGAIN));
                break;
            }
        }
        calls += 1;
    }
    assert!(calls > 0, "nothing was taken");
    (sent, calls)
}

/// Reads to the end; the other side tells the sent length.
fn read_all(t: &Role, seed: u64) {
    let s = server(t);
    let want: usize = t.hear("sent");
    let got = t.recv_to_end(&s);
    assert!(got == bytes(seed, want), "{} of {want} bytes came, or others", got.len());
    t.holds("all came", true);
}

/// The knob for memory of control messages and notices; restored when dropped.
struct Optmem(String);

impl Optmem {
    const PATH: &str = "/proc/sys/net/core/optmem_max";

    fn of(bytes: &str) -> Self {
        let before = fs::read_to_string(Self::PATH).expect("optmem_max");
        fs::write(Self::PATH, bytes).expect("optmem_max");
        Optmem(before)
    }
}

impl Drop for Optmem {
    fn drop(&mut self) {
        fs::write(Self::PATH, &self.0).expect("optmem_max");
    }
}

pub const CASES: &[Case] = &[
    Case::two(
        "lent_memory_comes_back_with_a_notice",
        |t| {
            let s = server(t);
            for turn in 0..3 {
                let mut room = Room::new(0, MIB);
                assert_eq!(s.recv(room.bytes(), MSG_WAITALL), Ok(MIB));
                t.holds("the bytes", room.bytes() == bytes(turn, MIB));
            }
            t.meet("end");
        },
        |t| {
            let s = lending(t);
            let before = pins();
            let mut rooms: Vec<_> = (0..3).map(|turn| Room::filled(turn, 0, MIB)).collect();
            counted(
                t,
                || {
                    let calls = rooms.iter_mut().map(|room| lend(&s, room.bytes())).sum();
                    told_of(t, &s, calls, false);
                },
                |of| {
                    let uncopied = of("zcopy_bytes_sent") + of("written_bytes_sent");
                    assert_eq!(uncopied + of("gathered_bytes_sent"), 3 * MIB as i64);
                    assert_eq!(of("bcopy_bytes_sent") + of("copied_bytes_written"), 0);
                    assert_eq!(of("pin_failures") + of("region_shortages"), 0);
                },
            );
            // The reader has pinned pages, too.
            t.meet("end");
            given_back(t, before);
        },
    )
    .both_versions(),
    Case::two(
        "lent_of_every_border_size",
        |t| {
            let s = server(t);
            recv_sizes(SIZES, &s);
            t.meet("end");
        },
        |t| {
            let s = lending(t);
            let mut calls = 0;
            // The program's own mapping is gone by the time that most of it is read.
            send_sizes(SIZES, |data| calls += lend(&s, data));
            told(t, &s, calls);
            t.meet("end");
        },
    ),
    Case::two(
        "lent_memory_is_told_of_when_it_is_copied",
        |t| read_all(t, 3),
        |t| {
            let s = lending(t);
            if t.family == Family::Sdp {
                s.set(SOL_TCP, uapi::SDP_ZCOPY_SOURCE_THRESH, &0).expect("the threshold");
            }
            let mut room = Room::filled(3, 0, 5 * 65_536);
            let data = room.bytes();
            t.tell("sent", data.len());
            let calls = data.chunks(65_536).map(|part| lend(&s, part)).sum();
            told_of(t, &s, calls, true);
            s.shutdown(SHUT_WR).expect("shutdown");
            t.await_events(&s, POLLIN);
        },
    )
    .both_versions(),
    Case::two(
        "lent_memory_of_little_is_copied",
        |t| read_all(t, 3),
        |t| {
            let s = lending(t);
            let data = bytes(3, 300);
            t.tell("sent", data.len());
            let calls = data.chunks(3).map(|part| lend(&s, part)).sum();
            told_of(t, &s, calls, true);
            s.shutdown(SHUT_WR).expect("shutdown");
            t.await_events(&s, POLLIN);
        },
    ),
    Case::two(
        "lent_flag_alone_means_nothing",
        |t| read_all(t, 4),
        |t| {
            let s = client(t);
            t.tell("sent", MIB);
            lend(&s, &bytes(4, MIB));
            t.err("notice", notice(t, &s).map(|_| 0), EAGAIN);
            s.shutdown(SHUT_WR).expect("shutdown");
            t.await_events(&s, POLLIN);
        },
    ),
    Case::two(
        "lent_option_keeps_its_setting",
        |t| {
            let listener = t.listener(1);
            t.eq("before", listener.get(SOL_SOCKET, SO_ZEROCOPY), Ok(0));
            t.err("two", listener.set(SOL_SOCKET, SO_ZEROCOPY, &2), EINVAL);
            t.err("less than nothing", listener.set(SOL_SOCKET, SO_ZEROCOPY, &-1), EINVAL);
            t.err("a byte", listener.set(SOL_SOCKET, SO_ZEROCOPY, &1_u8), EINVAL);
            t.ok("on", listener.set(SOL_SOCKET, SO_ZEROCOPY, &1));
            t.eq("after", listener.get(SOL_SOCKET, SO_ZEROCOPY), Ok(1));
            t.tell("port", t.port_of(&listener));
            let s = listener.accept().expect("accept");
            t.eq("of the accepted", s.get(SOL_SOCKET, SO_ZEROCOPY), Ok(1));
            t.ok("off", s.set(SOL_SOCKET, SO_ZEROCOPY, &0));
            t.eq("at the end", s.get(SOL_SOCKET, SO_ZEROCOPY), Ok(0));
            t.meet("end");
        },
        |t| {
            let _s = t.connect_told();
            t.meet("end");
        },
    ),
    Case::two(
        "lent_without_waiting",
        |t| read_all(t, 5),
        |t| {
            let s = lending(t);
            let data = bytes(5, 16 * MIB);
            let (sent, calls) = lend_at_once(&s, &data);
            assert!(sent < data.len(), "the peer has not read");
            t.tell("sent", sent);
            told_of(t, &s, calls, false);
            t.await_events(&s, POLLOUT);
            s.shutdown(SHUT_WR).expect("shutdown");
            t.await_events(&s, POLLIN);
        },
    ),
    Case::two(
        "lent_notices_have_a_limit",
        |t| read_all(t, 6),
        |t| {
            let s = lending(t);
            let data = bytes(6, 65_536);
            t.tell("sent", 2 * data.len());
            {
                let _none = Optmem::of("1");
                t.err("send", s.send(&data, LEND), ENOBUFS);
                // Without the flag there is no notice.
                t.send_all(&s, &data[..65_536 / 2]);
            }
            t.send_all(&s, &data[65_536 / 2..]);
            let calls = lend(&s, &bytes(6, 2 * 65_536)[65_536..]);
            told(t, &s, calls);
            s.shutdown(SHUT_WR).expect("shutdown");
            t.await_events(&s, POLLIN);
        },
    ),
    Case::two(
        "lent_notices_count_until_they_are_taken",
        |t| {
            let s = server(t);
            t.wait("lent");
            let got = t.recv_to_end(&s);
            t.holds("all came", got == bytes(12, 2 * 65_536));
        },
        |t| {
            let s = lending(t);
            let data = bytes(12, 2 * 65_536);
            let (first, second) = data.split_at(65_536);
            // Room for one.
            let _one = Optmem::of("1100");
            t.eq("the first", s.send(first, LEND), Ok(first.len()));
            if t.family == Family::Sdp {
                // Nothing was read. On TCP an acknowledgement may have completed the first call by
                // now.
                assert_eq!(s.send(second, LEND), Err(Errno(ENOBUFS)), "while it is lent");
            }
            t.say("lent");
            t.await_events(&s, POLLERR);
            t.err("with a notice to take", s.send(second, LEND), ENOBUFS);
            assert!(notice(t, &s).is_ok_and(|notice| notice.first == 0 && notice.last == 0));
            t.eq("the second", s.send(second, LEND), Ok(second.len()));
            told_since(t, &s, 1..2);
            s.shutdown(SHUT_WR).expect("shutdown");
            t.await_events(&s, POLLIN);
        },
    )
    .both_versions(),
    Case::two(
        "lent_before_and_behind_other_bytes",
        |t| read_all(t, 7),
        |t| {
            let s = lending(t);
            let mut room = Room::filled(7, 0, 2 * MIB);
            let (mut rest, mut calls) = (&*room.bytes(), 0);
            t.tell("sent", rest.len());
            // Long ones are advertised, short ones copied; after every second one the program
            // waits.
            for (turn, len) in
                [70_000, 10, 8192, 300_000, 5, 4096, 100_000, 3].iter().cycle().enumerate()
            {
                let (part, behind) = rest.split_at(rest.len().min(*len));
                if turn % 3 == 0 {
                    t.send_all(&s, part);
                } else {
                    calls += lend(&s, part);
                }
                rest = behind;
                if rest.is_empty() {
                    break;
                }
            }
            told(t, &s, calls);
            s.shutdown(SHUT_WR).expect("shutdown");
            t.await_events(&s, POLLIN);
        },
    )
    .both_versions(),
    Case::two(
        "lent_before_a_send_that_is_interrupted",
        |t| {
            let s = server(t);
            let want: usize = t.hear("sent");
            let got = t.recv_to_end(&s);
            assert!(got == bytes(8, want), "{} of {want} bytes came, or others", got.len());
            t.holds("all came", true);
        },
        |t| {
            let s = lending(t);
            signal::catch(SIGUSR1, false);
            let data = bytes(8, 16 * MIB);
            let lent = s.send(&data[..65_536], LEND).expect("send");
            let poke = |thread| kill_thread(thread, SIGUSR1).expect("tgkill");
            let rest = &data[lent..];
            let plain = t.while_asleep(&[SYS_sendto], poke, || s.send(rest, MSG_NOSIGNAL));
            let plain = plain.unwrap_or_else(|errno| {
                assert_eq!(errno, Errno(libc::EINTR));
                0
            });
            t.tell("sent", lent + plain);
            s.shutdown(SHUT_WR).expect("shutdown");
            told(t, &s, 1);
            t.await_events(&s, POLLIN);
        },
    ),
    Case::two(
        "lent_pieces_that_are_copied_fill_the_buffer",
        |t| read_all(t, 12),
        |t| {
            let s = lending(t);
            let data = bytes(12, 16 * MIB);
            let mut sent = 0;
            // Too short to be lent. When the buffer is full the call ends, although no memory is
            // lent and some could be.
            for piece in data.chunks(2000) {
                match s.send(piece, LEND | MSG_DONTWAIT) {
                    Ok(count) => sent += count,
                    // TCP runs out of memory for notices first.
                    Err(errno) => {
                        assert!([Errno(EAGAIN), Errno(ENOBUFS)].contains(&errno), "{errno:?}");
                        break;
                    }
                }
            }
            t.holds("the buffer is full", sent < data.len());
            s.close().expect("close");
            t.tell("sent", sent);
        },
    ),
    Case::two(
        "lent_and_closed_at_once",
        |t| read_all(t, 9),
        |t| {
            let s = lending(t);
            let data = bytes(9, 4 * MIB);
            let (sent, _calls) = lend_at_once(&s, &data);
            s.close().expect("close");
            t.tell("sent", sent);
        },
    ),
    Case::two(
        "lent_by_a_process_that_is_killed",
        |t| read_all(t, 10),
        |t| {
            let s = lending(t);
            let pipe = Pipe::new();
            let child = child::spawn(|| {
                let mut room = Room::filled(10, 0, MIB);
                let (sent, _calls) = lend_at_once(&s, room.bytes());
                pipe.put(&sent.to_ne_bytes());
                loop {
                    // SAFETY: waits for the end.
                    unsafe { libc::pause() };
                }
            });
            let sent = pipe.take(size_of::<usize>());
            child.kill();
            s.close().expect("close");
            t.tell("sent", usize::from_ne_bytes(sent.try_into().expect("a number")));
        },
    ),
    Case::two(
        "lent_memory_that_is_not_read_does_not_hold_a_later_write",
        |t| {
            let s = server(t);
            s.set(SOL_SOCKET, SO_RCVBUF, &65_536).expect("SO_RCVBUF");
            t.say("small");
            let (first, second): (usize, usize) = (t.hear("first"), t.hear("second"));
            let got = t.recv_exactly(&s, first + second);
            let sent = [&bytes(21, MIB)[..first], &bytes(22, 8 * MIB)[..second]].concat();
            assert!(got == sent, "other bytes came");
            t.meet("end");
        },
        |t| {
            let s = lending(t);
            t.wait("small");
            s.set_timeout(SO_SNDTIMEO, 500).expect("SO_SNDTIMEO");
            let (lent, others) = (bytes(21, MIB), bytes(22, 8 * MIB));
            let count = |result: Res<usize>| match result {
                Ok(count) => count,
                Err(errno) => {
                    assert_eq!(errno, Errno(EAGAIN));
                    0
                }
            };
            let first = count(s.send(&lent, LEND));
            assert!(first > 0, "some is lent");
            t.tell("first", first);
            // Its end comes, although what is in front of it stays.
            t.tell("second", count(s.send(&others, MSG_NOSIGNAL)));
            t.meet("end");
        },
    ),
    Case::two(
        "lent_memory_comes_back_after_a_reset",
        |t| {
            let s = server(t);
            t.wait("lent");
            s.set_linger(true, 0).expect("SO_LINGER");
            s.close().expect("close");
            t.meet("end");
        },
        |t| {
            let s = lending(t);
            let data = bytes(11, 16 * MIB);
            let (_sent, calls) = lend_at_once(&s, &data);
            t.say("lent");
            // The error comes first, and does not remove the notices.
            let ended = t.until(|| s.error().expect("SO_ERROR").is_some());
            t.holds("it ended", ended);
            told(t, &s, calls);
            t.meet("end");
        },
    ),
];
