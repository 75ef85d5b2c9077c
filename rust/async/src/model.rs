// SPDX-License-Identifier: MIT

//! Tests of the protection without the module. A pipe stands for the peer of a send: vmsplice() gives it
//! the pages themselves, as the module pins them, and it reads them late. An io_uring stands for the
//! device that writes to pinned pages ([`received`]). They need a full userfaultfd, and
//! pass without a look at anything where the kernel refuses one to the tests.

#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a panic is how a test fails"
)]
#![allow(clippy::arithmetic_side_effects, reason = "numbers of a test")]

mod exchanges;
mod forks;
mod received;
mod ring;
mod torture;

use crate::exchange::exchange;
use crate::guard::{self, PAGE};
use crate::ledger::{Counted, Kind, Range, LEDGER};
use crate::rights::Missing;
use crate::settings::{Settings, Way};
use crate::{handler, lend, settings};
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::io::Read;
use std::os::fd::FromRawFd;
use std::sync::{Mutex, MutexGuard};

const PAGES: usize = 16;
const LEN: usize = PAGES * PAGE;

/// Pages move, and leave no gap: a thread that begins meanwhile would use it, and find its memory
/// gone with the test's.
const MOVES: libc::c_int = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED | libc::MREMAP_DONTUNMAP;

/// The parts of the handler that exist.
#[derive(Clone, Copy, PartialEq, Eq)]
enum There {
    Nothing,
    Lending,
    /// Bytes can be received ahead as well.
    All,
}

static ONE_AT_A_TIME: Mutex<Option<There>> = Mutex::new(None);

/// The handler of the process, once; `None` where there can be none.
fn handler() -> Option<MutexGuard<'static, Option<There>>> {
    let mut running = match ONE_AT_A_TIME.lock() {
        Ok(running) => running,
        Err(poisoned) => poisoned.into_inner(),
    };
    if running.is_none() {
        // For the hooks of fork().
        lend::switch_on(Settings {
            send: Some(Way::Copy),
            receive: true,
        });
        let hides = match guard::open() {
            Ok(hides) => handler::start().then_some(hides),
            Err(Missing::Other(errno)) => panic!("userfaultfd: errno {errno}"),
            Err(_) => None,
        };
        *running = Some(match hides {
            None => There::Nothing,
            Some(false) => There::Lending,
            Some(true) => There::All,
        });
        if *running == Some(There::Nothing) {
            eprintln!("no userfaultfd here: nothing is tested");
        }
    }
    (*running != Some(There::Nothing)).then_some(running)
}

/// A write to lent memory ends in this way.
fn set(way: Way) {
    settings::set(Settings {
        send: Some(way),
        receive: true,
    });
}

/// Memory of a program.
struct Memory(*mut u8);

// SAFETY: It belongs to no thread.
unsafe impl Send for Memory {}
// SAFETY: As above; the tests write to different bytes.
unsafe impl Sync for Memory {}

impl Memory {
    fn new(byte: u8) -> Self {
        let at = mapped(LEN, libc::PROT_READ | libc::PROT_WRITE);
        // SAFETY: It has so many bytes.
        unsafe { core::ptr::write_bytes(at, byte, LEN) };
        Self(at)
    }

    fn start(&self) -> usize {
        self.0.addr()
    }

    fn write(&self, at: usize, byte: u8) {
        assert!(at < LEN);
        // SAFETY: Inside.
        unsafe { self.0.add(at).write_volatile(byte) };
    }

    fn byte(&self, at: usize) -> u8 {
        assert!(at < LEN);
        // SAFETY: Inside.
        unsafe { self.0.add(at).read_volatile() }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: Mapped by `new`.
        unsafe { libc::munmap(self.0.cast(), LEN) };
    }
}

/// A peer that holds pages.
struct Peer {
    reader: std::fs::File,
    ended: &'static AtomicU32,
    start: usize,
}

