// SPDX-License-Identifier: GPL-2.0

//! Reads in flight of memory that the peer has offered.
//!
//! A Read goes either into the pinned memory of a waiting reader, or into a buffer of
//! the kernel. Reads complete in order.
//!
//! Contexts and locks: under the endpoint's lock, in process context.

use crate::{
    engine::types::SinkId,
    fifo::Fifo,
    prelude::*,
    verbs::{
        buffer::RxBuffer,
        region::Region, //
    },
};

/// The target of a Read.
pub(crate) enum Target {
    /// The reader's memory, behind the bytes there.
    Program,
    Kernel(RxBuffer),
}

/// One Read.
pub(crate) struct Read {
    pub(crate) target: Target,
    pub(crate) len: u32,
}

/// The state of an offer to be written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Offer {
    /// The peer may write.
    Open(SinkId),
    /// The key is being invalidated, or goes with the queue pair.
    Ending,
    /// The key is invalid.
    Ended,
}

/// The Reads of a connection, and the memory of the waiting reader.
pub(crate) struct Sink {
    reads: Fifo<Read>,
    /// The memory of the waiting reader.
    pub(crate) region: Option<Region>,
    /// Bytes of it for which Reads were started.
    pub(crate) started: u32,
    /// The memory was offered to the peer.
    offer: Option<Offer>,
}

impl Sink {
    pub(crate) const fn new() -> Self {
        Self {
            reads: Fifo::new(),
            region: None,
            started: 0,
            offer: None,
        }
    }

    /// Reads go to `region` from here on.
    pub(crate) fn begin(&mut self, region: Region) {
        self.region = Some(region);
        self.started = 0;
        self.offer = None;
    }

    /// The peer may write to `region` from here on.
    pub(crate) fn begin_offer(&mut self, id: SinkId, region: Region) {
        self.begin(region);
        self.offer = Some(Offer::Open(id));
    }

    /// The offer has ended; with `over` its key ends with the queue pair. Returns the
    /// key that must be invalidated.
    pub(crate) fn on_offer_over(&mut self, id: SinkId, over: bool) -> Option<u32> {
        if self.offer != Some(Offer::Open(id)) {
            return None;
        }
        self.offer = Some(Offer::Ending);
        let key = self.region.as_ref().map(Region::key);
        key.filter(|_| !over)
    }

    /// The invalidation of `key` has completed.
    pub(crate) fn on_revoked(&mut self, key: u32) {
        let region = self.region.as_mut().filter(|region| region.key() == key);
        if let (Some(Offer::Ending), Some(region)) = (self.offer, region) {
            region.set_settled(false);
            self.offer = Some(Offer::Ended);
        }
    }

    /// Number of keys that the peer knows and that must still be invalidated.
    pub(crate) fn unrevoked(&self) -> usize {
        usize::from(matches!(self.offer, Some(Offer::Open(_))))
    }

    /// The memory that was offered, if the peer can no longer write to it.
    pub(crate) fn take_offered(&mut self) -> Option<Region> {
        if self.offer != Some(Offer::Ended) {
            return None;
        }
        self.offer = None;
        self.region.take()
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.reads.is_empty()
    }

    /// Makes room for one more, so that `push` can't fail.
    pub(crate) fn reserve(&mut self) -> Result {
        self.reads.reserve(GFP_KERNEL)
    }

    pub(crate) fn push(&mut self, read: Read) -> Result {
        self.reads.push(read, GFP_KERNEL)
    }

    /// The oldest Read has completed.
    pub(crate) fn pop(&mut self) -> Option<Read> {
        self.reads.pop()
    }

    /// Bytes in the reader's memory for which no Read was started.
    pub(crate) fn room(&self) -> u32 {
        if self.offer.is_some() {
            return 0;
        }
        let len = self.region.as_ref().map_or(0, |r| r.pages().len());
        u32::try_from(len)
            .unwrap_or(u32::MAX)
            .saturating_sub(self.started)
    }

    /// Number of regions in use.
    pub(crate) fn pins(&self) -> u32 {
        u32::from(self.region.is_some())
    }
}
