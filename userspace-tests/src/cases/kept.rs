// SPDX-License-Identifier: MIT
//! The registration cache (`zcopy_keep_ms`): an entry is found only for the same pages, and is
//! released in time and when it is in the way. On TCP the same scripts define the expected data.

use libc::{MSG_NOSIGNAL, MSG_WAITALL, MSG_ZEROCOPY, POLLIN, SHUT_WR, SOL_SOCKET};

use super::zcopy::{
    anonymous, client, counted, forget, given_back, pins, server, Counters, Room, MIB,
};
use crate::case::Case;
use crate::child;
use crate::netns::{limit_locked_memory, Sysctl};
use crate::pages::PAGE;
use crate::payload::bytes;
use crate::role::Role;
use crate::sock::Sock;
use crate::world::Family;

/// Longer than any case.
const FOR_EVER: &str = "600000";

/// More small rooms than a device has regions by default.
const MANY: usize = 100;

/// While this exists, this host keeps registrations for so many milliseconds.
fn keeping(t: &Role, millis: &str) -> Option<Sysctl> {
    (t.family == Family::Sdp).then(|| Sysctl::set("sdp/zcopy_keep_ms", millis))
}

fn send(t: &Role, s: &Sock, room: &mut Room, seed: u64) {
    let data = bytes(seed, room.bytes().len());
    room.bytes().copy_from_slice(&data);
    t.send_all(s, room.bytes());
}

/// Runs `turn` with the seeds from 0 on until enough registrations were kept, because memory with
/// a registration that completes late is not kept; returns the number of turns.
fn until_kept(t: &Role, enough: impl Fn(&Counters) -> bool, mut turn: impl FnMut(u64)) -> u64 {
    let before = Counters::now(t);
    for seed in 0..20 {
        turn(seed);
        if t.family != Family::Sdp || enough(&before) {
            return seed + 1;
        }
    }
    let seen = ["kept_hits", "kept_misses", "adverts_received", "bcopy_bytes_received"]
        .map(|name| format!("{name} {}", before.since(t, name)));
    panic!("little or nothing is ever kept: {}", seen.join(", "));
}

/// Sends until registrations were certainly kept.
fn send_until_kept(t: &Role, s: &Sock, room: &mut Room) -> u64 {
    // A found registration is kept again.
    let kept =
        |before: &Counters| before.since(t, "kept_hits") + before.since(t, "kept_expirations") > 0;
    until_kept(t, kept, |seed| send(t, s, room, seed))
}

/// Whether kept registrations were found repeatedly.
fn hit_often(t: &Role) -> impl Fn(&Counters) -> bool + '_ {
    |before| before.since(t, "kept_hits") >= 4
}

/// Reads the bytes that `send_until_kept` sends.
fn read_until_kept(t: &Role) {
    let s = server(t);
    let all = t.recv_to_end(&s);
    assert_eq!(all.len() % MIB, 0, "whole rooms");
    for (seed, room) in all.chunks(MIB).enumerate() {
        assert!(room == bytes(seed as u64, MIB), "room {seed} differs");
    }
    t.holds("all came", true);
    t.meet("end");
}

/// Reads `count` rooms of `len` bytes, which were sent with the seeds from 0 on.
fn read_rooms(t: &Role, count: u64, len: usize) {
    let s = server(t);
    for seed in 0..count {
        assert!(t.recv_exactly(&s, len) == bytes(seed, len), "room {seed} differs");
    }
    t.holds("all came", true);
    t.meet("end");
}

/// Reads rooms of `len` bytes to the end.
fn read_rooms_to_end(t: &Role, len: usize) {
    let s = server(t);
    let mut room = vec![0; len];
    for seed in 0.. {
        let got = s.recv(&mut room, MSG_WAITALL).expect("recv");
        if got == 0 {
            break;
        }
        assert_eq!(got, len, "received in one go");
        assert!(room == bytes(seed, len), "room {seed} differs");
    }
    t.holds("all came", true);
    t.meet("end");
}

