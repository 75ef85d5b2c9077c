// SPDX-License-Identifier: GPL-2.0

//! What a link sends: messages, RDMA Writes of payload, probes; what has completed; the times of
//! writes.
//!
//! Contexts: under the endpoint's lock.

use crate::{
    engine::{
        conn::RemoteSink,
        policy::pace::{
            Measure,
            Pace, //
        },
        wire::Header, //
    },
    link::{
        attendance::Attendance,
        Link,
        Load,
        Sent,
        Slot,
        Timed,
        TIMED_ONE_IN, //
    },
    prelude::*,
    queue::{
        RxBuffer,
        SendQueue, //
    },
    rdma::{
        cq::{
            self,
            Side, //
        },
        qp::send::Gather,
        send::Remote, //
    },
    zcopy::source::Source, //
};
use kernel::time::Instant;

/// Has `gather` take the next `len` bytes of `queue`, which lie in a program's memory or in
/// fragments of the socket, all of them.
fn load<C, T, S, const SLOT: usize>(
    gather: &mut Gather<'_, C, T, S, SLOT>,
    source: &mut Source,
    queue: &mut SendQueue,
    len: u32,
) -> Result<Load> {
    if len > 0 && queue.is_pinned() {
        let (lent, at) = source.place().ok_or(EINVAL)?;
        gather.lent(lent, at, len)?;
        queue.pass(len);
        source.on_gathered(len);
        return Ok(Load {
            bytes: len,
            extra: 0,
            pinned: true,
        });
    }
    let mut extra = 0u32;
    let mut left = len;
    while left > 0 {
        let frag = queue.take(left).ok_or(EINVAL)?;
        left = left.saturating_sub(frag.len);
        extra = extra.saturating_add(frag.extra);
        gather.fragment(frag.page, frag.offset, frag.len)?;
    }
    Ok(Load {
        bytes: len,
        extra,
        pinned: false,
    })
}

impl Link {
    /// Whether there is memory to post the next message of `queue`, or a Write of its bytes. May
    /// sleep.
    pub(crate) fn has_memory(&mut self, queue: &SendQueue) -> bool {
        let frags = queue.pieces(self.send_pieces);
        self.qp.reserve_sends(1, frags).is_ok()
    }

    /// Posts `header` and the next `payload_len` bytes of `queue`.
    pub(crate) fn send(
        &mut self,
        queue: &mut SendQueue,
        header: &Header,
        payload_len: u32,
        solicited: bool,
    ) -> Result {
        // So the slot for the header has no message in flight.
        if self.messages >= self.send_depth {
            return Err(ENOBUFS);
        }
        let before = self.qp.sends_in_flight();
        let mut gather = self.qp.gather();
        gather.header(header.as_bytes())?;
        let load = load(&mut gather, &mut self.source, queue, payload_len)?;
        self.untimed = self.untimed.saturating_sub(1);
        if self.timed.is_none() && self.untimed == 0 {
            self.untimed = TIMED_ONE_IN;
            self.timed = Some(Timed {
                before,
                since: Instant::now(),
            });
        }
        self.pacing.on_posted(payload_len, before);
        gather.send(Slot::Message(load), solicited)?;
        self.messages = self.messages.saturating_add(1);
        Ok(())
    }

    /// Posts a Write of the next `len` bytes of `queue`.
    pub(crate) fn write(&mut self, queue: &mut SendQueue, to: &RemoteSink, len: u32) -> Result {
        let mut gather = self.qp.gather();
        let load = load(&mut gather, &mut self.source, queue, len)?;
        let to = Remote {
            key: to.r_key,
            addr: to.va,
        };
        gather.write(Slot::Write(load), to)
    }

    /// Posts a keepalive probe, unless a request in flight will tell the same, or there is no memory
    /// for one.
    pub(crate) fn probe(&mut self) -> Result<bool> {
        if !self.is_send_idle() || self.qp.reserve_sends(1, 0).is_err() {
            return Ok(false);
        }
        self.qp.post_probe(Slot::Probe)?;
        self.messages = self.messages.saturating_add(1);
        Ok(true)
    }

    /// Whether every send has completed.
    pub(crate) fn is_send_idle(&self) -> bool {
        self.qp.sends_in_flight() == 0
    }

    /// The oldest request of the send queue, which has completed.
    pub(crate) fn take_sent(&mut self, sent: cq::Sent, attendance: &Attendance) -> Option<Sent> {
        let (slot, buffer) = self.qp.take_sent(sent)?;
        if let Some(timed) = self.timed.as_mut() {
            match timed.before.checked_sub(1) {
                Some(before) => timed.before = before,
                None => {
                    let us = timed.since.elapsed().as_micros_ceil();
                    self.round_trip
                        .on_measured(u32::try_from(us).unwrap_or(u32::MAX));
                    self.timed = None;
                }
            }
        }
        if self.pacing.is_timing() {
            self.pacing.on_completed(attendance.sent_ns());
        }
        match slot {
            Slot::Message(_) | Slot::Probe => self.messages = self.messages.saturating_sub(1),
            Slot::Register | Slot::Revoke(_) => self.chores = self.chores.saturating_sub(1),
            Slot::UnprovenRead | Slot::Read | Slot::Write(_) => {}
        }
        if let Slot::Message(load) | Slot::Write(load) = slot {
            if load.pinned {
                self.source.on_sent(load.bytes);
            }
        }
        Some(match slot {
            Slot::Message(load) => Sent::Message(load),
            Slot::Write(load) => Sent::Write(load),
            Slot::Probe => Sent::Probe,
            Slot::Register => Sent::Registered,
            Slot::Revoke(key) => Sent::Revoked(key),
            Slot::UnprovenRead => Sent::UnprovenRead,
            Slot::Read => Sent::Read(buffer.map(RxBuffer::from)),
        })
    }

    /// Number of runs and regions of waiting calls that this link keeps pinned.
    pub(crate) fn pins(&self) -> (u32, u32) {
        (self.source.awaited_len(), self.sink.pins())
    }
}

impl Link {
    /// Whether the time of a completion is wanted.
    pub(crate) fn is_timing(&self) -> bool {
        self.pacing.is_timing()
    }

    /// The link's speed, as measured.
    pub(crate) fn pace(&self) -> &Pace {
        self.pacing.pace()
    }

    /// A write is about to go in chunks, with nothing before it. Returns what its caller
    /// measures.
    pub(crate) fn begin_measure(&mut self) -> Measure {
        // A message without payload is in flight.
        if !self.is_send_idle() {
            return Measure::No;
        }
        self.pacing.begin()
    }

    /// The first chunk of such a write, `len` bytes, was copied in `copy` ns, and posted in
    /// `post` ns. An event tells when it has completed.
    pub(crate) fn on_first_chunk(&mut self, len: u32, copy: u64, post: u64) {
        self.pacing.on_first_chunk(len, copy, post);
        if self.sends_armed {
            return;
        }
        self.sends_armed = self.qp.arm(Side::Sends);
        if !self.sends_armed {
            // It has completed already, and no event says when, nor that it is to be taken.
            self.pacing.on_missed();
        }
    }

    /// A chunk of `len` bytes, twice as long, was copied and posted in `ns`.
    pub(crate) fn on_long_chunk(&mut self, len: u32, ns: u64) {
        self.pacing.on_long_chunk(len, ns);
    }

    /// The write has ended. `steady`: it never had to wait, and all of it is posted. Otherwise its
    /// time says nothing.
    pub(crate) fn end_measure(&mut self, steady: bool) {
        self.pacing.end(steady);
    }
}
