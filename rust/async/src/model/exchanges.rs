// SPDX-License-Identifier: MIT

//! An exchange leaves these as they were: pages that no thread waits for, and the mapping. It does
//! without: address space.

use super::{handler, mapped, set, unmap, Memory, Peer, LEN, MOVES, PAGES};
use crate::exchange::{poison, PAUSE_US};
use crate::guard::{self, PAGE};
use crate::handler::give_back;
use crate::ledger::{Counted, Kind, Range, LEDGER};
use crate::settings::Way;
use core::sync::atomic::{AtomicU32, Ordering};
use std::process::Command;
use std::time::{Duration, Instant};

const READ_WRITE: libc::c_int = libc::PROT_READ | libc::PROT_WRITE;

/// A bound for writes to memory in flight on a machine that does much else.
const SOON: Duration = Duration::from_secs(20);

/// Runs one test in a process of its own, for what changes the process. Returns whether this is that
/// process.
pub(super) fn is_alone(test: &str) -> bool {
    is_alone_for(test, 6 * SOON)
}

/// The same with another bound for its time.
pub(super) fn is_alone_for(test: &str, most: Duration) -> bool {
    const MARK: &str = "SDP_ASYNC_ALONE";
    if std::env::var_os(MARK).is_some() {
        return true;
    }
    let own = std::env::current_exe().expect("the program");
    let mut child = Command::new(own)
        .args([test, "--exact", "--nocapture"])
        .env(MARK, "1")
        .spawn()
        .expect("a process");
    let begin = Instant::now();
    let ended = loop {
        if let Some(ended) = child.try_wait().expect("its end") {
            break ended;
        }
        if begin.elapsed() > most {
            child.kill().expect("it runs");
            panic!("{test} does not end");
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    assert!(ended.success(), "{test}: {ended}");
    false
}

/// Lends a range of a program, until the counter says 1.
pub(super) fn lend(start: usize, len: usize) -> &'static AtomicU32 {
    let ended: &'static AtomicU32 = Box::leak(Box::new(AtomicU32::new(0)));
    let range = Range {
        start,
        len,
        counted: Some(Counted::Sent(ended)),
        id: 1,
        offset: 0,
        late: false,
    };
    assert!(LEDGER.with(|ledger| ledger.insert(range)));
    while guard::protect(Kind::Sent, start, len) == Err(libc::EAGAIN) {
        std::thread::yield_now();
    }
    ended
}

/// The next long send does this.
pub(super) fn collect() {
    LEDGER.with(|ledger| {
        let mut first = 0;
        while let Some(at) = ledger.over(first) {
            let _ = give_back(ledger, at);
            first = at + 1;
        }
    });
}

/// An exchange leaves its page missing for so many microseconds.
pub(super) struct Slow;

impl Slow {
    pub(super) fn new(us: u32) -> Self {
        PAUSE_US.store(us, Ordering::Relaxed);
        Self
    }
}

impl Drop for Slow {
    fn drop(&mut self) {
        PAUSE_US.store(0, Ordering::Relaxed);
    }
}

/// Runs `other` while a thread writes to the first page and this is missing.
fn amid_an_exchange(memory: &Memory, other: impl FnOnce()) {
    const LONG: u32 = 100_000;
    let _slow = Slow::new(LONG);
    std::thread::scope(|scope| {
        scope.spawn(|| memory.write(0, 0x11));
        let begin = Instant::now();
        while is_there(memory.start()) && begin.elapsed() < SOON {
            std::thread::yield_now();
        }
        assert!(!is_there(memory.start()), "no page is missing");
        other();
    });
}

/// Whether a page is in memory.
fn is_there(page: usize) -> bool {
    let mut there = 0u8;
    let at = core::ptr::without_provenance_mut(page);
    // SAFETY: It reads no memory, and there is room for the answer.
    unsafe { libc::mincore(at, PAGE, &raw mut there) == 0 && there & 1 == 1 }
}

#[test]
fn who_reads_a_page_amid_its_exchange_finds_its_bytes() {
    let Some(_one) = handler() else { return };
    set(Way::Copy);
    let memory = Memory::new(0x55);
    let peer = Peer::hold(&memory);
    amid_an_exchange(&memory, || {
        assert_eq!(memory.byte(1), 0x55);
        assert_eq!(memory.byte(PAGE), 0x55);
    });
    assert_eq!(memory.byte(0), 0x11);
    assert!(peer.read().iter().all(|byte| *byte == 0x55));
}

/// Of another thread, for example a collector with its barriers.
#[test]
fn rights_that_change_amid_an_exchange_stay() {
    let Some(_one) = handler() else { return };
    set(Way::Copy);
    let memory = Memory::new(0x55);
    let peer = Peer::hold(&memory);
    amid_an_exchange(&memory, || {
        // SAFETY: A page of the memory.
        let set = unsafe { libc::mprotect(memory.0.cast(), PAGE, READ_WRITE | libc::PROT_EXEC) };
        assert_eq!(set, 0);
    });
    let found = mappings(memory.start(), PAGE);
    assert_eq!(found.first().map(String::as_str), Some("rwxp"));
    assert!(peer.read().iter().all(|byte| *byte == 0x55));
}

/// A page that moves with others finds its copy at the new place. The thread that was to write to it has moved it
/// from a signal handler, for example.
#[test]
fn a_page_that_moves_amid_its_exchange_keeps_its_bytes() {
    let Some(_one) = handler() else { return };
    set(Way::Copy);
    let (memory, place) = (Memory::new(0x55), Memory::new(0));
    let peer = Peer::hold(&memory);
    amid_an_exchange(&memory, || {
        // SAFETY: Both are this test's.
        let moved = unsafe {
            libc::mremap(
                memory.0.cast(),
                LEN,
                LEN,
                MOVES,
                place.0.cast::<libc::c_void>(),
            )
        };
        assert_eq!(moved, place.0.cast());
        assert_eq!(place.byte(1), 0x55);
        place.write(2, 0x12);
    });
    assert_eq!((place.byte(0), place.byte(2)), (0x55, 0x12));
    // The place that it has left is empty, and the writer writes there.
    assert_eq!((memory.byte(0), memory.byte(1)), (0x11, 0));
    assert!(peer.read().iter().all(|byte| *byte == 0x55));
}

/// A new mapping over it is not touched.
#[test]
fn a_page_that_is_replaced_amid_its_exchange_is_the_new_one() {
    let Some(_one) = handler() else { return };
    set(Way::Copy);
    let memory = Memory::new(0x55);
    let peer = Peer::hold(&memory);
    amid_an_exchange(&memory, || {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
        // SAFETY: Memory of this test.
        let at = unsafe { libc::mmap(memory.0.cast(), PAGE, READ_WRITE, flags, -1, 0) };
        assert_eq!(at, memory.0.cast());
        memory.write(1, 0x22);
    });
    assert_eq!((memory.byte(1), memory.byte(2)), (0x22, 0));
    assert!(peer.read().iter().all(|byte| *byte == 0x55));
}

/// Lines of the mappings around a range, with their flags.
fn mappings(start: usize, len: usize) -> Vec<String> {
    let all = std::fs::read_to_string("/proc/self/smaps").expect("smaps");
    let (mut inside, mut found) = (false, Vec::new());
    for line in all.lines() {
        let bounds = line.split(' ').next().and_then(|word| word.split_once('-'));
        let number = |text| usize::from_str_radix(text, 16);
        if let Some((Ok(from), Ok(to))) = bounds.map(|(a, b)| (number(a), number(b))) {
            inside = from < start + len && start < to;
            if inside {
                found.push(line.split(' ').nth(1).expect("rights").to_owned());
            }
        } else if inside && line.starts_with("VmFlags") {
            found.push(line.to_owned());
        }
    }
    found
}

/// A program has sent a buffer of 1 MiB and freed it. Its allocator uses the first page for an object of
/// this thread, gives the last one back to the kernel, and uses it again in another thread.
#[test]
fn a_page_that_is_dropped_and_written_while_another_is_exchanged_keeps_its_bytes() {
    const BIG: usize = 1 << 20;
    let Some(_one) = handler() else { return };
    set(Way::Copy);
    let at = mapped(BIG, READ_WRITE);
    // SAFETY: It has so many bytes.
    unsafe { core::ptr::write_bytes(at, 1, BIG) };
    let (start, last) = (at.addr(), at.addr() + BIG - PAGE);
    let (phase, lost, objects) = (AtomicU32::new(0), AtomicU32::new(0), AtomicU32::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let page = core::ptr::without_provenance_mut::<u32>(last);
            let mut value = 1u32;
            loop {
                match phase.load(Ordering::Acquire) {
                    0 => std::thread::yield_now(),
                    2 => return,
                    // SAFETY: The last page is this thread's alone.
                    _ => unsafe {
                        libc::madvise(page.cast(), PAGE, libc::MADV_DONTNEED);
                        value = value.wrapping_add(1);
                        page.write_volatile(value);
                        objects.fetch_add(1, Ordering::Relaxed);
                        if (0..500).any(|_| page.read_volatile() != value) {
                            lost.fetch_add(1, Ordering::Relaxed);
                        }
                    },
                }
            }
        });
        for round in 0..300u32 {
            let ended = lend(start, BIG);
            // send() has returned; the buffer is freed, and its pages have new owners.
            phase.store(1, Ordering::Release);
            // SAFETY: The first page is this thread's.
            unsafe { at.write_volatile(round.to_le_bytes()[0]) };
            phase.store(0, Ordering::Release);
            std::thread::sleep(Duration::from_micros(300));
            ended.store(1, Ordering::Release);
            collect();
        }
        phase.store(2, Ordering::Release);
    });
    let objects = objects.load(Ordering::Relaxed);
    assert!(objects > 0);
    assert_eq!(lost.load(Ordering::Relaxed), 0, "of {objects}");
    unmap(start, BIG);
}

