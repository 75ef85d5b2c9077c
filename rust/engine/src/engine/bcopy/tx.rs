// SPDX-License-Identifier: GPL-2.0

//! The bytes that the application has written, cut into Data messages.
//!
//! A message that is not full may be held back:
//! - by a cork, or by a promise of more bytes, until it is full, the cork goes,
//!   a write without the promise comes, or [`Timer::Cork`] runs out;
//! - by Nagle's rule, while an earlier message that was not full has not completed.
//!   As in Minshall's variant and in TCP, full messages in front are no reason to
//!   wait: at most one small message per round trip is the goal, and otherwise the
//!   rest of each large write would be late.
//!
//! For Nagle's rule, the completion of a send counts as its acknowledgement.
//! A reliable connection completes a send when the peer's adapter has it, which
//! says no less than MSeqAck would and comes by itself; MSeqAck only comes with
//! the next message from the peer, so that a timer would be needed beside it.
//!
//! The urgent byte, the end of the stream and an explicit push send everything
//! up to themselves.
//!
//! A long write may come in chunks, which leave at once. They are no small messages: what counts
//! is whether the write would have filled its last one. A full message never is a small one.
//!
//! rules: DATA, URGENT
//!
//! [`Timer::Cork`]: crate::engine::timer::Timer::Cork

use crate::engine::{error::Refused, oob::UrgentMark};

/// One Data message to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Segment {
    pub(crate) len: u32,
    /// The last byte is the urgent one.
    pub(crate) urgent: bool,
    /// More of the same write follows.
    pub(crate) chunk: bool,
}

/// Bytes of our direction that no message carries yet.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SendStream {
    unsent: u32,
    /// Number of bytes at the front that are not held back.
    pushed: u32,
    /// Number of bytes at the front that are chunks of a write with a rest that follows.
    chunked: u32,
    /// Bytes of that write that have left.
    part: u32,
    urgent: UrgentMark,
    /// The application said that more bytes follow at once.
    more: bool,
    cork: bool,
    nodelay: bool,
}

impl SendStream {
    pub(crate) fn unsent(&self) -> u32 {
        self.unsent
    }

    /// Bytes that wait, and one for those that the application has announced.
    pub(crate) fn waiting(&self) -> u32 {
        self.unsent.saturating_add(self.more.into())
    }

    pub(crate) fn urgent(&self) -> &UrgentMark {
        &self.urgent
    }

    pub(crate) fn urgent_mut(&mut self) -> &mut UrgentMark {
        &mut self.urgent
    }

    /// `len` more bytes.
    pub(crate) fn queue(&mut self, len: u32, more: bool, urgent: bool) -> Result<(), Refused> {
        let unsent = self.unsent.checked_add(len).ok_or(Refused::TooMuch)?;
        self.unsent = unsent;
        self.more = more;
        if urgent && len > 0 {
            self.urgent.set(unsent);
            self.push();
        }
        Ok(())
    }

    /// Releases all bytes that are queued now.
    pub(crate) fn push(&mut self) {
        self.pushed = self.unsent;
    }

    /// Releases all bytes that are queued now: a chunk of a write; its rest follows.
    pub(crate) fn release_chunk(&mut self) {
        self.chunked = self.unsent;
    }

    /// Whether the message `segment`, which has at most `max_payload` bytes, is a small one.
    /// Called once for each that is sent.
    pub(crate) fn is_small(&mut self, segment: Segment, max_payload: u32) -> bool {
        let part = self.part.wrapping_add(segment.len);
        let over = part.checked_rem(max_payload).unwrap_or(0);
        self.part = if segment.chunk { over } else { 0 };
        !segment.chunk && segment.len < max_payload && over != 0
    }

    /// The promise of more bytes does not hold; a cork stays.
    pub(crate) fn withdraw_more(&mut self) {
        self.more = false;
    }

    /// As in TCP, switching the delay off also releases corked bytes.
    pub(crate) fn set_nodelay(&mut self, on: bool) {
        self.nodelay = on;
        if on {
            self.push();
        }
    }

    pub(crate) fn set_cork(&mut self, on: bool) {
        self.cork = on;
        if !on {
            self.more = false;
        }
    }

