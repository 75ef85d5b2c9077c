// SPDX-License-Identifier: MIT

//! The ranges that are lent or received ahead, and the lock that covers their protection.

mod benefit;

use crate::counters::Receipts;
use crate::guard::{self, PAGE};
use benefit::Benefit;
use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Ranges at a time. A send with others waits for the peer.
const RANGES: usize = 256;

/// Tries of a thread of the program to take the lock, before it does without.
const TRIES: u32 = 200;

/// From what the program is kept, and so in which mode of the userfaultfd.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The peer may still read it: the program does not write to it.
    Sent,
    /// Bytes are still coming: the program neither reads nor writes it.
    Received,
}

/// The counter that tells of the end of a range.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Counted {
    /// The number of runs of its socket that have ended.
    Sent(&'static AtomicU32),
    Received(&'static Receipts),
}

impl Counted {
    fn kind(self) -> Kind {
        match self {
            Self::Sent(_) => Kind::Sent,
            Self::Received(_) => Kind::Received,
        }
    }

    /// Where it is.
    fn address(self) -> usize {
        match self {
            Self::Sent(ended) => core::ptr::from_ref(ended).addr(),
            Self::Received(receipts) => core::ptr::from_ref(receipts).addr(),
        }
    }
}

/// The known state of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// The peer may still read it, or bytes are still coming.
    Open,
    /// It is the program's own again.
    Over,
    /// No more bytes will come; those before this offset have.
    Failed(usize),
}

/// A range of whole pages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Range {
    pub(crate) start: usize,
    /// 0: no range.
    pub(crate) len: usize,
    pub(crate) counted: Option<Counted>,
    pub(crate) id: u32,
    /// Bytes of the same run that were in front of it, before memory was moved.
    pub(crate) offset: usize,
    /// A thread has waited for the peer long enough: others get a copy of their page at once.
    pub(crate) late: bool,
}

impl Range {
    const FREE: Self = Self {
        start: 0,
        len: 0,
        counted: None,
        id: 0,
        offset: 0,
        late: false,
    };

    fn end(&self) -> usize {
        self.start.saturating_add(self.len)
    }

    pub(crate) fn is_of(&self, kind: Kind) -> bool {
        self.counted.is_some_and(|counted| counted.kind() == kind)
    }

    pub(crate) fn state(&self) -> State {
        let (ended, receipts) = match self.counted {
            None => return State::Open,
            Some(Counted::Sent(ended)) => (ended, None),
            Some(Counted::Received(receipts)) => (&receipts.ended, Some(receipts)),
        };
        // Asked first: what has come before the failure is counted by then.
        let failed = receipts.filter(|receipts| receipts.failed.load(Ordering::Acquire) != 0);
        let behind = ended.load(Ordering::Acquire).wrapping_sub(self.id);
        if behind < 1 << 31 {
            return State::Over;
        }
        match failed {
            None => State::Open,
            Some(receipts) => {
                let filled = receipts.filled.load(Ordering::Acquire);
                State::Failed(usize::try_from(filled).unwrap_or(0))
            }
        }
    }

    /// Whether the memory is the program's own again.
    pub(crate) fn is_over(&self) -> bool {
        self.state() == State::Over
    }

    /// Whether all of the page is among the first `filled` bytes of its run.
    pub(crate) fn is_filled(&self, page: usize, filled: usize) -> bool {
        let behind = page.saturating_sub(self.start).saturating_add(PAGE);
        behind.saturating_add(self.offset) <= filled
    }

    fn overlaps(&self, start: usize, len: usize) -> bool {
        self.len > 0 && self.start < start.saturating_add(len) && start < self.end()
    }

    /// Whether the same counter tells of the end of both, in turn.
    fn is_counted_with(&self, other: &Self) -> bool {
        match (self.counted, other.counted) {
            (Some(Counted::Sent(own)), Some(Counted::Sent(its))) => core::ptr::eq(own, its),
            _ => false,
        }
    }
}

