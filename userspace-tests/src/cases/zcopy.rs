// SPDX-License-Identifier: MIT
//! Zero copy streams, and interruptions of them. On TCP the same scripts define the expected data;
//! on SDP the counters show the path.

use std::collections::HashMap;
use std::{fs, io, ptr, thread};

use libc::{
    SYS_recvfrom, SYS_recvmsg, SYS_sendto, MSG_DONTWAIT, MSG_NOSIGNAL, MSG_PEEK, MSG_WAITALL,
    POLLIN, SHUT_WR, SIGUSR1, SOL_TCP, SO_SNDTIMEO,
};

use crate::blocked::kill_thread;
use crate::case::Case;
use crate::child::{self, Child};
use crate::errno::{Errno, Res};
use crate::link::Delay;
use crate::pages::{Cliff, PAGE};
use crate::payload::{bytes, Digest};
use crate::pipes::Pipe;
use crate::role::{Role, LIMIT};
use crate::signal;
use crate::sock::Sock;
use crate::uapi;
use crate::world::{Family, Ip};

pub(super) const MIB: usize = 1 << 20;

/// Sizes around a page, the threshold, one region and several of them.
pub(super) const SIZES: &[usize] = &[
    1,
    4095,
    4096,
    4097,
    8191,
    8192,
    8193,
    65_535,
    65_536,
    65_537,
    MIB - 4096,
    MIB - 1,
    MIB,
    MIB + 1,
    MIB + 4097,
    2 * MIB + 5000,
];

/// Sizes of many regions, for longer runs.
const LONG_SIZES: &[usize] =
    &[4 * MIB - 1, 4 * MIB, 4 * MIB + 1, 5 * MIB + 4095, 16 * MIB + 4097, 64 * MIB];

/// Sends of all pieces in `zcopy_of_pieces_into_pieces`.
const TURNS: u64 = 8;

/// The pieces of memory of one message; and of another message of the same length.
const PIECES: &[usize] = &[100, 8192, 3, 70_000, 4096, 0, 1, 300_000, 4095, 4097, 65_536];
const OTHER_PIECES: &[usize] = &[65_536, 1, 0, 200_000, 4096, 12_000, 8192, 166_295];

/// The offsets in a page of the first byte, at the sender and at the receiver.
pub(super) const PLACES: &[(usize, usize)] = &[(0, 0), (1, 0), (0, 1), (4095, 2048)];

/// A socket that uses zero copy from a page on, if possible.
pub(super) fn socket(t: &Role) -> Sock {
    let sock = t.socket();
    if t.family == Family::Sdp {
        sock.set(SOL_TCP, uapi::SDP_ZCOPY_THRESH, &4096).expect("SDP_ZCOPY_THRESH");
    }
    sock
}

pub(super) fn server(t: &Role) -> Sock {
    let listener = socket(t);
    listener.bind(&t.here(0)).expect("bind");
    listener.listen(1).expect("listen");
    t.tell("port", t.port_of(&listener));
    let sock = listener.accept().expect("accept");
    t.meet("connected");
    sock
}

pub(super) fn client(t: &Role) -> Sock {
    let port = t.hear("port");
    let sock = socket(t);
    sock.connect(&t.there(port)).expect("connect");
    t.meet("connected");
    sock
}

/// The counters of the host.
pub(super) struct Counters(HashMap<String, i64>);

impl Counters {
    pub(super) fn now(t: &Role) -> Self {
        let text = if t.family == Family::Sdp {
            fs::read_to_string("/proc/thread-self/net/sdpstats").expect("sdpstats")
        } else {
            String::new()
        };
        let words = |line: &str| {
            let (name, value) = line.split_once(' ')?;
            Some((name.to_string(), value.trim().parse().ok()?))
        };
        Counters(text.lines().filter_map(words).collect())
    }

    /// The increase since then.
    pub(super) fn since(&self, t: &Role, name: &str) -> i64 {
        let now = Counters::now(t);
        now.0[name] - self.0[name]
    }
}

