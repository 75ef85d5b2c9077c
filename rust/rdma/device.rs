// SPDX-License-Identifier: GPL-2.0

//! An RDMA device and its limits.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)
//!
//! One [`Device`] stands for one `ib_device` that speaks the IB connection manager. A
//! reference to it is the right to use it: the removal of the device waits for the last one.
//! So everything made on a device has one. `lease` tells those who have them of a removal.
//!
//! Contexts: everything here may sleep. No locks.

use crate::{
    ffi,
    prelude::*,
    rdma::{
        holdings::{
            Evicted,
            Holdings, //
        },
        mr::Mr,
        pd::Pd, //
    },
};
use core::ptr::NonNull;
use kernel::{
    new_mutex,
    sync::{
        Arc,
        Completion,
        Mutex, //
    },
};

/// Room for the name of a device.
const NAME_MAX: usize = 64;

/// Maximum number of pages of one region: 1 MiB.
const REGION_PAGES_MAX: u32 = 256;

/// One RDMA device.
///
/// # Invariants
///
/// `ib` is valid and registered: its removal waits until this is dropped, which `gone` tells.
#[pin_data(PinnedDrop)]
pub(crate) struct Device {
    ib: NonNull<ffi::ib_device>,
    limits: Limits,
    #[pin]
    holdings: Mutex<Holdings<Pd, Mr>>,
    gone: Arc<Gone>,
}

#[pinned_drop]
impl PinnedDrop for Device {
    fn drop(self: Pin<&mut Self>) {
        // Every object of ib_core that was made here had a reference, or is an idle region.
        self.close();
        self.gone.dropped.complete_all();
    }
}

/// Tells that a [`Device`] has been dropped.
#[pin_data]
pub(super) struct Gone {
    #[pin]
    dropped: Completion,
}

impl Gone {
    pub(super) fn new() -> Result<Arc<Self>> {
        Arc::pin_init(pin_init!(Self { dropped <- Completion::new() }), GFP_KERNEL)
    }

    pub(super) fn wait(&self) {
        self.dropped.wait_for_completion();
    }
}

/// Which device it is, for comparisons. It gives no access, and may outlive the device;
/// then another device may get it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct DeviceId(usize);

impl DeviceId {
    pub(super) fn of(ib: *const ffi::ib_device) -> Self {
        Self(ib as usize)
    }
}

/// The abilities of a device: its attributes, which do not change while it is registered.
pub(crate) struct Limits {
    pub(crate) work_requests: u16,
    pub(crate) send_sges: u32,
    pub(crate) receive_sges: u32,
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
        let (work_requests, sges, target, initiator, pairs, queues, pages, registers) = unsafe {
            let attrs = &raw const (*ib.as_ptr()).attrs;
            (
                (*attrs).max_qp_wr,
                ((*attrs).max_send_sge, (*attrs).max_recv_sge),
                (*attrs).max_qp_rd_atom,
                (*attrs).max_qp_init_rd_atom,
                (*attrs).max_qp,
                (*attrs).max_cq,
                (*attrs).max_fast_reg_page_list_len,
                ffi::rust_ib_can_register(ib.as_ptr()),
            )
        };
        Self {
            work_requests: u16::try_from(work_requests).unwrap_or(u16::MAX),
            send_sges: from_attribute(sges.0),
            receive_sges: from_attribute(sges.1),
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
// SAFETY: Nothing here belongs to one thread.
unsafe impl Sync for Device {}

impl Device {
    /// Takes a device into use.
    ///
    /// # Safety
    ///
    /// `ib` is registered, and stays so until `gone` has told that the result is dropped.
    pub(super) unsafe fn new(ib: NonNull<ffi::ib_device>, gone: Arc<Gone>) -> Result<Arc<Self>> {
        // SAFETY: It is registered, by the caller's promise.
        let limits = unsafe { Limits::of(ib) };
        Arc::pin_init(
            // INVARIANT: by the caller's promise.
            pin_init!(Self {
                ib,
                limits,
                holdings <- new_mutex!(Holdings::new(), "rdma_holdings"),
                gone,
            }),
            GFP_KERNEL,
        )
    }

    pub(super) fn as_ptr(&self) -> *mut ffi::ib_device {
        self.ib.as_ptr()
    }

    pub(crate) fn id(&self) -> DeviceId {
        DeviceId::of(self.ib.as_ptr())
    }

    /// Frees idle regions, and hands out no more of them: the device goes away.
    pub(super) fn close(&self) {
        loop {
            let evicted = self.holdings.lock().close();
            let Some(evicted) = evicted else { break };
            self.free(evicted);
        }
    }

    /// Whether the device goes away.
    pub(super) fn is_closing(&self) -> bool {
        self.holdings.lock().is_closing()
    }

    /// Frees a region, and the protection domain of its user where nothing else holds it.
    pub(super) fn free(&self, evicted: Evicted<Mr>) {
        drop(evicted.mr);
        let unused = self.holdings.lock().release(evicted.user);
        drop(unused);
    }

    /// The name of the device. Of one that is renamed now it may be both.
    pub(crate) fn name(&self) -> [c_char; NAME_MAX] {
        let mut name = [0; NAME_MAX];
        // SAFETY: The device is valid by the invariant; there is room for its name.
        unsafe { ffi::rust_ib_device_name(self.ib.as_ptr(), name.as_mut_ptr()) };
        name
    }

    pub(super) fn holdings(&self) -> &Mutex<Holdings<Pd, Mr>> {
        &self.holdings
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Maximum number of pages of one region; 0 if the device cannot register by work
    /// request.
    pub(crate) fn region_pages(&self) -> u32 {
        self.limits.region_pages.min(REGION_PAGES_MAX)
    }

    /// Whether a Read may complete although a part of it is missing; the queue pair is in the
    /// error state from then on.
    ///
    /// rxe does so: an acknowledgement that was overtaken, and that arrives in
    /// the middle of the response to a Read, makes rxe forget that the response has
    /// begun. The next packet is an error for which rxe has no status.
    pub(crate) fn cuts_reads_short(&self) -> bool {
        // SAFETY: `ib` is valid by the invariant; its driver stays the same.
        unsafe { ffi::rust_ib_is_rxe(self.ib.as_ptr()) }
    }
}
