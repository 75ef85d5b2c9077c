// SPDX-License-Identifier: GPL-2.0

//! The application of one side: the bytes it wrote and the bytes it received.

use crate::{
    fault::{ensure, Checked, Fault},
    frame::Span,
};
use sdp_engine::engine::types::RunId;
use std::collections::VecDeque;

/// Bytes that were written together, or lie in registered memory together.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Piece {
    pub(crate) left: u32,
    pub(crate) run: Option<RunId>,
}

/// Bytes are identified by their place in the stream, so an application is a few numbers.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct App {
    /// Written bytes that have not been sent.
    queue: VecDeque<Piece>,
    /// Bytes that have been sent.
    pub(crate) sent: u64,
    /// The place in the peer's stream of the next delivered byte.
    pub(crate) delivered: u64,
    /// Delivered in receive buffers and unread, one piece for each buffer.
    pub(crate) unread: VecDeque<Span>,
    pub(crate) read: u64,
    /// End of stream was delivered.
    pub(crate) eof: bool,
    /// Places after urgent bytes.
    pub(crate) urgent_written: VecDeque<u64>,
    pub(crate) urgent_received: VecDeque<u64>,
    pub(crate) shut: bool,
    pub(crate) closed: bool,
}

impl App {
    /// Bytes that have not been sent.
    pub(crate) fn unsent(&self) -> u64 {
        self.queue.iter().map(|piece| u64::from(piece.left)).sum()
    }

    /// All written bytes, except those that were withdrawn.
    pub(crate) fn written(&self) -> u64 {
        self.sent + self.unsent()
    }

    /// Takes the next bytes from the send stream for sending. They belong to one run, or to plain
    /// pieces.
    pub(crate) fn take(&mut self, len: u32) -> Checked<Span> {
        let span = Span {
            start: self.sent,
            len,
        };
        let mut left = len;
        let run = self.queue.front().and_then(|piece| piece.run);
        while left > 0 {
            let Some(piece) = self.queue.front_mut() else {
                return Err(Fault::new(format!(
                    "{left} bytes sent that no application wrote"
                )));
            };
            ensure!(piece.run == run, "bytes of two runs in one message");
            let part = left.min(piece.left);
            piece.left -= part;
            left -= part;
            if piece.left == 0 {
                self.queue.pop_front();
            }
        }
        self.sent = span.end();
        Ok(span)
    }

    /// The peer has read the next bytes by RDMA.
    pub(crate) fn taken(&mut self, run: RunId, len: u32) -> Checked {
        let front = self.queue.front().and_then(|piece| piece.run);
        ensure!(
            front == Some(run),
            "{run:?} is read and {front:?} is in front"
        );
        self.take(len)?;
        Ok(())
    }

    /// The rest of a run will not be sent.
    pub(crate) fn dropped(&mut self, run: RunId, len: u32) -> Checked {
        let found = self.queue.iter().position(|piece| piece.run == Some(run));
        let left = found.and_then(|at| self.queue.get(at)).map(|p| p.left);
        ensure!(
            left == Some(len),
            "{len} bytes of {run:?} are dropped and {left:?} were left"
        );
        let at = found.unwrap_or(0);
        let ahead: u64 = self.queue.iter().take(at).map(|p| u64::from(p.left)).sum();
        self.queue.remove(at);
        let place = self.sent + ahead;
        for mark in &mut self.urgent_written {
            if *mark > place {
                *mark -= u64::from(len);
            }
        }
        Ok(())
    }

    /// The place in the stream of a byte of a run of length `len`.
    pub(crate) fn place(&self, run: RunId, len: u32, offset: u32) -> Option<u64> {
        let at = self.queue.iter().position(|piece| piece.run == Some(run))?;
        let ahead: u64 = self.queue.iter().take(at).map(|p| u64::from(p.left)).sum();
        let gone = u64::from(len - self.queue.get(at)?.left);
        (self.sent + ahead + u64::from(offset)).checked_sub(gone)
    }

    pub(crate) fn on_written(&mut self, len: u32, urgent: bool) {
        self.queue.push_back(Piece {
            left: len,
            run: None,
        });
        if urgent && len > 0 {
            // A newer mark replaces one that was not sent.
            if self.urgent_written.back().is_some_and(|m| *m > self.sent) {
                self.urgent_written.pop_back();
            }
            self.urgent_written.push_back(self.written());
        }
    }

    pub(crate) fn on_run(&mut self, len: u32, run: RunId) {
        self.queue.push_back(Piece {
            left: len,
            run: Some(run),
        });
    }

    /// Whether the next bytes belong to a run.
    pub(crate) fn next_is_run(&self) -> bool {
        self.queue.front().is_some_and(|piece| piece.run.is_some())
    }

    /// The last run that was written.
    pub(crate) fn last_run(&self) -> Option<RunId> {
        self.queue.iter().rev().find_map(|piece| piece.run)
    }

    /// Checks that arriving bytes are the next ones of the peer's stream.
    fn arrive(&mut self, span: Span) -> Checked {
        ensure!(!self.eof, "bytes from {} on after the end", span.start);
        ensure!(
            span.start == self.delivered,
            "bytes from {} on are delivered at {}",
            span.start,
            self.delivered
        );
        self.delivered = span.end();
        Ok(())
    }

    /// Bytes arrive in a receive buffer.
    pub(crate) fn deliver(&mut self, span: Span, urgent: bool) -> Checked {
        self.arrive(span)?;
        self.unread.push_back(span);
        if urgent {
            self.urgent_received.push_back(self.delivered);
        }
        Ok(())
    }

    /// Bytes arrive in the application's memory.
    pub(crate) fn place_directly(&mut self, span: Span) -> Checked {
        self.arrive(span)?;
        self.read += u64::from(span.len);
        Ok(())
    }

    /// Reads one piece completely.
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
