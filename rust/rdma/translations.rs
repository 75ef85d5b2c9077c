// SPDX-License-Identifier: GPL-2.0

//! The translation cache: pages of programs that stay pinned and mapped between uses.
//!
//! C headers: [`include/linux/mmu_notifier.h`](srctree/include/linux/mmu_notifier.h),
//! [`include/linux/shrinker.h`](srctree/include/linux/shrinker.h)
//!
//! Memory that a program gives to a device again and again is not pinned again and again. A registration, and
//! its key, end after each use as without the cache; only what the peer does not know stays.
//!
//! # Why a hit is right
//!
//! A range is pinned once it is [watched](super::interval), and it is found only while the watch has not been
//! told of a change. So the pages that are found are those that the program has there, and a device that has
//! written to them has written to the program's memory, if the range is not stale then either. A range that
//! becomes stale in use goes on as pages do that were pinned for this use alone.
//!
//! Only private anonymous memory is cached: the pages of a file can leave it without a change of the
//! address space, and have to be marked as dirty after each use. Pages that are pinned for writing are
//! dirty in the program's page tables until a change is told. A thread may have fewer rights than its
//! program by a protection key, so memory with a key is not cached, and the rights for memory without
//! one are looked at in each use.
//!
//! # The ends of a range
//!
//! | event | who | when |
//! |---|---|---|
//! | a change of the range, exec(), the end of the program | the worker of its interval | at once |
//! | no use for [`IDLE_MS`], at most twice as long | the sweep | then |
//! | memory is scarce | the shrinker marks the least recently used, the worker takes them out | at once |
//! | the user may lock no more memory | the call that needs it | before it pins |
//! | there are [`MOST`] ranges | the call marks the least recently used | at once |
//! | memory is to be pinned by one owner alone | that call | before it pins |
//! | a device goes, the module goes | that thread | all of the cache |
//!
//! A range that leaves while it is in use stays pinned to the end of the use.
//!
//! Pinned bytes are charged to RLIMIT_MEMLOCK of the user while they are pinned, as by MSG_ZEROCOPY
//! and io_uring.
//!
//! # Contexts and locks
//!
//! Process context, may sleep; the shrinker runs in any allocation. `CACHE` is innermost, nothing is
//! allocated under it, and entries are dropped without it.

use crate::{
    ffi,
    prelude::*,
    rdma::{
        cached::{
            self,
            Entry,
            Held, //
        },
        interval::{
            Interval,
            Watch, //
        },
        pages::UserPages,
        pins::{
            pages_of,
            Pins,
            Purpose, //
        },
        sightings::Sightings,
        spans::{
            Key,
            Place,
            Room,
            Spans, //
        },
        translation::Translation, //
    },
};
use kernel::{
    page::PAGE_SIZE,
    sync::{
        global_lock,
        Arc, //
    },
};

/// Ranges in the cache at most, of all programs.
const MOST: usize = 4096;

/// Time without a use after which a range leaves.
const IDLE_MS: u32 = 2000;

/// A use of a range that the cache has in two pieces is cut, if the first piece has so many bytes.
const WORTH: usize = 64 << 10;

static SEEN: Sightings = Sightings::new();

global_lock! {
    // SAFETY: Initialised by `Cache::new`, before the first use.
    unsafe(uninit) static CACHE: Mutex<Table> = Table(None);
}

/// The ranges; none where there is no cache.
struct Table(Option<Spans<Entry>>);

impl Table {
    fn take<R>(&mut self, from: impl FnOnce(&mut Spans<Entry>) -> Option<R>) -> Option<R> {
        from(self.0.as_mut()?)
    }
}

/// Takes something out, to be dropped without the lock.
fn take<R>(from: impl FnOnce(&mut Spans<Entry>) -> Option<R>) -> Option<R> {
    CACHE.lock().take(from)
}

/// The cache of the module; nothing is cached without it, nor on a kernel without notifiers.
pub(crate) struct Cache {
    works: bool,
}