#[test]
fn a_write_to_one_page_exchanges_no_other_one() {
    let Some(_one) = handler() else { return };
    set(Way::Copy);
    let memory = Memory::new(0x55);
    let peer = Peer::hold(&memory);
    for page in [3, 4, 9] {
        memory.write(page * PAGE, 0x11);
    }
    let is_protected = |page: usize| guard::is_protected(memory.start() + page * PAGE);
    let left: Vec<usize> = (0..PAGES).filter(|page| !is_protected(*page)).collect();
    assert_eq!(left, [3, 4, 9]);
    assert!(peer.read().iter().all(|byte| *byte == 0x55));
}

#[test]
fn the_mapping_keeps_its_rights_and_advice() {
    let Some(_one) = handler() else { return };
    set(Way::Copy);
    let at = mapped(LEN, READ_WRITE | libc::PROT_EXEC);
    // SAFETY: It has so many bytes.
    unsafe {
        core::ptr::write_bytes(at, 0xc3, LEN);
        for advice in [
            libc::MADV_DONTDUMP,
            libc::MADV_WIPEONFORK,
            libc::MADV_NOHUGEPAGE,
        ] {
            assert_eq!(libc::madvise(at.cast(), LEN, advice), 0);
        }
        assert_eq!(libc::mlock(at.cast(), LEN), 0);
    }
    let ended = lend(at.addr(), LEN);
    let before = mappings(at.addr(), LEN);
    assert!(before.iter().any(|line| line.contains("rwxp")));
    for page in 0..PAGES {
        // SAFETY: Inside.
        unsafe { at.add(page * PAGE).write_volatile(0xc3) };
    }
    // SAFETY: A function that returns at once.
    unsafe { core::mem::transmute::<*mut u8, extern "C" fn()>(at.add(PAGE))() };
    // It is registered for missing pages as well, as long as something of it is in flight.
    let found: Vec<String> = mappings(at.addr(), LEN);
    let found: Vec<String> = found.iter().map(|line| line.replace("um ", "")).collect();
    assert_eq!(found, before);
    ended.store(1, Ordering::Release);
    collect();
    // A page is missing for the first time after that.
    // SAFETY: Inside.
    unsafe {
        let advice = libc::MADV_DONTNEED_LOCKED;
        assert_eq!(libc::madvise(at.cast(), PAGE, advice), 0);
        at.write_volatile(1);
    }
    let found = mappings(at.addr(), LEN);
    assert!(found
        .iter()
        .all(|line| !line.contains(" um ") && !line.contains(" uw ")));
    unmap(at.addr(), LEN);
}

