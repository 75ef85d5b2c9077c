// SPDX-License-Identifier: GPL-2.0

//! The application of one side: what it wrote, what it was given.

use crate::{
    fault::{ensure, Checked},
    frame::Span,
};
use std::collections::VecDeque;

/// Streams are told apart by places, so an application is a few numbers.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct App {
    /// Bytes written, and of these taken by messages.
    pub(crate) written: u64,
    pub(crate) sent: u64,
    /// Where the peer's stream goes on.
    pub(crate) delivered: u64,
    /// Delivered and not read, a piece for each buffer.
    pub(crate) unread: VecDeque<Span>,
    pub(crate) read: u64,
    /// End of stream was delivered.
    pub(crate) eof: bool,
    /// Places behind urgent bytes.
    pub(crate) urgent_written: VecDeque<u64>,
    pub(crate) urgent_received: VecDeque<u64>,
    pub(crate) shut: bool,
    pub(crate) closed: bool,
}

impl App {
    /// The next bytes of the send stream leave it.
    pub(crate) fn take(&mut self, len: u32) -> Checked<Span> {
        let span = Span {
            start: self.sent,
            len,
        };
        self.sent = span.end();
        ensure!(
            self.sent <= self.written,
            "{} bytes sent and {} written",
            self.sent,
            self.written
        );
        Ok(span)
    }

    pub(crate) fn on_written(&mut self, len: u32, urgent: bool) {
        self.written += u64::from(len);
        if urgent && len > 0 {
            // A mark that was not sent gives way to the newer one.
            if self.urgent_written.back().is_some_and(|m| *m > self.sent) {
                self.urgent_written.pop_back();
            }
            self.urgent_written.push_back(self.written);
        }
    }

    /// Bytes come in; they are the next ones of the peer's stream.
    pub(crate) fn deliver(&mut self, span: Span, urgent: bool) -> Checked {
        ensure!(!self.eof, "bytes from {} on after the end", span.start);
        ensure!(
            span.start == self.delivered,
            "bytes from {} on are delivered at {}",
            span.start,
            self.delivered
        );
        self.delivered = span.end();
        self.unread.push_back(span);
        if urgent {
            self.urgent_received.push_back(self.delivered);
        }
        Ok(())
    }

    /// Reads one piece to its end.
    pub(crate) fn read(&mut self) -> bool {
        match self.unread.pop_front() {
            Some(span) => {
                self.read += u64::from(span.len);
                true
            }
            None => false,
        }
    }
}
