// SPDX-License-Identifier: GPL-2.0

//! As a sink without copies: the peer's SrcAvails, and buffers that we offer.
//!
//! rules: SRC, READ, SENDSM, SRCCANCEL, SINK, SINKCANCEL

use super::{Connection, Delivery, Ended, Mode, Output, Remote, SinkBuffer, SinkId, SinkWhy};
use crate::engine::{
    bcopy::rx::Payload,
    error::Refused,
    flow::credit::Need,
    policy::{
        patience::{self, Wait},
        pipeline,
    },
    wire::{avail::SrcAvail, Body, Flags, BSDH_LEN},
    zcopy::cancel::Cancel,
};

impl Connection {
    /// Bytes in the peer's memory that Reads may still be started for. They come
    /// behind everything that was delivered.
    pub fn remote_len(&self) -> u64 {
        self.held.remote_len()
    }

    /// The agreement of the two transports: the number of our Reads in flight, and
    /// whether the peer reads at all. Called before the first message.
    pub fn limit_reads(&mut self, depth: u8, peer_reads: bool) {
        let zcopy = &mut self.cfg.zcopy;
        zcopy.read_depth = zcopy.read_depth.min(depth);
        zcopy.read &= zcopy.read_depth > 0;
        zcopy.advertise &= peer_reads;
    }

    /// Bytes among these for which Reads can be started at once. The peer cannot take
    /// back what a Read was started for: it comes, or the connection ends. So a program may
    /// be told of these bytes before they are there.
    pub fn read_reach(&self) -> u64 {
        if self.close.has_failed() || self.is_over() {
            return 0;
        }
        self.held.reach(self.cfg.zcopy.read_depth)
    }

    /// The result that [`start_read`](Self::start_read) would have, without a
    /// limit.
    pub fn next_remote(&self) -> Option<Remote> {
        self.held.next_remote()
    }

    /// The next bytes in the peer's memory, at most `max`. The shell posts the RDMA
    /// Read now.
    pub fn start_read(&mut self, max: u32) -> Result<Remote, Refused> {
        if self.close.has_failed() || self.is_over() {
            return Err(Refused::Ended);
        }
        let remote = self.held.start_read(max, self.cfg.zcopy.read_depth)?;
        self.absence.on_reader();
        Ok(remote)
    }

    /// The next `first` bytes in the peer's memory, and the `second` ones behind them, of one
    /// SrcAvail. The shell posts both Reads now, in the order that it likes.
    pub fn start_split_read(
        &mut self,
        first: u32,
        second: u32,
    ) -> Result<(Remote, Remote), Refused> {
        if self.close.has_failed() || self.is_over() {
            return Err(Refused::Ended);
        }
        let depth = self.cfg.zcopy.read_depth;
        let remotes = self.held.start_split_read(first, second, depth)?;
        self.absence.on_reader();
        Ok(remotes)
    }

    /// The oldest RDMA Read has completed: its bytes are the next ones of the
    /// stream.
    pub fn handle_read_completed(&mut self) {
        let len = self.held.on_read_completed();
        //= spec: SEQ-5
        if self.held.reads() == 0 {
            self.window.thaw();
        }
        let stats = &mut self.stats;
        stats.read_bytes_received = stats.read_bytes_received.wrapping_add(len.into());
    }

    /// RDMA Reads that were started and have not completed.
    pub fn reads_in_flight(&self) -> u8 {
        self.held.reads()
    }

    /// Requests the rest of the peer's offers as Data. Reads in flight are
    /// completed first.
    pub fn decline(&mut self) {
        self.held.decline();
    }

    /// Tells whether a reader is waiting. While none is, an offer of the peer is
    /// declined after a time (`policy/absence`), or at once if both sides offer and no reader was seen
    /// meanwhile.
    pub fn set_reading(&mut self, on: bool) {
        self.reading = on;
        self.decline_if_stuck();
    }

