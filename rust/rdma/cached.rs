// SPDX-License-Identifier: GPL-2.0

//! The ranges of the translation cache, as they are counted.
//!
//! Contexts: any, but an entry is dropped in process context, and may sleep then. No locks.

use crate::{
    prelude::*,
    rdma::translation::Translation, //
};
use kernel::sync::{
    atomic::{
        Atomic,
        Relaxed, //
    },
    Arc, //
};

/// Pages of all ranges.
static PAGES: Atomic<u64> = Atomic::new(0);

/// Number of pages of all ranges in the cache.
pub(super) fn pages() -> u64 {
    PAGES.load(Relaxed)
}

/// The pages of a namespace in the cache, and the ends of its ranges. Outlives the namespace.
pub(crate) struct Held {
    pages: Atomic<i64>,
    stale: Atomic<i64>,
    evictions: Atomic<i64>,
    expirations: Atomic<i64>,
}

impl Held {
    pub(crate) fn new() -> Result<Arc<Self>> {
        let held = Self {
            pages: Atomic::new(0),
            stale: Atomic::new(0),
            evictions: Atomic::new(0),
            expirations: Atomic::new(0),
        };
        Ok(Arc::new(held, GFP_KERNEL)?)
    }

    /// Calls `show` with every counter's name and value.
    pub(crate) fn each(&self, mut show: impl FnMut(&'static str, i64)) {
        show("cache_pages", self.pages.load(Relaxed));
        show("cache_stale", self.stale.load(Relaxed));
        show("cache_evictions", self.evictions.load(Relaxed));
        show("cache_expirations", self.expirations.load(Relaxed));
    }
}

/// A range in the cache.
pub(super) struct Entry {
    translation: Arc<Translation>,
    held: Arc<Held>,
    hits: u32,
    /// It makes room for others.
    evicted: bool,
}

impl Entry {
    pub(super) fn new(translation: Arc<Translation>, held: &Arc<Held>) -> Self {
        let pages = translation.pins().as_slice().len();
        held.pages.fetch_add(pages as i64, Relaxed);
        PAGES.fetch_add(pages as u64, Relaxed);
        Self {
            translation,
            held: held.clone(),
            hits: 0,
            evicted: false,
        }
    }

    pub(super) fn translation(&self) -> &Arc<Translation> {
        &self.translation
    }

    pub(super) fn is_stale(&self) -> bool {
        self.translation.is_stale()
    }

    pub(super) fn pages(&self) -> usize {
        self.translation.pins().as_slice().len()
    }

    /// Its pages, for a use; none if it is stale.
    pub(super) fn hit(&mut self) -> Option<Arc<Translation>> {
        if self.is_stale() {
            return None;
        }
        self.hits = self.hits.saturating_add(1);
        Some(self.translation.clone())
    }

    /// The range has to leave; the worker takes it out.
    pub(super) fn evict(&mut self) {
        self.evicted = true;
        self.count_evicted();
        self.translation.interval().invalidate();
    }

    /// The range leaves because it is stale. Returns whether that has come before any use of it.
    pub(super) fn count_stale(&self) -> bool {
        if self.evicted {
            return false;
        }
        self.held.stale.fetch_add(1, Relaxed);
        self.hits == 0
    }

    /// The range makes room.
    pub(super) fn count_evicted(&self) {
        self.held.evictions.fetch_add(1, Relaxed);
    }

    /// The range was not used for long.
    pub(super) fn count_expired(&self) {
        self.held.expirations.fetch_add(1, Relaxed);
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let pages = self.pages();
        self.held.pages.fetch_sub(pages as i64, Relaxed);
        PAGES.fetch_sub(pages as u64, Relaxed);
    }
}
