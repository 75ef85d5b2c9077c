// SPDX-License-Identifier: GPL-2.0

//! Which calls of a connection offer memory or read into it, and what they have got.
//!
//! Locks: under the endpoint's lock.

use crate::{
    engine::policy::offering::Habit,
    zcopy::{
        lender::Lender,
        promise::Promiser, //
    }, //
};
use kernel::sync::Arc;

/// State that the system calls and the link share.
#[derive(Default)]
pub(crate) struct Turns {
    /// A send() has offered memory and waits. Other writers wait for it.
    pub(crate) sending: bool,
    /// A recv() has pinned memory and waits, or was promised its bytes. Other readers wait for
    /// it.
    pub(crate) reading: bool,
    /// Promised bytes have not come.
    pub(crate) promised: bool,
    /// The call that was promised bytes waits for those behind them.
    pub(crate) tailing: bool,
    /// Runs of the current send() with memory that is still pinned.
    pub(crate) source_pins: u32,
    /// Regions of Reads that are still in use.
    pub(crate) sink_pins: u32,
    /// Bytes of the current send() behind those that it has offered.
    pub(crate) rest: usize,
    /// Bytes that the current send() offered and that were taken out of the stream
    /// again.
    pub(crate) dropped: u32,
    /// The generation of the connection on which the current recv() reads.
    pub(crate) generation: u64,
    /// Bytes that have arrived in its memory.
    pub(crate) filled: u32,
    /// Decides whether readers offer their memory.
    pub(crate) habit: Habit,
    /// The program that lends memory by SDP_BORROW.
    pub(crate) lender: Option<Arc<Lender>>,
    /// The program that receives ahead by SDP_AHEAD.
    pub(crate) promiser: Option<Arc<Promiser>>,
}

impl Turns {
    /// A recv() takes the turn to read into its memory, on the connection with this `generation`.
    pub(super) fn begin_reading(&mut self, generation: u64) {
        self.reading = true;
        self.filled = 0;
        self.generation = generation;
    }
}
