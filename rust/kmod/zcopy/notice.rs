// SPDX-License-Identifier: GPL-2.0

//! Completion notices: they tell a sender that its memory is its own again, and whether
//! it was copied after all (MSG_ZEROCOPY, io_uring's SEND_ZC).
//!
//! The core counts the users of a notification and delivers it after the last
//! one: to the socket's error queue, or to the ring. That wakes others and may
//! drop the last reference to the socket, so it happens without the endpoint's
//! lock.

use crate::{
    ffi,
    object::Sock,
    prelude::*, //
};
use core::ptr::NonNull;

/// A reference to one notification.
///
/// # Invariants
///
/// `uarg` is valid and one of its references is this value's.
pub(crate) struct Notice {
    uarg: NonNull<ffi::core::ubuf_info>,
    /// Memory was lent for it.
    lent: bool,
    /// Bytes were copied.
    copied: bool,
    /// The next older one of a list.
    next: Option<KBox<Notice>>,
}

// SAFETY: Notifications may be completed from any context.
unsafe impl Send for Notice {}

impl Notice {
    /// The notification that the call requests, if it does: MSG_ZEROCOPY on a socket
    /// with SO_ZEROCOPY, or a notification of io_uring. With `lock_sock`.
    ///
    /// # Safety
    ///
    /// `msg` is the caller's message, and the caller holds `lock_sock`.
    pub(crate) unsafe fn asked(
        sock: &Sock,
        msg: *mut ffi::core::msghdr,
        len: usize,
    ) -> Result<Option<KBox<Self>>> {
        let place = KBox::new_uninit(GFP_KERNEL)?;
        let uarg = loop {
            // SAFETY: The caller has promised the message, and to hold `lock_sock`.
            let uarg = unsafe { ffi::sdp_notice_begin(sock.sk(), msg.cast(), len) };
            match kernel::error::from_err_ptr(uarg) {
                // The notification charges the user for the memory.
                Err(e) if e == ENOBUFS && sock.evict_for_user() => {}
                uarg => break uarg?,
            }
        };
        Ok(NonNull::new(uarg.cast()).map(|uarg| {
            // INVARIANT: The call has taken or made a reference.
            place.write(Self {
                uarg,
                lent: false,
                copied: false,
                next: None,
            })
        }))
    }

    /// Another reference, for memory that is lent.
    pub(crate) fn part(&self) -> Result<KBox<Self>> {
        let place = KBox::new_uninit(GFP_KERNEL)?;
        // SAFETY: Valid by the invariant.
        unsafe { ffi::sdp_notice_get(self.uarg.as_ptr().cast()) };
        // INVARIANT: The reference taken above.
        Ok(place.write(Self {
            uarg: self.uarg,
            lent: true,
            copied: false,
            next: None,
        }))
    }

    pub(crate) fn set_copied(&mut self) {
        self.copied = true;
    }

    /// Nothing was sent, so there is nothing to report.
    pub(crate) fn abort(self: KBox<Self>) {
        // SAFETY: Valid by the invariant; the reference goes with it.
        unsafe { ffi::sdp_notice_abort(self.uarg.as_ptr().cast()) };
        core::mem::forget(KBox::into_inner(self));
    }
}

impl Drop for Notice {
    fn drop(&mut self) {
        // SAFETY: Valid by the invariant; this ends our reference.
        unsafe { ffi::sdp_notice_put(self.uarg.as_ptr().cast(), self.lent, self.copied) };
    }
}

/// Notices, delivered in their order when this is dropped: without the endpoint's lock.
#[derive(Default)]
pub(crate) struct Notices {
    newest: Option<KBox<Notice>>,
}

impl Notices {
    pub(crate) fn push(&mut self, mut notice: KBox<Notice>) {
        notice.next = self.newest.take();
        self.newest = Some(notice);
    }

    fn pop(&mut self) -> Option<KBox<Notice>> {
        let mut notice = self.newest.take()?;
        self.newest = notice.next.take();
        Some(notice)
    }

    /// Reverses the list, so that the oldest comes first.
    fn turn(&mut self) -> Self {
        let mut turned = Self::default();
        while let Some(notice) = self.pop() {
            turned.push(notice);
        }
        turned
    }

    /// Puts `later` behind these.
    pub(crate) fn append(&mut self, mut later: Self) {
        let mut turned = later.turn();
        while let Some(notice) = turned.pop() {
            self.push(notice);
        }
    }
}

impl Drop for Notices {
    fn drop(&mut self) {
        if self.newest.is_none() {
            return;
        }
        let mut turned = self.turn();
        // In a loop, so that drops do not nest.
        while let Some(notice) = turned.pop() {
            drop(notice);
        }
    }
}
