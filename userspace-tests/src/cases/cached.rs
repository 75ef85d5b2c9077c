// SPDX-License-Identifier: MIT
//! The translation cache: memory stays pinned between calls, and each change of it counts in the next
//! call, and in the one that is under way. On TCP the same scripts define the expected data.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use std::{ptr, thread};

use libc::{
    c_int, c_void, SYS_recvfrom, MSG_NOSIGNAL, MSG_WAITALL, MSG_ZEROCOPY, PROT_EXEC, PROT_NONE,
    PROT_READ, PROT_WRITE, SHUT_WR, SOL_SOCKET, SOL_TCP,
};

use super::remapped::{relocate, Mapping, MemoryFile};
use super::zcopy::{
    anonymous, await_reader, client, counted, forget, given_back, pins, recv_awaited, server,
    Counters, Room, MIB,
};
use crate::case::Case;
use crate::child;
use crate::errno::Errno;
use crate::netns::{limit_locked_memory, Sysctl};
use crate::pages::PAGE;
use crate::payload::bytes;
use crate::pipes::Pipe;
use crate::role::Role;
use crate::sock::Sock;
use crate::uapi;
use crate::world::Family;

/// The length of a large room: less than what readers offer.
const LEN: usize = MIB - PAGE;

/// Sends to a reader that waits: to one that is late the bytes are sent without an offer.
fn send(t: &Role, s: &Sock, room: &mut Room, seed: u64) {
    let data = bytes(seed, room.bytes().len());
    room.bytes().copy_from_slice(&data);
    send_as_it_is(t, s, room);
}

fn send_as_it_is(t: &Role, s: &Sock, room: &mut Room) {
    await_reader(t);
    t.send_all(s, room.bytes());
}

/// Whether the cache had memory of this host since `before`.
fn is_hit(t: &Role, before: &Counters) -> bool {
    before.since(t, "cache_hits") > 0
}

/// Runs `turn` until the cache has the memory, because a reader that is late is sent copies. On TCP some
/// times.
fn until_hit(t: &Role, mut turn: impl FnMut()) {
    let before = Counters::now(t);
    for count in 0..20 {
        turn();
        if t.family == Family::Sdp && is_hit(t, &before) || t.family != Family::Sdp && count > 1 {
            return;
        }
    }
    let seen = ["cache_hits", "cache_misses", "adverts_received", "bcopy_bytes_received"]
        .map(|name| format!("{name} {}", before.since(t, name)));
    panic!("the cache has nothing: {}", seen.join(", "));
}

/// A reader that waits reads what is offered, and does not offer its own memory.
fn reader(t: &Role) -> Sock {
    let s = server(t);
    if t.family == Family::Sdp {
        s.set(SOL_TCP, uapi::SDP_ZCOPY_SINK_THRESH, &(MIB as c_int)).expect("the threshold");
    }
    s
}

/// Reads rooms of `len` bytes to the end, which were sent with the seeds from 0 on.
fn read_rooms_of(t: &Role, len: usize) {
    let s = reader(t);
    let mut room = vec![0; len];
    for seed in 0.. {
        let got = recv_awaited(t, || s.recv(&mut room, MSG_WAITALL)).expect("recv");
        if got == 0 {
            break;
        }
        assert_eq!(got, len, "received in one go");
        assert!(room == bytes(seed, len), "room {seed} differs");
    }
    t.holds("all came", true);
    t.meet("end");
}

fn read_rooms(t: &Role) {
    read_rooms_of(t, LEN);
}

/// The end of the stream for such a reader.
fn end(t: &Role, s: &Sock) {
    await_reader(t);
    s.shutdown(SHUT_WR).expect("shutdown");
    t.meet("end");
}

/// The next seed. Both sides count them.
fn next(seeds: &mut std::ops::RangeFrom<u64>) -> u64 {
    seeds.next().expect("a seed")
}

