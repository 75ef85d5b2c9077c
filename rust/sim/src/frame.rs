// SPDX-License-Identifier: GPL-2.0

//! The messages on the link.

use sdp_engine::engine::wire::{Header, Message, Repr, HEADER_MAX};

/// Consecutive bytes of one direction's stream. They are represented by their place alone.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Span {
    pub(crate) start: u64,
    pub(crate) len: u32,
}

impl Span {
    pub(crate) fn end(self) -> u64 {
        self.start + u64::from(self.len)
    }
}

/// One SEND: header bytes, and the place of its payload.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Frame {
    head: [u8; HEADER_MAX],
    head_len: u8,
    pub(crate) payload: Span,
}

impl Frame {
    pub(crate) fn new(header: &Header, payload: Span) -> Self {
        Self::raw(header.as_bytes(), payload)
    }

    /// At most `HEADER_MAX` bytes are used.
    pub(crate) fn raw(bytes: &[u8], payload: Span) -> Self {
        let mut head = [0; HEADER_MAX];
        let mut head_len = 0;
        for (place, byte) in head.iter_mut().zip(bytes) {
            *place = *byte;
            head_len += 1;
        }
        Self {
            head,
            head_len,
            payload,
        }
    }

    pub(crate) fn wire_len(&self) -> u32 {
        u32::from(self.head_len) + self.payload.len
    }

    /// The bytes passed to a receiver: the beginning of the message, including payload.
    pub(crate) fn head(&self) -> &[u8] {
        let len = usize::try_from(self.wire_len()).unwrap_or(usize::MAX);
        let len = len.min(HEADER_MAX);
        self.head.get(..len).unwrap_or(&self.head)
    }

    /// The message, if the bytes are valid.
    pub(crate) fn repr(&self) -> Option<Repr> {
        Repr::parse(&Message::check(self.head(), self.wire_len()).ok()?).ok()
    }
}