#[test]
fn a_protection_key_stays() {
    let Some(_one) = handler() else { return };
    set(Way::Copy);
    // SAFETY: It takes numbers.
    let key = unsafe { libc::syscall(libc::SYS_pkey_alloc, 0, 0) };
    if key < 0 {
        eprintln!("no protection keys here: nothing is tested");
        return;
    }
    let memory = Memory::new(0x55);
    // SAFETY: Memory of this test.
    let set = unsafe { libc::syscall(libc::SYS_pkey_mprotect, memory.0, LEN, READ_WRITE, key) };
    assert_eq!(set, 0);
    let keys = || {
        let all = std::fs::read_to_string("/proc/self/smaps").expect("smaps");
        let own = format!("ProtectionKey:{key:>15}");
        all.lines().filter(|line| *line == own).count()
    };
    let before = keys();
    let peer = Peer::hold(&memory);
    memory.write(PAGE, 0x11);
    assert_eq!(keys(), before);
    assert!(peer.read().iter().all(|byte| *byte == 0x55));
    // SAFETY: Memory of this test, which stays for ever.
    if unsafe { libc::syscall(MSEAL, memory.0, LEN, 0) } == 0 {
        memory.write(PAGE, 0x55);
        writes_go_on(&memory);
        core::mem::forget(memory);
    }
}

/// The peer does not read before the end.
fn writes_go_on(memory: &Memory) {
    let peer = Peer::hold(memory);
    let begin = Instant::now();
    for page in 0..PAGES {
        memory.write(page * PAGE, 0x11);
        assert_eq!(memory.byte(page * PAGE + 1), 0x55);
    }
    assert!(begin.elapsed() < SOON);
    assert!(peer.read().iter().all(|byte| *byte == 0x55));
}

