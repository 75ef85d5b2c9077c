// SPDX-License-Identifier: GPL-2.0

//! Connections that have ended here while the peer may not know it yet.
//!
//! An aborted connection sends a DREQ, a datagram that may get lost. Nothing later
//! would tell the peer again, and a peer that only reads would wait for ever. So the CM
//! identifier stays, without queue pair and buffers, and the CM repeats the DREQ until
//! it is answered, until it has been tried often enough, or until `close_timeout_ms`
//! have passed. Meanwhile the device is leased and the socket referenced.
//!
//! This is the list of them; `link/reap.rs` adds and ends them.
//!
//! Locks: under the endpoint's lock; an identifier is destroyed without it.

use crate::{
    cm::identifier::CmId,
    devices::Lease,
    fifo::Fifo,
    link::Context,
    prelude::*, //
};
use kernel::{
    sync::Arc,
    time::{
        Delta,
        Instant,
        Monotonic, //
    },
};

/// Maximum number for one socket. Beyond it the oldest is dropped: its DREQ was
/// repeated most often.
const MOST: usize = 4;

/// See the module.
///
/// Field order is destruction order.
pub(crate) struct Parting {
    cm: CmId,
    lease: Lease,
    _origin: Arc<Context>,
    until: Option<Instant<Monotonic>>,
}

impl Parting {
    pub(crate) fn new(cm: CmId, lease: Lease, origin: Arc<Context>) -> Self {
        Self {
            cm,
            lease,
            _origin: origin,
            until: None,
        }
    }

    /// Milliseconds that it may still last.
    fn left(&self) -> u32 {
        if self.cm.is_parted() || self.lease.is_leaving() {
            return 0;
        }
        let left = self
            .until
            .map_or(0, |until| (until - Instant::now()).as_millis());
        u32::try_from(left.max(0)).unwrap_or(u32::MAX)
    }
}

/// The ended connections of one socket, the oldest first.
pub(crate) struct Partings(Fifo<Parting>);

/// The next step of the worker that ends them.
pub(crate) enum Next {
    /// Drops one that has ended.
    Drop(Parting),
    /// Looks again after so many milliseconds.
    Later(u32),
    /// Nothing: there is none.
    Nothing,
}

impl Partings {
    pub(crate) const fn new() -> Self {
        Self(Fifo::new())
    }

    /// Makes room for one more.
    pub(crate) fn reserve(&mut self) -> Result {
        self.0.reserve(GFP_KERNEL)
    }

    /// Adds one, for which there is room, for at most `limit` milliseconds. Returns the one that
    /// the caller must drop without the lock.
    pub(crate) fn push(&mut self, mut parting: Parting, limit: u32) -> Option<Parting> {
        parting.until = Some(Instant::now() + Delta::from_millis(limit.into()));
        let oldest = if self.0.len() >= MOST {
            self.0.pop()
        } else {
            None
        };
        // Room was reserved.
        let _ = self.0.push(parting, GFP_KERNEL);
        oldest
    }

    /// Takes out one that has ended, or says when to look again.
    pub(crate) fn take(&mut self) -> Next {
        let mut soonest = None;
        for at in 0..self.0.len() {
            match self.0.get(at).map_or(0, Parting::left) {
                0 => return self.0.remove(at).map_or(Next::Nothing, Next::Drop),
                left => soonest = Some(soonest.map_or(left, |soonest: u32| soonest.min(left))),
            }
        }
        soonest.map_or(Next::Nothing, Next::Later)
    }
}
