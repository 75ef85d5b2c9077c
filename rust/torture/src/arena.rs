// SPDX-License-Identifier: MIT

//! Regions of pages. Each page belongs to one thread, which does with it what allocators and collectors do. A send
//! of many pages holds all of them for the call alone.

use crate::pattern::{fill, wrong, Sent, Stamp};
use crate::random::Random;
use crate::{Shared, Wire, PAGE};
use core::ptr::{null_mut, without_provenance_mut};
use libc::c_void;
use std::sync::{Mutex, RwLock};

const HUGE: usize = 2 << 20;
const READ_WRITE: libc::c_int = libc::PROT_READ | libc::PROT_WRITE;
const MSEAL: libc::c_long = 462;

/// Pages of one send: 64 KiB at least, or nothing is lent.
const LEAST: usize = 20;
const MOST: usize = 64;

/// The kind of memory of a region.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Small,
    /// Advised to have huge pages.
    Huge,
    /// Sealed: its mapping cannot be changed.
    Sealed,
}

/// See the module.
pub struct Region {
    kind: Kind,
    start: usize,
    /// The stamp of each page. A thread locks its own pages alone, so no thread waits.
    stamps: Vec<Mutex<Stamp>>,
}

fn map(at: *mut c_void, len: usize) -> *mut c_void {
    let fixed = if at.is_null() { 0 } else { libc::MAP_FIXED };
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | fixed;
    // SAFETY: New memory, or a page of the caller.
    let place = unsafe { libc::mmap(at, len, READ_WRITE, flags, -1, 0) };
    assert_ne!(place, libc::MAP_FAILED, "mmap");
    place
}

pub(crate) fn regions(_threads: usize) -> Vec<RwLock<Region>> {
    let kinds = [
        (Kind::Small, 64),
        (Kind::Small, 256),
        (Kind::Huge, 512),
        (Kind::Sealed, 64),
    ];
    kinds
        .into_iter()
        .map(|(kind, pages)| RwLock::new(Region::new(kind, pages)))
        .collect()
}

impl Region {
    fn new(kind: Kind, pages: usize) -> Self {
        let len = pages * PAGE;
        let around = map(null_mut(), len + 2 * HUGE);
        let start = (around.addr() + HUGE) & !(HUGE - 1);
        let at = without_provenance_mut::<c_void>(start);
        let mut kind = kind;
        // SAFETY: Memory just mapped.
        unsafe {
            match kind {
                Kind::Small => {}
                Kind::Huge => {
                    libc::madvise(at, len, libc::MADV_HUGEPAGE);
                }
                Kind::Sealed if libc::syscall(MSEAL, at, len, 0) != 0 => kind = Kind::Small,
                Kind::Sealed => {}
            }
        }
        Self {
            kind,
            start,
            stamps: (0..pages).map(|_| Mutex::new(0)).collect(),
        }
    }

    fn at(&self, page: usize) -> *mut c_void {
        without_provenance_mut(self.start + page * PAGE)
    }

