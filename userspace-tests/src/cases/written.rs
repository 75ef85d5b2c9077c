// SPDX-License-Identifier: MIT
//! Readers that come before the bytes: they advertise their memory, and the peer writes to it. On
//! TCP the same scripts define the expected data; on SDP the counters show the path.

use std::mem::offset_of;

use libc::{
    SYS_recvfrom, MSG_NOSIGNAL, MSG_WAITALL, POLLIN, SHUT_RD, SHUT_WR, SIGUSR1, SOL_TCP,
    SO_RCVTIMEO,
};

use super::zcopy::{anonymous, client, counted, given_back, pins, server, Counters, Room, MIB};
use crate::blocked::kill_thread;
use crate::case::Case;
use crate::child;
use crate::pages::PAGE;
use crate::payload::bytes;
use crate::role::{Role, LIMIT};
use crate::signal;
use crate::sock::Sock;
use crate::uapi;
use crate::world::Family;

/// Prepares a writer and an early reader: afterwards both are in Pipelined mode, and a waiting
/// reader advertises its memory.
pub(super) fn read_early(t: &Role, s: &Sock) {
    for turn in 0..2 {
        let mut room = Room::new(0, MIB);
        let wake = |_| t.say("early");
        let recv = || s.recv(room.bytes(), MSG_WAITALL);
        t.eq("recv", t.while_asleep(&[SYS_recvfrom], wake, recv), Ok(MIB));
        t.holds("the bytes", room.bytes() == bytes(turn, MIB));
    }
}

fn write_late(t: &Role, s: &Sock) {
    for turn in 0..2 {
        t.wait("early");
        t.send_all(s, &bytes(turn, MIB));
    }
}

/// Waits for an advertisement after `before`.
pub(super) fn await_offer(t: &Role, before: &Counters) {
    if t.family == Family::Sdp {
        let out = t.until(|| before.since(t, "sinks_sent") > 0);
        assert!(out, "the memory is offered");
    }
}

/// Receives into `room` while it is advertised; calls `then` once it is.
fn recv_offered(
    t: &Role,
    s: &Sock,
    room: &mut [u8],
    flags: i32,
    then: impl FnOnce(i32) + Send,
) -> crate::errno::Res<usize> {
    let before = Counters::now(t);
    let when_out = move |thread| {
        await_offer(t, &before);
        then(thread);
    };
    t.while_asleep(&[SYS_recvfrom], when_out, || s.recv(room, flags))
}

/// Waits for the offer of a [`recv_offered`] that begins when this has read the counters. The other
/// side tells when it is made, which may be before it is here.
fn hear_offer(t: &Role) {
    let before = Counters::now(t);
    t.say("looked");
    t.wait("offered");
    let here = || before.since(t, "sinks_received") > before.since(t, "sinks_stale");
    assert!(t.family != Family::Sdp || t.until(here), "the offer is here");
}

/// The end of a case: `count` bytes arrive at a reader normally.
pub(super) fn goes_on(t: &Role, s: &Sock, seed: u64, count: usize) {
    let came = t.recv_exactly(s, count);
    t.holds("it goes on", came == bytes(seed, count));
    t.meet("end");
}

fn send_on(t: &Role, s: &Sock, seed: u64, count: usize) {
    t.send_all(s, &bytes(seed, count));
    t.meet("end");
}

/// A writer that comes after the mapping of the advertised memory has changed.
fn write_to_changed(t: &Role, seed: u64) {
    let s = client(t);
    write_late(t, &s);
    t.wait("changed");
    send_on(t, &s, seed, MIB / 2);
}

/// A writer that comes after the reader's advertisement has ended.
pub(super) fn write_afterwards(t: &Role, seed: u64) {
    let s = client(t);
    write_late(t, &s);
    t.wait("send");
    send_on(t, &s, seed, MIB);
}

/// Has `recv` advertise its room and withdraw the advertisement, for the reason that `cause`
/// counts.
fn taken_back(t: &Role, cause: &str, recv: impl FnOnce(&mut [u8])) {
    let mut room = Room::new(0, MIB);
    counted(
        t,
        || recv(room.bytes()),
        |of| {
            assert_eq!((of("sinks_sent"), of("sinks_returned")), (1, 1));
            assert_eq!(of(cause), 1);
        },
    );
}

/// The socket's counter, which must equal the increase of the host's counter.
fn traffic(s: &Sock, at: usize) -> u64 {
    s.get_as(SOL_TCP, uapi::SDP_TRAFFIC, [0u64; 8]).expect("SDP_TRAFFIC")[at]
}

/// Offsets in `struct sdp_traffic`.
const WRITTEN_BYTES_SENT: usize = offset_of!(uapi::sdp_traffic, written_bytes_sent) / 8;
const WRITTEN_BYTES_RECEIVED: usize = offset_of!(uapi::sdp_traffic, written_bytes_received) / 8;

