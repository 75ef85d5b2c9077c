// SPDX-License-Identifier: GPL-2.0

//! Memory regions in use, which are an idle region of their user before and after.
//!
//! A region with failed work requests is in an unknown state and is not used again.
//!
//! Contexts: everything may sleep. Locks: the device's holdings, innermost.

use crate::{
    ffi,
    prelude::*,
    rdma::{
        device::Device,
        domain::{
            Domain,
            Tenant, //
        },
        holdings::Choice,
        mr::Mr,
        noio::NoIo, //
    },
};
use kernel::sync::Arc;

/// A region in use; returns to its user's holding when dropped. The order of the fields is the order
/// of destruction.
pub(crate) struct Pooled {
    /// `None` once it was revoked.
    mr: Option<Mr>,
    domain: Domain,
    /// A work request for it may not have been carried out yet.
    posted: bool,
}

/// The origin of a region.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    Reused,
    Made,
}

impl Tenant {
    /// Takes a region into use, an idle one of this user or a new one, if the device
    /// has fewer than `most` in use.
    pub(crate) fn take_region(&self, most: u32) -> Result<(Pooled, Origin)> {
        let domain = Domain::of(self.clone())?;
        let choice = {
            // The worker of the completion queue gives regions back.
            let _noio = NoIo::new();
            let mut holdings = self.device().holdings().lock();
            holdings.choose(self.user(), most)?
        };
        let (mr, origin) = match choice {
            Choice::Reuse(mr) => (mr, Origin::Reused),
            Choice::Make(other) => {
                if let Some(other) = other {
                    self.device().free(other);
                }
                // SAFETY: The domain is valid by its type's invariant. `Pooled` has both in this order,
                // and so have the holdings of the device.
                let made = unsafe { Mr::new(domain.as_ptr(), self.device().region_pages()) };
                let forget = |_: &Error| self.device().holdings().lock().forget(self.user());
                (made.inspect_err(forget)?, Origin::Made)
            }
        };
        let pooled = Pooled {
            mr: Some(mr),
            domain,
            posted: false,
        };
        Ok((pooled, origin))
    }
}

impl Pooled {
    pub(super) fn device(&self) -> &Arc<Device> {
        self.tenant().device()
    }

    pub(super) fn tenant(&self) -> &Tenant {
        self.domain.tenant()
    }

    pub(super) fn mr(&self) -> Option<&Mr> {
        self.mr.as_ref()
    }

    /// See [`Mr::disguise`]; called after the memory was mapped and before it is
    /// registered.
    pub(super) fn disguise(&mut self) {
        if let Some(mr) = self.mr.as_mut() {
            mr.disguise();
        }
    }

    /// The key that must be invalidated before the region can be registered.
    ///
    /// When rxe repeats an unanswered request, it carries out a registration behind it
    /// a second time, and takes that for a fault of the queue pair. It carries out an
    /// invalidation only when no unanswered request stands before it, whether the key
    /// is valid or not. So this holds for a registration behind the invalidation as
    /// well.
    pub(super) fn stale_key(&self) -> Option<u32> {
        let mr = self.mr.as_ref()?;
        // SAFETY: The device is valid by its type's invariant.
        let always = unsafe { ffi::rust_ib_repeats_registrations(self.device().as_ptr()) };
        mr.stale_key(always)
    }

    /// Begins a new registration under a new key.
    pub(super) fn begin(&mut self) {
        if let Some(mr) = self.mr.as_mut() {
            mr.next_key();
        }
    }

    /// A work request for it, under its key, is posted.
    pub(super) fn set_posted(&mut self) {
        self.posted = true;
        if let Some(mr) = self.mr.as_mut() {
            mr.set_posted();
        }
    }

    /// All work requests for it have succeeded. `valid` says whether it is still
    /// registered, because the last one was no invalidation.
    pub(super) fn set_settled(&mut self, valid: bool) {
        self.posted = false;
        if let Some(mr) = self.mr.as_mut() {
            mr.set_settled(valid);
        }
    }
}

impl Pooled {
    /// Ends all access through the region, if access is possible.
    pub(super) fn revoke(&mut self) {
        if self.posted {
            self.mr = None;
        }
    }
}

impl Drop for Pooled {
    fn drop(&mut self) {
        self.revoke();
        let user = self.tenant().user();
        let kept = match self.mr.take() {
            Some(mr) => self.device().holdings().lock().keep(user, mr).map_err(Some),
            None => Err(None),
        };
        if let Err(mr) = kept {
            // Counted until it is freed.
            drop(mr);
            self.device().holdings().lock().forget(user);
        }
    }
}