impl Peer {
    /// Lends all of the memory.
    fn hold(memory: &Memory) -> Self {
        let mut pipe = [0; 2];
        // SAFETY: Room for two descriptors.
        let made = unsafe { libc::pipe2(pipe.as_mut_ptr(), libc::O_CLOEXEC) };
        assert_eq!(made, 0);
        let [reader, writer] = pipe;
        let part = libc::iovec {
            iov_base: memory.0.cast(),
            iov_len: LEN,
        };
        // SAFETY: One part, of memory that stays.
        let n = unsafe { libc::vmsplice(writer, &raw const part, 1, 0) };
        assert_eq!(usize::try_from(n), Ok(LEN));
        // SAFETY: Made above.
        unsafe { libc::close(writer) };
        let ended = Box::leak(Box::new(AtomicU32::new(0)));
        let range = Range {
            start: memory.start(),
            len: LEN,
            counted: Some(Counted::Sent(ended)),
            id: 1,
            offset: 0,
            late: false,
        };
        assert!(LEDGER.with(|ledger| ledger.insert(range)));
        // The same answer as in a program: while memory moves, another thread goes first.
        while guard::protect(Kind::Sent, range.start, range.len) == Err(libc::EAGAIN) {
            std::thread::yield_now();
        }
        // SAFETY: The descriptor is ours.
        let reader = unsafe { std::fs::File::from_raw_fd(reader) };
        Self {
            reader,
            ended,
            start: memory.start(),
        }
    }

    /// Whether the program still has it protected.
    fn is_lent(&self) -> bool {
        LEDGER.with(|ledger| {
            let found = ledger.find(self.start, Kind::Sent).map(|at| ledger.get(at));
            found.is_some_and(|range| !range.is_over())
        })
    }

    /// Reads, and says so.
    fn read(mut self) -> Vec<u8> {
        let mut all = vec![0; LEN];
        self.reader.read_exact(&mut all).expect("the bytes");
        self.ended.store(1, Ordering::Release);
        all
    }
}

#[test]
fn a_write_gets_other_pages_and_the_peer_the_old_ones() {
    let Some(_one) = handler() else { return };
    set(Way::Copy);
    let memory = Memory::new(0x55);
    let peer = Peer::hold(&memory);
    memory.write(5 * PAGE + 7, 0x11);
    // The page that was written to, and no other one.
    let is_protected = |page: usize| guard::is_protected(memory.start() + page * PAGE);
    assert!((0..PAGES).all(|page| is_protected(page) == (page != 5)));
    assert!(peer.is_lent());
    assert_eq!(
        (memory.byte(5 * PAGE + 7), memory.byte(5 * PAGE + 8)),
        (0x11, 0x55)
    );
    memory.write(0, 0x22);
    assert!(peer.read().iter().all(|byte| *byte == 0x55));
}

/// A new thread has a stack of the size that the shell's limit has by then, if it asks for no other.
#[test]
fn the_handler_needs_no_large_limit_of_the_stack() {
    let own = std::env::current_exe().expect("it runs");
    let status = std::process::Command::new("sh")
        .args(["-c", "ulimit -s 64 && exec \"$0\" --exact \"$1\""])
        .arg(own)
        .arg("model::a_write_gets_other_pages_and_the_peer_the_old_ones")
        .status()
        .expect("a shell");
    assert!(status.success(), "{status:?}");
}

#[test]
fn a_write_waits_for_the_peer_if_it_may() {
    let Some(_one) = handler() else { return };
    set(Way::Block);
    let memory = Memory::new(0x55);
    let peer = Peer::hold(&memory);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| memory.write(PAGE, 0x11));
        std::thread::sleep(std::time::Duration::from_millis(50));
        assert!(!writer.is_finished(), "it waits");
        assert!(peer.read().iter().all(|byte| *byte == 0x55));
    });
    assert_eq!(memory.byte(PAGE), 0x11);
    set(Way::Copy);
}

#[test]
fn calls_that_write_are_stopped_as_well() {
    let Some(_one) = handler() else { return };
    set(Way::Copy);
    let zeros = std::fs::File::open("/dev/zero").expect("/dev/zero");
    let memory = Memory::new(0x55);
    let peer = Peer::hold(&memory);
    // SAFETY: Inside of the memory.
    let room = unsafe { core::slice::from_raw_parts_mut(memory.0.add(PAGE), PAGE) };
    (&zeros).read_exact(room).expect("read");
    assert_eq!((memory.byte(PAGE), memory.byte(0)), (0, 0x55));
    assert!(peer.read().iter().all(|byte| *byte == 0x55));
}

