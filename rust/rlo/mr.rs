// SPDX-License-Identifier: GPL-2.0

//! Memory regions: the memory behind keys.
//!
//! Contexts: lookups and registration work in any context; [`Mr::settle`] sleeps. The lock of a
//! region is a leaf.

use crate::{
    bus::Addresses,
    irq_lock::{
        new_spinlock_irq,
        SpinLockIrq, //
    },
    prelude::*,
    task, //
};
use kernel::sync::{
    atomic::{
        Acquire,
        Atomic,
        Relaxed,
        Release, //
    },
    Arc, //
};

/// The smallest page size of a region, as a power of two.
const MIN_SHIFT: u32 = 12;

/// Access is refused: wrong key, bounds, rights or protection domain.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Refused;

/// The memory that a region describes.
struct State {
    /// The lower eight bits of the valid key.
    key: u8,
    valid: bool,
    rights: u32,
    start: u64,
    len: u64,
    /// Device addresses of the pages; `start` lies in the first.
    pages: KVVec<u64>,
    /// Their size, as a power of two.
    shift: u32,
    /// The pages of the next registration, and their size.
    mapped: KVVec<u64>,
    mapped_shift: u32,
    /// A next registration has been mapped.
    fresh: bool,
    /// `mapped` is with the thread that fills it.
    mapping: bool,
}

impl State {
    /// How far behind the begin of the region `address` is, if the key and the domain are right, it
    /// gives these rights, and `len` bytes from there on belong to it.
    fn offset(
        &self,
        domain: usize,
        (key, pd, rights): (u32, usize, u32),
        address: u64,
        len: u64,
    ) -> Result<u64, Refused> {
        if !self.valid || self.key != key as u8 || domain != pd || self.rights & rights != rights {
            return Err(Refused);
        }
        let offset = address.checked_sub(self.start).ok_or(Refused)?;
        match self.len.checked_sub(offset) {
            Some(rest) if rest >= len => Ok(offset),
            _ => Err(Refused),
        }
    }

    /// The device address of the byte `place` behind the begin of the first page, and how many of
    /// `want` bytes from there on lie in adjacent pages.
    fn run(&self, place: u64, want: usize) -> Option<(u64, usize)> {
        let page = 1u64 << self.shift;
        let within = place & (page - 1);
        let mut index = (place >> self.shift) as usize;
        let mut last = *self.pages.get(index)?;
        let first = last + within;
        let mut len = (page - within) as usize;
        while len < want {
            index += 1;
            match self.pages.get(index) {
                Some(&next) if next == last + page => last = next,
                _ => break,
            }
            len += page as usize;
        }
        Some((first, len.min(want)))
    }
}

/// A region.
#[pin_data]
pub(crate) struct Mr {
    /// The upper 24 bits of its keys.
    pub(crate) index: u32,
    /// Address of its protection domain, which outlives it; compared only.
    pub(crate) pd: usize,
    /// It describes all memory: device addresses are used as they are.
    all: bool,
    max_pages: usize,
    #[pin]
    state: SpinLockIrq<State>,
    /// Copies in progress.
    uses: Atomic<i32>,
}

/// The pages of the next registration, while they are listed.
pub(crate) struct Pages {
    list: KVVec<u64>,
    most: usize,
    /// Their size, as a power of two.
    shift: u32,
}

impl Pages {
    /// Adds a page; `ENOMEM` if there is no room.
    pub(crate) fn push(&mut self, address: u64) -> Result {
        if self.list.len() >= self.most {
            return Err(ENOMEM);
        }
        self.list.push_within_capacity(address).map_err(|_| ENOMEM)
    }
}

/// Permission for a copy in progress.
pub(crate) struct Use(Arc<Mr>);

impl Drop for Use {
    fn drop(&mut self) {
        self.0.uses.fetch_sub(1, Release);
    }
}

/// The parameters of IB_WR_REG_MR.
#[derive(Clone, Copy)]
pub(crate) struct Registration {
    pub(crate) key: u32,
    pub(crate) rights: u32,
    pub(crate) start: u64,
    pub(crate) len: u64,
}

impl Mr {
    pub(crate) fn new(
        index: u32,
        pd: usize,
        max_pages: usize,
        all: Option<u32>,
    ) -> Result<Arc<Self>> {
        let pages = KVVec::with_capacity(max_pages, GFP_KERNEL)?;
        let mapped = KVVec::with_capacity(max_pages, GFP_KERNEL)?;
        let (valid, rights) = (all.is_some(), all.unwrap_or(0));
        Arc::pin_init(
            pin_init!(Self {
                index,
                pd,
                all: valid,
                max_pages,
                state <- new_spinlock_irq!(State {
                    key: 0,
                    valid,
                    rights,
                    start: 0,
                    len: u64::MAX,
                    pages,
                    shift: MIN_SHIFT,
                    mapped,
                    mapped_shift: MIN_SHIFT,
                    fresh: false,
                    mapping: false,
                }),
                uses: Atomic::new(0),
            }),
            GFP_KERNEL,
        )
    }

    /// An empty list for the pages of the next registration, which [`Self::end_map`] takes back. It
    /// is filled outside of the lock.
    ///
    /// # Errors
    ///
    /// `EINVAL` for pages that are too small, or have a size that is not a power of two; `EBUSY` while
    /// another thread fills it.
    pub(crate) fn begin_map(&self, page_size: u32) -> Result<Pages> {
        if page_size < 1 << MIN_SHIFT || !page_size.is_power_of_two() {
            return Err(EINVAL);
        }
        let mut list = {
            let mut state = self.state.lock();
            if state.mapping {
                return Err(EBUSY);
            }
            state.mapping = true;
            core::mem::replace(&mut state.mapped, KVVec::new())
        };
        list.clear();
        Ok(Pages {
            list,
            most: self.max_pages,
            shift: page_size.trailing_zeros(),
        })
    }

