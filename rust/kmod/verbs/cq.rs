// SPDX-License-Identifier: GPL-2.0

//! The completion queues of one queue pair, taken by its owner.
//!
//! ib_core would take completions in a worker alone. Here the owner of the queue does, in
//! any of its threads, and the worker of ib_core's workqueue runs only if the owner asks for
//! it. The queue reports one event after it was armed, and no further one until it is
//! armed again.
//!
//! Contexts: creating and freeing sleep. [`Completions::announced`] runs in the context
//! that the driver chooses, up to hardirq, and may not sleep. Everything else is called
//! under the owner's lock, in process context.

use crate::{
    ffi,
    prelude::*, //
};
use core::ptr::NonNull;

/// The result of a completion.
#[derive(Clone, Copy)]
pub(crate) struct Done {
    pub(crate) ok: bool,
    /// The peer did not answer any retry.
    pub(crate) unanswered: bool,
    pub(crate) byte_len: u32,
}

/// A completion. The requests of a kind complete in the order of their posting.
#[derive(Clone, Copy)]
pub(crate) enum Completion {
    Received(Done),
    Sent(Done),
}

/// The two queues of a queue pair.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Receives,
    Sends,
}

/// Receiver of the events of a queue pair. The context pointer is the one that
/// [`Qp::new`](super::qp::Qp::new) was given.
pub(crate) trait Completions {
    /// The queue of `side`, which was armed, has completions. Returns whether the worker shall run.
    /// If not, another thread will take them. May run in hardirq context.
    ///
    /// # Safety
    ///
    /// `context` belongs to a queue pair whose completion queue still exists.
    unsafe fn announced(context: *mut c_void, side: Side) -> bool;

    /// The worker. May sleep; runs once at a time for a queue.
    ///
    /// # Safety
    ///
    /// As for `announced`.
    unsafe fn work(context: *mut c_void, queue: Borrowed);

    /// A message came before the connection manager's last message (RTU).
    ///
    /// # Safety
    ///
    /// `context` is that of a queue pair which still exists.
    unsafe fn communicated(context: *mut c_void);
}

/// Maximum number of completions taken at a time: ib_core has allocated memory for so many.
const BATCH: usize = 16;

/// Completions taken together, in order.
pub(crate) struct Batch {
    entries: [Option<Completion>; BATCH],
    /// There may be more.
    pub(crate) full: bool,
}

impl Batch {
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.first().is_none_or(Option::is_none)
    }

    pub(crate) fn completions(self) -> impl Iterator<Item = Completion> {
        self.entries.into_iter().map_while(|entry| entry)
    }
}

/// The entry that a request names, by which its completion is recognised. The oldest
/// request of a kind is the one that has completed, so one entry for each kind suffices.
static RECEIVE: ffi::ib_cqe = ffi::ib_cqe { done: None };
/// As `RECEIVE`. `Cq::poll` alone takes completions of these queues, and recognises the
/// entries by their address instead of calling them.
static SEND: ffi::ib_cqe = ffi::ib_cqe { done: None };

pub(super) fn receive_entry() -> *mut ffi::ib_cqe {
    (&raw const RECEIVE).cast_mut()
}

pub(super) fn send_entry() -> *mut ffi::ib_cqe {
    (&raw const SEND).cast_mut()
}

/// A completion queue.
///
/// # Invariants
///
/// The pointer is valid. `comp_handler` and `work` of the queue are those of [`Cq::new`].
/// The requests of its queue pair name `RECEIVE`, `SEND`, or an entry of ib_core.
pub(crate) struct Cq(NonNull<ffi::ib_cq>);

/// The queue that a worker was started for; its owner may have it, or may be about to
/// free it, which waits for the worker.
pub(crate) struct Borrowed(NonNull<ffi::ib_cq>);

impl Borrowed {
    pub(super) fn is(&self, queue: &Cq) -> bool {
        self.0 == queue.0
    }

    /// Drops what has completed, until there is nothing left and an event will tell of more.
    ///
    /// # Safety
    ///
    /// No other thread takes completions of this queue meanwhile.
    pub(crate) unsafe fn discard(self) {
        // INVARIANT: the queue exists while the worker runs.
        let mut queue = core::mem::ManuallyDrop::new(Cq(self.0));
        loop {
            while !queue.poll().is_empty() {}
            if queue.arm() {
                return;
            }
        }
    }
}

