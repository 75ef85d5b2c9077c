// SPDX-License-Identifier: GPL-2.0

//! Posted receives, of one queue pair or shared by several.
//!
//! Contexts: any, except creation and `stop`.

use crate::{
    ffi,
    irq_lock::{
        new_spinlock_irq,
        SpinLockIrq, //
    },
    names::event,
    prelude::*,
    task::{
        Run,
        Task, //
    },
};
use core::mem::offset_of;
use kernel::sync::Arc;

/// Maximum number of pieces of a work request, for sends and receives.
pub(crate) const MAX_PIECES: usize = 16;

/// A receive that has been taken from its queue.
#[derive(Clone, Copy)]
pub(crate) struct Receive {
    pub(crate) id: u64,
}

/// Copies of the pieces of a work request. They are large, so they stay where they are, and
/// requests are copied there one after the other.
pub(crate) struct Pieces {
    count: usize,
    list: [ffi::ib_sge; MAX_PIECES],
}

impl Pieces {
    pub(crate) fn new() -> Self {
        Self {
            count: 0,
            list: [ffi::ib_sge::default(); MAX_PIECES],
        }
    }

    pub(crate) fn as_slice(&self) -> &[ffi::ib_sge] {
        self.list.get(..self.count).unwrap_or(&[])
    }

    pub(crate) fn clear(&mut self) {
        self.count = 0;
    }

    /// Adds copies of as many pieces as there is room for.
    pub(crate) fn add(&mut self, given: &[ffi::ib_sge]) {
        let room = self.list.get_mut(self.count..).unwrap_or(&mut []);
        for (to, from) in room.iter_mut().zip(given) {
            *to = *from;
            self.count += 1;
        }
    }

    /// The number of bytes that they have room for.
    pub(crate) fn len(&self) -> u64 {
        self.as_slice()
            .iter()
            .map(|sge| u64::from(sge.length))
            .sum()
    }
}

/// The place of the element `at` in a ring of `len`, for one that is less than a round ahead; without
/// a division, because each request asks several times.
pub(crate) fn wrapped(at: usize, len: usize) -> usize {
    if at < len {
        at
    } else {
        at - len
    }
}

/// A ring of receives.
///
/// # Invariants
///
/// `len <= ids.len()`; `pieces` has `each` elements for each of `ids`.
pub(crate) struct Receives {
    ids: KVVec<(u64, usize)>,
    pieces: KVVec<ffi::ib_sge>,
    each: usize,
    head: usize,
    len: usize,
}

