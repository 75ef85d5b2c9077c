// SPDX-License-Identifier: GPL-2.0

//! A socket that its program has closed.
//!
//! Contexts: data, under the endpoint's lock.

use kernel::time::{
    Instant,
    Monotonic, //
};

/// See the module.
#[derive(Default)]
pub(crate) struct Orphan {
    closed: bool,
    /// Time of close(), if the connection lives on; then it is counted in
    /// `Stats::orphans`.
    pub(super) since: Option<Instant<Monotonic>>,
    /// The socket was closed, and another one has its addresses.
    pub(super) aside: bool,
}

impl Orphan {
    /// The program closes the socket, or no program gets it.
    pub(crate) fn close(&mut self) {
        self.closed = true;
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Milliseconds that the connection has lived on.
    pub(super) fn age(&self) -> i64 {
        self.since.map_or(0, |since| since.elapsed().as_millis())
    }
}
