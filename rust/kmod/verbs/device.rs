// SPDX-License-Identifier: GPL-2.0

//! RDMA devices as they come and go.
//!
//! One [`Device`] stands for one `ib_device` that speaks the IB connection manager.
//! Removal waits for every [`Lease`], so the holder of a lease may use the device.
//!
//! Contexts: everything here may sleep. Locks: `Device::leases`, innermost.

use crate::{
    ffi,
    object::SockRef,
    verbs::{
        domain::{
            Domains,
            Tenant,
            User, //
        },
        mr::Pool, //
    },
};
use core::ptr::NonNull;
use kernel::{
    new_mutex,
    prelude::*,
    rbtree::RBTree,
    sync::{
        Arc,
        Completion,
        Mutex, //
    },
};

/// One RDMA device.
///
/// # Invariants
///
/// `ib` is valid until the removal of the device has come, and then until the last lease
/// and the last region are gone. A reference to this says nothing about that.
#[pin_data]
pub(crate) struct Device {
    ib: NonNull<ffi::ib_device>,
    /// Asked once, so that callers without a lease or a region can look at it.
    limits: Limits,
    #[pin]
    domains: Mutex<Domains>,
    #[pin]
    leases: Mutex<Leases>,
    #[pin]
    idle: Completion,
    #[pin]
    regions: Pool,
}

/// What a device can do: its attributes, which do not change while it is registered.
pub(crate) struct Limits {
    pub(crate) work_requests: u16,
    pub(crate) send_sges: u32,
    /// RDMA Reads in flight, in each direction.
    pub(crate) reads: u8,
    /// Queue pairs with a completion queue of their own.
    pub(crate) queue_pairs: u32,
    /// Pages of one region; 0 where the device cannot register by work request.
    pub(crate) region_pages: u32,
}

impl Limits {
    /// # Safety
    ///
    /// `ib` is a registered device.
    unsafe fn of(ib: NonNull<ffi::ib_device>) -> Self {
        // SAFETY: The device is valid, by the caller's promise. Raw and word by word, as
        // the rest of the struct is C's.
        let (work_requests, send_sges, target, initiator, pairs, queues, pages, registers) = unsafe {
            let attrs = &raw const (*ib.as_ptr()).attrs;
            (
                (*attrs).max_qp_wr,
                (*attrs).max_send_sge,
                (*attrs).max_qp_rd_atom,
                (*attrs).max_qp_init_rd_atom,
                (*attrs).max_qp,
                (*attrs).max_cq,
                (*attrs).max_fast_reg_page_list_len,
                ffi::sdp_ib_can_register(ib.as_ptr()),
            )
        };
        Self {
            work_requests: u16::try_from(work_requests).unwrap_or(u16::MAX),
            send_sges,
            // As target and as initiator; drivers do not agree which is which.
            reads: u8::try_from(target.min(initiator)).unwrap_or(u8::MAX),
            queue_pairs: pairs.min(queues),
            region_pages: if registers { pages } else { 0 },
        }
    }
}

struct Leases {
    removing: bool,
    next: u64,
    holders: RBTree<u64, SockRef>,
    /// Number of leases of each user in each namespace.
    of_users: RBTree<User, u32>,
}

impl Leases {
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

// SAFETY: ib_core objects may be used from any thread; the rest is in a mutex, or does
// not change.
unsafe impl Send for Device {}
// SAFETY: The reason is that of `Send`: nothing here belongs to one thread.
unsafe impl Sync for Device {}

impl Device {
    /// Takes a device into use.
    ///
    /// # Safety
    ///
    /// Called from `ib_client.add` with the device it was given.
    pub(crate) unsafe fn new(ib: NonNull<ffi::ib_device>) -> Result<Arc<Self>> {
        // SAFETY: ib_core adds what is registered.
        let limits = unsafe { Limits::of(ib) };
        Arc::pin_init(
            // INVARIANT: ib_core keeps `ib` until `ib_client.remove` has returned, which
            // waits in `retire` for leases and regions.
            pin_init!(Self {
                ib,
                limits,
                domains <- new_mutex!(Domains::new(), "sdp_domains"),
                leases <- new_mutex!(Leases { removing: false, next: 0, holders: RBTree::new(), of_users: RBTree::new() }, "sdp_leases"),
                idle <- Completion::new(),
                regions <- Pool::new(),
            }),
            GFP_KERNEL,
        )
    }