    //= spec: SRC-7
    pub(super) fn decline_if_stuck(&mut self) {
        let own = self.runs.outstanding() > 0;
        self.duplex |= own && self.reading;
        let at_once = patience::declines_at_once(self.reading, own, self.duplex);
        if self.held.reads() == 0 && at_once {
            self.held.decline();
        }
    }

    //= spec: SRC-6
    pub(super) fn wants_decline_timer(&self) -> bool {
        !self.reading && self.held.reads() == 0 && self.held.remote_len() > 0
    }

    pub(super) fn on_decline_timeout(&mut self) {
        if self.absence.look() {
            // No reader came while we were writing, so none is expected the next
            // time.
            self.duplex &= self.runs.outstanding() == 0;
            self.held.decline();
        }
    }

    /// SrcAvail, checked and not void.
    pub(super) fn on_src_avail(&mut self, advert: SrcAvail, inline: u32, delivery: &mut Delivery) {
        // Bytes that come behind the SrcAvail's have no place any more.
        self.offers.end_unsent(u32::MAX);
        if self.held.remote_len() == 0 {
            self.absence.on_offered();
        }
        let held = self.held.on_src_avail(advert, inline);
        self.must(held);
        if held.is_err() {
            return;
        }
        if !self.cfg.zcopy.read {
            self.held.decline();
        }
        self.decline_if_stuck();
        if self.held.is_declining() {
            self.stats.src_avails_declined = self.stats.src_avails_declined.wrapping_add(1);
            return;
        }
        match self.received.on_payload() {
            Payload::Deliver => delivery.remote = advert.len.saturating_sub(inline),
            //= spec: DATA-4
            Payload::Unwanted => self.fail(Ended::Aborted),
        }
    }

    /// SrcAvailCancel, checked.
    pub(super) fn on_src_avail_cancel(&mut self) {
        self.stats.cancels_received = self.stats.cancels_received.wrapping_add(1);
        let cancelled = self.held.on_cancel();
        self.must(cancelled);
        //= spec: SEQ-5
        if self.held.is_cancelled() && self.held.reads() > 0 {
            self.window.freeze();
        }
    }

    /// The least length of a buffer that can be offered: the payload of any one
    /// message fits, also if the peer is about to hear of larger buffers, or fills those
    /// that were larger.
    pub fn sink_len_min(&self) -> u32 {
        let header = u32::try_from(BSDH_LEN).unwrap_or(u32::MAX);
        let longest = self.resize.posting().max(self.resize.longest());
        longest.saturating_sub(header)
    }

    /// How many buffers [`offer_sink`](Self::offer_sink) would take now.
    pub fn sink_room(&self) -> u8 {
        let excluded = !self.cfg.zcopy.write
            || self.modes.receive() != Mode::Pipelined
            || !self.held.is_empty()
            || self.offers.cancel != Cancel::No
            || self.received.is_finished()
            || self.received.is_closed();
        if excluded || self.close.has_failed() || self.is_over() {
            return 0;
        }
        // One is left for the SrcAvails of the other direction, or it could
        // wait for ever for a peer that waits for its bytes.
        let most = self.peer_adverts.saturating_sub(1);
        let room = most.saturating_sub(self.offers.len());
        room.min(self.offers.room())
    }

    /// Offers a buffer to be written. Its bytes come behind everything that was
    /// delivered, and behind the buffers offered before.
    pub fn offer_sink(&mut self, sink: SinkBuffer) -> Result<SinkId, Refused> {
        if self.close.has_failed() || self.is_over() {
            return Err(Refused::Ended);
        }
        //= spec: SINK-2
        let short = sink.len < self.sink_len_min() || sink.len == 0;
        if short || sink.va.checked_add(sink.len.into()).is_none() {
            return Err(Refused::BadRange);
        }
        if self.sink_room() == 0 {
            let busy = self.offers.len() > 0 && self.held.is_empty();
            return Err(if busy { Refused::Busy } else { Refused::NotNow });
        }
        self.offers.offer(sink.va, sink.r_key, sink.len)
    }

