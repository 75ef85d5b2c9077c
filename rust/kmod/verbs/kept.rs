// SPDX-License-Identifier: GPL-2.0

//! Regions that stay registered, and their pages pinned, for a while after their
//! use: for the next call of the same connection with the same pages.
//!
//! A region is here or in use, never both, and nothing of ours that is in flight
//! uses one that is here. It leaves by being found again, by its time, with its
//! connection, or because somebody has need of what it takes up; in all cases but
//! the first it ceases to be registered before its pages are unpinned.
//!
//! Contexts: everything may sleep. Locks: `KEPT`, innermost; regions are dropped
//! without it.

use crate::{
    ffi,
    verbs::{
        device::Device,
        pages::UserPages,
        qp::Access,
        region::Region, //
    },
};
use kernel::{
    prelude::*,
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
        // The one that was used least recently comes first.
        list: KVec::new(),
    };
}

struct Entries {
    list: KVec<Entry>,
}

/// The list of all regions that are kept, empty at the beginning and at the end.
pub(crate) struct List(());

impl List {
    /// # Safety
    ///
    /// Called once, before anything is kept.
    pub(crate) unsafe fn new() -> Self {
        // SAFETY: Called once, and before the first use, by the caller's promise.
        unsafe { KEPT.init() };
        Self(())
    }
}

impl Drop for List {
    fn drop(&mut self) {
        // Its memory; no connection is left to keep anything.
        KEPT.lock().list = KVec::new();
    }
}

/// Whose regions they are. No two connections ever have the same.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Owner(u64);

static OWNERS: Atomic<u64> = Atomic::new(0);

/// Takes out the least recently used region that is meant.
fn take(is_it: impl Fn(&Entry) -> bool) -> Option<Region> {
    let mut kept = KEPT.lock();
    let at = kept.list.iter().position(is_it)?;
    kept.list.remove(at).ok().map(|entry| entry.region)
}

/// The region of `owner` that describes the very same pages for `access`.
pub(crate) fn find(owner: Owner, pages: &UserPages, access: Access) -> Option<Region> {
    take(|entry| {
        let region = &entry.region;
        entry.owner == owner && region.access() == access && region.pages().is_same(pages)
    })
}

/// Gives up the least recently used region of `device`; false if there is none.
pub(crate) fn evict_of_device(device: &Arc<Device>) -> bool {
    take(|entry| entry.region.is_on(device)).is_some()
}

/// Gives up the least recently used region that is charged to the user who calls;
/// false if there is none.
pub(crate) fn evict_of_user() -> bool {
    // SAFETY: Plain question about the current task.
    let user = unsafe { ffi::sdp_current_user() };
    take(|entry| entry.region.pages().is_charged_to(user)).is_some()
}

/// Gives up everything of `owner`; returns how many regions that were.
pub(crate) fn clear(owner: Owner) -> u32 {
    let mut count = 0u32;
    while let Some(region) = take(|entry| entry.owner == owner) {
        drop(region);
        count = count.saturating_add(1);
    }
    count
}

/// What a connection keeps; all of it goes with this.
pub(crate) struct Keeper(Owner);

/// The next region whose time is over.
pub(crate) enum Due {
    Now(Region),
    /// In so many milliseconds.
    Later(u32),
}

impl Keeper {
    pub(crate) fn new() -> Self {
        Self(Owner(OWNERS.fetch_add(1, Relaxed)))
    }

    pub(crate) fn owner(&self) -> Owner {
        self.0
    }

    /// Keeps `region`, of which no request is in flight. Returns whether it is the
    /// only one now; for want of memory nothing is kept.
    pub(crate) fn keep(&self, region: Region) -> Result<bool> {
        region.sync_for_cpu();
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

    /// The region that was used least recently, once that is `keep_ms` ago.
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
