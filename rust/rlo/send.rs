// SPDX-License-Identifier: GPL-2.0

//! Posted sends, in the order in which they are executed and complete.
//!
//! Contexts: any, except creation.

use crate::{
    ffi,
    mr::{
        Mr,
        Registration, //
    },
    names::{
        flag,
        opcode,
        status, //
    },
    path::Ah,
    port::MAX_INLINE,
    prelude::*,
    receive::{
        self,
        Pieces, //
    }, //
};
use kernel::sync::Arc;

/// The fields that only some requests need.
#[derive(Clone, Default)]
pub(crate) enum Target {
    #[default]
    None,
    Region(Arc<Mr>, Registration),
    Datagram {
        ah: Arc<Ah>,
        qpn: u32,
        qkey: u32,
    },
}

/// A request without its pieces.
#[derive(Clone, Default)]
pub(crate) struct Head {
    pub(crate) id: u64,
    pub(crate) opcode: u32,
    pub(crate) flags: u32,
    /// Immediate data, or a key to invalidate.
    pub(crate) extra: u32,
    pub(crate) address: u64,
    pub(crate) key: u32,
    pub(crate) len: u64,
    pub(crate) target: Target,
}

impl Head {
    pub(crate) fn is_read(&self) -> bool {
        matches!(self.opcode, opcode::READ | opcode::READ_WITH_INV)
    }

    pub(crate) fn is_write(&self) -> bool {
        matches!(self.opcode, opcode::WRITE | opcode::WRITE_WITH_IMM)
    }

    pub(crate) fn is_local(&self) -> bool {
        matches!(self.opcode, opcode::LOCAL_INV | opcode::REG_MR)
    }

    /// Whether it consumes a receive of the peer.
    pub(crate) fn wants_receive(&self) -> bool {
        matches!(
            self.opcode,
            opcode::SEND | opcode::SEND_WITH_IMM | opcode::SEND_WITH_INV | opcode::WRITE_WITH_IMM
        )
    }

    pub(crate) fn has_immediate(&self) -> bool {
        matches!(self.opcode, opcode::SEND_WITH_IMM | opcode::WRITE_WITH_IMM)
    }

    pub(crate) fn is_inline(&self) -> bool {
        self.flags & flag::INLINE != 0
    }

    pub(crate) fn is_solicited(&self) -> bool {
        self.flags & flag::SOLICITED != 0
    }

    /// The opcode of its completion.
    fn completed_as(&self) -> u32 {
        match self.opcode {
            opcode::WRITE | opcode::WRITE_WITH_IMM => ffi::ib_wc_opcode_IB_WC_RDMA_WRITE,
            opcode::READ | opcode::READ_WITH_INV => ffi::ib_wc_opcode_IB_WC_RDMA_READ,
            opcode::LOCAL_INV => ffi::ib_wc_opcode_IB_WC_LOCAL_INV,
            opcode::REG_MR => ffi::ib_wc_opcode_IB_WC_REG_MR,
            _ => ffi::ib_wc_opcode_IB_WC_SEND,
        }
    }
}

/// A request in execution.
pub(crate) struct Request {
    pub(crate) head: Head,
    pieces: Pieces,
    inline: [u8; MAX_INLINE],
}

impl Request {
    pub(crate) fn new() -> Self {
        Self {
            head: Head::default(),
            pieces: Pieces::new(),
            inline: [0; MAX_INLINE],
        }
    }

    pub(crate) fn pieces(&self) -> &[ffi::ib_sge] {
        self.pieces.as_slice()
    }

    pub(crate) fn inline(&self) -> &[u8] {
        self.inline.get(..self.head.len as usize).unwrap_or(&[])
    }
}

#[derive(Default)]
struct Slot {
    head: Head,
    /// Number of pieces.
    count: u32,
    status: u32,
    /// The first of them.
    first: ffi::ib_sge,
    /// The time at which its completion may be seen, on the monotonic clock.
    due: u64,
}

/// A completion that is due.
pub(crate) struct Retired {
    pub(crate) id: u64,
    pub(crate) opcode: u32,
    pub(crate) status: u32,
    pub(crate) len: u64,
    pub(crate) signaled: bool,
}

/// A ring of requests, in this order: those that were executed and are not complete, the one in
/// execution, those that wait.
///
/// # Invariants
///
/// `ran + busy <= len <= slots.len()`.
pub(crate) struct Sends {
    slots: KVVec<Slot>,
    /// `more` for each slot: its pieces but the first.
    pieces: KVVec<ffi::ib_sge>,
    each: usize,
    more: usize,
    inline: KVVec<u8>,
    inline_each: usize,
    head: usize,
    ran: usize,
    busy: bool,
    len: usize,
    /// RDMA Reads among them.
    reads: u32,
    signal_all: bool,
}

impl Sends {
    pub(crate) fn new(count: u32, each: u32, inline: u32, signal_all: bool) -> Result<Self> {
        let count = count as usize;
        let mut slots = KVVec::with_capacity(count, GFP_KERNEL)?;
        for _ in 0..count {
            slots
                .push_within_capacity(Slot::default())
                .map_err(|_| ENOMEM)?;
        }
        let each = each as usize;
        let more = each.saturating_sub(1);
        Ok(Self {
            slots,
            pieces: KVVec::from_elem(ffi::ib_sge::default(), count * more, GFP_KERNEL)?,
            each,
            more,
            inline: KVVec::from_elem(0, count * inline as usize, GFP_KERNEL)?,
            inline_each: inline as usize,
            head: 0,
            ran: 0,
            busy: false,
            len: 0,
            reads: 0,
            signal_all,
        })
    }

