// SPDX-License-Identifier: GPL-2.0

//! The memory of sockets that peers and programs fill, counted for net.sdp.mem.
//!
//! Contexts: any. No locks.

use crate::{
    ffi,
    prelude::*,
    sk::Sk, //
};
use kernel::{
    error::to_result,
    page::PAGE_SIZE, //
};

/// The need for memory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    /// A connection can do without it.
    Growth,
    /// The connection cannot go on without it: the limit does not apply.
    Least,
}

/// Pages charged to the protocol.
///
/// # Invariants
///
/// `pages` were charged, and are uncharged once.
pub(crate) struct Charge {
    pages: u32,
}

fn pages_of(bytes: u32) -> u32 {
    bytes.div_ceil(PAGE_SIZE as u32)
}

impl Charge {
    pub(crate) const fn none() -> Self {
        // INVARIANT: nothing was counted.
        Self { pages: 0 }
    }

    /// Charges `pages` for `sk`; ENOBUFS beyond the limit.
    ///
    /// # Safety
    ///
    /// `sk` is a valid socket.
    pub(crate) unsafe fn new(sk: *const ffi::sock, pages: u32, need: Need) -> Result<Self> {
        // SAFETY: `sk` is a valid socket, by the caller's promise.
        let counted = unsafe { ffi::sdp_memory_charge(sk, pages, need == Need::Least) };
        to_result(counted.min(0))?;
        // INVARIANT: just counted.
        Ok(Self {
            pages: counted.unsigned_abs(),
        })
    }

    /// Charges the pages that `bytes` for `sk` need in addition; ENOBUFS beyond the
    /// limit.
    pub(crate) fn reach(&mut self, sk: &Sk, bytes: u32, need: Need) -> Result {
        let more = pages_of(bytes).saturating_sub(self.pages);
        if more > 0 {
            // SAFETY: A socket of ours.
            let mut further = unsafe { Self::new(sk.sk(), more, need) }?;
            // INVARIANT: `further` gives nothing back any more.
            self.pages = self
                .pages
                .saturating_add(core::mem::take(&mut further.pages));
        }
        Ok(())
    }

    /// Uncharges the pages that `bytes` do not need.
    pub(crate) fn trim(&mut self, bytes: u32) {
        let less = self.pages.saturating_sub(pages_of(bytes));
        if less > 0 {
            // INVARIANT: `self` does not give them back again.
            self.pages = self.pages.wrapping_sub(less);
            drop(Self { pages: less });
        }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        if self.pages > 0 {
            // SAFETY: Counted, by the invariant.
            unsafe { ffi::sdp_memory_uncharge(self.pages) };
        }
    }
}

impl Sk {
    /// Whether the window must not grow, because all sockets together hold too much.
    pub(crate) fn is_memory_tight(&self) -> bool {
        // SAFETY: A socket of ours.
        unsafe { ffi::sdp_memory_is_tight(self.sk()) }
    }

    /// Whether connections get only the memory that they need to go on.
    pub(crate) fn is_memory_out(&self) -> bool {
        // SAFETY: A socket of ours.
        unsafe { ffi::sdp_memory_is_out(self.sk()) }
    }
}
