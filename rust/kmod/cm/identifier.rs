// SPDX-License-Identifier: GPL-2.0

//! A CM identifier of a connection.

use crate::{
    cm::ticket::Ticket,
    ffi, //
};
use core::ptr::NonNull;

/// A CM identifier of ours.
///
/// # Invariants
///
/// `id` is valid and nobody else destroys it; the ticket is its context.
pub(crate) struct CmId {
    id: NonNull<ffi::ib_cm_id>,
    ticket: Ticket,
}

// SAFETY: CM identifiers may be used from any thread.
unsafe impl Send for CmId {}

impl CmId {
    /// # Safety
    ///
    /// `id` is valid and handed over, and `ticket` is its context.
    pub(crate) unsafe fn from_raw(id: NonNull<ffi::ib_cm_id>, ticket: Ticket) -> Self {
        // INVARIANT: by the caller's promise.
        Self { id, ticket }
    }

    /// Whether the peer needs no further message.
    pub(crate) fn is_parted(&self) -> bool {
        self.ticket.is_parted()
    }

    pub(crate) fn as_ptr(&self) -> *mut ffi::ib_cm_id {
        self.id.as_ptr()
    }
}

impl Drop for CmId {
    fn drop(&mut self) {
        // SAFETY: Valid by the invariant. The call waits for a running handler, except
        // a handler for an unanswered message. That is why the context is a ticket.
        unsafe { ffi::ib_destroy_cm_id(self.id.as_ptr()) };
    }
}
