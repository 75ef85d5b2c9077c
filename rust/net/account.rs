// SPDX-License-Identifier: GPL-2.0

//! The memory of sockets that peers and programs fill, counted against the limits of their
//! protocol.
//!
//! C header: [`include/net/proto_memory.h`](srctree/include/net/proto_memory.h)
//!
//! Contexts: any. No locks.

use crate::{
    calls::calls,
    ffi,
    net::sk::Sk,
    prelude::*, //
};
use kernel::{
    error::to_result,
    page::PAGE_SIZE, //
};

/// The account of a protocol, which is the only one of the module.
pub(crate) struct Account(());

impl Account {
    /// Gives `proto` the account, or ENOMEM. Its limits are TCP's at the start, doubled.
    ///
    /// # Safety
    ///
    /// `proto` is static, and is registered later and as long as this lives. It is called once.
    pub(crate) unsafe fn of(proto: *mut ffi::proto) -> Result<Self> {
        // SAFETY: No other code has the protocol yet, by the caller's promise.
        to_result(unsafe { ffi::rust_net_memory_init(proto) })?;
        Ok(Self(()))
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        // SAFETY: Looks at counters. No socket is left.
        unsafe { ffi::rust_net_memory_exit() };
    }
}

/// The pages that all sockets hold.
pub(crate) fn pages() -> c_long {
    // SAFETY: Looks at counters.
    unsafe { ffi::rust_net_memory_pages() }
}

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
    pub(crate) fn new(sk: &Sk, pages: u32, need: Need) -> Result<Self> {
        let counted = sk.charge(pages, need);
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
            let mut further = Self::new(sk, more, need)?;
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
            unsafe { ffi::rust_net_memory_uncharge(self.pages) };
        }
    }
}

// SAFETY: `sk` is valid. Each function compares and changes counters of the protocol, and looks at
// the cgroup of the socket, which holds it.
calls! { unsafe {
    impl Sk, |me| me.sk();
    fn charge(pages: u32, need: Need) -> c_int = rust_net_memory_charge(
        pages: pages, least: need == Need::Least
    );
    /// Whether the window must not grow, because all sockets together hold too much.
    pub(crate) fn is_memory_tight() -> bool = rust_net_memory_is_tight;
    /// Whether connections get only the memory that they need to go on.
    pub(crate) fn is_memory_out() -> bool = rust_net_memory_is_out;
}}