#[test]
fn moved_memory_stays_protected() {
    let Some(_one) = handler() else { return };
    set(Way::Copy);
    let (memory, place) = (Memory::new(0x55), Memory::new(0));
    let peer = Peer::hold(&memory);
    // The second half moves over the second half of the other memory.
    let half = LEN / 2;
    // SAFETY: Both are this test's.
    unsafe {
        let to = place.0.add(half).cast();
        assert_eq!(
            libc::mremap(memory.0.add(half).cast(), half, half, MOVES, to),
            to
        );
    }
    place.write(half, 0x11);
    place.write(LEN - 1, 0x12);
    memory.write(0, 0x13);
    assert_eq!(
        (place.byte(half), place.byte(half + 1), memory.byte(1)),
        (0x11, 0x55, 0x55)
    );
    assert!(peer.read().iter().all(|byte| *byte == 0x55));
}

#[test]
fn dropped_memory_is_the_programs_own() {
    let Some(_one) = handler() else { return };
    set(Way::Copy);
    let memory = Memory::new(0x55);
    let peer = Peer::hold(&memory);
    // SAFETY: Pages of the memory.
    let dropped = unsafe { libc::madvise(memory.0.add(PAGE).cast(), PAGE, libc::MADV_DONTNEED) };
    assert_eq!(dropped, 0);
    memory.write(PAGE, 0x11);
    memory.write(0, 0x12);
    assert_eq!(
        (memory.byte(PAGE), memory.byte(PAGE + 1), memory.byte(1)),
        (0x11, 0, 0x55)
    );
    assert!(peer.read().iter().all(|byte| *byte == 0x55));
}

#[test]
fn no_write_is_lost_and_none_is_seen_by_the_peer() {
    let Some(_one) = handler() else { return };
    set(Way::Copy);
    let memory = Memory::new(0);
    for round in 1..200u8 {
        let before: Vec<u8> = (0..PAGES).map(|page| memory.byte(page * PAGE)).collect();
        let peer = Peer::hold(&memory);
        std::thread::scope(|scope| {
            for part in 0..4 {
                let memory = &memory;
                scope.spawn(move || {
                    for page in (part..PAGES).step_by(4) {
                        memory.write(page * PAGE, round);
                    }
                });
            }
        });
        for page in 0..PAGES {
            assert_eq!(
                memory.byte(page * PAGE),
                round,
                "a write to page {page} is lost"
            );
        }
        let seen = peer.read();
        let seen: Vec<u8> = seen.iter().step_by(PAGE).copied().collect();
        assert_eq!(seen, before, "round {round}");
    }
}

/// New memory where the kernel finds room.
fn mapped(len: usize, access: libc::c_int) -> *mut u8 {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: New memory.
    let at = unsafe { libc::mmap(core::ptr::null_mut(), len, access, flags, -1, 0) };
    assert_ne!(at, libc::MAP_FAILED);
    at.cast()
}

fn unmap(start: usize, len: usize) {
    // SAFETY: Memory of `mapped`.
    let done = unsafe { libc::munmap(core::ptr::without_provenance_mut(start), len) };
    assert_eq!(done, 0);
}

/// Whether something is mapped at a page.
fn is_mapped(page: usize) -> bool {
    let mut there = 0u8;
    let at = core::ptr::without_provenance_mut(page);
    // SAFETY: It reads no memory, and there is room for the answer.
    unsafe { libc::mincore(at, PAGE, &raw mut there) == 0 }
}

/// A gap that the kernel uses for the next mapping of that length, and what lies around it.
fn gap(len: usize) -> (usize, Vec<usize>) {
    let around = mapped(3 * len, libc::PROT_NONE).addr();
    let gap = around + len;
    unmap(gap, len);
    let mut others = vec![around, gap + len];
    for _ in 0..1000 {
        let at = mapped(len, libc::PROT_NONE).addr();
        if at == gap {
            unmap(gap, len);
            return (gap, others);
        }
        others.push(at);
    }
    panic!("the gap is never used");
}

/// Ends another thread of a test, also when it fails.
struct Done<'a>(&'a AtomicU32);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(1, Ordering::Release);
    }
}

