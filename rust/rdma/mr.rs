// SPDX-License-Identifier: GPL-2.0

//! Memory regions that a work request registers, and the pool of each device.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)
//!
//! An idle region returns to the pool for the next user. A region with failed work requests
//! is in an unknown state and is not used again.
//!
//! Contexts: everything may sleep. Locks: the pool's, innermost.

use crate::{
    ffi,
    prelude::*,
    random::random_u32,
    rdma::{
        device::Device,
        domain::{
            Domain,
            Tenant, //
        },
        noio::NoIo, //
    },
};
use core::ptr::NonNull;
use kernel::{
    new_mutex,
    page::PAGE_SIZE,
    sync::{
        Arc,
        Completion,
        Mutex, //
    },
};

/// Maximum number of pages of one region: 1 MiB.
const PAGES_MAX: u32 = 256;

/// The access that a memory region permits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// The peer reads.
    RemoteRead,
    /// The peer writes.
    RemoteWrite,
    /// Our own requests write.
    LocalWrite,
}

impl Access {
    pub(super) fn raw(self) -> c_int {
        let flags = match self {
            Access::RemoteRead => ffi::ib_access_flags_IB_ACCESS_REMOTE_READ,
            // Remote write access requires local write access.
            Access::RemoteWrite => {
                ffi::ib_access_flags_IB_ACCESS_REMOTE_WRITE
                    | ffi::ib_access_flags_IB_ACCESS_LOCAL_WRITE
            }
            Access::LocalWrite => ffi::ib_access_flags_IB_ACCESS_LOCAL_WRITE,
        };
        flags as c_int
    }
}

/// One memory region.
///
/// # Invariants
///
/// `mr` is valid and belongs to `domain`.
pub(crate) struct Mr {
    mr: NonNull<ffi::ib_mr>,
    domain: Domain,
    /// The key under which the device knows it, valid or not.
    known: u32,
    /// An earlier user did not invalidate it: that must be done before it can be
    /// registered again.
    valid: bool,
}

// SAFETY: ib_core objects may be used from any thread.
unsafe impl Send for Mr {}

impl Mr {
    fn new(tenant: &Tenant, pages: u32) -> Result<Self> {
        let domain = Domain::of(tenant.clone())?;
        let kind = ffi::ib_mr_type_IB_MR_TYPE_MEM_REG;
        // SAFETY: The protection domain is valid, by its type's invariant.
        let mr = unsafe { ffi::ib_alloc_mr(domain.as_ptr(), kind, pages) };
        let mr = NonNull::new(kernel::error::from_err_ptr(mr)?).ok_or(ENOMEM)?;
        // INVARIANT: just made.
        let mut this = Self {
            mr,
            domain,
            known: 0,
            valid: false,
        };
        this.known = this.key();
        Ok(this)
    }

    pub(super) fn as_ptr(&self) -> *mut ffi::ib_mr {
        self.mr.as_ptr()
    }

    /// The key of this registration, for the peer and for our own requests.
    pub(super) fn key(&self) -> u32 {
        // SAFETY: Valid by the invariant. The word changes only by methods that have `&mut`.
        unsafe { (*self.mr.as_ptr()).rkey }
    }

    /// The address of the first byte.
    pub(super) fn start(&self) -> u64 {
        // SAFETY: As in `key`.
        unsafe { (*self.mr.as_ptr()).iova }
    }

    /// Gives the first byte a random address. Drivers use the address of the memory, as
    /// DMA or the kernel sees it, and the peer would learn that one. A random address
    /// cannot be guessed either.
    pub(super) fn disguise(&mut self) {
        let (high, low) = (random_u32(), random_u32());
        let random = u64::from(high) << 32 | u64::from(low);
        let in_page = PAGE_SIZE as u64 - 1;
        // Half of all addresses are enough, and keep the end of the region an address,
        // too.
        let page = random & (u64::MAX >> 1) & !in_page;
        // SAFETY: Valid by the invariant; the device reads it when it carries out the
        // registration, which is not posted yet.
        unsafe {
            let iova = &raw mut (*self.mr.as_ptr()).iova;
            *iova = page | *iova & in_page;
        }
    }

    /// Changes the key by a random step, so that an earlier key is invalid and does not
    /// reveal the next one.
    fn next_key(&mut self) {
        // SAFETY: Valid by the invariant.
        unsafe { ffi::rust_ib_next_key(self.mr.as_ptr()) };
    }
}

impl Drop for Mr {
    fn drop(&mut self) {
        // SAFETY: Valid by the invariant and never used again.
        unsafe { ffi::rust_ib_dereg_mr(self.mr.as_ptr()) };
    }
}

/// The regions of one device.
#[pin_data]
pub(crate) struct Pool {
    #[pin]
    state: Mutex<State>,
    #[pin]
    idle: Completion,
}

struct State {
    /// Idle regions, the last used one at the end. Has room for every region that was
    /// made.
    free: KVec<Mr>,
    made: u32,
    closing: bool,
}

