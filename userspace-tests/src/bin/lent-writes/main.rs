// SPDX-License-Identifier: MIT
//! A program that sends, and then writes to the memory it has sent. `lent/run` starts it under
//! `sdp_run --async`, reads late, and compares.
//!
//! `lent-writes WAY ADDRESS PORT`. On stdout: `lent` or `copied` after the send, `writing`, and `changed`
//! once the program sees its own bytes. Then it waits for a line on stdin, and ends.

mod calls;
#[path = "../lending/child.rs"]
mod child;
mod ends;
mod mappings;
mod memory;
mod others;
mod places;
#[path = "../lending/runner.rs"]
mod runner;

use std::net::TcpStream;
use std::os::fd::IntoRawFd;

use libc::{c_int, c_void};
use memory::{Memory, LEN};
pub use runner::{hear, say};
use sdp_uapi::{sdp_borrow_info, SDP_BORROW_INFO};

/// The memory, and the socket that has sent it.
pub struct Lent {
    pub sock: c_int,
    pub memory: Memory,
}

/// A way to write.
pub struct Way {
    name: &'static str,
    /// How often the memory is sent, with other bytes each time.
    rounds: u8,
    /// The call that sends.
    send: fn(&Lent) -> isize,
    /// The step before the first send.
    before: fn(&Lent),
    write: fn(&Lent),
}

impl Way {
    const fn new(name: &'static str, write: fn(&Lent)) -> Self {
        Way { name, rounds: 1, send, before: |_| {}, write }
    }

    const fn with(name: &'static str, send: fn(&Lent) -> isize) -> Self {
        Way { name, rounds: 1, send, before: |_| {}, write: memory::fill }
    }
}

fn send(lent: &Lent) -> isize {
    // SAFETY: the memory has so many bytes.
    unsafe { libc::send(lent.sock, lent.memory.at(0), LEN, 0) }
}

const OWN: &[Way] = &[
    Way::new("nothing", |_| {}),
    Way::new("store", memory::fill),
    Way::new("store_that_waits", |lent| {
        let begin = std::time::Instant::now();
        lent.memory.store(memory::AT, 1);
        assert!(begin.elapsed().as_millis() > 900, "it goes on after {:?}", begin.elapsed());
        memory::fill(lent);
    }),
    Way { rounds: 4, ..Way::new("again", memory::fill) },
    Way { before: calls::pin, ..Way::new("fixed_buffer", calls::read_fixed) },
];

/// All ways.
fn ways() -> impl Iterator<Item = &'static Way> {
    let others = [OWN, calls::WAYS, others::WAYS, places::WAYS, mappings::WAYS, ends::WAYS];
    others.into_iter().flatten()
}

/// Whether the peer still has memory of this process.
fn is_lent(sock: c_int) -> bool {
    // SAFETY: numbers.
    let mut info = unsafe { std::mem::zeroed::<sdp_borrow_info>() };
    let mut len = size_of::<sdp_borrow_info>() as libc::socklen_t;
    let at = (&raw mut info).cast::<c_void>();
    // SAFETY: both live through the call.
    let result =
        unsafe { libc::getsockopt(sock, libc::SOL_TCP, SDP_BORROW_INFO, at, &raw mut len) };
    result == 0 && info.issued != info.ended
}

fn run(way: &Way, stream: TcpStream) {
    let lent = Lent { sock: stream.into_raw_fd(), memory: Memory::mapped() };
    (way.before)(&lent);
    for round in 0..way.rounds {
        lent.memory.draw(round);
        let sent = (way.send)(&lent);
        assert_eq!(sent, LEN as isize, "{}", std::io::Error::last_os_error());
    }
    say(if is_lent(lent.sock) { "lent" } else { "copied" });
    say("writing");
    (way.write)(&lent);
    say("changed");
    hear();
}

fn main() {
    runner::serve(ways().map(|way| (way.name, way)), "changed", run);
}
