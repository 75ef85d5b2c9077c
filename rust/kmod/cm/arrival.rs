// SPDX-License-Identifier: GPL-2.0

//! A connection that came in, until a program has accepted it.
//!
//! Contexts: data, under the endpoint's lock.

use crate::{
    cm::request::Request,
    handle::SockRef,
    prelude::*, //
};

/// See the module. Nothing of it is set on the active side.
#[derive(Default)]
pub(crate) struct Arrival {
    /// The request that created the socket, until it is answered.
    pub(super) request: Option<KBox<Request>>,
    /// The listener that an unaccepted connection came from.
    pub(super) listener: Option<SockRef>,
    /// Number of its Hello at that listener.
    pub(super) number: u64,
    /// Not accepted yet: the connection gets no more memory than it needs.
    pub(super) unaccepted: bool,
    /// Established, but hidden from accept() until its first bytes arrive
    /// (TCP_DEFER_ACCEPT).
    pub(super) deferred: bool,
}

impl Arrival {
    /// Whether the request is not answered yet.
    pub(crate) fn has_request(&self) -> bool {
        self.request.is_some()
    }

    /// Whether the listener does not have the connection yet.
    pub(crate) fn is_pending(&self) -> bool {
        self.listener.is_some()
    }

    /// Whether the connection is established, and the listener waits for its first bytes.
    pub(crate) fn is_deferred(&self) -> bool {
        self.deferred
    }

    /// Whether no program has accepted the connection.
    pub(crate) fn is_unaccepted(&self) -> bool {
        self.unaccepted
    }

    pub(crate) fn on_accepted(&mut self) {
        self.unaccepted = false;
    }

    /// The connection has ended. Returns the listener that does not get it any more.
    pub(crate) fn leave(&mut self) -> Option<SockRef> {
        self.deferred = false;
        self.listener.take()
    }
}
