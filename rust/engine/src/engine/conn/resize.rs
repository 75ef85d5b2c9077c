// SPDX-License-Identifier: GPL-2.0

//! The size of receive buffers, changed while the connection lives.
//!
//! rules: RESIZE

use super::{Connection, Output};
use crate::engine::{
    error::PeerError,
    flow::credit::Need,
    machine::IllegalMove,
    policy::message,
    types::Mseq,
    wire::{Body, Mid, BSDH_LEN},
};

machine! {
    /// Our question about the peer's buffers.
    pub enum Ask {
        /// There is none.
        No,
        /// To be sent.
        Wanted,
        /// Sent, and not answered.
        Sent,
    }

    /// There is reason to ask.
    on_wanted: No | Wanted => Wanted;
    /// ChRcvBuf was posted.
    on_sent: Wanted => Sent;
    /// ChRcvBufAck has come.
    on_answer: Sent => No;
}

/// Sizes of both sides, headers included.
#[derive(Clone, Copy, Debug)]
pub(super) struct Resize {
    /// Size that the peer may send us now.
    announced: u32,
    /// Size that we post from now on. `announced <= posting`
    posting: u32,
    /// Buffers of the announced size in front of those, while the two differ.
    smaller: u16,
    /// Buffers of this larger size, in front of the buffers of the announced size.
    larger_posted: u16,
    largest: u32,
    /// Size to which our buffers become smaller with the answer.
    shrink: Option<u32>,
    /// ChRcvBufAck is owed.
    owed: bool,
    /// Growth is suspended, and so is the answer to the peer.
    held: bool,
    /// Size that the peer requested in the meantime.
    asked: Option<u32>,
    ask: Ask,
    /// The most payload that the engine has asked for by itself. It asks for more alone.
    grown: u32,
    /// Size that we request, without the header.
    wanted: u32,
    /// The payload that fits the buffers of the peer's Hello.
    first: u32,
    /// Our question is for that size.
    returning: bool,
    /// The peer's buffers do not become smaller.
    kept: bool,
    /// Messages without payload that use up the peer's larger buffers.
    spend: u16,
    /// The payload that fits when `posted` has gone; 0 for no other than now.
    larger: u32,
    /// Up to this one a message may land in a buffer that was posted before the
    /// peer's answer.
    posted: Mseq,
}

const HEADER: u32 = {
    let [low, high, ..] = BSDH_LEN.to_le_bytes();
    u32::from_le_bytes([low, high, 0, 0])
};

/// The largest buffers that a connection begins with: no known peer begins with larger ones, and
/// memory for them is there before a program has accepted. They have room for another header, as
/// RESIZE-8 asks for.
const FIRST_MOST: u32 = (32 << 10) + 2 * HEADER;

/// The most messages without payload that follow each other to use up buffers, whatever
/// the peer says of their number.
const SPEND_MAX: u16 = 64;

impl Resize {
    pub(super) fn new(rcv_size: u16) -> Self {
        let rcv_size = u32::from(rcv_size);
        Self {
            announced: rcv_size,
            posting: rcv_size,
            smaller: 0,
            larger_posted: 0,
            largest: 0,
            shrink: None,
            owed: false,
            held: false,
            asked: None,
            ask: Ask::No,
            grown: 0,
            wanted: 0,
            first: 0,
            returning: false,
            kept: false,
            spend: 0,
            larger: 0,
            posted: Mseq::HELLO,
        }
    }

    /// The longest message that may come.
    pub(super) fn longest(&self) -> u32 {
        //= spec: RESIZE-10
        if self.larger_posted > 0 {
            self.largest.max(self.announced)
        } else {
            self.announced
        }
    }

    /// The payload that fits the buffers of the peer's Hello.
    pub(super) fn begin(&mut self, payload: u32) {
        self.first = payload;
    }

    /// There are bytes to send.
    pub(super) fn on_queued(&mut self) {
        self.spend = 0;
    }

    /// The size of buffers posted from now on.
    pub(super) fn posting(&self) -> u32 {
        self.posting
    }

    /// A receive buffer was used up, the oldest one.
    pub(super) fn on_used(&mut self) {
        self.smaller = self.smaller.saturating_sub(1);
        self.larger_posted = self.larger_posted.saturating_sub(1);
    }

    pub(super) fn check_asked(&self) -> Result<(), PeerError> {
        if self.owed {
            return Err(PeerError::ChRcvBufOutstanding);
        }
        Ok(())
    }