    /// The next message, if one may go now. `small`: an earlier message that was
    /// not full has not completed. `front`: the number of bytes at the front of the
    /// stream that may go as Data.
    pub(crate) fn next(&self, max_payload: u32, small: bool, front: u32) -> Option<Segment> {
        let segment = self.cut(max_payload, front)?;
        //= spec: DATA-5
        let nagled = small && !self.nodelay;
        if self.may_hold(segment, max_payload) && (self.is_corked() || nagled) {
            return None;
        }
        Some(segment)
    }

    /// Whether only a cork or a promise holds the next message back.
    pub(crate) fn is_held_by_cork(&self, max_payload: u32) -> bool {
        self.is_corked()
            && self
                .cut(max_payload, self.unsent)
                .is_some_and(|segment| self.may_hold(segment, max_payload))
    }

    /// Whether messages that are not full wait for more bytes.
    pub(crate) fn is_corked(&self) -> bool {
        self.cork || self.more
    }

    fn may_hold(&self, segment: Segment, max_payload: u32) -> bool {
        segment.len < max_payload && self.pushed == 0 && self.chunked == 0
    }

    /// rules: URGENT (the urgent byte is the last of its message)
    fn cut(&self, max_payload: u32, front: u32) -> Option<Segment> {
        //= spec: URGENT-4
        let mark = self.urgent.distance();
        let limit = self.unsent.min(front).min(max_payload);
        let len = mark.map_or(limit, |mark| limit.min(mark));
        if len == 0 {
            return None;
        }
        Some(Segment {
            len,
            urgent: mark == Some(len),
            chunk: len <= self.chunked,
        })
    }

    /// `len` bytes have left the stream at its front, whichever way.
    pub(crate) fn on_sent(&mut self, len: u32) {
        //= spec: DATA-1
        self.unsent = self.unsent.saturating_sub(len);
        self.pushed = self.pushed.saturating_sub(len);
        self.chunked = self.chunked.saturating_sub(len);
        self.urgent.on_sent(len);
    }

    /// `len` bytes behind the first `before` were taken out. No urgent byte is
    /// among them.
    pub(crate) fn on_lost(&mut self, len: u32, before: u32) {
        self.unsent = self.unsent.saturating_sub(len);
        let pushed = self.pushed.saturating_sub(before);
        self.pushed = self.pushed.saturating_sub(pushed.min(len));
        let chunked = self.chunked.saturating_sub(before);
        self.chunked = self.chunked.saturating_sub(chunked.min(len));
        self.urgent.on_lost(len, before);
    }

    pub(crate) fn is_sound(&self) -> bool {
        self.pushed <= self.unsent
            && self.chunked <= self.unsent
            && self
                .urgent
                .distance()
                .is_none_or(|mark| (1..=self.unsent).contains(&mark))
    }
}

#[cfg(test)]
mod tests {
    use super::{Segment, SendStream};
    use crate::engine::error::Refused;
    use std::vec::Vec;

    const MAX: u32 = 100;

    fn next(stream: &mut SendStream, small: bool) -> Option<u32> {
        let segment = stream.next(MAX, small, u32::MAX)?;
        stream.on_sent(segment.len);
        assert!(stream.is_sound());
        Some(segment.len)
    }

    #[test]
    fn a_stream_is_cut_into_full_messages_and_a_rest() {
        let mut stream = SendStream::default();
        stream.queue(250, false, false).unwrap();
        assert_eq!(next(&mut stream, false), Some(100));
        assert_eq!(next(&mut stream, false), Some(100));
        assert_eq!(next(&mut stream, false), Some(50));
        assert_eq!(next(&mut stream, false), None);
        assert_eq!(stream.unsent(), 0);
    }

    #[test]
    fn nagle_holds_a_rest_while_a_small_message_is_in_flight() {
        let mut stream = SendStream::default();
        stream.queue(150, false, false).unwrap();
        assert_eq!(next(&mut stream, true), Some(100));
        assert_eq!(next(&mut stream, true), None);
        assert!(!stream.is_held_by_cork(MAX));
        stream.queue(60, false, false).unwrap();
        assert_eq!(next(&mut stream, true), Some(100));
        assert_eq!(next(&mut stream, true), None);
        assert_eq!(next(&mut stream, false), Some(10));
    }

    #[test]
    fn nodelay_sends_at_once() {
        let mut stream = SendStream::default();
        stream.queue(10, false, false).unwrap();
        assert_eq!(next(&mut stream, true), None);
        stream.set_nodelay(true);
        assert_eq!(next(&mut stream, true), Some(10));
        stream.queue(10, false, false).unwrap();
        assert_eq!(next(&mut stream, true), Some(10));
        stream.set_nodelay(false);
        stream.queue(10, false, false).unwrap();
        assert_eq!(next(&mut stream, true), None);
    }