/// Sends a room until the cache has it. `change` changes it, and leaves the bytes there that it is given;
/// they are sent. All of it twice: the second time the changed memory is cached. With `told` the cache
/// hears of the change.
fn send_changed(t: &Role, told: bool, change: impl Fn(&Role, &mut Room, &[u8])) {
    let s = client(t);
    let mut room = Room::new(0, LEN);
    let mut seeds = 0..;
    for _ in 0..2 {
        until_hit(t, || send(t, &s, &mut room, next(&mut seeds)));
        let seed = next(&mut seeds);
        let before = Counters::now(t);
        change(t, &mut room, &bytes(seed, LEN));
        if told && t.family == Family::Sdp {
            assert!(t.until(|| before.since(t, "cache_stale") > 0), "the change was not told");
        }
        send_as_it_is(t, &s, &mut room);
    }
    end(t, &s);
}

/// A case for a change of what is sent.
macro_rules! sent {
    ($name:literal, $told:expr, $change:expr) => {
        Case::two($name, read_rooms, |t| send_changed(t, $told, $change)).two_hosts()
    };
}

/// Receives the other side's bytes into the memory at `at`, which has `LEN` bytes; they are sent when the
/// reader waits and `amid` has been called.
fn recv_asked(t: &Role, s: &Sock, at: usize, seed: u64, amid: impl FnOnce() + Send) {
    let ask = |_| {
        amid();
        t.tell("more", true);
    };
    // SAFETY: a mapping of the caller's with so many bytes.
    let room = unsafe { std::slice::from_raw_parts_mut(at as *mut u8, LEN) };
    let got = t.while_asleep(&[SYS_recvfrom], ask, || s.recv(room, MSG_WAITALL));
    assert_eq!(got, Ok(LEN));
    // SAFETY: as above; it may be another mapping by now.
    let room = unsafe { std::slice::from_raw_parts(at as *const u8, LEN) };
    assert!(room == bytes(seed, LEN), "room {seed} differs");
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
        room.bytes().copy_from_slice(&bytes(seed, LEN));
        t.send_all(&s, room.bytes());
    }
    t.meet("end");
}

/// Receives into a room until the cache has it, and once more with a `change`: before the call, or with
/// `amid` while it waits. All of it twice: the second time the changed memory is cached.
fn recv_changed(t: &Role, s: &Sock, amid: bool, change: fn(usize)) {
    let room = Room::new(0, LEN);
    let at = place(&room);
    let mut seeds = 0..;
    for _ in 0..2 {
        until_hit(t, || recv_asked(t, s, at, next(&mut seeds), || {}));
        if !amid {
            change(at);
        }
        recv_asked(t, s, at, next(&mut seeds), || {
            if amid {
                change(at);
            }
        });
    }
    recv_no_more(t);
}

/// A case for a change of memory between two calls that receive by Reads.
macro_rules! received {
    ($name:literal, $change:expr) => {
        Case::two($name, |t| recv_changed(t, &reader(t), false, $change), send_when_told)
            .two_hosts()
    };
}

/// The same for one while the memory is offered to the peer, which writes there afterwards.
macro_rules! offered {
    ($name:literal, $change:expr) => {
        Case::two($name, |t| recv_changed(t, &server(t), true, $change), send_when_told).two_hosts()
    };
}

/// The place of a room.
fn place(room: &Room) -> usize {
    room.pages.as_mut_ptr() as usize
}

fn protect(at: usize, len: usize, access: c_int) {
    // SAFETY: pages of a mapping of ours, which are not used meanwhile.
    assert_eq!(unsafe { libc::mprotect(at as *mut c_void, len, access) }, 0, "mprotect");
}

/// Has the kernel write the pages to its swap space, if it can.
fn page_out(at: usize, len: usize) {
    // SAFETY: advice on a mapping of ours.
    assert_eq!(unsafe { libc::madvise(at as *mut c_void, len, libc::MADV_PAGEOUT) }, 0, "madvise");
}

