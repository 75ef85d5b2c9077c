// SPDX-License-Identifier: MIT

//! The counters that the kernel writes to, one for each socket that lends, and the mark of the
//! process that they are for.

use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering};
use sdp_uapi::sdp_borrow_counter;

/// Sockets of a process that can lend at a time; the others copy.
const COUNTERS: usize = 4096;

/// `struct sdp_borrow_counter`
#[repr(C, align(8))]
struct Counter {
    ended: AtomicU32,
    gone: AtomicU32,
}

const _: () = assert!(size_of::<Counter>() == size_of::<sdp_borrow_counter>());

const LEN: usize = COUNTERS * size_of::<Counter>();

/// Pages that are never lent, or null. The first counter is no socket's: it is the mark.
static PLACE: AtomicPtr<Counter> = AtomicPtr::new(core::ptr::null_mut());
/// Where the next search begins.
static NEXT: AtomicUsize = AtomicUsize::new(0);

/// Makes the pages; `false` without memory.
pub(crate) fn make() -> bool {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: New memory.
    let place = unsafe { libc::mmap(core::ptr::null_mut(), LEN, access, flags, -1, 0) };
    if place == libc::MAP_FAILED {
        return false;
    }
    // A child finds zeroes there, however it was made.
    // SAFETY: The new memory.
    if unsafe { libc::madvise(place, LEN, libc::MADV_WIPEONFORK) } != 0 {
        // SAFETY: As above.
        unsafe { libc::munmap(place, LEN) };
        return false;
    }
    PLACE.store(place.cast(), Ordering::Release);
    for counter in all() {
        counter.gone.store(1, Ordering::Relaxed);
    }
    true
}

/// Whether this is the process that has made them, and no child of it.
pub(crate) fn are_own() -> bool {
    let mark = all().first();
    mark.is_some_and(|mark| mark.gone.load(Ordering::Relaxed) == 1)
}

/// All counters, and the mark.
fn all() -> &'static [Counter] {
    let place = PLACE.load(Ordering::Acquire);
    if place.is_null() {
        return &[];
    }
    // SAFETY: `make` has mapped so many, and they stay.
    unsafe { core::slice::from_raw_parts(place, COUNTERS) }
}

/// A counter that no socket uses; nobody else gets it until [`give_back`] or the kernel marks it.
pub(crate) fn take() -> Option<u64> {
    let counters = all().get(1..)?;
    let first = NEXT.fetch_add(1, Ordering::Relaxed);
    for step in 0..counters.len() {
        let at = first.wrapping_add(step).checked_rem(counters.len())?;
        let counter = counters.get(at)?;
        let free = counter
            .gone
            .compare_exchange(1, 0, Ordering::AcqRel, Ordering::Relaxed);
        if free.is_ok() {
            return Some(core::ptr::from_ref(counter).addr() as u64);
        }
    }
    None
}

/// The kernel has not taken it.
pub(crate) fn give_back(address: u64) {
    if let Some(counter) = find(address) {
        counter.gone.store(1, Ordering::Release);
    }
}

fn find(address: u64) -> Option<&'static Counter> {
    let place = PLACE.load(Ordering::Acquire).addr() as u64;
    let at = address
        .checked_sub(place)?
        .checked_div(size_of::<Counter>() as u64)?;
    all().get(usize::try_from(at).ok()?)
}

/// The word that counts, if the counter is one of these.
pub(crate) fn ended(address: u64) -> Option<&'static AtomicU32> {
    find(address).map(|counter| &counter.ended)
}
