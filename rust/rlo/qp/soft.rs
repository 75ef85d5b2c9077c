// SPDX-License-Identifier: GPL-2.0

//! Deferred work in softirq context, for datagrams.
//!
//! Connection managers post with interrupts disabled, where no frame can be sent. A worker would
//! cost two switches of threads for each datagram.

use crate::{
    ffi,
    prelude::*, //
};
use kernel::types::Opaque;

/// The function of a [`Soft`].
pub(crate) trait Work: Send + Sync {
    /// Runs in a softirq; does not sleep.
    fn run(&self);
}

/// Deferred work.
///
/// # Invariants
///
/// The C object is initialised, and stays where it is.
#[pin_data]
pub(crate) struct Soft<W> {
    #[pin]
    raw: Opaque<ffi::rlo_soft>,
    work: W,
}

// SAFETY: The C functions may be called from any thread; the rest does not change.
unsafe impl<W: Work> Send for Soft<W> {}
// SAFETY: The C functions may be called by several threads at a time.
unsafe impl<W: Work> Sync for Soft<W> {}

impl<W: Work> Soft<W> {
    pub(crate) fn new(work: W) -> Result<Pin<KBox<Self>>> {
        KBox::pin_init(
            pin_init!(Self {
                // SAFETY: `slot` is valid for writes, and stays where it is.
                raw <- Opaque::ffi_init(|slot| unsafe {
                    ffi::rlo_soft_init(slot, Some(Self::run_cb))
                }),
                work,
            }),
            GFP_KERNEL,
        )
    }

    /// # Safety
    ///
    /// `raw` belongs to a `Soft`.
    unsafe extern "C" fn run_cb(raw: *mut ffi::rlo_soft) {
        let offset = core::mem::offset_of!(Self, raw);
        // SAFETY: `Opaque` has the layout of what is in it, which stands in a `Soft` at this
        // offset. It is stopped before that goes, by its owner.
        let this = unsafe { &*raw.byte_sub(offset).cast::<Self>() };
        this.work.run();
    }

    pub(crate) fn kick(&self) {
        // SAFETY: The C object is initialised, by the type invariant.
        unsafe { ffi::rlo_soft_kick(self.raw.get()) }
    }

    /// Sleeps until it does not run. There must be no more kicks.
    pub(crate) fn stop(&self) {
        // SAFETY: The C object is initialised, by the type invariant.
        unsafe { ffi::rlo_soft_stop(self.raw.get()) }
    }
}
