// SPDX-License-Identifier: GPL-2.0

//! Memory that a program lends by SDP_BORROW: the counter that tells the program what is
//! its own again, and the limits.
//!
//! A [`Lender`] counts for one connection and one program. Each borrowed run has a
//! [`Loan`], and its end counts. Runs end in their order, so the counter is the number of
//! the last one that has ended.
//!
//! Contexts and locks: numbers change under the endpoint's lock, or when a destroyed
//! link is dropped, by then the only owner of its runs. Dropping may sleep.

use super::tally::Tally;
use crate::{
    ffi,
    prelude::*, //
};
use core::ptr::NonNull;
use kernel::sync::{
    atomic::{
        Atomic,
        Relaxed, //
    },
    Arc, //
};

/// Limits of a program that has set none.
const WINDOW_BYTES: u32 = 4 << 20;
const WINDOW_RUNS: u32 = 16;

/// Length of a `struct sdp_borrow_counter`, and the offset of its last word.
const COUNTER_LEN: usize = core::mem::size_of::<ffi::sdp_borrow_counter>();
const GONE: usize = core::mem::offset_of!(ffi::sdp_borrow_counter, gone);

/// An eventfd of the program.
///
/// # Invariants
///
/// One reference to the context is this value's.
struct Event(NonNull<ffi::eventfd_ctx>);

// SAFETY: Eventfds may be signalled and released by any task.
unsafe impl Send for Event {}
// SAFETY: C signals an eventfd with the lock that is in it.
unsafe impl Sync for Event {}

impl Event {
    fn of(fd: c_int) -> Result<Self> {
        // SAFETY: The callee looks the descriptor up.
        let event = kernel::error::from_err_ptr(unsafe { ffi::sdp_eventfd_get(fd) })?;
        // INVARIANT: The call has taken a reference.
        Ok(Self(NonNull::new(event).ok_or(EBADF)?))
    }

    fn signal(&self) {
        // SAFETY: Valid by the invariant.
        unsafe { ffi::sdp_eventfd_signal(self.0.as_ptr()) };
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: The reference is ours by the invariant.
        unsafe { ffi::sdp_eventfd_put(self.0.as_ptr()) };
    }
}

/// Which runs a connection has of a program, and who is told of their ends.
pub(crate) struct Lender {
    tally: Tally,
    /// Bytes that are lent.
    bytes: Atomic<u32>,
    event: Option<Event>,
    /// close() waits for the ends.
    pub(crate) lingers: bool,
    /// Bytes from which on a stretch is borrowed.
    pub(crate) least: u32,
    window_bytes: u32,
    window_runs: u32,
}

impl Lender {
    /// The lender that the calling program asks for.
    pub(crate) fn new(asked: &ffi::sdp_borrow) -> Result<Arc<Self>> {
        let event = match asked.eventfd {
            -1 => None,
            fd => Some(Event::of(fd)?),
        };
        let or = |value, default| if value == 0 { default } else { value };
        Ok(Arc::new(
            Self {
                tally: Tally::new(asked.counter, COUNTER_LEN)?,
                bytes: Atomic::new(0),
                event,
                lingers: asked.flags & ffi::SDP_BORROW_NO_LINGER == 0,
                least: asked.least,
                window_bytes: or(asked.window_bytes, WINDOW_BYTES),
                window_runs: or(asked.window_runs, WINDOW_RUNS),
            },
            GFP_KERNEL,
        )?)
    }

    /// The address of the counter in the program.
    pub(crate) fn address(&self) -> u64 {
        self.tally.address()
    }

    /// Whether it lends memory of the calling program.
    pub(crate) fn is_of_caller(&self) -> bool {
        self.tally.is_of_caller()
    }

    pub(crate) fn issued(&self) -> u32 {
        self.tally.issued()
    }

    pub(crate) fn ended(&self) -> u32 {
        self.tally.ended()
    }

    /// Whether the run of that number and those before it have ended.
    pub(crate) fn has_ended(&self, id: u32) -> bool {
        self.tally.has_ended(id)
    }

