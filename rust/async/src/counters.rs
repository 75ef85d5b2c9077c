// SPDX-License-Identifier: MIT

//! The counters that the kernel writes to, for each socket one of what it lends and one of what it
//! receives ahead; and the mark of the process that they are for.

use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering};
use sdp_uapi::{sdp_ahead_counter, sdp_borrow_counter};

/// Sockets of a process that can lend, or receive ahead, at a time; the others copy.
const COUNTERS: usize = 4096;

/// `struct sdp_borrow_counter`
#[repr(C, align(8))]
struct Counter {
    ended: AtomicU32,
    gone: AtomicU32,
}

/// `struct sdp_ahead_counter`
#[repr(C, align(16))]
#[derive(Debug)]
pub(crate) struct Receipts {
    /// The number of stretches that have come.
    pub(crate) ended: AtomicU32,
    /// Not 0: no other one will come.
    pub(crate) failed: AtomicU32,
    /// Then the bytes that have come of the next one.
    pub(crate) filled: AtomicU32,
    gone: AtomicU32,
}

#[cfg(test)]
impl Receipts {
    pub(crate) const fn new() -> Self {
        Self {
            ended: AtomicU32::new(0),
            failed: AtomicU32::new(0),
            filled: AtomicU32::new(0),
            gone: AtomicU32::new(0),
        }
    }
}

const _: () = assert!(size_of::<Counter>() == size_of::<sdp_borrow_counter>());
const _: () = assert!(size_of::<Receipts>() == size_of::<sdp_ahead_counter>());

/// One of the two.
trait Slot: 'static {
    fn gone(&self) -> &AtomicU32;
}

impl Slot for Counter {
    fn gone(&self) -> &AtomicU32 {
        &self.gone
    }
}

impl Slot for Receipts {
    fn gone(&self) -> &AtomicU32 {
        &self.gone
    }
}

/// Pages that are never lent, with counters of one kind.
struct Pool<T> {
    /// Null before [`make`].
    place: AtomicPtr<T>,
    /// Where the next search begins.
    next: AtomicUsize,
}

impl<T: Slot> Pool<T> {
    const LEN: usize = COUNTERS * size_of::<T>();

    const fn new() -> Self {
        Self {
            place: AtomicPtr::new(core::ptr::null_mut()),
            next: AtomicUsize::new(0),
        }
    }

    /// Makes the pages; `false` without memory.
    fn make(&self) -> bool {
        if !self.place.load(Ordering::Acquire).is_null() {
            return true;
        }
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: New memory.
        let place = unsafe { libc::mmap(core::ptr::null_mut(), Self::LEN, access, flags, -1, 0) };
        if place == libc::MAP_FAILED {
            return false;
        }
        // A child finds zeroes there, however it was made.
        // SAFETY: The new memory.
        if unsafe { libc::madvise(place, Self::LEN, libc::MADV_WIPEONFORK) } != 0 {
            // SAFETY: As above.
            unsafe { libc::munmap(place, Self::LEN) };
            return false;
        }
        self.place.store(place.cast(), Ordering::Release);
        for counter in self.all() {
            counter.gone().store(1, Ordering::Relaxed);
        }
        true
    }

    fn all(&self) -> &'static [T] {
        let place = self.place.load(Ordering::Acquire);
        if place.is_null() {
            return &[];
        }
        // SAFETY: `make` has mapped so many, and they stay; any bytes are valid ones.
        unsafe { core::slice::from_raw_parts(place, COUNTERS) }
    }

    /// A counter that no socket uses, except the first one.
    fn take(&self) -> Option<u64> {
        let counters = self.all().get(1..)?;
        let first = self.next.fetch_add(1, Ordering::Relaxed);
        for step in 0..counters.len() {
            let at = first.wrapping_add(step).checked_rem(counters.len())?;
            let counter = counters.get(at)?;
            let gone = counter.gone();
            let free = gone.compare_exchange(1, 0, Ordering::AcqRel, Ordering::Relaxed);
            if free.is_ok() {
                return Some(core::ptr::from_ref(counter).addr() as u64);
            }
        }
        None
    }

    fn give_back(&self, address: u64) {
        if let Some(counter) = self.find(address) {
            counter.gone().store(1, Ordering::Release);
        }
    }

    fn find(&self, address: u64) -> Option<&'static T> {
        let place = self.place.load(Ordering::Acquire).addr() as u64;
        let at = address
            .checked_sub(place)?
            .checked_div(size_of::<T>() as u64)?;
        self.all().get(usize::try_from(at).ok()?)
    }
}

/// The first counter is no socket's: it is the mark.
static LENT: Pool<Counter> = Pool::new();
static AHEAD: Pool<Receipts> = Pool::new();

/// Makes the pages, also those for receiving ahead if `ahead`; `false` without memory.
pub(crate) fn make(ahead: bool) -> bool {
    LENT.make() && (!ahead || AHEAD.make())
}

/// Whether this is the process that has made them, and no child of it.
pub(crate) fn are_own() -> bool {
    let mark = LENT.all().first();
    mark.is_some_and(|mark| mark.gone.load(Ordering::Relaxed) == 1)
}

/// A counter that no socket uses; no other caller gets it until [`give_back`] or the kernel marks it.
pub(crate) fn take() -> Option<u64> {
    LENT.take()
}

/// The same for receiving ahead.
pub(crate) fn take_ahead() -> Option<u64> {
    AHEAD.take()
}

/// The kernel has not taken it.
pub(crate) fn give_back(address: u64) {
    LENT.give_back(address);
}

/// The same for receiving ahead.
pub(crate) fn give_back_ahead(address: u64) {
    AHEAD.give_back(address);
}

/// The word that counts, if the counter is one of these.
pub(crate) fn ended(address: u64) -> Option<&'static AtomicU32> {
    LENT.find(address).map(|counter| &counter.ended)
}

/// The counter for receiving ahead, if it is one of these.
pub(crate) fn receipts(address: u64) -> Option<&'static Receipts> {
    AHEAD.find(address)
}
