// SPDX-License-Identifier: GPL-2.0

//! Copies of memory by a DMA engine, if the machine has one: a channel of dmaengine for each module.
//!
//! C header: [`include/linux/dmaengine.h`](srctree/include/linux/dmaengine.h)
//!
//! Every byte is copied: the processor copies what the engine does not accept, does not finish in
//! a second, or copies with an error. `engine.c` drives the channel, and has the locks. Each module
//! includes it in a C file of its own, which calls `copier_init`.
//!
//! A [`copy`] waits. A [`Flight`] goes on while its owner does something else.
//!
//! Contexts: [`threshold`] and [`Flight::is_over`] work in any; all others sleep.
//!
//! # Locks and entry points of `engine.c`
//!
//! A *flight* is a copy of up to 16 runs, and each run is one descriptor. `copier_begin` gives the
//! engine as many as it has room for (the module sets the number, for all tasks together), and the
//! processor copies the rest. No memory is released while the channel can still write to
//! it: a flight ends when each descriptor was called back or the channel has been stopped.
//!
//! | lock | type | protects | may be taken under it |
//! |---|---|---|---|
//! | `users` | rw_semaphore | the channel; held for reading by flights, which only try, and for writing by `tend` | `sending`, dmaengine's locks |
//! | `sending` | mutex | the order of prepare and submit, whether descriptors go out | the channel driver's locks |
//!
//! | entry | where it runs | may sleep |
//! |---|---|---|
//! | `copier_begin`, `copier_end` | the caller, which ends a flight in the task that began it | yes |
//! | `tend`, which changes the state of the engine | the module's workqueue for it (unbound) | yes |
//! | `descriptor_done` | the context from which the engine's driver calls back | **no** |

#![allow(dead_code, reason = "each module uses a part")]

use crate::{
    ffi,
    prelude::*, //
};
use core::{
    mem::MaybeUninit,
    ptr::NonNull, //
};

/// Maximum number of runs that are copied together.
pub(crate) const RUNS: usize = ffi::COPIER_RUNS as usize;

/// Memory that is contiguous at both ends.
pub(crate) type Run = ffi::copier_run;

/// Copies of fewer bytes do not use the engine.
pub(crate) fn threshold() -> usize {
    // SAFETY: An aligned number that may change at any time; any value is valid.
    unsafe { core::ptr::addr_of!(ffi::copier_threshold).read_volatile() }
}

fn count(runs: &[Run]) -> u32 {
    runs.len().min(RUNS) as u32
}

/// Copies at most [`RUNS`] runs. Returns the number of bytes that the engine has moved.
///
/// # Safety
///
/// Each run is valid for its length at both ends until the call returns.
pub(crate) unsafe fn copy(runs: &[Run]) -> usize {
    // SAFETY: By the caller's promise. The call returns when nothing uses the memory.
    unsafe { ffi::copier_copy(runs.as_ptr(), count(runs)) }
}

/// The part of a flight that C uses, at a place that does not change.
struct Place {
    flight: MaybeUninit<ffi::copier_flight>,
    runs: [Run; RUNS],
}

/// A copy that has begun. Dropping it waits for its end.
///
/// A channel is held until all of its flights have ended, so a flight lasts for a part of a
/// system call, and ends in the task that began it.
///
/// # Invariants
///
/// `place` is what [`KBox::into_raw`] gave, and belongs to this value alone. The flight has begun,
/// and has ended if `over`. `held` keeps the memory of its runs.
pub(crate) struct Flight<H> {
    place: NonNull<Place>,
    over: bool,
    held: H,
}

impl<H> Flight<H> {
    /// Begins to copy at most [`RUNS`] runs: runs of `least` bytes or more by the engine.
    ///
    /// # Safety
    ///
    /// As long as `held` exists, each run is valid for its length at both ends.
    pub(crate) unsafe fn begin(runs: &[Run], least: usize, held: H) -> Result<Self> {
        let place = Place {
            flight: MaybeUninit::uninit(),
            runs: [Run::default(); RUNS],
        };
        let mut place = KBox::new(place, GFP_KERNEL)?;
        for (to, run) in place.runs.iter_mut().zip(runs) {
            *to = *run;
        }
        let place = KBox::into_raw(place);
        // SAFETY: The box is alive, and stays at its place until `drop`. The memory of the runs is
        // valid by the caller's promise, and `held` is dropped after the end of the flight.
        unsafe {
            let flight = (&raw mut (*place).flight).cast();
            ffi::copier_begin(
                flight,
                (&raw const (*place).runs).cast(),
                count(runs),
                least,
            );
            // INVARIANT: `place` is from `into_raw()`, the flight has begun, and `held` is kept.
            Ok(Self {
                place: NonNull::new_unchecked(place),
                over: false,
                held,
            })
        }
    }

    fn flight(&self) -> *mut ffi::copier_flight {
        // SAFETY: Alive, by the invariant.
        unsafe { (&raw mut (*self.place.as_ptr()).flight).cast() }
    }

    /// Whether its end would not be waited for.
    pub(crate) fn is_over(&self) -> bool {
        // SAFETY: It has begun, by the invariant.
        self.over || unsafe { ffi::copier_is_over(self.flight()) }
    }

    /// Waits until all is copied. Returns the number of bytes that the engine has moved.
    pub(crate) fn end(&mut self) -> usize {
        if core::mem::replace(&mut self.over, true) {
            return 0;
        }
        // SAFETY: It has begun, and has not ended, by the invariant.
        unsafe { ffi::copier_end(self.flight()) }
    }
}

impl<H> Drop for Flight<H> {
    fn drop(&mut self) {
        self.end();
        // SAFETY: By the invariant; nothing uses the place after the end.
        drop(unsafe { KBox::from_raw(self.place.as_ptr()) });
    }
}