    #[test]
    fn a_cork_holds_until_full_uncorked_or_pushed() {
        let mut stream = SendStream::default();
        stream.set_cork(true);
        stream.queue(10, false, false).unwrap();
        assert_eq!(next(&mut stream, false), None);
        assert!(stream.is_held_by_cork(MAX));
        stream.queue(95, false, false).unwrap();
        assert_eq!(next(&mut stream, false), Some(100));
        assert_eq!(next(&mut stream, false), None);
        stream.set_cork(false);
        assert_eq!(next(&mut stream, false), Some(5));
        stream.set_cork(true);
        stream.queue(5, false, false).unwrap();
        stream.push();
        assert_eq!(next(&mut stream, false), Some(5));
        // The push covered what was there, not what comes.
        stream.queue(5, false, false).unwrap();
        assert_eq!(next(&mut stream, false), None);
    }

    #[test]
    fn a_cork_holds_even_without_delay() {
        let mut stream = SendStream::default();
        stream.set_nodelay(true);
        stream.set_cork(true);
        stream.queue(10, false, false).unwrap();
        assert_eq!(next(&mut stream, false), None);
        stream.set_nodelay(true);
        assert_eq!(next(&mut stream, false), Some(10));
    }

    #[test]
    fn a_promise_holds_until_the_write_without_one() {
        let mut stream = SendStream::default();
        stream.queue(10, true, false).unwrap();
        assert_eq!(next(&mut stream, false), None);
        assert!(stream.is_held_by_cork(MAX));
        stream.queue(10, false, false).unwrap();
        assert_eq!(next(&mut stream, false), Some(20));
    }

    #[test]
    fn a_promise_taken_back_leaves_the_cork() {
        let mut stream = SendStream::default();
        stream.queue(10, true, false).unwrap();
        assert_eq!(next(&mut stream, false), None);
        stream.withdraw_more();
        assert!(!stream.is_held_by_cork(MAX));
        assert_eq!(next(&mut stream, true), None);
        assert_eq!(next(&mut stream, false), Some(10));
        stream.set_cork(true);
        stream.queue(10, true, false).unwrap();
        stream.withdraw_more();
        assert_eq!(next(&mut stream, false), None);
        assert!(stream.is_held_by_cork(MAX));
    }

    /// Lengths of the messages that leave, and whether each is a small one.
    fn leave(stream: &mut SendStream, small: bool) -> Vec<(u32, bool)> {
        let mut all = Vec::new();
        while let Some(segment) = stream.next(MAX, small, u32::MAX) {
            all.push((segment.len, stream.is_small(segment, MAX)));
            stream.on_sent(segment.len);
            assert!(stream.is_sound());
        }
        all
    }

    #[test]
    fn chunks_leave_at_once_and_are_not_small() {
        let mut stream = SendStream::default();
        stream.queue(30, true, false).unwrap();
        assert_eq!(leave(&mut stream, true), []);
        stream.release_chunk();
        assert_eq!(leave(&mut stream, true), [(30, false)]);
        stream.queue(50, true, false).unwrap();
        stream.release_chunk();
        // The bytes that waited for credits are one message.
        stream.queue(90, true, false).unwrap();
        stream.release_chunk();
        assert_eq!(leave(&mut stream, true), [(100, false), (40, false)]);
        // The write has 180 bytes: a full message and a rest.
        stream.queue(10, false, false).unwrap();
        assert_eq!(leave(&mut stream, true), []);
        assert_eq!(leave(&mut stream, false), [(10, true)]);
        // The next write is another one.
        stream.queue(100, false, false).unwrap();
        assert_eq!(leave(&mut stream, true), [(100, false)]);
    }

    #[test]
    fn a_write_that_fills_its_messages_is_not_small_in_chunks() {
        let mut stream = SendStream::default();
        for (len, more) in [(40, true), (80, true), (80, false)] {
            stream.queue(len, more, false).unwrap();
            if more {
                stream.release_chunk();
            }
            assert_eq!(leave(&mut stream, false), [(len, false)]);
        }
        // As one that is not cut.
        stream.queue(100, false, false).unwrap();
        assert_eq!(leave(&mut stream, true), [(100, false)]);
        stream.queue(99, false, false).unwrap();
        assert_eq!(leave(&mut stream, false), [(99, true)]);
    }

