// SPDX-License-Identifier: MIT
//! Sending: how much a call accepts, when it blocks, and its errors.

use libc::{
    EAGAIN, ECONNRESET, EFAULT, EPIPE, MSG_DONTWAIT, MSG_MORE, MSG_NOSIGNAL, POLLERR, POLLHUP,
    POLLIN, POLLOUT, SHUT_WR, SOL_SOCKET, SOL_TCP,
};

use crate::case::Case;
use crate::errno::Errno;
use crate::pages::{Cliff, PAGE};
use crate::payload::{bytes, Digest};
use crate::role::{Role, ENOUGH, LIMIT};
use crate::signal;
use crate::sock::Sock;

/// Reads to the end and reports the bytes.
fn read_all(t: &Role, s: &Sock) {
    let data = t.recv_to_end(s);
    t.see("all data", Digest::of(&data));
}

/// Sends small pieces with these flags, then shuts down; the receiver must get all of them.
fn send_pieces(t: &Role, s: &Sock, flags: i32) {
    let data = bytes(3, 5000);
    for piece in data.chunks(100) {
        assert_eq!(s.send(piece, flags), Ok(100));
    }
    t.see("all data", Digest::of(&data));
    s.shutdown(SHUT_WR).expect("shutdown");
}

/// Sends `data` in pieces of 100 that must not be sent alone, then does the releasing action.
fn hold_back(t: &Role, s: &Sock, release: impl Fn()) {
    for piece in bytes(4, 300).chunks(100) {
        assert_eq!(s.send(piece, MSG_NOSIGNAL), Ok(100));
    }
    release();
    t.wait("arrived");
}

fn await_held_back(t: &Role, s: &Sock) {
    let data = t.recv_exactly(s, 300);
    t.holds("arrived", data == bytes(4, 300));
    t.say("arrived");
}

/// Makes the buffers of both directions small, so that little data fills a connection.
fn shrink(s: &Sock) {
    s.set(SOL_SOCKET, libc::SO_SNDBUF, &16_384).expect("SO_SNDBUF");
}