/// Runs the script and, on SDP, checks the counters.
pub(super) fn counted(t: &Role, script: impl FnOnce(), check: impl FnOnce(&dyn Fn(&str) -> i64)) {
    let before = Counters::now(t);
    script();
    if t.family == Family::Sdp {
        check(&|name| before.since(t, name));
    }
}

/// The numbers of pinned and released pages, of the whole machine.
pub(super) fn pins() -> (i64, i64) {
    // Adds up the counts of all processors. A kernel for one processor has no such file.
    match fs::read_to_string("/proc/sys/vm/stat_refresh") {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
        refreshed => drop(refreshed.expect("stat_refresh")),
    }
    let text = fs::read_to_string("/proc/vmstat").expect("vmstat");
    let of = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.expect("a counter of pins").trim().parse().expect("a number")
    };
    (of("nr_foll_pin_acquired"), of("nr_foll_pin_released"))
}

/// Makes a call that receives, and tells the other side when it waits for bytes: a reader that is not
/// there in 20 ms is sent copies, and which of two loaded processes comes first is chance.
pub(super) fn recv_awaited<T>(t: &Role, recv: impl FnOnce() -> T) -> T {
    t.while_asleep(&[SYS_recvfrom, SYS_recvmsg], |_| t.say("reads"), recv)
}

/// Waits for the reader in [`recv_awaited`].
pub(super) fn await_reader(t: &Role) {
    t.wait("reads");
}

/// Runs `transfer` on both sides until each finds that enough went without a copy, for transfers
/// between two that do not wait for each other. To a reader that is late, on a loaded machine, copies
/// are sent, but not each time.
pub(super) fn until_uncopied(t: &Role, mut transfer: impl FnMut() -> bool) {
    for _ in 0..10 {
        let enough = transfer();
        t.tell("enough", enough);
        if t.hear::<bool>("enough") && enough {
            return;
        }
    }
    panic!("the bytes are copied each time");
}

/// A writer's offers that the reader was late for, and those that were not made because of it.
pub(super) fn late_for(of: &dyn Fn(&str) -> i64) -> i64 {
    of("adverts_declined") + of("adverts_recalled") + of("adverts_unused")
}

/// All pages that were pinned since `before` (from [`pins`]) have been released.
pub(super) fn given_back(t: &Role, before: (i64, i64)) {
    let back = || {
        let (acquired, released) = pins();
        acquired - before.0 == released - before.1
    };
    assert!(t.until(back), "pinned and given back: {before:?}, {:?}", pins());
}

/// While this exists, the other host is on the list of peers with which everything is copied.
struct Excepted(bool);

impl Excepted {
    const PATH: &str = "/proc/sys/net/sdp/zcopy_except";

    fn new(t: &Role) -> Self {
        if t.family == Family::Sdp {
            let (ip, network) = match t.ip {
                Ip::V4 => ("10.9.8.0/33", "192.0.2.1, 10.0.0.0/30\n"),
                Ip::V6 => ("fd00::/129", "fd01::/16 fd00::/120,2001:db8::1\n"),
            };
            for wrong in [ip, "10.0.0", "fd00::1/", "all", "10.0.0.1/x"] {
                let refused = fs::write(Self::PATH, wrong).map_err(|e| e.raw_os_error());
                assert_eq!(refused, Err(Some(libc::EINVAL)), "{wrong}");
            }
            fs::write(Self::PATH, network).expect("zcopy_except");
            assert_eq!(fs::read_to_string(Self::PATH).expect("zcopy_except"), network);
        }
        Excepted(t.family == Family::Sdp)
    }
}

impl Drop for Excepted {
    fn drop(&mut self) {
        if self.0 {
            fs::write(Self::PATH, "\n").expect("zcopy_except");
        }
    }
}

/// Memory with its first byte at the offset `place` of a page.
pub(super) struct Room {
    pub(super) pages: Cliff,
    place: usize,
    len: usize,
}

impl Room {
    pub(super) fn new(place: usize, len: usize) -> Self {
        Room { pages: Cliff::new((place + len).div_ceil(PAGE)), place, len }
    }