    /// The next registration has these pages.
    pub(crate) fn end_map(&self, pages: Pages) {
        let former = {
            let mut state = self.state.lock();
            state.mapped_shift = pages.shift;
            state.fresh = true;
            state.mapping = false;
            core::mem::replace(&mut state.mapped, pages.list)
        };
        drop(former);
    }

    /// Executes a registration, in the order of the queue pair's requests.
    pub(crate) fn register(&self, pd: usize, wanted: Registration) -> Result<(), Refused> {
        let mut guard = self.state.lock();
        let state = &mut *guard;
        if self.all || self.pd != pd || state.valid || wanted.key >> 8 != self.index {
            return Err(Refused);
        }
        if state.fresh && state.mapping {
            // The list is with `begin_map`. Consumers do not map while their registration is posted.
            return Err(Refused);
        }
        if state.fresh {
            core::mem::swap(&mut state.pages, &mut state.mapped);
            state.shift = state.mapped_shift;
            state.fresh = false;
        }
        let room = (state.pages.len() as u64) << state.shift;
        if wanted.len > room.saturating_sub(wanted.start & ((1 << state.shift) - 1)) {
            return Err(Refused);
        }
        state.valid = true;
        state.key = wanted.key as u8;
        state.rights = wanted.rights;
        state.start = wanted.start;
        state.len = wanted.len;
        Ok(())
    }

    /// No copy begins from now on; [`Self::is_quiet`] says when the last one has ended.
    pub(crate) fn invalidate(&self, pd: usize, key: u32) -> Result<(), Refused> {
        let mut state = self.state.lock();
        if self.all || self.pd != pd || state.key != key as u8 {
            return Err(Refused);
        }
        state.valid = false;
        Ok(())
    }

    /// Invalidates the region for every key. Sleeps until no copy is in progress.
    pub(crate) fn revoke(&self) {
        self.state.lock().valid = false;
        self.settle();
        // The lists are freed here, which may sleep, and not with the last reference.
        let lists = {
            let mut state = self.state.lock();
            (
                core::mem::replace(&mut state.pages, KVVec::new()),
                core::mem::replace(&mut state.mapped, KVVec::new()),
            )
        };
        drop(lists);
    }

    pub(crate) fn is_quiet(&self) -> bool {
        self.uses.load(Acquire) == 0
    }

    /// Sleeps until no copy is in progress.
    pub(crate) fn settle(&self) {
        while !self.is_quiet() {
            task::moment();
        }
    }

    /// Whether `len` bytes from `address` on are the region's. Pages are not looked at: all have the
    /// same rights. In a region of all memory, a hole is found when the copy comes to it.
    pub(crate) fn allows(
        &self,
        access: (u32, usize, u32),
        address: u64,
        len: u64,
        addresses: &Addresses,
    ) -> Result<(), Refused> {
        self.state.lock().offset(self.pd, access, address, len)?;
        if self.all {
            let len = usize::try_from(len).map_err(|_| Refused)?;
            addresses.start(address, len).ok_or(Refused)?;
        }
        Ok(())
    }

    /// Shows `visit` the runs of at most `want` bytes from `address` on, each with its length, until
    /// that returns false. The runs stay memory of the region until the result is dropped.
    ///
    /// Called in any context; `visit` runs under the region's lock.
    pub(crate) fn each_run(
        this: &Arc<Self>,
        (key, pd, rights): (u32, usize, u32),
        address: u64,
        want: usize,
        addresses: &Addresses,
        mut visit: impl FnMut(*mut u8, usize) -> bool,
    ) -> Result<Use, Refused> {
        let state = this.state.lock();
        let offset = state.offset(this.pd, (key, pd, rights), address, want as u64)?;
        if this.all {
            visit(addresses.peers_start(address, want).ok_or(Refused)?, want);
        } else {
            let mut place = (state.start & ((1 << state.shift) - 1)) + offset;
            let mut left = want;
            while left > 0 {
                let (start, len) = state.run(place, left).ok_or(Refused)?;
                if !visit(addresses.start(start, len).ok_or(Refused)?, len) {
                    break;
                }
                place += len as u64;
                left -= len;
            }
        }
        this.uses.fetch_add(1, Relaxed);
        Ok(Use(this.clone()))
    }
}

#[kunit_tests(rlo_mr)]
mod tests {
    use super::*;

    const PAGES: usize = 3;
    const REGISTRATION: Registration = Registration {
        key: 7 << 8,
        rights: 0,
        start: 0,
        len: (PAGES as u64) << MIN_SHIFT,
    };

    fn fill(pages: &mut Pages) -> Result {
        (0..PAGES as u64).try_for_each(|page| pages.push(page << MIN_SHIFT))
    }

    #[test]
    fn a_registration_amid_a_mapping_takes_no_list() -> Result {
        let region = Mr::new(7, 0, PAGES, None)?;
        for _ in 0..3 {
            let mut pages = region.begin_map(1 << MIN_SHIFT)?;
            fill(&mut pages)?;
            region.end_map(pages);
            let mut pages = region.begin_map(1 << MIN_SHIFT)?;
            assert!(region.register(0, REGISTRATION).is_err());
            fill(&mut pages)?;
            region.end_map(pages);
            assert!(region.register(0, REGISTRATION).is_ok());
            assert!(region.invalidate(0, REGISTRATION.key).is_ok());
        }
        Ok(())
    }
}
