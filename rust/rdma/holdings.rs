// SPDX-License-Identifier: GPL-2.0

//! The protection domain of each user of a device, and the regions that no call of the user needs at
//! the moment.
//!
//! A key is valid on every queue pair of its protection domain. Connections must not reach memory that
//! another user, or another namespace, offers. So each user of a namespace has its own domain on each
//! device, while it has a queue pair or a region there. An idle region waits for the next call of its
//! user, and keeps the domain. Nothing here refers to the [`Device`](super::device::Device), which has
//! all of it, and nothing makes or frees an object of ib_core, so the types of domains and regions are
//! open to tests.
//!
//! Contexts: everything may sleep. Locks: the device's, which is innermost and orders all calls. The
//! results of the calls are dropped without it.

use crate::prelude::*;
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

/// A region without a user of its memory.
struct Idle<M> {
    mr: M,
    /// The time of its last use, as the number of a use.
    since: u64,
}

/// The protection domain of a user, and its idle regions. The order of the fields is the order of destruction.
pub(super) struct Holding<P, M> {
    /// Idle regions, the last used one at the end. Has room for every region of the user.
    free: KVec<Idle<M>>,
    pd: P,
    /// Queue pairs, regions in use, and regions that are being freed.
    holders: u32,
    /// Regions, idle or in use.
    regions: u32,
}

/// A region that was idle, to be freed by [`Device::free`](super::device::Device::free). Its user's
/// domain is held until the region has been freed.
#[must_use]
pub(super) struct Evicted<M> {
    pub(super) mr: M,
    pub(super) user: User,
}

/// The source of the next region.
pub(super) enum Choice<M> {
    Reuse(M),
    /// A new region: there is room for it, or there will be when this one of another user is freed.
    Make(Option<Evicted<M>>),
}

/// The holdings of all users of a device: domains `P`, regions `M`.
pub(super) struct Holdings<P, M> {
    users: RBTree<User, Holding<P, M>>,
    /// Regions of all users, idle or in use.
    regions: u32,
    /// Uses of regions that have ended.
    uses: u64,
    closing: bool,
}

impl<P, M> Holdings<P, M> {
    pub(super) fn new() -> Self {
        Self {
            users: RBTree::new(),
            regions: 0,
            uses: 0,
            closing: false,
        }
    }

    /// The protection domain of `user`, which stays until it is released. The first holder makes it.
    pub(super) fn hold(&mut self, user: User, make: impl FnOnce() -> Result<P>) -> Result<&P> {
        if self.users.get(&user).is_none() {
            let place = RBTreeNodeReservation::new(GFP_KERNEL)?;
            let holding = Holding {
                free: KVec::new(),
                pd: make()?,
                holders: 0,
                regions: 0,
            };
            self.users.insert(place.into_node(user, holding));
        }
        let holding = self.users.get_mut(&user).ok_or(EINVAL)?;
        holding.holders = holding.holders.checked_add(1).ok_or(ENOBUFS)?;
        Ok(&holding.pd)
    }

    /// The opposite. Returns the holding of the user if it ends.
    pub(super) fn release(&mut self, user: User) -> Option<Holding<P, M>> {
        let holding = self.users.get_mut(&user)?;
        holding.holders = holding.holders.saturating_sub(1);
        self.end(user)
    }

    fn end(&mut self, user: User) -> Option<Holding<P, M>> {
        let holding = self.users.get(&user)?;
        let over = holding.holders == 0 && holding.free.is_empty();
        over.then(|| self.users.remove(&user))?
    }

    /// An idle region of `user`, or the right to make one, which is counted from here on. A device
    /// has at most `most`. The caller holds the domain.
    pub(super) fn choose(&mut self, user: User, most: u32) -> Result<Choice<M>> {
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
    pub(super) fn keep(&mut self, user: User, mr: M) -> Result<(), M> {
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
    fn evict(&mut self) -> Option<Evicted<M>> {
        let first =
            |(user, holding): (&User, &Holding<P, M>)| Some((holding.free.first()?.since, *user));
        let (_, user) = self.users.iter().filter_map(first).min()?;
        let holding = self.users.get_mut(&user)?;
        // The last holder may release the domain before the region has been freed.
        let holders = holding.holders.checked_add(1)?;
        let idle = holding.free.remove(0).ok()?;
        holding.holders = holders;
        self.count(user, -1);
        Some(Evicted { mr: idle.mr, user })
    }

    pub(super) fn is_closing(&self) -> bool {
        self.closing
    }

    /// Takes an idle region, and keeps no more: the device goes.
    pub(super) fn close(&mut self) -> Option<Evicted<M>> {
        self.closing = true;
        self.evict()
    }
}

#[kunit_tests(rdma_holdings)]
mod tests {
    use super::*;

    #[test]
    fn a_region_that_is_being_freed_holds_its_domain() {
        let user = User { net: 1, uid: 2 };
        let mut holdings = Holdings::<(), u32>::new();
        assert!(holdings.hold(user, || Ok(())).is_ok());
        assert!(matches!(holdings.choose(user, 1), Ok(Choice::Make(None))));
        assert!(holdings.keep(user, 3).is_ok());
        let evicted = holdings.close();
        assert!(evicted
            .as_ref()
            .is_some_and(|it| it.mr == 3 && it.user == user));
        // The queue pair goes, and the region has not been freed yet.
        assert!(holdings.release(user).is_none());
        assert!(holdings.release(user).is_some());
    }

    #[test]
    fn a_region_makes_room_for_one_of_another_user() {
        let users = [1, 2].map(|uid| User { net: 1, uid });
        let mut holdings = Holdings::<(), u32>::new();
        for user in users {
            assert!(holdings.hold(user, || Ok(())).is_ok());
        }
        assert!(matches!(
            holdings.choose(users[0], 1),
            Ok(Choice::Make(None))
        ));
        // It is in use.
        assert!(matches!(holdings.choose(users[1], 1), Err(ENOBUFS)));
        assert!(holdings.keep(users[0], 4).is_ok());
        let other = holdings.choose(users[1], 1);
        assert!(
            matches!(other, Ok(Choice::Make(Some(Evicted { mr: 4, user }))) if user == users[0])
        );
        assert!(holdings.release(users[0]).is_none());
        assert!(holdings.release(users[0]).is_some());
        assert!(holdings.release(users[1]).is_some());
    }
}