    #[test]
    fn full_messages_are_not_small_behind_a_write_that_ended_early() {
        let mut stream = SendStream::default();
        stream.queue(30, true, false).unwrap();
        stream.release_chunk();
        assert_eq!(leave(&mut stream, true), [(30, false)]);
        // The rest of that write never came.
        stream.queue(220, false, false).unwrap();
        assert_eq!(leave(&mut stream, true), [(100, false), (100, false)]);
        assert_eq!(leave(&mut stream, false), [(20, true)]);
    }

    #[test]
    fn the_urgent_byte_ends_its_message_and_is_not_held() {
        let mut stream = SendStream::default();
        stream.set_cork(true);
        stream.queue(120, false, true).unwrap();
        stream.queue(30, false, false).unwrap();
        let cut = |len, urgent| {
            let chunk = false;
            Some(Segment { len, urgent, chunk })
        };
        let mut step = || {
            let segment = stream.next(MAX, true, u32::MAX);
            if let Some(segment) = segment {
                stream.on_sent(segment.len);
            }
            segment
        };
        assert_eq!(step(), cut(100, false));
        assert_eq!(step(), cut(20, true));
        assert_eq!(step(), None);
    }

    //= test: URGENT-5
    #[test]
    fn a_second_urgent_byte_takes_the_place_of_an_unsent_one() {
        let mut stream = SendStream::default();
        stream.queue(10, false, true).unwrap();
        stream.queue(10, false, true).unwrap();
        assert_eq!(
            stream.next(MAX, true, u32::MAX),
            Some(Segment {
                len: 20,
                urgent: true,
                chunk: false,
            })
        );
    }

    #[test]
    fn what_is_taken_out_leaves_the_rest_as_it_was() {
        let mut stream = SendStream::default();
        stream.queue(10, false, false).unwrap();
        stream.queue(20, false, false).unwrap();
        stream.push();
        stream.queue(5, false, true).unwrap();
        stream.queue(5, true, false).unwrap();
        stream.on_lost(20, 10);
        assert!(stream.is_sound());
        assert_eq!(stream.unsent(), 20);
        let segment = stream.next(MAX, true, u32::MAX).unwrap();
        assert_eq!((segment.len, segment.urgent), (15, true));
        stream.on_sent(15);
        // Bytes that were promised a successor are still held.
        assert_eq!(stream.next(MAX, false, u32::MAX), None);
        // Bytes in front of the loss keep their place.
        let mut stream = SendStream::default();
        stream.queue(10, true, false).unwrap();
        stream.on_lost(4, 6);
        assert_eq!(stream.unsent(), 6);
        assert_eq!(stream.next(MAX, false, u32::MAX), None);
    }

    #[test]
    fn a_chunk_that_is_lost_is_not_released() {
        let mut stream = SendStream::default();
        stream.queue(20, false, false).unwrap();
        stream.release_chunk();
        stream.on_lost(15, 0);
        assert!(stream.is_sound());
        assert_eq!(stream.unsent(), 5);
    }

    #[test]
    fn a_message_ends_where_the_front_does() {
        let mut stream = SendStream::default();
        stream.queue(50, false, false).unwrap();
        stream.push();
        assert_eq!(stream.next(MAX, true, 0), None);
        assert_eq!(stream.next(MAX, true, 30).map(|s| s.len), Some(30));
    }

    #[test]
    fn what_cannot_be_is_unsound() {
        let mut stream = SendStream::default();
        stream.queue(10, false, true).unwrap();
        assert!(stream.is_sound());
        let wrong: [fn(&mut SendStream); 3] =
            [|s| s.pushed = 11, |s| s.chunked = 11, |s| s.urgent.set(11)];
        for break_it in wrong {
            let mut stream = stream;
            break_it(&mut stream);
            assert!(!stream.is_sound(), "{stream:?}");
        }
    }

    #[test]
    fn too_many_bytes_are_refused_and_change_nothing() {
        let mut stream = SendStream::default();
        stream.queue(u32::MAX, false, false).unwrap();
        assert_eq!(stream.queue(1, true, true), Err(Refused::TooMuch));
        assert_eq!(stream.unsent(), u32::MAX);
        assert!(stream.next(MAX, false, u32::MAX).is_some());
    }
}
