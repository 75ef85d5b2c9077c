// SPDX-License-Identifier: GPL-2.0

//! Completions of a queue pair, handed to the endpoint.
//!
//! Contexts: a worker of the completion queue, without locks.

use crate::{
    alarm::Alarm,
    ffi,
    link::Origin,
    prelude::*,
    verbs::qp::{
        Completions,
        Done, //
    },
};

/// Completions of a link, on their way to the endpoint.
pub(crate) struct Callbacks;

impl Completions for Callbacks {
    unsafe fn received(context: *mut c_void, done: Done) {
        let _noio = NoIo::new();
        // SAFETY: The context is the origin of a link that still exists.
        let origin: &Origin = unsafe { &*context.cast() };
        origin.sock.drive(|inner| {
            if inner.is_current(origin.generation) {
                inner.on_received(&origin.sock, done);
            }
        });
    }

    unsafe fn sent(context: *mut c_void, done: Done) {
        let _noio = NoIo::new();
        // SAFETY: The context is the origin of a link that still exists.
        let origin: &Origin = unsafe { &*context.cast() };
        origin.sock.drive(|inner| {
            if inner.is_current(origin.generation) {
                inner.on_sent(&origin.sock, done);
            }
        });
    }

    unsafe fn communicated(context: *mut c_void) {
        // SAFETY: The context is the origin of a link that still exists.
        let origin: &Origin = unsafe { &*context.cast() };
        // A driver may call this with its locks held.
        origin.sock.set_alarm(Alarm::Notify, 0);
    }
}

/// While this lives, the task's allocations start no I/O to make room.
///
/// Storage over RDMA needs the workqueue that delivers completions. A reclaim here that
/// waits for pages to be written there would wait for itself.
struct NoIo {
    before: c_uint,
    /// It belongs to the task that has made it.
    _task: core::marker::PhantomData<*mut ()>,
}

impl NoIo {
    fn new() -> Self {
        Self {
            // SAFETY: A flag of the current task.
            before: unsafe { ffi::sdp_noio_begin() },
            _task: core::marker::PhantomData,
        }
    }
}

impl Drop for NoIo {
    fn drop(&mut self) {
        // SAFETY: In the task of `new`, and the last of these first: they are only
        // made on the stack of a callback.
        unsafe { ffi::sdp_noio_end(self.before) };
    }
}
