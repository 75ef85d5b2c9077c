// SPDX-License-Identifier: GPL-2.0

//! A request of a peer, until it is answered. [`super::answer`] answers it.
//!
//! Locks: under the endpoint's lock, or taken out of it.

use crate::{
    cm::identifier::CmId,
    devices::{
        Lease,
        Leasing, //
    },
    engine::wire::hello::Hello,
    handle::SockRef,
    prelude::*,
    rdma::cm::PeerReads, //
};
use kernel::{
    sync::Arc,
    time::{
        Instant,
        Monotonic, //
    },
};

/// Maximum time without memory for an answer. The MRA asks for a minute.
const PATIENCE_MS: i64 = 10_000;

/// A request that has not been answered.
///
/// Field order is destruction order: an identifier goes before its device may.
pub(crate) struct Request {
    /// Dropping it rejects the peer. The link owns it while a link is being made.
    pub(super) cm: Option<CmId>,
    pub(super) lease: Option<Lease>,
    pub(super) device: Arc<Leasing>,
    pub(super) listener: SockRef,
    pub(super) arrival: u64,
    pub(super) hello: Hello,
    pub(super) reads: PeerReads,
    pub(super) since: Instant<Monotonic>,
    /// It waits for room in the backlog, in which it does not count yet.
    pub(super) held: bool,
}

impl Request {
    /// The backlog has room for the request, and counts it.
    pub(super) fn admit(&mut self) {
        self.held = false;
        self.since = Instant::now();
        if let Some(cm) = self.cm.as_ref() {
            // An error would mean that the peer has gone already.
            let _ = cm.ask_for_patience();
        }
    }

    /// Whether another try may succeed in a moment.
    pub(super) fn may_try_again(&self, error: Error) -> bool {
        let temporary = error == ENOMEM || error == ENOBUFS || error == EAGAIN;
        temporary && self.since.elapsed().as_millis() < PATIENCE_MS && !self.device.is_leaving()
    }
}
