// SPDX-License-Identifier: GPL-2.0

//! The protection domain of each user of a device, and the regions that no call of the user needs at
//! the moment.
//!
//! A key is valid on every queue pair of its protection domain. Connections must not reach memory that
//! another user, or another namespace, offers. So each user of a namespace has its own domain on each
//! device, while it has a queue pair or a region there. An idle region waits for the next call of its
//! user, and keeps the domain. Nothing here refers to the [`Device`](super::device::Device), which has
//! all of it.
//!
//! Contexts: everything may sleep. Locks: the device's, which is innermost and orders all calls. The
//! results of the calls are dropped without it.

use crate::{
    ffi,
    prelude::*,
    rdma::mr::Mr, //
};
use core::ptr::NonNull;
use kernel::rbtree::{
    RBTree,
    RBTreeNodeReservation, //
};

/// A user of a namespace, by numbers that are unique while both exist.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct User {
    pub(crate) net: usize,
    pub(crate) uid: u32,
}

/// A protection domain, freed when this is dropped.
///
/// # Invariants
///
/// It is valid.
struct Pd(NonNull<ffi::ib_pd>);

impl Drop for Pd {
    fn drop(&mut self) {
        // SAFETY: Valid by the invariant. Every object in the domain has been dropped: queue pairs and
        // regions in use have held it, and idle regions are dropped before.
        unsafe { ffi::rust_ib_dealloc_pd(self.0.as_ptr()) };
    }
}

/// A region without a user of its memory.
struct Idle {
    mr: Mr,
    /// The time of its last use, as the number of a use.
    since: u64,
}

/// The protection domain of a user, and its idle regions. The order of the fields is the order of destruction.
pub(super) struct Holding {
    /// Idle regions, the last used one at the end. Has room for every region of the user.
    free: KVec<Idle>,
    pd: Pd,
    /// Queue pairs and regions in use.
    holders: u32,
    /// Regions, idle or in use.
    regions: u32,
}

// SAFETY: ib_core objects may be used from any thread.
unsafe impl Send for Holding {}

/// An idle region to be freed, and the holding of its user if that ends with it. The order of the
/// fields is the order of destruction.
pub(super) struct Evicted {
    _mr: Mr,
    _holding: Option<Holding>,
}

/// The source of the next region.
pub(super) enum Choice {
    Reuse(Mr),
    /// A new region: there is room for it, or there will be when this one of another user is freed.
    Make(Option<Evicted>),
}

/// The holdings of all users of a device.
///
/// # Invariants
///
/// `ib` is registered.
pub(super) struct Holdings {
    ib: NonNull<ffi::ib_device>,
    users: RBTree<User, Holding>,
    /// Regions of all users, idle or in use.
    regions: u32,
    /// Uses of regions that have ended.
    uses: u64,
    closing: bool,
}

impl Holdings {
    /// # Safety
    ///
    /// `ib` is registered until the result is dropped.
    pub(super) unsafe fn new(ib: NonNull<ffi::ib_device>) -> Self {
        // INVARIANT: by the caller's promise.
        Self {
            ib,
            users: RBTree::new(),
            regions: 0,
            uses: 0,
            closing: false,
        }
    }

    /// The protection domain of `user`, which stays until it is released.
    pub(super) fn hold(&mut self, user: User) -> Result<NonNull<ffi::ib_pd>> {
        if let Some(holding) = self.users.get_mut(&user) {
            holding.holders = holding.holders.checked_add(1).ok_or(ENOBUFS)?;
            return Ok(holding.pd.0);
        }
        let place = RBTreeNodeReservation::new(GFP_KERNEL)?;
        // SAFETY: The device is valid by the invariant.
        let pd = unsafe { ffi::rust_ib_alloc_pd(self.ib.as_ptr()) };
        let pd = NonNull::new(kernel::error::from_err_ptr(pd)?).ok_or(ENOMEM)?;
        let holding = Holding {
            free: KVec::new(),
            // INVARIANT: made just now.
            pd: Pd(pd),
            holders: 1,
            regions: 0,
        };
        self.users.insert(place.into_node(user, holding));
        Ok(pd)
    }

    /// The opposite. Returns the holding of the user if it ends.
    pub(super) fn release(&mut self, user: User) -> Option<Holding> {
        let holding = self.users.get_mut(&user)?;
        holding.holders = holding.holders.saturating_sub(1);
        self.end(user)
    }

    fn end(&mut self, user: User) -> Option<Holding> {
        let holding = self.users.get(&user)?;
        let over = holding.holders == 0 && holding.free.is_empty();
        over.then(|| self.users.remove(&user))?
    }

    /// An idle region of `user`, or the right to make one, which is counted from here on. A device
    /// has at most `most`. The caller holds the domain.
    pub(super) fn choose(&mut self, user: User, most: u32) -> Result<Choice> {
        if self.closing {
            return Err(ENODEV);
        }
        let holding = self.users.get_mut(&user).ok_or(EINVAL)?;
        if let Some(idle) = holding.free.pop() {
            return Ok(Choice::Reuse(idle.mr));
        }
        let room = usize::try_from(holding.regions).unwrap_or(usize::MAX);
        // Programs decide how many are made.
        holding
            .free
            .reserve(room.saturating_add(1), GFP_KERNEL | __GFP_NOWARN)?;
        let evicted = if self.regions < most {
            None
        } else {
            Some(self.evict().ok_or(ENOBUFS)?)
        };
        self.count(user, 1);
        Ok(Choice::Make(evicted))
    }

    /// A region of `user` could not be made, or has been freed.
    pub(super) fn forget(&mut self, user: User) {
        self.count(user, -1);
    }

    fn count(&mut self, user: User, by: i32) {
        self.regions = self.regions.saturating_add_signed(by);
        if let Some(holding) = self.users.get_mut(&user) {
            holding.regions = holding.regions.saturating_add_signed(by);
        }
    }

    /// Keeps a region of `user`, who holds the domain; gives it back where the device goes.
    pub(super) fn keep(&mut self, user: User, mr: Mr) -> Result<(), Mr> {
        let Some(holding) = self.users.get_mut(&user).filter(|_| !self.closing) else {
            return Err(mr);
        };
        self.uses = self.uses.wrapping_add(1);
        let since = self.uses;
        holding
            .free
            .push_within_capacity(Idle { mr, since })
            .map_err(|e| e.0.mr)
    }

    /// Takes the least recently used of all idle regions.
    fn evict(&mut self) -> Option<Evicted> {
        let first = |(user, holding): (&User, &Holding)| Some((holding.free.first()?.since, *user));
        let (_, user) = self.users.iter().filter_map(first).min()?;
        let idle = self.users.get_mut(&user)?.free.remove(0).ok()?;
        self.count(user, -1);
        Some(Evicted {
            _mr: idle.mr,
            _holding: self.end(user),
        })
    }

    /// Takes an idle region, and keeps no more: the device goes.
    pub(super) fn close(&mut self) -> Option<Evicted> {
        self.closing = true;
        self.evict()
    }
}
