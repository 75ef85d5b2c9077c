// SPDX-License-Identifier: GPL-2.0

//! Bytes that a recv() has reported ahead of their arrival (SDP_AHEAD): the counter that tells the
//! program when they are there, or that they will never be.
//!
//! A [`Promise`] is the report of one call. A connection has one at a time, because its bytes are
//! the next ones of the stream. It is *kept* when all of its bytes have arrived. One that is dropped
//! before has *failed*; this happens at the end of the connection alone, so no later one is kept.
//! A [`Promiser`] counts the promises of one connection to one program.
//!
//! Contexts and locks: a promise begins and counts bytes under the endpoint's lock. Keeping or
//! dropping it may sleep, and happens without that lock.

use super::tally::Tally;
use crate::{
    ffi,
    prelude::*,
    rdma::region::Region, //
};
use kernel::sync::{
    atomic::{
        Acquire,
        Atomic,
        Relaxed,
        Release, //
    },
    Arc, //
};

/// Length of a `struct sdp_ahead_counter`, and the offsets of its other words.
const COUNTER_LEN: usize = core::mem::size_of::<ffi::sdp_ahead_counter>();
const FAILED: usize = core::mem::offset_of!(ffi::sdp_ahead_counter, failed);
const FILLED: usize = core::mem::offset_of!(ffi::sdp_ahead_counter, filled);
const GONE: usize = core::mem::offset_of!(ffi::sdp_ahead_counter, gone);

/// Which promises a connection has made to a program, and what became of them.
pub(crate) struct Promiser {
    tally: Tally,
    /// As the kernel knows it: a program may write to its counter.
    failed: Atomic<bool>,
    /// Bytes from which on a call receives ahead.
    pub(crate) least: u32,
}

impl Promiser {
    /// The promiser that the calling program asks for.
    pub(crate) fn new(asked: &ffi::sdp_ahead) -> Result<Arc<Self>> {
        Ok(Arc::new(
            Self {
                tally: Tally::new(asked.counter, COUNTER_LEN)?,
                failed: Atomic::new(false),
                least: asked.least,
            },
            GFP_KERNEL,
        )?)
    }

    /// The address of the counter in the program.
    pub(crate) fn address(&self) -> u64 {
        self.tally.address()
    }

    /// Whether it is for the calling program.
    pub(crate) fn is_of_caller(&self) -> bool {
        self.tally.is_of_caller()
    }

    /// Whether the program may still look at its memory.
    pub(crate) fn is_needed(&self) -> bool {
        self.tally.is_needed()
    }

    pub(crate) fn issued(&self) -> u32 {
        self.tally.issued()
    }

    /// Whether there is a promise of that number, kept or not.
    pub(crate) fn knows(&self, id: u32) -> bool {
        self.tally.knows(id)
    }

    /// The result of the promise of that number and of earlier ones: they are kept, or EIO. `None`:
    /// nothing yet.
    pub(crate) fn outcome(&self, id: u32) -> Option<Result> {
        // In this order: the last one may be kept while this asks.
        let failed = self.failed.load(Acquire);
        if self.tally.has_ended(id) {
            return Some(Ok(()));
        }
        failed.then_some(Err(EIO))
    }

    /// Whether a promise of the connection `generation` can begin: EBUSY if another connection of the
    /// socket was counted, and EPIPE after a failure.
    fn can_begin(&self, generation: u64) -> Result {
        self.tally.is_for(generation)?;
        if self.failed.load(Relaxed) {
            return Err(EPIPE);
        }
        Ok(())
    }

    /// Begins one that can. Under the endpoint's lock.
    fn begin(&self, generation: u64) -> u32 {
        self.tally.begin(generation)
    }

    /// The oldest promise is kept.
    fn end(&self) {
        self.tally.end();
    }

    /// Tells the program that no open promise will be kept, and that `filled` bytes of the oldest
    /// have arrived.
    fn fail(&self, filled: u32) {
        self.tally.set(FILLED, filled);
        self.failed.store(true, Release);
        self.tally.set(FAILED, 1);
    }
}

impl Drop for Promiser {
    fn drop(&mut self) {
        self.tally.set(GONE, 1);
    }
}

/// Bytes that a recv() has reported, and that RDMA Reads still bring to the program's memory.
pub(crate) struct Promise {
    promiser: Arc<Promiser>,
    /// The call has reported the bytes, and not all of them have arrived.
    open: bool,
    /// Number of bytes that have arrived.
    filled: u32,
    /// The memory of the bytes, once no request uses it any more.
    region: Option<Region>,
}

impl Promise {
    /// A promise that has not begun.
    pub(crate) fn new(promiser: Arc<Promiser>) -> Result<KBox<Self>> {
        let promise = Self {
            promiser,
            open: false,
            filled: 0,
            region: None,
        };
        Ok(KBox::new(promise, GFP_KERNEL)?)
    }

    pub(crate) fn promiser(&self) -> &Arc<Promiser> {
        &self.promiser
    }

    /// See [`Promiser::can_begin`].
    pub(crate) fn can_begin(&self, generation: u64) -> Result {
        self.promiser.can_begin(generation)
    }

    /// Begins it; returns its number.
    pub(crate) fn begin(&mut self, generation: u64) -> u32 {
        self.open = true;
        self.promiser.begin(generation)
    }

    /// `len` bytes have come.
    pub(crate) fn on_filled(&mut self, len: u32) {
        self.filled = self.filled.saturating_add(len);
    }

    /// All bytes have come, to the memory of `region`.
    pub(crate) fn on_done(&mut self, region: Region) {
        self.region = Some(region);
    }

    /// Tells the program that the bytes are there. The memory is unmapped from the device first,
    /// because the bytes may be in a bounce buffer until then. Without the endpoint's lock.
    pub(crate) fn keep(mut self: KBox<Self>) {
        drop(self.region.take());
        if core::mem::take(&mut self.open) {
            self.promiser.end();
        }
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        drop(self.region.take());
        if self.open {
            self.promiser.fail(self.filled);
        }
    }
}
