// SPDX-License-Identifier: MIT
//! sendfile, splice and tee: bytes that do not pass through the program's memory.

use std::os::fd::AsRawFd;

use libc::{
    EAGAIN, ECONNRESET, EPIPE, MSG_OOB, POLLERR, POLLHUP, SHUT_WR, SPLICE_F_MORE, SPLICE_F_NONBLOCK,
};

use crate::case::{Case, Difference};
use crate::cases::zcopy::{self, counted};
use crate::errno::{checked, Errno};
use crate::payload::{bytes, Digest};
use crate::pipes::{file_with, sendfile, splice, tee, Pipe};
use crate::role::{Role, SIOCINQ, SIOCOUTQ, SIOCOUTQNSD};
use crate::sock::Sock;
use crate::world::Family;

/// Splices from the socket into a pipe and reads the pipe, to the end of the stream.
fn splice_to_end(s: &Sock) -> Vec<u8> {
    let pipe = Pipe::new();
    let mut data = Vec::new();
    loop {
        match splice(s.fd(), pipe.into.as_raw_fd(), 65536, 0).expect("splice") {
            0 => return data,
            count => data.extend(pipe.take(count)),
        }
    }
}

/// Splices so many bytes into the pipe, which has enough room.
#[track_caller]
fn fill(s: &Sock, pipe: &Pipe, len: usize) {
    let mut left = len;
    while left > 0 {
        let moved = splice(s.fd(), pipe.into.as_raw_fd(), left, 0).expect("splice");
        assert!(moved > 0, "{left} bytes are missing");
        left -= moved;
    }
}

fn recv_digest(t: &Role, s: &Sock) {
    let data = t.recv_to_end(s);
    t.see("data", Digest::of(&data));
}