/// Receives the other side's bytes into `room`, which is advertised before they are sent.
fn recv_offered(t: &Role, s: &Sock, room: &mut Room, seed: u64) {
    t.tell("more", true);
    if t.family == Family::Sdp {
        // The offer is declined if no reader takes it within 20 ms, and to look at the counters may
        // take as long. To a reader that was late for the last ones the bytes are sent.
        t.await_events(s, POLLIN);
    }
    let len = room.bytes().len();
    assert_eq!(s.recv(room.bytes(), MSG_WAITALL), Ok(len));
    assert!(room.bytes() == bytes(seed, len), "room {seed} differs");
}

fn recv_no_more(t: &Role) {
    t.holds("all came", true);
    t.tell("more", false);
    t.meet("end");
}

fn send_when_told(t: &Role) {
    let s = client(t);
    let mut room = Room::new(0, MIB);
    for seed in 0.. {
        if !t.hear::<bool>("more") {
            break;
        }
        send(t, &s, &mut room, seed);
    }
    t.meet("end");
}

/// Every registration that was not kept used a region of the pool, and none was lacking. Bytes may
/// be copied nevertheless, to the send buffer: a reader that is late has no buffer for them.
fn adds_up(of: &dyn Fn(&str) -> i64) {
    assert_eq!(of("region_hits") + of("region_misses"), of("kept_misses"));
    assert_eq!(of("pin_failures") + of("region_shortages"), 0);
}

