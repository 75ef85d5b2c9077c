// SPDX-License-Identifier: GPL-2.0

//! The calls of a connection that use zero copy now: one writer that has offered memory and one
//! reader that has pinned its own. Also their progress.
//!
//! Locks: under the endpoint's lock.

use crate::{
    engine::policy::offering::Habit,
    prelude::*,
    zcopy::{
        lender::Lender,
        promise::Promiser, //
    }, //
};
use kernel::sync::Arc;

/// State that the system calls and the link share.
#[derive(Default)]
pub(crate) struct Turns {
    pub(crate) write: WriteTurn,
    pub(crate) read: ReadTurn,
    /// The readers that the engine was told of.
    pub(super) readers: Readers,
    /// The program that lends memory by SDP_BORROW.
    pub(crate) lender: Option<Arc<Lender>>,
    /// The program that receives ahead by SDP_AHEAD.
    pub(crate) promiser: Option<Arc<Promiser>>,
}

/// The turn of a send() that has offered memory and waits. Other writers wait for it.
#[derive(Default)]
pub(crate) struct WriteTurn {
    taken: bool,
    /// Runs of the send() with memory that is still pinned.
    pins: u32,
    /// Bytes of the send() behind those that it has offered.
    rest: usize,
    /// Bytes that it offered and that were taken out of the stream again.
    dropped: u32,
}

impl WriteTurn {
    pub(crate) fn is_taken(&self) -> bool {
        self.taken
    }

    pub(super) fn take(&mut self) {
        self.taken = true;
        self.dropped = 0;
    }

    /// The send() ends. Returns the bytes that it offered and that were taken out of the stream.
    pub(super) fn give_back(&mut self) -> usize {
        self.taken = false;
        core::mem::take(&mut self.dropped) as usize
    }

    /// `len` bytes that were offered have been taken out of the stream.
    pub(crate) fn on_dropped(&mut self, len: u32) {
        self.dropped = self.dropped.saturating_add(len);
    }

    pub(super) fn is_pinned(&self) -> bool {
        self.pins > 0
    }

    pub(super) fn pin(&mut self, runs: u32) {
        self.pins = self.pins.saturating_add(runs);
    }

    pub(super) fn unpin(&mut self, runs: u32) {
        self.pins = self.pins.saturating_sub(runs);
    }

    pub(super) fn rest(&self) -> usize {
        self.rest
    }

    pub(super) fn set_rest(&mut self, rest: usize) {
        self.rest = rest;
    }
}

/// The number of waiting readers that could take the peer's offers, whether one of them has the turn
/// or not.
#[derive(Default)]
pub(crate) struct Readers(u32);

impl Readers {
    pub(super) fn come(&mut self) {
        self.0 = self.0.saturating_add(1);
    }

    /// One goes. Returns whether others stay.
    pub(super) fn go(&mut self) -> bool {
        self.0 = self.0.saturating_sub(1);
        self.0 > 0
    }
}

/// The turn of a recv() that has pinned memory and waits, or was promised its bytes. Other readers
/// wait for it.
#[derive(Default)]
pub(crate) struct ReadTurn {
    taken: bool,
    /// Promised bytes have not come.
    promised: bool,
    /// The call that was promised bytes waits for those behind them.
    tailing: bool,
    /// A region of Reads, or of an offer, is still in use.
    pinned: bool,
    /// The generation of the connection on which it reads.
    generation: u64,
    /// Bytes that have arrived in its memory.
    filled: u32,
    /// Decides whether readers offer their memory.
    habit: Habit,
}

impl ReadTurn {
    pub(crate) fn is_taken(&self) -> bool {
        self.taken
    }

    /// A recv() takes the turn to read into its memory, on the connection with this `generation`.
    pub(super) fn take(&mut self, generation: u64) {
        self.taken = true;
        self.filled = 0;
        self.generation = generation;
    }

    /// As `take`, for bytes that are promised. With `tailing` the call waits for others behind them.
    pub(super) fn take_for_promise(&mut self, generation: u64, tailing: bool) {
        self.take(generation);
        self.promised = true;
        self.tailing = tailing;
    }

    /// The recv() ends.
    pub(super) fn give_back(&mut self) {
        self.taken = false;
    }

    /// The promise has ended. The turn ends with it and with the wait for the bytes behind.
    pub(super) fn end_promise(&mut self) {
        self.promised = false;
        self.taken = self.tailing;
    }

    /// The wait for the bytes behind promised ones has ended.
    pub(super) fn end_tail(&mut self) {
        self.tailing = false;
        self.taken = self.promised;
    }

    pub(super) fn is_promised(&self) -> bool {
        self.promised
    }

    pub(super) fn is_tailing(&self) -> bool {
        self.tailing
    }

    pub(super) fn is_pinned(&self) -> bool {
        self.pinned
    }

    pub(super) fn pin(&mut self) {
        self.pinned = true;
    }

    pub(super) fn unpin(&mut self) {
        self.pinned = false;
    }

    pub(super) fn generation(&self) -> u64 {
        self.generation
    }

    pub(super) fn filled(&self) -> u32 {
        self.filled
    }

    pub(super) fn on_filled(&mut self, len: u32) {
        self.filled = self.filled.saturating_add(len);
    }

    /// Whether a reader offers its memory now.
    pub(super) fn wants_to_offer(&mut self) -> bool {
        self.habit.wants()
    }

    /// The peer has written `len` bytes to an offer.
    pub(super) fn on_offer_used(&mut self, len: u32) {
        self.habit.on_used();
        self.on_filled(len);
    }

    /// The peer has written nothing to it.
    pub(super) fn on_offer_wasted(&mut self) {
        self.habit.on_wasted();
    }
}

#[kunit_tests(sdp_readers)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_that_goes_leaves_the_others() {
        let mut readers = Readers::default();
        readers.come();
        readers.come();
        assert!(readers.go());
        readers.come();
        assert!(readers.go());
        assert!(!readers.go());
    }
}
