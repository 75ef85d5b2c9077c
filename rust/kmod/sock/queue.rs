// SPDX-License-Identifier: GPL-2.0

//! The bytes between the system calls and the engine.
//!
//! [`SendQueue`] holds what was written and not posted, [`RecvQueue`] what
//! arrived and was not read. The engine counts the same bytes without seeing
//! them. Locks: under the endpoint's lock.

use crate::{
    fifo::Fifo,
    verbs::buffer::{
        Page,
        RxBuffer, //
    },
};
use kernel::prelude::*;

/// A stretch of a page of stream bytes.
pub(crate) struct Frag {
    pub(crate) page: Page,
    pub(crate) offset: u32,
    pub(crate) len: u32,
}

/// Bytes written by the application, oldest first.
pub(crate) struct SendQueue {
    frags: Fifo<Frag>,
    /// Bytes written and not completed: queued here or in flight.
    held: u32,
}

impl SendQueue {
    pub(crate) const fn new() -> Self {
        Self {
            frags: Fifo::new(),
            held: 0,
        }
    }

    /// Makes room for one more fragment, so that `push` can't fail.
    pub(crate) fn reserve(&mut self) -> Result {
        self.frags.reserve(GFP_KERNEL)
    }

    /// Appends bytes that lie in `page`.
    pub(crate) fn push(&mut self, page: Page, offset: u32, len: u32) -> Result {
        let mut merged = false;
        if let Some(last) = self.frags.back_mut() {
            // The same fragment goes on: one SGE instead of many.
            if last.page.as_ptr() == page.as_ptr() && last.offset.wrapping_add(last.len) == offset {
                last.len = last.len.saturating_add(len);
                merged = true;
            }
        }
        if !merged {
            self.frags.push(Frag { page, offset, len }, GFP_KERNEL)?;
        }
        self.held = self.held.saturating_add(len);
        Ok(())
    }

    /// Takes up to `max` bytes off the front, as they lie in one page.
    pub(crate) fn take(&mut self, max: u32) -> Option<Frag> {
        let front = self.frags.front_mut()?;
        if front.len <= max {
            return self.frags.pop();
        }
        let taken = Frag {
            page: front.page.clone(),
            offset: front.offset,
            len: max,
        };
        front.offset = front.offset.saturating_add(max);
        front.len = front.len.saturating_sub(max);
        Some(taken)
    }

    /// The most that the next message can carry in so many pieces; no limit
    /// where everything fits.
    pub(crate) fn gatherable(&self, pieces: usize) -> u32 {
        if self.frags.len() <= pieces {
            return u32::MAX;
        }
        (0..pieces)
            .filter_map(|i| self.frags.get(i))
            .fold(0u32, |sum, frag| sum.saturating_add(frag.len))
    }

    /// `bytes` have left the send queue of the hardware.
    pub(crate) fn complete(&mut self, bytes: u32) {
        self.held = self.held.saturating_sub(bytes);
    }

    pub(crate) fn held(&self) -> u32 {
        self.held
    }

    /// Forgets everything: the connection is gone.
    pub(crate) fn clear(&mut self) {
        while self.frags.pop().is_some() {}
        self.held = 0;
    }
}

/// Payload of one received message.
pub(crate) struct Segment {
    pub(crate) buffer: RxBuffer,
    pub(crate) offset: u32,
    pub(crate) len: u32,
}

/// The urgent byte, as TCP keeps it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Urgent {
    None,
    /// Announced by the peer, not here yet.
    Announced,
    /// Here, not read.
    Byte(u8),
    /// Read by MSG_OOB; the mark stays until the stream passes it.
    Read,
}

/// Bytes for the application, oldest first.
pub(crate) struct RecvQueue {
    segments: Fifo<Segment>,
    /// Stream position of the next byte to read.
    copied: u64,
    /// Stream position behind the newest byte. `copied <= received`
    received: u64,
    urgent: Urgent,
    /// Stream position of the urgent byte, while `urgent` holds or held one.
    mark: u64,
}

impl RecvQueue {
    pub(crate) const fn new() -> Self {
        Self {
            segments: Fifo::new(),
            copied: 0,
            received: 0,
            urgent: Urgent::None,
            mark: 0,
        }
    }

    /// Makes room for one more segment, so that `push` can't fail.
    pub(crate) fn reserve(&mut self) -> Result {
        self.segments.reserve(GFP_KERNEL)
    }

    /// Appends a message's payload; `urgent` if its last byte is the OOB byte.
    pub(crate) fn push(&mut self, segment: Segment, urgent: bool) -> Result {
        let len = segment.len;
        let last = urgent.then(|| {
            let at = segment.offset.saturating_add(len).saturating_sub(1) as usize;
            // SAFETY: The engine checked that offset and length are inside of
            // the message, and the message is inside of the buffer.
            unsafe { segment.buffer.page().address().add(at).read() }
        });
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

    /// Bytes that wait, the urgent one included.
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

    /// What FIONREAD tells: bytes up to the mark.
    pub(crate) fn readable(&self, inline: bool) -> u64 {
        match self.to_mark(0) {
            Some(n) if !inline => n,
            _ => self.len(),
        }
    }

    /// Bytes that a reader would get, as poll counts them: the urgent byte
    /// counts only where it is part of the stream.
    pub(crate) fn beyond_urgent(&self, inline: bool) -> u64 {
        match self.to_mark(0) {
            Some(0) if !inline => self.len().saturating_sub(1),
            _ => self.len(),
        }
    }

    /// The page and position `ahead` bytes after the reader, and how many bytes
    /// lie there.
    pub(crate) fn peek(&self, ahead: u64) -> Option<(Page, u32, u32)> {
        let mut skip = ahead;
        for i in 0..self.segments.len() {
            let segment = self.segments.get(i)?;
            let len = u64::from(segment.len);
            if skip < len {
                let skip = u32::try_from(skip).ok()?;
                return Some((
                    segment.buffer.page().clone(),
                    segment.offset.saturating_add(skip),
                    segment.len.saturating_sub(skip),
                ));
            }
            skip = skip.wrapping_sub(len);
        }
        None
    }

    /// The application is done with `n` bytes; returns a buffer that became
    /// free. Called with at most what `peek(0)` offered.
    pub(crate) fn consume(&mut self, n: u32) -> Option<RxBuffer> {
        self.copied = self.copied.wrapping_add(n.into());
        if self.has_mark() && self.copied > self.mark {
            self.urgent = Urgent::None;
        }
        let front = self.segments.front_mut()?;
        front.offset = front.offset.saturating_add(n);
        front.len = front.len.saturating_sub(n);
        if front.len == 0 {
            return self.segments.pop().map(|s| s.buffer);
        }
        None
    }

    /// The device goes away; what waits stays readable.
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

    /// Drops everything that waits.
    pub(crate) fn clear(&mut self) {
        while self.segments.pop().is_some() {}
        self.copied = self.received;
        self.urgent = Urgent::None;
    }
}
