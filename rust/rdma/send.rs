// SPDX-License-Identifier: GPL-2.0

//! Sends: what requests of a send queue have been given, until they have completed.
//! [`qp::send`](super::qp::send) posts them.
//!
//! Messages and RDMA Writes gather pieces: a header, parts of pages, parts of lent regions
//! ([`lend`](super::lend)). RDMA Reads go into a buffer or a lent region. The queue pair keeps all
//! of that here. Requests complete in order, so the oldest one is the one that a completion has
//! ended.
//!
//! Once a request could not be posted, or has failed, no other one is posted and nothing is given
//! back: the queue pair keeps the rest until it is gone.
//!
//! Contexts: recording may sleep for memory; taking does not. No locks: the owner of the queue pair
//! calls them.

use crate::{
    fifo::Fifo,
    prelude::*,
    rdma::{
        device::Device,
        lend::Lendings,
        mapping::{
            Direction,
            Mapping, //
        },
        page::Page,
        receive::Buffer,
        slots::SlotRing, //
    },
};
use kernel::{
    page::PAGE_SIZE,
    sync::Arc, //
};

/// Maximum number of pieces of a message or Write.
pub(crate) const PIECES: usize = 9;

/// Largest page that is mapped whole. A page from another owner may be far larger.
const SHARED_MAX: usize = PAGE_SIZE << 3;

/// Memory of the peer, by a key of the peer's.
#[derive(Clone, Copy)]
pub(crate) struct Remote {
    pub(crate) key: u32,
    pub(crate) addr: u64,
}

/// A request that is posted, and what its owner keeps with it.
struct Posted<S> {
    with: S,
    /// Number of elements of `flying` that it gathers from.
    frags: u8,
    /// The oldest of `buffers` comes back for its completion.
    buffer: bool,
}

/// A part of a page that a request gathers.
///
/// # Invariants
///
/// The page is kept, mapped, by this or by a later element of the same page. Requests complete in
/// order, so the last of them is there as long as any.
struct Flying {
    mapping: Option<Mapping<Page>>,
    /// Where in the page the mapping begins.
    start: usize,
}

impl Flying {
    /// The mapping, if it covers these bytes of `page` as well.
    fn share(&mut self, page: &Page, offset: usize, len: usize) -> Option<Mapping<Page>> {
        let offset = offset.checked_sub(self.start)?;
        let mapping = self.mapping.as_ref()?;
        let covered = mapping.memory().as_ptr() == page.as_ptr() && mapping.covers(offset, len);
        // INVARIANT: the caller's element of the page is the next one.
        covered.then(|| self.mapping.take())?
    }
}

/// The send queue of a queue pair. Dropped behind the queue pair.
///
/// # Invariants
///
/// If not `broken`, the elements of `flying` and `buffers` belong to the requests in `posted`,
/// in their order.
pub(super) struct Sends<T, S> {
    posted: Fifo<Posted<S>>,
    /// Number of requests that were ever posted.
    begun: u64,
    flying: Fifo<Flying>,
    buffers: Fifo<Buffer<T>>,
    headers: SlotRing,
    pub(super) lent: Lendings,
    /// A request could not be posted, or has failed.
    broken: bool,
}

impl<T, S> Sends<T, S> {
    pub(super) fn new(headers: SlotRing) -> Self {
        // INVARIANT: there are none.
        Self {
            posted: Fifo::new(),
            begun: 0,
            flying: Fifo::new(),
            buffers: Fifo::new(),
            headers,
            lent: Lendings::new(),
            broken: false,
        }
    }

    /// The number of the youngest request that has completed; all before it have, too.
    pub(super) fn done(&self) -> u64 {
        self.begun.wrapping_sub(self.posted.len() as u64)
    }

    /// The number of the next request.
    pub(super) fn next(&self) -> u64 {
        self.begun.wrapping_add(1)
    }

    /// Makes room to remember one more request. May sleep.
    pub(super) fn reserve(&mut self) -> Result {
        if self.broken {
            return Err(EPIPE);
        }
        self.posted.reserve(GFP_KERNEL)
    }