    fn at(&self, index: usize) -> usize {
        receive::wrapped(self.head + index, self.slots.len())
    }

    pub(crate) fn reads(&self) -> u32 {
        self.reads
    }

    /// Whether requests wait.
    pub(crate) fn has_waiting(&self) -> bool {
        self.ran + usize::from(self.busy) < self.len
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.busy
    }

    /// # Errors
    ///
    /// `EINVAL` for too many pieces or too much inline data, `ENOMEM` for too many requests.
    ///
    /// # Safety
    ///
    /// Where the request is inline, the addresses of its pieces are the kernel's own, and valid.
    pub(crate) unsafe fn push(&mut self, mut head: Head, given: &[ffi::ib_sge]) -> Result {
        if given.len() > self.each {
            return Err(EINVAL);
        }
        if self.len >= self.slots.len() {
            return Err(ENOMEM);
        }
        head.len = given.iter().map(|sge| u64::from(sge.length)).sum();
        if head.len > 1 << 31 {
            return Err(EINVAL);
        }
        let at = self.at(self.len);
        let mut count = given.len() as u32;
        let mut first = ffi::ib_sge::default();
        if head.is_inline() {
            let from = at * self.inline_each;
            let room = self
                .inline
                .get_mut(from..from + self.inline_each)
                .unwrap_or(&mut []);
            if head.len > room.len() as u64 {
                return Err(EINVAL);
            }
            let mut done = 0;
            for sge in given {
                let len = sge.length as usize;
                if let Some(room) = room.get_mut(done..done + len) {
                    // SAFETY: The piece is the kernel's own and valid, by the caller's promise; the
                    // room is as long.
                    unsafe {
                        core::ptr::copy_nonoverlapping(
                            sge.addr as *const u8,
                            room.as_mut_ptr(),
                            len,
                        );
                    }
                }
                done += len;
            }
            count = 0;
        } else if let Some((one, others)) = given.split_first() {
            first = *one;
            let from = at * self.more;
            if let Some(room) = self.pieces.get_mut(from..from + others.len()) {
                room.copy_from_slice(others);
            }
        }
        self.reads += u32::from(head.is_read());
        if let Some(slot) = self.slots.get_mut(at) {
            *slot = Slot {
                head,
                count,
                status: status::SUCCESS,
                first,
                due: 0,
            };
        }
        self.len += 1;
        Ok(())
    }

    /// Copies the next request to `request`; it is in execution from now on. Returns false if there
    /// is none.
    pub(crate) fn fetch(&mut self, request: &mut Request) -> bool {
        if self.busy || self.ran >= self.len {
            return false;
        }
        let at = self.at(self.ran);
        let Some(slot) = self.slots.get_mut(at) else {
            return false;
        };
        // Fields with references are moved; the completion needs the others again.
        let target = core::mem::take(&mut slot.head.target);
        request.head = slot.head.clone();
        request.head.target = target;
        request.pieces.clear();
        if let Some(others) = (slot.count as usize).checked_sub(1) {
            request.pieces.add(&[slot.first]);
            let from = at * self.more;
            let others = self.pieces.get(from..from + others).unwrap_or(&[]);
            request.pieces.add(others);
        }
        if request.head.is_inline() {
            let (from, len) = (at * self.inline_each, request.head.len as usize);
            if let (Some(to), Some(from)) = (
                request.inline.get_mut(..len),
                self.inline.get(from..from + len),
            ) {
                to.copy_from_slice(from);
            }
        }
        self.busy = true;
        true
    }

    /// Ends the execution of the fetched request.
    pub(crate) fn finish(&mut self, status: u32, due: u64) {
        let at = self.at(self.ran);
        if let Some(slot) = self.slots.get_mut(at) {
            slot.status = status;
            slot.due = due;
        }
        self.busy = false;
        self.ran += 1;
    }

    /// Completes the waiting requests as flushed, and returns their number. Their references are
    /// dropped here; none is the last one to a large object.
    pub(crate) fn flush(&mut self) -> usize {
        let mut count = 0;
        while !self.busy && self.ran < self.len {
            let at = self.at(self.ran);
            if let Some(slot) = self.slots.get_mut(at) {
                slot.head.target = Target::None;
            }
            self.finish(status::WR_FLUSH_ERR, 0);
            count += 1;
        }
        count
    }

    /// The oldest completion that is due.
    pub(crate) fn retire(&mut self, now: u64) -> Option<Retired> {
        if self.ran == 0 {
            return None;
        }
        let slot = self.slots.get(self.head)?;
        if slot.due > now {
            return None;
        }
        let retired = Retired {
            id: slot.head.id,
            opcode: slot.head.completed_as(),
            status: slot.status,
            len: slot.head.len,
            signaled: self.signal_all
                || slot.head.flags & flag::SIGNALED != 0
                || slot.status != status::SUCCESS,
        };
        self.reads -= u32::from(slot.head.is_read());
        self.head = self.at(1);
        self.ran -= 1;
        self.len -= 1;
        Some(retired)
    }

    /// The due time of the oldest completion that is not due yet.
    pub(crate) fn next_due(&self) -> Option<u64> {
        if self.ran == 0 {
            return None;
        }
        Some(self.slots.get(self.head)?.due)
    }

    /// Removes all requests.
    pub(crate) fn clear(&mut self) {
        for slot in self.slots.iter_mut() {
            slot.head.target = Target::None;
        }
        self.ran = 0;
        self.len = 0;
        self.busy = false;
        self.reads = 0;
    }
}
