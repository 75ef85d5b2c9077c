// SPDX-License-Identifier: GPL-2.0

//! The bytes between the system calls and the engine.
//!
//! [`SendQueue`] holds bytes that were written and not yet posted, [`RecvQueue`] bytes
//! that arrived and were not yet read. The engine counts the same bytes without seeing
//! them. Locks: under the endpoint's lock.

use crate::{
    account::{
        Charge,
        Need, //
    },
    fifo::Fifo,
    prelude::*,
    sk::Sk,
    verbs::{
        buffer::{
            Page,
            RxBuffer, //
        },
        pages::UserPages, //
    },
};
use kernel::{
    page::PAGE_SIZE,
    sync::Arc, //
};

/// A range of stream bytes in a page.
pub(crate) struct Frag {
    pub(crate) page: Page,
    pub(crate) offset: u32,
    pub(crate) len: u32,
    /// Bytes charged for the rest of the page, counted at its last fragment.
    pub(crate) extra: u32,
}

/// The memory of stream bytes.
enum Store {
    /// In a page of the socket.
    Page(Page),
    /// In pinned memory of a program.
    Pinned(Arc<UserPages>),
}

/// A range of one store.
struct Piece {
    store: Store,
    offset: u32,
    len: u32,
    /// Bytes charged for the rest of the page.
    extra: u32,
}

impl Piece {
    /// Up to `max` bytes from its front, if they are in a page of the socket.
    fn frag(&self, max: u32) -> Option<Frag> {
        match &self.store {
            Store::Page(page) => Some(Frag {
                page: page.clone(),
                offset: self.offset,
                len: max.min(self.len),
                extra: 0,
            }),
            Store::Pinned(_) => None,
        }
    }
}

/// Bytes written by the application, oldest first.
pub(crate) struct SendQueue {
    pieces: Fifo<Piece>,
    /// Bytes written and not completed: queued or in flight.
    held: u32,
    /// Bytes held in addition: the rest of pages that splice() gave. Each page may have
    /// brought a single byte.
    extra: u32,
    /// Of `held`, bytes in the memory of programs.
    pinned: u32,
    /// Charge for the other bytes, and for `extra`.
    charge: Charge,
    /// There was no memory for more. Some is returned when bytes have left.
    starved: bool,
}

impl SendQueue {
    pub(crate) const fn new() -> Self {
        Self {
            pieces: Fifo::new(),
            held: 0,
            extra: 0,
            pinned: 0,
            charge: Charge::none(),
            starved: false,
        }
    }

    /// Bytes of memory that the socket owns.
    fn owned(&self) -> u32 {
        self.charged().saturating_sub(self.pinned)
    }

    /// Charges memory for up to `bytes` more, or for fewer; ENOBUFS if some has to be
    /// returned first. A socket that holds none gets a page, because its connection
    /// could not go on otherwise.
    pub(crate) fn provide(&mut self, sk: &Sk, bytes: u32) -> Result<u32> {
        let owned = self.owned();
        let reach = owned.saturating_add(bytes);
        let Err(e) = self.charge.reach(sk, reach, Need::Growth) else {
            return Ok(bytes);
        };
        if owned > 0 {
            self.starved = true;
            return Err(e);
        }
        let page = PAGE_SIZE as u32;
        self.charge.reach(sk, page, Need::Least)?;
        Ok(bytes.min(page))
    }

    /// Uncharges memory that was provided and not used.
    pub(crate) fn trim(&mut self) {
        self.charge.trim(self.owned());
    }

    /// Whether no more can be queued before bytes have left.
    pub(crate) fn is_starved(&self) -> bool {
        self.starved
    }

    /// Makes room for one more piece, so that `push` can't fail.
    pub(crate) fn reserve(&mut self) -> Result {
        self.pieces.reserve(GFP_KERNEL)
    }

