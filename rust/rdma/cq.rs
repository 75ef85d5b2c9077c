// SPDX-License-Identifier: GPL-2.0

//! The completion queues of one queue pair, taken by its owner.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)
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
    calls::calls,
    ffi,
    prelude::*, //
};
use core::{
    marker::PhantomData,
    mem::MaybeUninit,
    ptr::NonNull, //
};

/// The result of a completion.
#[derive(Clone, Copy)]
pub(crate) struct Done {
    pub(crate) ok: bool,
    /// The peer did not answer any retry.
    pub(crate) unanswered: bool,
    /// Of a receive that was successful.
    pub(crate) byte_len: u32,
}

/// A receive has completed. There is one for each, and it is given back for the buffer.
pub(crate) struct Received {
    pub(crate) done: Done,
    /// Of the queue pair.
    of: u64,
}

impl Received {
    /// Whether it belongs to the queue pair of that identity.
    pub(super) fn is_of(&self, id: u64) -> bool {
        self.of == id
    }
}

/// A request of the send queue has completed. There is one for each, and it is given back for what
/// the queue pair keeps with the request.
pub(crate) struct Sent {
    pub(crate) done: Done,
    /// Of the queue pair.
    of: u64,
}

impl Sent {
    /// Whether it belongs to the queue pair of that identity.
    pub(super) fn is_of(&self, id: u64) -> bool {
        self.of == id
    }
}

/// A completion. The requests of a kind complete in the order of their posting.
pub(crate) enum Completion {
    Received(Received),
    Sent(Sent),
}

/// The two queues of a queue pair.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Receives,
    Sends,
}

/// Receiver of the events of a queue pair, which has it.
pub(crate) trait Completions: Send + Sync + 'static {
    /// The queue of `side`, which was armed, has completions. Returns whether the worker shall run.
    /// If not, another thread will take them. May run in hardirq context.
    fn announced(&self, side: Side) -> bool;

    /// The worker. May sleep; runs once at a time for a queue.
    fn work(&self, queue: Borrowed<'_>);

    /// A message came before the connection manager's last message (RTU). Runs in the context
    /// that the driver chooses, which may hold its locks.
    fn communicated(&self);
}

/// Maximum number of completions taken at a time. Mostly there is one, and room for each costs
/// time.
const BATCH: usize = 4;

/// The part of a completion that a batch keeps.
struct Entry {
    is_receive: bool,
    done: Done,
}

impl Entry {
    fn into_completion(self, of: u64) -> Completion {
        let done = self.done;
        if self.is_receive {
            Completion::Received(Received { done, of })
        } else {
            Completion::Sent(Sent { done, of })
        }
    }
}

/// Completions taken together, in order.
pub(crate) struct Batch {
    entries: [Option<Entry>; BATCH],
    /// Of the queue pair.
    of: u64,
    /// There may be more.
    pub(crate) full: bool,
}

impl Batch {
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.first().is_none_or(Option::is_none)
    }

    /// Takes all of them out.
    pub(crate) fn completions(&mut self) -> impl Iterator<Item = Completion> + '_ {
        let of = self.of;
        let entries = self.entries.iter_mut();
        entries.map_while(move |entry| entry.take().map(|entry| entry.into_completion(of)))
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
/// The pointer is valid. `comp_handler` and `work` of the queue are from [`Cq::new`].
/// The requests of its queue pair name `RECEIVE`, `SEND`, or the marker of a drain.
pub(crate) struct Cq(NonNull<ffi::ib_cq>);

/// The queue that a worker was started for; its owner may have it, or may be about to
/// free it, which waits for the worker.
///
/// # Invariants
///
/// The queue exists for `'a`: its worker runs.
pub(crate) struct Borrowed<'a>(NonNull<ffi::ib_cq>, PhantomData<&'a ()>);

impl Borrowed<'_> {
    pub(super) fn is(&self, queue: &Cq) -> bool {
        self.0 == queue.0
    }

    /// Drops what has completed, until there is nothing left and an event will tell of more.
    /// Completions that another thread takes meanwhile are not dropped.
    pub(crate) fn discard(self) {
        // INVARIANT: the queue exists by the invariant of `self`.
        core::mem::ManuallyDrop::new(Cq(self.0)).discard();
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
    // SAFETY: Drivers call this only before `ib_free_cq` returns, and `Cq::new` was promised
    // that the context lives so long.
    let context = unsafe { &*context.cast::<C>() };
    if context.announced(side) {
        // SAFETY: The driver passes a queue of ours, which lives until `ib_free_cq` returns.
        // `Cq::drop` disables the work before it frees the queue.
        unsafe { ffi::rust_ib_cq_start_work(cq) };
    }
}

