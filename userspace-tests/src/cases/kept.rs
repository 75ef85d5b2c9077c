// SPDX-License-Identifier: MIT
//! The registration cache (`zcopy_keep_ms`): an entry is found only for the same pages, and is
//! released in time and when it is in the way. On TCP the same scripts define the expected data.

use libc::{
    c_int, SYS_recvfrom, MSG_NOSIGNAL, MSG_WAITALL, MSG_ZEROCOPY, SHUT_WR, SOL_SOCKET, SOL_TCP,
};

use super::zcopy::{
    anonymous, await_reader, client, counted, forget, given_back, pins, recv_awaited, server,
    Counters, Room, MIB,
};
use crate::case::Case;
use crate::child;
use crate::netns::{limit_locked_memory, Sysctl};
use crate::pages::PAGE;
use crate::payload::bytes;
use crate::role::Role;
use crate::sock::Sock;
use crate::uapi;
use crate::world::Family;

/// Longer than any case.
const FOR_EVER: &str = "600000";

/// The length of a large room: less than what readers offer.
const LEN: usize = MIB - PAGE;

/// More small rooms than a device has regions by default.
const MANY: usize = 100;

/// While this exists, this host keeps registrations for so many milliseconds.
fn keeping(t: &Role, millis: &str) -> Option<Sysctl> {
    (t.family == Family::Sdp).then(|| Sysctl::set("sdp/zcopy_keep_ms", millis))
}

/// Sends to a reader that waits: to one that is late the bytes are sent without an offer.
fn send(t: &Role, s: &Sock, room: &mut Room, seed: u64) {
    await_reader(t);
    send_at_once(t, s, room, seed);
}

fn send_at_once(t: &Role, s: &Sock, room: &mut Room, seed: u64) {
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

/// A reader that waits reads what is offered, and does not offer its own memory, which would not be
/// kept.
fn reader(t: &Role) -> Sock {
    let s = server(t);
    if t.family == Family::Sdp {
        s.set(SOL_TCP, uapi::SDP_ZCOPY_SINK_THRESH, &(MIB as c_int)).expect("the threshold");
    }
    s
}

/// Reads `count` rooms of `len` bytes, which were sent with the seeds from 0 on.
fn read_rooms(t: &Role, count: u64, len: usize) {
    let s = reader(t);
    let mut room = vec![0; len];
    for seed in 0..count {
        assert_eq!(recv_awaited(t, || s.recv(&mut room, MSG_WAITALL)), Ok(len));
        assert!(room == bytes(seed, len), "room {seed} differs");
    }
    t.holds("all came", true);
    t.meet("end");
}

/// Reads large rooms to the end.
fn read_rooms_to_end(t: &Role) {
    let s = reader(t);
    let mut room = vec![0; LEN];
    for seed in 0.. {
        let got = recv_awaited(t, || s.recv(&mut room, MSG_WAITALL)).expect("recv");
        if got == 0 {
            break;
        }
        assert_eq!(got, LEN, "received in one go");
        assert!(room == bytes(seed, LEN), "room {seed} differs");
    }
    t.holds("all came", true);
    t.meet("end");
}

/// The end of the stream for such a reader.
fn end(t: &Role, s: &Sock) {
    await_reader(t);
    s.shutdown(SHUT_WR).expect("shutdown");
    t.meet("end");
}

/// Receives the other side's bytes into `room`; they are sent when the reader waits.
fn recv_asked(t: &Role, s: &Sock, room: &mut Room, seed: u64) {
    let len = room.bytes().len();
    let ask = |_| t.tell("more", true);
    let got = t.while_asleep(&[SYS_recvfrom], ask, || s.recv(room.bytes(), MSG_WAITALL));
    assert_eq!(got, Ok(len));
    assert!(room.bytes() == bytes(seed, len), "room {seed} differs");
}

fn recv_no_more(t: &Role) {
    t.holds("all came", true);
    t.tell("more", false);
    t.meet("end");
}

fn send_when_told(t: &Role) {
    let s = client(t);
    let mut room = Room::new(0, LEN);
    for seed in 0.. {
        if !t.hear::<bool>("more") {
            break;
        }
        send_at_once(t, &s, &mut room, seed);
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
    Case::two("kept_for_sends_of_the_same_room", read_rooms_to_end, |t| {
        let _knob = keeping(t, FOR_EVER);
        let s = client(t);
        let mut room = Room::new(0, LEN);
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
        end(t, &s);
    })
    .two_hosts(),
    Case::two(
        "kept_not_by_default",
        |t| read_rooms(t, 3, LEN),
        |t| {
            let s = client(t);
            let mut room = Room::new(0, LEN);
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
        |t| read_rooms(t, 4, LEN),
        |t| {
            let _knob = keeping(t, FOR_EVER);
            let s = client(t);
            let mut room = Room::new(0, LEN);
            let at = room.pages.as_mut_ptr() as usize;
            counted(
                t,
                || {
                    send(t, &s, &mut room, 0);
                    anonymous(at, LEN);
                    send(t, &s, &mut room, 1);
                    forget(at + LEN - PAGE, PAGE);
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
        |t| read_rooms(t, 2, LEN),
        |t| {
            let _knob = keeping(t, FOR_EVER);
            let s = client(t);
            let mut room = Room::new(0, LEN);
            send(t, &s, &mut room, 0);
            let at = room.pages.as_mut_ptr() as usize;
            let child = child::spawn(|| {
                // SAFETY: the copy of the room, which is as long.
                let copy = unsafe { std::slice::from_raw_parts_mut(at as *mut u8, LEN) };
                assert!(copy == bytes(0, LEN), "the child has its own");
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
            let s = reader(t);
            let mut room = Room::new(0, LEN);
            counted(
                t,
                || {
                    until_kept(t, hit_often(t), |seed| recv_asked(t, &s, &mut room, seed));
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
            let s = reader(t);
            let mut room = Room::new(0, LEN);
            let at = room.pages.as_mut_ptr() as usize;
            for seed in 0..4 {
                recv_asked(t, &s, &mut room, seed);
                anonymous(at + 5 * PAGE * seed as usize, 9 * PAGE);
            }
            recv_no_more(t);
        },
        send_when_told,
    )
    .two_hosts(),
    Case::two("kept_no_longer_than_the_knob_says", read_rooms_to_end, |t| {
        let _knob = keeping(t, "1000");
        let s = client(t);
        let before = pins();
        let counters = Counters::now(t);
        let mut room = Room::new(0, LEN);
        let sent = send_until_kept(t, &s, &mut room);
        if t.family == Family::Sdp {
            let over = || counters.since(t, "kept_expirations") > 0;
            assert!(t.until(over), "it is given up on time");
        }
        send(t, &s, &mut room, sent);
        end(t, &s);
        given_back(t, before);
    })
    .two_hosts(),
    Case::two("kept_no_longer_than_the_connection", read_rooms_to_end, |t| {
        let _knob = keeping(t, FOR_EVER);
        let before = pins();
        let s = client(t);
        let counters = Counters::now(t);
        send_until_kept(t, &s, &mut Room::new(0, LEN));
        end(t, &s);
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
                    await_reader(t);
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
