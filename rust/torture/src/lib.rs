// SPDX-License-Identifier: MIT

//! A program that sends memory, and does everything else with it that programs and allocators do: from
//! other threads, at once, by random numbers from a seed. It knows each byte of its memory at each time, so
//! it notices a write that is lost, a page that is not empty, and a byte of another time at the peer.
//!
//! How bytes are sent is the caller's: [`Wire`]. Calls of one thread are in the seed's order; what
//! threads do meanwhile is not.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a panic is how a test fails"
)]

mod arena;
mod heap;
mod limits;
pub mod pattern;
mod random;

pub use arena::Region;
use pattern::Sent;
use random::Random;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Barrier, RwLock};
use std::time::{Duration, Instant};

/// Bytes of a page.
pub const PAGE: usize = 4096;

/// Threads that use memory. Each has a part of the pages of each region.
const THREADS: usize = 4;

/// A way to send.
pub trait Wire: Sync {
    /// Sends bytes that do not change during the call, for this thread. The peer compares what it gets
    /// with `sent`, late.
    fn send(&self, thread: usize, start: usize, len: usize, sent: Sent);
}

/// The state that the threads share.
struct Shared<'a, W> {
    wire: &'a W,
    regions: Vec<RwLock<Region>>,
    heap: heap::Heap,
    /// For writing while no memory can be had.
    scarce: RwLock<()>,
    done: AtomicBool,
    deeds: AtomicU64,
    /// A thread that begins needs memory.
    begun: Barrier,
}

/// Runs it for a while, from this seed. Returns the number of deeds. It panics at the first wrong byte.
pub fn run<W: Wire>(wire: &W, seed: u64, time: Duration) -> u64 {
    let shared = Shared {
        wire,
        regions: arena::regions(THREADS),
        heap: heap::Heap::new(),
        scarce: RwLock::new(()),
        done: AtomicBool::new(false),
        deeds: AtomicU64::new(0),
        begun: Barrier::new(THREADS),
    };
    std::thread::scope(|scope| {
        let shared = &shared;
        for thread in 0..THREADS {
            scope.spawn(move || {
                let _end = End(&shared.done);
                let seed = seed
                    .wrapping_mul(THREADS as u64)
                    .wrapping_add(thread as u64);
                work(shared, thread, &mut Random::new(seed));
            });
        }
        let begin = Instant::now();
        while begin.elapsed() < time && !shared.done.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(5));
        }
        shared.done.store(true, Ordering::Relaxed);
    });
    shared.deeds.load(Ordering::Relaxed)
}

/// Ends all threads, also when one fails.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn work<W: Wire>(shared: &Shared<'_, W>, thread: usize, random: &mut Random) {
    let mut own = heap::Own::new();
    shared.begun.wait();
    while !shared.done.load(Ordering::Relaxed) {
        match random.below(100) {
            0 => limits::lower(shared, random),
            1..10 => arena::send(shared, thread, random),
            10..60 => arena::use_pages(shared, thread, random),
            60..72 => heap::send(shared, thread, random),
            72..75 => heap::take_over(shared),
            _ => own.use_objects(shared, random),
        }
        shared.deeds.fetch_add(1, Ordering::Relaxed);
    }
    own.end();
}