pub const CASES: &[Case] = &[
    Case::connected(
        "send_and_write_deliver_in_order",
        |t, s| {
            t.eq("send", s.send(b"one ", 0), Ok(4));
            t.eq("write", s.write(b"two "), Ok(4));
            let to = t.there(1);
            t.eq("sendto", s.send_to(b"three ", 0, &to), Ok(6));
            t.eq("sendmsg", s.sendmsg(&[b"four ", b"five"], 0), Ok(9));
            s.shutdown(SHUT_WR).expect("shutdown");
        },
        |t, s| t.eq("data", t.recv_to_end(s), b"one two three four five".to_vec()),
    )
    .both_versions(),
    Case::connected(
        "send_buffer_that_was_set_keeps_its_size",
        |t, s| {
            s.set(SOL_SOCKET, libc::SO_SNDBUF, &50_000).expect("SO_SNDBUF");
            t.send_all(s, &bytes(1, 2_000_000));
            t.eq("SO_SNDBUF", s.get(SOL_SOCKET, libc::SO_SNDBUF), Ok(100_000));
        },
        |t, s| t.holds("data", t.recv_exactly(s, 2_000_000) == bytes(1, 2_000_000)),
    ),
    Case::connected(
        "send_of_nothing_sends_nothing",
        |t, s| {
            t.eq("send", s.send(b"", 0), Ok(0));
            t.eq("write", s.write(b""), Ok(0));
            t.eq("sendmsg", s.sendmsg(&[], 0), Ok(0));
            t.eq("empty parts", s.sendmsg(&[b"", b""], 0), Ok(0));
            t.meet("sent nothing");
            t.send_all(s, b"x");
        },
        |t, s| {
            t.meet("sent nothing");
            t.eq("data", t.recv_exactly(s, 1), b"x".to_vec());
        },
    )
    .both_versions(),
    Case::connected(
        "send_flags_without_a_meaning_here_are_ignored",
        |t, s| {
            for flags in [libc::MSG_CONFIRM, libc::MSG_DONTROUTE, libc::MSG_EOR, MSG_NOSIGNAL] {
                t.eq(&format!("flags {flags:#x}"), s.send(b"abc", flags), Ok(3));
            }
            s.shutdown(SHUT_WR).expect("shutdown");
        },
        |t, s| t.eq("data", t.recv_to_end(s), b"abcabcabcabc".to_vec()),
    ),
    Case::connected(
        "send_from_bad_memory_faults",
        |t, s| {
            let cliff = Cliff::new(1);
            t.err("null", s.send_raw(std::ptr::null(), 10, MSG_NOSIGNAL), EFAULT);
            t.err("unmapped", s.send_raw(cliff.beyond(), 10, MSG_NOSIGNAL), EFAULT);
            t.err("huge length", s.send_raw(cliff.beyond(), usize::MAX, MSG_NOSIGNAL), EFAULT);
            t.ok("afterwards", s.send(b"fine", 0));
            s.shutdown(SHUT_WR).expect("shutdown");
        },
        |t, s| t.eq("data", t.recv_to_end(s), b"fine".to_vec()),
    ),
    Case::connected(
        "send_across_the_end_of_memory_counts_what_it_took",
        |t, s| {
            let mut cliff = Cliff::new(8);
            cliff.bytes().copy_from_slice(&bytes(5, 8 * PAGE));
            let sent = match s.send_raw(cliff.as_mut_ptr(), 8 * PAGE + 100, MSG_NOSIGNAL) {
                Ok(sent) => sent,
                Err(Errno(EFAULT)) => 0,
                Err(errno) => panic!("send: {errno}"),
            };
            t.holds("not more than there is", sent <= 8 * PAGE);
            t.tell("sent", sent);
            s.shutdown(SHUT_WR).expect("shutdown");
        },
        |t, s| {
            let sent = t.hear("sent");
            let data = t.recv_to_end(s);
            t.holds("exactly what was counted", data == bytes(5, sent));
        },
    ),
    Case::connected(
        "send_nonblocking_fills_up_and_goes_on_after_a_read",
        |t, s| {
            s.set_nonblocking(true).expect("O_NONBLOCK");
            let sent = t.fill(s);
            t.holds("took something", sent > 0);
            t.err("full", s.send(b"x", MSG_NOSIGNAL), EAGAIN);
            t.eq("events", s.poll(POLLOUT, 0).map(|up| up.0), Ok(0));
            t.tell("sent", sent);
            t.see("room again", t.await_events(s, POLLOUT));
            t.ok("send", s.send(b"x", MSG_NOSIGNAL));
        },
        |t, s| {
            let sent: usize = t.hear("sent");
            t.holds("all came", t.recv_exactly(s, sent + 1).len() == sent + 1);
        },
    )
    .both_versions(),
    Case::connected(
        "send_that_fills_a_small_buffer_finds_room_beside_a_silent_peer",
        |t, s| {
            // The peer's buffers are as large as they become.
            t.send_all(s, &[1; 65_536]);
            // From here on the peer neither reads nor sends.
            t.await_events(s, POLLIN);
            s.set(SOL_SOCKET, libc::SO_SNDBUF, &4096).expect("SO_SNDBUF");
            s.set_nonblocking(true).expect("O_NONBLOCK");
            let mut sent = 0;
            for _ in 0..4 {
                sent += s.send(&[1; 16_384], MSG_NOSIGNAL).expect("send");
                t.await_events(s, POLLOUT);
            }
            t.tell("sent", sent);
        },
        |t, s| {
            t.recv_exactly(s, 65_536);
            s.shutdown(SHUT_WR).expect("shutdown");
            let sent: usize = t.hear("sent");
            t.recv_exactly(s, sent);
        },
    )
    .both_versions(),
    Case::connected(
        "send_dontwait_would_block_on_a_full_connection",
        |t, s| {
            let sent = t.fill(s);
            t.err("send", s.send(b"x", MSG_DONTWAIT | MSG_NOSIGNAL), EAGAIN);
            t.eq("still blocking", s.is_nonblocking(), Ok(false));
            t.tell("sent", sent);
            t.ok("blocking send", s.send(b"x", MSG_NOSIGNAL));
        },
        |t, s| {
            let sent: usize = t.hear("sent");
            t.holds("all came", t.recv_exactly(s, sent + 1).len() == sent + 1);
        },
    ),
    Case::connected(
        "send_waits_until_the_reader_makes_room",
        |t, s| {
            let data = bytes(6, 300_000);
            shrink(s);
            let sent = t.fill(s);
            t.tell("sent", sent);
            t.tell_sleeping("sending");
            t.eq("send", s.send(&data, MSG_NOSIGNAL), Ok(data.len()));
            s.shutdown(SHUT_WR).expect("shutdown");
        },
        |t, s| {
            let sent: usize = t.hear("sent");
            t.hear_asleep("sending", &[libc::SYS_sendto]);
            t.recv_exactly(s, sent);
            let data = t.recv_to_end(s);
            t.eq("data", Digest::of(&data), Digest::of(&bytes(6, 300_000)));
        },
    )
    .both_versions(),
    Case::connected(
        "send_gives_up_after_so_sndtimeo",
        |t, s| {
            s.set_timeout(libc::SO_SNDTIMEO, LIMIT).expect("SO_SNDTIMEO");
            let sent = t.fill(s);
            let start = std::time::Instant::now();
            t.err("send", s.send(b"x", MSG_NOSIGNAL), EAGAIN);
            t.holds("waited", start.elapsed().as_millis() >= ENOUGH);
            t.tell("sent", sent);
        },
        |t, s| {
            let sent: usize = t.hear("sent");
            t.holds("nothing more came", t.recv_exactly(s, sent).len() == sent);
        },
    ),
    Case::connected(
        "send_counts_what_it_took_before_so_sndtimeo",
        |t, s| {
            s.set_timeout(libc::SO_SNDTIMEO, LIMIT).expect("SO_SNDTIMEO");
            let data = vec![1; 64 << 20];
            let sent = s.send(&data, MSG_NOSIGNAL).expect("send");
            t.holds("a part", sent > 0 && sent < data.len());
            t.tell("sent", sent);
            s.shutdown(SHUT_WR).expect("shutdown");
        },
        |t, s| {
            let sent: usize = t.hear("sent");
            t.holds("all of the part", t.recv_to_end(s).len() == sent);
        },
    ),
    Case::connected(
        "send_after_shutdown_is_a_broken_pipe",
        |t, s| {
            signal::catch(libc::SIGPIPE, true);
            s.shutdown(SHUT_WR).expect("shutdown");
            t.err("send", s.send(b"x", 0), EPIPE);
            t.eq("signals", signal::caught(libc::SIGPIPE), 1);
            t.err("send nosignal", s.send(b"x", MSG_NOSIGNAL), EPIPE);
            t.eq("signals after nosignal", signal::caught(libc::SIGPIPE), 1);
            t.err("write", s.write(b"x"), EPIPE);
            t.eq("signals after write", signal::caught(libc::SIGPIPE), 2);
            t.err("nothing at all", s.send(b"", MSG_NOSIGNAL), EPIPE);
            t.eq("SO_ERROR", s.error(), Ok(None));
        },
        |t, s| t.eq("end", t.recv_to_end(s).len(), 0),
    )
    .both_versions(),
    Case::connected(
        "send_after_the_peer_closed_ends_in_a_broken_pipe",
        |_, s| s.close().expect("close"),
        |t, s| {
            t.eq("end", t.recv_to_end(s).len(), 0);
            t.ok("first send", s.send(b"x", MSG_NOSIGNAL));
            t.await_events(s, POLLERR | POLLHUP);
            t.err("second send", s.send(b"x", MSG_NOSIGNAL), EPIPE);
            t.err("third send", s.send(b"x", MSG_NOSIGNAL), EPIPE);
            t.eq("recv", s.recv(&mut [0; 8], 0), Ok(0));
        },
    )
    .both_versions(),
    Case::connected(
        "send_after_a_reset_fails_with_the_reset_first",
        |_, s| {
            s.set_linger(true, 0).expect("SO_LINGER");
            s.close().expect("close");
        },
        |t, s| {
            t.await_events(s, POLLHUP);
            t.err("first send", s.send(b"x", MSG_NOSIGNAL), ECONNRESET);
            t.err("second send", s.send(b"x", MSG_NOSIGNAL), EPIPE);
            t.eq("SO_ERROR", s.error(), Ok(None));
        },
    )
    .both_versions(),
    Case::connected(
        "send_that_waits_is_woken_by_a_reset",
        |t, s| {
            let _ = t.fill(s);
            t.tell_sleeping("sending");
            t.err("send", s.send(b"x", MSG_NOSIGNAL), ECONNRESET);
            t.err("send again", s.send(b"x", MSG_NOSIGNAL), EPIPE);
        },
        |t, s| {
            t.hear_asleep("sending", &[libc::SYS_sendto]);
            s.set_linger(true, 0).expect("SO_LINGER");
            s.close().expect("close");
        },
    )
    .both_versions(),
    Case::connected(
        "send_with_more_to_come_delivers_everything",
        |t, s| send_pieces(t, s, MSG_MORE),
        read_all,
    ),
    Case::connected(
        "send_with_more_to_come_leaves_with_the_last_piece",
        |t, s| {
            for piece in bytes(4, 200).chunks(100) {
                assert_eq!(s.send(piece, MSG_MORE), Ok(100));
            }
            t.ok("last", s.send(&bytes(4, 300)[200..], 0));
            t.wait("arrived");
        },
        await_held_back,
    ),
    Case::connected(
        "send_corked_leaves_when_uncorked",
        |t, s| {
            t.ok("cork", s.set(SOL_TCP, libc::TCP_CORK, &1));
            hold_back(t, s, || s.set(SOL_TCP, libc::TCP_CORK, &0).expect("TCP_CORK"));
        },
        await_held_back,
    )
    .both_versions(),
    Case::connected(
        "send_corked_leaves_at_shutdown",
        |t, s| {
            t.ok("cork", s.set(SOL_TCP, libc::TCP_CORK, &1));
            hold_back(t, s, || s.shutdown(SHUT_WR).expect("shutdown"));
        },
        |t, s| {
            await_held_back(t, s);
            t.eq("end", t.recv_to_end(s).len(), 0);
        },
    ),
    Case::connected(
        "send_corked_leaves_at_close",
        |t, s| {
            t.ok("cork", s.set(SOL_TCP, libc::TCP_CORK, &1));
            hold_back(t, s, || s.close().expect("close"));
        },
        await_held_back,
    ),
    Case::connected(
        "send_corked_is_not_held_back_for_ever",
        |t, s| {
            t.ok("cork", s.set(SOL_TCP, libc::TCP_CORK, &1));
            hold_back(t, s, || {});
        },
        await_held_back,
    ),
    Case::connected(
        "send_without_delay_answers_every_byte",
        |t, s| {
            t.ok("nodelay", s.set(SOL_TCP, libc::TCP_NODELAY, &1));
            for number in 0..100_u8 {
                t.send_all(s, &[number]);
                assert_eq!(t.recv_exactly(s, 1), [number]);
            }
        },
        |t, s| {
            t.ok("nodelay", s.set(SOL_TCP, libc::TCP_NODELAY, &1));
            for _ in 0..100 {
                let byte = t.recv_exactly(s, 1);
                t.send_all(s, &byte);
            }
        },
    )
    .both_versions(),
    Case::connected(
        "send_in_small_pieces_delivers_everything",
        |t, s| send_pieces(t, s, 0),
        read_all,
    ),
    Case::connected(
        "send_in_single_bytes_delivers_everything",
        |t, s| {
            for byte in bytes(8, 3000) {
                assert_eq!(s.send(&[byte], 0), Ok(1));
            }
            s.shutdown(SHUT_WR).expect("shutdown");
            t.see("all data", Digest::of(&bytes(8, 3000)));
        },
        read_all,
    ),
    Case::connected(
        "send_of_a_huge_buffer_takes_a_part_without_waiting",
        |t, s| {
            let data = vec![0; 256 << 20];
            let sent = s.send(&data, MSG_DONTWAIT | MSG_NOSIGNAL).expect("send");
            t.holds("a part", sent > 0 && sent < data.len());
            t.tell("sent", sent);
            s.shutdown(SHUT_WR).expect("shutdown");
        },
        |t, s| {
            let sent: usize = t.hear("sent");
            t.holds("all of the part", t.recv_to_end(s).len() == sent);
        },
    ),
    Case::connected(
        "send_does_not_see_later_changes_of_its_buffer",
        |t, s| {
            let mut data = vec![1; 20_000];
            assert_eq!(s.send(&data, 0), Ok(20_000));
            data.fill(2);
            t.say("changed");
            s.shutdown(SHUT_WR).expect("shutdown");
        },
        |t, s| {
            t.wait("changed");
            t.holds("as it was", t.recv_to_end(s) == vec![1; 20_000]);
        },
    ),
    Case::connected("send_both_ways_at_once_does_not_lock_up", both_ways, both_ways)
        .both_versions(),
];

/// Sends and receives 400 kB concurrently without blocking calls.
fn both_ways(t: &Role, s: &Sock) {
    let data = bytes(9, 400_000);
    let mut came = Vec::new();
    let mut sent = 0;
    s.set_nonblocking(true).expect("O_NONBLOCK");
    while sent < data.len() || came.len() < data.len() {
        let wanted = POLLIN | if sent < data.len() { POLLOUT } else { 0 };
        let up = s.poll(wanted, t.patience()).expect("poll").0;
        assert!(up != 0, "nothing moves: sent {sent}, received {}", came.len());
        if up & i32::from(POLLOUT) != 0 {
            match s.send(&data[sent..], MSG_NOSIGNAL) {
                Ok(count) => sent += count,
                Err(errno) => assert!(errno == Errno(EAGAIN), "send: {errno}"),
            }
        }
        if up & i32::from(POLLIN) != 0 {
            let mut room = vec![0; 30_000];
            let count = s.recv(&mut room, 0).expect("recv");
            assert!(count > 0, "the stream ended early");
            came.extend_from_slice(&room[..count]);
        }
    }
    t.eq("data", Digest::of(&came), Digest::of(&data));
}