    /// With the bytes of `seed`.
    pub(super) fn filled(seed: u64, place: usize, len: usize) -> Self {
        let mut room = Room::new(place, len);
        room.bytes().copy_from_slice(&bytes(seed, len));
        room
    }

    pub(super) fn bytes(&mut self) -> &mut [u8] {
        &mut self.pages.bytes()[self.place..self.place + self.len]
    }
}

pub(super) fn send_sizes(sizes: &[usize], mut send: impl FnMut(&[u8])) {
    for (turn, &(place, _)) in PLACES.iter().enumerate() {
        for &size in sizes {
            let mut room = Room::filled((size + turn) as u64, place, size);
            send(room.bytes());
        }
    }
}

pub(super) fn recv_sizes(sizes: &[usize], s: &Sock) {
    for turn in 0..PLACES.len() {
        compare(turn, recv_turn(turn, sizes, s));
    }
}

/// Receives the bytes of one turn of [`send_sizes`].
fn recv_turn(turn: usize, sizes: &[usize], s: &Sock) -> Vec<Room> {
    let (_, place) = PLACES[turn];
    let recv = |&size| {
        let mut room = Room::new(place, size);
        let got = s.recv(room.bytes(), MSG_WAITALL).expect("recv");
        assert_eq!(got, size, "received in one go");
        room
    };
    sizes.iter().map(recv).collect()
}

fn compare(turn: usize, rooms: Vec<Room>) {
    for mut room in rooms {
        let (size, place) = (room.len, room.place);
        let want = bytes((size + turn) as u64, size);
        assert!(room.bytes() == want, "{size} bytes at {place} differ");
    }
}

fn all_sizes() -> i64 {
    (SIZES.iter().sum::<usize>() * PLACES.len()) as i64
}

/// Bytes received without a copy, according to the counters.
pub(super) fn received_uncopied(of: &dyn Fn(&str) -> i64) -> i64 {
    of("zcopy_bytes_received") + of("written_bytes_received")
}

/// All received bytes.
pub(super) fn received(of: &dyn Fn(&str) -> i64) -> i64 {
    received_uncopied(of) + of("fetched_bytes_received") + of("bcopy_bytes_received")
}

pub(super) fn sent_uncopied(of: &dyn Fn(&str) -> i64) -> i64 {
    of("zcopy_bytes_sent") + of("written_bytes_sent")
}

pub(super) fn sent(of: &dyn Fn(&str) -> i64) -> i64 {
    let copied = of("bcopy_bytes_sent") + of("copied_bytes_written");
    sent_uncopied(of) + of("gathered_bytes_sent") + copied
}

/// Sends while the other side does not read; once the call sleeps, `poke` is applied. Returns the
/// result of `send()`.
fn stuck(t: &Role, s: &Sock, len: usize, poke: impl FnOnce(i32) + Send) -> Result<usize, Errno> {
    let data = bytes(3, len);
    t.while_asleep(&[SYS_sendto], poke, || s.send(&data, MSG_NOSIGNAL))
}

/// Reads to the end; the bytes must be a prefix of the pattern.
pub(super) fn drain(t: &Role, s: &Sock, seed: u64, len: usize) {
    let got = t.recv_to_end(s);
    assert!(got.len() <= len, "{} of {len} bytes came", got.len());
    assert!(got[..] == bytes(seed, len)[..got.len()], "the bytes differ");
    t.tell("came", got.len());
}

/// Has `recv` receive the bytes of [`send_to_changing`], while `change` changes the destination
/// memory after its pages were pinned and before the bytes arrive.
pub(super) fn recv_amid(
    t: &Role,
    recv: impl FnOnce() -> Res<usize>,
    change: impl FnOnce() + Send,
) -> Res<usize> {
    let before = Counters::now(t);
    let delay = (t.family == Family::Sdp).then(Delay::start);
    let pinned = || before.since(t, "region_hits") + before.since(t, "region_misses") > 0;
    let then = move |_| {
        t.say("send");
        assert!(t.family != Family::Sdp || t.until(pinned), "the room is pinned");
        change();
        if t.family != Family::Sdp {
            t.say("changed");
        }
    };
    let got = t.while_asleep(&[SYS_recvfrom], then, recv);
    drop(delay);
    got
}

