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
/// The elements of `sgl` are mapped for the region's device in `direction` and describe
/// `pages`. If `direction` permits writing, the pages are pinned for writing.
/// No work request names the region, unless a queue pair has it ([`lend`](super::lend)). A drop
/// ends a registration that may be left before the pages are unpinned.
pub(crate) struct Region {
    region: Option<Pooled>,
    sgl: KVVec<ffi::scatterlist>,
    direction: Direction,
    pages: Arc<UserPages>,
    access: Access,
    /// A request has registered it, or will.
    registered: bool,
}

// SAFETY: The scatterlist, which has the pointers, belongs to this value alone; the rest
// is `Send` by itself.
unsafe impl Send for Region {}

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
        let count = pages.as_slice().len();
        // As many as the program likes; without memory for them its bytes are copied.
        let mut sgl = KVVec::with_capacity(count, GFP_KERNEL | __GFP_NOWARN)?;
        let mut used = 0;
        let direction = if pages.is_for_writing() {
            Direction::FromDevice
        } else {
            Direction::ToDevice
        };
        // SAFETY: There is room for `count` entries for `count` pinned pages, which have `len` bytes
        // from the offset on, by their type's invariant; the device waits for its regions.
        let entries = unsafe {
            ffi::rust_ib_dma_map_pages(
                device.as_ptr(),
                sgl.as_mut_ptr(),
                pages.as_slice().as_ptr().cast_mut(),
                count as c_uint,
                pages.offset() as c_uint,
                pages.len(),
                direction.raw(),
                &mut used,
            )
        };
        // SAFETY: There is room for them, and the call has initialised them.
        unsafe { sgl.inc_len((used as usize).min(count)) };
        if entries <= 0 {
            return Err(ENOMEM);
        }
        // INVARIANT: mapped just above, nothing is posted yet.
        let mut this = Self {
            access,
            region: Some(region),
            sgl,
            direction,
            pages,
            registered: false,
        };
        // SAFETY: `mr` is valid as long as `region` has it, and idle; the first `entries` of
        // the list are mapped.
        let mapped = unsafe {
            ffi::ib_map_mr_sg(
                mr,
                this.sgl.as_ptr().cast_mut(),
                entries,
                core::ptr::null_mut(),
                PAGE_SIZE as c_uint,
            )
        };
        if mapped == entries {
            if let Some(region) = this.region.as_mut() {
                region.disguise();
            }
            Ok(this)
        } else {
            // The device cannot describe memory with this mapping.
            Err(EOPNOTSUPP)
        }
    }

    pub(crate) fn pages(&self) -> &Arc<UserPages> {
        &self.pages
    }

    pub(crate) fn access(&self) -> Access {
        self.access
    }

    /// Whether the queue pairs of `tenant` can use it.
    pub(super) fn is_of(&self, tenant: &Tenant) -> bool {
        self.region
            .as_ref()
            .is_some_and(|region| region.tenant() == tenant)
    }

    /// Whether it belongs to `device`.
    pub(super) fn is_on(&self, device: &Arc<Device>) -> bool {
        self.region
            .as_ref()
            .is_some_and(|region| Arc::ptr_eq(region.device(), device))
    }

    /// Begins a registration under a new key, unless it is registered. Returns the
    /// key of an older one that has to be invalidated first.
    pub(super) fn begin(&mut self) -> Option<u32> {
        if self.registered {
            return None;
        }
        let region = self.region.as_mut()?;
        let stale = region.stale_key();
        region.begin();
        stale
    }

    /// Whether it was registered and is to be used again.
    pub(super) fn is_registered(&self) -> bool {
        self.registered
    }

    /// The registration is posted.
    pub(super) fn set_registered(&mut self) {
        self.registered = true;
    }

    /// Whether it may remain registered after its use.
    pub(crate) fn can_stay(&self) -> bool {
        self.pages.can_stay() && self.registered
    }

    /// The program looks at the bytes; the region is not used meanwhile.
    pub(super) fn sync_for_cpu(&self) {
        self.sync(false);
    }

    /// The region is used again.
    pub(super) fn sync_for_device(&self) {
        self.sync(true);
    }

    fn sync(&self, for_device: bool) {
        let Some(region) = self.region.as_ref() else {
            return;
        };
        // SAFETY: Mapped by the invariant; the device waits for its regions.
        unsafe {
            ffi::rust_ib_dma_sync_sg(
                region.device().as_ptr(),
                self.sgl.as_ptr().cast_mut(),
                self.sgl.len() as c_uint,
                self.direction.raw(),
                for_device,
            )
        };
    }

    /// Requests that name it are posted.
    pub(super) fn set_posted(&mut self) {
        if let Some(region) = self.region.as_mut() {
            region.set_posted();
        }
    }

    /// All requests that name it have succeeded; with `revoked` the last one was an invalidation.
    pub(super) fn settle(&mut self, revoked: bool) {
        self.registered &= !revoked;
        // Otherwise the peer may have the key, which a drop has to end.
        if revoked || self.registered && self.access == Access::LocalWrite {
            if let Some(region) = self.region.as_mut() {
                region.set_settled(!revoked);
            }
        }
    }

    pub(super) fn mr(&self) -> Option<&Mr> {
        self.region.as_ref().and_then(Pooled::mr)
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
        let Some(mut region) = self.region.take() else {
            return;
        };
        region.revoke();
        // SAFETY: Mapped by the invariant, with this many entries; the device
        // waits for its regions.
        unsafe {
            ffi::rust_ib_dma_unmap_sg(
                region.device().as_ptr(),
                self.sgl.as_mut_ptr(),
                self.sgl.len() as c_uint,
                self.direction.raw(),
            )
        };
        drop(region);
    }
}
