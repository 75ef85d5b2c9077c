// SPDX-License-Identifier: GPL-2.0

//! A range of a program's memory, pinned, mapped for a device, and described to it by a
//! memory region.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)
//!
//! Contexts: making one may sleep, and happens in the system call of the
//! program; dropping one may sleep.

use crate::{
    ffi,
    prelude::*,
    rdma::{
        device::Device,
        domain::Tenant,
        mapped::Mapped,
        mapping::Direction,
        mr::{
            Access,
            Mr, //
        },
        pages::UserPages,
        pool::Pooled, //
    },
};
use kernel::{
    page::PAGE_SIZE,
    sync::Arc, //
};

/// See the module.
///
/// # Invariants
///
/// `mapped` has `pages`, and is of the region's device. If `access` permits writing, the pages are pinned and
/// mapped for it.
/// No work request names the region, unless a queue pair has it ([`lend`](super::lend)). A drop
/// ends a registration that may be left before the pages are unmapped and unpinned.
pub(crate) struct Region {
    region: Pooled,
    _mapped: Arc<Mapped>,
    pages: Arc<UserPages>,
    access: Access,
    /// A request has registered it, or will.
    registered: bool,
}

/// Number of bytes from `addr` on that one region of `pages` pages can describe.
pub(crate) fn reach(addr: usize, pages: u32) -> usize {
    (pages as usize)
        .saturating_mul(PAGE_SIZE)
        .saturating_sub(addr % PAGE_SIZE)
}

impl Region {
    /// Maps `pages` with `region` for `access`. Fails if pages would be written to that
    /// were not pinned for it.
    pub(crate) fn new(region: Pooled, pages: Arc<UserPages>, access: Access) -> Result<Self> {
        if (access != Access::RemoteRead) != pages.is_for_writing() {
            return Err(EINVAL);
        }
        let device = region.device().clone();
        let mr = region.mr().map(Mr::as_ptr).ok_or(EINVAL)?;
        let kept = pages
            .translation()
            .and_then(|(translation, at)| Some((translation.mapped(&device)?, at)));
        let (mapped, at) = match kept {
            Some(kept) => kept,
            None => (Self::map(&device, &pages)?, 0),
        };
        let ranges = mapped.part(at, pages.len())?;
        // SAFETY: `mr` is valid as long as `region` has it, and idle; so many ranges of the list are mapped.
        let described = unsafe {
            ffi::ib_map_mr_sg(
                mr,
                ranges.as_ptr(),
                ranges.count(),
                core::ptr::null_mut(),
                PAGE_SIZE as c_uint,
            )
        };
        if described != ranges.count() {
            // The device cannot describe memory with this mapping.
            return Err(EOPNOTSUPP);
        }
        drop(ranges);
        // INVARIANT: mapped for this, or as the translation is pinned; nothing is posted yet.
        let mut this = Self {
            region,
            _mapped: mapped,
            pages,
            access,
            registered: false,
        };
        this.region.disguise();
        Ok(this)
    }

    /// Maps `pages` for this use alone.
    fn map(device: &Arc<Device>, pages: &UserPages) -> Result<Arc<Mapped>> {
        let direction = if pages.is_for_writing() {
            Direction::FromDevice
        } else {
            Direction::ToDevice
        };
        let (list, offset) = (pages.as_slice(), pages.offset());
        // SAFETY: The pages are pinned and have these bytes, by their type's invariant. The region has
        // both, and drops the mapping first.
        let mapped = unsafe { Mapped::new(device, list, offset, pages.len(), direction) }?;
        Ok(Arc::new(mapped, GFP_KERNEL)?)
    }

    pub(crate) fn pages(&self) -> &Arc<UserPages> {
        &self.pages
    }

    pub(crate) fn access(&self) -> Access {
        self.access
    }

    /// Whether the queue pairs of `tenant` can use it.
    pub(super) fn is_of(&self, tenant: &Tenant) -> bool {
        self.region.tenant() == tenant
    }

    /// Begins a registration under a new key. Returns the key of an older one that has to be
    /// invalidated first.
    pub(super) fn begin(&mut self) -> Option<u32> {
        let stale = self.region.stale_key();
        self.region.begin();
        stale
    }

    /// The registration is posted.
    pub(super) fn set_registered(&mut self) {
        self.registered = true;
    }

    /// Requests that name it are posted.
    pub(super) fn set_posted(&mut self) {
        self.region.set_posted();
    }

    /// All requests that name it have succeeded; with `revoked` the last one was an invalidation.
    pub(super) fn settle(&mut self, revoked: bool) {
        self.registered &= !revoked;
        // Otherwise the peer may have the key, which a drop has to end.
        if revoked || self.registered && self.access == Access::LocalWrite {
            self.region.set_settled(!revoked);
        }
    }

    pub(super) fn mr(&self) -> Option<&Mr> {
        self.region.mr()
    }

    pub(super) fn key(&self) -> u32 {
        self.mr().map_or(0, Mr::key)
    }

    pub(super) fn start(&self) -> u64 {
        self.mr().map_or(0, Mr::start)
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        self.region.revoke();
    }
}
