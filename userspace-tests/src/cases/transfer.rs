// SPDX-License-Identifier: MIT
//! Streams of many sizes, divided in many ways, single and concurrent.

use libc::{MSG_NOSIGNAL, POLLIN, POLLOUT, SHUT_WR};

use crate::case::Case;
use crate::payload::{bytes, Digest, Pattern};
use crate::role::Role;
use crate::sock::Sock;

/// Sizes around the limits of buffers, pages and messages.
const SIZES: &[usize] = &[
    1, 2, 63, 64, 65, 4095, 4096, 4097, 8175, 8176, 8177, 8191, 8192, 8193, 16_383, 16_384, 16_385,
    32_767, 32_768, 32_769, 65_535, 65_536, 65_537, 131_072, 131_073,
];

/// Sends `total` bytes of a pattern in pieces of the given sizes, in turn, without storing them.
fn send_stream(s: &Sock, seed: u64, total: usize, sizes: &[usize]) -> String {
    let mut pattern = Pattern::new(seed);
    let mut digest = Digest::default();
    let mut room = vec![0; sizes.iter().copied().max().unwrap_or(1)];
    let mut left = total;
    for &size in sizes.iter().cycle() {
        if left == 0 {
            return digest.text();
        }
        let piece = &mut room[..size.min(left)];
        pattern.fill(piece);
        digest.add(piece);
        let mut sent = 0;
        while sent < piece.len() {
            sent += s.send(&piece[sent..], MSG_NOSIGNAL).expect("send");
        }
        left -= piece.len();
    }
    digest.text()
}

/// Receives to the end into buffers of the given sizes, in turn.
fn recv_stream(s: &Sock, sizes: &[usize]) -> String {
    let mut digest = Digest::default();
    let mut room = vec![0; sizes.iter().copied().max().unwrap_or(1)];
    for &size in sizes.iter().cycle() {
        match s.recv(&mut room[..size], 0).expect("recv") {
            0 => return digest.text(),
            count => digest.add(&room[..count]),
        }
    }
    digest.text()
}

fn send_and_end(t: &Role, s: &Sock, total: usize, sizes: &[usize]) {
    t.see("data", send_stream(s, 1, total, sizes));
    s.shutdown(SHUT_WR).expect("shutdown");
}

/// Both directions at once on two threads.
fn exchange(t: &Role, s: &Sock, own: u64, other: u64, total: usize, sizes: &[usize]) {
    let came = std::thread::scope(|scope| {
        scope.spawn(|| {
            send_stream(s, own, total, sizes);
            s.shutdown(SHUT_WR).expect("shutdown");
        });
        recv_stream(s, &[65_536])
    });
    let mut digest = Digest::default();
    let mut pattern = Pattern::new(other);
    let mut room = vec![0; 65_536];
    let mut left = total;
    while left > 0 {
        let piece = &mut room[..left.min(65_536)];
        pattern.fill(piece);
        digest.add(piece);
        left -= piece.len();
    }
    t.eq("data", came, digest.text());
}

/// One byte there and one back, or more, `rounds` times.
fn ping(t: &Role, s: &Sock, rounds: usize, size: usize) {
    for round in 0..rounds {
        let data = bytes(round as u64, size);
        t.send_all(s, &data);
        assert!(t.recv_exactly(s, size) == data, "round {round}");
    }
    t.holds("all rounds", true);
}

fn pong(t: &Role, s: &Sock, rounds: usize, size: usize) {
    for _ in 0..rounds {
        let data = t.recv_exactly(s, size);
        t.send_all(s, &data);
    }
}

/// Accepts `count` connections, then echoes what each of them sends, until all have ended.
fn echo_many(t: &Role, count: usize) {
    let listener = t.listener(count as i32 + 8);
    t.tell("port", t.port_of(&listener));
    let socks: Vec<Sock> = (0..count).map(|_| listener.accept().expect("accept")).collect();
    t.meet("all are connected");
    let mut echoed = 0;
    let mut room = vec![0; 16_384];
    let mut open: Vec<&Sock> = socks.iter().collect();
    while !open.is_empty() {
        let wanted: Vec<_> = open.iter().map(|sock| (sock.fd(), POLLIN)).collect();
        let up = crate::poller::poll_many(&wanted, t.patience()).expect("poll");
        assert!(up.iter().any(|events| events.0 != 0), "{} connections are silent", open.len());
        let ready: Vec<bool> = up.iter().map(|events| events.0 != 0).collect();
        let mut index = 0;
        open.retain(|sock| {
            index += 1;
            if !ready[index - 1] {
                return true;
            }
            let count = sock.recv(&mut room, 0).expect("recv");
            echoed += count;
            t.send_all(sock, &room[..count]);
            if count == 0 {
                sock.shutdown(SHUT_WR).expect("shutdown");
            }
            count > 0
        });
    }
    t.see("echoed", echoed);
}

