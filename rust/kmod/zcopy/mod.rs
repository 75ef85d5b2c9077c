// SPDX-License-Identifier: GPL-2.0

//! Zero copy from the memory of one program to another program's: the shell's half. The
//! engine decides when; this module provides the memory.
//!
//! [`source`] holds the memory that a send() has offered to the peer. [`sink`] holds
//! the memory that a recv() reads the peer's offers into, or has offered for writing.
//! Both belong to the link, so nothing is unpinned while a queue pair or a peer can
//! still access it. [`send`], [`recv`] and [`offer`] are the system calls' part: they
//! pin, wait, and give up; [`room`] is code that the latter two share. [`runs`], [`reads`] and
//! [`offers`] are what happens meanwhile, under the endpoint's lock. A [`notice`]
//! tells a caller that does not wait. [`borrow`] and [`lender`] are for callers that are
//! told by a counter; [`ahead`] and [`promise`] are the same for readers, and the
//! counters are in a [`place`] of the program. [`turns`] says which call is at work.
//! [`pinning`] asks the translation cache.
//!
//! Locks: `source` and `sink` are under the endpoint's lock.
//!
//! # The source of bytes
//!
//! A send() that may block, with a segment of at least the threshold, pins up to 1 MiB and takes a
//! region from the device's pool. Under the endpoint's lock it posts the registration and gives the
//! run to the engine, and the SrcAvail follows. Up to four runs of one call are outstanding
//! (Pipelined, if the peer can). The call sleeps until its runs have ended: the bytes have left the
//! stream, the key is invalidated, and no SEND gathers from the pages.
//!
//! Bytes that the peer does not read are gathered as Data from the same pages: bytes that it
//! requests as Data (SendSm), bytes that are recalled after a second without progress, and bytes
//! that are not offered because the peer has read nothing recently (`policy/offering.rs`). If the
//! peer offers room (SinkAvail), the bytes are written there in one RDMA Write. If offers have
//! crossed twice, the next SrcAvail waits for the SinkAvail (`policy/holding.rs`).
//!
//! A call does not wait for a peer that has neither an offer of it nor a buffer for its bytes
//! (`Connection::awaits_buffers`), if all that is left of it has room in SO_SNDBUF
//! (`Inner::takes_rest`). Its runs are copied to pages of the socket then, in their place in the
//! stream, and end. A call that begins while this holds offers nothing and copies.
//!
//! A signal, the end of SO_SNDTIMEO, or a kill takes the runs back: the engine sends SrcAvailCancel,
//! and the call waits uninterruptibly, for at most five seconds by the engine's timer. As many bytes
//! as SO_SNDBUF has room for are copied then, and the others are withdrawn. No other
//! call queues bytes meanwhile (`Turns::write`), so a call can always be withdrawn. Such waits
//! use `Sock::settled`, because wake-ups of a socket's queue do not reach uninterruptible sleepers.
//!
//! *Lent memory* (MSG_ZEROCOPY, SEND_ZC) makes the same runs without a wait. The run holds a
//! `Notice`, a reference to the core's `ubuf_info`, and drops it at its end. Such a run is never
//! withdrawn and outlives the call and the process. If no run can be queued, the bytes are copied
//! and the notice says so. A notice may drop the last reference to the socket, so it is delivered
//! after the lock (`Wake`), or by the reaper.
//!
//! *Borrowed memory* (SDP_BORROW) is reported by a counter in the program's memory. Only pages that
//! belong to one mapping of one program are borrowed (`rust_count_borrowable`): anonymous,
//! exclusive, without a pin of others. A cancel (`Inner::cut`) recalls all offers, and the bytes
//! that are left are copied to pages of the socket (`SendQueue::copy_pinned`). A `Lender` counts
//! one connection; a second connection gets EBUSY from `Lender::begin`, and copies.
//!
//! # The sink of bytes
//!
//! A recv() that may block, with room for at least two pages and no local bytes before the bytes
//! that the peer offers, pins its pages and registers them for its own use only. RDMA Reads go
//! there, up to four in flight. Then the program's list of pages is looked up again and compared
//! (`UserPages::deliver`), unless the translation cache knows that nothing has changed:
//!
//! | the program has | result |
//! |---|---|
//! | the same pages | the bytes are delivered |
//! | other pages by now | the bytes are copied to those |
//! | no pages there any more | the call ends there (or with EFAULT), and the rest waits for the next reader |
//! | the same pages in another order (mremap) | the bytes first move to buffers of the kernel |
//!
//! Other readers wait meanwhile (`Turns::read`). If the reader is killed, or another
//! thread of its program calls exec(), the bytes in flight are put back for others with the socket. The
//! connection ends if they do not come within a second. On rxe a Read counts only when a second Read of
//! its last byte has completed (`Link::reads_of`). The number of simultaneous Reads is the
//! minimum of four, of the device's limit, and of the values in REQ and REP (`ReadDepths`).
//!
//! *Sink offers.* A recv() that waits, of at least the threshold, on a connection in Pipelined
//! mode, with no bytes here and no offer of the peer, registers its pages for writing and offers
//! them (SinkAvail, one at a time), until the peer has written and says so, or has sent a message,
//! which uses the offer up. If small messages use up the offers, offers become rarer
//! (`policy/offering.rs`).
//!
//! # Keys and pins
//!
//! Runs and regions belong to the link, not to the system call: pages are unpinned only after the
//! invalidation has completed, or after the queue pair and the region are destroyed. Memory that is
//! registered for writing was pinned for writing (`Region::new`). Keys are never used twice in a
//! row and change by random steps; addresses are random except for the offset in the page
//! (`Mr::disguise`). Registrations for our own Reads are useless to a peer; they stay in place, and
//! the next user invalidates them.
//!
//! Regions are limited by `zcopy_regions`, pinned bytes by RLIMIT_MEMLOCK of the user. All pins are
//! FOLL_LONGTERM, because the peer decides about the end of the wait. Memory that cannot be pinned
//! that way (files mapped for writing) is copied. Memory that is used again stays pinned in the translation cache
//! (`rdma/translations.rs`); its key ends with each use.

