// SPDX-License-Identifier: GPL-2.0

//! A write that goes in chunks, because nothing was in flight when it began: see
//! `engine/policy/chunk`.
//!
//! Contexts: system calls with `lock_sock`, which may sleep.
//!
//! Each chunk is handed over as soon as it is copied, and travels while the next one is copied. Of
//! 32 writes two are measured (`link/pace.rs`): of one the first chunk, of the other a long chunk
//! until all of it has completed; all of the first sixteen are. To Nagle's rule chunks are parts of
//! the messages that the write would have filled. There are no chunks where the peer has granted
//! few credits, where a buffer is offered, and before the peer was asked for larger buffers.

use crate::{
    endpoint::Inner,
    engine::policy::{
        chunk::{
            Chunks,
            Mode,
            LEAST, //
        },
        pace::Measure,
    },
    ffi,
    link::{
        attendance::now_ns,
        between, //
    },
    object::Sock, //
};

/// Flags of a write that is never cut: more bytes follow, the last one is urgent, or its pages
/// are not copied.
const UNCUT: u32 = ffi::MSG_MORE | ffi::MSG_OOB | ffi::MSG_SPLICE_PAGES;

/// See the module.
pub(super) struct Cut {
    chunks: Chunks,
    /// Bytes of the current chunk, and the ones that are not copied yet.
    len: u32,
    left: u32,
    /// Bytes of the first chunk, when it has gone.
    first: u32,
    measure: Measure,
    /// The write has never waited.
    steady: bool,
    /// The measured chunk: whether it has gone, and when its copy began and ended.
    done: bool,
    begun: i64,
    copied: i64,
}

impl Inner {
    fn begin_chunks(&mut self, sock: &Sock, mode: Mode, len: u32) -> Option<Cut> {
        if self.engine.as_ref()?.unsent() > 0 {
            return None;
        }
        if self.send.charged() > 0 {
            // Perhaps no thread has looked yet.
            self.on_batch(sock);
        }
        let most = self.engine.as_ref()?.chunk_most(len)?;
        let link = self.link.as_mut()?;
        let chunks = Chunks::begin(mode, link.pace(), len, most)?;
        let measure = match mode {
            Mode::Fitted => link.begin_measure(),
            Mode::Doubling | Mode::Fixed(_) | Mode::Whole => Measure::No,
        };
        Some(Cut {
            chunks,
            len: 0,
            left: 0,
            first: 0,
            measure,
            steady: true,
            done: measure == Measure::No,
            begun: 0,
            copied: 0,
        })
    }
}

impl Cut {
    /// Bytes to copy next, of `left`.
    pub(super) fn next(&mut self, left: u32) -> u32 {
        if self.left == 0 {
            self.len = self.chunks.next(left);
            self.left = self.len;
        }
        self.left.min(left)
    }

    /// Whether the current chunk is the one that is timed.
    fn is_timed(&self) -> bool {
        !self.done
            && match self.measure {
                Measure::No => false,
                Measure::First => self.first == 0,
                Measure::All => self.first > 0 && self.len >= self.first.saturating_mul(2),
            }
    }

    /// A copy begins.
    pub(super) fn on_copying(&mut self) {
        if self.left == self.len && self.is_timed() {
            self.begun = now_ns();
        }
    }

    /// `n` bytes were copied. Returns whether the chunk is complete.
    pub(super) fn on_copied(&mut self, n: u32) -> bool {
        self.left = self.left.saturating_sub(n);
        if self.left == 0 && self.is_timed() {
            self.copied = now_ns();
        }
        self.left == 0
    }

    /// The copied bytes were handed to the engine.
    pub(super) fn on_posted(&mut self, sock: &Sock) {
        if self.left > 0 {
            return;
        }
        if self.is_timed() {
            self.done = true;
            self.tell(sock);
        }
        if self.first == 0 {
            self.first = self.len;
        }
    }

    fn tell(&self, sock: &Sock) {
        let copy = between(self.begun, self.copied);
        let post = between(self.copied, now_ns());
        sock.look(|inner| {
            let Some(link) = inner.link.as_mut() else {
                return;
            };
            if self.measure == Measure::First {
                link.on_first_chunk(self.len, copy, post);
            } else {
                link.on_long_chunk(self.len, copy.saturating_add(post));
            }
        });
    }

    /// The write has to wait.
    pub(super) fn on_wait(&mut self) {
        self.steady = false;
        // The time of the chunk has a wait in it.
        self.done = true;
    }
}

impl Sock {
    /// A write begins, which copies its `len` bytes. Returns how it is cut, if it is.
    pub(super) fn begin_chunks(&self, len: usize, flags: u32) -> Option<Cut> {
        if len <= LEAST as usize || flags & UNCUT != 0 {
            return None;
        }
        let mode = self.net().chunk();
        if mode == Mode::Whole {
            return None;
        }
        let len = u32::try_from(len).unwrap_or(u32::MAX);
        self.visit(|inner| inner.begin_chunks(self, mode, len))
    }

    /// The write has ended; `whole`: with all its bytes.
    pub(super) fn end_chunks(&self, cut: Option<Cut>, whole: bool) {
        let Some(cut) = cut.filter(|cut| cut.measure != Measure::No) else {
            return;
        };
        self.look(|inner| {
            let posted = inner.engine.as_ref().is_some_and(|e| e.unsent() == 0);
            if let Some(link) = inner.link.as_mut() {
                link.end_measure(whole && cut.steady && posted);
            }
        });
    }
}