impl Receives {
    /// Room for `count` receives of `each` pieces.
    pub(crate) fn new(count: u32, each: u32) -> Result<Self> {
        let (count, each) = (count as usize, each as usize);
        Ok(Self {
            ids: KVVec::from_elem((0, 0), count, GFP_KERNEL)?,
            pieces: KVVec::from_elem(ffi::ib_sge::default(), count * each, GFP_KERNEL)?,
            each,
            head: 0,
            len: 0,
        })
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn clear(&mut self) {
        self.len = 0;
    }

    /// # Errors
    ///
    /// `EINVAL` for too many pieces, `ENOMEM` for too many receives.
    pub(crate) fn push(&mut self, id: u64, given: &[ffi::ib_sge]) -> Result {
        if given.len() > self.each {
            return Err(EINVAL);
        }
        if self.len >= self.ids.len() {
            return Err(ENOMEM);
        }
        let at = wrapped(self.head + self.len, self.ids.len());
        if let Some(slot) = self.ids.get_mut(at) {
            *slot = (id, given.len());
        }
        let from = at * self.each;
        if let Some(room) = self.pieces.get_mut(from..from + given.len()) {
            room.copy_from_slice(given);
        }
        self.len += 1;
        Ok(())
    }

    /// Takes the oldest, and copies its pieces to `pieces`. It stays in the queue if it has no room
    /// for `least` bytes.
    pub(crate) fn pop(&mut self, pieces: &mut Pieces, least: u64) -> Option<Receive> {
        if self.len == 0 {
            return None;
        }
        let &(id, count) = self.ids.get(self.head)?;
        let from = self.head * self.each;
        pieces.clear();
        pieces.add(self.pieces.get(from..from + count).unwrap_or(&[]));
        if least > 0 && pieces.len() < least {
            return None;
        }
        self.drop_oldest();
        Some(Receive { id })
    }

    /// Takes the oldest, which nothing will be copied to.
    pub(crate) fn flush(&mut self) -> Option<Receive> {
        let &(id, _) = self.ids.get(self.head).filter(|_| self.len > 0)?;
        self.drop_oldest();
        Some(Receive { id })
    }

    fn drop_oldest(&mut self) {
        self.head = wrapped(self.head + 1, self.ids.len());
        self.len -= 1;
    }
}

struct Shared {
    receives: Receives,
    /// The consumer gets an event, once, when there are fewer. 0: no event.
    limit: u32,
}

/// A shared receive queue.
#[pin_data]
pub(crate) struct Srq {
    ib: *mut ffi::ib_srq,
    pub(crate) max: u32,
    pub(crate) each: u32,
    #[pin]
    shared: SpinLockIrq<Shared>,
    #[pin]
    task: Task<Srq>,
}

// SAFETY: `ib` is handed back to ib_core, which locks for itself.
unsafe impl Send for Srq {}
// SAFETY: `shared` has a lock; C locks the task.
unsafe impl Sync for Srq {}

// SAFETY: The offset is the field's. `stop` stops the task, when no code uses the queue.
unsafe impl Run for Srq {
    const TASK_OFFSET: usize = offset_of!(Srq, task);

    fn run(&self) {
        // SAFETY: `ib` lives until `stop`.
        unsafe { ffi::rlo_event_srq(self.ib, event::SRQ_LIMIT_REACHED) }
    }
}

impl Srq {
    pub(crate) fn new(ib: *mut ffi::ib_srq, max: u32, each: u32) -> Result<Arc<Self>> {
        let receives = Receives::new(max, each)?;
        Arc::pin_init(
            pin_init!(Self {
                ib,
                max,
                each,
                shared <- new_spinlock_irq!(Shared { receives, limit: 0 }),
                task <- Task::new(),
            }),
            GFP_KERNEL,
        )
    }

    pub(crate) fn push(&self, id: u64, given: &[ffi::ib_sge]) -> Result {
        self.shared.lock().receives.push(id, given)
    }

    /// As [`Receives::pop`].
    pub(crate) fn pop(&self, pieces: &mut Pieces, least: u64) -> Option<Receive> {
        let mut shared = self.shared.lock();
        let taken = shared.receives.pop(pieces, least);
        if shared.limit > 0 && shared.receives.len() < shared.limit as usize {
            shared.limit = 0;
            self.task.kick();
        }
        taken
    }

    pub(crate) fn limit(&self) -> u32 {
        self.shared.lock().limit
    }

    /// Arms the limit event. If the queue is below the limit already, the event is raised at once.
    pub(crate) fn set_limit(&self, limit: u32) -> Result {
        if limit > self.max {
            return Err(EINVAL);
        }
        let mut shared = self.shared.lock();
        shared.limit = limit;
        if limit > 0 && shared.receives.len() < limit as usize {
            shared.limit = 0;
            self.task.kick();
        }
        Ok(())
    }

    /// Sleeps until no event is being raised.
    pub(crate) fn stop(&self) {
        // The ring is freed here, which may sleep, and not with the last reference.
        if let Ok(mut receives) = Receives::new(0, 0) {
            let mut shared = self.shared.lock();
            shared.limit = 0;
            core::mem::swap(&mut shared.receives, &mut receives);
            drop(shared);
        }
        self.task.stop();
    }
}