pub(crate) mod ahead;
pub(crate) mod borrow;
pub(crate) mod lender;
pub(crate) mod notice;
pub(crate) mod offer;
mod offers;
mod pinning;
mod place;
pub(crate) mod promise;
mod reads;
pub(crate) mod recv;
pub(crate) mod room;
mod runs;
pub(crate) mod send;
pub(crate) mod sink;
pub(crate) mod source;
mod tally;
pub(crate) mod turns;

use crate::{
    endpoint::Inner,
    engine::{
        conn::Why,
        policy::{
            copying::{
                self,
                Cause, //
            },
            threshold::{
                self,
                Threshold, //
            }, //
        },
    },
    net::{
        option::OptionValue,
        task::is_killed, //
    },
    netns::stats::Traffic,
    object::Sock,
    prelude::*, //
};
use kernel::transmute::FromBytes;

/// Shorter reads are not worth pinning pages.
const READ_LEAST: usize = 8 << 10;

/// Whether a program may lend memory, or receive ahead, in pieces of at least `least` bytes; 0 is never.
fn is_least(least: u32) -> bool {
    least == 0 || (threshold::LEAST..=1 << 20).contains(&least)
}

/// Reads the value of an option; every bit pattern is a valid `T`.
fn read_value<T: FromBytes + Zeroable>(value: OptionValue<'_>) -> Result<T> {
    let mut to: T = pin_init::zeroed();
    let len = core::mem::size_of::<T>();
    // SAFETY: So many bytes, which are initialised, and may have any values, by the bound.
    value.read(unsafe { core::slice::from_raw_parts_mut((&raw mut to).cast(), len) })?;
    Ok(to)
}

impl Inner {
    /// A link has been destroyed and its memory unpinned.
    pub(crate) fn on_unpinned(&mut self, source: u32, sink: bool) {
        self.turns.write.unpin(source);
        if sink {
            self.turns.read.unpin();
        }
        self.wake().settled = true;
    }

    /// Bytes that the peer offers to be read; none while a reader reads them.
    pub(crate) fn remote_len(&self) -> u64 {
        if self.turns.read.is_taken() {
            return 0;
        }
        self.engine.as_ref().map_or(0, |engine| engine.remote_len())
    }

    /// Whether a reader with `room` may get bytes from the peer's memory, or have the peer
    /// write to its own. Nothing else has to be asked for a connection without zero copy, nor
    /// for a short read.
    pub(crate) fn may_read_remote(&self, sock: &Sock, room: usize) -> bool {
        let is_zcopy = self.link.as_ref().is_some_and(|link| link.is_zcopy());
        let is_long = || room >= READ_LEAST || self.sink_threshold(sock).least_of(room as u64) > 0;
        is_zcopy && is_long() || self.remote_len() > 0
    }

    /// Why all that is sent is copied; none if it is not.
    pub(crate) fn copies_all(&self, sock: &Sock) -> Option<Cause> {
        let (link, engine) = (self.link.as_ref()?, self.engine.as_ref()?);
        let (own, common) = (self.options.zcopy_source, sock.net().zcopy_thresh());
        copying::of_all(link.copied, engine.peer().pipelined, own, common)
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

    /// Counts `n` bytes that are copied for `cause`.
    pub(crate) fn count_copied(&self, cause: Cause, n: u32) {
        let stats = &self.net().stats;
        match cause {
            // All others; no call of less than a page pays for a count.
            Cause::Short => {}
            Cause::Off => stats.copied_off_bytes.add(n),
            Cause::Excepted => stats.copied_excepted_bytes.add(n),
            Cause::Device => stats.copied_device_bytes.add(n),
            Cause::Peer => stats.copied_peer_bytes.add(n),
            Cause::NoWait => self.count(|t| &t.copied_nowait_bytes, n),
            Cause::Memory => self.count(|t| &t.copied_memory_bytes, n),
            Cause::Limit => self.count(|t| &t.copied_limit_bytes, n),
            Cause::Busy => self.count(|t| &t.copied_busy_bytes, n),
        }
    }

    /// Counts a call that gives up, with `reason`, while it has an offer outstanding.
    fn count_cancel(&self, reason: Error) {
        if is_killed() {
            self.count(|t| &t.cancels_by_kill, 1);
        } else if reason == EAGAIN {
            self.count(|t| &t.cancels_by_timeout, 1);
        } else if reason != EPIPE {
            self.count(|t| &t.cancels_by_signal, 1);
        }
    }

    /// Whether zero copy is on in either direction, with a peer that is `able` to take part as far
    /// as it has said. With another one it is on only if the program has said so.
    pub(crate) fn wants_zcopy(&self, able: bool) -> bool {
        self.look(|inner| {
            let options = &inner.options;
            let is_on = |own: Option<Threshold>| match own {
                Some(own) => own != Threshold::Off,
                None => able && self.net().zcopy_thresh() != Threshold::Off,
            };
            options.borrows || is_on(options.zcopy_source) || is_on(options.zcopy_sink)
        })
    }
}
