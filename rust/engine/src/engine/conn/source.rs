// SPDX-License-Identifier: GPL-2.0

//! The source side of zero copy: runs, and the sink's answers about them.
//!
//! rules: SRC, READ, SENDSM, SRCCANCEL, SINK, MODE

use super::{Connection, Ended, Mode, Output, PeerTraits, Run, RunId};
use crate::engine::{
    bcopy::tx::SendStream,
    error::Refused,
    flow::credit::Need,
    policy::{patience::Wait, pipeline},
    types::Mseq,
    wire::{
        avail::SinkAvail,
        mode::{Half, ModeChange},
        Body,
    },
    zcopy::{cancel::Cancel, run::Notice},
};

impl Connection {
    /// Puts registered bytes behind everything that was queued.
    pub fn queue_run(&mut self, run: Run) -> Result<RunId, Refused> {
        self.check_send_open()?;
        if !self.cfg.zcopy.advertise {
            return Err(Refused::NotNow);
        }
        // One byte inline and one that is not.
        if run.len < 2 || run.va.checked_add(run.len.into()).is_none() {
            return Err(Refused::BadRange);
        }
        let before = self.stream.unsent();
        before.checked_add(run.len).ok_or(Refused::TooMuch)?;
        let id = self
            .runs
            .queue(run.va, run.r_key, run.len, run.inline, before)?;
        self.stream.queue(run.len, false, false)?;
        // A rest in front of it is not held back, and it is no rest itself.
        self.stream.push();
        Ok(id)
    }

    /// How many runs [`queue_run`](Self::queue_run) would take now.
    pub fn run_room(&self) -> u8 {
        if !self.cfg.zcopy.advertise || self.send_closed() {
            return 0;
        }
        self.runs.room()
    }

    /// Whether a SrcAvail may wait for a SinkAvail that would make it void. It `may` while a thread
    /// of the program looks for messages; when that ends, the caller says so, however it ends.
    /// Returns whether one has waited and goes now.
    pub fn hold_offers(&mut self, may: bool) -> bool {
        self.holding.allow(may)
    }

    /// Takes all offers back, because the caller wants its memory. The rest of every run goes as
    /// Data.
    pub fn recall(&mut self) {
        self.limit_wait();
        self.take_back();
    }

    /// Whether the next bytes wait for a program that does not read: the peer has no buffer for
    /// them, and no offer of ours.
    pub fn awaits_buffers(&self) -> bool {
        self.state.is_connected()
            && !self.credits.allow(Need::Payload)
            && self.targets.is_empty()
            && self.runs.outstanding() == 0
    }

    /// Offers no run that waits for its turn, because the caller copies them. The rest of each goes
    /// as Data.
    pub fn copy_queued(&mut self) {
        self.runs.copy_queued();
    }

    /// The caller has copied the next `len` bytes of a run that was returned. They are as if queued
    /// by [`queue`](Self::queue), so [`withdraw`](Self::withdraw) does not concern them.
    pub fn on_copied(&mut self, run: RunId, len: u32) -> Result<(), Refused> {
        self.runs.on_copied(run, len)
    }

    /// The caller wants memory of runs back.
    fn limit_wait(&mut self) {
        self.renew_wait();
        self.runs_wait.limit();
    }

    /// The last message that the peer can have received, when it says `acked`: while a cancel is not
    /// resolved it may hold its acknowledgement back.
    pub(super) fn received(&self, acked: Mseq) -> Mseq {
        //= spec: RESIZE-7
        match self.runs.cancel {
            Cancel::Sent => self.credits.last_sent(),
            Cancel::No | Cancel::Wanted => acked,
        }
    }

    /// The next withdrawal has its own limit, whatever was taken back before.
    pub(super) fn renew_wait(&mut self) {
        if self.runs.cancel == Cancel::No {
            self.runs_wait = Wait::UNLIMITED;
        }
    }

    /// Takes all offers back, because the peer does not read.
    pub(super) fn take_back(&mut self) {
        self.advert_window = pipeline::shrunk();
        self.runs.recall();
    }

    /// Takes a run, and every run behind it, out of the stream, and takes back
    /// their offers; [`Output::Returned`] reports when that is complete.
    pub fn withdraw(&mut self, run: RunId) -> Result<(), Refused> {
        self.limit_wait();
        let unsent = self.stream.unsent();
        let stream = &mut self.stream;
        self.runs.withdraw(run, unsent, lost(stream))
    }

    /// The oldest RDMA Write has completed.
    pub fn handle_write_completed(&mut self) {
        if self.targets.on_write_completed() {
            self.close_progress();
        }
    }

    /// The mode of our direction.
    pub fn send_mode(&self) -> Mode {
        self.modes.send()
    }

    /// The mode of the peer's direction.
    pub fn receive_mode(&self) -> Mode {
        self.modes.receive()
    }

