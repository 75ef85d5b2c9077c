// SPDX-License-Identifier: GPL-2.0

//! Bytes that go from the memory of one program to that of another without a
//! copy: the shell's half. The engine says when; here is with what.
//!
//! [`source`] keeps what a send() has offered to the peer, [`sink`] what a
//! recv() reads of the peer's offers, or has offered to be written; both belong
//! to the link, so that nothing is unpinned while a queue pair or a peer can
//! still get at it. [`send`], [`recv`] and [`offer`] are the system calls' part:
//! they pin, wait, and give up; [`room`] is what the latter two share. Who does
//! not wait is told later, by a [`notice`]. What [`keep`] keeps registered after
//! its use is the exception: not by default.
//!
//! Locks: `source` and `sink` are under the endpoint's lock.

mod keep;
pub(crate) mod notice;
pub(crate) mod offer;
pub(crate) mod recv;
mod room;
pub(crate) mod send;
pub(crate) mod sink;
pub(crate) mod source;

use crate::{
    endpoint::Inner,
    engine::{
        conn::Why,
        policy::offering::Habit, //
    },
    ffi,
    net::stats::Traffic,
    sock::Sock, //
};
use kernel::prelude::*;

/// What the system calls and the link have to tell each other.
#[derive(Default)]
pub(crate) struct Turns {
    /// A send() has offered memory and waits. Other writers wait for it.
    pub(crate) sending: bool,
    /// A recv() has pinned memory and waits. Other readers wait for it.
    pub(crate) reading: bool,
    /// Runs of the send() of now whose memory is not free again.
    pub(crate) source_pins: u32,
    /// Regions that Reads write to and that are not free again.
    pub(crate) sink_pins: u32,
    /// Bytes that were offered by the send() of now and taken out of the stream
    /// again.
    pub(crate) dropped: u32,
    /// Bytes that are in the memory of the recv() of now.
    pub(crate) filled: u32,
    /// Whether readers offer their memory.
    pub(crate) habit: Habit,
}

impl Inner {
    /// A link is gone, and with it what it had pinned.
    pub(crate) fn on_unpinned(&mut self, source: u32, sink: u32) {
        let turns = &mut self.turns;
        turns.source_pins = turns.source_pins.saturating_sub(source);
        turns.sink_pins = turns.sink_pins.saturating_sub(sink);
        self.wake().settled = true;
    }

    /// Bytes that the peer offers to be read; none while a reader is at it.
    pub(crate) fn remote_len(&self) -> u64 {
        if self.turns.reading {
            return 0;
        }
        self.engine.as_ref().map_or(0, |engine| engine.remote_len())
    }
}

impl Sock {
    /// An offer to be read is over.
    pub(crate) fn count_return(&self, why: Why) {
        if let Some(which) = Traffic::of_return(why) {
            self.count(which, 1);
        }
    }

    /// A call with something offered gives up, with `reason`.
    fn count_cancel(&self, reason: Error) {
        // SAFETY: Plain question about the current task.
        if unsafe { ffi::sdp_fatal_signal_pending() } {
            self.count(|t| &t.cancels_by_kill, 1);
        } else if reason == EAGAIN {
            self.count(|t| &t.cancels_by_timeout, 1);
        } else {
            self.count(|t| &t.cancels_by_signal, 1);
        }
    }

    /// From which length on a send() goes without a copy; 0 for never.
    pub(crate) fn source_threshold(&self) -> u32 {
        self.look(|inner| inner.options.zcopy_source)
            .unwrap_or_else(|| self.net().knobs().zcopy_thresh)
    }

    /// From which length on a recv() offers its memory; 0 for never, and for
    /// readers' memory that nobody but the kernel writes to.
    pub(crate) fn sink_threshold(&self) -> u32 {
        self.look(|inner| inner.options.zcopy_sink)
            .unwrap_or_else(|| self.net().knobs().zcopy_thresh)
    }

    /// Whether anything is done without a copy.
    pub(crate) fn wants_zcopy(&self) -> bool {
        self.source_threshold() > 0 || self.sink_threshold() > 0
    }
}