fn unmap(at: usize) {
    // SAFETY: a mapping of ours, which no code uses meanwhile.
    assert_eq!(unsafe { libc::munmap(at as *mut c_void, LEN) }, 0, "munmap");
}

/// Unmaps the memory, and maps other memory there.
fn map_anew(at: usize) {
    unmap(at);
    anonymous(at, LEN);
}

/// Moves the pages away, and fresh ones to their place. Returns their mapping.
fn move_away(at: usize) -> Mapping {
    let elsewhere = Mapping::new(libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1);
    relocate(at, LEN, elsewhere.place());
    anonymous(at, LEN);
    elsewhere
}

/// A child writes to its copy of the memory, which has `data`.
fn fork(at: usize, data: &[u8]) {
    let child = child::spawn(|| {
        // SAFETY: the copy of the memory, which is as long.
        let copy = unsafe { std::slice::from_raw_parts_mut(at as *mut u8, LEN) };
        assert!(copy == data, "the child has its own");
        copy.fill(7);
    });
    child.join();
}

/// Another thread has the kernel touch the mapping again and again, and never changes a byte
/// or takes a right away.
fn restless<T>(at: usize, script: impl FnOnce() -> T) -> T {
    let over = AtomicBool::new(false);
    thread::scope(|threads| {
        threads.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                for access in [PROT_EXEC, 0] {
                    protect(at + 3 * PAGE, 5 * PAGE, PROT_READ | PROT_WRITE | access);
                }
                page_out(at + 9 * PAGE, 9 * PAGE);
                thread::sleep(Duration::from_millis(2));
            }
        });
        let result = script();
        over.store(true, Ordering::Relaxed);
        result
    })
}

/// Receives a room during such changes.
fn restless_recv(t: &Role, s: &Sock, at: usize, seed: u64) {
    restless(at, || recv_asked(t, s, at, seed, || {}));
}

/// A child sends rooms until the cache has one, and ends in the way of `leave`. Another process has its
/// socket. Nothing of it stays pinned.
fn leave_cached(t: &Role, leave: fn()) {
    let before = pins();
    let s = client(t);
    let sent = Pipe::new();
    let child = child::spawn(|| {
        let (mut room, mut seed) = (Room::new(0, LEN), 0);
        until_hit(t, || {
            send(t, &s, &mut room, seed);
            seed += 1;
        });
        sent.put(&seed.to_le_bytes());
        leave();
    });
    let seed = sent.take(8).try_into().map(u64::from_le_bytes).expect("a number");
    child.join();
    given_back(t, before);
    let mut room = Room::new(0, LEN);
    send(t, &s, &mut room, seed);
    end(t, &s);
}

