// SPDX-License-Identifier: GPL-2.0

//! Waiting: wait queues. `task` has what a task that waits asks about itself.
//!
//! C header: [`include/linux/wait.h`](srctree/include/linux/wait.h)
//!
//! An entry is on the stack of the task that waits, so it is lent to a closure: no caller can
//! forget to take it off. (The kernel crate's condition variables release a lock of a certain
//! kind while they sleep, and forget a wake-up from before.)
//!
//! Contexts: process context; a sleep holds no spinlock. Wake-ups: any context. Locks: the lock of
//! the queue, inside.

use crate::{
    calls::calls,
    ffi,
    net::sk::Sk,
    prelude::*, //
};
use core::marker::PhantomData;
use kernel::types::Opaque;

/// Jiffies that never pass.
pub(crate) const FOREVER: isize = isize::MAX;

/// A wait queue.
#[pin_data]
pub(crate) struct WaitQueue {
    #[pin]
    queue: Opaque<ffi::core::wait_queue_head>,
}

// SAFETY: A wait queue belongs to no thread.
unsafe impl Send for WaitQueue {}
// SAFETY: C changes a wait queue with the lock that is in it.
unsafe impl Sync for WaitQueue {}

impl WaitQueue {
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            // SAFETY: The place is initialised by the C call and never moves.
            queue <- Opaque::ffi_init(|slot| unsafe { ffi::rust_net_waitqueue_init(slot) }),
        })
    }

    /// Wakes all tasks. Any context.
    pub(crate) fn wake(&self) {
        // SAFETY: Initialised by `new`.
        unsafe { ffi::rust_net_waitqueue_wake(self.queue.get()) };
    }

    /// The place to wait in.
    pub(crate) fn place(&self) -> Place<'_> {
        // INVARIANT: It is there as long as it is borrowed.
        Place {
            head: self.queue.get(),
            exclusive: false,
            _queue: PhantomData,
        }
    }
}

impl Sk {
    /// The queue of the socket's file. A wake-up for one task goes to one that is `exclusive`.
    ///
    /// # Safety
    ///
    /// The socket has a file, which stays for `'a`.
    pub(crate) unsafe fn place<'a>(&self, exclusive: bool) -> Place<'a> {
        // INVARIANT: The queue stays as long as the file, by the caller's promise.
        Place {
            // SAFETY: The socket has a file, by the caller's promise.
            head: unsafe { ffi::rust_net_sk_sleep(self.sk()) },
            exclusive,
            _queue: PhantomData,
        }
    }
}

/// A wait queue to wait in.
///
/// # Invariants
///
/// `head` is initialised, and stays for `'a`.
#[derive(Clone, Copy)]
pub(crate) struct Place<'a> {
    head: *mut ffi::core::wait_queue_head,
    exclusive: bool,
    _queue: PhantomData<&'a ()>,
}

impl Place<'_> {
    /// Calls `f` with the current task in the queue: a wake-up from the beginning of the call
    /// on ends the next sleep.
    pub(crate) fn enter<R>(self, f: impl FnOnce(&Sleeper<'_>) -> R) -> R {
        let entry = Opaque::uninit();
        // SAFETY: The queue is there, by the invariant. The entry is taken off below.
        unsafe { ffi::rust_net_waitqueue_begin(self.head, entry.get(), self.exclusive) };
        // INVARIANT: Queued just above.
        let result = f(&Sleeper(&entry));
        // SAFETY: Queued above.
        unsafe { ffi::rust_net_waitqueue_end(self.head, entry.get()) };
        result
    }
}

/// The current task in a wait queue.
///
/// # Invariants
///
/// The entry is queued, and the current task's.
pub(crate) struct Sleeper<'a>(&'a Opaque<ffi::core::wait_queue_entry>);

impl Sleeper<'_> {
    /// Sleeps until a wake-up, a signal, or `timeo` jiffies have passed. Returns those left.
    pub(crate) fn sleep(&self, timeo: isize) -> isize {
        self.sleep_in(true, timeo)
    }

    /// Sleeps until a wake-up, or until `timeo` jiffies have passed. Returns those left.
    pub(crate) fn sleep_timed(&self, timeo: isize) -> isize {
        self.sleep_in(false, timeo)
    }

    /// Sleeps until a wake-up or a signal that kills.
    pub(crate) fn sleep_killable(&self) {
        self.sleep_deeply();
    }

    /// Sleeps until a wake-up.
    pub(crate) fn sleep_uninterruptible(&self) {
        self.sleep_in(false, FOREVER);
    }
}

// SAFETY: The entry is queued and the current task's, by the invariant. Both functions put the task
// to sleep.
calls! { unsafe {
    impl Sleeper<'_>, |me| me.0.get();
    fn sleep_in(interruptible: bool, timeo: isize) -> isize = rust_net_waitqueue_sleep;
    fn sleep_deeply() -> isize = rust_net_waitqueue_sleep_killable;
}}