    fn stamp(&self, page: usize) -> std::sync::MutexGuard<'_, Stamp> {
        self.stamps[page].lock().expect("no thread has failed")
    }

    fn check(&self, page: usize, deed: &str) {
        let stamp = *self.stamp(page);
        // SAFETY: A page of the region.
        if let Some(at) = unsafe { wrong(self.at(page).addr(), PAGE, stamp) } {
            panic!("{:?} page {page}, after {deed}: byte {at}", self.kind);
        }
    }

    fn write(&self, page: usize, random: &mut Random) {
        let stamp = random.next() | 1;
        let backwards = random.below(2) == 0;
        // SAFETY: A page of the region, of this thread.
        unsafe { fill(self.at(page).addr(), PAGE, stamp, backwards) };
        *self.stamp(page) = stamp;
    }

    fn advise(&self, page: usize, advice: libc::c_int) {
        // SAFETY: A page of the region, of this thread.
        let done = unsafe { libc::madvise(self.at(page), PAGE, advice) };
        assert_eq!(done, 0, "madvise {advice}");
    }

    /// One deed with a page of the caller; `other` is another one.
    fn use_page(&self, page: usize, other: usize, random: &mut Random) -> &'static str {
        let is_sealed = self.kind == Kind::Sealed;
        match random.below(14) {
            0 => {
                self.advise(page, libc::MADV_DONTNEED);
                *self.stamp(page) = 0;
                "DONTNEED"
            }
            1 => {
                self.advise(page, libc::MADV_DONTNEED);
                self.write(page, random);
                "DONTNEED and a write"
            }
            2 => {
                // The kernel may empty it before it is written.
                self.advise(page, libc::MADV_FREE);
                self.write(page, random);
                "FREE and a write"
            }
            3 if !is_sealed => {
                map(self.at(page), PAGE);
                *self.stamp(page) = 0;
                "a new mapping"
            }
            4 if !is_sealed && page != other => {
                let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED | libc::MREMAP_DONTUNMAP;
                // SAFETY: Two pages of the region, of this thread.
                let moved =
                    unsafe { libc::mremap(self.at(page), PAGE, PAGE, flags, self.at(other)) };
                assert_eq!(moved, self.at(other), "mremap");
                let stamp = core::mem::replace(&mut *self.stamp(page), 0);
                *self.stamp(other) = stamp;
                self.check(other, "mremap");
                "mremap"
            }
            5 if !is_sealed => {
                // SAFETY: A page of the region, of this thread.
                let set = |access| unsafe { libc::mprotect(self.at(page), PAGE, access) };
                assert_eq!(set(libc::PROT_READ), 0, "mprotect");
                self.check(page, "mprotect");
                assert_eq!(set(READ_WRITE), 0, "mprotect");
                "mprotect"
            }
            6 => {
                // SAFETY: A page of the region.
                unsafe {
                    libc::mlock(self.at(page), PAGE);
                    if random.below(2) == 0 {
                        self.write(page, random);
                    }
                    libc::munlock(self.at(page), PAGE);
                }
                "mlock"
            }
            7 => {
                // SAFETY: The kernel fills a page of the region, of this thread.
                unsafe {
                    let zeros = libc::open(c"/dev/zero".as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
                    assert!(zeros >= 0);
                    assert_eq!(libc::read(zeros, self.at(page), PAGE), 4096);
                    libc::close(zeros);
                }
                *self.stamp(page) = 0;
                "read(2)"
            }
            8 if random.below(8) == 0 => {
                self.fork(page, random);
                "fork"
            }
            _ => {
                self.write(page, random);
                "a write"
            }
        }
    }

    /// The child finds the page as it was, and writes to its own.
    fn fork(&self, page: usize, random: &mut Random) {
        let (stamp, at) = (*self.stamp(page), self.at(page).addr());
        // SAFETY: The child looks at memory, and ends.
        unsafe {
            let child = libc::fork();
            if child == 0 {
                let good = wrong(at, PAGE, stamp).is_none();
                fill(at, PAGE, 7, false);
                libc::_exit(i32::from(!good));
            }
            assert!(child > 0, "fork");
            if random.below(2) == 0 {
                self.write(page, random);
            }
            let mut status = 0;
            while libc::waitpid(child, &raw mut status, 0) != child {}
            assert_eq!(status, 0, "{:?} page {page} in a child", self.kind);
        }
    }
}

/// A few deeds with pages of this thread.
pub(crate) fn use_pages<W>(shared: &Shared<'_, W>, thread: usize, random: &mut Random) {
    let _not_scarce = shared.scarce.read().expect("no thread has failed");
    let region = &shared.regions[random.below(shared.regions.len())];
    let region = region.read().expect("no thread has failed");
    let own = region.stamps.len() / crate::THREADS;
    let pick = |random: &mut Random| random.below(own) * crate::THREADS + thread;
    for _ in 0..random.below(8) {
        let (page, other) = (pick(random), pick(random));
        region.check(page, "a while");
        let deed = region.use_page(page, other, random);
        region.check(page, deed);
    }
}

/// Writes to pages of this thread, for when no memory can be had.
pub(crate) fn write_alone<W>(shared: &Shared<'_, W>, random: &mut Random) {
    let region = &shared.regions[random.below(shared.regions.len())];
    let region = region.write().expect("no thread has failed");
    for _ in 0..8 {
        let page = random.below(region.stamps.len());
        region.check(page, "a while");
        region.write(page, random);
        region.check(page, "a write with low limits");
    }
}

/// Sends some pages of a region.
pub(crate) fn send<W: Wire>(shared: &Shared<'_, W>, thread: usize, random: &mut Random) {
    let _not_scarce = shared.scarce.read().expect("no thread has failed");
    let region = &shared.regions[random.below(shared.regions.len())];
    let region = region.write().expect("no thread has failed");
    let count = LEAST + random.below(MOST - LEAST);
    let first = random.below(region.stamps.len() - count);
    for page in first..first + count {
        if random.below(4) > 0 {
            region.write(page, random);
        }
    }
    let stamps = (first..first + count).map(|page| *region.stamp(page));
    let sent = Sent::Pages(stamps.collect());
    let (start, len) = (region.at(first).addr(), count * PAGE);
    shared.wire.send(thread, start, len, sent);
}
