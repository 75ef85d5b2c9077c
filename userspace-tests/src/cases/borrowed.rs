// SPDX-License-Identifier: MIT
//! `SDP_BORROW`: `sendmsg` lends whole pages and returns, and a counter in the program's memory says
//! when they are its own again; and `SDP_AHEAD`, the same for what is received. TCP ignores the control message, so the same scripts define the
//! data.

use libc::{
    c_int, EAGAIN, EBADF, EFAULT, EINVAL, MAP_ANONYMOUS, MAP_PRIVATE, MAP_SHARED, MSG_DONTWAIT,
    MSG_NOSIGNAL, MSG_ZEROCOPY, POLLERR, POLLIN, POLLOUT, SHUT_WR, SOL_TCP,
};

use super::remapped::Mapping;
use super::zcopy::{await_reader, given_back, pins, recv_awaited, server, Room, MIB, PLACES};
use crate::case::Case;
use crate::child;
use crate::errno::{checked_int, Errno, Res};
use crate::message::{gather, header};
use crate::pages::{Cliff, PAGE};
use crate::payload::bytes;
use crate::pipes::Pipe;
use crate::role::Role;
use crate::sock::Sock;
use crate::uapi::{
    self, sdp_ahead, sdp_borrow, sdp_borrow_counter, sdp_borrow_info, sdp_borrow_range,
    sdp_borrow_wait, sdp_borrowed, AheadControl, BorrowControl,
};
use crate::world::Family;

/// A run of this length is lent.
const LEAST: usize = 16_384;
const PART: usize = 65_536;

/// The counter, in memory of its own.
struct Counter(Cliff);

impl Counter {
    fn new() -> Self {
        Counter(Cliff::new(1))
    }

    fn address(&self) -> u64 {
        self.0.as_mut_ptr() as u64
    }

    #[expect(clippy::cast_ptr_alignment, reason = "it is the start of a page")]
    fn now(&self) -> sdp_borrow_counter {
        // SAFETY: inside of the page, which the kernel may change at any time.
        unsafe { self.0.as_mut_ptr().cast::<sdp_borrow_counter>().read_volatile() }
    }

    fn is_past(&self, id: u32) -> bool {
        self.now().ended.wrapping_sub(id) < 1 << 31
    }
}

fn asked(counter: &Counter) -> sdp_borrow {
    sdp_borrow {
        counter: counter.address(),
        eventfd: -1,
        flags: 0,
        least: LEAST as u32,
        window_bytes: 0,
        window_runs: 0,
        reserved: 0,
    }
}

/// A connected socket that lends, if it is SDP's.
struct Lender {
    sock: Sock,
    counter: Counter,
    is_sdp: bool,
}

impl Lender {
    fn new(t: &Role) -> Self {
        Self::with(t, |_| {})
    }

    fn with(t: &Role, change: impl FnOnce(&mut sdp_borrow)) -> Self {
        let port = t.hear("port");
        let (sock, counter) = (t.socket(), Counter::new());
        let mut setup = asked(&counter);
        change(&mut setup);
        let is_sdp = t.family == Family::Sdp;
        if is_sdp {
            sock.set(SOL_TCP, uapi::SDP_BORROW, &setup).expect("SDP_BORROW");
        }
        sock.connect(&t.there(port)).expect("connect");
        t.meet("connected");
        Lender { sock, counter, is_sdp }
    }

