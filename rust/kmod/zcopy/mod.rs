// SPDX-License-Identifier: GPL-2.0

//! Zero copy from the memory of one program to that of another: the shell's half. The
//! engine decides when; this module provides the memory.
//!
//! [`source`] holds the memory that a send() has offered to the peer. [`sink`] holds
//! the memory that a recv() reads the peer's offers into, or has offered for writing.
//! Both belong to the link, so nothing is unpinned while a queue pair or a peer can
//! still access it. [`send`], [`recv`] and [`offer`] are the system calls' part: they
//! pin, wait, and give up; [`room`] is code that the latter two share. A [`notice`]
//! tells a caller that does not wait. [`borrow`] and [`lender`] are for callers that are
//! told by a counter; [`ahead`] and [`promise`] are the same for readers, and the
//! counters are in a [`place`] of the program. [`keep`] is the registration cache, off by default. [`tuning`] measures
//! calls where the connection decides for itself.
//!
//! Locks: `source` and `sink` are under the endpoint's lock.

pub(crate) mod ahead;
pub(crate) mod borrow;
mod keep;
pub(crate) mod lender;
pub(crate) mod notice;
pub(crate) mod offer;
mod place;
pub(crate) mod promise;
pub(crate) mod recv;
mod room;
pub(crate) mod send;
pub(crate) mod sink;
pub(crate) mod source;
mod tally;
pub(crate) mod tuning;

use crate::{
    endpoint::Inner,
    engine::{
        conn::Why,
        policy::{
            offering::Habit,
            threshold::Threshold, //
        },
    },
    ffi,
    netns::stats::Traffic,
    object::Sock,
    prelude::*,
    zcopy::{
        lender::Lender,
        promise::Promiser, //
    }, //
};
use kernel::sync::Arc;
use tuning::Tuning;

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
    /// Runs of the current send() whose memory is still pinned.
    pub(crate) source_pins: u32,
    /// Regions of Reads that are still in use.
    pub(crate) sink_pins: u32,
    /// Bytes that the current send() offered and that were taken out of the stream
    /// again.
    pub(crate) dropped: u32,
    /// Bytes that have arrived in the memory of the current recv().
    pub(crate) filled: u32,
    /// Decides whether readers offer their memory.
    pub(crate) habit: Habit,
    /// The current send() has offered memory.
    pub(crate) lent: bool,
    /// What the connection has learnt, if it decides for itself.
    pub(crate) tuning: Option<KBox<Tuning>>,
    /// The program that lends memory by SDP_BORROW.
    pub(crate) lender: Option<Arc<Lender>>,
    /// The program that receives ahead by SDP_AHEAD.
    pub(crate) promiser: Option<Arc<Promiser>>,
}

impl Inner {
    /// A link has been destroyed and its memory unpinned.
    pub(crate) fn on_unpinned(&mut self, source: u32, sink: u32) {
        let turns = &mut self.turns;
        turns.source_pins = turns.source_pins.saturating_sub(source);
        turns.sink_pins = turns.sink_pins.saturating_sub(sink);
        self.wake().settled = true;
    }

    /// Bytes that the peer offers to be read; none while a reader reads them.
    pub(crate) fn remote_len(&self) -> u64 {
        if self.turns.reading {
            return 0;
        }
        self.engine.as_ref().map_or(0, |engine| engine.remote_len())
    }

    /// Whether a reader with `room` may get bytes from the peer's memory, or have the peer
    /// write to its own. Nothing else has to be asked for a connection without zero copy, nor
    /// for a short read of one that decides for itself.
    pub(crate) fn may_read_remote(&self, sock: &Sock, room: usize) -> bool {
        let is_zcopy = self.link.as_ref().is_some_and(|link| link.is_zcopy());
        let offers =
            || room >= tuning::LEAST as usize || self.sink_threshold(sock) != Threshold::Auto;
        is_zcopy && offers() || self.remote_len() > 0
    }

    /// Which messages of send() go without a copy.
    pub(crate) fn source_threshold(&self, sock: &Sock) -> Threshold {
        let own = self.options.zcopy_source;
        own.unwrap_or_else(|| sock.net().zcopy_thresh())
    }

    /// Which room a recv() offers to the peer. With `Off` it offers none, and no RDMA goes to
    /// its memory: only the kernel writes to it.
    pub(crate) fn sink_threshold(&self, sock: &Sock) -> Threshold {
        let own = self.options.zcopy_sink;
        own.unwrap_or_else(|| sock.net().zcopy_thresh())
    }
}

impl Sock {
    /// Counts the end of an offer to be read.
    pub(crate) fn count_return(&self, why: Why) {
        if let Some(which) = Traffic::of_return(why) {
            self.count(which, 1);
        }
    }

    /// Counts a call that gives up, with `reason`, while it has an offer outstanding.
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

    /// As [`Inner::source_threshold`].
    pub(crate) fn source_threshold(&self) -> Threshold {
        self.look(|inner| inner.source_threshold(self))
    }

    /// Whether zero copy is on in either direction, with a peer that is `able` to take part
    /// as far as it has said. A connection that decides for itself needs such a peer.
    pub(crate) fn wants_zcopy(&self, able: bool) -> bool {
        let (of, borrows) = self.look(|inner| {
            let of = [inner.source_threshold(self), inner.sink_threshold(self)];
            (of, inner.options.borrows)
        });
        borrows
            || of.into_iter().any(|threshold| match threshold {
                Threshold::Off => false,
                Threshold::From(_) => true,
                Threshold::Auto => able,
            })
    }
}