/// See the module.
pub(crate) struct Ledger {
    ranges: [Range; RANGES],
    /// Whether each direction pays.
    sends: Benefit,
    receives: Benefit,
    /// Some of a range was moved to a place that is not known.
    lost: bool,
}

impl Ledger {
    const fn new() -> Self {
        Self {
            ranges: [Range::FREE; RANGES],
            sends: Benefit::new(),
            receives: Benefit::new(),
            lost: false,
        }
    }

    fn benefit(&mut self, kind: Kind) -> &mut Benefit {
        match kind {
            Kind::Sent => &mut self.sends,
            Kind::Received => &mut self.receives,
        }
    }

    /// A call for `len` bytes begins at `now`, in ns; whether to lend, or to receive ahead: not where it
    /// does not pay.
    pub(crate) fn may_lend(&mut self, kind: Kind, len: usize, now: u64) -> bool {
        self.benefit(kind).begin(len, now)
    }

    /// The program touches what it has lent or received ahead.
    pub(crate) fn on_disturbed(&mut self, kind: Kind) {
        self.benefit(kind).on_disturbed();
    }

    /// The place of the range that has the page: of one that is not over, if there is one.
    pub(crate) fn find(&self, page: usize, kind: Kind) -> Option<usize> {
        let has = |range: &Range| range.overlaps(page, 1) && range.is_of(kind);
        let open = |range: &Range| has(range) && !range.is_over();
        let ranges = &self.ranges;
        let first = ranges.iter().position(open);
        first.or_else(|| ranges.iter().position(has))
    }

    pub(crate) fn get(&self, at: usize) -> Range {
        self.ranges.get(at).copied().unwrap_or(Range::FREE)
    }

    /// Threads have waited for this range long enough.
    pub(crate) fn set_late(&mut self, at: usize) {
        if let Some(place) = self.ranges.get_mut(at) {
            place.late = true;
        }
    }

