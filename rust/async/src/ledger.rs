// SPDX-License-Identifier: MIT

//! The ranges that are lent, and the lock that covers their protection.

mod benefit;

use benefit::Benefit;
use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Ranges at a time. A send with others waits for the peer.
const RANGES: usize = 256;

/// Tries of a thread of the program to take the lock, before it does without.
const TRIES: u32 = 200;

/// A range of whole pages that the peer may still read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Range {
    pub(crate) start: usize,
    /// 0: no range.
    pub(crate) len: usize,
    /// The number of runs of its socket that have ended.
    pub(crate) ended: Option<&'static AtomicU32>,
    pub(crate) id: u32,
}

impl Range {
    const FREE: Self = Self {
        start: 0,
        len: 0,
        ended: None,
        id: 0,
    };

    fn end(&self) -> usize {
        self.start.saturating_add(self.len)
    }

    /// Whether the memory is the program's own again.
    pub(crate) fn is_over(&self) -> bool {
        let ended = self.ended.map(|ended| ended.load(Ordering::Acquire));
        ended.is_some_and(|ended| ended.wrapping_sub(self.id) < 1 << 31)
    }

    fn overlaps(&self, start: usize, len: usize) -> bool {
        self.len > 0 && self.start < start.saturating_add(len) && start < self.end()
    }

    /// Whether the same counter tells of the end of both.
    fn is_counted_with(&self, other: &Self) -> bool {
        let [own, its] = [self, other].map(|range| range.ended.map(core::ptr::from_ref));
        own.is_some() && own == its
    }
}

/// See the module.
pub(crate) struct Ledger {
    ranges: [Range; RANGES],
    /// Whether it pays.
    benefit: Benefit,
    /// Some of a range was moved to a place that is not known.
    lost: bool,
}

impl Ledger {
    const fn new() -> Self {
        Self {
            ranges: [Range::FREE; RANGES],
            benefit: Benefit::new(),
            lost: false,
        }
    }

    /// The place of the range that has the page: of one that is not over, if there is one.
    pub(crate) fn find(&self, page: usize) -> Option<usize> {
        let has = |range: &Range| range.overlaps(page, 1);
        let open = |range: &Range| has(range) && !range.is_over();
        let ranges = &self.ranges;
        let first = ranges.iter().position(open);
        first.or_else(|| ranges.iter().position(has))
    }

    pub(crate) fn get(&self, at: usize) -> Range {
        self.ranges.get(at).copied().unwrap_or(Range::FREE)
    }

    /// Adds a range, which may overlap with others; `false` if there is no place. Runs of a socket end
    /// in their order, so a range that is lent again on the same socket needs no second place.
    pub(crate) fn insert(&mut self, range: Range) -> bool {
        let is_in = |inner: &Range, outer: &Range| {
            outer.len > 0 && outer.start <= inner.start && inner.end() <= outer.end()
        };
        for old in &mut self.ranges {
            if !old.is_counted_with(&range) {
                continue;
            }
            if is_in(&range, old) {
                old.id = range.id;
                return true;
            }
            if is_in(old, &range) {
                *old = range;
                return true;
            }
        }
        match self.ranges.iter_mut().find(|r| r.len == 0) {
            Some(place) => {
                *place = range;
                true
            }
            None => false,
        }
    }

    pub(crate) fn remove(&mut self, at: usize) {
        if let Some(place) = self.ranges.get_mut(at) {
            *place = Range::FREE;
        }
    }

    /// The place of a range that is over, from `first` on.
    pub(crate) fn over(&self, first: usize) -> Option<usize> {
        let ranges = self.ranges.get(first..)?;
        let next = ranges.iter().position(|r| r.len > 0 && r.is_over())?;
        first.checked_add(next)
    }

    /// Whether another range, which is not over, has some of the same pages.
    pub(crate) fn is_shared(&self, at: usize) -> bool {
        let range = self.get(at);
        let others = self.ranges.iter().enumerate().filter(|(i, _)| *i != at);
        let mut open = others.filter(|(_, r)| !r.is_over());
        open.any(|(_, r)| r.overlaps(range.start, range.len))
    }

    /// Whether a page may be lent although no range has it.
    pub(crate) fn has_lost(&mut self) -> bool {
        self.lost &= self
            .ranges
            .iter()
            .any(|range| range.len > 0 && !range.is_over());
        self.lost
    }

