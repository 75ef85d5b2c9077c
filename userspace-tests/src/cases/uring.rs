// SPDX-License-Identifier: MIT
//! The same calls through `io_uring`.

use io_uring::{cqueue, opcode, squeue::Entry, types, IoUring};
use libc::{
    ECANCELED, ECONNREFUSED, EINPROGRESS, EPIPE, MSG_NOSIGNAL, MSG_PEEK, MSG_WAITALL, POLLERR,
    POLLIN, POLLOUT, SHUT_WR, SOL_SOCKET, SOL_TCP,
};

use super::zcopy;
use crate::addr::Addr;
use crate::case::Case;
use crate::errno::{Errno, Res};
use crate::link::Delay;
use crate::payload::{bytes, Digest};
use crate::role::Role;
use crate::sock::Sock;
use crate::world::Family;

const SOCKET_URING_OP_SIOCINQ: u32 = 0;
const SOCKET_URING_OP_SIOCOUTQ: u32 = 1;

/// A ring; the case names its entries.
pub(super) struct Ring(IoUring);

impl Ring {
    #[track_caller]
    pub(super) fn new() -> Self {
        Ring(IoUring::new(16).expect("io_uring"))
    }

    #[track_caller]
    pub(super) fn submit(&mut self, entry: Entry, name: u64) {
        // SAFETY: every case keeps its buffers alive until the entry has completed.
        unsafe { self.0.submission().push(&entry.user_data(name)).expect("room in the ring") };
        self.0.submit().expect("io_uring_enter");
    }

    /// Waits for the next completion.
    #[track_caller]
    fn next(&mut self) -> (u64, Res<i32>) {
        let (name, result, _) = self.next_flagged();
        (name, result)
    }

    /// The same with the flags of the completion.
    #[track_caller]
    pub(super) fn next_flagged(&mut self) -> (u64, Res<i32>, u32) {
        let (name, result, flags) = self.next_raw();
        (name, if result < 0 { Err(Errno(-result)) } else { Ok(result) }, flags)
    }

    /// The same, unconverted: the result of a notice is not an errno.
    #[track_caller]
    pub(super) fn next_raw(&mut self) -> (u64, i32, u32) {
        loop {
            if let Some(entry) = self.0.completion().next() {
                return (entry.user_data(), entry.result(), entry.flags());
            }
            self.0.submit_and_wait(1).expect("io_uring_enter");
        }
    }

    #[track_caller]
    pub(super) fn run(&mut self, entry: Entry) -> Res<i32> {
        self.submit(entry, 1);
        self.next().1
    }

    /// No entry has completed so far.
    fn is_quiet(&mut self) -> bool {
        self.0.completion().is_empty()
    }
}

pub(super) fn fd(s: &Sock) -> types::Fd {
    types::Fd(s.fd())
}

fn send(s: &Sock, data: &[u8]) -> opcode::Send {
    opcode::Send::new(fd(s), data.as_ptr(), data.len() as u32).flags(MSG_NOSIGNAL)
}

pub(super) fn recv(s: &Sock, room: &mut [u8]) -> opcode::Recv {
    opcode::Recv::new(fd(s), room.as_mut_ptr(), room.len() as u32)
}

fn connect(s: &Sock, to: &Addr) -> Entry {
    opcode::Connect::new(fd(s), to.as_ptr(), to.len() as libc::socklen_t).build()
}

fn accept(s: &Sock) -> opcode::Accept {
    opcode::Accept::new(fd(s), std::ptr::null_mut(), std::ptr::null_mut())
}

/// `IORING_SEND_ZC_REPORT_USAGE`, and the reported value.
const REPORT_USAGE: u16 = 8;
const USAGE_COPIED: i32 = i32::MIN;

const ZC_LENGTHS: [usize; 4] = [100, 5000, 300_000, 3_000_000];

fn zc_part(len: usize) -> Vec<u8> {
    bytes(len as u64, len)
}