    /// As `reserve`, for `count` requests that gather `frags` parts of pages together. A broken queue
    /// needs none.
    pub(super) fn reserve_for(&mut self, count: usize, frags: usize) -> Result {
        if self.broken {
            return Ok(());
        }
        self.posted.reserve_for(count, GFP_KERNEL)?;
        self.flying.reserve_for(frags, GFP_KERNEL)
    }

    /// Makes room for one more buffer. May sleep.
    pub(super) fn reserve_buffer(&mut self) -> Result {
        self.buffers.reserve(GFP_KERNEL)
    }

    /// Keeps the buffer that the next requests read into, until the last of them has completed.
    pub(super) fn keep_buffer(&mut self, buffer: Buffer<T>) -> Result {
        self.buffers.push(buffer, GFP_KERNEL)
    }

    /// Puts a header into the next slot; returns its address for a piece. A message of the same slot
    /// that is still in flight may be sent with these bytes.
    pub(super) fn header(&mut self, bytes: &[u8]) -> Result<u64> {
        self.headers.put(bytes)
    }

    /// Keeps `page` until the next request has completed, and maps it so that the device can read
    /// `bytes` bytes from `at` on; returns their address for a piece. EINVAL where they do not lie
    /// in it. May sleep for memory.
    ///
    /// A small page is mapped whole, for all requests that gather from it while one of them is in
    /// flight.
    pub(super) fn fragment(
        &mut self,
        device: &Arc<Device>,
        page: Page,
        at: usize,
        bytes: usize,
    ) -> Result<u64> {
        self.flying.reserve(GFP_KERNEL)?;
        let shared = self
            .flying
            .back_mut()
            .and_then(|last| Some((last.start, last.share(&page, at, bytes)?)));
        let (start, mapping) = match shared {
            Some((start, mapping)) => {
                // Bytes that were written since it was mapped.
                mapping.sync_for_device(at.wrapping_sub(start), bytes);
                (start, mapping)
            }
            None => {
                let size = page.size();
                let (start, mapped) = if size <= SHARED_MAX {
                    (0, size)
                } else {
                    (at, bytes)
                };
                let mapping = Mapping::new(device, page, start, mapped, Direction::ToDevice)?;
                if !mapping.covers(at.wrapping_sub(start), bytes) {
                    return Err(EINVAL);
                }
                (start, mapping)
            }
        };
        let addr = mapping.addr().wrapping_add(at.wrapping_sub(start) as u64);
        let mapping = Some(mapping);
        // INVARIANT: it is behind the element that had the mapping. Room was reserved, so
        // that it is not dropped here.
        let flying = Flying { mapping, start };
        self.flying.push(flying, GFP_KERNEL)?;
        Ok(addr)
    }

    /// Records a request that was posted, or that was not; there is room. It gathers from the
    /// youngest `frags` parts of pages. With `buffer` the oldest buffer comes back for its completion.
    pub(super) fn record(&mut self, result: Result, with: S, frags: u8, buffer: bool) -> Result {
        if result.is_ok() {
            self.begun = self.next();
            let posted = Posted {
                with,
                frags,
                buffer,
            };
            let _ = self.posted.push(posted, GFP_KERNEL);
        } else {
            self.broken = true;
        }
        result
    }

    /// As `record`, of a request without memory of its own.
    pub(super) fn record_plain(&mut self, result: Result, with: S) -> Result {
        self.record(result, with, 0, false)
    }

    /// Nothing is posted or given back from here on.
    pub(super) fn set_broken(&mut self) {
        self.broken = true;
    }

    /// Takes what the owner keeps with the oldest request, which has completed, and its buffer if it
    /// is a Read into one. None if the queue is broken.
    pub(super) fn take(&mut self) -> Option<(S, Option<Buffer<T>>)> {
        if self.broken {
            return None;
        }
        let posted = self.posted.pop()?;
        for _ in 0..posted.frags {
            drop(self.flying.pop());
        }
        let buffer = posted.buffer.then(|| self.buffers.pop()).flatten();
        Some((posted.with, buffer))
    }

    /// Number of requests that have not completed.
    pub(super) fn in_flight(&self) -> usize {
        self.posted.len()
    }

    /// Frees what only further requests would need.
    pub(super) fn shrink(&mut self) {
        self.posted.shrink();
        self.flying.shrink();
        self.buffers.shrink();
        self.lent.shrink();
    }
}
