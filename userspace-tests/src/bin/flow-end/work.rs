// SPDX-License-Identifier: MIT
//! What an end does on an order, and the memory for it.

use std::hint::black_box;
use std::ptr::null_mut;

use crate::socket::Socket;

const PAGE: usize = 4096;

/// Buffers of one size, each with pages of its own. The bytes that another program reads after a call are not
/// changed by that: the library protects it.
pub struct Room {
    start: *mut u8,
    len: usize,
    size: usize,
    buffers: usize,
}

impl Room {
    /// All pages are there. None of them is part of a huge page, where one buffer in use would make the
    /// others unfit for lending.
    pub fn new(size: usize, buffers: usize) -> Self {
        let len = size.next_multiple_of(PAGE) * buffers;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: new memory.
        let start = unsafe { libc::mmap(null_mut(), len, access, flags, -1, 0) };
        assert_ne!(start, libc::MAP_FAILED, "mmap");
        // SAFETY: the new memory.
        unsafe {
            // It fails on kernels without huge pages.
            libc::madvise(start, len, libc::MADV_NOHUGEPAGE);
            start.cast::<u8>().write_bytes(1, len);
        }
        Room { start: start.cast(), len, size, buffers }
    }

    pub fn fits(&self, order: &Order) -> bool {
        self.size == order.size && self.buffers == order.buffers
    }

    /// The buffer of that turn.
    #[expect(clippy::mut_from_ref, reason = "each work uses one buffer at a time")]
    fn buffer(&self, turn: usize) -> &mut [u8] {
        let at = turn % self.buffers * self.size.next_multiple_of(PAGE);
        // SAFETY: inside of the memory; the process has one thread that uses it, one buffer at a time.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(at), self.size) }
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        // SAFETY: no code has a buffer any more.
        unsafe { libc::munmap(self.start.cast(), self.len) };
    }
}

/// A computation in memory that is not a buffer.
pub struct Computation {
    table: Vec<u64>,
    at: usize,
}

impl Computation {
    pub fn new() -> Self {
        Computation { table: (1..=2048).collect(), at: 0 }
    }

    fn run(&mut self, units: u64) {
        for unit in 0..units {
            self.at = (self.at + 1) % self.table.len();
            let word = &mut self.table[self.at];
            *word = word.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(17) ^ unit;
        }
        black_box(&mut self.table);
    }
}

#[derive(Clone, Copy)]
enum Verb {
    Send,
    Receive,
    Ping,
    Echo,
    Compute,
}

pub struct Order {
    verb: Verb,
    pub size: usize,
    count: usize,
    /// Of computation before each send.
    units: u64,
    pub buffers: usize,
    /// Whether each buffer gets other bytes before it is sent, and the receiver looks at them.
    fills: bool,
}

impl Order {
    pub fn parse(line: &str) -> Self {
        let mut words = line.split_whitespace();
        let verb = words.next().expect("a verb");
        let numbers: Vec<usize> = words.map(|word| word.parse().expect("a number")).collect();
        if let ("compute", [units]) = (verb, &numbers[..]) {
            let units = *units as u64;
            return Order {
                verb: Verb::Compute,
                size: 1,
                count: 0,
                units,
                buffers: 1,
                fills: false,
            };
        }
        let verb = match verb {
            "send" => Verb::Send,
            "receive" => Verb::Receive,
            "ping" => Verb::Ping,
            "echo" => Verb::Echo,
            _ => panic!("an order of unknown kind: {line}"),
        };
        let [size, count, units, buffers, fills] = numbers[..] else {
            panic!("an order has five numbers, not: {line}");
        };
        assert!(size > 0 && buffers > 0, "neither size nor buffers are 0: {line}");
        Order { verb, size, count, units: units as u64, buffers, fills: fills != 0 }
    }

    pub fn obey(&self, sock: &Socket, room: &Room, computation: &mut Computation) {
        match self.verb {
            Verb::Compute => computation.run(self.units),
            Verb::Send => self.each(|turn| {
                computation.run(self.units);
                let buffer = room.buffer(turn);
                if self.fills {
                    buffer.fill(Self::byte(turn));
                }
                sock.send(buffer);
            }),
            Verb::Receive => self.each(|turn| {
                let buffer = room.buffer(0);
                sock.receive(buffer);
                if self.fills {
                    self.check(buffer, turn);
                }
            }),
            // The answer has a buffer of its own if there are two.
            Verb::Ping => self.each(|_| {
                sock.send(room.buffer(0));
                sock.receive(room.buffer(1));
            }),
            Verb::Echo => self.each(|_| {
                sock.receive(room.buffer(1));
                sock.send(room.buffer(0));
            }),
        }
    }

    fn each(&self, turn: impl FnMut(usize)) {
        (0..self.count).for_each(turn);
    }

    fn byte(turn: usize) -> u8 {
        (turn % 251) as u8
    }

    /// The bytes of the time of the call, not later ones; one of each page.
    fn check(&self, buffer: &[u8], turn: usize) {
        let wanted = Self::byte(turn);
        for at in (0..self.size).step_by(PAGE).chain([self.size - 1]) {
            assert_eq!(buffer[at], wanted, "byte {at} of message {turn}");
        }
    }
}