pub const CASES: &[Case] = &[
    Case::two(
        "kept_for_sends_of_the_same_room",
        |t| read_rooms_to_end(t, MIB),
        |t| {
            let _knob = keeping(t, FOR_EVER);
            let s = client(t);
            let mut room = Room::new(0, MIB);
            counted(
                t,
                || {
                    until_kept(t, hit_often(t), |seed| send(t, &s, &mut room, seed));
                },
                |of| {
                    adds_up(of);
                    assert_eq!(of("kept_evictions") + of("kept_expirations"), 0);
                },
            );
            s.shutdown(SHUT_WR).expect("shutdown");
            t.meet("end");
        },
    )
    .two_hosts(),
    Case::two(
        "kept_not_by_default",
        |t| read_rooms(t, 3, MIB),
        |t| {
            let s = client(t);
            let mut room = Room::new(0, MIB);
            counted(
                t,
                || (0..3).for_each(|seed| send(t, &s, &mut room, seed)),
                |of| assert_eq!(of("kept_hits") + of("kept_misses"), 0),
            );
            t.meet("end");
        },
    )
    .two_hosts(),
    Case::two(
        "kept_until_the_memory_is_mapped_anew",
        |t| read_rooms(t, 4, MIB),
        |t| {
            let _knob = keeping(t, FOR_EVER);
            let s = client(t);
            let mut room = Room::new(0, MIB);
            let at = room.pages.as_mut_ptr() as usize;
            counted(
                t,
                || {
                    send(t, &s, &mut room, 0);
                    anonymous(at, MIB);
                    send(t, &s, &mut room, 1);
                    forget(at + MIB - PAGE, PAGE);
                    send(t, &s, &mut room, 2);
                    anonymous(at, PAGE);
                    send(t, &s, &mut room, 3);
                },
                |of| {
                    adds_up(of);
                    assert_eq!(of("kept_hits"), 0);
                },
            );
            t.meet("end");
        },
    )
    .two_hosts(),
    Case::two(
        "kept_while_a_fork_has_a_copy",
        |t| read_rooms(t, 2, MIB),
        |t| {
            let _knob = keeping(t, FOR_EVER);
            let s = client(t);
            let mut room = Room::new(0, MIB);
            send(t, &s, &mut room, 0);
            let at = room.pages.as_mut_ptr() as usize;
            let child = child::spawn(|| {
                // SAFETY: the copy of the room, which is as long.
                let copy = unsafe { std::slice::from_raw_parts_mut(at as *mut u8, MIB) };
                assert!(copy == bytes(0, MIB), "the child has its own");
                copy.fill(7);
            });
            child.join();
            send(t, &s, &mut room, 1);
            t.meet("end");
        },
    )
    .two_hosts(),
    Case::two(
        "kept_for_a_reader_of_the_same_room",
        |t| {
            let _knob = keeping(t, FOR_EVER);
            let s = server(t);
            let mut room = Room::new(0, MIB);
            counted(
                t,
                || {
                    until_kept(t, hit_often(t), |seed| recv_offered(t, &s, &mut room, seed));
                },
                |of| {
                    assert_eq!(of("changed_bytes"), 0);
                    assert_eq!(of("pin_failures") + of("region_shortages"), 0);
                },
            );
            recv_no_more(t);
        },
        send_when_told,
    )
    .two_hosts(),
    Case::two(
        "kept_not_for_a_reader_with_other_memory",
        |t| {
            let _knob = keeping(t, FOR_EVER);
            let s = server(t);
            let mut room = Room::new(0, MIB);
            let at = room.pages.as_mut_ptr() as usize;
            for seed in 0..4 {
                recv_offered(t, &s, &mut room, seed);
                anonymous(at + 5 * PAGE * seed as usize, 9 * PAGE);
            }
            recv_no_more(t);
        },
        send_when_told,
    )
    .two_hosts(),
    Case::two("kept_no_longer_than_the_knob_says", read_until_kept, |t| {
        let _knob = keeping(t, "1000");
        let s = client(t);
        let before = pins();
        let counters = Counters::now(t);
        let mut room = Room::new(0, MIB);
        let sent = send_until_kept(t, &s, &mut room);
        if t.family == Family::Sdp {
            let over = || counters.since(t, "kept_expirations") > 0;
            assert!(t.until(over), "it is given up on time");
        }
        send(t, &s, &mut room, sent);
        s.shutdown(SHUT_WR).expect("shutdown");
        t.meet("end");
        given_back(t, before);
    })
    .two_hosts(),
    Case::two("kept_no_longer_than_the_connection", read_until_kept, |t| {
        let _knob = keeping(t, FOR_EVER);
        let before = pins();
        let s = client(t);
        let counters = Counters::now(t);
        send_until_kept(t, &s, &mut Room::new(0, MIB));
        s.shutdown(SHUT_WR).expect("shutdown");
        t.meet("end");
        s.close().expect("close");
        if t.family == Family::Sdp {
            // The other side closes, too, so a worker may be ending the connection.
            let over = || counters.since(t, "kept_expirations") > 0;
            assert!(t.until(over), "something was kept");
        }
        given_back(t, before);
    })
    .two_hosts(),
    Case::two(
        "kept_memory_gives_way_to_other_regions",
        |t| read_rooms(t, 2 * MANY as u64, 2 * PAGE),
        |t| {
            let _knob = keeping(t, FOR_EVER);
            let _few = (t.family == Family::Sdp).then(|| Sysctl::set("sdp/zcopy_regions", "1"));
            let s = client(t);
            let mut rooms: Vec<_> = (0..MANY).map(|_| Room::new(0, 2 * PAGE)).collect();
            counted(
                t,
                || {
                    for seed in 0..2 * MANY {
                        send(t, &s, &mut rooms[seed % MANY], seed as u64);
                    }
                },
                |of| {
                    adds_up(of);
                    assert!(of("kept_evictions") > 0, "nothing had to give way");
                },
            );
            t.meet("end");
        },
    )
    .two_hosts(),
    Case::two(
        "kept_memory_gives_way_to_what_can_be_locked",
        |t| read_rooms(t, 9, 32 * PAGE),
        |t| {
            let _knob = keeping(t, FOR_EVER);
            let s = client(t);
            s.set(SOL_SOCKET, libc::SO_ZEROCOPY, &1).expect("SO_ZEROCOPY");
            // Two rooms, with two more pages each.
            limit_locked_memory(80 * PAGE as u64).expect("the limit");
            let mut rooms: Vec<_> = (0..4).map(|_| Room::new(0, 32 * PAGE)).collect();
            let data = bytes(8, 32 * PAGE);
            counted(
                t,
                || {
                    for seed in 0..8 {
                        send(t, &s, &mut rooms[seed % 4], seed as u64);
                    }
                    // Lent memory is charged by the core.
                    let lent = s.send(&data, MSG_ZEROCOPY | MSG_NOSIGNAL).expect("lent");
                    t.send_all(&s, &data[lent..]);
                },
                |of| {
                    assert_eq!(of("pin_failures") + of("region_shortages"), 0);
                    assert!(of("kept_evictions") >= 3, "{} gave way", of("kept_evictions"));
                },
            );
            t.meet("end");
        },
    )
    .two_hosts(),
];
