// SPDX-License-Identifier: GPL-2.0

//! Reads of memory that the peer has offered, on their way.
//!
//! A Read goes either into the pinned memory of a reader who waits, or into a
//! buffer of the kernel. Reads complete in order.
//!
//! Contexts and locks: under the endpoint's lock, in process context.

use crate::{
    fifo::Fifo,
    verbs::{
        buffer::RxBuffer,
        region::Region, //
    },
};
use kernel::prelude::*;

/// Where a Read goes.
pub(crate) enum Target {
    /// On behind what is in the reader's memory.
    Program,
    Kernel(RxBuffer),
}

/// One Read.
pub(crate) struct Read {
    pub(crate) target: Target,
    pub(crate) len: u32,
}

/// The Reads of a connection.
pub(crate) struct Sink {
    reads: Fifo<Read>,
    /// The memory of the reader who waits.
    pub(crate) region: Option<Region>,
    /// How much of it Reads were started for.
    pub(crate) started: u32,
}

impl Sink {
    pub(crate) const fn new() -> Self {
        Self {
            reads: Fifo::new(),
            region: None,
            started: 0,
        }
    }

    /// Reads go to `region` from here on.
    pub(crate) fn begin(&mut self, region: Region) {
        self.region = Some(region);
        self.started = 0;
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

    /// Room in the reader's memory that no Read was started for.
    pub(crate) fn room(&self) -> u32 {
        let len = self.region.as_ref().map_or(0, |r| r.pages().len());
        u32::try_from(len)
            .unwrap_or(u32::MAX)
            .saturating_sub(self.started)
    }

    /// Regions that are not free.
    pub(crate) fn pins(&self) -> u32 {
        u32::from(self.region.is_some())
    }
}