    fn check_answer(&self) -> Result<(), PeerError> {
        if self.ask != Ask::Sent {
            return Err(PeerError::Unsolicited(Mid::ChRcvBufAck));
        }
        Ok(())
    }

    /// ChRcvBuf for buffers with `payload` bytes behind the header. They grow up
    /// to `most`, and become smaller down to `least`.
    pub(super) fn on_asked(&mut self, payload: u32, (least, most): (u32, u32), posted: u16) {
        self.owed = true;
        if self.held {
            self.asked = Some(payload);
            return;
        }
        let size = payload.saturating_add(HEADER).min(most);
        //= spec: RESIZE-10
        self.shrink = Some(size.max(least)).filter(|size| *size < self.posting);
        self.posting = self.posting.max(size);
        self.smaller = posted;
    }

    /// Asks the peer for buffers with room for `payload` bytes behind the header.
    pub(super) fn want(&mut self, payload: u32) -> Result<(), IllegalMove> {
        self.ask.on_wanted()?;
        self.wanted = payload;
        self.returning = false;
        Ok(())
    }

    /// Nothing grows. Buffers of the larger size that are posted hold messages of this one.
    fn keep(&mut self) {
        self.posting = self.announced;
        self.smaller = 0;
        self.shrink = None;
    }

    /// No message has come for a while. Those that would use up the smaller buffers may never
    /// come, and until the answer the peer can ask for nothing else, so growth is declined.
    pub(super) fn on_idle(&mut self) {
        //= spec: RESIZE-12
        if self.owed && self.smaller > 0 {
            self.keep();
        }
    }

    /// Whether nothing is to be asked, answered or used up.
    pub(super) fn is_at_rest(&self) -> bool {
        self.ask != Ask::Wanted && !self.owed && self.spend == 0
    }

    /// Whether the answer may go: not while a smaller buffer is in front.
    fn is_answer_due(&self) -> bool {
        let waits = self.asked.is_some();
        self.owed && !waits && (self.posting == self.announced || self.smaller == 0)
    }

    /// The answer, without the header; `posted` buffers are.
    fn answer(&mut self, posted: u16) -> u32 {
        self.owed = false;
        if let Some(size) = self.shrink.take() {
            self.largest = self.longest();
            self.larger_posted = posted;
            self.posting = size;
        }
        self.announced = self.posting;
        //= spec: RESIZE-4
        self.announced.saturating_sub(HEADER)
    }
}

impl Connection {
    /// The size of the receive buffers to post from now on.
    pub fn rcv_size(&self) -> u32 {
        self.resize.posting
    }

    /// Receive buffers stay as they are, and the peer is told so. For a shell
    /// that finds [`rcv_size`](Self::rcv_size) grown and has no memory for such
    /// buffers; called before any was posted.
    pub fn keep_rcv_size(&mut self) {
        self.resize.keep();
    }

    /// Delays the growth of our receive buffers that the peer requests, and the
    /// answer, while `hold` is set: until the connection is accepted.
    pub fn hold_rcv_size(&mut self, hold: bool) {
        self.resize.held = hold;
        if hold {
            return;
        }
        if let Some(payload) = self.resize.asked.take() {
            self.on_asked(payload);
        }
    }

    /// ChRcvBuf, or one that was held back.
    pub(super) fn on_asked(&mut self, payload: u32) {
        let most = self.cfg.rcv_size_max;
        let posted = self.window.posted();
        let least = self.cfg.rcv_size.into();
        self.resize.on_asked(payload, (least, most), posted);
    }

    /// Asks the peer for the buffers that it had first, if it has made them larger for us.
    ///
    /// rules: RESIZE
    pub(super) fn ask_first_size(&mut self) {
        let grown = self.max_payload > self.resize.first && !self.resize.kept;
        let quiet = self.stream.unsent() == 0;
        if grown && quiet && self.state.is_connected() && self.check_send_open().is_ok() {
            //= spec: RESIZE-9
            self.resize.returning = self.resize.want(self.resize.first).is_ok();
        }
    }

    /// The passive side answers large buffers with large ones, up to its own limit:
    /// a peer that begins with them never asks for more.
    pub(super) fn begin_with(&mut self, size: u32) {
        let least = self.cfg.rcv_size.into();
        let most = self.cfg.rcv_size_max.min(FIRST_MOST);
        let posting = size.min(most).max(least);
        self.resize.posting = posting;
    }

    /// The size that the HelloAck states.
    pub(super) fn announce_posting(&mut self) -> u32 {
        self.resize.announced = self.resize.posting;
        self.resize.announced
    }

