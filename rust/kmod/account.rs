// SPDX-License-Identifier: GPL-2.0

//! What sockets hold of memory that peers and programs fill: see net.sdp.mem.
//!
//! Contexts: any. No locks.

use crate::{
    ffi,
    sock::Sock, //
};
use kernel::{
    error::to_result,
    page::PAGE_SIZE,
    prelude::*, //
};

/// What memory is for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    /// A connection can do without it.
    Growth,
    /// It could not go on: the limit does not hold.
    Least,
}

/// Pages on the account of the protocol.
///
/// # Invariants
///
/// `pages` were counted, and are given back once.
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

    /// Counts `pages` that are held for `sk`; ENOBUFS beyond the limit.
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

    /// Counts what `bytes` for `sock` need beyond what was counted; ENOBUFS beyond the
    /// limit.
    pub(crate) fn reach(&mut self, sock: &Sock, bytes: u32, need: Need) -> Result {
        let more = pages_of(bytes).saturating_sub(self.pages);
        if more > 0 {
            // SAFETY: A socket of ours.
            let mut further = unsafe { Self::new(sock.sk(), more, need) }?;
            // INVARIANT: `further` gives nothing back any more.
            self.pages = self
                .pages
                .saturating_add(core::mem::take(&mut further.pages));
        }
        Ok(())
    }

    /// Gives back what `bytes` do not need.
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

impl Sock {
    /// Whether the window stays as it is, because all sockets together hold much.
    pub(crate) fn is_memory_tight(&self) -> bool {
        // SAFETY: A socket of ours.
        unsafe { ffi::sdp_memory_is_tight(self.sk()) }
    }

    /// Whether there is no more memory than a connection needs to go on.
    pub(crate) fn is_memory_out(&self) -> bool {
        // SAFETY: A socket of ours.
        unsafe { ffi::sdp_memory_is_out(self.sk()) }
    }
}
