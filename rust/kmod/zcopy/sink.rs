// SPDX-License-Identifier: GPL-2.0

//! Reads in flight of memory that the peer has offered.
//!
//! A Read goes either into the pinned memory of a waiting reader, or of one that was
//! promised the bytes, or into a buffer of the kernel. Reads complete in order.
//!
//! Contexts and locks: under the endpoint's lock, in process context.

use crate::{
    engine::types::SinkId,
    fifo::Fifo,
    prelude::*,
    rdma::lend::Lent,
    zcopy::promise::Promise, //
};

/// The state of an offer to be written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Offer {
    /// The peer may write.
    Open(SinkId),
    /// The peer is done, and the key has to be invalidated.
    Due,
    /// The key is being invalidated, or goes with the queue pair.
    Ending,
    /// The key is invalid.
    Ended,
}

/// The Reads of a connection, and the memory of the waiting reader.
pub(crate) struct Sink {
    /// Their lengths.
    reads: Fifo<u32>,
    /// The memory of the waiting reader, which the queue pair has.
    pub(crate) region: Option<Lent>,
    /// Bytes of it for which Reads were started.
    pub(crate) started: u32,
    /// The memory was offered to the peer.
    offer: Option<Offer>,
    /// Bytes of offers that a read has declined because it might not wait, which have not come yet.
    declined: u64,
    /// No reader waits: its call has returned.
    pub(crate) promise: Option<KBox<Promise>>,
}

impl Sink {
    pub(crate) const fn new() -> Self {
        Self {
            reads: Fifo::new(),
            region: None,
            started: 0,
            offer: None,
            declined: 0,
            promise: None,
        }
    }

    /// An offer of so many bytes is declined by a read that may not wait. The peer says how many they are.
    pub(super) fn decline(&mut self, len: u64) {
        self.declined = self.declined.saturating_add(len);
    }

    /// So many bytes have come. Returns the number of those that were declined.
    pub(crate) fn come(&mut self, len: u32) -> u32 {
        let declined = len.min(u32::try_from(self.declined).unwrap_or(u32::MAX));
        self.declined = self.declined.saturating_sub(declined.into());
        declined
    }

    /// Reads go to `region` from here on.
    pub(crate) fn begin(&mut self, region: Lent) {
        self.region = Some(region);
        self.started = 0;
        self.offer = None;
    }

    /// The peer may write to `region` from here on.
    pub(crate) fn begin_offer(&mut self, id: SinkId, region: Lent) {
        self.begin(region);
        self.offer = Some(Offer::Open(id));
    }

    /// The offer has ended; with `over` its key ends with the queue pair.
    pub(crate) fn on_offer_over(&mut self, id: SinkId, over: bool) {
        if self.offer == Some(Offer::Open(id)) {
            self.offer = Some(if over { Offer::Ending } else { Offer::Due });
        }
    }

    /// The key that has to be invalidated.
    pub(crate) fn due(&self) -> Option<u32> {
        let region = self.region.as_ref();
        region
            .filter(|_| self.offer == Some(Offer::Due))
            .map(Lent::key)
    }

    /// It is being invalidated.
    pub(crate) fn on_revoking(&mut self) {
        self.offer = Some(Offer::Ending);
    }

    /// The invalidation of `key` has completed.
    pub(crate) fn on_revoked(&mut self, key: u32) {
        let is_it = self.region.as_ref().is_some_and(|r| r.key() == key);
        if is_it && self.offer == Some(Offer::Ending) {
            self.offer = Some(Offer::Ended);
        }
    }

    /// Number of keys that the peer knows and that must still be invalidated.
    pub(crate) fn unrevoked(&self) -> usize {
        usize::from(matches!(self.offer, Some(Offer::Open(_) | Offer::Due)))
    }

    /// Whether memory was offered to which the peer can no longer write.
    pub(crate) fn is_offer_ended(&self) -> bool {
        self.offer == Some(Offer::Ended)
    }

    /// The memory that was offered is taken back.
    pub(crate) fn end_offer(&mut self) {
        self.offer = None;
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.reads.is_empty()
    }

    /// Makes room for one more, so that `push` can't fail.
    pub(crate) fn reserve(&mut self) -> Result {
        self.reserve_for(1)
    }

    /// Makes room for `count` more.
    pub(crate) fn reserve_for(&mut self, count: usize) -> Result {
        self.reads.reserve_for(count, GFP_KERNEL)
    }

    pub(crate) fn push(&mut self, len: u32) -> Result {
        self.reads.push(len, GFP_KERNEL)
    }

    /// The oldest Read has completed. Returns its length.
    pub(crate) fn pop(&mut self) -> Option<u32> {
        self.reads.pop()
    }

    /// Bytes in the reader's memory for which no Read was started.
    pub(crate) fn room(&self) -> u32 {
        if self.offer.is_some() {
            return 0;
        }
        let len = self.region.as_ref().map_or(0, Lent::len);
        len.saturating_sub(self.started)
    }

    /// No further Read goes to the reader's memory.
    pub(crate) fn stop(&mut self) {
        self.started = self.region.as_ref().map_or(0, Lent::len);
    }

    /// Number of regions in use.
    pub(crate) fn pins(&self) -> u32 {
        u32::from(self.region.is_some())
    }
}
