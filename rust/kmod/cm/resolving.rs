// SPDX-License-Identifier: GPL-2.0

//! How often connect() has asked for the way to the peer, and asks now.
//!
//! Contexts: data, under the endpoint's lock.

use crate::cm::resolver::Resolver;

/// See the module.
#[derive(Default)]
pub(crate) struct Resolving {
    /// The identifier that asks.
    pub(super) resolver: Option<Resolver>,
    /// Tries that address resolution has used.
    pub(super) tries: u32,
    /// Hellos that the peer rejected because it knows the queue pair from an old
    /// connection.
    pub(super) stale: u32,
}

impl Resolving {
    /// A connect() begins.
    pub(crate) fn begin(&mut self) {
        self.stale = 0;
    }

    /// The identifier that asks, if there is one: dropped outside of the endpoint's lock, because that waits
    /// for a handler that takes it.
    pub(crate) fn stop(&mut self) -> Option<Resolver> {
        self.resolver.take()
    }
}