fn use_many(t: &Role, count: usize, size: usize) {
    let port = t.hear("port");
    let socks: Vec<Sock> = (0..count).map(|_| t.connected(port)).collect();
    t.meet("all are connected");
    for (index, sock) in socks.iter().enumerate() {
        t.send_all(sock, &bytes(index as u64, size));
        sock.shutdown(SHUT_WR).expect("shutdown");
    }
    for (index, sock) in socks.iter().enumerate() {
        let data = t.recv_to_end(sock);
        assert!(data == bytes(index as u64, size), "connection {index}");
    }
    t.see("connections", count);
}

/// Serves connections one after the other: reads to the end, sends the digest, closes.
fn serve_cycles(t: &Role, count: usize) {
    let listener = t.listener(64);
    t.tell("port", t.port_of(&listener));
    for _ in 0..count {
        let sock = listener.accept().expect("accept");
        let digest = Digest::of(&t.recv_to_end(&sock));
        t.send_all(&sock, digest.as_bytes());
    }
    t.see("served", count);
}

fn make_cycles(t: &Role, count: usize) {
    let port = t.hear("port");
    for cycle in 0..count {
        let sock = t.connected(port);
        let data = bytes(cycle as u64, 1 + cycle * 37 % 20_000);
        t.send_all(&sock, &data);
        sock.shutdown(SHUT_WR).expect("shutdown");
        assert!(t.recv_to_end(&sock) == Digest::of(&data).as_bytes(), "cycle {cycle}");
    }
    t.see("made", count);
}