    /// Sends the parts in one call; returns the number of bytes and what is lent.
    fn send(&self, parts: &[&[u8]], flags: c_int) -> Res<(usize, Vec<sdp_borrow_range>)> {
        let mut ranges = [sdp_borrow_range { start: 0, len: 0, id: 0 }; 16];
        let mut report = sdp_borrowed { counter: 0, ranges: 0, room: 16, count: 0 };
        report.ranges = ranges.as_mut_ptr() as u64;
        let sent = send_with(&self.sock, parts, flags, (&raw mut report) as u64)?;
        // The kernel has written both.
        let report = std::hint::black_box(report);
        let ranges = std::hint::black_box(ranges);
        if self.is_sdp {
            assert_eq!(report.counter, self.counter.address(), "the counter");
        }
        let ranges = ranges[..report.count as usize].to_vec();
        for range in &ranges {
            let inside = parts.iter().any(|part| {
                let start = part.as_ptr() as u64;
                start <= range.start
                    && range.start + u64::from(range.len) <= start + part.len() as u64
            });
            assert!(inside, "what is lent was sent");
            assert_eq!(
                (range.start % PAGE as u64, range.len as usize % PAGE),
                (0, 0),
                "whole pages"
            );
            assert!(range.len as usize >= LEAST, "long enough");
        }
        assert!(ranges.is_sorted_by_key(|range| range.id), "numbered in turn");
        Ok((sent, ranges))
    }

    /// The same for one part, without waiting; something must be lent on SDP.
    fn lend(&self, data: &[u8]) -> (usize, u32) {
        let (sent, ranges) = self.send(&[data], MSG_DONTWAIT | MSG_NOSIGNAL).expect("sendmsg");
        assert_eq!(ranges.is_empty(), !self.is_sdp, "something is lent");
        (sent, ranges.last().map_or(0, |range| range.id))
    }

    fn wait(&self, option: c_int, id: u32, timeout_ms: u32) -> Res<()> {
        if !self.is_sdp {
            return Ok(());
        }
        let wait = sdp_borrow_wait { id, timeout_ms };
        self.sock.set(SOL_TCP, option, &wait)
    }

    /// Waits until it is the program's own again.
    fn is_back(&self, t: &Role, id: u32) {
        let timeout = t.patience() as u32;
        assert_eq!(self.wait(uapi::SDP_BORROW_WAIT, id, timeout), Ok(()), "it comes back");
        assert!(self.counter.is_past(id), "and is counted");
    }

    fn info(&self) -> sdp_borrow_info {
        // SAFETY: all zeroes are valid numbers.
        let none = unsafe { std::mem::zeroed::<sdp_borrow_info>() };
        self.sock.get_as(SOL_TCP, uapi::SDP_BORROW_INFO, none).expect("SDP_BORROW_INFO")
    }

    /// Ends the stream, and waits for the peer's end.
    fn finish(&self, t: &Role, sent: usize) {
        t.tell("sent", sent);
        self.sock.shutdown(SHUT_WR).expect("shutdown");
        t.await_events(&self.sock, POLLIN);
    }
}

fn send_with(sock: &Sock, parts: &[&[u8]], flags: c_int, report: u64) -> Res<usize> {
    let mut control = BorrowControl::at(report);
    let mut parts = gather(parts);
    let mut message = header(&mut parts);
    message.msg_control = (&raw mut control).cast();
    message.msg_controllen = size_of::<BorrowControl>();
    sock.sendmsg_header(&raw const message, flags)
}

/// Reads to the end, from the time on that the other side has told of.
fn late_reader(t: &Role, seed: u64) {
    let s = server(t);
    t.wait("changed");
    let want: usize = t.hear("sent");
    let got = t.recv_to_end(&s);
    assert_eq!(got.len(), want, "the number of bytes");
    assert!(got == bytes(seed, MIB)[..want], "the bytes are not the call's");
    t.holds("all came", true);
}

/// Lends, has the memory back without a reader, and writes to it.
fn taken_back(t: &Role, seed: u64, pause_ms: u64) {
    let lender = Lender::new(t);
    let before = pins();
    let mut room = Room::filled(seed, 0, MIB);
    let (sent, id) = lender.lend(room.bytes());
    std::thread::sleep(std::time::Duration::from_millis(pause_ms));
    assert!(id == 0 || !lender.counter.is_past(id), "the peer has not read");
    let back = lender.wait(uapi::SDP_BORROW_CANCEL, id, t.patience() as u32);
    assert_eq!(back, Ok(()), "SDP_BORROW_CANCEL");
    if lender.is_sdp {
        let info = lender.info();
        assert_eq!((info.bytes, info.ended), (0, id), "nothing is lent");
    }
    room.bytes().fill(0);
    // The page of the counter stays pinned, and the reader pins nothing yet.
    given_back(t, before);
    t.say("changed");
    lender.finish(t, sent);
}

