// SPDX-License-Identifier: GPL-2.0

//! Use of the registration cache: memory stays pinned and registered for
//! `zcopy_keep_ms` after its use, and the next call with the same pages needs no new
//! registration.
//!
//! The peer can read cached memory as long as it is cached. Memory that the peer may
//! write is never cached.
//!
//! # Safety of the cache
//!
//! A region that the call finds must have the same owner, access, offset, length and pages. Virtual
//! addresses do not matter: newly mapped memory is a miss, and memory with new contents is a hit.
//! The key, like any key, is valid on every queue pair of the protection domain, which belongs to
//! the user, the namespace and the device. So **the peer can read the memory that it was offered
//! until the region is dropped**, even if the memory was freed or the process has exited: the cache
//! is for trusted peers only. The targets of our own Reads give the peer nothing; the same knob
//! caches them because they stay pinned.
//!
//! A cached region is found only by its link (`Keeper`) and is dropped with it, so device,
//! namespace and module wait no longer than for the link. If a call finds no free region or may
//! lock no more memory, it evicts the least recently used region, of any connection of the device
//! or of the user. So the cache never causes an error or a copy.

use crate::{
    alarm::Alarm,
    link::Link,
    object::Sock,
    prelude::*,
    rdma::{
        kept::{
            self,
            Due,
            Owner, //
        },
        mr::Access,
        pages::{
            Purpose,
            UserPages, //
        },
        region::Region, //
    },
};
use kernel::sync::Arc;

impl Sock {
    /// Whether the registration cache is on.
    pub(super) fn keeps(&self) -> bool {
        self.net().knobs().zcopy_keep_ms > 0
    }

    /// Pins the caller's memory. If the limit of locked memory is reached, cached
    /// regions are evicted.
    pub(super) fn pin(&self, addr: usize, len: usize, purpose: Purpose) -> Result<Arc<UserPages>> {
        loop {
            match UserPages::pin(addr, len, purpose) {
                Err(e) if e == ENOBUFS && self.evict_for_user() => {}
                pages => return pages.inspect_err(|_| self.count(|t| &t.pin_failures, 1)),
            }
        }
    }

    /// The cached region of `pages`.
    pub(super) fn find_kept(
        &self,
        owner: Owner,
        pages: &UserPages,
        access: Access,
    ) -> Option<Region> {
        if !pages.can_stay() {
            return None;
        }
        let found = kept::find(owner, pages, access);
        match found {
            Some(_) => self.count(|t| &t.kept_hits, 1),
            None => self.count(|t| &t.kept_misses, 1),
        }
        found
    }

    /// Counts an eviction for this socket, if there was one.
    pub(super) fn evict(&self, evicted: bool) -> bool {
        if evicted {
            self.count(|t| &t.kept_evictions, 1);
        }
        evicted
    }

    /// Evicts a cached region of the calling user.
    pub(crate) fn evict_for_user(&self) -> bool {
        self.evict(kept::evict_of_user())
    }

    /// The reader no longer needs `region`: caches it, or drops it.
    pub(super) fn give_back(&self, region: Region) {
        let mut left = Some(region);
        self.look(|inner| {
            if let Some(link) = inner.link.as_ref() {
                if let Some(region) = left.take_if(|region| region.can_stay()) {
                    link.keep(self, region);
                }
            }
        });
        drop(left);
    }

    /// No program can send or receive any more: drops all cached regions.
    pub(crate) fn keep_no_more(&self) {
        let owner = self.look(|inner| inner.link.as_ref().map(|link| link.keeper.owner()));
        if let Some(owner) = owner {
            self.count(|t| &t.kept_expirations, kept::clear(owner));
        }
        // Under the endpoint's lock, after the regions were dropped: no code sets the
        // alarm again.
        self.look(|_| self.clear_alarm(Alarm::Kept));
    }

    /// The alarm behind [`Alarm::Kept`].
    pub(crate) fn alarm_kept(&self) {
        let keep_ms = self.net().knobs().zcopy_keep_ms;
        // Regions are dropped without the endpoint's lock. The alarm is set under it,
        // as when a region is cached.
        while let Some(region) =
            self.look(|inner| match inner.link.as_ref()?.keeper.due(keep_ms)? {
                Due::Now(region) => Some(region),
                Due::Later(ms) => {
                    self.set_alarm(Alarm::Kept, ms);
                    None
                }
            })
        {
            drop(region);
            self.count(|t| &t.kept_expirations, 1);
        }
    }
}

impl Link {
    /// Caches `region`, which can stay, for the next call with the same memory.
    pub(super) fn keep(&self, sock: &Sock, region: Region) {
        // Without memory for the entry the region is not cached.
        if self.keeper.keep(region) == Ok(true) {
            sock.set_alarm(Alarm::Kept, sock.net().knobs().zcopy_keep_ms);
        }
    }
}
