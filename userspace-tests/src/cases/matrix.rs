// SPDX-License-Identifier: MIT
//! Every way to send with every way to receive, in both directions of one connection, in sizes
//! around every limit. The bytes of each stream are compared completely; on SDP the counters show
//! their path.

use libc::{EAGAIN, MSG_DONTWAIT, MSG_NOSIGNAL, MSG_WAITALL, POLLIN, POLLOUT, SOL_SOCKET};

use io_uring::{cqueue, opcode};

use super::lent::{lend, told_since, SO_ZEROCOPY};
use super::uring::{fd, recv, Ring};
use super::zcopy::{client, late_for, received, received_uncopied, sent, sent_uncopied, server};
use super::zcopy::{until_uncopied, Counters, Room, MIB, PLACES};
use crate::case::Case;
use crate::errno::Errno;
use crate::payload::bytes;
use crate::role::Role;
use crate::sock::Sock;
use crate::world::Family;

/// Sizes around a page (which is the threshold, too), the payload of a message with small and with
/// large receive buffers, with and without the header of a `SrcAvail`, and one region.
const SIZES: &[usize] = &[
    1,
    2,
    4095,
    4096,
    4097,
    8159,
    8160,
    8161,
    8175,
    8176,
    8177,
    32_735,
    32_736,
    32_737,
    32_751,
    32_752,
    32_753,
    65_536,
    65_537,
    MIB - 1,
    MIB,
    MIB + 1,
];

/// Around the maximum length of one `SrcAvail`.
const MOST: &[usize] = &[4 * MIB - 1, 4 * MIB, 4 * MIB + 1];

/// Pieces of a message, and buffer sizes of a reader that takes whatever is available.
const PIECES: &[usize] = &[8192, 3, 70_000, 0, 4096, 1, 300_000];
const ROOMS: &[usize] = &[3, 5000, 9000, 100_000, 300_000];

#[derive(Clone, Copy, PartialEq)]
enum Writer {
    Waits,
    Gathers,
    Polls,
    Lends,
    Rings,
}

#[derive(Clone, Copy, PartialEq)]
enum Reader {
    /// For the length of one send.
    Waits,
    /// For the same length, in pieces of memory.
    Scatters,
    /// For a smaller or larger length.
    Otherwise,
    Polls,
    Rings,
}

const READERS: &[Reader] =
    &[Reader::Waits, Reader::Scatters, Reader::Otherwise, Reader::Polls, Reader::Rings];

/// One end of the connection.
struct End<'a> {
    t: &'a Role,
    s: Sock,
    sizes: &'a [usize],
    /// Number of calls with `MSG_ZEROCOPY`.
    lent: u32,
    streams: usize,
    /// Kept to the end, because closing a ring wakes threads that wait in a call.
    ring: Option<Ring>,
}

impl<'a> End<'a> {
    fn new(t: &'a Role, s: Sock, sizes: &'a [usize]) -> Self {
        s.set(SOL_SOCKET, SO_ZEROCOPY, &1).expect("SO_ZEROCOPY");
        End { t, s, sizes, lent: 0, streams: 0, ring: None }
    }

    /// A stream from this end to the other one, or back.
    fn stream(&mut self, writer: Writer, reader: Reader, from_here: bool) {
        until_uncopied(self.t, || self.stream_once(writer, reader, from_here));
    }

    /// The same once; whether enough went without a copy.
    fn stream_once(&mut self, writer: Writer, reader: Reader, from_here: bool) -> bool {
        let t = self.t;
        let total: usize = self.sizes.iter().sum();
        let (out, back) = PLACES[self.streams % PLACES.len()];
        let data = bytes(self.streams as u64, total);
        self.streams += 1;
        let before = Counters::now(t);
        t.meet("counted");
        if from_here {
            let mut room = Room::new(out, total);
            room.bytes().copy_from_slice(&data);
            self.write_all(writer, room.bytes());
        } else {
            let mut room = Room::new(back, total);
            self.read_all(reader, room.bytes());
            // Not observed: streams are repeated on SDP alone.
            assert!(room.bytes() == data, "other bytes came");
        }
        t.meet("over");
        if t.family != Family::Sdp {
            return true;
        }
        let of = |name: &str| before.since(t, name);
        if from_here {
            way_of_the_writer(t, writer, reader, total as i64, &of)
        } else {
            way_of_the_reader(t, writer, reader, total as i64, &of)
        }
    }

