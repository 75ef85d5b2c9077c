// SPDX-License-Identifier: MIT
//! A program that receives, and touches its memory while the bytes are still coming. `lent/ahead` starts it
//! under `sdp_run --async=receive`, holds the bytes back, and lets them come later or never.
//!
//! `ahead-reads WAY ADDRESS PORT`. On stdout: `ahead` or `there` after the `recv()`, `touching`, and
//! `touched` once the way has found the peer's bytes and no other ones. Then it waits for a line on
//! stdin, and ends.

mod calls;
#[path = "../lending/child.rs"]
mod child;
mod ends;
mod memory;
mod others;
mod places;
#[path = "../lending/runner.rs"]
mod runner;
mod socket;

use std::net::TcpStream;
use std::os::fd::IntoRawFd;

use libc::c_int;
use memory::Memory;
pub use runner::{hear, say};
use sdp_uapi::{sdp_borrow_wait, SDP_AHEAD_WAIT};

/// The memory, and the socket with the bytes that come there.
pub struct Ahead {
    pub sock: c_int,
    pub memory: Memory,
    /// The number of bytes that the program was told of.
    pub len: usize,
}

/// A way to touch the memory.
pub struct Way {
    name: &'static str,
    /// The call that receives.
    receive: fn(c_int, Memory) -> isize,
    touch: fn(&Ahead),
}

impl Way {
    const fn new(name: &'static str, touch: fn(&Ahead)) -> Self {
        Way { name, receive: calls::recv, touch }
    }

    const fn with(name: &'static str, receive: fn(c_int, Memory) -> isize) -> Self {
        Way { name, receive, touch: |ahead| ahead.memory.has_come(0..ahead.len) }
    }
}

const OWN: &[Way] = &[
    Way::new("nothing", |_| {}),
    Way::new("load", |ahead| ahead.memory.has_come(0..ahead.len)),
    Way::new("load_from_the_end", |ahead| {
        assert_eq!(ahead.memory.byte(ahead.len - 1), Memory::drawn(ahead.len - 1));
        ahead.memory.has_come(0..ahead.len);
    }),
    Way::new("store", |ahead| {
        ahead.memory.store(memory::AT, 0xEE);
        assert_eq!(ahead.memory.byte(memory::AT), 0xEE);
        ahead.memory.has_come(0..memory::AT);
        ahead.memory.has_come(memory::AT + 1..ahead.len);
    }),
];

/// All ways.
fn ways() -> impl Iterator<Item = &'static Way> {
    let ways = [OWN, calls::WAYS, others::WAYS, places::WAYS, socket::WAYS, ends::WAYS];
    ways.into_iter().flatten()
}

/// Whether bytes are still coming.
pub fn is_coming(sock: c_int) -> bool {
    let wait = sdp_borrow_wait { id: 1, timeout_ms: 0 };
    let (at, len) = ((&raw const wait).cast(), size_of::<sdp_borrow_wait>() as libc::socklen_t);
    // SAFETY: it lives through the call.
    let result = unsafe { libc::setsockopt(sock, libc::SOL_TCP, SDP_AHEAD_WAIT, at, len) };
    result < 0 && std::io::Error::last_os_error().raw_os_error() == Some(libc::EAGAIN)
}

fn run(way: &Way, stream: TcpStream) {
    let (sock, memory) = (stream.into_raw_fd(), Memory::fresh());
    say("ready");
    let n = (way.receive)(sock, memory);
    let len = usize::try_from(n).unwrap_or_else(|_| panic!("{}", std::io::Error::last_os_error()));
    say(if is_coming(sock) { "ahead" } else { "there" });
    say("touching");
    (way.touch)(&Ahead { sock, memory, len });
    say("touched");
    hear();
}

fn main() {
    runner::serve(ways().map(|way| (way.name, way)), "touched", run);
}