    /// Asks for Pipelined mode of our direction, in which no bytes are inline and
    /// several runs are offered at a time. It is announced when nothing that is
    /// outstanding stands against it.
    pub fn request_pipelined(&mut self) -> Result<(), Refused> {
        //= spec: ADVERT-3
        if !self.peer().pipelined {
            return Err(Refused::NotNow);
        }
        self.check_send_open()?;
        self.modes.want_pipelined();
        Ok(())
    }

    /// Whether we ask the peer's source for Pipelined mode.
    pub fn set_req_pipe(&mut self, on: bool) {
        self.modes.req_pipe = on;
    }

    /// Known properties of the peer.
    pub fn peer(&self) -> PeerTraits {
        PeerTraits {
            max_adverts: self.peer_adverts,
            pipelined: self.peer_adverts > 1 && self.cfg.max_adverts > 1,
        }
    }

    /// RdmaRdCompl about an outstanding advert.
    pub(super) fn on_read_by_peer(&mut self, len: u32) {
        self.stream.on_sent(len);
        self.lending.on_used();
        self.holding.on_read();
        if self.runs.on_read(len) {
            self.advert_window = pipeline::grown(self.advert_window, self.peer_adverts);
        }
        self.close_progress();
        self.stats.read_bytes_sent = self.stats.read_bytes_sent.wrapping_add(len.into());
    }

    /// SendSm about outstanding adverts.
    pub(super) fn on_send_sm(&mut self) {
        self.advert_window = pipeline::shrunk();
        self.stats.send_sms_received = self.stats.send_sms_received.wrapping_add(1);
        if self.runs.on_send_sm(lost(&mut self.stream)) {
            self.lending.on_wasted();
        }
    }

    /// SinkAvail of the peer, checked. One that is stale, or that the end of our
    /// stream has crossed, means nothing.
    ///
    /// rules: DISCARD, CROSS
    pub(super) fn on_sink_avail(&mut self, advert: SinkAvail) {
        self.stats.sink_avails_received = self.stats.sink_avails_received.wrapping_add(1);
        //= spec: DISCARD-4
        if self.targets.take_stale(advert) {
            self.stats.sink_avails_stale = self.stats.sink_avails_stale.wrapping_add(1);
            return;
        }
        if self.close.is_disconn_sent() {
            return;
        }
        //= spec: CROSS-2
        //= spec: SRCCANCEL-7
        self.holding.on_sink_avail(self.runs.outstanding() > 0);
        self.runs.on_void(lost(&mut self.stream));
        let held = self.targets.on_sink_avail(advert);
        self.must(held);
    }

    /// News for the shell about runs and offers. It comes before all outputs that
    /// go on the wire.
    pub(super) fn poll_notice(&mut self) -> Option<Output> {
        if self.runs.is_clear() && self.offers.is_clear() {
            return None;
        }
        if let Some(notice) = self.runs.next_notice() {
            return Some(match notice {
                Notice::Taken { run, len } => Output::Taken { run, len },
                Notice::Dropped { run, len } => Output::Dropped { run, len },
                Notice::Returned { run, why } => Output::Returned { run, why },
            });
        }
        let (sink, why) = self.offers.next_ended()?;
        Some(Output::SinkReturned { sink, why })
    }

    /// The ModeChange to Pipelined mode, which was asked for or is of use.
    ///
    /// rules: MODE
    pub(super) fn poll_mode(&mut self) -> Option<Output> {
        let possible = self.runs.outstanding() == 0 && !self.close.is_disconn_sent();
        //= spec: MODE-9
        if !self.wants_pipelined() || !possible || !self.may_send(Need::Control) {
            return None;
        }
        self.modes.on_pipelined().ok()?;
        Some(self.send_control(Body::ModeChange(ModeChange {
            half: Half::Receive,
            mode: Mode::Pipelined,
        })))
    }

    /// Whether our source goes to Pipelined mode when it can.
    pub(super) fn wants_pipelined(&self) -> bool {
        self.modes.wants_pipelined() || self.is_pipelining_useful()
    }

    fn is_pipelining_useful(&self) -> bool {
        let zcopy = self.cfg.zcopy;
        self.modes.send() == Mode::Combined
            && self.peer().pipelined
            && (zcopy.advertise || zcopy.write)
            && pipeline::wants_pipelined(self.runs.queued(), self.modes.peer_req_pipe)
    }

    /// Whether a caller waits for the answer to a SrcAvailCancel, which may still lack a credit.
    pub fn awaits_cancel(&self) -> bool {
        self.runs.cancel != Cancel::No && self.runs_wait.is_limited()
    }

    /// The answer to a cancel has not come; the wait for it may be `over`.
    ///
    /// rules: SRCCANCEL
    pub(super) fn on_answer_timeout(&mut self, over: bool) {
        //= spec: SRCCANCEL-9
        if over {
            self.fail(Ended::TimedOut);
        }
    }
}

/// Tells the stream of bytes that were taken out of it.
fn lost(stream: &mut SendStream) -> impl FnMut(u32, u32) + '_ {
    |len, before| stream.on_lost(len, before)
}