    /// To compare, or to be looked into with a lease or a region.
    pub(crate) fn as_ptr(&self) -> *mut ffi::ib_device {
        self.ib.as_ptr()
    }

    pub(super) fn domains(&self) -> &Mutex<Domains> {
        &self.domains
    }

    pub(super) fn regions(&self) -> &Pool {
        &self.regions
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Whether a Read may complete although a part of it is missing; the queue pair is in the
    /// error state from then on.
    ///
    /// rxe does so: an acknowledgement that was overtaken, and that arrives in
    /// the middle of the response to a Read, makes rxe forget that the response has
    /// begun. The next packet is an error for which rxe has no status.
    pub(crate) fn cuts_reads_short(&self) -> bool {
        // SAFETY: `ib` is valid by the invariant; its driver stays the same.
        unsafe { ffi::sdp_ib_is_rxe(self.ib.as_ptr()) }
    }

    /// Leases the device to `holder`; ENODEV if it is being removed, ENOBUFS if the
    /// user of `holder` has used `share` percent of its queue pairs in this namespace.
    ///
    /// rdmacg cannot be used: it charges the cgroup of the running task, which is a
    /// worker here, on both sides of a connection.
    pub(crate) fn lease(self: &Arc<Self>, holder: SockRef, share: u32) -> Result<Lease> {
        let most = u64::from(self.limits().queue_pairs) * u64::from(share) / 100;
        let most = u32::try_from(most).unwrap_or(u32::MAX).max(1);
        let user = holder.user();
        let mut leases = self.leases.lock();
        if leases.removing {
            return Err(ENODEV);
        }
        leases.count(user, most)?;
        let id = leases.next;
        leases.next = id.wrapping_add(1);
        let entered = leases.holders.try_create_and_insert(id, holder, GFP_KERNEL);
        if let Err(e) = entered {
            leases.discount(user);
            return Err(e);
        }
        Ok(Lease {
            device: self.clone(),
            id,
            user,
        })
    }

    /// The removal of the device: tells every holder, waits for the last lease
    /// and the last region.
    pub(crate) fn retire(&self, mut tell: impl FnMut(&SockRef)) {
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
        if !self.leases.lock().holders.is_empty() {
            self.idle.wait_for_completion();
        }
        // A system call without a lease may still use regions.
        self.regions.close();
    }
}

impl Device {
    /// Whether the device is being removed. A holder that has used a lease to make an
    /// object must check this when `retire` can find it, because `retire` may have told
    /// the holders before.
    pub(crate) fn is_leaving(&self) -> bool {
        self.leases.lock().removing
    }
}

impl Lease {
    /// The user whose queue pairs and regions share a protection domain.
    pub(crate) fn tenant(&self) -> Tenant {
        Tenant::new(&self.device, self.user)
    }
}

/// The right to use a device; the device's removal waits for its drop.
pub(crate) struct Lease {
    device: Arc<Device>,
    id: u64,
    /// The user that it was counted for; the socket may have another owner by now.
    user: User,
}

impl Drop for Lease {
    fn drop(&mut self) {
        // Bound before the guard: the holder may be freed by this.
        let _holder;
        let mut leases = self.device.leases.lock();
        _holder = leases.holders.remove(&self.id);
        leases.discount(self.user);
        if leases.removing && leases.holders.is_empty() {
            self.device.idle.complete_all();
        }
    }
}
