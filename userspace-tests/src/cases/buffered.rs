// SPDX-License-Identifier: MIT
//! Blocking writes to a peer that does not read: as with TCP, a write returns when its bytes are in
//! the send buffer, also one that went without a copy to a peer that reads.

use libc::{
    c_int, SYS_sendto, MSG_NOSIGNAL, SHUT_WR, SIGUSR1, SOL_SOCKET, SO_RCVBUF, SO_SNDBUFFORCE,
    SO_SNDTIMEO,
};

use crate::blocked::kill_thread;
use crate::case::Case;
use crate::errno::Errno;
use crate::payload::bytes;
use crate::role::{Role, LIMIT};
use crate::signal;
use crate::sock::Sock;

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

/// The buffers that both sides ask for, and what is written.
struct Row {
    /// `SO_RCVBUF` and `SO_SNDBUF`; `None` for those that the system chooses.
    rcvbuf: Option<usize>,
    sndbuf: Option<usize>,
    /// Number of bytes of each side: at most its `sndbuf`, or what the system's buffers hold on TCP.
    len: usize,
    /// Number of bytes of each write.
    write: usize,
}

const fn row(rcvbuf: usize, sndbuf: usize, len: usize, write: usize) -> Row {
    Row { rcvbuf: Some(rcvbuf), sndbuf: Some(sndbuf), len, write }
}

const ROWS: &[Row] = &[
    Row { rcvbuf: None, sndbuf: None, len: 64 * KIB, write: 64 * KIB },
    Row { rcvbuf: None, sndbuf: None, len: 128 * KIB, write: 128 * KIB },
    Row { rcvbuf: None, sndbuf: Some(MIB), len: MIB, write: MIB },
    row(16 * KIB, 256 * KIB, 64 * KIB, 64 * KIB),
    row(16 * KIB, 256 * KIB, 128 * KIB, 128 * KIB),
    row(16 * KIB, 256 * KIB, 200_001, 200_001),
    row(16 * KIB, 256 * KIB, 256 * KIB, 128 * KIB),
    row(64 * KIB, 256 * KIB, 256 * KIB, 256 * KIB),
    row(16 * KIB, MIB, 128 * KIB, 128 * KIB),
    row(16 * KIB, MIB, MIB, 128 * KIB),
    row(16 * KIB, MIB, MIB, 300_000),
    row(16 * KIB, MIB, MIB, MIB),
    row(64 * KIB, MIB, MIB, MIB),
    row(128 * KIB, MIB, MIB, 512 * KIB),
    // More than one region, and more than four of them.
    row(16 * KIB, 3 * MIB, 3 * MIB, 3 * MIB),
    row(64 * KIB, 6 * MIB, 6 * MIB, 6 * MIB),
];

impl Row {
    fn set(&self, s: &Sock) {
        let options = [(SO_RCVBUF, self.rcvbuf), (SO_SNDBUFFORCE, self.sndbuf)];
        for (option, value) in options {
            if let Some(value) = value {
                s.set(SOL_SOCKET, option, &(value as c_int)).expect("a buffer");
            }
        }
    }

    fn server(&self, t: &Role) -> Sock {
        let listener = t.bound();
        self.set(&listener);
        listener.listen(1).expect("listen");
        t.tell("port", t.port_of(&listener));
        let s = listener.accept().expect("accept");
        t.meet("connected");
        s
    }

    fn client(&self, t: &Role) -> Sock {
        let port = t.hear("port");
        let s = t.socket();
        self.set(&s);
        s.connect(&t.there(port)).expect("connect");
        t.meet("connected");
        s
    }

    fn write(&self, t: &Role, s: &Sock, seed: u64) {
        for piece in bytes(seed, self.len).chunks(self.write) {
            t.eq("send", s.send(piece, MSG_NOSIGNAL), Ok(piece.len()));
        }
    }

    fn read(&self, t: &Role, s: &Sock, seed: u64) {
        t.holds("the bytes", t.recv_exactly(s, self.len) == bytes(seed, self.len));
    }
}