    /// Appends bytes in `page`. Either the page was `given` away with all its contents,
    /// or it is the socket's own and will take more bytes.
    pub(crate) fn push(&mut self, page: Page, offset: u32, len: u32, given: bool) -> Result {
        let mut merged = false;
        if let Some(last) = self.pieces.back_mut() {
            // The bytes continue the last fragment: one SGE instead of two.
            let same = matches!(&last.store, Store::Page(p) if p.as_ptr() == page.as_ptr());
            if same && last.offset.wrapping_add(last.len) == offset {
                last.len = last.len.saturating_add(len);
                merged = true;
                // This part is charged already.
                let known = last.extra.min(len);
                last.extra = last.extra.saturating_sub(known);
                self.extra = self.extra.saturating_sub(known);
            }
        }
        if !merged {
            let extra = if given {
                (PAGE_SIZE as u32).saturating_sub(len)
            } else {
                0
            };
            let piece = Piece {
                store: Store::Page(page),
                offset,
                len,
                extra,
            };
            self.pieces.push(piece, GFP_KERNEL)?;
            self.extra = self.extra.saturating_add(extra);
        }
        self.held = self.held.saturating_add(len);
        Ok(())
    }

    /// Appends the bytes of a program's pinned memory.
    pub(crate) fn push_pinned(&mut self, pages: Arc<UserPages>, len: u32) -> Result {
        let store = Store::Pinned(pages);
        self.pieces.push(
            Piece {
                store,
                offset: 0,
                len,
                extra: 0,
            },
            GFP_KERNEL,
        )?;
        self.held = self.held.saturating_add(len);
        self.pinned = self.pinned.saturating_add(len);
        Ok(())
    }

    /// Takes up to `max` bytes off the front, if they are in a page of the socket.
    pub(crate) fn take(&mut self, max: u32) -> Option<Frag> {
        let front = self.pieces.front_mut()?;
        let mut frag = front.frag(max)?;
        front.offset = front.offset.saturating_add(frag.len);
        front.len = front.len.saturating_sub(frag.len);
        if front.len == 0 {
            frag.extra = front.extra;
            self.pieces.pop();
        }
        Some(frag)
    }

    /// Whether the next bytes are in a program's memory.
    pub(crate) fn is_pinned(&self) -> bool {
        matches!(
            self.pieces.get(0),
            Some(Piece {
                store: Store::Pinned(_),
                ..
            })
        )
    }

    /// Drops the next `len` bytes, which are in a program's memory: the peer has read
    /// them itself.
    pub(crate) fn skip(&mut self, len: u32) {
        self.pass(len);
        self.forget_pinned(len);
    }

    fn forget_pinned(&mut self, len: u32) {
        self.held = self.held.saturating_sub(len);
        self.pinned = self.pinned.saturating_sub(len);
    }

    /// Drops the next `len` bytes: they are in flight.
    pub(crate) fn pass(&mut self, len: u32) {
        let mut left = len;
        while left > 0 {
            let Some(front) = self.pieces.front_mut() else {
                break;
            };
            let n = front.len.min(left);
            front.offset = front.offset.saturating_add(n);
            front.len = front.len.saturating_sub(n);
            left = left.saturating_sub(n);
            if front.len == 0 {
                self.pieces.pop();
            }
        }
    }

    /// Drops the rest of a run in `pages`: it must not be sent.
    pub(crate) fn drop_pinned(&mut self, pages: &Arc<UserPages>) {
        let of_run =
            |piece: &Piece| matches!(&piece.store, Store::Pinned(p) if Arc::ptr_eq(p, pages));
        let at = (0..self.pieces.len()).find(|i| self.pieces.get(*i).is_some_and(of_run));
        if let Some(piece) = at.and_then(|at| self.pieces.remove(at)) {
            self.forget_pinned(piece.len);
        }
    }

    /// Maximum bytes of the next message with that many pieces; no limit if everything
    /// fits. A message never mixes pinned bytes with others.
    pub(crate) fn gatherable(&self, pieces: usize) -> u32 {
        let mut sum = 0u32;
        let mut used = 0usize;
        for i in 0.. {
            let Some(piece) = self.pieces.get(i) else {
                return u32::MAX;
            };
            if matches!(piece.store, Store::Pinned(_)) {
                // Registered, so all of it is one piece.
                return u32::MAX;
            }
            if used >= pieces {
                return sum;
            }
            used = used.saturating_add(1);
            sum = sum.saturating_add(piece.len);
        }
        u32::MAX
    }

    /// `bytes` have left the send queue of the hardware; the rest of their pages is
    /// uncharged with them.
    pub(crate) fn complete(&mut self, bytes: u32, extra: u32) {
        self.held = self.held.saturating_sub(bytes);
        self.extra = self.extra.saturating_sub(extra);
        self.starved = false;
        self.trim();
    }

