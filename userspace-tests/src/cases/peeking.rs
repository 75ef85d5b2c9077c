// SPDX-License-Identifier: MIT
//! `SO_PEEK_OFF` and `TCP_INQ`: the start of a peek, and the bytes left after a read.

use libc::{c_int, EINVAL, MSG_PEEK, SHUT_WR, SOL_SOCKET, SOL_TCP, SO_PEEK_OFF};

use crate::case::Case;
use crate::errno::Res;
use crate::message::{header, scatter};
use crate::role::{Role, SIOCINQ};
use crate::sock::Sock;

const TCP_INQ: c_int = 36;

fn peek(sock: &Sock, len: usize) -> String {
    take(sock, len, MSG_PEEK)
}

fn take(sock: &Sock, len: usize, flags: c_int) -> String {
    let mut room = vec![0; len];
    let count = sock.recv(&mut room, flags).expect("recv");
    String::from_utf8(room[..count].to_vec()).expect("letters")
}

fn offset(sock: &Sock) -> Res<c_int> {
    sock.get(SOL_SOCKET, SO_PEEK_OFF)
}

fn await_bytes(t: &Role, sock: &Sock, count: c_int) {
    assert!(t.until(|| sock.ioctl(SIOCINQ) == Ok(count)), "{count} bytes");
}

/// One `recvmsg` into `len` bytes: the number of bytes, and the number in its control message.
fn take_with_inq(sock: &Sock, len: usize) -> (usize, Option<c_int>) {
    let mut room = vec![0; len];
    let mut rooms = [&mut room[..]];
    let mut parts = scatter(&mut rooms);
    let mut header = header(&mut parts);
    let mut control = [0_u64; 8];
    header.msg_control = control.as_mut_ptr().cast();
    header.msg_controllen = size_of_val(&control);
    let count = sock.recvmsg_header(&raw mut header, 0).expect("recvmsg");
    // SAFETY: the kernel has filled in the control messages, which lie in `control`.
    let told = unsafe {
        let message = libc::CMSG_FIRSTHDR(&raw const header);
        if message.is_null() {
            None
        } else {
            assert_eq!(((*message).cmsg_level, (*message).cmsg_type), (SOL_TCP, TCP_INQ));
            Some(libc::CMSG_DATA(message).cast::<c_int>().read_unaligned())
        }
    };
    (count, told)
}

pub const CASES: &[Case] = &[
    Case::connected(
        "peek_offset_moves_with_peeks",
        |t, s| {
            t.eq("at first", offset(s), Ok(-1));
            await_bytes(t, s, 10);
            t.ok("set", s.set(SOL_SOCKET, SO_PEEK_OFF, &2));
            t.eq("set to", offset(s), Ok(2));
            t.eq("peek", peek(s, 3), "cde".to_string());
            t.eq("moved", offset(s), Ok(5));
            t.eq("peek on", peek(s, 3), "fgh".to_string());
            t.eq("moved on", offset(s), Ok(8));
            t.eq("peek the rest", peek(s, 9), "ij".to_string());
            t.eq("at the end", offset(s), Ok(10));
            t.err("nothing more", s.recv(&mut [0; 4], MSG_PEEK | libc::MSG_DONTWAIT), libc::EAGAIN);
            t.eq("read", take(s, 4, 0), "abcd".to_string());
            t.eq("after a read", offset(s), Ok(6));
            t.ok("back", s.set(SOL_SOCKET, SO_PEEK_OFF, &0));
            t.eq("peek from the front", peek(s, 2), "ef".to_string());
            t.eq("read more than was peeked", take(s, 5, 0), "efghi".to_string());
            t.eq("never below zero", offset(s), Ok(0));
            t.ok("off", s.set(SOL_SOCKET, SO_PEEK_OFF, &-1));
            t.eq("plain peek", peek(s, 5), "j".to_string());
            t.eq("plain peek again", peek(s, 5), "j".to_string());
            t.eq("still off", offset(s), Ok(-1));
        },
        |t, s| t.send_all(s, b"abcdefghij"),
    )
    .both_versions(),
    Case::connected(
        "peek_offset_waits_for_what_is_behind_it",
        |t, s| {
            await_bytes(t, s, 3);
            s.set(SOL_SOCKET, SO_PEEK_OFF, &3).expect("SO_PEEK_OFF");
            t.say("more");
            t.eq("peek", peek(s, 8), "def".to_string());
            t.eq("read", take(s, 8, 0), "abcdef".to_string());
        },
        |t, s| {
            t.send_all(s, b"abc");
            t.wait("more");
            t.send_all(s, b"def");
        },
    ),
    Case::connected(
        "peek_offset_and_a_discarding_read",
        |t, s| {
            await_bytes(t, s, 6);
            s.set(SOL_SOCKET, SO_PEEK_OFF, &4).expect("SO_PEEK_OFF");
            t.eq("discard", s.recv(&mut [0; 3], libc::MSG_TRUNC), Ok(3));
            t.eq("moved back", offset(s), Ok(1));
            t.eq("peek", peek(s, 3), "ef".to_string());
        },
        |t, s| t.send_all(s, b"abcdef"),
    ),
    Case::alone("peek_offset_is_forgotten_with_the_peer", |t| {
        let (_server, client) = t.own_pair();
        client.set(SOL_SOCKET, SO_PEEK_OFF, &4).expect("SO_PEEK_OFF");
        t.leave(&client);
        t.eq("after", offset(&client), Ok(-1));
    }),
    Case::alone("inq_keeps_its_setting", |t| {
        let sock = t.socket();
        t.eq("at first", sock.get(SOL_TCP, TCP_INQ), Ok(0));
        t.ok("on", sock.set(SOL_TCP, TCP_INQ, &1));
        t.eq("is on", sock.get(SOL_TCP, TCP_INQ), Ok(1));
        t.err("two", sock.set(SOL_TCP, TCP_INQ, &2), EINVAL);
        t.err("minus one", sock.set(SOL_TCP, TCP_INQ, &-1), EINVAL);
    }),
    Case::connected(
        "inq_tells_what_a_read_leaves",
        |t, s| {
            await_bytes(t, s, 10);
            t.eq("without", take_with_inq(s, 1), (1, None));
            s.set(SOL_TCP, TCP_INQ, &1).expect("TCP_INQ");
            t.eq("some", take_with_inq(s, 4), (4, Some(5)));
            t.eq("all", take_with_inq(s, 100), (5, Some(0)));
            t.say("end");
            t.await_events(s, libc::POLLRDHUP);
            t.eq("end", take_with_inq(s, 100), (0, Some(1)));
        },
        |t, s| {
            t.send_all(s, b"0123456789");
            t.wait("end");
            s.shutdown(SHUT_WR).expect("shutdown");
        },
    )
    .both_versions(),
];