/// Writes the bytes of seed `own`, then reads the bytes of seed `theirs`.
fn write_first(t: &Role, connect: fn(&Row, &Role) -> Sock, own: u64, theirs: u64) {
    for row in ROWS {
        let s = connect(row, t);
        row.write(t, &s, own);
        t.meet("written");
        row.read(t, &s, theirs);
        t.meet("read");
    }
}

/// The buffers of a connection that holds little.
const SMALL: Row = row(16 * KIB, 256 * KIB, 4 * MIB, 4 * MIB);

/// The peer of one that gives up: reads to the end, and tells how many bytes have come.
fn count(t: &Role) {
    let s = SMALL.server(t);
    t.wait("given up");
    let came = t.recv_to_end(&s);
    assert!(came[..] == bytes(3, SMALL.len)[..came.len()], "the bytes differ");
    t.tell("came", came.len());
}

/// The count of a `send()` that gives up: it includes the bytes in the buffers, and all of them arrive.
fn is_exact(t: &Role, s: &Sock, sent: Result<usize, Errno>) {
    let sent = sent.unwrap_or(0);
    s.shutdown(SHUT_WR).expect("shutdown");
    t.say("given up");
    assert_eq!(t.hear::<usize>("came"), sent, "what send() said it has sent");
    t.holds("the send buffer is full", (256 * KIB..SMALL.len).contains(&sent));
}

pub const CASES: &[Case] = &[
    Case::two(
        "buffered_writes_of_two_that_both_write_first",
        |t| write_first(t, Row::server, 1, 2),
        |t| write_first(t, Row::client, 2, 1),
    ),
    Case::two(
        "buffered_writes_to_one_that_reads_later",
        |t| {
            for row in ROWS {
                let s = row.server(t);
                t.wait("written");
                row.read(t, &s, 2);
                t.meet("read");
            }
        },
        |t| {
            for row in ROWS {
                let s = row.client(t);
                row.write(t, &s, 2);
                t.say("written");
                t.meet("read");
            }
        },
    ),
    Case::two(
        "buffered_bytes_are_those_of_the_call",
        |t| {
            let s = ROWS[11].server(t);
            t.wait("written");
            ROWS[11].read(t, &s, 1);
            t.meet("read");
        },
        |t| {
            let s = ROWS[11].client(t);
            let mut data = bytes(1, MIB);
            t.eq("send", s.send(&data, MSG_NOSIGNAL), Ok(MIB));
            data.fill(0);
            t.say("written");
            t.meet("read");
        },
    ),
    Case::two("buffered_part_of_a_write_that_runs_out_of_time", count, |t| {
        let s = SMALL.client(t);
        s.set_timeout(SO_SNDTIMEO, LIMIT).expect("SO_SNDTIMEO");
        let sent = s.send(&bytes(3, SMALL.len), MSG_NOSIGNAL);
        is_exact(t, &s, sent);
    }),
    Case::two("buffered_part_of_a_write_that_a_signal_ends", count, |t| {
        let s = SMALL.client(t);
        signal::catch(SIGUSR1, false);
        let poke = |thread| kill_thread(thread, SIGUSR1).expect("tgkill");
        let data = bytes(3, SMALL.len);
        let call = || s.send(&data, MSG_NOSIGNAL);
        let sent = t.while_asleep(&[SYS_sendto], poke, call);
        is_exact(t, &s, sent);
    }),
    Case::two(
        "buffered_write_ends_when_another_thread_makes_the_buffer_larger",
        |t| {
            let s = SMALL.server(t);
            let before: usize = t.hear("before");
            t.wait("written");
            let all = t.recv_exactly(&s, before + MIB);
            t.holds("the bytes", all[before..] == bytes(3, MIB));
            t.meet("read");
        },
        |t| {
            let s = SMALL.client(t);
            // The peer has no room for the write, nor has the send buffer.
            t.tell("before", t.fill(&s));
            let enlarge = |_| {
                let room = 8 * MIB as c_int;
                s.set(SOL_SOCKET, SO_SNDBUFFORCE, &room).expect("SO_SNDBUFFORCE");
            };
            let data = bytes(3, MIB);
            let write = || s.send(&data, MSG_NOSIGNAL);
            t.eq("send", t.while_asleep(&[SYS_sendto], enlarge, write), Ok(MIB));
            t.say("written");
            t.meet("read");
        },
    ),
];