    /// Whether there is a run of that number, ended or not.
    pub(crate) fn knows(&self, id: u32) -> bool {
        self.tally.knows(id)
    }

    /// Bytes that may still be borrowed.
    pub(crate) fn room(&self) -> u32 {
        let runs = self.issued().wrapping_sub(self.ended());
        if runs >= self.window_runs {
            return 0;
        }
        self.window_bytes.saturating_sub(self.bytes())
    }

    /// Bytes that are lent.
    pub(crate) fn bytes(&self) -> u32 {
        self.bytes.load(Relaxed)
    }

    /// Fills in what a program may know; all but the state of the connection.
    pub(crate) fn describe(&self, info: &mut ffi::sdp_borrow_info) {
        info.counter = self.address();
        info.issued = self.issued();
        info.ended = self.ended();
        info.bytes = self.bytes();
        info.least = self.least;
        info.window_bytes = self.window_bytes;
        info.window_runs = self.window_runs;
    }

    /// A run of `len` bytes of the connection `generation` begins. EBUSY if another
    /// connection of the socket was counted, with runs that may end later. Under the
    /// endpoint's lock.
    fn begin(&self, generation: u64, len: u32) -> Result<u32> {
        self.tally.is_for(generation)?;
        self.bytes.fetch_add(len, Relaxed);
        Ok(self.tally.begin(generation))
    }

    /// The run that has just begun does not take place. Under the same lock.
    fn undo(&self, len: u32) {
        self.bytes.fetch_sub(len, Relaxed);
        self.tally.undo();
    }

    /// The oldest run has ended.
    fn end(&self, len: u32) {
        self.bytes.fetch_sub(len, Relaxed);
        self.tally.end();
    }
}

impl Drop for Lender {
    fn drop(&mut self) {
        self.tally.set(GONE, 1);
        if let Some(event) = self.event.as_ref() {
            event.signal();
        }
    }
}

/// Names a borrowed run among the runs of all programs that have lent to a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct LoanId {
    /// The lender, by its address, which stays while it has runs.
    lender: usize,
    pub(crate) id: u32,
}

impl LoanId {
    /// Whether it is the run `last` of `lender` or one before it.
    pub(crate) fn is_up_to(self, lender: &Arc<Lender>, last: u32) -> bool {
        self.lender == (&raw const **lender).addr() && last.wrapping_sub(self.id) <= u32::MAX / 2
    }
}

/// One borrowed run: its end is counted once, by [`end`](Self::end) or when it is
/// dropped. The drop signals the eventfd, so it happens without the endpoint's lock.
pub(crate) struct Loan {
    lender: Arc<Lender>,
    id: u32,
    len: u32,
    /// The loan has begun, and its end is not counted yet.
    open: bool,
    /// The eventfd needs no signal.
    told: bool,
}

impl Loan {
    /// A loan of `len` bytes that has not begun.
    pub(crate) fn new(lender: Arc<Lender>, len: u32) -> Self {
        Self {
            lender,
            id: 0,
            len,
            open: false,
            told: true,
        }
    }

    pub(crate) fn id(&self) -> LoanId {
        LoanId {
            lender: (&raw const *self.lender).addr(),
            id: self.id,
        }
    }

    /// Begins it: see [`Lender::begin`].
    pub(crate) fn begin(&mut self, generation: u64) -> Result<u32> {
        self.id = self.lender.begin(generation, self.len)?;
        self.open = true;
        self.told = false;
        Ok(self.id)
    }

    /// Takes the begin back: no memory was lent.
    pub(crate) fn undo(&mut self) {
        if core::mem::take(&mut self.open) {
            self.lender.undo(self.len);
            self.told = true;
        }
    }

    /// The program gets its memory back.
    pub(crate) fn end(&mut self) {
        if core::mem::take(&mut self.open) {
            self.lender.end(self.len);
        }
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        self.end();
        if let Some(event) = self.lender.event.as_ref().filter(|_| !self.told) {
            event.signal();
        }
    }
}
