// SPDX-License-Identifier: GPL-2.0

//! RDMA devices as they come and go.
//!
//! One [`Device`] stands for one `ib_device` that speaks the IB connection
//! manager. Removal waits for every [`Lease`], so whoever holds a lease may use
//! the device.
//!
//! Contexts: everything here may sleep. Locks: `Device::leases`, innermost.

use crate::{
    ffi,
    sock::SockRef,
    verbs::mr::Pool, //
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
/// `ib` is valid until the last lease is gone and `remove` returned; `pd` is a
/// protection domain of it until [`Device::retire`].
#[pin_data]
pub(crate) struct Device {
    ib: NonNull<ffi::ib_device>,
    pd: NonNull<ffi::ib_pd>,
    #[pin]
    leases: Mutex<Leases>,
    #[pin]
    idle: Completion,
    #[pin]
    regions: Pool,
}

/// What one queue pair of a device can do.
pub(crate) struct Limits {
    pub(crate) work_requests: u16,
    pub(crate) send_sges: u32,
    /// RDMA Reads under way at a time, in each direction.
    pub(crate) reads: u8,
}

struct Leases {
    removing: bool,
    next: u64,
    holders: RBTree<u64, SockRef>,
}

// SAFETY: ib_core objects may be used from any thread; the rest is in a mutex.
unsafe impl Send for Device {}
// SAFETY: As above.
unsafe impl Sync for Device {}

impl Device {
    /// Takes a device into use.
    ///
    /// # Safety
    ///
    /// Called from `ib_client.add` with the device it was given.
    pub(crate) unsafe fn new(ib: NonNull<ffi::ib_device>) -> Result<Arc<Self>> {
        // SAFETY: By the caller's promise.
        let pd = unsafe { ffi::sdp_ib_alloc_pd(ib.as_ptr()) };
        let pd = NonNull::new(kernel::error::from_err_ptr(pd)?).ok_or(ENOMEM)?;
        let device = Arc::pin_init(
            // INVARIANT: `ib` lives until remove, `pd` was made from it.
            pin_init!(Self {
                ib,
                pd,
                leases <- new_mutex!(Leases { removing: false, next: 0, holders: RBTree::new() }, "sdp_leases"),
                idle <- Completion::new(),
                regions <- Pool::new(),
            }),
            GFP_KERNEL,
        );
        if device.is_err() {
            // SAFETY: Allocated above and not used.
            unsafe { ffi::sdp_ib_dealloc_pd(pd.as_ptr()) };
        }
        device
    }

    pub(crate) fn as_ptr(&self) -> *mut ffi::ib_device {
        self.ib.as_ptr()
    }

    pub(crate) fn pd(&self) -> *mut ffi::ib_pd {
        self.pd.as_ptr()
    }

    pub(super) fn regions(&self) -> &Pool {
        &self.regions
    }

    pub(crate) fn limits(&self) -> Limits {
        // SAFETY: `ib` is valid by the invariant.
        let attrs = unsafe { &raw const (*self.ib.as_ptr()).attrs };
        // SAFETY: As above; attributes do not change while the device is registered.
        let (work_requests, send_sges, target, initiator) = unsafe {
            (
                (*attrs).max_qp_wr,
                (*attrs).max_send_sge,
                (*attrs).max_qp_rd_atom,
                (*attrs).max_qp_init_rd_atom,
            )
        };
        Limits {
            work_requests: u16::try_from(work_requests).unwrap_or(u16::MAX),
            send_sges,
            // As target and as initiator; drivers do not agree which is which.
            reads: u8::try_from(target.min(initiator)).unwrap_or(u8::MAX),
        }
    }

    /// Whether a Read of which a part has come may complete as if it were all, the
    /// queue pair being in the error state from then on.
    ///
    /// rxe's do: an acknowledgement that others have overtaken, and that comes in
    /// the middle of the response to a Read, has it forget that the response has
    /// begun. What comes next is an error to it, for which it has no status.
    pub(crate) fn cuts_reads_short(&self) -> bool {
        // SAFETY: `ib` is valid by the invariant; its driver stays the same.
        unsafe { ffi::sdp_ib_is_rxe(self.ib.as_ptr()) }
    }

    /// The key for local buffers: no memory region is needed for them.
    pub(crate) fn local_dma_lkey(&self) -> u32 {
        // SAFETY: `pd` is valid by the invariant, the field never changes.
        unsafe { (*self.pd.as_ptr()).local_dma_lkey }
    }

    /// Keeps the device for `holder`, or ENODEV when it is on its way out.
    pub(crate) fn lease(self: &Arc<Self>, holder: SockRef) -> Result<Lease> {
        let mut leases = self.leases.lock();
        if leases.removing {
            return Err(ENODEV);
        }
        let id = leases.next;
        leases.next = id.wrapping_add(1);
        leases
            .holders
            .try_create_and_insert(id, holder, GFP_KERNEL)?;
        Ok(Lease {
            device: self.clone(),
            id,
        })
    }

    /// The removal of the device: tells every holder, waits for the last lease
    /// and frees the protection domain.
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
        // Regions may be in the hands of a system call that has no lease.
        self.regions.close();
        // SAFETY: Every lease is gone, so no queue pair uses it any more.
        unsafe { ffi::sdp_ib_dealloc_pd(self.pd.as_ptr()) };
    }
}

impl Device {
    /// Whether the device is being removed. Whoever made something of a lease
    /// asks once it can be told, because the telling may have come before.
    pub(crate) fn is_leaving(&self) -> bool {
        self.leases.lock().removing
    }
}

/// The right to use a device; ends its removal's wait when dropped.
pub(crate) struct Lease {
    device: Arc<Device>,
    id: u64,
}

impl Drop for Lease {
    fn drop(&mut self) {
        // Bound before the guard: the holder may be freed by this.
        let _holder;
        let mut leases = self.device.leases.lock();
        _holder = leases.holders.remove(&self.id);
        if leases.removing && leases.holders.is_empty() {
            self.device.idle.complete_all();
        }
    }
}