/// # Safety
///
/// Called by a driver with a queue of ours.
unsafe extern "C" fn event_cb<C: Completions, const SENDS: bool>(
    cq: *mut ffi::ib_cq,
    context: *mut c_void,
) {
    let side = if SENDS { Side::Sends } else { Side::Receives };
    // SAFETY: Drivers call this only before `ib_free_cq` returns, and the context is the
    // queue's.
    if unsafe { C::announced(context, side) } {
        // SAFETY: As above; `Cq::drop` disables the work before it frees the queue.
        unsafe { ffi::sdp_ib_cq_start_work(cq) };
    }
}

/// # Safety
///
/// Called by the workqueue with the work of a queue of ours.
unsafe extern "C" fn work_cb<C: Completions>(work: *mut ffi::core::work_struct) {
    // SAFETY: The work is that of a queue, which exists as long as its work runs.
    unsafe {
        let cq = ffi::sdp_ib_cq_of_work(work);
        C::work((*cq).cq_context, Borrowed(NonNull::new_unchecked(cq)));
    }
}

impl Cq {
    /// Makes a queue for `entries` completions, with an event due for the first one.
    ///
    /// # Safety
    ///
    /// `device` stays valid until the queue is dropped, and `context` what `C` takes it for.
    pub(super) unsafe fn new<C: Completions>(
        side: Side,
        device: *mut ffi::ib_device,
        context: *mut c_void,
        entries: u32,
        vector: i32,
    ) -> Result<Self> {
        let entries = c_int::try_from(entries).map_err(|_| EINVAL)?;
        let event = match side {
            Side::Receives => event_cb::<C, false>,
            Side::Sends => event_cb::<C, true>,
        };
        // SAFETY: The device is valid, by the caller's promise.
        let cq = unsafe { ffi::sdp_ib_alloc_cq(device, context, entries, vector) };
        let cq = NonNull::new(kernel::error::from_err_ptr(cq)?).ok_or(ENOMEM)?;
        // SAFETY: The queue is new, and no queue pair uses it yet.
        unsafe { ffi::sdp_ib_cq_take(cq.as_ptr(), Some(event), Some(work_cb::<C>)) };
        // INVARIANT: as set just above.
        Ok(Self(cq))
    }

    pub(super) fn as_ptr(&self) -> *mut ffi::ib_cq {
        self.0.as_ptr()
    }

    /// Takes the oldest completions.
    pub(super) fn poll(&mut self) -> Batch {
        let cq = self.0.as_ptr();
        let mut entries = [None; BATCH];
        // SAFETY: The queue is valid by the invariant. ib_core has allocated `wc` for `BATCH`
        // completions and leaves it to the worker, whose place we have.
        let (taken, wc) = unsafe { (ffi::sdp_ib_poll_cq(cq, BATCH as c_int, (*cq).wc), (*cq).wc) };
        let taken = usize::try_from(taken).unwrap_or(0);
        let mut at = 0;
        for i in 0..taken.min(BATCH) {
            // SAFETY: So many completions were written there.
            let wc = unsafe { &mut *wc.add(i) };
            // SAFETY: All requests name an entry.
            let entry = unsafe { wc.__bindgen_anon_1.wr_cqe };
            let done = Done {
                ok: wc.status == ffi::ib_wc_status_IB_WC_SUCCESS,
                unanswered: wc.status == ffi::ib_wc_status_IB_WC_RETRY_EXC_ERR,
                byte_len: wc.byte_len,
            };
            let completion = if entry == receive_entry() {
                Completion::Received(done)
            } else if entry == send_entry() {
                Completion::Sent(done)
            } else {
                // SAFETY: By the invariant it is an entry of ib_core's drain, which waits for
                // this call.
                if let Some(done) = unsafe { entry.as_ref() }.and_then(|entry| entry.done) {
                    // SAFETY: As above.
                    unsafe { done(cq, wc) };
                }
                continue;
            };
            if let Some(slot) = entries.get_mut(at) {
                *slot = Some(completion);
                at = at.saturating_add(1);
            }
        }
        Batch {
            entries,
            full: taken >= BATCH,
        }
    }

    /// Requests an event for the next completion. Returns false if there are completions
    /// that were there before; no event need tell of these.
    pub(super) fn arm(&mut self) -> bool {
        // SAFETY: The queue is valid by the invariant.
        !unsafe { ffi::sdp_ib_cq_arm(self.0.as_ptr()) }
    }

    /// Starts the worker.
    pub(super) fn start_work(&self) {
        // SAFETY: The queue is valid by the invariant.
        unsafe { ffi::sdp_ib_cq_start_work(self.0.as_ptr()) };
    }
}

impl Drop for Cq {
    fn drop(&mut self) {
        // SAFETY: Valid by the invariant, and never used again. A late event finds the work
        // disabled, and the driver waits for it before it frees the queue.
        unsafe { ffi::sdp_ib_free_cq(self.0.as_ptr()) };
    }
}
