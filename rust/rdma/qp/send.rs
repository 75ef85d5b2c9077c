// SPDX-License-Identifier: GPL-2.0

//! The send queue of a queue pair.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)
//!
//! Messages and RDMA Writes gather pieces ([`Gather`]); RDMA Reads go into a buffer or a lent region.
//!
//! Contexts: posting may sleep for memory; taking does not. No locks: the owner of the queue pair
//! calls them.

use super::{
    Qp,
    Work, //
};
use crate::{
    prelude::*,
    rdma::{
        cq::Sent,
        lend::Lent,
        mapping::Sge,
        page::Page,
        receive::Buffer,
        send::{
            Remote,
            PIECES, //
        },
    },
};
use core::mem::MaybeUninit;

/// The pieces that the next request gathers.
///
/// # Invariants
///
/// The first `used` pieces are initialised. Each is mapped for the device to read, or is under the
/// key of a region. The queue pair keeps it until the request with the next number has completed.
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
    /// flight may be sent with these bytes; [`Capacity`](super::Capacity) has the number of
    /// slots.
    pub(crate) fn header(&mut self, bytes: &[u8]) -> Result {
        let addr = self.qp.sends.header(bytes)?;
        let lkey = self.qp.domain().local_dma_lkey();
        // INVARIANT: the slots are in the queue pair, and stay mapped.
        self.push(Sge::new(lkey, addr, bytes.len() as u32))
    }

    /// Adds `len` bytes from `offset` on of `page`. EINVAL where they do not lie in it.
    pub(crate) fn fragment(&mut self, page: Page, offset: u32, len: u32) -> Result {
        let device = self.qp.domain.tenant().device();
        let sends = &mut self.qp.sends;
        let addr = sends.fragment(device, page, offset as usize, len as usize)?;
        self.frags = self.frags.saturating_add(1);
        let lkey = self.qp.domain().local_dma_lkey();
        // INVARIANT: the queue pair keeps the page.
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
        self.qp.sends.record(result, with, self.frags, false)
    }
}

impl<C, T, S, const SLOT: usize> Drop for Gather<'_, C, T, S, SLOT> {
    fn drop(&mut self) {
        if !self.posted && self.frags > 0 {
            // Its pages belong to no request.
            self.qp.sends.set_broken();
        }
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
        self.sends.reserve_buffer()
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
                self.sends.keep_buffer(buffer)?;
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
            let buffer = buffer && self.sends.next() == last;
            self.sends.record(result, with, 0, buffer)?;
        }
        Ok(())
    }

    /// Takes what the owner keeps with the oldest request, and its buffer if it is a Read into one.
    /// None for a failure, or for a completion of another queue pair.
    pub(crate) fn take_sent(&mut self, sent: Sent) -> Option<(S, Option<Buffer<T>>)> {
        if !sent.is_of(self.id) {
            return None;
        }
        if !sent.done.ok {
            self.sends.set_broken();
        }
        // A completion tells of one request, and of all before it. One that was dropped leaves
        // its request here, and so the oldest has always completed.
        self.sends.take()
    }

    /// Number of requests that have not completed.
    pub(crate) fn sends_in_flight(&self) -> usize {
        self.sends.in_flight()
    }

    /// Frees what only further requests would need.
    pub(crate) fn shrink_sends(&mut self) {
        self.sends.shrink();
    }
}