pub const CASES: &[Case] = &[
    Case::connected(
        "transfer_of_every_border_size",
        |t, s| {
            for &size in SIZES {
                t.send_all(s, &bytes(size as u64, size));
                t.wait("came");
            }
        },
        |t, s| {
            for &size in SIZES {
                let data = t.recv_exactly(s, size);
                t.eq(&format!("{size}"), data == bytes(size as u64, size), true);
                t.say("came");
            }
        },
    )
    .both_versions(),
    Case::connected(
        "transfer_with_border_sizes_in_one_stream",
        |t, s| send_and_end(t, s, 1_200_000, SIZES),
        |t, s| t.see("data", recv_stream(s, &[65_536])),
    ),
    Case::connected(
        "transfer_with_odd_writes_and_odd_reads",
        |t, s| send_and_end(t, s, 700_001, &[1, 7, 1001, 13, 4099, 65_521, 333]),
        |t, s| t.see("data", recv_stream(s, &[3, 8191, 11, 509, 30_011])),
    )
    .both_versions(),
    Case::connected(
        "transfer_with_small_writes_and_large_reads",
        |t, s| send_and_end(t, s, 100_000, &[17]),
        |t, s| t.see("data", recv_stream(s, &[65_536])),
    ),
    Case::connected(
        "transfer_with_large_writes_and_small_reads",
        |t, s| send_and_end(t, s, 300_000, &[100_000]),
        |t, s| t.see("data", recv_stream(s, &[97])),
    ),
    Case::connected(
        "transfer_with_one_large_write",
        |t, s| {
            let data = bytes(1, 1_500_001);
            t.eq("send", s.send(&data, MSG_NOSIGNAL), Ok(data.len()));
            s.shutdown(SHUT_WR).expect("shutdown");
        },
        |t, s| t.eq("data", recv_stream(s, &[65_536]), Digest::of(&bytes(1, 1_500_001))),
    )
    .both_versions(),
    Case::connected(
        "transfer_into_small_buffers",
        |t, s| {
            s.set(libc::SOL_SOCKET, libc::SO_SNDBUF, &4096).expect("SO_SNDBUF");
            send_and_end(t, s, 200_000, &[9000, 1]);
        },
        |t, s| {
            s.set(libc::SOL_SOCKET, libc::SO_RCVBUF, &4096).expect("SO_RCVBUF");
            t.see("data", recv_stream(s, &[5000]));
        },
    ),
    Case::two(
        "transfer_with_small_buffers_set_before_connecting",
        |t| {
            let listener = t.bound();
            listener.set(libc::SOL_SOCKET, libc::SO_RCVBUF, &2048).expect("SO_RCVBUF");
            listener.listen(1).expect("listen");
            t.tell("port", t.port_of(&listener));
            let sock = listener.accept().expect("accept");
            t.see("data", recv_stream(&sock, &[3001]));
        },
        |t| {
            let port = t.hear("port");
            let sock = t.socket();
            sock.set(libc::SOL_SOCKET, libc::SO_SNDBUF, &2048).expect("SO_SNDBUF");
            sock.connect(&t.there(port)).expect("connect");
            send_and_end(t, &sock, 100_000, &[7001]);
        },
    )
    .both_versions(),
    Case::connected(
        "transfer_in_both_directions_at_once",
        |t, s| exchange(t, s, 1, 2, 900_000, &[40_000, 1, 8177]),
        |t, s| exchange(t, s, 2, 1, 900_000, &[333, 65_537]),
    )
    .both_versions(),
    Case::connected(
        "transfer_to_a_reader_that_rests",
        |t, s| {
            t.see("data", send_stream(s, 1, 400_000, &[50_000]));
            s.shutdown(SHUT_WR).expect("shutdown");
        },
        |t, s| {
            // Lets the connection become full between two reads.
            let mut digest = Digest::default();
            let mut room = vec![0; 40_000];
            loop {
                t.until(|| s.poll(POLLIN, 0).expect("poll").0 != 0);
                match s.recv(&mut room, libc::MSG_WAITALL).expect("recv") {
                    0 => break,
                    count => digest.add(&room[..count]),
                }
                let _ = s.poll(POLLOUT, 0);
            }
            t.see("data", digest.text());
        },
    ),
    Case::connected("ping_pong_of_one_byte", |t, s| pong(t, s, 150, 1), |t, s| ping(t, s, 150, 1))
        .both_versions(),
    Case::connected(
        "ping_pong_of_64_kib",
        |t, s| pong(t, s, 10, 65_536),
        |t, s| ping(t, s, 10, 65_536),
    ),
    Case::connected(
        "ping_pong_with_several_requests_under_way",
        |t, s| {
            for number in 0..80_u32 {
                assert_eq!(t.recv_exactly(s, 4), number.to_le_bytes());
                t.send_all(s, &number.to_be_bytes());
            }
        },
        |t, s| {
            for batch in 0..8_u32 {
                for number in 0..10 {
                    t.send_all(s, &(batch * 10 + number).to_le_bytes());
                }
                for number in 0..10 {
                    assert_eq!(t.recv_exactly(s, 4), (batch * 10 + number).to_be_bytes());
                }
            }
            t.holds("all answers", true);
        },
    ),
    Case::two(
        "connections_side_by_side_do_not_mix",
        |t| echo_many(t, 20),
        |t| use_many(t, 20, 5000),
    )
    .both_versions(),
    Case::two("connections_one_after_the_other", |t| serve_cycles(t, 40), |t| make_cycles(t, 40))
        .both_versions(),
    Case::two("parallel-200", |t| echo_many(t, 200), |t| use_many(t, 200, 3001)).long(60),
    Case::two("cycles-1000", |t| serve_cycles(t, 1000), |t| make_cycles(t, 1000)).long(120),
    Case::connected(
        "stream-64-mib",
        |t, s| send_and_end(t, s, 64 << 20, &[1, 65_537, 1_000_003, 8177, 300]),
        |t, s| t.see("data", recv_stream(s, &[65_536, 1, 100_003])),
    )
    .long(120),
    Case::connected(
        "stream-both-ways-16-mib",
        |t, s| exchange(t, s, 1, 2, 16 << 20, &[65_537, 1, 8177]),
        |t, s| exchange(t, s, 2, 1, 16 << 20, &[1_000_003]),
    )
    .long(120),
];