/// Receives a mebibyte like this. The bytes must be in the memory that is mapped afterwards.
pub(super) fn recv_into_changing(
    t: &Role,
    s: &Sock,
    room: &mut [u8],
    change: impl FnOnce() + Send,
) {
    t.eq("recv", recv_amid(t, || s.recv(room, MSG_WAITALL), change), Ok(MIB));
    t.holds("the bytes", room == bytes(6, MIB));
}

pub(super) fn send_to_changing(t: &Role) {
    let s = client(t);
    t.wait("send");
    if t.family != Family::Sdp {
        t.wait("changed");
    }
    // Page aligned, so that one advertisement covers all.
    let mut room = Room::filled(6, 0, MIB);
    t.send_all(&s, room.bytes());
    t.meet("end");
}

/// Changes of memory.
pub(super) fn anonymous(at: usize, len: usize) {
    // SAFETY: replaces pages of a mapping of ours by fresh ones.
    let new = unsafe {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        libc::mmap(at as *mut libc::c_void, len, access, flags, -1, 0)
    };
    assert!(new as usize == at, "mmap");
}

pub(super) fn forget(at: usize, len: usize) {
    // SAFETY: the pages are of a mapping of ours.
    let result = unsafe { libc::madvise(at as *mut libc::c_void, len, libc::MADV_DONTNEED) };
    assert!(result == 0, "madvise");
}

/// A program with two threads reads into its room, and executes another one when it hears a word.
fn read_until_told(s: &Sock, word: &Pipe) -> ! {
    thread::scope(|threads| {
        threads.spawn(|| {
            word.take(1);
            let arguments = [c"true".as_ptr(), ptr::null()];
            // SAFETY: a C string, and a list of C strings that ends.
            unsafe { libc::execv(c"/bin/true".as_ptr(), arguments.as_ptr()) };
            panic!("/bin/true: {}", io::Error::last_os_error());
        });
        let mut room = vec![0; MIB];
        let _ = s.recv(&mut room, MSG_WAITALL);
        // TCP may have delivered all bytes.
        loop {
            // SAFETY: waits for the end.
            unsafe { libc::pause() };
        }
    })
}

/// `leave` ends a reader while bytes are in flight to it. Another process has its socket, and gets them.
fn reader_goes(t: &Role, leave: impl FnOnce(Child, &Pipe)) {
    let s = server(t);
    let before = Counters::now(t);
    let word = Pipe::new();
    let child = child::spawn(|| read_until_told(&s, &word));
    t.await_asleep(child.pid(), child.pid(), &[SYS_recvfrom]);
    let sdp = t.family == Family::Sdp;
    let delay = sdp.then(Delay::start);
    t.say("send");
    let pinned = || before.since(t, "region_hits") + before.since(t, "region_misses") > 0;
    assert!(!sdp || t.until(pinned), "the room is pinned");
    leave(child, &word);
    drop(delay);
    t.say("gone");
    let came = t.recv_to_end(&s);
    // Over TCP the child may have read all of them before it went.
    t.holds("the bytes", bytes(1, MIB).ends_with(&came) && !(sdp && came.is_empty()));
}

fn write_to_one_that_goes(t: &Role) {
    let s = client(t);
    t.wait("send");
    t.send_all(&s, &bytes(1, MIB));
    t.wait("gone");
    s.shutdown(SHUT_WR).expect("shutdown");
}