impl Pool {
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            state <- new_mutex!(State { free: KVec::new(), made: 0, closing: false }, "rdma_regions"),
            idle <- Completion::new(),
        })
    }

    /// Frees all regions, after those in use have been returned. No new ones are handed
    /// out.
    pub(super) fn close(&self) {
        let (free, in_use) = {
            let mut state = self.state.lock();
            state.closing = true;
            let free = core::mem::take(&mut state.free);
            let made = state.made;
            let idle = u32::try_from(free.len()).unwrap_or(u32::MAX);
            state.made = made.saturating_sub(idle);
            (free, state.made)
        };
        drop(free);
        if in_use > 0 {
            self.idle.wait_for_completion();
        }
    }

    /// Returns an idle region to the pool.
    fn keep(&self, mr: Mr) {
        let kept = {
            let mut state = self.state.lock();
            if state.closing {
                Err(mr)
            } else {
                state.free.push_within_capacity(mr).map_err(|e| e.0)
            }
        };
        if let Err(mr) = kept {
            // Counted until it is dropped: `close` waits for that.
            drop(mr);
            self.forget();
        }
    }

    /// A region has been freed.
    fn forget(&self) {
        let mut state = self.state.lock();
        state.made = state.made.saturating_sub(1);
        if state.closing && state.made == 0 {
            self.idle.complete_all();
        }
    }
}

/// A region in use; returns to its pool when dropped.
pub(crate) struct Pooled {
    /// `None` once it was revoked.
    mr: Option<Mr>,
    tenant: Tenant,
    /// A work request for it may not have been carried out yet.
    posted: bool,
}

/// The origin of a region.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    Reused,
    Made,
}

impl Device {
    /// Maximum number of pages of one region; 0 if the device cannot register by work
    /// request.
    pub(crate) fn region_pages(&self) -> u32 {
        self.limits().region_pages.min(PAGES_MAX)
    }
}

/// The source of the next region.
enum Choice {
    Reuse(Mr),
    /// A new region: there is room for it, or there will be when this one of another
    /// user is freed.
    Make(Option<Mr>),
}

impl State {
    /// An idle region of `tenant`, or the right to make one, which is counted from here
    /// on: `close` waits for it. A device has at most `most`.
    fn choose(&mut self, tenant: &Tenant, most: u32) -> Result<Choice> {
        if self.closing {
            return Err(ENODEV);
        }
        let own = |mr: &Mr| mr.domain.tenant() == tenant;
        if let Some(at) = self.free.iter().rposition(own) {
            return self.free.remove(at).map(Choice::Reuse).map_err(|_| EINVAL);
        }
        if self.made < most {
            let room = usize::try_from(self.made).unwrap_or(usize::MAX);
            // Programs decide how many are made.
            self.free
                .reserve(room.saturating_add(1), GFP_KERNEL | __GFP_NOWARN)?;
            self.made = self.made.saturating_add(1);
            return Ok(Choice::Make(None));
        }
        let others = self.free.remove(0).map_err(|_| ENOBUFS)?;
        Ok(Choice::Make(Some(others)))
    }
}

impl Tenant {
    /// Takes a region into use, an idle one of this user or a new one, if the device
    /// has fewer than `most` in use.
    pub(crate) fn take_region(&self, most: u32) -> Result<(Pooled, Origin)> {
        let regions = self.device().regions();
        let choice = {
            // The worker of the completion queue gives regions back.
            let _noio = NoIo::new();
            regions.state.lock().choose(self, most)?
        };
        match choice {
            Choice::Reuse(mr) => Ok((Pooled::new(mr, self), Origin::Reused)),
            Choice::Make(others) => {
                drop(others);
                match Mr::new(self, self.device().region_pages()) {
                    Ok(mr) => Ok((Pooled::new(mr, self), Origin::Made)),
                    Err(e) => {
                        regions.forget();
                        Err(e)
                    }
                }
            }
        }
    }
}

impl Pooled {
    fn new(mr: Mr, tenant: &Tenant) -> Self {
        Self {
            mr: Some(mr),
            tenant: tenant.clone(),
            posted: false,
        }
    }

    pub(super) fn device(&self) -> &Arc<Device> {
        self.tenant.device()
    }

    pub(super) fn tenant(&self) -> &Tenant {
        &self.tenant
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
        (mr.valid || always).then_some(mr.known)
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
            mr.known = mr.key();
        }
    }

    /// All work requests for it have succeeded. `valid` says whether it is still
    /// registered, because the last one was no invalidation.
    pub(super) fn set_settled(&mut self, valid: bool) {
        self.posted = false;
        if let Some(mr) = self.mr.as_mut() {
            mr.valid = valid;
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
        match self.mr.take() {
            Some(mr) => self.device().regions().keep(mr),
            None => self.device().regions().forget(),
        }
    }
}
