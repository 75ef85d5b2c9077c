// SPDX-License-Identifier: GPL-2.0

//! A write that goes in chunks, because nothing was in flight when it began: see
//! `engine/policy/chunk`.
//!
//! Contexts: system calls with `lock_sock`, which may sleep.

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
    /// Bytes of the current chunk that are not copied yet.
    left: u32,
    measure: Measure,
    /// The write has never waited.
    steady: bool,
    /// Time at which the copy of the first chunk began and ended.
    begun: i64,
    copied: i64,
    first: bool,
}

impl Inner {
    fn begin_chunks(&mut self, sock: &Sock, mode: Mode, len: u32) -> Option<Cut> {
        if self.engine.as_ref()?.unsent() > 0 {
            return None;
        }
        if self.send.charged() > 0 {
            // Nobody may have looked yet.
            self.on_batch(sock);
        }
        let most = self.engine.as_ref()?.chunk_most(len)?;
        let link = self.link.as_mut()?;
        let chunks = Chunks::begin(mode, link.pace(), len, most.into())?;
        let measure = match mode {
            Mode::Fitted => link.begin_measure(),
            Mode::Doubling | Mode::Fixed(_) | Mode::Whole => Measure::No,
        };
        Some(Cut {
            chunks,
            left: 0,
            measure,
            steady: true,
            begun: 0,
            copied: 0,
            first: true,
        })
    }
}

impl Cut {
    /// Bytes to copy next, of `left`.
    pub(super) fn next(&mut self, left: u32) -> u32 {
        if self.left == 0 {
            self.left = self.chunks.next(left);
        }
        self.left.min(left)
    }

    fn is_first_measured(&self) -> bool {
        self.first && self.measure == Measure::First
    }

    /// A copy begins.
    pub(super) fn on_copying(&mut self) {
        if self.is_first_measured() && self.begun == 0 {
            self.begun = now_ns();
        }
    }

    /// `n` bytes were copied. Returns whether the chunk is complete.
    pub(super) fn on_copied(&mut self, n: u32) -> bool {
        self.left = self.left.saturating_sub(n);
        if self.left == 0 && self.is_first_measured() {
            self.copied = now_ns();
        }
        self.left == 0
    }

    /// `n` bytes were handed over.
    pub(super) fn on_posted(&mut self, sock: &Sock, n: u32) {
        if self.left > 0 || !self.first {
            return;
        }
        if self.is_first_measured() {
            let copy = between(self.begun, self.copied);
            let post = between(self.copied, now_ns());
            sock.look(|inner| {
                if let Some(link) = inner.link.as_mut() {
                    link.on_first_chunk(n, copy, post);
                }
            });
        }
        self.first = false;
    }

    /// The write has to wait.
    pub(super) fn on_wait(&mut self) {
        self.steady = false;
    }
}

impl Sock {
    /// A write of `len` bytes begins, which are copied.
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

    /// It has ended; `whole`: with all its bytes.
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