/// # Safety
///
/// Called by the workqueue with the work of a queue of ours.
unsafe extern "C" fn work_cb<C: Completions>(work: *mut ffi::core::work_struct) {
    // SAFETY: The work belongs to a queue, which exists as long as its work runs, and so does
    // its context, by the promise to `Cq::new`.
    let (context, cq) = unsafe {
        let cq = ffi::rust_ib_cq_of_work(work);
        (&*(*cq).cq_context.cast::<C>(), NonNull::new_unchecked(cq))
    };
    // INVARIANT: the worker runs.
    context.work(Borrowed(cq, PhantomData));
}

impl Cq {
    /// Makes a queue for `entries` completions, with an event due for the first one.
    ///
    /// # Safety
    ///
    /// `device` and `context` stay valid until the queue is dropped.
    pub(super) unsafe fn new<C: Completions>(
        side: Side,
        device: *mut ffi::ib_device,
        context: *const C,
        entries: u32,
        vector: i32,
    ) -> Result<Self> {
        let entries = c_int::try_from(entries).map_err(|_| EINVAL)?;
        let event = match side {
            Side::Receives => event_cb::<C, false>,
            Side::Sends => event_cb::<C, true>,
        };
        let context = context.cast_mut().cast();
        // SAFETY: The device is valid, by the caller's promise.
        let cq = unsafe { ffi::rust_ib_alloc_cq(device, context, entries, vector) };
        let cq = NonNull::new(kernel::error::from_err_ptr(cq)?).ok_or(ENOMEM)?;
        // SAFETY: The queue is new, and no queue pair uses it yet.
        unsafe { ffi::rust_ib_cq_take(cq.as_ptr(), Some(event), Some(work_cb::<C>)) };
        // INVARIANT: as set just above.
        Ok(Self(cq))
    }

    pub(super) fn as_ptr(&self) -> *mut ffi::ib_cq {
        self.0.as_ptr()
    }

    /// Takes the oldest completions. `of` is the identity of the queue pair.
    pub(super) fn poll(&mut self, of: u64) -> Batch {
        let mut entries = [const { None }; BATCH];
        let mut slots = entries.iter_mut();
        let taken = self.take(|entry| {
            if let Some(slot) = slots.next() {
                *slot = Some(entry);
            }
        });
        let full = taken >= BATCH;
        Batch { entries, of, full }
    }

    /// Takes up to [`BATCH`] completions, and gives `each` the ones of the owner's requests.
    /// Returns the number of all.
    fn take(&self, mut each: impl FnMut(Entry)) -> usize {
        let cq = self.0.as_ptr();
        let mut room = [const { MaybeUninit::<ffi::ib_wc>::uninit() }; BATCH];
        // SAFETY: The queue is valid by the invariant, and there is room for so many.
        let taken = unsafe { ffi::rust_ib_poll_cq(cq, BATCH as c_int, room.as_mut_ptr().cast()) };
        let taken = usize::try_from(taken).unwrap_or(0).min(BATCH);
        for wc in room.iter_mut().take(taken) {
            let wc = wc.as_mut_ptr();
            // SAFETY: Of each completion that a driver returns it has written the request and the
            // status, because ib_core relies on them. All requests name an entry.
            let (entry, status) = unsafe { ((*wc).__bindgen_anon_1.wr_cqe, (*wc).status) };
            let is_receive = entry == receive_entry();
            if is_receive || entry == send_entry() {
                let ok = status == ffi::ib_wc_status_IB_WC_SUCCESS;
                let done = Done {
                    ok,
                    unanswered: status == ffi::ib_wc_status_IB_WC_RETRY_EXC_ERR,
                    byte_len: if is_receive && ok {
                        // SAFETY: Written for a receive that was successful.
                        unsafe { (*wc).byte_len }
                    } else {
                        0
                    },
                };
                each(Entry { is_receive, done });
                continue;
            }
            // SAFETY: By the invariant it is a marker of a drain, which waits for this call.
            unsafe {
                if let Some(done) = entry.as_ref().and_then(|entry| entry.done) {
                    done(cq, wc);
                }
            }
        }
        taken
    }

    /// As [`Borrowed::discard`].
    pub(super) fn discard(&self) {
        // Drivers let any number of threads poll and arm.
        loop {
            while self.take(drop) > 0 {}
            if !self.arm_has_missed() {
                return;
            }
        }
    }

    /// Requests an event for the next completion. Returns false if there are completions
    /// that were there before; no event need tell of these.
    pub(super) fn arm(&mut self) -> bool {
        !self.arm_has_missed()
    }
}

// SAFETY: The queue is valid by the invariant. Both functions take the locks of the queue that they
// need.
calls! { unsafe {
    impl Cq, |me| me.0.as_ptr();
    fn arm_has_missed() -> bool = rust_ib_cq_arm;
    /// Starts the worker.
    pub(super) fn start_work() = rust_ib_cq_start_work;
}}

impl Drop for Cq {
    fn drop(&mut self) {
        // SAFETY: Valid by the invariant, and never used again. A late event finds the work
        // disabled, and the driver waits for it before it frees the queue.
        unsafe { ffi::rust_ib_free_cq(self.0.as_ptr()) };
    }
}
