// SPDX-License-Identifier: GPL-2.0

//! An RDMA device and its limits.
//!
//! One [`Device`] stands for one `ib_device` that speaks the IB connection manager.
//! `lease` has the right to use it.
//!
//! Contexts: everything here may sleep. No locks.

use crate::{
    ffi,
    prelude::*,
    verbs::{
        domain::Domains,
        mr::Pool, //
    },
};
use core::ptr::NonNull;
use kernel::{
    new_mutex,
    sync::{
        Arc,
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
    regions: Pool,
}

/// What a device can do: its attributes, which do not change while it is registered.
pub(crate) struct Limits {
    pub(crate) work_requests: u16,
    pub(crate) send_sges: u32,
    /// RDMA Reads in flight, in each direction.
    pub(crate) reads: u8,
    /// Queue pairs with two completion queues of their own.
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
            send_sges: from_attribute(send_sges),
            // As target and as initiator; drivers do not agree which is which.
            reads: u8::try_from(target.min(initiator)).unwrap_or(u8::MAX),
            queue_pairs: from_attribute(pairs.min(queues / 2)),
            region_pages: if registers { pages } else { 0 },
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
            // waits in `Leasing::retire` for leases and regions.
            pin_init!(Self {
                ib,
                limits,
                domains <- new_mutex!(Domains::new(), "sdp_domains"),
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
}