const MSEAL: libc::c_long = 462;

#[test]
fn sealed_memory_is_exchanged() {
    let Some(_one) = handler() else { return };
    set(Way::Copy);
    let memory = Memory::new(0x55);
    // SAFETY: Memory of this test, which stays for ever.
    if unsafe { libc::syscall(MSEAL, memory.0, LEN, 0) } != 0 {
        eprintln!("nothing can be sealed here: nothing is tested");
        return;
    }
    writes_go_on(&memory);
    core::mem::forget(memory);
}

#[test]
fn limits_below_the_present_use_lose_no_memory() {
    if !is_alone("model::exchanges::limits_below_the_present_use_lose_no_memory") {
        return;
    }
    let Some(_one) = handler() else { return };
    set(Way::Copy);
    for limit in [libc::RLIMIT_AS, libc::RLIMIT_DATA] {
        let memory = Memory::new(0x55);
        let mut before = libc::rlimit {
            rlim_cur: 0,
            rlim_max: 0,
        };
        // SAFETY: There is room for the answer.
        assert_eq!(unsafe { libc::getrlimit(limit, &raw mut before) }, 0);
        let low = libc::rlimit {
            rlim_cur: 1 << 20,
            ..before
        };
        let peer = Peer::hold(&memory);
        // SAFETY: A limit.
        assert_eq!(unsafe { libc::setrlimit(limit, &raw const low) }, 0);
        memory.write(PAGE, 0x11);
        let found = (memory.byte(PAGE), memory.byte(PAGE + 1), memory.byte(0));
        // SAFETY: As above.
        assert_eq!(unsafe { libc::setrlimit(limit, &raw const before) }, 0);
        assert_eq!(found, (0x11, 0x55, 0x55));
        assert!(peer.read().iter().all(|byte| *byte == 0x55));
    }
}

#[test]
fn a_program_with_as_many_mappings_as_it_may_have_goes_on() {
    if !is_alone("model::exchanges::a_program_with_as_many_mappings_as_it_may_have_goes_on") {
        return;
    }
    let Some(_one) = handler() else { return };
    set(Way::Copy);
    let memory = Memory::new(0x55);
    let peer = Peer::hold(&memory);
    // Each second page is a mapping of its own.
    let many = 1 << 30;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: New memory.
    let at = unsafe { libc::mmap(core::ptr::null_mut(), many, READ_WRITE, flags, -1, 0) };
    assert_ne!(at, libc::MAP_FAILED);
    let mut pages = (0..many).step_by(2 * PAGE);
    // SAFETY: Pages of the new memory.
    let full = pages.any(|page| unsafe {
        libc::mprotect(at.wrapping_byte_add(page), PAGE, libc::PROT_READ) != 0
    });
    let begin = Instant::now();
    memory.write(PAGE, 0x11);
    let found = (memory.byte(PAGE), memory.byte(PAGE + 1));
    unmap(at.addr(), many);
    assert!(full, "there is no limit");
    assert!(begin.elapsed() < SOON);
    assert_eq!(found, (0x11, 0x55));
    // Pages that are missing there afterwards are empty, as everywhere.
    // SAFETY: A page of the memory.
    unsafe { libc::madvise(memory.0.add(2 * PAGE).cast(), PAGE, libc::MADV_DONTNEED) };
    assert_eq!(memory.byte(2 * PAGE), 0);
    assert!(peer.read().iter().all(|byte| *byte == 0x55));
}

#[test]
fn a_poisoned_page_is_no_memory() {
    let Some(_one) = handler() else { return };
    let memory = Memory::new(0x55);
    let peer = Peer::hold(&memory);
    // SAFETY: Memory of this test, which stays for ever if it is sealed.
    let is_sealed = unsafe { libc::syscall(MSEAL, memory.0, LEN, 0) } == 0;
    let page = memory.start() + PAGE;
    assert_eq!(LEDGER.with(|_| poison(Kind::Sent, page)), Ok(()));
    let mut pipe = [0; 2];
    // SAFETY: Room for two descriptors; the kernel reads the page.
    let written = unsafe {
        assert_eq!(libc::pipe2(pipe.as_mut_ptr(), libc::O_CLOEXEC), 0);
        let at = core::ptr::without_provenance(page);
        let written = libc::write(pipe[1], at, 1);
        let errno = *libc::__errno_location();
        pipe.iter().for_each(|fd| {
            libc::close(*fd);
        });
        (written, errno)
    };
    assert_eq!(written, (-1, libc::EFAULT));
    assert_eq!(memory.byte(0), 0x55);
    assert!(peer.read().iter().all(|byte| *byte == 0x55));
    if is_sealed {
        core::mem::forget(memory);
    }
}