pub const CASES: &[Case] = &[
    Case::two(
        "written_into_an_early_reader",
        |t| {
            let s = server(t);
            read_early(t, &s);
            let mut room = Room::new(100, MIB / 2);
            t.wait("looked");
            counted(
                t,
                || {
                    let offered = |_| t.say("offered");
                    let got = recv_offered(t, &s, room.bytes(), MSG_WAITALL, offered);
                    t.eq("recv", got, Ok(MIB / 2));
                },
                |of| {
                    assert_eq!(of("written_bytes_received"), (MIB / 2) as i64);
                    assert_eq!(of("zcopy_bytes_received"), 0);
                    assert_eq!(of("bcopy_bytes_received"), 0);
                    assert_eq!(of("changed_bytes"), 0);
                    assert_eq!((of("sinks_sent"), of("sinks_used")), (1, 1));
                    assert!(traffic(&s, WRITTEN_BYTES_RECEIVED) >= (MIB / 2) as u64);
                },
            );
            t.holds("the bytes", room.bytes() == bytes(7, MIB / 2));
            t.meet("end");
        },
        |t| {
            let s = client(t);
            write_late(t, &s);
            hear_offer(t);
            let data = bytes(7, MIB / 2);
            counted(
                t,
                || t.eq("send", s.send(&data, MSG_NOSIGNAL), Ok(MIB / 2)),
                |of| {
                    assert_eq!(of("written_bytes_sent"), (MIB / 2) as i64);
                    assert_eq!(of("adverts_sent"), 0);
                    assert_eq!(of("bcopy_bytes_sent") + of("copied_bytes_written"), 0);
                    assert!(traffic(&s, WRITTEN_BYTES_SENT) >= (MIB / 2) as u64);
                },
            );
            t.meet("end");
        },
    )
    .both_versions(),
    Case::two(
        "written_until_the_reader_has_all",
        |t| {
            let s = server(t);
            read_early(t, &s);
            let len = 3 * MIB + 12345;
            let mut room = Room::new(1, len);
            let offered = |_| t.say("offered");
            let got = recv_offered(t, &s, room.bytes(), MSG_WAITALL, offered);
            t.eq("recv", got, Ok(len));
            t.holds("the bytes", room.bytes() == bytes(8, len));
            t.meet("end");
        },
        |t| {
            let s = client(t);
            write_late(t, &s);
            t.wait("offered");
            let data = bytes(8, 3 * MIB + 12345);
            // Few bytes, many, few: by messages, by Writes, and by any path.
            for part in [&data[..100], &data[100..MIB], &data[MIB..MIB + 5000], &data[MIB + 5000..]]
            {
                t.send_all(&s, part);
            }
            t.meet("end");
        },
    ),
    Case::two(
        "written_little_into_much_room",
        |t| {
            let s = server(t);
            read_early(t, &s);
            let mut room = Room::new(0, MIB);
            t.wait("looked");
            counted(
                t,
                || {
                    let offered = |_| t.say("offered");
                    t.eq("recv", recv_offered(t, &s, room.bytes(), 0, offered), Ok(100));
                },
                |of| {
                    assert_eq!(of("bcopy_bytes_received"), 100);
                    assert_eq!((of("sinks_sent"), of("sinks_discarded")), (1, 1));
                },
            );
            t.holds("the bytes", room.bytes()[..100] == bytes(9, 100));
            t.say("received");
            goes_on(t, &s, 10, 2 * MIB);
        },
        |t| {
            let s = client(t);
            write_late(t, &s);
            // A message that crosses the offer does not use it up.
            hear_offer(t);
            t.send_all(&s, &bytes(9, 100));
            // A reader that wakes late would also get the following bytes, as on TCP.
            t.wait("received");
            send_on(t, &s, 10, 2 * MIB);
        },
    ),
    Case::two(
        "written_reader_is_interrupted",
        |t| {
            let s = server(t);
            read_early(t, &s);
            signal::catch(SIGUSR1, false);
            taken_back(t, "cancels_by_signal", |room| {
                let poke = |thread| kill_thread(thread, SIGUSR1).expect("tgkill");
                t.err("recv", recv_offered(t, &s, room, 0, poke), libc::EINTR);
            });
            t.say("send");
            goes_on(t, &s, 11, MIB);
        },
        |t| write_afterwards(t, 11),
    ),
    Case::two(
        "written_reader_runs_out_of_time",
        |t| {
            let s = server(t);
            read_early(t, &s);
            s.set_timeout(SO_RCVTIMEO, LIMIT).expect("SO_RCVTIMEO");
            taken_back(t, "cancels_by_timeout", |room| {
                t.err("recv", s.recv(room, 0), libc::EAGAIN);
            });
            s.set_timeout(SO_RCVTIMEO, 0).expect("SO_RCVTIMEO");
            t.say("send");
            goes_on(t, &s, 12, MIB);
        },
        |t| write_afterwards(t, 12),
    ),
    Case::two(
        "written_reader_is_killed",
        |t| {
            let s = server(t);
            read_early(t, &s);
            let before = Counters::now(t);
            let child = child::spawn(|| {
                let mut room = vec![0; MIB];
                let _ = s.recv(&mut room, MSG_WAITALL);
            });
            t.await_asleep(child.pid(), child.pid(), &[SYS_recvfrom]);
            await_offer(t, &before);
            child.kill();
            t.say("send");
            goes_on(t, &s, 13, MIB);
        },
        |t| write_afterwards(t, 13),
    ),
    Case::two(
        "written_reader_sees_the_end",
        |t| {
            let s = server(t);
            read_early(t, &s);
            let mut room = Room::new(0, MIB);
            let offered = |_| t.say("offered");
            t.eq("recv", recv_offered(t, &s, room.bytes(), 0, offered), Ok(0));
        },
        |t| {
            let s = client(t);
            write_late(t, &s);
            t.wait("offered");
            s.shutdown(SHUT_WR).expect("shutdown");
            t.await_events(&s, POLLIN);
        },
    ),
    Case::two(
        "written_reader_is_shut_down",
        |t| {
            let s = server(t);
            read_early(t, &s);
            let mut room = Room::new(0, MIB);
            let shut = |_| s.shutdown(SHUT_RD).expect("shutdown");
            t.eq("recv", recv_offered(t, &s, room.bytes(), 0, shut), Ok(0));
            t.meet("end");
        },
        |t| {
            let s = client(t);
            write_late(t, &s);
            t.meet("end");
        },
    ),
    Case::two(
        "written_reader_loses_its_peer",
        |t| {
            let s = server(t);
            read_early(t, &s);
            let mut room = Room::new(0, MIB);
            let offered = |_| t.say("offered");
            let got = recv_offered(t, &s, room.bytes(), 0, offered);
            t.err("recv", got, libc::ECONNRESET);
        },
        |t| {
            let s = client(t);
            write_late(t, &s);
            t.wait("offered");
            s.set_linger(true, 0).expect("SO_LINGER");
            s.close().expect("close");
        },
    ),
    Case::two(
        "written_into_memory_that_is_mapped_anew",
        |t| {
            let s = server(t);
            read_early(t, &s);
            let mut room = Room::new(100, MIB / 2);
            let at = room.pages.as_mut_ptr() as usize;
            counted(
                t,
                || {
                    let change = |_| {
                        anonymous(at + 4 * PAGE, 9 * PAGE);
                        t.say("changed");
                    };
                    let got = recv_offered(t, &s, room.bytes(), MSG_WAITALL, change);
                    t.eq("recv", got, Ok(MIB / 2));
                },
                |of| assert_eq!(of("changed_bytes"), 9 * PAGE as i64),
            );
            t.holds("the bytes", room.bytes() == bytes(14, MIB / 2));
            t.meet("end");
        },
        |t| write_to_changed(t, 14),
    ),
    Case::two(
        "written_into_memory_of_which_a_fork_has_a_copy",
        |t| {
            let s = server(t);
            read_early(t, &s);
            let mut room = Room::new(0, MIB / 2);
            room.bytes().fill(1);
            let at = room.pages.as_mut_ptr() as usize;
            let fork = |_| {
                let child = child::spawn(|| {
                    // SAFETY: the copy of the room, which is as long.
                    let copy = unsafe { std::slice::from_raw_parts(at as *const u8, MIB / 2) };
                    assert!(copy.iter().all(|&byte| byte == 1), "the child has its own");
                });
                child.join();
                t.say("changed");
            };
            let got = recv_offered(t, &s, room.bytes(), MSG_WAITALL, fork);
            t.eq("recv", got, Ok(MIB / 2));
            t.holds("the bytes", room.bytes() == bytes(15, MIB / 2));
            t.meet("end");
        },
        |t| write_to_changed(t, 15),
    ),
    Case::two(
        "written_both_ways_at_once",
        |t| both_ways(t, &server(t), 1, 2),
        |t| both_ways(t, &client(t), 2, 1),
    ),
    Case::two(
        "written_and_read_pages_are_given_back",
        |t| {
            let s = server(t);
            let before = pins();
            read_early(t, &s);
            given_back(t, before);
            t.meet("end");
        },
        |t| {
            let s = client(t);
            write_late(t, &s);
            t.meet("end");
        },
    ),
];

/// Both sides have a reader that always waits, and write large and small amounts and single bytes.
fn both_ways(t: &Role, s: &Sock, own: u64, other: u64) {
    for size in [MIB, 5000, 3 * MIB, 65_536, MIB + 1] {
        let came = std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let mut room = vec![0; size];
                assert_eq!(s.recv(&mut room, MSG_WAITALL), Ok(size), "received in one go");
                room
            });
            t.send_all(s, &bytes(own, size));
            reader.join().expect("the reader")
        });
        assert!(came == bytes(other, size), "{size} bytes differ");
    }
    t.holds("all came", true);
    t.meet("end");
}