#[test]
fn nothing_is_mapped_where_the_program_has_nothing() {
    // Threads that begin meanwhile map nothing that is so short.
    const SHORT: usize = 2 * PAGE;
    let Some(_one) = handler() else { return };
    let memory = Memory::new(0x55);
    let (place, done) = (AtomicUsize::new(0), AtomicU32::new(0));
    std::thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let (mut looks, mut found) = (0u32, 0u32);
            while done.load(Ordering::Acquire) == 0 {
                let gap = place.load(Ordering::Acquire);
                if gap == 0 {
                    std::thread::yield_now();
                    continue;
                }
                found += u32::from(is_mapped(gap));
                looks += 1;
            }
            (looks, found)
        });
        let end = Done(&done);
        let exchange = || {
            for page in [memory.start(), memory.start() + PAGE] {
                assert_eq!(guard::protect(Kind::Sent, page, PAGE), Ok(()));
                assert_eq!(LEDGER.with(|ledger| exchange(ledger, page)), Ok(()));
            }
        };
        exchange();
        let (gap, others) = gap(SHORT);
        place.store(gap, Ordering::Release);
        (0..1000).for_each(|_| exchange());
        drop(end);
        let (looks, found) = watcher.join().expect("the watcher");
        assert!(looks > 100, "it has looked {looks} times");
        assert_eq!(found, 0, "the gap was used");
        others.into_iter().for_each(|at| unmap(at, SHORT));
    });
    assert_eq!((memory.byte(0), memory.byte(SHORT)), (0x55, 0x55));
}

#[test]
fn moves_and_writes_do_not_wait_for_each_other() {
    let Some(_one) = handler() else { return };
    set(Way::Copy);
    let (restless, place, memory) = (Memory::new(0x33), Memory::new(0), Memory::new(0));
    // It is registered from here on, so that every move is reported.
    let peer = Peer::hold(&restless);
    let done = AtomicU32::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while done.load(Ordering::Acquire) == 0 {
                for (from, to) in [(&restless, &place), (&place, &restless)] {
                    // SAFETY: Both are this test's, and no other code uses them.
                    let at = unsafe {
                        libc::mremap(from.0.cast(), LEN, LEN, MOVES, to.0.cast::<libc::c_void>())
                    };
                    assert_eq!(at, to.0.cast());
                    std::thread::sleep(std::time::Duration::from_millis(1));
                }
            }
        });
        let _end = Done(&done);
        for round in 1..30u8 {
            let lent = Peer::hold(&memory);
            memory.write(3 * PAGE, round);
            assert_eq!(
                lent.read().get(3 * PAGE),
                Some(&(round - 1)),
                "round {round}"
            );
        }
    });
    assert!(peer.read().iter().all(|byte| *byte == 0x33));
}

#[test]
fn a_page_among_others_that_are_gone_is_exchanged_alone() {
    let Some(_one) = handler() else { return };
    set(Way::Copy);
    let memory = Memory::new(0x55);
    let peer = Peer::hold(&memory);
    // SAFETY: Pages of the memory; nothing uses the first one any more.
    let gone = unsafe { libc::munmap(memory.0.cast(), PAGE) };
    assert_eq!(gone, 0);
    memory.write(PAGE, 0x11);
    memory.write(7 * PAGE, 0x12);
    assert_eq!((memory.byte(PAGE), memory.byte(PAGE + 1)), (0x11, 0x55));
    assert!(peer.read().iter().all(|byte| *byte == 0x55));
}

#[test]
fn the_first_of_two_peers_does_not_end_the_others() {
    let Some(_one) = handler() else { return };
    set(Way::Copy);
    let memory = Memory::new(0x55);
    let (first, second) = (Peer::hold(&memory), Peer::hold(&memory));
    assert!(first.read().iter().all(|byte| *byte == 0x55));
    LEDGER.with(|ledger| {
        while let Some(at) = ledger.over(0) {
            assert_eq!(handler::give_back(ledger, at), Ok(()));
        }
    });
    memory.write(0, 0x11);
    memory.write(LEN - 1, 0x12);
    assert!(second.read().iter().all(|byte| *byte == 0x55));
}