    fn write_all(&mut self, writer: Writer, data: &[u8]) {
        let (t, s) = (self.t, &self.s);
        let before = self.lent;
        let mut rest = data;
        for &size in self.sizes {
            let (part, behind) = rest.split_at(size);
            rest = behind;
            match writer {
                Writer::Waits => assert_eq!(s.send(part, MSG_NOSIGNAL), Ok(size)),
                Writer::Gathers => {
                    let parts = pieces(part);
                    assert_eq!(s.sendmsg(&parts, MSG_NOSIGNAL), Ok(size));
                }
                Writer::Polls => push(t, s, part),
                Writer::Lends => self.lent += lend(s, part),
                Writer::Rings => {
                    let ring = self.ring.get_or_insert_with(Ring::new);
                    let entry = opcode::SendZc::new(fd(s), part.as_ptr(), size as u32);
                    ring.submit(entry.flags(MSG_WAITALL | MSG_NOSIGNAL).build(), 1);
                    let (_, sent, flags) = ring.next_flagged();
                    assert_eq!(sent, Ok(size as i32));
                    if cqueue::more(flags) {
                        assert!(cqueue::notif(ring.next_raw().2), "a notice");
                    }
                }
            }
        }
        if writer == Writer::Lends {
            told_since(t, s, before..self.lent);
        }
    }

    fn read_all(&mut self, reader: Reader, room: &mut [u8]) {
        let (t, s) = (self.t, &self.s);
        let mut rest = room;
        let mut sizes = match reader {
            Reader::Waits | Reader::Scatters => self.sizes,
            Reader::Otherwise | Reader::Polls | Reader::Rings => ROOMS,
        }
        .iter()
        .cycle();
        while !rest.is_empty() {
            let size = rest.len().min(*sizes.next().expect("they go round"));
            let part = &mut rest[..size];
            let got = match reader {
                Reader::Waits => s.recv(part, MSG_WAITALL).expect("recv"),
                Reader::Scatters => {
                    let mut parts = rooms(part);
                    s.recvmsg(&mut parts, MSG_WAITALL).expect("recvmsg").count
                }
                Reader::Otherwise => s.recv(part, 0).expect("recv"),
                Reader::Polls => pull(t, s, part),
                Reader::Rings => {
                    let ring = self.ring.get_or_insert_with(Ring::new);
                    ring.run(recv(s, part).build()).expect("recv") as usize
                }
            };
            let whole = matches!(reader, Reader::Waits | Reader::Scatters);
            assert!(got == size || got > 0 && !whole, "{got} of {size} bytes");
            rest = &mut rest[got..];
        }
    }
}

/// Sends without blocking.
fn push(t: &Role, s: &Sock, mut data: &[u8]) {
    while !data.is_empty() {
        match s.send(data, MSG_NOSIGNAL | MSG_DONTWAIT) {
            Ok(count) => data = &data[count..],
            Err(errno) => {
                assert_eq!(errno, Errno(EAGAIN));
                t.await_events(s, POLLOUT);
            }
        }
    }
}

fn pull(t: &Role, s: &Sock, room: &mut [u8]) -> usize {
    loop {
        match s.recv(room, MSG_DONTWAIT) {
            Ok(count) => return count,
            Err(errno) => {
                assert_eq!(errno, Errno(EAGAIN));
                t.await_events(s, POLLIN);
            }
        }
    }
}

fn pieces(mut data: &[u8]) -> Vec<&[u8]> {
    let mut parts = Vec::new();
    for &len in PIECES.iter().cycle() {
        let (part, behind) = data.split_at(len.min(data.len()));
        parts.push(part);
        data = behind;
        if data.is_empty() {
            break;
        }
    }
    parts
}

fn rooms(mut room: &mut [u8]) -> Vec<&mut [u8]> {
    let mut parts = Vec::new();
    for &len in PIECES.iter().rev().cycle() {
        let (part, behind) = room.split_at_mut(len.min(room.len()));
        parts.push(part);
        room = behind;
        if room.is_empty() {
            break;
        }
    }
    parts
}

