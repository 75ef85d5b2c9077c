// SPDX-License-Identifier: GPL-2.0

//! Sends: work requests with memory that is given away until they have completed.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)
//!
//! Messages and RDMA Writes gather pieces ([`Gather`]): a header, parts of pages, parts of lent
//! regions ([`lend`](super::lend)). RDMA Reads go into a buffer or a lent region. The queue pair
//! keeps all of that. Requests complete in order, so the oldest one is the one that a
//! [`Sent`] of a completion has ended.
//!
//! Once a request could not be posted, or has failed, no other one is posted and nothing is given
//! back: the queue pair keeps the rest until it is gone.
//!
//! Contexts: posting may sleep for memory; taking does not. No locks: the owner of the queue pair
//! calls them.

use crate::{
    fifo::Fifo,
    prelude::*,
    rdma::{
        cq::Sent,
        lend::{
            Lendings,
            Lent, //
        },
        mapping::{
            Direction,
            Mapping,
            Sge, //
        },
        page::Page,
        qp::{
            Qp,
            Work, //
        },
        receive::Buffer,
        slots::SlotRing, //
    },
};
use core::mem::MaybeUninit;
use kernel::page::PAGE_SIZE;

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
    pub(super) begun: u64,
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
    fn reserve_for(&mut self, count: usize, frags: usize) -> Result {
        if self.broken {
            return Ok(());
        }
        self.posted.reserve_for(count, GFP_KERNEL)?;
        self.flying.reserve_for(frags, GFP_KERNEL)
    }

    /// Records a request that was posted, or that was not; there is room.
    fn record(&mut self, result: Result, posted: Posted<S>) -> Result {
        if result.is_ok() {
            self.begun = self.next();
            let _ = self.posted.push(posted, GFP_KERNEL);
        } else {
            self.broken = true;
        }
        result
    }

    /// As `record`, of a request without memory of its own.
    pub(super) fn record_plain(&mut self, result: Result, with: S) -> Result {
        self.record(
            result,
            Posted {
                with,
                frags: 0,
                buffer: false,
            },
        )
    }
}

/// The pieces that the next request gathers.
///
/// # Invariants
///
/// The first `used` pieces are initialised. Each is mapped for the device to read, or is under the
/// key of a region. The queue pair keeps it until the request with the number [`Sends::next`] has
/// completed.
pub(crate) struct Gather<'a, C, T, S, const SLOT: usize> {
    qp: &'a mut Qp<C, T, S, SLOT>,
    pieces: [MaybeUninit<Sge>; PIECES],
    used: usize,
    frags: u8,
    posted: bool,
}

impl<C, T, S, const SLOT: usize> Gather<'_, C, T, S, SLOT> {
    /// Adds a piece, which the queue pair keeps.
    fn push(&mut self, piece: Sge) -> Result {
        let place = self.pieces.get_mut(self.used).ok_or(EMSGSIZE)?;
        place.write(piece);
        self.used = self.used.wrapping_add(1);
        Ok(())
    }

    /// Adds `bytes`, from the next slot for headers. A message of the same slot that is still in
    /// flight may be sent with these bytes; [`Capacity`](super::qp::Capacity) has the number of
    /// slots.
    pub(crate) fn header(&mut self, bytes: &[u8]) -> Result {
        let addr = self.qp.sends.headers.put(bytes)?;
        let lkey = self.qp.domain().local_dma_lkey();
        // INVARIANT: the slots are in the queue pair, and stay mapped.
        self.push(Sge::new(lkey, addr, bytes.len() as u32))
    }

    /// Adds `len` bytes from `offset` on of `page`. EINVAL where they do not lie in it.
    ///
    /// A small page is mapped whole, for all requests that gather from it while one
    /// of them is in flight.
    pub(crate) fn fragment(&mut self, page: Page, offset: u32, len: u32) -> Result {
        let lkey = self.qp.domain().local_dma_lkey();
        let sends = &mut self.qp.sends;
        sends.flying.reserve(GFP_KERNEL)?;
        let (at, bytes) = (offset as usize, len as usize);
        let shared = sends
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
                let device = self.qp.device();
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
        self.qp.sends.flying.push(flying, GFP_KERNEL)?;
        self.frags = self.frags.saturating_add(1);
        // INVARIANT: it is in `flying`.
        self.push(Sge::new(lkey, addr, len))
    }

    /// Adds `len` bytes from `offset` on of a lent region.
    pub(crate) fn lent(&mut self, lent: &Lent, offset: u32, len: u32) -> Result {
        let next = self.qp.sends.next();
        let piece = self.qp.sends.lent.piece(lent, offset, len, next)?;
        // INVARIANT: the region does not come back before that request has completed.
        self.push(piece)
    }

    /// Posts a SEND of the pieces. May sleep for memory.
    pub(crate) fn send(&mut self, with: S, solicited: bool) -> Result {
        self.post(Work::Send { solicited }, with)
    }

    /// Posts an RDMA Write of the pieces to the peer's memory. May sleep for memory.
    pub(crate) fn write(&mut self, with: S, to: Remote) -> Result {
        self.post(Work::Write(to), with)
    }

    /// Once. The pieces are many, so they stay where they were put.
    fn post(&mut self, work: Work<'_>, with: S) -> Result {
        if self.posted {
            return Err(EINVAL);
        }
        self.qp.sends.reserve()?;
        let pieces = self.pieces.get_mut(..self.used).unwrap_or(&mut []);
        // SAFETY: So many are initialised.
        let pieces = unsafe { &mut *(core::ptr::from_mut(pieces) as *mut [Sge]) };
        // SAFETY: By the invariant of the pieces. The request is the one with the next number.
        let result = unsafe { self.qp.post(work, pieces) };
        self.posted = true;
        let posted = Posted {
            with,
            frags: self.frags,
            buffer: false,
        };
        self.qp.sends.record(result, posted)
    }
}

