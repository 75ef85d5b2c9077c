// SPDX-License-Identifier: GPL-2.0

//! Protection domains: a user's queue pairs and memory regions on a device. [`holdings`](super::holdings)
//! has the reason for them.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)
//!
//! Contexts: everything may sleep. Locks: the device's holdings, innermost.

use crate::{
    ffi,
    prelude::*,
    rdma::{
        device::Device,
        holdings::User,
        noio::NoIo,
        pd::Pd, //
    }, //
};
use core::ptr::NonNull;
use kernel::sync::Arc;

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

    pub(super) fn user(&self) -> User {
        self.user
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
        let pd = {
            let mut holdings = tenant.device.holdings().lock();
            let make = || {
                // SAFETY: The device is valid by its type's invariant.
                unsafe { Pd::new(tenant.device.as_ptr()) }
            };
            holdings.hold(tenant.user, make)?.as_non_null()
        };
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
        let unused = device.holdings().lock().release(*user);
        drop(unused);
    }
}
