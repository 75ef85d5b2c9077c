// SPDX-License-Identifier: GPL-2.0

//! Numbers by which a queue pair and what was lent to it are known, when another one may have its
//! place in memory.
//!
//! Contexts: any. Locks: none.

use kernel::sync::atomic::{
    Atomic,
    Relaxed, //
};

static NEXT: Atomic<u64> = Atomic::new(1);

/// A number that no other call returns; never 0.
pub(super) fn unique() -> u64 {
    NEXT.fetch_add(1, Relaxed)
}