    /// Adds a range, which may overlap with others; `false` if there is no place. Runs of a socket end
    /// in their order, so a range that is lent again on the same socket needs no second place.
    pub(crate) fn insert(&mut self, range: Range) -> bool {
        if range.is_of(Kind::Received) && !self.forget_failed(range.start, range.end()) {
            return false;
        }
        let is_in = |inner: &Range, outer: &Range| {
            outer.len > 0 && outer.start <= inner.start && inner.end() <= outer.end()
        };
        for old in &mut self.ranges {
            if !old.is_counted_with(&range) {
                continue;
            }
            if is_in(&range, old) {
                old.id = range.id;
                old.late = false;
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

    /// Bytes are received where others never came: the program has thrown these pages away meanwhile,
    /// or the kernel could not have pinned them. `false` if there is no place for a rest.
    fn forget_failed(&mut self, start: usize, end: usize) -> bool {
        for at in 0..RANGES {
            let range = self.get(at);
            let failed = matches!(range.state(), State::Failed(_));
            if !failed || !range.overlaps(start, end.saturating_sub(start)) {
                continue;
            }
            let behind = Range {
                start: end,
                len: range.end().saturating_sub(end),
                offset: range.offset.saturating_add(end.saturating_sub(range.start)),
                ..range
            };
            if behind.len > 0 {
                match self.ranges.iter_mut().find(|r| r.len == 0) {
                    Some(place) => *place = behind,
                    None => return false,
                }
            }
            if let Some(place) = self.ranges.get_mut(at) {
                place.len = start.saturating_sub(range.start);
                if place.len == 0 {
                    *place = Range::FREE;
                }
            }
        }
        true
    }

    /// Takes a range of bytes that are received out again, which was the last one to be put in.
    pub(crate) fn withdraw(&mut self, range: &Range) {
        let Some(Counted::Received(receipts)) = range.counted else {
            return;
        };
        for place in &mut self.ranges {
            let same = matches!(place.counted, Some(Counted::Received(its))
                if core::ptr::eq(its, receipts) && place.id == range.id);
            if same {
                *place = Range::FREE;
            }
        }
    }

    pub(crate) fn remove(&mut self, at: usize) {
        if let Some(place) = self.ranges.get_mut(at) {
            *place = Range::FREE;
        }
    }

    /// The place of a range with an end that the counter at this address tells.
    pub(crate) fn counted_by(&self, kind: Kind, counter: u64) -> Option<usize> {
        let is = |range: &Range| {
            let told = range.counted.filter(|_| range.len > 0 && range.is_of(kind));
            told.is_some_and(|counted| counted.address() as u64 == counter)
        };
        self.ranges.iter().position(is)
    }

    /// The place of a range that has ended, from `first` on.
    pub(crate) fn over(&self, first: usize) -> Option<usize> {
        let ranges = self.ranges.get(first..)?;
        let next = ranges.iter().position(|r| r.len > 0 && r.is_over())?;
        first.checked_add(next)
    }

    /// Whether a range of this kind is in this state.
    pub(crate) fn has(&self, kind: Kind, is: impl Fn(State) -> bool) -> bool {
        let mut used = self.ranges.iter().filter(|range| range.len > 0);
        used.any(|range| range.is_of(kind) && is(range.state()))
    }

    /// Whether some memory between these addresses is not the program's own.
    pub(crate) fn has_open_in(&self, places: &core::ops::Range<usize>) -> bool {
        let mut open = self.ranges.iter().filter(|range| !range.is_over());
        open.any(|range| range.overlaps(places.start, places.len()))
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
        let offset = |range: &Range, at: usize| {
            let inside = at.saturating_sub(range.start);
            range.offset.saturating_add(inside)
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
                place.offset = offset(range, first);
            }
            for (start, len) in rests {
                let place = self.ranges.iter_mut().find(|r| r.len == 0);
                if let (1.., Some(place)) = (len, place) {
                    *place = Range {
                        start,
                        len,
                        offset: offset(range, start),
                        ..*range
                    };
                }
            }
        }
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

/// Bytes of the stack that are used under the lock, at most.
const STACK: usize = if cfg!(debug_assertions) { 4 } else { 1 } * PAGE;

/// Writes to `BYTES` of the stack, which the caller's next functions will use, and returns where they
/// begin.
#[inline(never)]
pub(crate) fn touch_stack<const BYTES: usize>() -> usize {
    let mut room = MaybeUninit::<[u8; BYTES]>::uninit();
    let at = room.as_mut_ptr().cast::<u8>();
    for place in (0..BYTES).step_by(PAGE) {
        // SAFETY: Inside of the room.
        unsafe { at.add(place).write_volatile(0) };
    }
    at.addr().saturating_add(BYTES)
}

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
            if self.take_with_stack() {
                // SAFETY: The lock is held.
                let result = f(unsafe { &mut *self.ledger.get() });
                self.leave();
                return Some(result);
            }
            core::hint::spin_loop();
        }
        None
    }

    /// The same for callers that wait: the handler thread, and others with [`Quiet`].
    pub(crate) fn with<R>(&self, f: impl FnOnce(&mut Ledger) -> R) -> R {
        while !self.take_with_stack() {
            // SAFETY: It has no arguments.
            unsafe { libc::sched_yield() };
        }
        // SAFETY: The lock is held.
        let result = f(unsafe { &mut *self.ledger.get() });
        self.leave();
        result
    }

    /// Takes the lock, with stack for what is done under it. Another thread may have lent the stack of this
    /// one, and who waits for a page waits for the handler, which waits for the lock. Under the lock no
    /// page becomes protected.
    fn take_with_stack(&self) -> bool {
        let top = touch_stack::<STACK>();
        if !self.take() {
            return false;
        }
        let pages = (top.saturating_sub(STACK)..=top).step_by(PAGE);
        if pages.into_iter().any(guard::is_protected) {
            self.leave();
            return false;
        }
        true
    }

    /// Releases it.
    pub(crate) fn leave(&self) {
        self.taken.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests;