pub const CASES: &[Case] = &[
    Case::connected(
        "sendfile_sends_a_whole_file",
        |t, s| {
            let data = bytes(1, 300_007);
            let file = file_with(&data);
            let mut offset = 0;
            while offset < 300_007 {
                let sent = sendfile(s.fd(), &file, &mut offset, 1 << 20).expect("sendfile");
                assert!(sent > 0, "nothing was sent at {offset}");
            }
            t.eq("at the end", sendfile(s.fd(), &file, &mut offset, 100), Ok(0));
            s.shutdown(SHUT_WR).expect("shutdown");
            t.see("data", Digest::of(&data));
        },
        recv_digest,
    )
    .both_versions(),
    Case::connected(
        "sendfile_holds_nothing_back_at_the_end_of_the_file",
        |t, s| {
            let file = file_with(&[7; 1000]);
            // The kernel marks the first part with MSG_MORE.
            t.eq("sendfile", sendfile(s.fd(), &file, &mut 0, 1 << 20), Ok(1000));
            t.eq("unsent", s.ioctl(SIOCOUTQNSD), Ok(0));
            t.wait("read");
        },
        |t, s| {
            t.recv_exactly(s, 1000);
            t.say("read");
        },
    ),
    Case::connected(
        "sendfile_does_not_copy",
        |t, s| {
            let data = bytes(1, 65_536);
            let file = file_with(&data);
            let send = || {
                let mut offset = 0;
                while offset < 65_536 {
                    let rest = 65_536 - offset as usize;
                    sendfile(s.fd(), &file, &mut offset, rest).expect("sendfile");
                }
            };
            counted(t, send, |of| assert_eq!(of("spliced_bytes"), 65_536));
            s.shutdown(SHUT_WR).expect("shutdown");
            t.see("data", Digest::of(&data));
        },
        recv_digest,
    ),
    Case::connected(
        "sendfile_sends_a_part_of_a_file",
        |t, s| {
            let data = bytes(1, 20_000);
            let file = file_with(&data);
            let mut offset = 5001;
            t.eq("sendfile", sendfile(s.fd(), &file, &mut offset, 7000), Ok(7000));
            t.eq("offset", offset, 12_001);
            s.shutdown(SHUT_WR).expect("shutdown");
            t.see("data", Digest::of(&data[5001..12_001]));
        },
        recv_digest,
    ),
    Case::connected(
        "sendfile_begins_and_ends_anywhere_in_a_page",
        |t, s| {
            let data = bytes(1, 150_000);
            let file = file_with(&data);
            let mut sent = Vec::new();
            for (first, len) in
                [(1, 100_000), (4095, 2), (4095, 4098), (5001, 32_768), (8191, 65_537)]
            {
                let mut offset = first as i64;
                while (offset as usize) < first + len {
                    let rest = first + len - offset as usize;
                    sendfile(s.fd(), &file, &mut offset, rest).expect("sendfile");
                }
                sent.extend_from_slice(&data[first..first + len]);
            }
            s.shutdown(SHUT_WR).expect("shutdown");
            t.see("data", Digest::of(&sent));
        },
        recv_digest,
    ),
    Case::connected(
        "sendfile_between_header_and_trailer",
        |t, s| {
            let data = bytes(1, 40_000);
            let file = file_with(&data);
            t.eq("header", s.send(b"header", libc::MSG_MORE), Ok(6));
            let mut offset = 0;
            while offset < 40_000 {
                sendfile(s.fd(), &file, &mut offset, 40_000).expect("sendfile");
            }
            t.eq("trailer", s.send(b"trailer", 0), Ok(7));
            s.shutdown(SHUT_WR).expect("shutdown");
            t.see("data", Digest::of(&[b"header", &data[..], b"trailer"].concat()));
        },
        recv_digest,
    ),
    Case::connected(
        "sendfile_without_waiting_takes_a_part",
        |t, s| {
            s.set_nonblocking(true).expect("O_NONBLOCK");
            let data = vec![3; 16 << 20];
            let file = file_with(&data);
            let mut offset = 0;
            let last = loop {
                match sendfile(s.fd(), &file, &mut offset, 1 << 24) {
                    Ok(count) if count > 0 => {}
                    other => break other,
                }
            };
            t.holds("full or done", last == Err(Errno(EAGAIN)) || last == Ok(0));
            t.holds("took something", offset > 0);
            t.tell("sent", offset);
            s.shutdown(SHUT_WR).expect("shutdown");
        },
        |t, s| {
            let sent: usize = t.hear("sent");
            let data = t.recv_to_end(s);
            t.holds("exactly that", data == vec![3; sent]);
        },
    ),
    Case::connected(
        "sendfile_is_unharmed_by_a_truncation_after_it",
        |t, s| {
            let file = file_with(&bytes(1, 8192));
            let mut offset = 0;
            t.eq("sendfile", sendfile(s.fd(), &file, &mut offset, 8192), Ok(8192));
            t.wait("read");
            // The file may change only now, after the bytes were read.
            file.set_len(0).expect("truncate");
        },
        |t, s| {
            t.holds("data", t.recv_exactly(s, 8192) == bytes(1, 8192));
            t.say("read");
        },
    ),
    Case::connected(
        "sendfile_after_shutdown_is_a_broken_pipe",
        |t, s| {
            s.shutdown(SHUT_WR).expect("shutdown");
            let file = file_with(b"abc");
            crate::signal::catch(libc::SIGPIPE, true);
            t.err("sendfile", sendfile(s.fd(), &file, &mut 0, 3), EPIPE);
        },
        |t, s| t.eq("end", t.recv_to_end(s).len(), 0),
    ),
    Case::connected(
        "splice_from_a_pipe_sends",
        |t, s| {
            let pipe = Pipe::new();
            let data = bytes(2, 100_000);
            for part in data.chunks(20_000) {
                pipe.put(part);
                let mut left = part.len();
                while left > 0 {
                    let moved = splice(pipe.out.as_raw_fd(), s.fd(), left, SPLICE_F_MORE);
                    left -= moved.expect("splice");
                }
            }
            s.shutdown(SHUT_WR).expect("shutdown");
            t.see("data", Digest::of(&data));
        },
        recv_digest,
    )
    .both_versions(),
    Case::connected(
        "splice_into_a_pipe_receives",
        |t, s| {
            let data = splice_to_end(s);
            t.see("data", Digest::of(&data));
        },
        |t, s| {
            t.send_all(s, &bytes(3, 150_001));
            s.shutdown(SHUT_WR).expect("shutdown");
            t.see("data", Digest::of(&bytes(3, 150_001)));
        },
    )
    .both_versions(),
    Case::connected(
        "splice_without_data_would_block",
        |t, s| {
            let pipe = Pipe::new();
            let into = pipe.into.as_raw_fd();
            s.set_nonblocking(true).expect("O_NONBLOCK");
            t.err("splice", splice(s.fd(), into, 100, 0), EAGAIN);
            t.err("with the flag", splice(s.fd(), into, 100, SPLICE_F_NONBLOCK), EAGAIN);
        },
        |_, _| {},
    ),
    Case::connected(
        "splice_of_a_part_leaves_the_rest",
        |t, s| {
            assert!(t.until(|| s.ioctl(SIOCINQ) == Ok(1000)), "data");
            let pipe = Pipe::new();
            t.eq("splice", splice(s.fd(), pipe.into.as_raw_fd(), 300, 0), Ok(300));
            t.holds("spliced", pipe.take(300) == bytes(1, 1000)[..300]);
            t.eq("unread", s.ioctl(SIOCINQ), Ok(700));
            t.holds("rest", t.recv_exactly(s, 700) == bytes(1, 1000)[300..]);
        },
        |t, s| t.send_all(s, &bytes(1, 1000)),
    ),
    Case::connected(
        "splice_waits_for_data",
        |t, s| {
            let pipe = Pipe::new();
            t.tell_sleeping("splicing");
            t.eq("splice", splice(s.fd(), pipe.into.as_raw_fd(), 100, 0), Ok(3));
            t.eq("data", pipe.take(3), b"abc".to_vec());
        },
        |t, s| {
            t.hear_asleep("splicing", &[libc::SYS_splice]);
            t.send_all(s, b"abc");
        },
    ),
    Case::connected(
        "splice_forwards_from_socket_to_socket",
        |_, s| {
            let pipe = Pipe::new();
            loop {
                let mut left = splice(s.fd(), pipe.into.as_raw_fd(), 65536, 0).expect("splice in");
                if left == 0 {
                    break;
                }
                while left > 0 {
                    left -= splice(pipe.out.as_raw_fd(), s.fd(), left, 0).expect("splice out");
                }
            }
            s.shutdown(SHUT_WR).expect("shutdown");
        },
        |t, s| {
            let data = bytes(5, 200_000);
            let came = std::thread::scope(|scope| {
                scope.spawn(|| {
                    t.send_all(s, &data);
                    s.shutdown(SHUT_WR).expect("shutdown");
                });
                t.recv_to_end(s)
            });
            t.eq("echo", Digest::of(&came), Digest::of(&data));
        },
    )
    .both_versions(),
    Case::connected(
        "splice_keeps_bytes_that_were_received_earlier",
        |t, s| {
            let pipe = Pipe::new();
            assert!(t.until(|| s.ioctl(SIOCINQ) == Ok(5000)), "data");
            let mut left = 5000;
            while left > 0 {
                left -= splice(s.fd(), pipe.into.as_raw_fd(), left, 0).expect("splice");
            }
            t.say("more");
            // The pipe holds the buffers while the socket continues to receive.
            t.holds("more", t.recv_exactly(s, 60_000) == bytes(2, 60_000));
            t.holds("spliced", pipe.take(5000) == bytes(1, 5000));
        },
        |t, s| {
            t.send_all(s, &bytes(1, 5000));
            t.wait("more");
            t.send_all(s, &bytes(2, 60_000));
        },
    ),
    Case::connected(
        "splice_into_a_pipe_does_not_copy",
        |t, s| {
            let pipe = Pipe::new();
            // The first receive buffers are parts of a page, which are not given away.
            t.holds("first", t.recv_exactly(s, 40_000) == bytes(2, 40_000));
            t.say("more");
            assert!(t.until(|| s.ioctl(SIOCINQ) == Ok(40_000)), "data");
            // Small parts of messages may be spliced.
            let most = |of: &dyn Fn(&str) -> i64| {
                let given = of("given_bytes");
                assert!((32_000..=40_000).contains(&given), "{given} bytes of 40000 were given");
            };
            counted(t, || fill(s, &pipe, 40_000), most);
            t.holds("data", pipe.take(40_000) == bytes(1, 40_000));
        },
        |t, s| {
            t.send_all(s, &bytes(2, 40_000));
            t.wait("more");
            t.send_all(s, &bytes(1, 40_000));
        },
    ),
    Case::connected(
        "splice_of_many_small_messages_takes_few_pages",
        |t, s| {
            let pipe = Pipe::new();
            assert!(t.until(|| s.ioctl(SIOCINQ) == Ok(4000)), "data");
            if t.family == Family::Sdp {
                // A message must not use a whole page of the pipe, which has 16.
                let count = splice(s.fd(), pipe.into.as_raw_fd(), 65_536, 0);
                assert_eq!(count, Ok(4000));
                assert!(pipe.take(4000) == bytes(1, 4000), "other bytes");
                return;
            }
            let mut came = Vec::new();
            while came.len() < 4000 {
                let count = splice(s.fd(), pipe.into.as_raw_fd(), 4000 - came.len(), 0);
                came.extend(pipe.take(count.expect("splice")));
            }
            assert!(came == bytes(1, 4000), "other bytes");
        },
        |t, s| {
            s.set(libc::SOL_TCP, libc::TCP_NODELAY, &1).expect("TCP_NODELAY");
            for part in bytes(1, 4000).chunks(200) {
                t.send_all(s, part);
            }
        },
    ),
    Case::connected(
        "splice_of_odd_parts_loses_nothing",
        |t, s| {
            let pipe = Pipe::new();
            let mut came = Vec::new();
            for len in [1, 4095, 4096, 4097, 8191, 60_000, 5000, 2].into_iter().cycle() {
                match splice(s.fd(), pipe.into.as_raw_fd(), len, 0).expect("splice") {
                    0 => break,
                    count => came.extend(pipe.take(count)),
                }
            }
            t.see("data", Digest::of(&came));
        },
        |t, s| {
            let data = bytes(4, 400_003);
            for part in data.chunks(9001) {
                t.send_all(s, part);
            }
            s.shutdown(SHUT_WR).expect("shutdown");
            t.see("data", Digest::of(&data));
        },
    ),
    Case::connected(
        "splice_into_a_pipe_that_nobody_reads",
        |t, s| {
            let pipe = Pipe::new();
            let mut held = 0;
            let last = loop {
                let into = pipe.into.as_raw_fd();
                match splice(s.fd(), into, 65_536, SPLICE_F_NONBLOCK) {
                    Ok(count) if count > 0 => held += count,
                    other => break other,
                }
            };
            t.eq("full", last, Err(Errno(EAGAIN)));
            // The connection continues with new buffers.
            let rest = t.recv_exactly(s, (2 << 20) - held);
            let spliced = pipe.take(held);
            t.holds("data", [spliced, rest].concat() == bytes(8, 2 << 20));
        },
        |t, s| t.send_all(s, &bytes(8, 2 << 20)),
    ),
    Case::connected(
        "splice_after_a_reset_gives_what_came_before",
        |t, s| {
            assert!(t.until(|| s.ioctl(SIOCINQ) == Ok(20_000)), "data");
            t.say("reset");
            t.see("events", t.await_events(s, POLLERR | POLLHUP));
            let pipe = Pipe::new();
            fill(s, &pipe, 20_000);
            t.holds("data", pipe.take(20_000) == bytes(1, 20_000));
            t.err("error", splice(s.fd(), pipe.into.as_raw_fd(), 100, 0), ECONNRESET);
            t.eq("then", splice(s.fd(), pipe.into.as_raw_fd(), 100, 0), Ok(0));
        },
        |t, s| {
            t.send_all(s, &bytes(1, 20_000));
            // The reader's SIOCINQ counts bytes that are offered to it, and a reset discards them.
            t.holds("delivered", t.until(|| s.ioctl(SIOCOUTQ) == Ok(0)));
            t.wait("reset");
            s.set_linger(true, 0).expect("SO_LINGER");
            s.close().expect("close");
        },
    ),
    Case::connected(
        "splice_outlives_its_socket",
        |t, s| {
            let pipe = Pipe::new();
            // Less than a pipe has places for, in the smallest messages: each takes a place.
            fill(s, &pipe, 12_000);
            s.close().expect("close");
            t.meet("closed");
            t.holds("data", pipe.take(12_000) == bytes(1, 12_000));
        },
        |t, s| {
            t.send_all(s, &bytes(1, 12_000));
            t.meet("closed");
        },
    ),
    Case::connected(
        "splice_and_the_urgent_byte",
        |t, s| {
            assert!(t.until(|| s.ioctl(SIOCINQ) == Ok(2)), "data");
            t.wait("all");
            let pipe = Pipe::new();
            t.eq("to the mark", splice(s.fd(), pipe.into.as_raw_fd(), 100, 0), Ok(2));
            t.see("at the mark", splice(s.fd(), pipe.into.as_raw_fd(), 100, 0));
            t.eq("before it", pipe.take(2), b"ab".to_vec());
        },
        |t, s| {
            t.eq("urgent", s.send(b"abc", MSG_OOB), Ok(3));
            t.send_all(s, b"def");
            assert!(t.until(|| s.ioctl(crate::role::SIOCOUTQ) == Ok(0)), "delivery");
            t.say("all");
        },
    )
    .differs(&[Difference {
        label: "at the mark",
        tcp: "0",
        sdp: "3",
        reason: "a read goes on behind the mark, and 0 would be the end",
    }]),
    Case::two(
        "splice_of_what_the_peer_offers",
        |t| {
            let s = zcopy::server(t);
            let data = splice_to_end(&s);
            t.see("data", Digest::of(&data));
        },
        |t| {
            let s = zcopy::client(t);
            t.send_all(&s, &bytes(3, 300_001));
            s.shutdown(SHUT_WR).expect("shutdown");
            t.see("data", Digest::of(&bytes(3, 300_001)));
        },
    ),
    Case::connected(
        "tee_sends_the_same_bytes_twice",
        |t, s| {
            let (first, second) = (Pipe::new(), Pipe::new());
            let data = bytes(6, 10_000);
            first.put(&data);
            t.eq("tee", tee(&first, &second, 10_000), Ok(10_000));
            for pipe in [&first, &second] {
                let mut left = data.len();
                while left > 0 {
                    left -= splice(pipe.out.as_raw_fd(), s.fd(), left, 0).expect("splice");
                }
            }
            s.shutdown(SHUT_WR).expect("shutdown");
            t.see("data", Digest::of(&[&data[..], &data[..]].concat()));
        },
        recv_digest,
    ),
    Case::connected(
        "vmsplice_then_splice_sends",
        |t, s| {
            let pipe = Pipe::new();
            let data = bytes(7, 16_384);
            let part = crate::message::io(data.as_ptr(), data.len());
            // SAFETY: the buffer is neither changed nor freed until the peer has it.
            let put =
                checked(unsafe { libc::vmsplice(pipe.into.as_raw_fd(), &raw const part, 1, 0) });
            t.eq("vmsplice", put, Ok(16_384));
            let mut left = data.len();
            while left > 0 {
                left -= splice(pipe.out.as_raw_fd(), s.fd(), left, 0).expect("splice");
            }
            t.see("data", Digest::of(&data));
            s.shutdown(SHUT_WR).expect("shutdown");
            t.wait("read");
        },
        |t, s| {
            recv_digest(t, s);
            t.say("read");
        },
    ),
];
