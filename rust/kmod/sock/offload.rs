// SPDX-License-Identifier: GPL-2.0

//! recvmsg(2) by a DMA engine (`net.sdp.copy_engine`): bytes of long reads go from receive
//! buffers into the reader's pinned pages while the reader looks for more.
//!
//! A part of the reader's memory is pinned at a time, the [`Span`]. Copies into it end in the
//! order of their bytes, and each gives its receive buffer back. When the last one has ended,
//! the bytes are delivered to the memory that the program has by then, as the bytes of an RDMA
//! Read are. A call does that before it sleeps for more bytes, and before it returns.
//!
//! A copy keeps the channel from being released, so nothing that a program can make last is
//! done while one is under way: its memory is looked up before the first one, and after the
//! last one.
//!
//! Contexts: process context, with `lock_sock`, which keeps other readers away.

use crate::{
    copier::{
        self,
        Flight,
        Run,
        RUNS, //
    },
    ffi,
    fifo::Fifo,
    net::msg::RecvMsg,
    object::Sock,
    prelude::*,
    rdma::{
        page::Page,
        pages::{
            Purpose,
            UserPages, //
        },
    }, //
};
use kernel::{
    error::to_result,
    page::PAGE_SIZE,
    sync::Arc, //
};

/// Maximum number of copies of a call at a time, each from one receive buffer.
const WINDOW: usize = 6;

/// Maximum number of bytes that are pinned at a time.
const PINNED: usize = 512 << 10;

/// The processor copies shorter runs: the ends of pages, for which an engine is no gain.
const LEAST_RUN: usize = 1 << 10;

/// Maximum length of a copy. Its first and its last page may be used in part.
const MOST: usize = (RUNS - 1) * PAGE_SIZE;

/// The memory of both ends of a copy.
struct Ends {
    _from: Page,
    _to: Arc<UserPages>,
}

/// One copy.
struct Underway {
    flight: Flight<Ends>,
    len: usize,
}

/// The pinned memory that the next bytes of the stream go to.
struct Span {
    pages: Arc<UserPages>,
    /// Bytes of it for which a copy has begun.
    begun: usize,
}

/// The copies of a call.
pub(super) struct Offload {
    span: Option<Span>,
    /// The copies that have not ended, in the order of their bytes. Their target is `span`.
    copies: Fifo<Underway>,
    /// Number of bytes of these copies, which are the next ones in the receive queue.
    ahead: usize,
    /// No more copies begin.
    off: bool,
}

impl Offload {
    /// `wanted`: the call takes the bytes, and wants to see them.
    pub(super) fn new(wanted: bool) -> Self {
        Self {
            span: None,
            copies: Fifo::new(),
            ahead: 0,
            off: !wanted,
        }
    }

    /// Bytes that have a copy, and are not delivered.
    pub(super) fn len(&self) -> usize {
        self.span.as_ref().map_or(0, |span| span.begun)
    }

    /// The ones of them that are still in the receive queue.
    pub(super) fn ahead(&self) -> u64 {
        self.ahead as u64
    }

    pub(super) fn is_empty(&self) -> bool {
        self.span.is_none()
    }

    /// Whether the engine should copy the next bytes: `queued` are there, and there is `room`
    /// for so many.
    pub(super) fn is_for(&self, queued: u64, room: usize) -> bool {
        if self.off || room == 0 {
            return false;
        }
        match &self.span {
            Some(span) => span.begun < span.pages.len(),
            None => queued.min(room as u64) >= copier::threshold() as u64,
        }
    }

    /// Pins memory for the next bytes, if it is a program's.
    fn pin(&mut self, msg: &RecvMsg, queued: u64, room: usize) -> Result {
        let (addr, there) = msg.segment();
        let queued = usize::try_from(queued).unwrap_or(usize::MAX);
        // More may come while the copies are under way.
        let want = queued.saturating_mul(2).min(PINNED).min(room).min(there);
        let pages = UserPages::pin(addr, want, Purpose::Write)?;
        self.span = Some(Span { pages, begun: 0 });
        Ok(())
    }

