// SPDX-License-Identifier: GPL-2.0

//! A range of a program's address space that is watched for changes.
//!
//! C header: [`include/linux/mmu_notifier.h`](srctree/include/linux/mmu_notifier.h)
//!
//! A [`Watch`] is made before the pages of its range are pinned, and waits for the changes that are
//! under way then. It is told of each later change before the change takes effect. So pages that were
//! pinned after it was made, of a range that is not [stale](Interval::is_stale) afterwards, are those
//! that the program has there.
//!
//! # Contexts and locks
//!
//! The kernel tells a change with locks of the address space, in reclaim as well, and there may be no
//! sleep. So the range is marked, and a worker calls [`Interval::told`]. The end of a watch waits for
//! changes that are under way, and these may allocate memory. So the same worker ends it, without a
//! lock, and dropping a `Watch` works in any context.

use crate::{
    ffi,
    prelude::*,
    rdma::spans::Key, //
};
use core::{
    cell::UnsafeCell,
    ptr::NonNull, //
};
use kernel::{
    error::from_err_ptr,
    page::PAGE_SIZE,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Full,
            Relaxed, //
        },
        Arc,
        ArcBorrow, //
    },
    workqueue::{
        impl_has_work,
        new_work,
        Queue,
        Work,
        WorkItem, //
    },
};

/// The range itself.
///
/// # Invariants
///
/// `notifier` is set by [`Watch::new`], before another reference exists, and freed once, by the worker that
/// finds `over`.
#[pin_data]
pub(super) struct Interval {
    key: Key,
    /// A change has begun.
    stale: Atomic<bool>,
    /// The change was the end of the address space.
    ended: Atomic<bool>,
    /// The watch has ended.
    over: Atomic<bool>,
    /// A worker calls it after a change has begun.
    told: fn(&Arc<Interval>),
    notifier: UnsafeCell<Option<NonNull<ffi::rust_interval>>>,
    #[pin]
    work: Work<Interval>,
}

// SAFETY: The notifier is written once, before the value is shared, and read by one worker, which C
// orders behind that; the rest is `Send` by itself.
unsafe impl Send for Interval {}
// SAFETY: As above.
unsafe impl Sync for Interval {}

impl_has_work! {
    impl HasWork<Self> for Interval { self.work }
}

impl Interval {
    pub(super) fn key(&self) -> Key {
        self.key
    }

    /// Whether a change of the range has begun.
    ///
    /// Pairs with the exchange in [`changed_cb`].
    pub(super) fn is_stale(&self) -> bool {
        self.stale.load(Acquire)
    }

    /// Whether that was the end of the address space. For those who have found it stale.
    pub(super) fn has_ended(&self) -> bool {
        self.ended.load(Relaxed)
    }

    /// The range is not to be trusted any more: the worker is told of it as of a change. In any context.
    pub(super) fn invalidate(self: &Arc<Self>) {
        if !self.stale.xchg(true, Full) {
            self.start();
        }
    }

    /// Starts the worker; one that is queued sees everything before this as well.
    fn start(self: &Arc<Self>) {
        // SAFETY: The queue is there as long as intervals are.
        let queue = unsafe { Queue::from_raw((&raw const ffi::rust_cache_queue).read().cast()) };
        // Otherwise it is queued.
        let _ = queue.enqueue(self.clone());
    }
}

impl WorkItem for Interval {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        if this.is_stale() {
            (this.told)(&this);
        }
        if !this.over.xchg(false, Full) {
            return;
        }
        // SAFETY: Written before this was shared. INVARIANT: `over` is set once, so this is the only end.
        unsafe {
            if let Some(notifier) = *this.notifier.get() {
                ffi::rust_interval_free(notifier.as_ptr());
            }
        }
    }
}

/// Called with locks of the address space, in any context; may not sleep.
///
/// # Safety
///
/// `owner` is the interval of a watch that has not ended.
unsafe extern "C" fn changed_cb(owner: *mut c_void, ended: bool) {
    // SAFETY: A pointer to the content of an `Arc`, by `Watch::new`, which lives until the worker has
    // freed the notifier. That waits for this call.
    let interval = unsafe { ArcBorrow::from_raw(owner.cast_const().cast::<Interval>()) };
    if ended {
        interval.ended.store(true, Relaxed);
    }
    // The exchange comes before the change.
    Arc::from(interval).invalidate();
}

/// A watched range. Its drop ends that, in any context.
pub(super) struct Watch(Arc<Interval>);

impl Watch {
    /// Watches `pages` pages of the calling program from the page `first` on; `key` has the last one.
    /// `told` is called in a worker after a change has begun. May sleep; no lock may be held that a change of an
    /// address space needs.
    pub(super) fn new(
        key: Key,
        first: usize,
        pages: usize,
        told: fn(&Arc<Interval>),
    ) -> Result<Self> {
        let interval = Arc::pin_init(
            pin_init!(Interval {
                key,
                stale: Atomic::new(false),
                ended: Atomic::new(false),
                over: Atomic::new(false),
                told,
                notifier: UnsafeCell::new(None),
                work <- new_work!("Interval::work"),
            }),
            GFP_KERNEL_ACCOUNT,
        )?;
        let owner = Arc::as_ptr(&interval).cast_mut().cast();
        let (start, len) = (
            first.saturating_mul(PAGE_SIZE),
            pages.saturating_mul(PAGE_SIZE),
        );
        // SAFETY: The interval lives until the notifier is freed: this value has a reference until it
        // starts the worker that does so, which has one then.
        let notifier = unsafe { ffi::rust_interval_new(start, len, Some(changed_cb), owner) };
        let notifier = from_err_ptr(notifier)?;
        // SAFETY: No other code has a reference but a callback and its worker, which do not look at it before
        // `over` is set. INVARIANT: As it says.
        unsafe { *interval.notifier.get() = NonNull::new(notifier) };
        Ok(Self(interval))
    }

    pub(super) fn interval(&self) -> &Arc<Interval> {
        &self.0
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.0.over.xchg(true, Full);
        self.0.start();
    }
}
