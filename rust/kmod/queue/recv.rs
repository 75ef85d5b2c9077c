// SPDX-License-Identifier: GPL-2.0

//! The bytes that have arrived and that no program has read yet, and the urgent byte.
//!
//! Locks: under the endpoint's lock.

use crate::{
    fifo::Fifo,
    prelude::*,
    queue::buffer::RxBuffer,
    rdma::{
        page::Page,
        receive::BUFFERS, //
    },
};

/// Where the bytes of a segment have come.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// In a posted buffer, and their message goes on in another one.
    Piece,
    /// In the last posted buffer that their message has filled.
    Last,
    /// In no posted buffer.
    Aside,
}

/// Received bytes that lie in one buffer.
pub(crate) struct Segment {
    pub(crate) buffer: RxBuffer,
    pub(crate) offset: u32,
    pub(crate) len: u32,
    pub(crate) kind: Kind,
}

impl Segment {
    /// Whether the link needs the buffer back.
    pub(crate) fn is_of_link(&self) -> bool {
        self.kind != Kind::Aside && self.buffer.mapping().is_some()
    }

    /// Whether the message is read when these bytes are.
    pub(crate) fn ends_message(&self) -> bool {
        self.kind == Kind::Last
    }

    /// Whether the bytes lie in the buffer.
    fn is_sound(&self) -> bool {
        let (offset, len) = (self.offset as usize, self.len as usize);
        self.buffer.part().holds(offset, len)
    }
}

/// The most segments of one message: the buffers of a receive, and a copy of what lies behind.
const SEGMENTS: usize = BUFFERS + 1;

/// The urgent byte, as TCP keeps it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Urgent {
    None,
    /// Announced by the peer, not received yet.
    Announced,
    /// Received, not read.
    Byte(u8),
    /// Read by MSG_OOB; the mark stays until the stream passes it.
    Read,
}

/// Bytes for the application, oldest first.
///
/// # Invariants
///
/// The bytes of each of `segments` lie in its buffer.
pub(crate) struct RecvQueue {
    segments: Fifo<Segment>,
    /// Stream position of the next byte to read.
    copied: u64,
    /// Stream position behind the newest byte. `copied <= received`
    received: u64,
    urgent: Urgent,
    /// Stream position of the urgent byte, while `urgent` holds or held one.
    mark: u64,
    /// Bytes were lost, so none may follow.
    is_cut: bool,
}

impl RecvQueue {
    pub(crate) const fn new() -> Self {
        // INVARIANT: there is no segment.
        Self {
            segments: Fifo::new(),
            copied: 0,
            received: 0,
            urgent: Urgent::None,
            mark: 0,
            is_cut: false,
        }
    }

    /// Makes room for the segments of one more message, so that `push` can't fail for want of
    /// memory.
    pub(crate) fn reserve(&mut self) -> Result {
        self.segments.reserve_for(SEGMENTS, GFP_KERNEL)
    }

    /// Appends bytes of a message; `urgent` if its last byte is the OOB byte. EINVAL for
    /// bytes that do not lie in their buffer.
    pub(crate) fn push(&mut self, segment: Segment, urgent: bool) -> Result {
        if !segment.is_sound() {
            return Err(EINVAL);
        }
        if self.is_cut {
            return Ok(());
        }
        let len = segment.len;
        let last = if urgent {
            let at = segment.offset.saturating_add(len).saturating_sub(1);
            segment.buffer.byte(at as usize)
        } else {
            None
        };
        // INVARIANT: asked above.
        self.segments.push(segment, GFP_KERNEL)?;
        self.received = self.received.wrapping_add(len.into());
        if let Some(byte) = last {
            self.urgent = Urgent::Byte(byte);
            self.mark = self.received.wrapping_sub(1);
        }
        Ok(())
    }

    pub(crate) fn announce_urgent(&mut self) {
        if !matches!(self.urgent, Urgent::Byte(_)) {
            self.urgent = Urgent::Announced;
            self.mark = u64::MAX;
        }
    }

    pub(crate) fn urgent(&self) -> Urgent {
        self.urgent
    }

    pub(crate) fn set_urgent_read(&mut self) {
        self.urgent = Urgent::Read;
    }

