// SPDX-License-Identifier: GPL-2.0

//! Regions that are lent to a queue pair, for its requests and for its peer.
//!
//! A region is given away when it is lent, and stands in the queue pair as long as a request may
//! use it. Its owner has a [`Lent`] instead, and gets the region back when all requests that name it
//! have completed. Then its registration has ended, or is one that only requests of ours can use;
//! otherwise the region ends it when it is dropped.
//!
//! Contexts: lending and posting may sleep for memory. No locks: the owner of the queue pair calls
//! them.

use crate::{
    prelude::*,
    rdma::{
        mapping::Sge,
        qp::{
            unique,
            Qp,
            Work, //
        },
        region::Region, //
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

struct Lending {
    number: u64,
    region: Region,
    /// The youngest request that names it.
    used: u64,
    /// The key that has to be invalidated before the region is registered.
    stale: Option<u32>,
    /// The end of its registration was posted.
    revoked: bool,
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

    fn get(&self, lent: &Lent) -> Option<&Lending> {
        let lending = self.0.get(lent.at)?.as_ref();
        lending.filter(|lending| lending.number == lent.number)
    }

    fn get_mut(&mut self, lent: &Lent) -> Result<&mut Lending> {
        let lending = self.0.get_mut(lent.at).and_then(Option::as_mut);
        lending
            .filter(|lending| lending.number == lent.number)
            .ok_or(EINVAL)
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

impl<C, T, S, const SLOT: usize> Qp<C, T, S, SLOT> {
    /// Lends `region`, under a new key unless it is registered. It comes back where that fails:
    /// without memory, or if it is of another user or device.
    pub(crate) fn lend(&mut self, mut region: Region) -> Result<Lent, Region> {
        let len = u32::try_from(region.pages().len());
        let (Ok(at), Ok(len), true) = (
            self.sends.lent.place(),
            len,
            region.is_of(self.domain().tenant()),
        ) else {
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
        if let Some(place) = self.sends.lent.0.get_mut(at) {
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

    /// Registers a lent region for the access that it has, unless it is registered. Returns the
    /// number of requests posted for that, each with `with`.
    pub(crate) fn register(&mut self, lent: &Lent, with: S) -> Result<usize>
    where
        S: Copy,
    {
        let lending = self.sends.lent.get_mut(lent)?;
        lending.region.set_posted();
        if lending.region.is_registered() {
            lending.region.sync_for_device();
            return Ok(0);
        }
        let stale = lending.stale.take();
        if let Some(key) = stale {
            self.invalidate(key, with)?;
        }
        self.sends.reserve()?;
        let next = self.sends.next();
        let lending = self.sends.lent.get_mut(lent)?;
        lending.used = next;
        lending.region.set_registered();
        let lending = self.sends.lent.get(lent).ok_or(EINVAL)?;
        let mr = lending.region.mr().ok_or(EINVAL)?;
        let work = Work::Register(mr, lending.region.access());
        // SAFETY: The region has its pages pinned and mapped for such access. It stays here until
        // the request has completed, or behind the queue pair, and when it is dropped it ends its
        // registration before it gives them up.
        let result = unsafe { self.post(work, &mut []) };
        self.sends.record_plain(result, with)?;
        Ok(1 + usize::from(stale.is_some()))
    }

    /// Ends the registration of the region that is lent under `key`.
    pub(crate) fn revoke(&mut self, key: u32, with: S) -> Result {
        let next = self.sends.next();
        let mut all = self.sends.lent.0.iter_mut().flatten();
        let lending = all.find(|lending| lending.region.key() == key);
        let lending = lending.ok_or(EINVAL)?;
        lending.used = next;
        lending.revoked = true;
        self.invalidate(key, with)
    }

    fn invalidate(&mut self, key: u32, with: S) -> Result {
        self.sends.reserve()?;
        // SAFETY: The request names no memory, and takes access away.
        let result = unsafe { self.post(Work::Invalidate(key), &mut []) };
        self.sends.record_plain(result, with)
    }

    fn is_idle(&self, lending: &Lending) -> bool {
        lending.used <= self.sends.done()
    }

    /// Whether the region could come back and stay registered.
    pub(crate) fn can_stay(&self, lent: &Lent) -> bool {
        self.sends.lent.get(lent).is_some_and(|lending| {
            self.is_idle(lending) && !lending.revoked && lending.region.can_stay()
        })
    }

    /// Takes a region back; gives its name back while a request that has not completed names it.
    pub(crate) fn take_back(&mut self, lent: Lent) -> Result<Region, Lent> {
        let lending = self.sends.lent.get(&lent);
        if !lending.is_some_and(|lending| self.is_idle(lending)) {
            return Err(lent);
        }
        let place = self.sends.lent.0.get_mut(lent.at);
        let Some(mut lending) = place.and_then(Option::take) else {
            return Err(lent);
        };
        // Each request that names it has succeeded, because no failed one is taken.
        lending.region.settle(lending.revoked);
        Ok(lending.region)
    }
}