    /// Bytes have moved by mremap(): ranges, or parts of them, go with them. Without a place for the
    /// parts they are lost.
    pub(crate) fn on_moved(&mut self, from: usize, to: usize, len: usize) {
        let until = from.saturating_add(len);
        let parts = |range: &Range| {
            let (first, last) = (range.start.max(from), range.end().min(until));
            let before = first.saturating_sub(range.start);
            let behind = range.end().saturating_sub(last);
            (first, last, [(range.start, before), (last, behind)])
        };
        let free = self.ranges.iter().filter(|r| r.len == 0).count();
        let moves = |range: &&Range| range.overlaps(from, len);
        let more = self.ranges.iter().filter(moves).map(|range| {
            let (.., rests) = parts(range);
            rests.iter().filter(|(_, len)| *len > 0).count()
        });
        if more.sum::<usize>() > free {
            self.lost = true;
            return;
        }
        let before = self.ranges;
        for (at, range) in before.iter().enumerate().filter(|(_, r)| moves(r)) {
            let (first, last, rests) = parts(range);
            if let Some(place) = self.ranges.get_mut(at) {
                place.start = first.wrapping_sub(from).wrapping_add(to);
                place.len = last.saturating_sub(first);
            }
            for (start, len) in rests {
                let place = self.ranges.iter_mut().find(|r| r.len == 0);
                if let (1.., Some(place)) = (len, place) {
                    *place = Range {
                        start,
                        len,
                        ..*range
                    };
                }
            }
        }
    }

    /// A send of `len` bytes begins at `now`, in ns; whether to lend them: not where it does not
    /// pay.
    pub(crate) fn may_lend(&mut self, len: usize, now: u64) -> bool {
        self.benefit.begin(len, now)
    }

    pub(crate) fn on_disturbed(&mut self) {
        self.benefit.on_disturbed();
    }
}

/// The ledger of this process, with a lock that any thread may try to take at any time: no thread of
/// the program waits for it, and no signal handler runs while one has it.
pub(crate) struct Locked {
    taken: AtomicBool,
    ledger: UnsafeCell<Ledger>,
}

// SAFETY: The ledger is only used by the holder of the lock.
unsafe impl Sync for Locked {}

pub(crate) static LEDGER: Locked = Locked {
    taken: AtomicBool::new(false),
    ledger: UnsafeCell::new(Ledger::new()),
};

/// All signals are blocked while this exists.
pub(crate) struct Quiet(libc::sigset_t);

impl Quiet {
    pub(crate) fn new() -> Self {
        let mut before = MaybeUninit::<libc::sigset_t>::zeroed();
        let mut all = MaybeUninit::<libc::sigset_t>::zeroed();
        // SAFETY: Both are sets that live through the calls.
        unsafe {
            libc::sigfillset(all.as_mut_ptr());
            libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
            Self(before.assume_init())
        }
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        // SAFETY: The set that was in force before.
        unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.0, core::ptr::null_mut())
        };
    }
}

impl Locked {
    fn take(&self) -> bool {
        !self.taken.swap(true, Ordering::Acquire)
    }

    /// Runs `f` with the ledger, unless another thread keeps it.
    pub(crate) fn try_with<R>(&self, f: impl FnOnce(&mut Ledger) -> R) -> Option<R> {
        let _quiet = Quiet::new();
        for _ in 0..TRIES {
            if self.take() {
                // SAFETY: The lock is held.
                let result = f(unsafe { &mut *self.ledger.get() });
                self.leave();
                return Some(result);
            }
            core::hint::spin_loop();
        }
        None
    }

    /// The same for the handler thread, which waits.
    pub(crate) fn with<R>(&self, f: impl FnOnce(&mut Ledger) -> R) -> R {
        self.enter();
        // SAFETY: The lock is held.
        let result = f(unsafe { &mut *self.ledger.get() });
        self.leave();
        result
    }

    /// Takes the lock, for fork().
    pub(crate) fn enter(&self) {
        while !self.take() {
            // SAFETY: It has no arguments.
            unsafe { libc::sched_yield() };
        }
    }

    /// Releases it.
    pub(crate) fn leave(&self) {
        self.taken.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests;