impl Cache {
    /// # Safety
    ///
    /// Called once, before anything is pinned.
    pub(crate) unsafe fn new() -> Result<Self> {
        // SAFETY: Called once, and before the first use, by the caller's promise.
        unsafe { CACHE.init() };
        // SAFETY: The callbacks are called until `rust_cache_stop`.
        let begun = kernel::error::to_result(unsafe {
            ffi::rust_cache_begin(Some(sweep_cb), Some(count_cb), Some(give_cb))
        });
        match begun {
            Ok(()) => CACHE.lock().0 = Some(Spans::new()),
            Err(e) if e == EOPNOTSUPP => {}
            Err(e) => return Err(e),
        }
        Ok(Self {
            works: begun.is_ok(),
        })
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        if !self.works {
            return;
        }
        // SAFETY: Begun by `new`.
        unsafe { ffi::rust_cache_stop() };
        clear();
        CACHE.lock().0 = None;
        // SAFETY: As above. No code is left to pin anything, so this does the last work.
        unsafe { ffi::rust_cache_end() };
    }
}

/// Memory that a program gives to a device.
pub(crate) struct Given<'a> {
    pub(crate) addr: usize,
    pub(crate) len: usize,
    /// Bytes at `addr` that the program may give later, at least `len`.
    pub(crate) room: usize,
    /// A piece of fewer bytes is of no use, unless `len` is less.
    pub(crate) least: usize,
    /// To read, to write, or to lend.
    pub(crate) purpose: Purpose,
    pub(crate) held: &'a Arc<Held>,
}

impl Given<'_> {
    /// The page of `addr`, in the calling program.
    fn place(&self) -> Key {
        Key {
            // SAFETY: Plain question about the current task.
            mm: unsafe { ffi::rust_current_mm() } as usize,
            write: self.purpose.is_for_writing(),
            last: self.addr / PAGE_SIZE,
        }
    }

    /// Whether a part with so many pages is enough; the number of its bytes.
    fn part(&self, pages: usize) -> Option<usize> {
        let there = pages
            .saturating_mul(PAGE_SIZE)
            .saturating_sub(self.addr % PAGE_SIZE);
        let least = self.least.max(WORTH).min(self.len);
        (there >= least).then(|| there.min(self.len))
    }
}

/// Pins up to `given.len` bytes, as [`UserPages::pin`]. The second value says whether they were found
/// pinned.
pub(crate) fn pin(given: &Given<'_>) -> Result<(Arc<UserPages>, bool)> {
    let place = given.place();
    match find(&place) {
        Place::Taken(Some(found), pages) => {
            // SAFETY: Plain question about the current task.
            let may = unsafe { ffi::rust_may_access(place.write) };
            if let Some(len) = given.part(pages).filter(|_| may) {
                return Ok((UserPages::of(found, given.addr, len)?, true));
            }
        }
        Place::Free(pages) if given.part(pages).is_some() && SEEN.see(&place) => {
            if let Some(cached) = cache(given, place, pages) {
                return Ok((cached, false));
            }
        }
        _ => {}
    }
    Ok((UserPages::pin(given.addr, given.len, given.purpose)?, false))
}

/// The content of the cache at `place`, without a range that is stale.
fn find(place: &Key) -> Place<Option<Arc<Translation>>> {
    let mut cache = CACHE.lock();
    let Some(spans) = cache.0.as_mut() else {
        return Place::Taken(None, 0);
    };
    spans.find(place, Entry::hit)
}

/// Pins the memory of `given` and enters it in the cache, which does not have its first `free` pages.
/// `None`: it cannot be pinned for that, and may be for one use.
fn cache(given: &Given<'_>, place: Key, free: usize) -> Option<Arc<UserPages>> {
    let first = place.last;
    let pages = pages_of(given.addr, given.room.max(given.len)).min(free);
    let key = Key {
        last: first.saturating_add(pages).saturating_sub(1),
        ..place
    };
    let (start, len) = (
        first.saturating_mul(PAGE_SIZE),
        pages.saturating_mul(PAGE_SIZE),
    );
    let room = Room::new().ok()?;
    let watch = Watch::new(key, first, pages, leave).ok()?;
    // SAFETY: Plain question about the program.
    if !unsafe { ffi::rust_is_cacheable(start, len) } {
        SEEN.refuse(&place);
        return None;
    }
    let pins = Pins::new(start, len, given.purpose, true).ok()?;
    let whole = pins.as_slice().len() == pages;
    let translation = Translation::new(pins, first, watch).ok()?;
    if whole {
        enter(room, &translation, given.held);
    } else {
        SEEN.refuse(&place);
    }
    let part = given.part(pages)?;
    UserPages::of(translation, given.addr, part).ok()
}