/// A TCP listener without SDP, if a socket of this family may fall back to TCP.
fn told_listener_of_tcp(t: &Role) -> Sock {
    if t.family == Family::Sdp {
        return told_listener(t);
    }
    let here = t.here(0);
    let listener = Sock::new(here.family(), libc::SOCK_STREAM, 0).expect("socket");
    listener.bind(&here).expect("bind");
    listener.listen(8).expect("listen");
    tell_port(t, &listener);
    listener
}

fn told_listener(t: &Role) -> Sock {
    let listener = t.listener(8);
    tell_port(t, &listener);
    listener
}

fn tell_port(t: &Role, listener: &Sock) {
    t.tell("port", t.port_of(listener));
}

pub const CASES: &[Case] = &[
    Case::connected(
        "uring_send_and_recv",
        |t, s| {
            let mut ring = Ring::new();
            let data = bytes(1, 5000);
            t.eq("send", ring.run(send(s, &data).build()), Ok(5000));
            let mut room = vec![0; 100];
            t.eq("recv", ring.run(recv(s, &mut room).build()), Ok(6));
            t.eq("data", &room[..6] == b"answer", true);
            t.eq("recv at the end", ring.run(recv(s, &mut room).build()), Ok(0));
        },
        |t, s| {
            let mut ring = Ring::new();
            let mut room = vec![0; 5000];
            let entry = recv(s, &mut room).flags(MSG_WAITALL).build();
            t.eq("recv", ring.run(entry), Ok(5000));
            t.holds("data", room == bytes(1, 5000));
            t.eq("send", ring.run(send(s, b"answer").build()), Ok(6));
            t.eq("shutdown", ring.run(opcode::Shutdown::new(fd(s), SHUT_WR).build()), Ok(0));
        },
    )
    .both_versions(),
    Case::two(
        "uring_send_zc_says_when_its_memory_is_free",
        |t| {
            let s = zcopy::server(t);
            t.holds("data", t.recv_to_end(&s) == ZC_LENGTHS.map(zc_part).concat());
        },
        |t| {
            let s = zcopy::client(t);
            let mut ring = Ring::new();
            for len in ZC_LENGTHS {
                let data = zc_part(len);
                let entry = opcode::SendZc::new(fd(&s), data.as_ptr(), len as u32);
                let entry = entry.flags(MSG_WAITALL | MSG_NOSIGNAL).zc_flags(REPORT_USAGE);
                ring.submit(entry.build(), 7);
                let (_, sent, flags) = ring.next_flagged();
                t.eq("sent", sent, Ok(len as i32));
                t.holds("a notice will come", cqueue::more(flags));
                let (name, usage, flags) = ring.next_raw();
                t.eq("name", name, 7);
                t.holds("the notice", cqueue::notif(flags) && !cqueue::more(flags));
                assert!(usage == 0 || usage == USAGE_COPIED, "usage {usage:#x}");
                // Below the threshold it is copied.
                let lent = usage == 0;
                assert!(t.family != Family::Sdp || lent == (len >= 4096), "{len} lent: {lent}");
            }
            s.shutdown(SHUT_WR).expect("shutdown");
            t.await_events(&s, POLLIN);
        },
    )
    .both_versions(),
    Case::connected(
        "uring_read_and_write",
        |t, s| {
            let mut ring = Ring::new();
            let data = bytes(1, 3000);
            let write = opcode::Write::new(fd(s), data.as_ptr(), 3000).build();
            t.eq("write", ring.run(write), Ok(3000));
            let parts = [crate::message::io(data.as_ptr(), 1000); 2];
            let write = opcode::Writev::new(fd(s), parts.as_ptr(), 2).build();
            t.eq("writev", ring.run(write), Ok(2000));
            s.shutdown(SHUT_WR).expect("shutdown");
        },
        |t, s| {
            let mut ring = Ring::new();
            let mut data = Vec::new();
            let mut room = vec![0; 700];
            loop {
                let read = opcode::Read::new(fd(s), room.as_mut_ptr(), 700).build();
                match ring.run(read).expect("read") {
                    0 => break,
                    count => data.extend_from_slice(&room[..count as usize]),
                }
            }
            let one = bytes(1, 3000);
            t.holds("data", data == [&one[..], &one[..1000], &one[..1000]].concat());
        },
    ),
    Case::connected(
        "uring_sendmsg_and_recvmsg",
        |t, s| {
            let mut ring = Ring::new();
            let mut parts = crate::message::gather(&[b"one ", b"two ", b"three"]);
            let message = crate::message::header(&mut parts);
            let entry = opcode::SendMsg::new(fd(s), &raw const message).build();
            t.eq("sendmsg", ring.run(entry), Ok(13));
        },
        |t, s| {
            let mut ring = Ring::new();
            let (mut a, mut b) = ([0; 5], [0; 8]);
            let mut parts = crate::message::scatter(&mut [&mut a, &mut b]);
            let mut message = crate::message::header(&mut parts);
            let entry = opcode::RecvMsg::new(fd(s), &raw mut message).flags(MSG_WAITALL as u32);
            t.eq("recvmsg", ring.run(entry.build()), Ok(13));
            t.holds("data", [&a[..], &b[..]].concat() == b"one two three");
        },
    ),
    Case::connected(
        "uring_recv_waits_for_data",
        |t, s| {
            let mut ring = Ring::new();
            let mut room = [0; 16];
            ring.submit(recv(s, &mut room).build(), 7);
            t.holds("waits", ring.is_quiet());
            t.say("send");
            t.eq("completion", ring.next(), (7, Ok(5)));
            t.eq("data", &room[..5] == b"hello", true);
        },
        |t, s| {
            t.wait("send");
            t.send_all(s, b"hello");
        },
    )
    .both_versions(),
    Case::connected(
        "uring_recv_peeks",
        |t, s| {
            let mut ring = Ring::new();
            let mut room = [0; 16];
            t.eq("peek", ring.run(recv(s, &mut room).flags(MSG_PEEK).build()), Ok(5));
            t.eq("recv", ring.run(recv(s, &mut room).build()), Ok(5));
        },
        |t, s| t.send_all(s, b"hello"),
    ),
    Case::connected(
        "uring_recv_can_be_cancelled",
        |t, s| {
            let mut ring = Ring::new();
            let mut room = [0; 16];
            ring.submit(recv(s, &mut room).build(), 7);
            ring.submit(opcode::AsyncCancel::new(7).build(), 8);
            let mut results = [ring.next(), ring.next()];
            results.sort_by_key(|(name, _)| *name);
            t.eq("recv", results[0].1, Err(Errno(ECANCELED)));
            t.eq("cancel", results[1].1, Ok(0));
            t.say("send");
            t.eq("data is not lost", t.recv_exactly(s, 5), b"hello".to_vec());
        },
        |t, s| {
            t.wait("send");
            t.send_all(s, b"hello");
        },
    ),
    Case::connected(
        "uring_send_waits_for_room",
        |t, s| {
            let mut ring = Ring::new();
            let filled = t.fill(s);
            let data = bytes(2, 100_000);
            ring.submit(send(s, &data).flags(MSG_WAITALL | MSG_NOSIGNAL).build(), 7);
            t.holds("waits", ring.is_quiet());
            t.tell("filled", filled);
            t.eq("completion", ring.next(), (7, Ok(100_000)));
            s.shutdown(SHUT_WR).expect("shutdown");
        },
        |t, s| {
            let filled = t.hear("filled");
            t.recv_exactly(s, filled);
            let data = t.recv_to_end(s);
            t.eq("data", Digest::of(&data), Digest::of(&bytes(2, 100_000)));
        },
    ),
    Case::connected(
        "uring_poll_reports_data_and_the_end",
        |t, s| {
            let mut ring = Ring::new();
            let poll = || opcode::PollAdd::new(fd(s), POLLIN as u32).build();
            ring.submit(poll(), 7);
            t.holds("waits", ring.is_quiet());
            t.say("send");
            t.eq("data", ring.next(), (7, Ok(i32::from(POLLIN))));
            t.recv_exactly(s, 1);
            ring.submit(poll(), 8);
            t.holds("waits again", ring.is_quiet());
            t.say("close");
            let (_, result) = ring.next();
            t.holds("end", result.expect("poll") & i32::from(POLLIN) != 0);
        },
        |t, s| {
            t.wait("send");
            t.send_all(s, b"x");
            t.wait("close");
            s.close().expect("close");
        },
    )
    .both_versions(),
    Case::connected(
        "uring_poll_in_multishot_mode_reports_each_arrival",
        |t, s| {
            let mut ring = Ring::new();
            ring.submit(opcode::PollAdd::new(fd(s), POLLIN as u32).multi(true).build(), 7);
            for _ in 0..3 {
                t.say("send");
                let (name, result) = ring.next();
                t.eq("name", name, 7);
                t.holds("data", result.expect("poll") & i32::from(POLLIN) != 0);
                t.recv_exactly(s, 1);
            }
        },
        |t, s| {
            for _ in 0..3 {
                t.wait("send");
                t.send_all(s, b"x");
            }
        },
    ),
    Case::two(
        "uring_accept_and_connect",
        |t| {
            let mut ring = Ring::new();
            let listener = told_listener(t);
            let accepted = ring.run(accept(&listener).flags(libc::SOCK_CLOEXEC).build());
            let sock = Sock::from_fd(accepted.expect("accept"));
            t.eq("cloexec", sock.is_cloexec(), Ok(true));
            t.ok("peer", sock.peer());
            t.eq("data", t.recv_to_end(&sock), b"ring".to_vec());
        },
        |t| {
            let mut ring = Ring::new();
            let to = t.there(t.hear("port"));
            let sock = t.socket();
            t.eq("connect", ring.run(connect(&sock, &to)), Ok(0));
            t.eq("send", ring.run(send(&sock, b"ring").build()), Ok(4));
            t.eq("close", ring.run(opcode::Close::new(fd(&sock)).build()), Ok(0));
            // The ring has closed the descriptor.
            std::mem::forget(sock);
        },
    )
    .both_versions(),
    Case::two(
        "uring_connect_turns_to_tcp_unseen",
        |t| {
            // So that TCP's answer comes later than the query.
            let _late = Delay::start();
            let listener = told_listener_of_tcp(t);
            for _ in 0..2 {
                let sock = listener.accept().expect("accept");
                t.eq("data", t.recv_to_end(&sock), b"ring".to_vec());
            }
        },
        |t| {
            let mut ring = Ring::new();
            let to = t.there(t.hear("port"));
            let sock = t.socket();
            t.eq("connect", ring.run(connect(&sock, &to)), Ok(0));
            t.send_all(&sock, b"ring");
            t.ok("close", sock.close());

            let sock = t.socket();
            sock.set_nonblocking(true).expect("O_NONBLOCK");
            t.err("connect without waiting", sock.connect(&to), EINPROGRESS);
            let poll = opcode::PollAdd::new(fd(&sock), (POLLOUT | POLLERR) as u32).build();
            t.eq("poll", ring.run(poll), Ok(i32::from(POLLOUT)));
            t.eq("SO_ERROR", sock.error(), Ok(None));
            t.send_all(&sock, b"ring");
            t.ok("close that, too", sock.close());
        },
    )
    .both_versions(),
    Case::two(
        "uring_accept_waits_and_can_repeat",
        |t| {
            let mut ring = Ring::new();
            let listener = told_listener(t);
            ring.submit(opcode::AcceptMulti::new(fd(&listener)).build(), 7);
            t.holds("waits", ring.is_quiet());
            for number in 0..3_u8 {
                t.say("connect");
                let (name, result) = ring.next();
                t.eq("name", name, 7);
                let sock = Sock::from_fd(result.expect("accept"));
                t.eq("data", t.recv_to_end(&sock), vec![number]);
            }
        },
        |t| {
            let port = t.hear("port");
            for number in 0..3_u8 {
                t.wait("connect");
                let sock = t.connected(port);
                t.send_all(&sock, &[number]);
            }
        },
    ),
    Case::two(
        "uring_connect_is_refused",
        |t| {
            t.tell("port", t.free_port());
            t.meet("tried");
        },
        |t| {
            let mut ring = Ring::new();
            let to = t.there(t.hear("port"));
            let sock = t.socket();
            t.eq("connect", ring.run(connect(&sock, &to)), Err(Errno(ECONNREFUSED)));
            t.meet("tried");
        },
    )
    .both_versions(),
    Case::connected(
        "uring_recv_can_repeat",
        |t, s| {
            let mut ring = Ring::new();
            let mut rooms = [[0_u8; 100]; 4];
            let given = opcode::ProvideBuffers::new(rooms.as_mut_ptr().cast(), 100, 4, 5, 0);
            t.eq("buffers", ring.run(given.build()), Ok(0));
            ring.submit(opcode::RecvMulti::new(fd(s), 5).build(), 7);
            for number in 1..=3_usize {
                t.say("send");
                let (name, result, flags) = ring.next_flagged();
                t.eq("name", name, 7);
                t.eq("bytes", result, Ok(number as i32 * 10));
                t.holds("more to come", cqueue::more(flags));
                let room = cqueue::buffer_select(flags).expect("a buffer");
                let room = &rooms[usize::from(room)];
                t.holds("data", room[..number * 10] == bytes(number as u64, number * 10));
            }
            t.say("send");
            let (_, result, flags) = ring.next_flagged();
            t.eq("end", result, Ok(0));
            t.holds("over", !cqueue::more(flags));
        },
        |t, s| {
            for number in 1..=3_usize {
                t.wait("send");
                t.send_all(s, &bytes(number as u64, number * 10));
            }
            t.wait("send");
            s.shutdown(SHUT_WR).expect("shutdown");
        },
    )
    .both_versions(),
    Case::connected(
        "uring_recv_repeats_as_long_as_there_are_buffers",
        |t, s| {
            let mut ring = Ring::new();
            let mut rooms = [[0_u8; 4]; 2];
            let given = opcode::ProvideBuffers::new(rooms.as_mut_ptr().cast(), 4, 2, 5, 0);
            t.eq("buffers", ring.run(given.build()), Ok(0));
            assert!(t.until(|| s.ioctl(crate::role::SIOCINQ) == Ok(12)), "12 bytes");
            ring.submit(opcode::RecvMulti::new(fd(s), 5).build(), 7);
            let mut ends = Vec::new();
            loop {
                let (_, result, flags) = ring.next_flagged();
                ends.push(result.map_err(|errno| errno.0));
                if !cqueue::more(flags) {
                    break;
                }
            }
            t.eq("results", ends, vec![Ok(4), Ok(4), Err(libc::ENOBUFS)]);
            t.eq("the rest", t.recv_exactly(s, 4), b"ijkl".to_vec());
        },
        |t, s| t.send_all(s, b"abcdefghijkl"),
    ),
    Case::connected(
        "uring_recv_says_whether_there_is_more",
        |t, s| {
            let mut ring = Ring::new();
            assert!(t.until(|| s.ioctl(crate::role::SIOCINQ) == Ok(10)), "10 bytes");
            let mut room = [0; 8];
            ring.submit(recv(s, &mut room).build(), 7);
            let (_, result, flags) = ring.next_flagged();
            t.eq("some", result, Ok(8));
            t.holds("there is more", cqueue::sock_nonempty(flags));
            ring.submit(recv(s, &mut room).build(), 7);
            let (_, result, flags) = ring.next_flagged();
            t.eq("the rest", result, Ok(2));
            t.holds("there is no more", !cqueue::sock_nonempty(flags));
        },
        |t, s| t.send_all(s, b"0123456789"),
    ),
    Case::connected(
        "uring_tells_how_much_waits",
        |t, s| {
            let mut ring = Ring::new();
            let unread = || opcode::UringCmd16::new(fd(s), SOCKET_URING_OP_SIOCINQ).build();
            let unsent = || opcode::UringCmd16::new(fd(s), SOCKET_URING_OP_SIOCOUTQ).build();
            t.wait("sent");
            t.holds("unread", t.until(|| ring.run(unread()) == Ok(1000)));
            t.eq("unsent", ring.run(unsent()), Ok(0));
            t.recv_exactly(s, 600);
            t.eq("the rest", ring.run(unread()), Ok(400));
        },
        |t, s| {
            t.send_all(s, &bytes(1, 1000));
            t.say("sent");
        },
    )
    .both_versions(),
    Case::alone("uring_sets_an_option", |t| {
        let mut ring = Ring::new();
        let sock = t.socket();
        for (level, option) in [(SOL_SOCKET, libc::SO_KEEPALIVE), (SOL_TCP, libc::TCP_NODELAY)] {
            let on: libc::c_int = 1;
            let value = (&raw const on).cast();
            let set = opcode::SetSockOpt::new(fd(&sock), level as u32, option as u32, value, 4);
            t.eq("set", ring.run(set.build()), Ok(0));
            t.eq("is on", sock.get(level, option), Ok(1));
        }
    }),
    Case::connected(
        "uring_send_after_shutdown_is_a_broken_pipe",
        |t, s| {
            let mut ring = Ring::new();
            s.shutdown(SHUT_WR).expect("shutdown");
            t.eq("send", ring.run(send(s, b"x").build()), Err(Errno(EPIPE)));
        },
        |t, s| t.eq("end", t.recv_to_end(s).len(), 0),
    ),
    Case::connected(
        "uring_recv_is_ended_by_a_reset",
        |t, s| {
            let mut ring = Ring::new();
            let mut room = [0; 16];
            ring.submit(recv(s, &mut room).build(), 7);
            t.say("reset");
            t.eq("completion", ring.next(), (7, Err(Errno(libc::ECONNRESET))));
        },
        |t, s| {
            t.wait("reset");
            s.set_linger(true, 0).expect("SO_LINGER");
            s.close().expect("close");
        },
    ),
    Case::connected(
        "uring_linked_recv_and_timeout",
        |t, s| {
            let mut ring = Ring::new();
            let mut room = [0; 16];
            let limit = types::Timespec::new().nsec(30_000_000);
            let entry = recv(s, &mut room).build().flags(io_uring::squeue::Flags::IO_LINK);
            let timeout = opcode::LinkTimeout::new(&raw const limit).build();
            // SAFETY: room and limit live until both entries have completed.
            unsafe {
                let mut queue = ring.0.submission();
                queue.push(&entry.user_data(7)).expect("room in the ring");
                queue.push(&timeout.user_data(8)).expect("room in the ring");
            }
            let mut results = [ring.next(), ring.next()];
            results.sort_by_key(|(name, _)| *name);
            t.eq("recv", results[0].1, Err(Errno(ECANCELED)));
            t.see("timeout", results[1].1);
        },
        |_, _| {},
    ),
    Case::connected(
        "uring_streams_in_both_directions",
        |t, s| uring_exchange(t, s, 3, 4),
        |t, s| uring_exchange(t, s, 4, 3),
    )
    .both_versions(),
];

/// Sends and receives 300 kB, always with one send and one recv in progress.
fn uring_exchange(t: &Role, s: &Sock, own: u64, other: u64) {
    let mut ring = Ring::new();
    let data = bytes(own, 300_000);
    let (mut sent, mut came) = (0, Vec::new());
    let mut room = vec![0; 9000];
    ring.submit(send(s, &data).build(), 1);
    ring.submit(recv(s, &mut room).build(), 2);
    let mut open = true;
    while sent < data.len() || open {
        match ring.next() {
            (1, Ok(count)) => {
                sent += count as usize;
                if sent < data.len() {
                    ring.submit(send(s, &data[sent..]).build(), 1);
                } else {
                    s.shutdown(SHUT_WR).expect("shutdown");
                }
            }
            (2, Ok(0)) => open = false,
            (2, Ok(count)) => {
                came.extend_from_slice(&room[..count as usize]);
                ring.submit(recv(s, &mut room).build(), 2);
            }
            (name, result) => panic!("entry {name}: {result:?}"),
        }
    }
    t.eq("data", Digest::of(&came), Digest::of(&bytes(other, 300_000)));
}
