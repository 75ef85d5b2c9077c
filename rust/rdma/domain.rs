// SPDX-License-Identifier: GPL-2.0

//! Protection domains: a user's queue pairs and memory regions on a device.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)
//!
//! A key is valid on every queue pair of its protection domain. Connections must not
//! reach memory that another user, or another namespace, offers. So each user of a
//! namespace has its own domain on each device, while it has a queue pair or a region
//! there.
//!
//! Contexts: everything may sleep. Locks: the device's list of domains, innermost.

use crate::{
    ffi,
    prelude::*,
    rdma::{
        device::Device,
        noio::NoIo, //
    }, //
};
use core::ptr::NonNull;
use kernel::{
    rbtree::{
        RBTree,
        RBTreeNodeReservation, //
    },
    sync::Arc, //
};

/// A user of a namespace, by numbers that are unique while both exist.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct User {
    pub(crate) net: usize,
    pub(crate) uid: u32,
}

/// A user on a device.
#[derive(Clone)]
pub(crate) struct Tenant {
    device: Arc<Device>,
    user: User,
}

impl PartialEq for Tenant {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.device, &other.device) && self.user == other.user
    }
}

impl Tenant {
    pub(crate) fn new(device: &Arc<Device>, user: User) -> Self {
        Self {
            device: device.clone(),
            user,
        }
    }

    pub(crate) fn device(&self) -> &Arc<Device> {
        &self.device
    }
}

/// The protection domain of one user, with its refcount.
///
/// # Invariants
///
/// `pd` is valid.
struct Shared {
    pd: NonNull<ffi::ib_pd>,
    holders: u32,
}

// SAFETY: ib_core objects may be used from any thread.
unsafe impl Send for Shared {}

/// The protection domains of one device.
pub(super) struct Domains(RBTree<User, Shared>);

impl Domains {
    pub(super) fn new() -> Self {
        Self(RBTree::new())
    }

    fn hold(&mut self, device: &Device, user: User) -> Result<NonNull<ffi::ib_pd>> {
        if let Some(shared) = self.0.get_mut(&user) {
            shared.holders = shared.holders.checked_add(1).ok_or(ENOBUFS)?;
            return Ok(shared.pd);
        }
        let place = RBTreeNodeReservation::new(GFP_KERNEL)?;
        // SAFETY: The device is valid by its type's invariant.
        let pd = unsafe { ffi::rust_ib_alloc_pd(device.as_ptr()) };
        let pd = NonNull::new(kernel::error::from_err_ptr(pd)?).ok_or(ENOMEM)?;
        // INVARIANT: made just now.
        self.0
            .insert(place.into_node(user, Shared { pd, holders: 1 }));
        Ok(pd)
    }

    /// Returns the protection domain if the caller must free it.
    fn release(&mut self, user: User) -> Option<NonNull<ffi::ib_pd>> {
        let shared = self.0.get_mut(&user)?;
        shared.holders = shared.holders.saturating_sub(1);
        if shared.holders > 0 {
            return None;
        }
        self.0.remove(&user).map(|shared| shared.pd)
    }
}

/// A reference to the protection domain of a user on a device.
///
/// # Invariants
///
/// `pd` is the domain of `tenant`, and valid.
pub(crate) struct Domain {
    tenant: Tenant,
    pd: NonNull<ffi::ib_pd>,
}

// SAFETY: ib_core objects may be used from any thread.
unsafe impl Send for Domain {}

impl Domain {
    /// Takes the protection domain of `tenant` into use. May sleep.
    pub(crate) fn of(tenant: Tenant) -> Result<Self> {
        let _noio = NoIo::new();
        let mut domains = tenant.device.domains().lock();
        let pd = domains.hold(&tenant.device, tenant.user)?;
        drop(domains);
        // INVARIANT: held until this is dropped.
        Ok(Self { tenant, pd })
    }

    pub(crate) fn tenant(&self) -> &Tenant {
        &self.tenant
    }

    pub(super) fn as_ptr(&self) -> *mut ffi::ib_pd {
        self.pd.as_ptr()
    }

    /// The key for local buffers: no memory region is needed for them.
    pub(crate) fn local_dma_lkey(&self) -> u32 {
        // SAFETY: `pd` is valid by the invariant, the field never changes.
        unsafe { (*self.pd.as_ptr()).local_dma_lkey }
    }
}

impl Drop for Domain {
    fn drop(&mut self) {
        let Tenant { device, user } = &self.tenant;
        let unused = device.domains().lock().release(*user);
        if let Some(pd) = unused {
            // SAFETY: The last reference has been dropped, and every object in the
            // domain before.
            unsafe { ffi::rust_ib_dealloc_pd(pd.as_ptr()) };
        }
    }
}