impl<C, T, S, const SLOT: usize> Drop for Gather<'_, C, T, S, SLOT> {
    fn drop(&mut self) {
        // Its elements of `flying` belong to no request.
        self.qp.sends.broken |= !self.posted && self.frags > 0;
    }
}

/// The memory that a Read goes to.
enum Place<'a, T> {
    Buffer(Buffer<T>),
    Lent(&'a Lent, u32),
}

impl<C, T, S, const SLOT: usize> Qp<C, T, S, SLOT> {
    /// Makes room to remember `count` more requests that gather `frags` parts of pages together, so
    /// that they do not fail for want of memory. May sleep.
    pub(crate) fn reserve_sends(&mut self, count: usize, frags: usize) -> Result {
        self.sends.reserve_for(count, frags)
    }

    /// Makes room for `count` Reads, each with one of its last byte behind it, as
    /// [`reserve_sends`](Self::reserve_sends); one of them may be into a buffer.
    pub(crate) fn reserve_reads(&mut self, count: usize) -> Result {
        self.sends.reserve_for(count.saturating_mul(2), 0)?;
        self.sends.buffers.reserve(GFP_KERNEL)
    }

    /// Begins a message or a Write.
    pub(crate) fn gather(&mut self) -> Gather<'_, C, T, S, SLOT> {
        // INVARIANT: there are no pieces.
        Gather {
            qp: self,
            pieces: [const { MaybeUninit::uninit() }; PIECES],
            used: 0,
            frags: 0,
            posted: false,
        }
    }

    /// Posts an RDMA Write of zero bytes: the peer's transport acknowledges it, the
    /// peer's program never sees it.
    pub(crate) fn post_probe(&mut self, with: S) -> Result {
        self.gather().write(with, Remote { key: 0, addr: 0 })
    }

    /// Posts an RDMA Read of `len` bytes of the peer's memory into `buffer`, which comes back for
    /// the completion. `behind` is as for [`read_lent`](Self::read_lent).
    pub(crate) fn read_into(
        &mut self,
        buffer: Buffer<T>,
        from: Remote,
        len: u32,
        with: S,
        behind: Option<S>,
    ) -> Result {
        if buffer.memory.size() < len as usize {
            return Err(EMSGSIZE);
        }
        self.read(Place::Buffer(buffer), from, len, with, behind)
    }

    /// Posts an RDMA Read of `len` bytes of the peer's memory into a lent region, from `offset` on.
    ///
    /// With `behind`, its last byte is read once more, behind it, by a request of that name:
    /// without the queue pair that does not succeed. It is one packet, so no part of it can be
    /// missing, and its answer is no acknowledgement that could be late.
    pub(crate) fn read_lent(
        &mut self,
        (lent, offset): (&Lent, u32),
        from: Remote,
        len: u32,
        with: S,
        behind: Option<S>,
    ) -> Result {
        self.read(Place::Lent(lent, offset), from, len, with, behind)
    }

    fn read(
        &mut self,
        place: Place<'_, T>,
        from: Remote,
        len: u32,
        with: S,
        behind: Option<S>,
    ) -> Result {
        self.sends.reserve()?;
        let last = self.sends.next().wrapping_add(behind.is_some().into());
        let buffer = matches!(place, Place::Buffer(_));
        let into = match place {
            Place::Buffer(buffer) => {
                let piece = Sge::new(self.domain().local_dma_lkey(), buffer.memory.addr(), len);
                self.sends.buffers.push(buffer, GFP_KERNEL)?;
                piece
            }
            Place::Lent(lent, offset) => self.sends.lent.piece(lent, offset, len, last)?,
        };
        let proof = Remote {
            addr: from.addr.wrapping_add(len.saturating_sub(1).into()),
            ..from
        };
        for (into, from, with) in [(into, from, Some(with)), (into.last_byte(), proof, behind)] {
            let Some(with) = with else { break };
            let result = match self.sends.reserve() {
                // SAFETY: The piece is mapped for the device to write, or under the key of a
                // region. The buffer, or the region, is here until the last of these requests has
                // completed.
                Ok(()) => unsafe { self.post(Work::Read(from), &mut [into]) },
                failed => failed,
            };
            let posted = Posted {
                with,
                frags: 0,
                buffer: buffer && self.sends.next() == last,
            };
            self.sends.record(result, posted)?;
        }
        Ok(())
    }

    /// Takes what the owner keeps with the oldest request, and its buffer if it is a Read into one.
    /// None for a failure, or for a completion of another queue pair.
    pub(crate) fn take_sent(&mut self, sent: Sent) -> Option<(S, Option<Buffer<T>>)> {
        if !sent.is_of(self.id()) {
            return None;
        }
        let sends = &mut self.sends;
        sends.broken |= !sent.done.ok;
        if sends.broken {
            return None;
        }
        // A completion tells of one request, and of all before it. One that was dropped leaves
        // its request here, and so the oldest has always completed.
        let posted = sends.posted.pop()?;
        for _ in 0..posted.frags {
            drop(sends.flying.pop());
        }
        let buffer = posted.buffer.then(|| sends.buffers.pop()).flatten();
        Some((posted.with, buffer))
    }

    /// Number of requests that have not completed.
    pub(crate) fn sends_in_flight(&self) -> usize {
        self.sends.posted.len()
    }

    /// Frees what only further requests would need.
    pub(crate) fn shrink_sends(&mut self) {
        self.sends.posted.shrink();
        self.sends.flying.shrink();
        self.sends.buffers.shrink();
        self.sends.lent.shrink();
    }
}