    /// Unread bytes, including the urgent one.
    pub(crate) fn len(&self) -> u64 {
        self.received.wrapping_sub(self.copied)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn has_mark(&self) -> bool {
        matches!(self.urgent, Urgent::Byte(_) | Urgent::Read)
    }

    /// Bytes between the reader (plus `ahead`) and the mark, if it is not
    /// behind.
    pub(crate) fn to_mark(&self, ahead: u64) -> Option<u64> {
        let at = self.copied.wrapping_add(ahead);
        (self.has_mark() && at <= self.mark).then(|| self.mark.wrapping_sub(at))
    }

    pub(crate) fn at_mark(&self) -> bool {
        self.to_mark(0) == Some(0)
    }

    /// The result of FIONREAD: bytes up to the mark.
    pub(crate) fn readable(&self, inline: bool) -> u64 {
        match self.to_mark(0) {
            Some(n) if !inline => n,
            _ => self.len(),
        }
    }

    /// Bytes that a reader would get, as poll counts them: the urgent byte counts only
    /// if it is part of the stream.
    pub(crate) fn beyond_urgent(&self, inline: bool) -> u64 {
        match self.to_mark(0) {
            Some(0) if !inline => self.len().saturating_sub(1),
            _ => self.len(),
        }
    }

    /// The page and position `ahead` bytes after the reader, and how many bytes
    /// lie there, all of them in the page.
    pub(crate) fn peek(&self, ahead: u64) -> Option<(Page, u32, u32)> {
        let mut skip = ahead;
        for i in 0..self.segments.len() {
            let segment = self.segments.get(i)?;
            let len = u64::from(segment.len);
            if skip < len {
                let skip = u32::try_from(skip).ok()?;
                let part = segment.buffer.part();
                let start = u32::try_from(part.start()).ok()?;
                return Some((
                    part.page().clone(),
                    start.saturating_add(segment.offset).saturating_add(skip),
                    segment.len.saturating_sub(skip),
                ));
            }
            skip = skip.wrapping_sub(len);
        }
        None
    }

    /// `n` bytes have arrived directly in the reader's memory; no queued byte precedes
    /// them.
    pub(crate) fn pass(&mut self, n: u32) {
        self.received = self.received.wrapping_add(n.into());
        self.copied = self.copied.wrapping_add(n.into());
    }

    /// Puts bytes that the reader could not take before all others. EINVAL for bytes that
    /// do not lie in their buffer.
    pub(crate) fn put_back(&mut self, segment: Segment) -> Result {
        if !segment.is_sound() {
            return Err(EINVAL);
        }
        if self.is_cut {
            return Ok(());
        }
        let len = segment.len;
        // INVARIANT: asked above.
        self.segments.push_front(segment, GFP_KERNEL)?;
        self.copied = self.copied.wrapping_sub(len.into());
        Ok(())
    }

    /// The segment of the next bytes.
    pub(crate) fn front(&self) -> Option<&Segment> {
        self.segments.get(0)
    }

    /// Takes the rest of the first segment, with its buffer.
    pub(crate) fn take_front(&mut self) -> Option<Segment> {
        let segment = self.segments.pop()?;
        self.advance(segment.len);
        Some(segment)
    }

    fn advance(&mut self, n: u32) {
        self.copied = self.copied.wrapping_add(n.into());
        if self.has_mark() && self.copied > self.mark {
            self.urgent = Urgent::None;
        }
    }

    /// The program has read `n` bytes; returns the segment that they were the last of.
    /// Called with at most as many as `peek(0)` offered.
    pub(crate) fn consume(&mut self, n: u32) -> Option<Segment> {
        self.advance(n);
        let front = self.segments.front_mut()?;
        // INVARIANT: what is left ends where it did.
        let n = n.min(front.len);
        front.offset = front.offset.saturating_add(n);
        front.len = front.len.saturating_sub(n);
        if front.len == 0 {
            return self.segments.pop();
        }
        None
    }

    /// The device goes away; unread bytes stay readable.
    pub(crate) fn unmap(&mut self) {
        // Rotates once through the queue: every segment is looked at.
        for _ in 0..self.segments.len() {
            if let Some(mut segment) = self.segments.pop() {
                segment.buffer.unmap();
                // A place was just freed, so this never allocates.
                let _ = self.segments.push(segment, GFP_KERNEL);
            }
        }
    }

    /// Returns memory that only further bytes would need.
    pub(crate) fn shrink(&mut self) {
        self.segments.shrink();
    }

    /// Drops all unread bytes.
    pub(crate) fn clear(&mut self) {
        while self.segments.pop().is_some() {}
        self.copied = self.received;
        self.urgent = Urgent::None;
        self.is_cut = false;
    }

    /// Bytes of the connection are lost: drops all that are behind them, those that still come as
    /// well.
    pub(crate) fn cut(&mut self) {
        self.clear();
        self.is_cut = true;
    }
}