pub const CASES: &[Case] = &[
    Case::two(
        "zcopy_of_every_border_size",
        |t| {
            let s = server(t);
            until_uncopied(t, || {
                let before = Counters::now(t);
                t.meet("counted");
                // Checked at the end, because a slow reader would get messages instead.
                let turns = 0..PLACES.len();
                let rooms: Vec<_> = turns.map(|turn| recv_turn(turn, SIZES, &s)).collect();
                for (turn, rooms) in rooms.into_iter().enumerate() {
                    compare(turn, rooms);
                }
                t.meet("end");
                if t.family != Family::Sdp {
                    return true;
                }
                let of = |name: &str| before.since(t, name);
                assert_eq!(received(&of), all_sizes());
                assert_eq!(of("changed_bytes"), 0);
                received_uncopied(&of) > all_sizes() * 9 / 10
            });
        },
        |t| {
            let s = client(t);
            until_uncopied(t, || {
                let before = Counters::now(t);
                t.meet("counted");
                send_sizes(SIZES, |data| t.send_all(&s, data));
                t.meet("end");
                if t.family != Family::Sdp {
                    return true;
                }
                let of = |name: &str| before.since(t, name);
                assert_eq!(sent(&of), all_sizes());
                assert_eq!(of("pin_failures"), 0);
                let enough = sent_uncopied(&of) > all_sizes() * 9 / 10;
                assert!(enough || late_for(&of) > 0, "copied to a reader that was there");
                enough
            });
        },
    )
    .both_versions(),
    Case::two(
        "zcopy_of_a_mebibyte_copies_nothing",
        |t| {
            let s = server(t);
            let mut room = Room::new(0, MIB);
            counted(
                t,
                || {
                    let got = recv_awaited(t, || s.recv(room.bytes(), MSG_WAITALL));
                    t.eq("recv", got, Ok(MIB));
                },
                |of| {
                    assert_eq!(of("zcopy_bytes_received"), MIB as i64);
                    assert_eq!(of("bcopy_bytes_received"), 0);
                    assert_eq!(of("fetched_bytes_received"), 0);
                    assert_eq!(of("changed_bytes"), 0);
                },
            );
            t.holds("the bytes", room.bytes() == bytes(1, MIB));
            t.meet("end");
        },
        |t| {
            let s = client(t);
            let mut room = Room::filled(1, 0, MIB);
            await_reader(t);
            counted(
                t,
                || t.eq("send", s.send(room.bytes(), MSG_NOSIGNAL), Ok(MIB)),
                |of| {
                    assert_eq!(of("zcopy_bytes_sent"), MIB as i64);
                    assert_eq!(of("bcopy_bytes_sent"), 0);
                    assert_eq!(of("gathered_bytes_sent"), 0);
                },
            );
            t.meet("end");
        },
    ),
    Case::two(
        "zcopy_of_long_sizes",
        |t| {
            let s = server(t);
            recv_sizes(LONG_SIZES, &s);
            t.meet("end");
        },
        |t| {
            let s = client(t);
            send_sizes(LONG_SIZES, |data| t.send_all(&s, data));
            t.meet("end");
        },
    )
    .long(300),
    Case::two(
        "zcopy_of_pieces_into_pieces",
        |t| {
            let s = server(t);
            let total = PIECES.iter().sum();
            for turn in 0..TURNS {
                let mut rooms: Vec<_> = OTHER_PIECES.iter().map(|&len| vec![0; len]).collect();
                let mut parts: Vec<_> = rooms.iter_mut().map(Vec::as_mut_slice).collect();
                let recv = || s.recvmsg(&mut parts, MSG_WAITALL);
                let got = recv_awaited(t, recv).expect("recvmsg");
                assert_eq!(got.count, total, "received in one go");
                t.holds("the bytes", rooms.concat() == bytes(turn, total));
            }
            t.meet("end");
        },
        |t| {
            let s = client(t);
            let total = PIECES.iter().sum();
            assert_eq!(total, OTHER_PIECES.iter().sum::<usize>());
            counted(
                t,
                || {
                    for turn in 0..TURNS {
                        let data = bytes(turn, total);
                        let (mut parts, mut rest) = (Vec::new(), &data[..]);
                        for &len in PIECES {
                            let (part, behind) = rest.split_at(len);
                            parts.push(part);
                            rest = behind;
                        }
                        await_reader(t);
                        t.eq("sendmsg", s.sendmsg(&parts, MSG_NOSIGNAL), Ok(total));
                    }
                },
                |of| assert!(sent_uncopied(of) > total as i64, "not by copies"),
            );
            t.meet("end");
        },
    ),
    Case::two(
        "zcopy_not_with_a_peer_who_is_excepted",
        |t| {
            let s = server(t);
            let mut room = Room::new(0, MIB);
            counted(
                t,
                || {
                    t.meet("counted");
                    t.eq("recv", s.recv(room.bytes(), MSG_WAITALL), Ok(MIB));
                },
                |of| {
                    assert_eq!(of("bcopy_bytes_received"), MIB as i64);
                    assert_eq!(of("adverts_received") + of("sinks_sent"), 0);
                },
            );
            t.holds("the bytes", room.bytes() == bytes(2, MIB));
            t.meet("end");
        },
        |t| {
            let _knob = Excepted::new(t);
            let s = client(t);
            let mut room = Room::filled(2, 0, MIB);
            t.meet("counted");
            t.send_all(&s, room.bytes());
            t.meet("end");
        },
    )
    .both_versions(),
    Case::two(
        "zcopy_into_small_rooms",
        |t| {
            let s = server(t);
            let mut digest = Digest::default();
            for room in [3, 5000, 9000, 100_000, 300_000].iter().cycle() {
                let mut data = vec![0; *room];
                match s.recv(&mut data, 0).expect("recv") {
                    0 => break,
                    got => digest.add(&data[..got]),
                }
            }
            t.see("data", digest.text());
        },
        |t| {
            let s = client(t);
            for turn in 0..4 {
                t.send_all(&s, &bytes(turn, MIB + 77));
            }
            s.shutdown(SHUT_WR).expect("shutdown");
            t.await_events(&s, POLLIN);
        },
    ),
    Case::two(
        "zcopy_of_many_sends_into_one_recv",
        |t| {
            let s = server(t);
            let mut data = vec![0; 3 * 300_000];
            t.eq("recv", s.recv(&mut data, MSG_WAITALL), Ok(900_000));
            t.see("data", Digest::of(&data));
            t.meet("end");
        },
        |t| {
            let s = client(t);
            for turn in 0..3 {
                t.send_all(&s, &bytes(turn, 300_000));
            }
            t.meet("end");
        },
    ),
    Case::two(
        "zcopy_both_ways_at_once",
        |t| both_ways(t, &server(t), 1, 2),
        |t| both_ways(t, &client(t), 2, 1),
    ),
    Case::two(
        "zcopy_with_a_peek",
        |t| {
            let s = server(t);
            let mut head = vec![0; 10_000];
            let got = s.recv(&mut head, MSG_PEEK).expect("peek");
            assert!(got > 0 && head[..got] == bytes(5, MIB)[..got], "peeked bytes");
            let mut data = vec![0; MIB];
            t.eq("recv", s.recv(&mut data, MSG_WAITALL), Ok(MIB));
            t.holds("the bytes", data == bytes(5, MIB));
            t.meet("end");
        },
        |t| {
            let s = client(t);
            t.send_all(&s, &bytes(5, MIB));
            t.meet("end");
        },
    ),
    Case::two(
        "zcopy_to_a_reader_who_does_not_wait",
        |t| {
            let s = server(t);
            let mut digest = Digest::default();
            let mut room = vec![0; 100_000];
            loop {
                t.await_events(&s, POLLIN);
                match s.recv(&mut room, MSG_DONTWAIT) {
                    Ok(0) => break,
                    Ok(got) => digest.add(&room[..got]),
                    Err(errno) => assert_eq!(errno, Errno(libc::EAGAIN)),
                }
            }
            t.see("data", digest.text());
        },
        |t| {
            let s = client(t);
            for turn in 0..3 {
                t.send_all(&s, &bytes(turn, MIB));
            }
            s.shutdown(SHUT_WR).expect("shutdown");
            t.await_events(&s, POLLIN);
        },
    ),
    Case::two(
        "zcopy_send_is_interrupted_with_an_exact_count",
        |t| {
            let s = server(t);
            t.wait("interrupted");
            drain(t, &s, 3, 16 * MIB);
        },
        |t| {
            let s = client(t);
            signal::catch(SIGUSR1, false);
            let poke = |thread| kill_thread(thread, SIGUSR1).expect("tgkill");
            let sent = stuck(t, &s, 16 * MIB, poke);
            let sent = sent.unwrap_or_else(|errno| {
                assert_eq!(errno, Errno(libc::EINTR));
                0
            });
            s.shutdown(SHUT_WR).expect("shutdown");
            t.say("interrupted");
            assert_eq!(t.hear::<usize>("came"), sent, "what send() said it has sent");
        },
    ),
    Case::two(
        "zcopy_send_runs_out_of_time_with_an_exact_count",
        |t| {
            let s = server(t);
            t.wait("out of time");
            drain(t, &s, 3, 16 * MIB);
        },
        |t| {
            let s = client(t);
            s.set_timeout(SO_SNDTIMEO, LIMIT).expect("SO_SNDTIMEO");
            let sent = s.send(&bytes(3, 16 * MIB), MSG_NOSIGNAL).unwrap_or_else(|errno| {
                assert_eq!(errno, Errno(libc::EAGAIN));
                0
            });
            assert!(sent < 16 * MIB, "the peer has not read");
            s.shutdown(SHUT_WR).expect("shutdown");
            t.say("out of time");
            assert_eq!(t.hear::<usize>("came"), sent, "what send() said it has sent");
        },
    ),
    Case::two(
        "zcopy_sender_is_killed",
        |t| {
            let s = server(t);
            t.wait("killed");
            let got = loop {
                let mut room = vec![0; 65_536];
                match s.recv(&mut room, 0) {
                    Ok(0) | Err(_) => break true,
                    Ok(_) => {}
                }
            };
            t.holds("it ends", got);
        },
        |t| {
            let s = client(t);
            let child = child::spawn(|| {
                let _ = s.send(&bytes(3, 16 * MIB), MSG_NOSIGNAL);
            });
            t.await_asleep(child.pid(), child.pid(), &[SYS_sendto]);
            s.close().expect("close");
            child.kill();
            t.say("killed");
        },
    ),
    Case::two(
        "zcopy_receiver_is_killed",
        |t| {
            let s = server(t);
            let child = child::spawn(|| {
                let mut room = vec![0; 16 * MIB];
                let _ = s.recv(&mut room, MSG_WAITALL);
            });
            t.await_asleep(child.pid(), child.pid(), &[SYS_recvfrom]);
            s.close().expect("close");
            t.say("send");
            t.wait("under way");
            child.kill();
        },
        |t| {
            let s = client(t);
            t.wait("send");
            t.send_all(&s, &bytes(1, 2 * MIB));
            t.say("under way");
            let ended = t.until(|| s.send(&bytes(1, MIB), MSG_NOSIGNAL).is_err());
            t.holds("it ends", ended);
        },
    ),
    Case::two(
        "zcopy_reader_that_is_killed_leaves_its_bytes_to_others",
        |t| reader_goes(t, |child, _| child.kill()),
        write_to_one_that_goes,
    )
    .late_packets(),
    Case::two(
        "zcopy_reader_whose_program_executes_another_leaves_its_bytes_to_others",
        |t| {
            reader_goes(t, |child, word| {
                word.put(b"!");
                child.join();
            });
        },
        write_to_one_that_goes,
    )
    .late_packets(),
    Case::two(
        "zcopy_into_memory_that_is_mapped_anew",
        |t| {
            let s = server(t);
            let mut room = Room::new(100, MIB);
            let at = room.pages.as_mut_ptr() as usize;
            counted(
                t,
                || recv_into_changing(t, &s, room.bytes(), || anonymous(at + 4 * PAGE, 9 * PAGE)),
                |of| assert_eq!(of("changed_bytes"), 9 * PAGE as i64),
            );
            t.meet("end");
        },
        send_to_changing,
    )
    .late_packets(),
    Case::two(
        "zcopy_into_memory_that_is_given_back",
        |t| {
            let s = server(t);
            let mut room = Room::new(0, MIB);
            room.bytes().fill(1);
            let at = room.pages.as_mut_ptr() as usize;
            counted(
                t,
                || recv_into_changing(t, &s, room.bytes(), || forget(at, 20 * PAGE)),
                |of| assert_eq!(of("changed_bytes"), 20 * PAGE as i64),
            );
            t.meet("end");
        },
        send_to_changing,
    )
    .late_packets(),
    Case::two(
        "zcopy_into_memory_of_which_a_fork_has_a_copy",
        |t| {
            let s = server(t);
            let mut room = Room::new(0, MIB);
            room.bytes().fill(1);
            let at = room.pages.as_mut_ptr() as usize;
            let fork = || {
                let child = child::spawn(|| {
                    // SAFETY: the copy of the room, which is as long.
                    let copy = unsafe { std::slice::from_raw_parts(at as *const u8, MIB) };
                    assert!(copy.iter().all(|&byte| byte == 1), "the child has its own");
                });
                child.join();
            };
            recv_into_changing(t, &s, room.bytes(), fork);
            t.meet("end");
        },
        send_to_changing,
    )
    .late_packets(),
    Case::two(
        "zcopy_into_a_room_that_ends_early",
        |t| {
            let s = server(t);
            let room = Cliff::new(8);
            let mut got = 0;
            let want = 8 * PAGE;
            while got < want {
                // SAFETY: the kernel checks; behind the room there is nothing.
                let at = unsafe { room.as_mut_ptr().add(got) };
                // TCP delivers a packet completely or not at all.
                got += match s.recv_raw(at, MIB, 0) {
                    Err(Errno(libc::EFAULT)) => s.recv_raw(at, want - got, 0).expect("recv"),
                    result => result.expect("recv"),
                };
            }
            t.eq("until the edge", got, want);
            t.err("beyond", s.recv_raw(room.beyond(), MIB, 0), libc::EFAULT);
            let rest = t.recv_exactly(&s, MIB - want);
            t.holds("the rest is there", rest == bytes(9, MIB)[want..]);
            let mut room = room;
            t.holds("the bytes", room.bytes() == &bytes(9, MIB)[..want]);
            t.meet("end");
        },
        |t| {
            let s = client(t);
            t.send_all(&s, &bytes(9, MIB));
            t.meet("end");
        },
    ),
    Case::two(
        "zcopy_from_memory_that_ends_early",
        |t| {
            let s = server(t);
            let got = t.recv_to_end(&s);
            t.eq("came", got.len(), 32 * PAGE);
            t.holds("the bytes", got == bytes(4, 32 * PAGE));
        },
        |t| {
            let s = client(t);
            let mut memory = Cliff::new(32);
            memory.bytes().copy_from_slice(&bytes(4, 32 * PAGE));
            let mut sent = 0;
            while sent < 32 * PAGE {
                // SAFETY: the kernel checks; behind the memory there is nothing.
                let at = unsafe { memory.as_mut_ptr().add(sent) };
                sent += s.send_raw(at, MIB, MSG_NOSIGNAL).expect("send");
            }
            t.eq("until the edge", sent, 32 * PAGE);
            t.err("beyond", s.send_raw(memory.beyond(), MIB, MSG_NOSIGNAL), libc::EFAULT);
            s.shutdown(SHUT_WR).expect("shutdown");
            t.await_events(&s, POLLIN);
        },
    ),
];

/// Both sides send first and then read, which must not deadlock.
fn both_ways(t: &Role, s: &Sock, own: u64, other: u64) {
    for _ in 0..4 {
        let came = std::thread::scope(|scope| {
            scope.spawn(|| t.send_all(s, &bytes(own, MIB)));
            t.recv_exactly(s, MIB)
        });
        assert!(came == bytes(other, MIB), "the bytes differ");
    }
    t.holds("all came", true);
    t.meet("end");
}
