// SPDX-License-Identifier: GPL-2.0

//! Completion notices: they tell a sender that its memory is its own again, and whether
//! it was copied after all (MSG_ZEROCOPY, io_uring's SEND_ZC), or count for it
//! (SDP_BORROW, [`Loan`]).
//!
//! The core counts the users of a notification and delivers it after the last
//! one: to the socket's error queue, or to the ring. That wakes others and may
//! drop the last reference to the socket, so it happens without the endpoint's
//! lock.

use crate::{
    ffi,
    net::{
        msg::SendMsg,
        sk::Guard, //
    },
    prelude::*,
    zcopy::lender::{
        Loan,
        LoanId, //
    },
};
use core::ptr::NonNull;

/// A reference to one notification of the core.
///
/// # Invariants
///
/// `uarg` is valid and one of its references is this value's.
struct Notification {
    uarg: NonNull<ffi::core::ubuf_info>,
    /// Memory was lent for it.
    lent: bool,
    /// Bytes were copied.
    copied: bool,
}

// SAFETY: Notifications may be completed from any context.
unsafe impl Send for Notification {}

/// The way in which a program is told.
enum Way {
    Core(Notification),
    Count(Loan),
}

/// One notice.
pub(crate) struct Notice {
    way: Way,
    /// The next older one of a list.
    next: Option<KBox<Notice>>,
}

impl Notice {
    /// The notification that the call requests, if it does: MSG_ZEROCOPY on a socket
    /// with SO_ZEROCOPY, or a notification of io_uring. With `lock_sock`. If the user may lock
    /// no more memory, `evict` frees some and returns whether there was any.
    pub(crate) fn asked(
        lock: &Guard<'_>,
        msg: &mut SendMsg,
        len: usize,
        evict: impl Fn() -> bool,
    ) -> Result<Option<KBox<Self>>> {
        let place = KBox::new_uninit(GFP_KERNEL)?;
        let uarg = loop {
            // SAFETY: The message is the caller's, and `lock_sock` is held.
            let uarg = unsafe { ffi::sdp_notice_begin(lock.sk(), msg.as_ptr().cast(), len) };
            match kernel::error::from_err_ptr(uarg) {
                // The notification charges the user for the memory.
                Err(e) if e == ENOBUFS && evict() => {}
                uarg => break uarg?,
            }
        };
        Ok(NonNull::new(uarg.cast()).map(|uarg| {
            // INVARIANT: The call has taken or made a reference.
            let way = Way::Core(Notification {
                uarg,
                lent: false,
                copied: false,
            });
            place.write(Self { way, next: None })
        }))
    }

    /// A notice that counts.
    pub(crate) fn of_loan(loan: Loan) -> Result<KBox<Self>> {
        let way = Way::Count(loan);
        Ok(KBox::new(Self { way, next: None }, GFP_KERNEL)?)
    }

    /// Another reference, for memory that is lent.
    pub(crate) fn part(&self) -> Result<KBox<Self>> {
        let Way::Core(notification) = &self.way else {
            return Err(EINVAL);
        };
        let place = KBox::new_uninit(GFP_KERNEL)?;
        let uarg = notification.uarg;
        // SAFETY: Valid by the invariant.
        unsafe { ffi::sdp_notice_get(uarg.as_ptr().cast()) };
        // INVARIANT: The reference taken above.
        let way = Way::Core(Notification {
            uarg,
            lent: true,
            copied: false,
        });
        Ok(place.write(Self { way, next: None }))
    }

    pub(crate) fn set_copied(&mut self) {
        if let Way::Core(notification) = &mut self.way {
            notification.copied = true;
        }
    }

    /// Nothing was sent, so there is nothing to report.
    pub(crate) fn abort(self: KBox<Self>) {
        if let Way::Core(notification) = KBox::into_inner(self).way {
            // SAFETY: Valid by the invariant; the reference goes with it.
            unsafe { ffi::sdp_notice_abort(notification.uarg.as_ptr().cast()) };
            core::mem::forget(notification);
        }
    }

    /// The loan that it counts.
    pub(crate) fn loan(&mut self) -> Option<&mut Loan> {
        match &mut self.way {
            Way::Core(_) => None,
            Way::Count(loan) => Some(loan),
        }
    }

    /// The name of that loan.
    pub(crate) fn loan_id(&self) -> Option<LoanId> {
        match &self.way {
            Way::Core(_) => None,
            Way::Count(loan) => Some(loan.id()),
        }
    }
}

impl Drop for Notification {
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
    pub(crate) fn is_empty(&self) -> bool {
        self.newest.is_none()
    }

    pub(crate) fn push(&mut self, mut notice: KBox<Notice>) {
        notice.next = self.newest.take();
        self.newest = Some(notice);
    }

    fn pop(&mut self) -> Option<KBox<Notice>> {
        let mut notice = self.newest.take()?;
        self.newest = notice.next.take();
        Some(notice)
    }

    /// Counts the loans among them. The eventfds are signalled with the drop.
    pub(crate) fn count(&mut self) {
        let mut at = self.newest.as_mut();
        while let Some(notice) = at {
            if let Some(loan) = notice.loan() {
                loan.end();
            }
            at = notice.next.as_mut();
        }
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
