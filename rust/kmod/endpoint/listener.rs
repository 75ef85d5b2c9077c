// SPDX-License-Identifier: GPL-2.0

//! A listening socket: the connections that its program has not accepted yet.
//!
//! Locks: under the endpoint's lock.

use crate::{
    fifo::Fifo,
    object::SockRef,
    prelude::*, //
};

/// State of a listening socket.
pub(crate) struct Listener {
    pub(crate) backlog: u32,
    /// Connections between Hello and establishment.
    pub(crate) pending: u32,
    /// Hellos taken so far.
    arrivals: u64,
    /// Established ones in the order of their Hellos.
    ready: Fifo<(u64, SockRef)>,
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
            _service: service,
        }
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
}