    /// The same for bytes in a program's memory.
    pub(crate) fn complete_pinned(&mut self, bytes: u32) {
        self.forget_pinned(bytes);
    }

    /// Bytes that count against SO_SNDBUF.
    pub(crate) fn charged(&self) -> u32 {
        self.held.saturating_add(self.extra)
    }

    pub(crate) fn held(&self) -> u32 {
        self.held
    }

    /// Drops everything: the connection has ended.
    pub(crate) fn clear(&mut self) {
        while self.pieces.pop().is_some() {}
        self.held = 0;
        self.extra = 0;
        self.pinned = 0;
        self.starved = false;
        self.trim();
    }
}

/// Payload of one received message.
pub(crate) struct Segment {
    pub(crate) buffer: RxBuffer,
    pub(crate) offset: u32,
    pub(crate) len: u32,
    /// The buffer belongs to those that are posted for the peer's messages.
    pub(crate) message: bool,
}

impl Segment {
    /// Whether the link needs the buffer back.
    pub(crate) fn is_of_link(&self) -> bool {
        self.message && self.buffer.mapping().is_some()
    }

    /// Whether the bytes lie in the buffer.
    fn is_sound(&self) -> bool {
        let (offset, len) = (self.offset as usize, self.len as usize);
        self.buffer.page().holds(offset, len)
    }
}

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
        }
    }

    /// Makes room for one more segment, so that `push` can't fail for want of memory.
    pub(crate) fn reserve(&mut self) -> Result {
        self.segments.reserve(GFP_KERNEL)
    }

    /// Appends a message's payload; `urgent` if its last byte is the OOB byte. EINVAL for
    /// bytes that do not lie in their buffer.
    pub(crate) fn push(&mut self, segment: Segment, urgent: bool) -> Result {
        if !segment.is_sound() {
            return Err(EINVAL);
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

    /// The program has read `n` bytes; returns a message's buffer that became free.
    /// Called with at most as many as `peek(0)` offered.
    pub(crate) fn consume(&mut self, n: u32) -> Option<RxBuffer> {
        self.advance(n);
        let front = self.segments.front_mut()?;
        // INVARIANT: what is left ends where it did.
        let n = n.min(front.len);
        front.offset = front.offset.saturating_add(n);
        front.len = front.len.saturating_sub(n);
        if front.len == 0 {
            let segment = self.segments.pop()?;
            return segment.message.then_some(segment.buffer);
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

    /// Drops all unread bytes.
    pub(crate) fn clear(&mut self) {
        while self.segments.pop().is_some() {}
        self.copied = self.received;
        self.urgent = Urgent::None;
    }
}

#[kunit_tests(sdp_queue)]
mod tests {
    use super::*;

    const ALL: u32 = PAGE_SIZE as u32;

    fn page() -> Result<Page> {
        let page = kernel::page::Page::alloc_page(GFP_KERNEL)?;
        let page = core::ptr::NonNull::new(page.as_ptr()).ok_or(EINVAL)?;
        // SAFETY: It is valid, and a reference is taken before ours goes.
        Ok(unsafe { Page::get(page.cast()) })
    }

    /// Lengths of the pieces that messages of up to `max` bytes take.
    fn taken(queue: &mut SendQueue, max: u32) -> Result<KVec<(u32, u32)>> {
        let mut all = KVec::new();
        while let Some(frag) = queue.take(max) {
            all.push((frag.offset, frag.len), GFP_KERNEL)?;
            queue.complete(frag.len, frag.extra);
        }
        Ok(all)
    }

    #[test]
    fn bytes_that_follow_in_a_page_are_one_piece() -> Result {
        let mut queue = SendQueue::new();
        let (one, other) = (page()?, page()?);
        queue.push(one.clone(), 0, 100, false)?;
        queue.push(one.clone(), 100, 50, false)?;
        // These bytes do not continue the fragment.
        queue.push(one, 200, 10, false)?;
        queue.push(other, 210, 10, false)?;
        assert_eq!(queue.held(), 170);
        assert_eq!(queue.gatherable(2), 160);
        assert_eq!(queue.gatherable(3), u32::MAX);
        assert_eq!(
            *taken(&mut queue, 120)?,
            [(0, 120), (120, 30), (200, 10), (210, 10)]
        );
        assert_eq!(queue.charged(), 0);
        Ok(())
    }

    #[test]
    fn a_page_that_was_given_away_is_charged_whole() -> Result {
        let mut queue = SendQueue::new();
        let given = page()?;
        queue.push(given.clone(), 0, 1, true)?;
        assert_eq!(queue.charged(), ALL);
        // The rest of the page has been charged.
        queue.push(given, 1, 9, true)?;
        assert_eq!((queue.held(), queue.charged()), (10, ALL));
        let first = queue.take(4).ok_or(EINVAL)?;
        queue.complete(first.len, first.extra);
        assert_eq!(queue.charged(), ALL - 4);
        taken(&mut queue, ALL)?;
        assert_eq!(queue.charged(), 0);
        Ok(())
    }

    #[test]
    fn bytes_that_the_peer_has_read_are_not_sent() -> Result {
        let mut queue = SendQueue::new();
        queue.push(page()?, 0, 100, false)?;
        queue.push(page()?, 7, 100, false)?;
        queue.skip(120);
        assert_eq!(queue.held(), 80);
        assert_eq!(*taken(&mut queue, ALL)?, [(27, 80)]);
        queue.push(page()?, 0, 5, true)?;
        queue.clear();
        assert!(queue.take(ALL).is_none() && queue.charged() == 0);
        Ok(())
    }

    fn segment(offset: u32, len: u32) -> Result<Segment> {
        Ok(Segment {
            buffer: RxBuffer::unmapped(page()?, Charge::none()),
            offset,
            len,
            message: true,
        })
    }

    #[test]
    fn a_buffer_is_free_when_its_last_byte_was_read() -> Result {
        let mut queue = RecvQueue::new();
        queue.push(segment(16, 100)?, false)?;
        queue.push(segment(0, 10)?, false)?;
        assert_eq!(queue.len(), 110);
        assert!(queue.consume(99).is_none());
        assert!(matches!(queue.peek(0), Some((_, 115, 1))));
        assert!(matches!(queue.peek(1), Some((_, 0, 10))));
        assert!(queue.peek(11).is_none());
        assert!(queue.consume(1).is_some());
        assert!(queue.take_front().is_some_and(|s| s.len == 10) && queue.is_empty());
        Ok(())
    }

    #[test]
    fn bytes_beyond_the_end_of_a_buffer_are_refused() -> Result {
        let mut queue = RecvQueue::new();
        assert!(queue.push(segment(ALL, 1)?, false).is_err());
        assert!(queue.push(segment(ALL - 1, 2)?, true).is_err());
        assert!(queue.push(segment(1, u32::MAX)?, false).is_err());
        assert!(queue.put_back(segment(0, ALL + 1)?).is_err());
        assert!(queue.is_empty() && queue.peek(0).is_none());
        assert!(queue.urgent() == Urgent::None);
        queue.push(segment(ALL - 1, 1)?, true)?;
        assert!(matches!(queue.urgent(), Urgent::Byte(_)));
        Ok(())
    }

    #[test]
    fn the_mark_stands_at_the_urgent_byte() -> Result {
        let mut queue = RecvQueue::new();
        queue.announce_urgent();
        assert!(queue.urgent() == Urgent::Announced && !queue.at_mark());
        queue.push(segment(0, 4)?, true)?;
        queue.push(segment(0, 6)?, false)?;
        assert_eq!(queue.to_mark(0), Some(3));
        assert_eq!((queue.readable(false), queue.readable(true)), (3, 10));
        let _ = queue.consume(3);
        assert!(queue.at_mark());
        assert_eq!(
            (queue.beyond_urgent(false), queue.beyond_urgent(true)),
            (6, 7)
        );
        let _ = queue.consume(1);
        assert!(queue.urgent() == Urgent::None && !queue.at_mark());
        assert_eq!(queue.readable(false), 6);
        Ok(())
    }

    #[test]
    fn what_is_put_back_is_read_first() -> Result {
        let mut queue = RecvQueue::new();
        queue.push(segment(0, 8)?, false)?;
        let _ = queue.consume(3);
        let front = queue.take_front().ok_or(EINVAL)?;
        assert!(queue.is_empty());
        queue.put_back(front)?;
        assert_eq!(queue.len(), 5);
        assert!(matches!(queue.peek(0), Some((_, 3, 5))));
        queue.clear();
        assert!(queue.is_empty() && queue.front().is_none());
        Ok(())
    }
}
