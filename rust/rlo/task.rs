// SPDX-License-Identifier: GPL-2.0

//! Deferred work in process context: a work item and a timer that queues it.

use crate::{
    ffi,
    prelude::*, //
};
use core::marker::PhantomData;
use kernel::types::Opaque;

/// The function of a task. The task is a field of the object that it works on, at `TASK_OFFSET`.
///
/// # Safety
///
/// `TASK_OFFSET` is the offset of a [`Task<Self>`] in `Self`. The task is stopped before a `Self`
/// goes, or was never kicked.
pub(crate) unsafe trait Run: Sync + Sized {
    const TASK_OFFSET: usize;
    /// Whether `run` stops other tasks. These must not stop tasks themselves.
    const STOPS_OTHERS: bool = false;

    /// Runs in a worker, never concurrently for one object; may sleep.
    fn run(&self);
}

/// A work item and a timer, as a field of a `T`.
///
/// # Invariants
///
/// The C object is initialised, and stays where it is.
#[pin_data]
pub(crate) struct Task<T> {
    #[pin]
    raw: Opaque<ffi::rlo_task>,
    owner: PhantomData<fn(&T)>,
}

// SAFETY: The C functions may be called from any thread.
unsafe impl<T> Send for Task<T> {}
// SAFETY: The C functions may be called by several threads at a time.
unsafe impl<T> Sync for Task<T> {}

impl<T: Run> Task<T> {
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            // SAFETY: `slot` is valid for writes, and stays where it is.
            raw <- Opaque::ffi_init(|slot| unsafe {
                ffi::rlo_task_init(slot, Some(Self::run_cb), T::STOPS_OTHERS)
            }),
            owner: PhantomData,
        })
    }

    /// # Safety
    ///
    /// `raw` belongs to a task.
    unsafe extern "C" fn run_cb(raw: *mut ffi::rlo_task) {
        // `Opaque` has the layout of what is in it, and `raw` is the only field with a size.
        let owner = raw.cast::<u8>().wrapping_sub(T::TASK_OFFSET).cast::<T>();
        // SAFETY: The task stands in a `T` at this offset, and is stopped before that goes, by the
        // promise of `Run`.
        unsafe { &*owner }.run();
    }

    /// Starts it; if it runs already, it runs once more afterwards.
    pub(crate) fn kick(&self) {
        // SAFETY: The C object is initialised, by the type invariant.
        unsafe { ffi::rlo_task_kick(self.raw.get()) }
    }

    pub(crate) fn kick_after(&self, nanoseconds: u64) {
        // SAFETY: The C object is initialised, by the type invariant.
        unsafe { ffi::rlo_task_kick_after(self.raw.get(), nanoseconds) }
    }

    /// Sleeps until it does not run. There must be no more kicks.
    pub(crate) fn stop(&self) {
        // SAFETY: The C object is initialised, by the type invariant.
        unsafe { ffi::rlo_task_stop(self.raw.get()) }
    }
}

/// Nanoseconds of the monotonic clock.
pub(crate) fn now() -> u64 {
    // SAFETY: No requirements.
    unsafe { ffi::rlo_now() }
}

/// Sleeps briefly, to wait for the end of a copy. A copy takes no longer than one chunk.
pub(crate) fn moment() {
    kernel::time::delay::fsleep(kernel::time::Delta::from_micros(20));
}

/// The queue that tasks run on.
pub(crate) struct Queue(());

impl Queue {
    pub(crate) fn new() -> Result<Self> {
        // SAFETY: Called once, before the first task.
        kernel::error::to_result(unsafe { ffi::rlo_queue_create() })?;
        Ok(Self(()))
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // SAFETY: All devices are gone, and with them all tasks.
        unsafe { ffi::rlo_queue_destroy() }
    }
}