/// Enters pages that were just pinned, unless the program may have others by now, or the place is taken.
fn enter(room: Room<Entry>, translation: &Arc<Translation>, held: &Arc<Held>) {
    let entry = Entry::new(translation.clone(), held);
    let refused = {
        let mut cache = CACHE.lock();
        // The page tables were read before: pairs with the exchange in `Interval::invalidate`.
        smp_rmb();
        match cache.0.as_mut() {
            Some(spans) if !translation.is_stale() => {
                if spans.len() >= MOST {
                    if let Some((_, oldest)) = spans.oldest(|entry| !entry.is_stale()) {
                        oldest.evict();
                    }
                    Some(entry)
                } else {
                    let (key, first) = (translation.key(), translation.first_page());
                    spans.insert(room, key, first, entry).err()
                }
            }
            _ => Some(entry),
        }
    };
    match refused {
        // Dropped without the lock.
        Some(entry) => drop(entry),
        // SAFETY: The cache works.
        None => unsafe { ffi::rust_cache_sweep(IDLE_MS) },
    }
}

/// The worker of an interval that is stale: it leaves the cache.
fn leave(interval: &Arc<Interval>) {
    let key = interval.key();
    let is_it = |entry: &Entry| Arc::ptr_eq(entry.translation().interval(), interval);
    let Some(entry) = take(|spans| spans.take(&key, is_it)) else {
        return;
    };
    if entry.count_stale() && !interval.has_ended() {
        let last = entry.translation().first_page();
        SEEN.refuse(&Key { last, ..key });
    }
}

/// Evicts the least recently used range that is charged to the calling user; false if there is none.
pub(crate) fn evict_of_user() -> bool {
    // SAFETY: Plain question about the current task.
    let user = unsafe { ffi::rust_current_user() };
    let evicted = take(|spans| {
        let charged = |entry: &Entry| entry.translation().pins().is_charged_to(user);
        let (key, entry) = spans.oldest(charged)?;
        entry.count_evicted();
        spans.take(&key, |_| true)
    });
    evicted.is_some()
}

/// Evicts the memory of the calling program from `addr` on, to be pinned by one owner alone.
pub(crate) fn evict_range(addr: usize, len: usize) {
    // SAFETY: Plain question about the current task.
    let mm = unsafe { ffi::rust_current_mm() } as usize;
    let first = addr / PAGE_SIZE;
    let last = first.saturating_add(pages_of(addr, len)).saturating_sub(1);
    for write in [false, true] {
        let key = Key { mm, write, last };
        while let Some(entry) = take(|spans| spans.take_within(&key, first)) {
            entry.count_evicted();
            drop(entry);
        }
    }
}

/// Empties the cache.
pub(super) fn clear() {
    while let Some(entry) = take(Spans::take_any) {
        drop(entry);
    }
}

/// The sweep.
///
/// # Safety
///
/// None: it is called by C.
unsafe extern "C" fn sweep_cb(_: *mut ffi::core::work_struct) {
    let mut after = None;
    while let Some((key, entry)) = take(|spans| spans.take_idle(after)) {
        after = Some(key);
        entry.count_expired();
        drop(entry);
    }
    let mut cache = CACHE.lock();
    let Some(spans) = cache.0.as_mut() else {
        return;
    };
    spans.end_sweep();
    if spans.len() > 0 {
        // SAFETY: The cache works.
        unsafe { ffi::rust_cache_sweep(IDLE_MS) };
    }
}

/// The pages that the shrinker could free.
///
/// # Safety
///
/// None: it is called by C.
unsafe extern "C" fn count_cb() -> c_ulong {
    cached::pages() as c_ulong
}

/// The shrinker: marks ranges with so many pages, which the workers take out. Returns the pages of those.
/// It may be called under locks that the end of a watch needs, so it takes out nothing itself.
///
/// # Safety
///
/// None: it is called by C.
unsafe extern "C" fn give_cb(pages: c_ulong) -> c_ulong {
    let Some(mut cache) = CACHE.try_lock() else {
        return 0;
    };
    let mut marked = 0usize;
    while marked < pages {
        let oldest = cache.take(|spans| {
            let (_, entry) = spans.oldest(|entry| !entry.is_stale())?;
            entry.evict();
            Some(entry.pages())
        });
        let Some(count) = oldest else { break };
        marked = marked.saturating_add(count);
    }
    marked
}
