// SPDX-License-Identifier: GPL-2.0

//! Memory for threads that completions and handlers of connections wait for.
//!
//! C header: [`include/linux/sched/mm.h`](srctree/include/linux/sched/mm.h)
//!
//! Storage over RDMA needs the workqueues that deliver completions and events of connections.
//! A reclaim that waits for pages to be written there would wait for itself, if it runs in
//! such a worker, or in a task that has a lock which such a worker waits for.
//!
//! Contexts: process context.

use crate::{
    ffi,
    prelude::*, //
};
use core::marker::PhantomData;

/// While this lives, the task's allocations start no I/O to make room.
///
/// It is made before the lock is taken for which it is meant.
pub(crate) type NoIo = Scope<false>;

/// While this lives, the task's allocations may use the memory that is kept for those that free some,
/// and start no reclaim. For single small ones that have one try.
pub(crate) type Reserves = Scope<true>;

/// Flags of the task for its allocations, restored when this is dropped.
///
/// Values are on the stack alone, so the later one of two is dropped first.
pub(crate) struct Scope<const RESERVES: bool> {
    before: c_uint,
    /// It belongs to the task that has made it.
    _task: PhantomData<*mut ()>,
}

impl<const RESERVES: bool> Scope<RESERVES> {
    pub(crate) fn new() -> Self {
        Self {
            // SAFETY: A flag of the current task.
            before: unsafe {
                if RESERVES {
                    ffi::rust_reserves_begin()
                } else {
                    ffi::rust_noio_begin()
                }
            },
            _task: PhantomData,
        }
    }
}

impl<const RESERVES: bool> Drop for Scope<RESERVES> {
    fn drop(&mut self) {
        // SAFETY: In the task of `new`, and the last of these first: they are only made on the
        // stack.
        unsafe {
            if RESERVES {
                ffi::rust_reserves_end(self.before);
            } else {
                ffi::rust_noio_end(self.before);
            }
        }
    }
}
