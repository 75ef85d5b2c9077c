// SPDX-License-Identifier: MIT
//! Scatter, gather and several messages at once.

use libc::{EAGAIN, EFAULT, EINVAL, EMSGSIZE, MSG_DONTWAIT, MSG_NOSIGNAL, MSG_PEEK, SHUT_WR};

use crate::case::Case;
use crate::errno::Errno;
use crate::message::{header, io};
use crate::pages::{Cliff, PAGE};
use crate::payload::{bytes, Digest};
use crate::role::{Role, SIOCINQ};
use crate::sock::Sock;

const IOV_MAX: usize = 1024;

fn send_bytes(t: &Role, s: &Sock, len: usize) {
    t.send_all(s, &bytes(1, len));
}

pub const CASES: &[Case] = &[
    Case::connected(
        "iovec_parts_are_joined_in_order",
        |t, s| {
            let data = bytes(1, 5000);
            let parts = [&data[..1], &data[1..1], &data[1..4000], &data[4000..]];
            t.eq("writev", s.writev(&parts), Ok(5000));
            t.eq("sendmsg", s.sendmsg(&parts, 0), Ok(5000));
            s.shutdown(SHUT_WR).expect("shutdown");
        },
        |t, s| {
            let data = bytes(1, 5000);
            t.holds("writev", t.recv_exactly(s, 5000) == data);
            t.holds("sendmsg", t.recv_exactly(s, 5000) == data);
            t.eq("end", t.recv_to_end(s).len(), 0);
        },
    )
    .both_versions(),
    Case::connected(
        "iovec_rooms_are_filled_in_order",
        |t, s| {
            assert!(t.until(|| s.ioctl(SIOCINQ) == Ok(2000)), "data");
            let (mut a, mut b, mut c) = ([0; 10], [0; 500], [0; 900]);
            t.eq("readv", s.readv(&mut [&mut a, &mut [], &mut b, &mut c]), Ok(1410));
            t.holds("readv data", [&a[..], &b[..], &c[..]].concat() == bytes(1, 1410));
            let (mut a, mut b) = ([0; 90], [0; 900]);
            let got = s.recvmsg(&mut [&mut a, &mut b], 0).expect("recvmsg");
            t.see("recvmsg", &got);
            t.eq("count", got.count, 590);
            t.holds("recvmsg data", [&a[..], &b[..500]].concat() == bytes(1, 2000)[1410..]);
        },
        |t, s| send_bytes(t, s, 2000),
    )
    .both_versions(),
    Case::connected(
        "iovec_of_many_single_bytes",
        |t, s| {
            let data = bytes(2, IOV_MAX);
            let parts: Vec<&[u8]> = data.chunks(1).collect();
            t.eq("writev", s.writev(&parts), Ok(IOV_MAX));
            s.shutdown(SHUT_WR).expect("shutdown");
        },
        |t, s| {
            let mut data = vec![0; IOV_MAX];
            let mut rooms: Vec<&mut [u8]> = data.chunks_mut(1).collect();
            assert!(t.until(|| s.ioctl(SIOCINQ) == Ok(1024)), "data");
            t.eq("readv", s.readv(&mut rooms), Ok(IOV_MAX));
            t.holds("data", data == bytes(2, IOV_MAX));
        },
    ),
    Case::connected(
        "iovec_of_many_large_parts",
        |t, s| {
            let data = bytes(2, 300_000);
            let parts: Vec<&[u8]> = data.chunks(7001).collect();
            t.eq("sendmsg", s.sendmsg(&parts, 0), Ok(300_000));
            s.shutdown(SHUT_WR).expect("shutdown");
        },
        |t, s| {
            let data = t.recv_to_end(s);
            t.eq("data", Digest::of(&data), Digest::of(&bytes(2, 300_000)));
        },
    ),
    Case::connected(
        "iovec_with_too_many_parts_is_refused",
        |t, s| {
            let parts = vec![io(b"x".as_ptr(), 1); IOV_MAX + 1];
            t.err("writev", s.writev_raw(&parts), EINVAL);
            t.err("readv", s.readv_raw(&parts), EINVAL);
            t.err("sendmsg", s.sendmsg_raw(&mut parts.clone(), MSG_NOSIGNAL), EMSGSIZE);
            let mut message = header(&mut []);
            message.msg_iovlen = IOV_MAX + 1;
            t.err("recvmsg", s.recvmsg_header(&raw mut message, MSG_DONTWAIT), EMSGSIZE);
        },
        |_, _| {},
    ),
    Case::connected(
        "iovec_of_negative_length_is_invalid",
        |t, s| {
            let byte = b"x".as_ptr();
            let parts = [io(byte, 1), io(byte, usize::MAX)];
            t.err("writev", s.writev_raw(&parts), EINVAL);
            t.err("sendmsg", s.sendmsg_raw(&mut parts.clone(), MSG_NOSIGNAL), EINVAL);
            t.err("readv", s.readv_raw(&parts), EINVAL);
        },
        |_, _| {},
    ),
    Case::connected(
        "iovec_in_bad_memory_faults",
        |t, s| {
            let cliff = Cliff::new(1);
            let bad = cliff.beyond();
            t.err("part", s.sendmsg_raw(&mut [io(bad, 10)], MSG_NOSIGNAL), EFAULT);
            let mut message = header(&mut []);
            message.msg_iov = bad.cast();
            message.msg_iovlen = 1;
            t.err("list of parts", s.sendmsg_header(&raw const message, MSG_NOSIGNAL), EFAULT);
            t.err("header", s.sendmsg_header(bad.cast(), MSG_NOSIGNAL), EFAULT);
            t.err("header to receive", s.recvmsg_header(bad.cast(), MSG_DONTWAIT), EFAULT);
            t.ok("afterwards", s.send(b"fine", 0));
            s.shutdown(SHUT_WR).expect("shutdown");
        },
        |t, s| t.eq("data", t.recv_to_end(s), b"fine".to_vec()),
    ),
    Case::connected(
        "iovec_with_a_bad_part_sends_what_it_counts",
        |t, s| {
            let cliff = Cliff::new(1);
            let data = bytes(3, 100_000);
            let mut parts = [io(data.as_ptr(), data.len()), io(cliff.beyond(), 100)];
            let sent = match s.sendmsg_raw(&mut parts, MSG_NOSIGNAL) {
                Ok(sent) => sent,
                Err(Errno(EFAULT)) => 0,
                Err(errno) => panic!("sendmsg: {errno}"),
            };
            t.holds("not more than was good", sent <= data.len());
            t.tell("sent", sent);
            s.shutdown(SHUT_WR).expect("shutdown");
        },
        |t, s| {
            let sent = t.hear("sent");
            t.holds("exactly what was counted", t.recv_to_end(s) == bytes(3, sent));
        },
    ),
    Case::connected(
        "iovec_with_a_bad_room_loses_nothing",
        |t, s| {
            assert!(t.until(|| s.ioctl(SIOCINQ) == Ok(10_000)), "data");
            let mut cliff = Cliff::new(1);
            let rooms = [io(cliff.as_mut_ptr(), PAGE), io(cliff.beyond(), PAGE)];
            let got = s.readv_raw(&rooms).unwrap_or(0);
            t.holds("not more than was good", got <= PAGE);
            let mut data = cliff.bytes()[..got].to_vec();
            data.extend(t.recv_exactly(s, 10_000 - got));
            t.holds("data", data == bytes(1, 10_000));
        },
        |t, s| send_bytes(t, s, 10_000),
    ),
    Case::connected(
        "iovec_peek_then_read",
        |t, s| {
            assert!(t.until(|| s.ioctl(SIOCINQ) == Ok(100)), "data");
            let (mut a, mut b) = ([0; 30], [0; 100]);
            let got = s.recvmsg(&mut [&mut a, &mut b], MSG_PEEK).expect("recvmsg");
            t.eq("peeked", got.count, 100);
            t.eq("readv", s.readv(&mut [&mut b, &mut a]), Ok(100));
            t.holds("data", b[..] == bytes(1, 100)[..]);
        },
        |t, s| send_bytes(t, s, 100),
    ),
    Case::connected(
        "sendmsg_takes_and_ignores_an_address",
        |t, s| {
            let mut parts = [io(b"abc".as_ptr(), 3)];
            let mut message = header(&mut parts);
            let mut to = t.there(9);
            message.msg_name = to.as_mut_ptr().cast();
            message.msg_namelen = to.len() as libc::socklen_t;
            t.eq("sendmsg", s.sendmsg_header(&raw const message, 0), Ok(3));
            s.shutdown(SHUT_WR).expect("shutdown");
        },
        |t, s| t.eq("data", t.recv_to_end(s), b"abc".to_vec()),
    ),
    Case::connected(
        "sendmsg_refuses_control_data_of_unknown_kind",
        |t, s| {
            let send = |level: i32| {
                let mut parts = [io(b"abc".as_ptr(), 3)];
                // One control message of 20 bytes, of a type that does not exist.
                let mut control = [20_u64, 0x7fff_0000_0000 | level as u64, 0];
                let mut message = header(&mut parts);
                message.msg_control = control.as_mut_ptr().cast();
                message.msg_controllen = size_of_val(&control);
                s.sendmsg_header(&raw const message, MSG_NOSIGNAL)
            };
            t.err("unknown type", send(libc::SOL_SOCKET), EINVAL);
            t.eq("unknown level", send(9999), Ok(3));
            s.shutdown(SHUT_WR).expect("shutdown");
        },
        |t, s| t.eq("data", t.recv_to_end(s), b"abc".to_vec()),
    ),
    Case::connected(
        "recvmsg_reports_no_address_and_no_control_data",
        |t, s| {
            let mut room = [0; 8];
            let got = s.recvmsg(&mut [&mut room], 0).expect("recvmsg");
            t.see("recvmsg", &got);
            t.eq("name", got.name_len, 0);
            t.eq("control", got.control_len, 0);
            t.eq("flags", got.flags, 0);
            let end = s.recvmsg(&mut [&mut room], 0).expect("recvmsg");
            t.see("at the end", &end);
        },
        |t, s| {
            send_bytes(t, s, 8);
            s.shutdown(SHUT_WR).expect("shutdown");
        },
    ),
    Case::connected(
        "sendmmsg_sends_every_message",
        |t, s| {
            let sent = s.sendmmsg(&[b"one", b"", b"three", b"4"], 0);
            t.eq("sendmmsg", sent, Ok(vec![3, 0, 5, 1]));
            s.shutdown(SHUT_WR).expect("shutdown");
        },
        |t, s| t.eq("data", t.recv_to_end(s), b"onethree4".to_vec()),
    )
    .both_versions(),
    Case::connected(
        "sendmmsg_stops_when_the_connection_is_full",
        |t, s| {
            let filled = t.fill(s);
            t.err("full", s.sendmmsg(&[b"x", b"y"], MSG_DONTWAIT | MSG_NOSIGNAL), EAGAIN);
            t.tell("filled", filled);
        },
        |t, s| {
            let filled = t.hear("filled");
            t.holds("nothing more", t.recv_exactly(s, filled).len() == filled);
        },
    ),
    Case::connected(
        "recvmmsg_fills_one_room_after_the_other",
        |t, s| {
            assert!(t.until(|| s.ioctl(SIOCINQ) == Ok(100)), "data");
            let (mut a, mut b, mut c, mut d) = ([0; 40], [0; 40], [0; 40], [0; 40]);
            let mut rooms: [&mut [u8]; 4] = [&mut a, &mut b, &mut c, &mut d];
            let got = s.recvmmsg(&mut rooms, MSG_DONTWAIT, None);
            t.eq("recvmmsg", got, Ok(vec![40, 40, 20]));
            t.holds("data", [&a[..], &b[..], &c[..20]].concat() == bytes(1, 100));
            let got = s.recvmmsg(&mut [&mut d], MSG_DONTWAIT, None);
            t.err("empty", got, EAGAIN);
        },
        |t, s| send_bytes(t, s, 100),
    ),
    Case::connected(
        "recvmmsg_waits_for_one_only_when_asked_to",
        |t, s| {
            assert!(t.until(|| s.ioctl(SIOCINQ) == Ok(10)), "data");
            let (mut a, mut b) = ([0; 40], [0; 40]);
            let got = s.recvmmsg(&mut [&mut a, &mut b], libc::MSG_WAITFORONE, None);
            t.eq("recvmmsg", got, Ok(vec![10]));
        },
        |t, s| send_bytes(t, s, 10),
    ),
];
