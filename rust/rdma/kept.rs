// SPDX-License-Identifier: GPL-2.0

//! The registration cache: regions that stay registered, and their pages pinned, for a
//! while after their use, for the next call of the same connection with the same pages.
//!
//! A region is cached or in use, never both, and no request in flight uses a cached
//! one. It leaves the cache when it is found again, when it expires, with its
//! connection, or when another call needs its resources. In all cases but the first its
//! registration ends before its pages are unpinned.
//!
//! Contexts: everything may sleep. Locks: `KEPT`, innermost; regions are dropped
//! without it.

use crate::{
    ffi,
    prelude::*,
    rdma::{
        device::Device,
        mr::Access,
        noio::NoIo,
        pages::UserPages,
        region::Region, //
    },
};
use kernel::{
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        global_lock,
        Arc, //
    },
    time::{
        Instant,
        Monotonic, //
    },
};

struct Entry {
    owner: Owner,
    since: Instant<Monotonic>,
    region: Region,
}

global_lock! {
    // SAFETY: Initialised by `List::new`, before the first use.
    unsafe(uninit) static KEPT: Mutex<Entries> = Entries {
        // Ordered by use, the least recently used region first.
        list: KVec::new(),
    };
}

struct Entries {
    list: KVec<Entry>,
}

/// The list of all cached regions, empty at the beginning and at the end.
pub(crate) struct List(());

impl List {
    /// # Safety
    ///
    /// Called once, before anything is cached.
    pub(crate) unsafe fn new() -> Self {
        // SAFETY: Called once, and before the first use, by the caller's promise.
        unsafe { KEPT.init() };
        Self(())
    }
}

impl Drop for List {
    fn drop(&mut self) {
        // Frees its memory; no connection is left.
        KEPT.lock().list = KVec::new();
    }
}

/// The owner of cached regions. No two connections ever have the same.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Owner(u64);

static OWNERS: Atomic<u64> = Atomic::new(0);

/// Takes out the least recently used region for which `is_it` holds.
fn take(is_it: impl Fn(&Entry) -> bool) -> Option<Region> {
    let mut kept = KEPT.lock();
    let at = kept.list.iter().position(is_it)?;
    kept.list.remove(at).ok().map(|entry| entry.region)
}

/// The cached region of `owner` with the same pages and `access`.
pub(crate) fn find(owner: Owner, pages: &UserPages, access: Access) -> Option<Region> {
    take(|entry| {
        let region = &entry.region;
        entry.owner == owner && region.access() == access && region.pages().is_same(pages)
    })
}

/// Evicts the least recently used region of `device`; false if there is none.
pub(crate) fn evict_of_device(device: &Arc<Device>) -> bool {
    take(|entry| entry.region.is_on(device)).is_some()
}

/// Evicts the least recently used region that is charged to the calling user; false if
/// there is none.
pub(crate) fn evict_of_user() -> bool {
    // SAFETY: Plain question about the current task.
    let user = unsafe { ffi::rust_current_user() };
    take(|entry| entry.region.pages().is_charged_to(user)).is_some()
}

/// Drops all regions of `owner`; returns their number.
pub(crate) fn clear(owner: Owner) -> u32 {
    let mut count = 0u32;
    while let Some(region) = take(|entry| entry.owner == owner) {
        drop(region);
        count = count.saturating_add(1);
    }
    count
}

/// The cached regions of a connection; they are dropped with it.
pub(crate) struct Keeper(Owner);

/// The next region to expire.
pub(crate) enum Due {
    Now(Region),
    /// The region that expires first does so in that many milliseconds.
    Later(u32),
}

impl Keeper {
    pub(crate) fn new() -> Self {
        Self(Owner(OWNERS.fetch_add(1, Relaxed)))
    }

    pub(crate) fn owner(&self) -> Owner {
        self.0
    }

    /// Caches `region`, which has no request in flight. Returns whether it is the
    /// only one now. Without memory for the entry nothing is cached.
    pub(crate) fn keep(&self, region: Region) -> Result<bool> {
        region.sync_for_cpu();
        let _noio = NoIo::new();
        let mut kept = KEPT.lock();
        if let Err(e) = kept.list.reserve(1, GFP_KERNEL) {
            drop(kept);
            drop(region);
            return Err(e.into());
        }
        let only = kept.list.iter().all(|entry| entry.owner != self.0);
        let entry = Entry {
            owner: self.0,
            since: Instant::now(),
            region,
        };
        // There is room.
        let _ = kept.list.push_within_capacity(entry);
        Ok(only)
    }

    /// The least recently used region, if its last use is `keep_ms` ago.
    pub(crate) fn due(&self, keep_ms: u32) -> Option<Due> {
        let mut kept = KEPT.lock();
        let at = kept.list.iter().position(|entry| entry.owner == self.0)?;
        let age = (Instant::now() - kept.list.get(at)?.since).as_millis();
        let left = i64::from(keep_ms).saturating_sub(age);
        if left > 0 {
            return Some(Due::Later(u32::try_from(left).unwrap_or(u32::MAX)));
        }
        kept.list
            .remove(at)
            .ok()
            .map(|entry| Due::Now(entry.region))
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        clear(self.0);
    }
}