    pub(super) fn check_resized(&self, size: u32) -> Result<(), PeerError> {
        self.resize.check_answer()?;
        //= spec: RESIZE-6
        let least = message::least_payload(self.cfg.max_send_payload);
        if size < self.max_payload && payload(size) < least {
            return Err(PeerError::ResizeTooSmall);
        }
        Ok(())
    }

    /// ChRcvBufAck with `bufs` buffers behind the message `acked`. Other
    /// implementations leave the header out of the number, and some may not: a
    /// message fits whichever is meant, and an answer which changes nothing takes
    /// nothing away.
    pub(super) fn on_resized(&mut self, size: u32, acked: Mseq, bufs: u16) {
        let answered = self.resize.ask.on_answer();
        self.must(answered);
        if core::mem::take(&mut self.resize.returning) {
            self.resize.kept = size != self.resize.first;
            if !self.resize.kept {
                self.resize.grown = 0;
                //= spec: RESIZE-11
                let idle = self.stream.unsent() == 0;
                self.resize.spend = if idle { bufs.min(SPEND_MAX) } else { 0 };
            }
        }
        //= spec: RESIZE-5
        let payload = payload(size);
        if size < self.max_payload {
            self.max_payload = payload;
            self.resize.larger = 0;
        } else {
            self.resize.larger = payload.min(self.cfg.max_send_payload);
            self.resize.posted = Mseq::new(self.received(acked).get().wrapping_add(bufs.into()));
            self.grow_payload();
        }
    }

    /// Messages become longer when those that may find a smaller buffer have gone.
    /// One implementation answers while such are posted.
    pub(super) fn grow_payload(&mut self) {
        //= spec: RESIZE-7
        if !self.resize.posted.is_after(self.credits.last_sent()) {
            let larger = core::mem::take(&mut self.resize.larger);
            self.max_payload = self.max_payload.max(larger);
        }
    }

    /// ChRcvBufAck and ChRcvBuf.
    pub(super) fn poll_resize(&mut self) -> Option<Output> {
        //= spec: RESIZE-1, RESIZE-2
        if self.resize.is_answer_due() && self.may_send(self.control_need()) {
            let shrinks = self.resize.shrink.is_some();
            let size = self.resize.answer(self.window.posted());
            if shrinks {
                self.window.on_idle();
            }
            // Offers that wait would come behind the answer.
            self.offers.end_unsent(size);
            return Some(self.send_control(Body::ChRcvBufAck(size)));
        }
        if !self.may_send(Need::Control) {
            return None;
        }
        self.grow();
        self.resize.ask.on_sent().ok()?;
        if self.resize.returning {
            //= spec: RESIZE-9
            self.resize.larger = 0;
            self.max_payload = self.resize.first;
        }
        Some(self.send_control(Body::ChRcvBuf(self.resize.wanted)))
    }

    /// A message without payload that uses up one of the larger buffers which the peer still
    /// has posted, because it cannot take one back.
    pub(super) fn poll_spend(&mut self) -> Option<Output> {
        let spend = self.resize.spend.checked_sub(1)?;
        if self.check_send_open().is_err() || !self.may_send(Need::Control) {
            return None;
        }
        self.resize.spend = spend;
        Some(self.send_update())
    }

    /// The payload of larger buffers, if `len` bytes that wait are a reason to ask for them. The
    /// peer is asked once for each size, whatever it answers. One that is granted may still wait.
    pub(super) fn worth_asking(&self, len: u32) -> Option<u32> {
        let granted = self.max_payload.max(self.resize.larger);
        let larger = message::larger(len, granted, self.cfg.max_send_payload);
        larger.filter(|larger| *larger > self.resize.grown)
    }

    /// Asks the peer for larger buffers, if they are worth it for the bytes that wait.
    fn grow(&mut self) {
        let Some(larger) = self.worth_asking(self.stream.waiting()) else {
            return;
        };
        // For a little more than a message the question does not take the credit that the
        // first of the bytes could have.
        let last = self.credits.count() == Need::Payload.least();
        if larger < self.cfg.max_send_payload >> 1 && last && self.may_send(Need::Payload) {
            return;
        }
        //= spec: RESIZE-8
        let asked = larger.saturating_add(HEADER);
        // An earlier question waits for its answer first.
        if self.resize.want(asked).is_ok() {
            self.resize.grown = larger;
        }
    }
}

/// Payload that a buffer of that size holds, if the size counts the header.
pub(super) fn payload(size: u32) -> u32 {
    size.saturating_sub(HEADER)
}