/// Each byte is counted once, on the writer's path only. Whether enough went without a copy.
fn way_of_the_writer(
    t: &Role,
    writer: Writer,
    reader: Reader,
    total: i64,
    of: &dyn Fn(&str) -> i64,
) -> bool {
    assert!(t.until(|| sent(of) == total), "{} of {total} bytes are counted", sent(of));
    assert_eq!((of("pin_failures"), of("region_shortages")), (0, 0));
    let from_its_pages = sent_uncopied(of) + of("gathered_bytes_sent");
    let mut enough = match writer {
        Writer::Polls => {
            assert_eq!((from_its_pages, of("adverts_sent")), (0, 0), "nothing is offered");
            true
        }
        Writer::Waits | Writer::Gathers => from_its_pages > total / 2,
        // Bytes beyond the limit for one SrcAvail are copied.
        Writer::Lends | Writer::Rings => {
            assert!(from_its_pages > 0, "some from its pages");
            true
        }
    };
    let uncopied = sent_uncopied(of);
    if writer == Writer::Waits && reader == Reader::Waits {
        enough &= uncopied > total / 3;
    }
    let which = format!("{uncopied} without a copy and {from_its_pages} from its pages");
    assert!(enough || late_for(of) > 0, "of {total} bytes, {which}, to a reader that was there");
    enough
}

fn way_of_the_reader(
    t: &Role,
    writer: Writer,
    reader: Reader,
    total: i64,
    of: &dyn Fn(&str) -> i64,
) -> bool {
    assert!(t.until(|| received(of) == total), "{} of {total} bytes are counted", received(of));
    let uncopied = received_uncopied(of);
    if reader == Reader::Polls {
        assert_eq!((uncopied, of("sinks_sent")), (0, 0), "nothing is pinned");
    }
    assert_eq!((of("changed_bytes"), of("pin_failures")), (0, 0));
    writer != Writer::Waits || reader != Reader::Waits || uncopied > total / 3
}

/// The server's script, or with `begins` the client's.
fn matrix(t: &Role, s: Sock, writer: Writer, begins: bool) {
    let mut end = End::new(t, s, SIZES);
    for &reader in READERS {
        end.stream(writer, reader, begins);
        end.stream(writer, reader, !begins);
    }
    t.meet("end");
}

fn large(t: &Role, s: Sock, sizes: &[usize], begins: bool) {
    let mut end = End::new(t, s, sizes);
    for writer in [Writer::Waits, Writer::Lends] {
        end.stream(writer, Reader::Waits, begins);
    }
    t.meet("end");
}

pub const CASES: &[Case] = &[
    Case::two(
        "matrix_of_writers_who_wait",
        |t| matrix(t, server(t), Writer::Waits, false),
        |t| matrix(t, client(t), Writer::Waits, true),
    )
    .both_versions(),
    Case::two(
        "matrix_of_writers_who_gather",
        |t| matrix(t, server(t), Writer::Gathers, false),
        |t| matrix(t, client(t), Writer::Gathers, true),
    ),
    Case::two(
        "matrix_of_writers_who_do_not_wait",
        |t| matrix(t, server(t), Writer::Polls, false),
        |t| matrix(t, client(t), Writer::Polls, true),
    ),
    Case::two(
        "matrix_of_writers_who_lend",
        |t| matrix(t, server(t), Writer::Lends, false),
        |t| matrix(t, client(t), Writer::Lends, true),
    ),
    Case::two(
        "matrix_of_writers_with_a_ring",
        |t| matrix(t, server(t), Writer::Rings, false),
        |t| matrix(t, client(t), Writer::Rings, true),
    ),
    Case::two(
        "matrix_of_as_much_as_may_be_offered",
        |t| large(t, server(t), MOST, false),
        |t| large(t, client(t), MOST, true),
    ),
    Case::two(
        "matrix_of_64_mib",
        |t| large(t, server(t), &[64 * MIB], false),
        |t| large(t, client(t), &[64 * MIB], true),
    ),
];