    /// Begins to copy up to `len` bytes, which lie in `page` from `offset` on.
    fn copy(&mut self, page: Page, offset: u32, len: usize) -> Result {
        let span = self.span.as_mut().ok_or(EINVAL)?;
        let left = span.pages.len().saturating_sub(span.begun);
        let len = len.min(left).min(MOST);
        if !page.holds(offset as usize, len) {
            return Err(EINVAL);
        }
        self.copies.reserve(GFP_KERNEL)?;
        let from = page.address().wrapping_add(offset as usize);
        let mut runs = [Run::default(); RUNS];
        let (mut count, mut done) = (0usize, 0usize);
        span.pages.each_stretch(span.begun, len, |start, part| {
            if let Some(run) = runs.get_mut(count) {
                run.from = from.wrapping_add(done).cast();
                run.to = start.cast();
                run.len = part;
                count = count.saturating_add(1);
                done = done.saturating_add(part);
            }
        });
        let runs = runs.get(..count).ok_or(EINVAL)?;
        if done != len {
            return Err(EINVAL);
        }
        let ends = Ends {
            _from: page,
            _to: span.pages.clone(),
        };
        // SAFETY: `ends` keeps the page, which holds the bytes, and the pinned pages, with
        // the ranges.
        let flight = unsafe { Flight::begin(runs, LEAST_RUN, ends) }?;
        // There is room, so this does not fail.
        self.copies.push(Underway { flight, len }, GFP_KERNEL)?;
        span.begun = span.begun.saturating_add(len);
        self.ahead = self.ahead.saturating_add(len);
        Ok(())
    }

    /// Whether a copy should be settled before another one begins.
    fn is_due(&self) -> bool {
        let over = |copy: &Underway| copy.flight.is_over();
        self.copies.len() >= WINDOW || self.copies.get(0).is_some_and(over)
    }
}

impl Sock {
    /// Begins to copy up to `room` of the `avail` bytes that lie in `page` from `offset` on;
    /// `queued` are in the receive queue. If that is impossible, the processor copies them.
    pub(super) fn offload(
        &self,
        offload: &mut Offload,
        msg: &RecvMsg,
        (page, offset, avail): (Page, u32, u32),
        queued: u64,
        room: usize,
    ) {
        let pinned = if offload.is_empty() {
            offload.pin(msg, queued, room)
        } else {
            Ok(())
        };
        let len = room.min(avail as usize);
        let begun = pinned.and_then(|()| offload.copy(page, offset, len));
        offload.off = begun.is_err();
        while offload.is_due() {
            self.end_oldest(offload);
        }
    }

    /// Waits for the oldest copy, and takes its bytes out of the queue. Returns `false` if there
    /// is none.
    fn end_oldest(&self, offload: &mut Offload) -> bool {
        let Some(mut copy) = offload.copies.pop() else {
            return false;
        };
        let moved = copy.flight.end().min(copy.len);
        let stats = &self.net().stats;
        stats.offloaded_bytes.add(moved as u32);
        let missed = copy.len.saturating_sub(moved);
        stats.offload_missed_bytes.add(missed as u32);
        offload.ahead = offload.ahead.saturating_sub(copy.len);
        self.consume(copy.len as u32);
        true
    }

    /// Waits for the oldest copy, or if there is none delivers all bytes. Returns the number of
    /// bytes delivered. If the program's memory has changed, some may be left, which are in the
    /// queue again, for the processor.
    pub(super) fn settle_offload(&self, offload: &mut Offload, msg: &mut RecvMsg) -> usize {
        if self.end_oldest(offload) {
            return 0;
        }
        let Some(span) = offload.span.take() else {
            return 0;
        };
        // With `lock_sock`, the bytes are of the connection that there is.
        let generation = self.look(|inner| inner.generation());
        let n = self.deliver(&span.pages, span.begun, generation).len;
        offload.off |= n < span.begun;
        msg.dest().advance(n);
        n
    }
}

/// The engine may be requested while this exists.
pub(crate) struct Engine(());

impl Engine {
    pub(crate) fn new() -> Result<Self> {
        // SAFETY: Called once, before any socket.
        to_result(unsafe { ffi::sdp_engine_init() })?;
        Ok(Self(()))
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // SAFETY: No socket is left, and no task can write to the knob.
        unsafe { ffi::sdp_engine_exit() }
    }
}
