// SPDX-License-Identifier: GPL-2.0

//! A listening socket: the connections that its program has not accepted yet, and the Hellos that
//! wait for room in its backlog.
//!
//! A Hello without an answer is repeated after more than a second. If it is forgotten meanwhile, it finds
//! room only if there is some at that moment, and all peers of a burst repeat theirs at the same
//! moment. So the listener keeps some, and answers one whenever there is room.
//!
//! Locks: under the endpoint's lock.

use crate::{
    fifo::Fifo,
    handle::SockRef,
    net::sk::Sk,
    prelude::*, //
};

/// Maximum number of Hellos that wait for room: as many as TCP keeps at least (tcp_max_syn_backlog).
const HELD_MAX: usize = 128;

/// The fate of a Hello.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Room {
    /// It is answered.
    Now,
    /// It waits for room.
    Later,
    /// It is left to the peer's retry.
    Never,
}

/// State of a listening socket.
pub(crate) struct Listener {
    pub(crate) backlog: u32,
    /// Connections between Hello and establishment.
    pub(crate) pending: u32,
    /// Hellos taken so far.
    arrivals: u64,
    /// Established ones in the order of their Hellos.
    ready: Fifo<(u64, SockRef)>,
    /// The sockets of Hellos that wait for room, in their order. They do not count as pending.
    held: Fifo<SockRef>,
    /// Keeps the service id listening on every device.
    _service: crate::devices::Service,
}

impl Listener {
    pub(crate) fn new(backlog: u32, service: crate::devices::Service) -> Self {
        Self {
            backlog,
            pending: 0,
            arrivals: 0,
            ready: Fifo::new(),
            held: Fifo::new(),
            _service: service,
        }
    }

    /// Whether the backlog admits one more. It has room for one more than its number, as with TCP.
    fn has_room(&self) -> bool {
        let ready = u32::try_from(self.ready.len()).unwrap_or(u32::MAX);
        ready.saturating_add(self.pending) <= self.backlog
    }

    /// A Hello has come. Those that have waited are answered before it.
    pub(crate) fn admit(&mut self) -> Room {
        if self.held.is_empty() && self.has_room() {
            self.pending = self.pending.saturating_add(1);
            return Room::Now;
        }
        if self.held.len() < HELD_MAX {
            return Room::Later;
        }
        Room::Never
    }

    /// The Hello of `sock` waits for room.
    pub(crate) fn hold(&mut self, sock: SockRef) -> Result {
        self.held.push(sock, GFP_KERNEL)
    }

    /// The next Hello that waits, if there is room for it now.
    pub(crate) fn take_held(&mut self) -> Option<SockRef> {
        if !self.has_room() {
            return None;
        }
        let sock = self.held.pop()?;
        self.pending = self.pending.saturating_add(1);
        Some(sock)
    }

    /// The Hello of `sock` does not wait any more. It may have been taken already.
    pub(crate) fn forget_held(&mut self, sock: &Sk) {
        let is_it = |at: &usize| {
            let held = self.held.get(*at);
            held.is_some_and(|held| core::ptr::eq(held.as_sk(), sock))
        };
        if let Some(at) = (0..self.held.len()).find(is_it) {
            self.held.remove(at);
        }
    }

    /// A connection that was pending has ended.
    pub(crate) fn lose_pending(&mut self) {
        self.pending = self.pending.saturating_sub(1);
    }

    /// The number of a Hello that has just come.
    pub(crate) fn next_arrival(&mut self) -> u64 {
        self.arrivals = self.arrivals.wrapping_add(1);
        self.arrivals
    }

    /// Number of connections that wait for accept().
    pub(crate) fn ready(&self) -> usize {
        self.ready.len()
    }

    /// The connection of the Hello with that number is established. The CM
    /// works on several at a time, so they may come here out of order.
    pub(crate) fn push_ready(&mut self, arrival: u64, sock: SockRef) -> Result {
        self.ready.push((arrival, sock), GFP_KERNEL)?;
        let mut at = self.ready.len().saturating_sub(1);
        while let Some(before) = at.checked_sub(1) {
            if self.ready.get(before).is_none_or(|(n, _)| *n < arrival) {
                break;
            }
            self.ready.swap(before, at);
            at = before;
        }
        Ok(())
    }

    /// The next connection to be accepted.
    pub(crate) fn take_ready(&mut self) -> Option<SockRef> {
        self.ready.pop().map(|(_, sock)| sock)
    }

    /// Any Hello that waits, of a listener that ends.
    pub(crate) fn take_waiting(&mut self) -> Option<SockRef> {
        self.held.pop()
    }
}
