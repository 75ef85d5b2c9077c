// SPDX-License-Identifier: GPL-2.0

//! The current task, as a system call on a socket has to know it: its signals, and its end.
//!
//! Contexts: process context. Locks: none.

use crate::{
    ffi,
    prelude::*, //
};

/// The error with which a pending signal ends a call that has `timeo` jiffies left.
pub(crate) fn interruption(timeo: isize) -> Option<Error> {
    let interrupted = kernel::current!().signal_pending();
    // SAFETY: Plain computation.
    interrupted.then(|| Error::from_errno(unsafe { ffi::rust_net_sock_intr_errno(timeo) }))
}

/// Whether a task that polls should stop: others wait for the processor, or a signal for it.
pub(crate) fn must_yield() -> bool {
    // SAFETY: A plain question about the current task.
    unsafe { ffi::rust_net_must_yield() }
}

/// Whether the current task is being killed.
pub(crate) fn is_killed() -> bool {
    // SAFETY: A plain question about the current task.
    unsafe { ffi::rust_net_killed() }
}

/// Whether the current task exits.
pub(crate) fn is_exiting() -> bool {
    // SAFETY: A plain question about the current task.
    unsafe { ffi::rust_net_exiting() }
}