pub const CASES: &[Case] = &[
    sent!("cached_until_it_is_unmapped", true, |_, room, data| {
        map_anew(place(room));
        room.bytes().copy_from_slice(data);
    }),
    sent!("cached_until_it_is_mapped_over", true, |_, room, data| {
        anonymous(place(room) + 7 * PAGE, PAGE);
        room.bytes().copy_from_slice(data);
    }),
    sent!("cached_until_it_is_forgotten", true, |_, room, data| {
        forget(place(room), LEN);
        room.bytes().copy_from_slice(data);
    }),
    sent!("cached_until_its_last_page_is_forgotten", true, |_, room, data| {
        forget(place(room) + LEN - PAGE, PAGE);
        room.bytes().copy_from_slice(data);
    }),
    sent!("cached_until_it_is_moved", true, |_, room, data| {
        room.bytes().fill(7);
        drop(move_away(place(room)));
        room.bytes().copy_from_slice(data);
    }),
    sent!("cached_until_it_is_moved_back", true, |_, room, data| {
        room.bytes().copy_from_slice(data);
        let elsewhere = move_away(place(room));
        relocate(elsewhere.place(), LEN, place(room));
    }),
    sent!("cached_until_it_is_protected", true, |_, room, data| {
        room.bytes().copy_from_slice(data);
        protect(place(room), LEN, PROT_READ);
        protect(place(room), LEN, PROT_READ | PROT_WRITE);
    }),
    sent!("cached_while_it_is_paged_out", false, |_, room, data| {
        room.bytes().copy_from_slice(data);
        page_out(place(room), LEN);
    }),
    sent!("cached_until_a_fork", true, |_, room, data| {
        room.bytes().copy_from_slice(data);
        fork(place(room), data);
    }),
    sent!("cached_until_another_thread_maps_over_it", true, |_, room, data| {
        let at = place(room);
        thread::scope(|threads| threads.spawn(|| map_anew(at)).join().expect("the thread"));
        room.bytes().copy_from_slice(data);
    }),
    Case::two("cached_amid_changes_without_effect", read_rooms, |t| {
        let s = client(t);
        let mut room = Room::new(0, LEN);
        let at = place(&room);
        for seed in 0..30 {
            room.bytes().copy_from_slice(&bytes(seed, LEN));
            restless(at, || send_as_it_is(t, &s, &mut room));
        }
        end(t, &s);
    })
    .two_hosts(),
    received!("cached_room_is_unmapped", map_anew),
    received!("cached_room_is_forgotten", |at| forget(at + PAGE, 9 * PAGE)),
    received!("cached_room_is_moved", |at| drop(move_away(at))),
    received!("cached_room_is_protected_for_a_while", |at| {
        protect(at, LEN, PROT_NONE);
        protect(at, LEN, PROT_READ | PROT_WRITE);
    }),
    received!("cached_room_is_paged_out", |at| page_out(at, LEN)),
    received!("cached_room_has_a_copy_of_a_fork", |at| {
        // SAFETY: the room, which has as many bytes.
        let data = unsafe { std::slice::from_raw_parts(at as *const u8, LEN) }.to_vec();
        fork(at, &data);
    }),
    offered!("cached_room_is_unmapped_while_it_is_offered", map_anew),
    offered!("cached_room_is_forgotten_while_it_is_offered", |at| forget(at + PAGE, 9 * PAGE)),
    offered!("cached_room_is_moved_while_it_is_offered", |at| drop(move_away(at))),
    offered!("cached_room_is_paged_out_while_it_is_offered", |at| page_out(at, LEN)),
    offered!("cached_room_is_protected_for_a_while_while_it_is_offered", |at| {
        protect(at, LEN, PROT_NONE);
        protect(at, LEN, PROT_READ | PROT_WRITE);
    }),
    Case::two(
        "cached_room_amid_changes_without_effect",
        |t| {
            let s = server(t);
            let room = Room::new(0, LEN);
            let at = place(&room);
            for seed in 0..30 {
                restless_recv(t, &s, at, seed);
            }
            recv_no_more(t);
        },
        send_when_told,
    )
    .two_hosts(),
    Case::two("cached_until_a_program_ends", read_rooms, |t| leave_cached(t, || {})).two_hosts(),
    Case::two("cached_until_a_program_executes_another", read_rooms, |t| {
        leave_cached(t, || {
            let arguments = [c"true".as_ptr(), ptr::null()];
            // SAFETY: a C string, and a list of C strings that ends.
            unsafe { libc::execv(c"/bin/true".as_ptr(), arguments.as_ptr()) };
            panic!("/bin/true: {}", std::io::Error::last_os_error());
        });
    })
    .two_hosts(),
    Case::two("cached_no_longer_than_it_is_used", read_rooms, |t| {
        let before = pins();
        let s = client(t);
        let (mut room, mut seed) = (Room::new(0, LEN), 0);
        let counters = Counters::now(t);
        until_hit(t, || {
            send(t, &s, &mut room, seed);
            seed += 1;
        });
        if t.family == Family::Sdp {
            assert_eq!(counters.since(t, "cache_pages"), (LEN / PAGE) as i64);
            assert!(t.until(|| counters.since(t, "cache_expirations") == 1), "it stays");
            assert_eq!(counters.since(t, "cache_pages"), 0);
        }
        given_back(t, before);
        send(t, &s, &mut room, seed);
        end(t, &s);
    })
    .two_hosts(),
    Case::two("cached_not_where_it_is_off", read_rooms, |t| {
        let _knob = (t.family == Family::Sdp).then(|| Sysctl::set("sdp/zcopy_cache", "0"));
        let s = client(t);
        let mut room = Room::new(0, LEN);
        counted(
            t,
            || (0..4).for_each(|seed| send(t, &s, &mut room, seed)),
            |of| assert_eq!(of("cache_hits") + of("cache_misses") + of("cache_pages"), 0),
        );
        end(t, &s);
    })
    .two_hosts(),
    Case::two("cached_not_if_a_file_has_it", read_rooms, |t| {
        let s = client(t);
        let file = MemoryFile::new();
        let mut memory = Mapping::new(libc::MAP_SHARED, file.0);
        counted(
            t,
            || {
                for seed in 0..4 {
                    file.write(&bytes(seed, LEN));
                    await_reader(t);
                    t.send_all(&s, &memory.room()[..LEN]);
                }
            },
            |of| assert_eq!(of("cache_hits") + of("cache_pages"), 0),
        );
        // SAFETY: integers only.
        assert_eq!(unsafe { libc::ftruncate(file.0, 0) }, 0, "ftruncate");
        let refused = s.send(&memory.room()[..LEN], MSG_NOSIGNAL);
        t.eq("send", refused, Err(Errno(libc::EFAULT)));
        end(t, &s);
    })
    .two_hosts(),
    Case::two("cached_until_it_is_gone", read_rooms, |t| {
        let s = client(t);
        let (mut room, mut seed) = (Room::new(0, LEN), 0);
        until_hit(t, || {
            send(t, &s, &mut room, seed);
            seed += 1;
        });
        let at = place(&room);
        unmap(at);
        t.eq("send", s.send(room.bytes(), MSG_NOSIGNAL), Err(Errno(libc::EFAULT)));
        anonymous(at, LEN);
        send(t, &s, &mut room, seed);
        end(t, &s);
    })
    .two_hosts(),
    Case::two(
        "cached_memory_gives_way_to_what_can_be_locked",
        |t| read_rooms_of(t, 32 * PAGE),
        |t| {
            let s = client(t);
            s.set(SOL_SOCKET, libc::SO_ZEROCOPY, &1).expect("SO_ZEROCOPY");
            // Two rooms, with two more pages each.
            limit_locked_memory(80 * PAGE as u64).expect("the limit");
            let mut rooms: Vec<_> = (0..4).map(|_| Room::new(0, 32 * PAGE)).collect();
            let data = bytes(12, 32 * PAGE);
            counted(
                t,
                || {
                    for seed in 0..12 {
                        send(t, &s, &mut rooms[seed % 4], seed as u64);
                    }
                    await_reader(t);
                    // Lent memory is charged by the core.
                    let lent = s.send(&data, MSG_ZEROCOPY | MSG_NOSIGNAL).expect("lent");
                    t.send_all(&s, &data[lent..]);
                },
                |of| {
                    assert_eq!(of("pin_failures") + of("region_shortages"), 0);
                    assert!(of("cache_evictions") >= 3, "{} gave way", of("cache_evictions"));
                },
            );
            end(t, &s);
        },
    )
    .two_hosts(),
    Case::two("cached_memory_stays_under_a_limit_that_is_lowered", read_rooms, |t| {
        let s = client(t);
        let (mut room, mut seed) = (Room::new(0, LEN), 0);
        until_hit(t, || {
            send(t, &s, &mut room, seed);
            seed += 1;
        });
        limit_locked_memory(0).expect("the limit");
        send(t, &s, &mut room, seed);
        // It cannot be pinned again.
        anonymous(place(&room), LEN);
        send(t, &s, &mut room, seed + 1);
        end(t, &s);
    })
    .two_hosts(),
];