    /// Takes all offered buffers back. How each ends is told.
    pub fn cancel_sinks(&mut self) {
        if self.offers.cancel == Cancel::No {
            self.offers_wait = Wait::UNLIMITED;
        }
        self.offers_wait.limit();
        self.offers.cancel();
    }

    /// Whether a caller waits for the answer to a SinkAvailCancel, which may still lack a credit.
    pub fn awaits_sink_cancel(&self) -> bool {
        self.offers.cancel != Cancel::No
    }

    /// The answer to the peer's adverts, and to its cancels of them.
    pub(super) fn poll_advert_answer(&mut self) -> Option<Output> {
        if !self.may_send(self.control_need()) {
            return None;
        }
        //= spec: READ-5
        if let Some(len) = self.held.report(pipeline::REPORT_LEAST) {
            let output = self.send_control(Body::RdmaRdCompl(len));
            let reported = self.held.on_reported();
            self.must(reported);
            return Some(output);
        }
        //= spec: SENDSM-2
        //= spec: SENDSM-5
        if self.held.wants_send_sm() {
            let output = self.send_control(Body::SendSm);
            self.held.on_send_sm(self.credits.last_sent());
            self.stats.send_sms_sent = self.stats.send_sms_sent.wrapping_add(1);
            return Some(output);
        }
        //= spec: SINKCANCEL-4
        if self.targets.wants_cancel_ack() {
            self.targets.on_cancel_ack_sent();
            return Some(self.send_control(Body::SinkCancelAck));
        }
        None
    }

    /// Cancels of ours.
    pub(super) fn poll_cancel(&mut self) -> Option<Output> {
        if !self.may_send(self.control_need()) {
            return None;
        }
        //= spec: SRCCANCEL-10
        if self.runs.cancel.on_sent().is_ok() {
            self.runs_wait.on_sent();
            self.stats.cancels_sent = self.stats.cancels_sent.wrapping_add(1);
            return Some(self.send_control(Body::SrcAvailCancel));
        }
        if self.offers.cancel.on_sent().is_ok() {
            self.offers_wait.on_sent();
            self.stats.cancels_sent = self.stats.cancels_sent.wrapping_add(1);
            return Some(self.send_control(Body::SinkAvailCancel));
        }
        None
    }

    /// rules: SINK
    pub(super) fn poll_sink_avail(&mut self) -> Option<Output> {
        let advert = self.offers.next()?;
        let all = self
            .runs
            .outstanding()
            .saturating_add(self.offers.outstanding());
        //= spec: ADVERT-1
        //= spec: SINK-1
        let possible = all < self.peer_adverts
            && self.held.is_empty()
            && !self.window.is_frozen()
            && self.offers.cancel == Cancel::No
            && self.may_send(Need::Control);
        if !possible {
            return None;
        }
        let sent = self.offers.on_sent();
        self.must(sent);
        self.stats.sink_avails_sent = self.stats.sink_avails_sent.wrapping_add(1);
        Some(self.send(Body::SinkAvail(advert), Flags::default(), 0))
    }

    /// RdmaWrCompl, checked.
    pub(super) fn on_written_by_peer(&mut self, len: u32, delivery: &mut Delivery) {
        delivery.sink = self.offers.on_written(len);
        let stats = &mut self.stats;
        stats.written_bytes_received = stats.written_bytes_received.wrapping_add(len.into());
        if self.received.on_payload() == Payload::Unwanted {
            self.fail(Ended::Aborted);
        }
    }

    /// Everything that was lent or borrowed comes to its end with the
    /// connection.
    pub(super) fn end_adverts(&mut self) {
        //= spec: MR-2
        self.runs.on_over();
        self.offers.end(SinkWhy::Over);
        self.held.forget();
        self.targets.drop_all();
        self.window.thaw();
    }
}
