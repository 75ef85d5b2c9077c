// SPDX-License-Identifier: GPL-2.0

//! Regions that are lent to a queue pair, for its requests and for its peer.
//!
//! A region is given away when it is lent, and stands in the queue pair as long as a request may
//! use it. Its owner has a [`Lent`] instead, and gets the region back when all requests that name it
//! have completed. Then its registration has ended, or is one that only requests of ours can use;
//! otherwise the region ends it when it is dropped.
//!
//! [`qp::lend`](super::qp::lend) lends them, registers them and ends their registrations.
//!
//! Contexts: lending may sleep for memory. No locks: the owner of the queue pair calls them.

use crate::{
    prelude::*,
    rdma::{
        domain::Tenant,
        mapping::Sge,
        region::Region,
        unique::unique, //
    },
};

/// The name of a region that is lent. Where it is lost, the region goes with the queue pair.
#[must_use]
pub(crate) struct Lent {
    at: usize,
    /// No other region ever had the same.
    number: u64,
    key: u32,
    start: u64,
    len: u32,
}

impl Lent {
    /// The key of the registration, for the peer.
    pub(crate) fn key(&self) -> u32 {
        self.key
    }

    /// The address of the first byte under the key.
    pub(crate) fn start(&self) -> u64 {
        self.start
    }

    pub(crate) fn len(&self) -> u32 {
        self.len
    }
}

/// A region that is lent.
pub(super) struct Lending {
    number: u64,
    pub(super) region: Region,
    /// The youngest request that names it.
    used: u64,
    /// The key that has to be invalidated before the region is registered.
    pub(super) stale: Option<u32>,
    /// The end of its registration was posted.
    revoked: bool,
}

impl Lending {
    /// The request with the number `request`, which is posted next, names it.
    pub(super) fn set_used(&mut self, request: u64) {
        self.used = request;
    }

    /// The same, and it ends its registration.
    pub(super) fn set_revoked(&mut self, request: u64) {
        self.used = request;
        self.revoked = true;
    }

    /// Whether each request that names it has completed; all up to the number `done` have.
    fn is_idle(&self, done: u64) -> bool {
        self.used <= done
    }
}

/// The regions of a queue pair. Dropped behind it.
pub(super) struct Lendings(KVec<Option<Lending>>);

impl Lendings {
    pub(super) fn new() -> Self {
        Self(KVec::new())
    }

    /// Returns the memory of an empty list.
    pub(super) fn shrink(&mut self) {
        if self.0.iter().all(Option::is_none) {
            self.0 = KVec::new();
        }
    }

    fn place(&mut self) -> Result<usize> {
        if let Some(at) = self.0.iter().position(Option::is_none) {
            return Ok(at);
        }
        self.0.push(None, GFP_KERNEL)?;
        Ok(self.0.len().wrapping_sub(1))
    }

    pub(super) fn get(&self, lent: &Lent) -> Option<&Lending> {
        let lending = self.0.get(lent.at)?.as_ref();
        lending.filter(|lending| lending.number == lent.number)
    }

    pub(super) fn get_mut(&mut self, lent: &Lent) -> Result<&mut Lending> {
        let lending = self.0.get_mut(lent.at).and_then(Option::as_mut);
        lending
            .filter(|lending| lending.number == lent.number)
            .ok_or(EINVAL)
    }

    /// The region that is lent under `key`.
    pub(super) fn of_key(&mut self, key: u32) -> Result<&mut Lending> {
        let mut all = self.0.iter_mut().flatten();
        all.find(|lending| lending.region.key() == key)
            .ok_or(EINVAL)
    }

    /// Lends `region`, under a new key. It comes back where that fails: without memory, or if it is not of
    /// `tenant`.
    pub(super) fn lend(&mut self, mut region: Region, tenant: &Tenant) -> Result<Lent, Region> {
        let len = u32::try_from(region.pages().len());
        let (Ok(at), Ok(len), true) = (self.place(), len, region.is_of(tenant)) else {
            return Err(region);
        };
        let stale = region.begin();
        let lent = Lent {
            at,
            number: unique(),
            key: region.key(),
            start: region.start(),
            len,
        };
        if let Some(place) = self.0.get_mut(at) {
            *place = Some(Lending {
                number: lent.number,
                region,
                used: 0,
                stale,
                revoked: false,
            });
        }
        Ok(lent)
    }

    /// Takes a region back; gives its name back while a request that has not completed names it.
    pub(super) fn take_back(&mut self, lent: Lent, done: u64) -> Result<Region, Lent> {
        if !self.get(&lent).is_some_and(|lending| lending.is_idle(done)) {
            return Err(lent);
        }
        let place = self.0.get_mut(lent.at);
        let Some(mut lending) = place.and_then(Option::take) else {
            return Err(lent);
        };
        // Each request that names it has succeeded, because no failed one is taken.
        lending.region.settle(lending.revoked);
        Ok(lending.region)
    }

    /// `len` bytes from `offset` on, for the request with the number `request`. The device sees
    /// to it that they lie in the region.
    pub(super) fn piece(
        &mut self,
        lent: &Lent,
        offset: u32,
        len: u32,
        request: u64,
    ) -> Result<Sge> {
        self.get_mut(lent)?.used = request;
        Ok(Sge::new(
            lent.key,
            lent.start.wrapping_add(offset.into()),
            len,
        ))
    }
}
