// SPDX-License-Identifier: GPL-2.0

//! The offers of a reader to the peer, from the SinkAvail to the end: what the engine and
//! completions change.
//!
//! Locks: under the endpoint's lock.

use crate::{
    endpoint::Inner,
    engine::conn::{
        Mode,
        SinkBuffer,
        SinkEnd,
        SinkId,
        SinkWhy, //
    },
    object::Sock,
    prelude::*,
    rdma::region::Region,
    trace::{
        self,
        Life,
        Path, //
    }, //
};

impl Inner {
    /// Takes the turn to read for an offer of up to `len` bytes, if one is possible. If
    /// only the mode prevents it, asks the peer to change that.
    pub(super) fn begin_to_offer(&mut self, len: usize) -> Option<u32> {
        let ready = !self.turns.read.is_taken() && self.can_read_on();
        let region_pages = self.region_pages()?;
        let engine = self.engine.as_mut()?;
        if !ready || !engine.peer().pipelined {
            return None;
        }
        if engine.receive_mode() != Mode::Pipelined {
            engine.set_req_pipe(true);
            return None;
        }
        let long = len as u64 >= engine.sink_len_min().into();
        if engine.sink_room() == 0 || !long || !self.turns.read.wants_to_offer() {
            return None;
        }
        let generation = self.generation();
        self.turns.read.take(generation);
        Some(region_pages)
    }

    /// Registers `region` and offers it; takes it on success.
    pub(super) fn offer_buffer(&mut self, region: &mut Option<Region>) -> Result {
        let ready = self.can_read_on();
        let (Some(link), Some(engine)) = (self.link.as_mut(), self.engine.as_mut()) else {
            return Err(EPIPE);
        };
        if !ready {
            return Err(EAGAIN);
        }
        link.reserve_register()?;
        let lent = link.lend(region.take().ok_or(EINVAL)?);
        let lent = lent.map_err(|given| {
            *region = Some(given);
            EAGAIN
        })?;
        let buffer = SinkBuffer {
            len: lent.len(),
            r_key: lent.key(),
            va: lent.start(),
        };
        let Ok(id) = engine.offer_sink(buffer) else {
            *region = link.take_back(lent);
            return Err(EAGAIN);
        };
        // Posted before the offer, which leaves when the engine is polled next.
        if link.register(&lent).is_err() {
            engine.handle_link_failed();
        }
        link.sink.begin_offer(id, lent);
        self.turns.read.pin();
        Ok(())
    }

    /// The peer has written to the offer, or ended it by a message.
    pub(crate) fn on_sink_end(&mut self, sock: &Sock, end: SinkEnd) {
        if end.len > 0 {
            sock.count(|t| &t.sinks_used, 1);
            sock.count(|t| &t.written_bytes_received, end.len);
            trace::receive(self.of(sock), end.len, Path::Written);
            trace::advert(self.of(sock), true, Life::Used, end.len);
            self.turns.read.on_offer_used(end.len);
            self.recv.pass(end.len);
        } else {
            sock.count(|t| &t.sinks_discarded, 1);
            trace::advert(self.of(sock), true, Life::Unused, 0);
            self.turns.read.on_offer_wasted();
        }
        self.close_offer(sock, end.sink, false);
    }

    /// The offer has ended unused.
    pub(crate) fn on_sink_returned(&mut self, sock: &Sock, sink: SinkId, why: SinkWhy) {
        sock.count(|t| &t.sinks_returned, 1);
        let life = if why == SinkWhy::Over {
            Life::Over
        } else {
            Life::Returned
        };
        trace::advert(self.of(sock), true, life, 0);
        self.close_offer(sock, sink, why == SinkWhy::Over);
    }

    fn close_offer(&mut self, sock: &Sock, sink: SinkId, over: bool) {
        if let Some(link) = self.link.as_mut() {
            link.sink.on_offer_over(sink, over);
        }
        self.tend_offer(sock);
    }

    /// Invalidates the key of an offer that has ended.
    pub(crate) fn tend_offer(&mut self, sock: &Sock) {
        let (Some(link), Some(engine)) = (self.link.as_mut(), self.engine.as_mut()) else {
            return;
        };
        let Some(key) = link.sink.due() else {
            return;
        };
        if link.reserve_revoke().is_err() {
            sock.refill_soon();
            return;
        }
        link.sink.on_revoking();
        if link.revoke(key).is_err() {
            engine.handle_link_failed();
        }
    }

    /// `Some` when the peer can no longer write to the reader's memory; `done` gets its
    /// region.
    pub(super) fn end_offer(&mut self, done: &mut Option<Region>) -> Option<bool> {
        if !self.turns.read.is_pinned() {
            return Some(true);
        }
        let link = self.link.as_mut()?;
        if !link.sink.is_offer_ended() {
            return None;
        }
        *done = Some(link.take_sink()?);
        link.sink.end_offer();
        self.turns.read.unpin();
        Some(true)
    }
}
