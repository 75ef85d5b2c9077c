// SPDX-License-Identifier: GPL-2.0

//! The right to use a device.
//!
//! A user has a share of a device's queue pairs, and each [`Lease`] is one of them. Its holder
//! hears of the removal of the device, which waits until all leases are gone, as it waits for
//! every reference to the device.
//!
//! Contexts: everything here may sleep. Locks: `Leasing::leases`, innermost.

use crate::{
    prelude::*,
    rdma::{
        device::Device,
        domain::Tenant,
        holdings::User,
        noio::NoIo, //
    },
};
use core::ops::Deref;
use kernel::{
    new_mutex,
    rbtree::RBTree,
    sync::{
        Arc,
        Mutex, //
    },
};

/// The holder of a lease, which hears of the removal of the device.
pub(crate) trait Holder: Clone + Unpin {
    /// The user that has a protection domain for it.
    fn user(&self) -> User;

    /// The user for which a lease counts. One person may be several users.
    fn payer(&self) -> User;
}

/// A device and the leases of it.
#[pin_data]
pub(crate) struct Leasing<H> {
    device: Arc<Device>,
    #[pin]
    leases: Mutex<Leases<H>>,
}

impl<H> Deref for Leasing<H> {
    type Target = Arc<Device>;

    fn deref(&self) -> &Arc<Device> {
        &self.device
    }
}

struct Leases<H> {
    removing: bool,
    next: u64,
    holders: RBTree<u64, H>,
    /// Number of leases of each user in each namespace, by [`Holder::payer`].
    of_users: RBTree<User, u32>,
}

impl<H> Leases<H> {
    fn count(&mut self, user: User, most: u32) -> Result {
        match self.of_users.get_mut(&user) {
            Some(count) if *count >= most => return Err(ENOBUFS),
            Some(count) => *count = count.saturating_add(1),
            None => {
                self.of_users.try_create_and_insert(user, 1, GFP_KERNEL)?;
            }
        }
        Ok(())
    }

    fn discount(&mut self, user: User) {
        let last = self.of_users.get_mut(&user).is_some_and(|count| {
            *count = count.saturating_sub(1);
            *count == 0
        });
        if last {
            self.of_users.remove(&user);
        }
    }
}

impl<H: Holder> Leasing<H> {
    pub(crate) fn new(device: Arc<Device>) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                device,
                leases <- new_mutex!(Leases { removing: false, next: 0, holders: RBTree::new(), of_users: RBTree::new() }, "rdma_leases"),
            }),
            GFP_KERNEL,
        )
    }

    /// Leases the device to `holder`; ENODEV if it is being removed, ENOBUFS if the
    /// payer of `holder` has used `share` percent of its queue pairs in this namespace.
    ///
    /// rdmacg cannot be used: it charges the cgroup of the running task, which is a
    /// worker here, on both sides of a connection.
    pub(crate) fn lease(self: &Arc<Self>, holder: H, share: u32) -> Result<Lease<H>> {
        let most = u64::from(self.device.limits().queue_pairs) * u64::from(share) / 100;
        let most = u32::try_from(most).unwrap_or(u32::MAX).max(1);
        let (user, payer) = (holder.user(), holder.payer());
        let _noio = NoIo::new();
        let mut leases = self.leases.lock();
        if leases.removing {
            return Err(ENODEV);
        }
        leases.count(payer, most)?;
        let id = leases.next;
        leases.next = id.wrapping_add(1);
        let entered = leases.holders.try_create_and_insert(id, holder, GFP_KERNEL);
        if let Err(e) = entered {
            leases.discount(payer);
            return Err(e);
        }
        Ok(Lease {
            of: self.clone(),
            id,
            user,
            payer,
        })
    }

    /// The removal of the device: hands out no more leases, and tells every holder.
    pub(crate) fn retire(&self, mut tell: impl FnMut(&H)) {
        let mut told: Option<u64> = None;
        self.leases.lock().removing = true;
        loop {
            // One at a time, because a holder's lock comes before ours.
            let next = {
                let leases = self.leases.lock();
                let from = told.map_or(0, |t| t.wrapping_add(1));
                let next = leases
                    .holders
                    .cursor_lower_bound(&from)
                    .map(|cursor| (*cursor.current().0, cursor.current().1.clone()));
                next
            };
            let Some((id, holder)) = next else { break };
            told = Some(id);
            tell(&holder);
        }
    }

    /// Whether the device is being removed. A holder that has used a lease to make an
    /// object must check this when `retire` can find it, because `retire` may have told
    /// the holders before.
    pub(crate) fn is_leaving(&self) -> bool {
        self.leases.lock().removing
    }
}

impl<H: Holder> Lease<H> {
    /// The user; all queue pairs and regions of a user share a protection domain.
    pub(crate) fn tenant(&self) -> Tenant {
        Tenant::new(&self.of.device, self.user)
    }

    /// See [`Leasing::is_leaving`].
    pub(crate) fn is_leaving(&self) -> bool {
        self.of.is_leaving()
    }
}

/// A share of a device, in use.
pub(crate) struct Lease<H: Holder> {
    of: Arc<Leasing<H>>,
    id: u64,
    user: User,
    /// The user that it was counted for; the socket may have another owner by now.
    payer: User,
}

impl<H: Holder> Drop for Lease<H> {
    fn drop(&mut self) {
        // Bound before the guard: the holder may be freed by this.
        let _holder;
        let mut leases = self.of.leases.lock();
        _holder = leases.holders.remove(&self.id);
        leases.discount(self.payer);
    }
}
