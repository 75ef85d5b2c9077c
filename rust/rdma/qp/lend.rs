// SPDX-License-Identifier: GPL-2.0

//! Registrations of regions that are lent to a queue pair.
//!
//! Contexts: lending and posting may sleep for memory. No locks: the owner of the queue pair calls
//! them.

use super::{
    Qp,
    Work, //
};
use crate::{
    prelude::*,
    rdma::{
        lend::Lent,
        region::Region, //
    },
};

impl<C, T, S, const SLOT: usize> Qp<C, T, S, SLOT> {
    /// Lends `region`, under a new key. It comes back where that fails: without memory, or if it is of
    /// another user or device.
    pub(crate) fn lend(&mut self, region: Region) -> Result<Lent, Region> {
        self.sends.lent.lend(region, self.domain.tenant())
    }

    /// Registers a lent region for the access that it has. Returns the number of requests posted for
    /// that, each with `with`.
    pub(crate) fn register(&mut self, lent: &Lent, with: S) -> Result<usize>
    where
        S: Copy,
    {
        let lending = self.sends.lent.get_mut(lent)?;
        lending.region.set_posted();
        let stale = lending.stale.take();
        if let Some(key) = stale {
            self.invalidate(key, with)?;
        }
        self.sends.reserve()?;
        let next = self.sends.next();
        let lending = self.sends.lent.get_mut(lent)?;
        lending.set_used(next);
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
        self.sends.lent.of_key(key)?.set_revoked(next);
        self.invalidate(key, with)
    }

    fn invalidate(&mut self, key: u32, with: S) -> Result {
        self.sends.reserve()?;
        // SAFETY: The request names no memory, and takes access away.
        let result = unsafe { self.post(Work::Invalidate(key), &mut []) };
        self.sends.record_plain(result, with)
    }

    /// Takes a region back; gives its name back while a request that has not completed names it.
    pub(crate) fn take_back(&mut self, lent: Lent) -> Result<Region, Lent> {
        let done = self.sends.done();
        self.sends.lent.take_back(lent, done)
    }
}