pub const CASES: &[Case] = &[
    Case::two(
        "borrowed_memory_comes_back",
        |t| {
            let s = server(t);
            for turn in 0..PLACES.len() {
                let got = t.recv_exactly(&s, MIB);
                t.holds("the bytes", got == bytes(turn as u64, MIB));
            }
            t.meet("end");
        },
        |t| {
            let lender = Lender::new(t);
            let before = pins();
            for (turn, &(place, _)) in PLACES.iter().enumerate() {
                let mut room = Room::filled(turn as u64, place, MIB);
                let data = room.bytes();
                let (sent, ranges) = lender.send(&[&*data], MSG_NOSIGNAL).expect("sendmsg");
                t.eq("sent", sent, MIB);
                assert_eq!(ranges.is_empty(), !lender.is_sdp, "something is lent");
                if let Some(last) = ranges.last() {
                    lender.is_back(t, last.id);
                }
                data.fill(0);
            }
            t.holds(
                "no event",
                lender.sock.poll(0, 0).expect("poll").0 & c_int::from(POLLERR) == 0,
            );
            t.eq("no error", lender.sock.error(), Ok(None));
            t.meet("end");
            given_back(t, before);
        },
    )
    .both_versions(),
    Case::two(
        "borrowed_among_other_pieces",
        |t| {
            let s = server(t);
            let got = t.recv_exactly(&s, 100 + PART + 3 + 2 * PART + 5000 + PART);
            t.holds("the bytes", got == bytes(2, got.len()));
            t.meet("end");
        },
        |t| {
            let lender = Lender::new(t);
            let lens = [100, PART, 3, 2 * PART, 5000, PART];
            let all = bytes(2, lens.iter().sum());
            let mut rest = &all[..];
            let mut rooms = Vec::new();
            for (at, len) in lens.into_iter().enumerate() {
                let mut room = Room::new(at * 999 % PAGE, len);
                let (part, behind) = rest.split_at(len);
                room.bytes().copy_from_slice(part);
                rooms.push(room);
                rest = behind;
            }
            let parts: Vec<&[u8]> = rooms.iter_mut().map(|room| &*room.bytes()).collect();
            let (sent, ranges) = lender.send(&parts, MSG_NOSIGNAL).expect("sendmsg");
            t.eq("sent", sent, all.len());
            assert_eq!(ranges.is_empty(), !lender.is_sdp, "something is lent");
            lender.is_back(t, ranges.last().map_or(0, |range| range.id));
            t.meet("end");
        },
    ),
    Case::two("borrowed_memory_is_taken_back", |t| late_reader(t, 3), |t| taken_back(t, 3, 0))
        .both_versions(),
    Case::two(
        "borrowed_memory_is_taken_back_later",
        |t| late_reader(t, 4),
        // By then the offers were recalled, and bytes wait for room at the reader.
        |t| taken_back(t, 4, 2500),
    ),
    Case::two(
        "borrowed_and_closed",
        |t| late_reader(t, 5),
        |t| {
            let lender = Lender::new(t);
            let mut room = Room::filled(5, 0, MIB);
            let (sent, id) = lender.lend(room.bytes());
            lender.sock.close().expect("close");
            if lender.is_sdp {
                assert!(lender.counter.is_past(id), "close() has waited");
                assert!(t.until(|| lender.counter.now().gone == 1), "nothing is counted any more");
            }
            room.bytes().fill(0);
            t.say("changed");
            t.tell("sent", sent);
        },
    ),
    Case::two(
        "borrowed_and_closed_without_waiting",
        |t| late_reader(t, 6),
        |t| {
            let lender = Lender::with(t, |setup| setup.flags = uapi::SDP_BORROW_NO_LINGER as u32);
            let mut room = Room::filled(6, 0, MIB);
            let (sent, id) = lender.lend(room.bytes());
            lender.sock.close().expect("close");
            assert!(id == 0 || !lender.counter.is_past(id), "close() has not waited");
            t.say("changed");
            t.tell("sent", sent);
            // Counted even without a descriptor.
            let all = t.until(|| id == 0 || lender.counter.is_past(id));
            assert!(all, "it comes back");
            let gone = t.until(|| !lender.is_sdp || lender.counter.now().gone == 1);
            assert!(gone, "and then nothing is counted any more");
        },
    ),
    Case::two(
        "borrowed_by_a_process_that_is_killed",
        |t| late_reader(t, 7),
        |t| {
            let lender = Lender::new(t);
            let pipe = Pipe::new();
            let child = child::spawn(|| {
                let own = Counter::new();
                if lender.is_sdp {
                    assert_eq!(lender.info().counter, 0, "the counter is the parent's");
                    let set = lender.sock.set(SOL_TCP, uapi::SDP_BORROW, &asked(&own));
                    assert_eq!(set, Ok(()), "SDP_BORROW of the child");
                }
                let mut room = Room::filled(7, 0, MIB);
                let mine = Lender {
                    sock: lender.sock.dup().expect("dup"),
                    counter: own,
                    is_sdp: lender.is_sdp,
                };
                let (sent, _id) = mine.lend(room.bytes());
                pipe.put(&sent.to_ne_bytes());
                loop {
                    // SAFETY: waits for the end.
                    unsafe { libc::pause() };
                }
            });
            let sent = pipe.take(size_of::<usize>());
            child.kill();
            t.say("changed");
            t.tell("sent", usize::from_ne_bytes(sent.try_into().expect("a number")));
            assert_eq!(lender.counter.now().ended, 0, "the child's are not counted here");
            lender.sock.shutdown(SHUT_WR).expect("shutdown");
            t.await_events(&lender.sock, POLLIN);
        },
    ),
    Case::two(
        "borrowed_within_a_window",
        |t| late_reader(t, 8),
        |t| {
            let lender = Lender::with(t, |setup| setup.window_bytes = PART as u32);
            let mut room = Room::filled(8, 0, MIB);
            let (sent, id) = lender.lend(room.bytes());
            if lender.is_sdp {
                let info = lender.info();
                assert_eq!((info.issued, info.window_bytes), (id, 65_536));
                assert_eq!((info.least as usize, info.window_runs), (LEAST, 16));
                // The reader's kernel may have taken what came first by now.
                let back = || lender.counter.now().ended > 0;
                assert!(info.bytes == 65_536 || info.bytes < 65_536 && t.until(back), "lent");
            }
            t.say("changed");
            lender.finish(t, sent);
        },
    ),
    Case::two(
        "borrowed_between_bytes_that_are_copied",
        |t| late_reader(t, 13),
        |t| {
            // Neither begins nor ends with a page. Lent memory does not use up SO_SNDBUF, so the
            // bytes behind it go as well, and the socket is writable.
            let lender = Lender::new(t);
            let mut room = Room::new(PAGE / 2, MIB - PAGE);
            room.bytes().copy_from_slice(&bytes(13, MIB)[..MIB - PAGE]);
            let flags = MSG_DONTWAIT | MSG_NOSIGNAL;
            let (sent, ranges) = lender.send(&[&*room.bytes()], flags).expect("sendmsg");
            if lender.is_sdp {
                let lent: usize = ranges.iter().map(|range| range.len as usize).sum();
                assert_eq!((sent, lent), (MIB - PAGE, MIB - 2 * PAGE), "sent and lent");
                let up = lender.sock.poll(POLLOUT, 0).expect("poll");
                assert_eq!(up.0, c_int::from(POLLOUT), "there is room");
            }
            t.say("changed");
            lender.finish(t, sent);
        },
    ),
    Case::two(
        "borrowed_in_a_number_of_runs",
        |t| late_reader(t, 8),
        |t| {
            let lender = Lender::with(t, |setup| setup.window_runs = 1);
            let mut room = Room::filled(8, 0, MIB);
            let (first, rest) = room.bytes().split_at(PART);
            let (mut sent, id) = lender.lend(first);
            if let Ok((more, ranges)) = lender.send(&[rest], MSG_DONTWAIT) {
                // The reader's kernel may have taken the first one by now.
                assert!(ranges.is_empty() || lender.counter.is_past(id), "one at a time");
                sent += more;
            }
            assert!(id <= 1);
            t.say("changed");
            lender.finish(t, sent);
        },
    ),
    Case::two(
        "borrowed_is_waited_for",
        |t| late_reader(t, 9),
        |t| {
            // SAFETY: integers only.
            let event = checked_int(unsafe { libc::eventfd(0, libc::EFD_NONBLOCK) });
            let event = Sock::from_fd(event.expect("eventfd"));
            let lender = Lender::with(t, |setup| setup.eventfd = event.fd());
            let mut room = Room::filled(9, 0, MIB);
            let (sent, id) = lender.lend(room.bytes());
            let mut told = [0_u8; 8];
            if lender.is_sdp {
                let wait = uapi::SDP_BORROW_WAIT;
                assert_eq!(lender.wait(wait, id, 10), Err(Errno(EAGAIN)), "the peer has not read");
                assert_eq!(lender.wait(wait, id + 1, 10), Err(Errno(EINVAL)), "there is none");
                assert_eq!(lender.wait(wait, 0, 10), Ok(()), "before the first");
                assert_eq!(event.read(&mut told), Err(Errno(EAGAIN)), "no event");
            }
            t.say("changed");
            t.tell("sent", sent);
            lender.is_back(t, id);
            if lender.is_sdp {
                let came = t.until(|| event.read(&mut told).is_ok());
                assert!(came && u64::from_ne_bytes(told) >= 1, "an event");
            }
            lender.sock.shutdown(SHUT_WR).expect("shutdown");
            t.await_events(&lender.sock, POLLIN);
        },
    ),
    Case::two(
        "borrowed_without_a_report",
        |t| late_reader(t, 10),
        |t| {
            let lender = Lender::new(t);
            let mut room = Room::filled(10, 0, MIB);
            let cliff = Cliff::new(1);
            let mut report = sdp_borrowed { counter: 0, ranges: 0, room: 16, count: 0 };
            report.ranges = cliff.beyond() as u64;
            let flags = MSG_DONTWAIT | MSG_NOSIGNAL;
            let at = (&raw mut report) as u64;
            let sent = send_with(&lender.sock, &[&*room.bytes()], flags, at).expect("sendmsg");
            if lender.is_sdp {
                let info = lender.info();
                assert!(info.issued > 0 && info.bytes == 0, "it was taken back at once");
            }
            room.bytes().fill(0);
            t.say("changed");
            lender.finish(t, sent);
        },
    ),
    Case::two(
        "borrowed_only_what_nobody_else_could_change",
        |t| late_reader(t, 11),
        |t| {
            let lender = Lender::with(t, |setup| setup.window_runs = 100);
            let data = bytes(11, MIB);
            let mut sent = 0;
            let mut send = |memory: &mut [u8], lent: bool| {
                let part = &mut memory[..PART];
                part.copy_from_slice(&data[sent..sent + PART]);
                let (count, ranges) = lender.send(&[part], MSG_NOSIGNAL).expect("sendmsg");
                assert_eq!(count, PART);
                assert_eq!(!ranges.is_empty(), lent && lender.is_sdp, "lent");
                sent += count;
                ranges.last().map_or(0, |range| range.id)
            };
            let mut shared = Mapping::new(MAP_SHARED | MAP_ANONYMOUS, -1);
            send(shared.room(), false);
            let mut private = Mapping::new(MAP_PRIVATE | MAP_ANONYMOUS, -1);
            let first = send(private.room(), true);
            assert!(!lender.is_sdp || first > 0);
            t.say("changed");
            t.tell("sent", 3 * PART);
            lender.is_back(t, first);
            // A child has the same pages until one of them writes. Those that are lent are ours.
            let child = child::spawn(|| loop {
                // SAFETY: waits for the end.
                unsafe { libc::pause() };
            });
            let last = send(private.room(), true);
            lender.is_back(t, last);
            child.kill();
            lender.sock.shutdown(SHUT_WR).expect("shutdown");
            t.await_events(&lender.sock, POLLIN);
        },
    ),
    Case::two(
        "borrowed_once_at_a_time",
        |t| {
            let s = server(t);
            t.wait("changed");
            let want: usize = t.hear("sent");
            let got = t.recv_to_end(&s);
            assert_eq!(got.len(), want, "the number of bytes");
            let data = bytes(12, PART);
            t.holds("all came", got == [&data[..], &data[..]].concat());
        },
        |t| {
            let lender = Lender::new(t);
            let mut room = Room::filled(12, 0, PART);
            let (_, id) = lender.lend(room.bytes());
            let again = lender.send(&[&*room.bytes()], MSG_NOSIGNAL).expect("sendmsg");
            assert_eq!(again.0, PART);
            // A pin may be for writing. The reader's kernel may have taken the first one by now.
            assert!(again.1.is_empty() || lender.counter.is_past(id), "lent twice");
            t.say("changed");
            lender.finish(t, 2 * PART);
        },
    ),
    Case::two(
        "borrowed_by_the_rules",
        |t| {
            let _s = server(t);
            t.meet("end");
        },
        |t| {
            let lender = Lender::new(t);
            if lender.is_sdp {
                let counter = Counter::new();
                let refused = |change: fn(&mut sdp_borrow), errno: c_int| {
                    let mut setup = asked(&counter);
                    change(&mut setup);
                    let set = lender.sock.set(SOL_TCP, uapi::SDP_BORROW, &setup);
                    assert_eq!(set, Err(Errno(errno)));
                };
                refused(|setup| setup.reserved = 1, EINVAL);
                refused(|setup| setup.flags = 2, EINVAL);
                refused(|setup| setup.least = 4095, EINVAL);
                refused(|setup| setup.least = 1 + MIB as u32, EINVAL);
                refused(|setup| setup.counter += 4, EINVAL);
                refused(|setup| setup.counter = 8, EFAULT);
                refused(|setup| setup.eventfd = 1 << 20, EBADF);
                refused(|setup| (setup.counter, setup.eventfd) = (0, 0), EINVAL);
                let short = lender.sock.set(SOL_TCP, uapi::SDP_BORROW, &0);
                assert_eq!(short, Err(Errno(EINVAL)));
                let data = bytes(1, PART);
                let mut report = sdp_borrowed { counter: 0, ranges: 0, room: 1, count: 2 };
                let at = (&raw mut report) as u64;
                let send = |flags, at| send_with(&lender.sock, &[&data], flags, at);
                assert_eq!(send(0, at), Err(Errno(EINVAL)), "more than there is room for");
                assert_eq!(send(0, 8), Err(Errno(EFAULT)), "no report");
                let mut report = sdp_borrowed { counter: 0, ranges: 0, room: 1, count: 1 };
                let at = (&raw mut report) as u64;
                assert_eq!(send(MSG_ZEROCOPY, at), Err(Errno(EINVAL)), "two ways at once");
                // Off, and on again with another counter.
                let off = sdp_borrow { counter: 0, least: 0, ..asked(&counter) };
                assert_eq!(lender.sock.set(SOL_TCP, uapi::SDP_BORROW, &off), Ok(()));
                assert_eq!(lender.info().counter, 0);
                assert_eq!(lender.counter.now().gone, 1);
                assert_eq!(lender.wait(uapi::SDP_BORROW_WAIT, 0, 0), Err(Errno(EINVAL)));
                let on = lender.sock.set(SOL_TCP, uapi::SDP_BORROW, &asked(&counter));
                assert_eq!(on, Ok(()));
                assert_eq!(lender.info().counter, counter.address());
            }
            t.meet("end");
        },
    ),
    Case::two(
        "ahead_and_there",
        |t| {
            let s = server(t);
            let counter = Cliff::new(1);
            let address = counter.as_mut_ptr() as u64;
            let is_sdp = t.family == Family::Sdp;
            if is_sdp {
                let setup = sdp_ahead { counter: address, least: LEAST as u32, reserved: 0 };
                assert_eq!(s.set(SOL_TCP, uapi::SDP_AHEAD, &setup), Ok(()), "SDP_AHEAD");
                for setup in [
                    sdp_ahead { reserved: 1, ..setup },
                    sdp_ahead { least: 4095, ..setup },
                    sdp_ahead { least: 1 + MIB as u32, ..setup },
                    sdp_ahead { counter: address + 8, ..setup },
                ] {
                    let set = s.set(SOL_TCP, uapi::SDP_AHEAD, &setup);
                    assert_eq!(set, Err(Errno(EINVAL)));
                }
                let nowhere = sdp_ahead { counter: 16, ..setup };
                assert_eq!(s.set(SOL_TCP, uapi::SDP_AHEAD, &nowhere), Err(Errno(EFAULT)));
                assert_eq!(s.set(SOL_TCP, uapi::SDP_AHEAD_WAIT, &0), Err(Errno(EINVAL)));
                let unknown = sdp_borrow_wait { id: 1, timeout_ms: 0 };
                assert_eq!(s.set(SOL_TCP, uapi::SDP_AHEAD_WAIT, &unknown), Err(Errno(EINVAL)));
            }
            t.meet("ready");
            let mut last = 0;
            // Aligned, with head and tail, and without room for the report.
            for (turn, at, room) in [(7, 0, 32), (8, 100, 32), (9, 0, 31)] {
                let mut memory = Room::new(at, MIB);
                let mut done = 0;
                while done < MIB {
                    let rest = &mut memory.bytes()[done..];
                    // Nothing is ahead for a reader that comes late.
                    let (n, range) = match done {
                        0 => recv_awaited(t, || read_ahead(&s, rest, room)),
                        _ => read_ahead(&s, rest, room),
                    };
                    assert!(n > 0, "the end of the stream");
                    done += n;
                    let Some(range) = range else { continue };
                    assert_eq!(room, 32, "nothing is ahead that cannot be reported");
                    assert_eq!(range.id, last + 1, "numbered in turn");
                    last = range.id;
                    let timeout_ms = t.patience() as u32;
                    let wait = sdp_borrow_wait { id: last, timeout_ms };
                    assert_eq!(s.set(SOL_TCP, uapi::SDP_AHEAD_WAIT, &wait), Ok(()), "they come");
                }
                t.holds("the bytes", memory.bytes() == &bytes(turn, MIB)[..]);
            }
            assert_eq!(last > 0, is_sdp, "something was ahead");
            t.meet("end");
        },
        |t| {
            let lender = Lender::new(t);
            t.meet("ready");
            for turn in 7..10 {
                let mut room = Room::filled(turn, 0, MIB);
                await_reader(t);
                let (sent, ranges) = lender.send(&[&*room.bytes()], MSG_NOSIGNAL).expect("sendmsg");
                t.eq("sent", sent, MIB);
                lender.is_back(t, ranges.last().map_or(0, |range| range.id));
            }
            t.meet("end");
        },
    )
    .both_versions(),
];

/// A `recvmsg()` with `MSG_ZEROCOPY` and so much room for the report.
fn read_ahead(sock: &Sock, room: &mut [u8], control: usize) -> (usize, Option<sdp_borrow_range>) {
    let mut answer = AheadControl::default();
    let mut parts = [libc::iovec { iov_base: room.as_mut_ptr().cast(), iov_len: room.len() }];
    let mut message = header(&mut parts);
    message.msg_control = (&raw mut answer).cast();
    message.msg_controllen = control;
    let n = sock.recvmsg_header(&raw mut message, MSG_ZEROCOPY).expect("recvmsg");
    // The kernel has written it.
    (n, std::hint::black_box(answer).range())
}
