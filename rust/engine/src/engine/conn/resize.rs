// SPDX-License-Identifier: GPL-2.0

//! The size of receive buffers, changed while the connection lives.
//!
//! rules: RESIZE

use super::{Connection, Output};
use crate::engine::{
    error::PeerError,
    flow::credit::Need,
    machine::{IllegalMove, Moved},
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
    announced: u16,
    /// Size that we post from now on. `announced <= posting`
    posting: u16,
    /// Buffers of the announced size in front of those, while the two differ.
    smaller: u16,
    /// ChRcvBufAck is owed.
    owed: bool,
    /// Growth is suspended, and so is the answer to the peer.
    held: bool,
    /// Size that the peer requested in the meantime.
    asked: Option<u16>,
    ask: Ask,
    /// The engine has asked by itself, once and for all.
    grown: bool,
    /// Size that we request, without the header.
    wanted: u32,
    /// The payload that fits when `posted` has gone; 0 for no other than now.
    larger: u16,
    /// Up to this one a message may land in a buffer that was posted before the
    /// peer's answer.
    posted: Mseq,
}

const HEADER: u16 = {
    let [low, high, ..] = BSDH_LEN.to_le_bytes();
    u16::from_le_bytes([low, high])
};

impl Resize {
    pub(super) fn new(rcv_size: u16) -> Self {
        Self {
            announced: rcv_size,
            posting: rcv_size,
            smaller: 0,
            owed: false,
            held: false,
            asked: None,
            ask: Ask::No,
            grown: false,
            wanted: 0,
            larger: 0,
            posted: Mseq::HELLO,
        }
    }

    /// The longest message that may come.
    pub(super) fn announced(&self) -> u16 {
        self.announced
    }

    /// The size of buffers posted from now on.
    pub(super) fn posting(&self) -> u16 {
        self.posting
    }

    /// A receive buffer was used up, the oldest one.
    pub(super) fn on_used(&mut self) {
        self.smaller = self.smaller.saturating_sub(1);
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
    /// to `most` and never shrink.
    pub(super) fn on_asked(&mut self, payload: u16, most: u16, posted: u16) {
        self.owed = true;
        if self.held {
            self.asked = Some(payload);
            return;
        }
        let size = payload.saturating_add(HEADER).min(most);
        self.posting = self.posting.max(size);
        self.smaller = posted;
    }

    /// Asks the peer for buffers with room for `payload` bytes behind the header.
    pub(super) fn want(&mut self, payload: u32) -> Result<(), IllegalMove> {
        self.ask.on_wanted()?;
        self.wanted = payload;
        Ok(())
    }

    /// Nothing grows: no buffer of the larger size was posted yet.
    fn keep(&mut self) {
        self.posting = self.announced;
        self.smaller = 0;
    }

    /// Whether the answer may go: not while a smaller buffer is in front.
    fn is_answer_due(&self) -> bool {
        let waits = self.asked.is_some();
        self.owed && !waits && (self.posting == self.announced || self.smaller == 0)
    }

    /// The answer, without the header.
    fn answer(&mut self) -> u32 {
        self.owed = false;
        self.announced = self.posting;
        //= spec: RESIZE-4
        self.announced.saturating_sub(HEADER).into()
    }
}

impl Connection {
    /// The size of the receive buffers to post from now on.
    pub fn rcv_size(&self) -> u16 {
        self.resize.posting
    }

    /// Receive buffers stay as they are, and the peer is told so. For a shell
    /// that finds [`rcv_size`](Self::rcv_size) grown and has no memory for such
    /// buffers; called before any was posted.
    pub fn keep_rcv_size(&mut self) {
        self.resize.keep();
        self.on_posting_size();
    }

    /// Delays the growth of our receive buffers that the peer requests, and the
    /// answer, while `hold` is set: until the connection is accepted.
    pub fn hold_rcv_size(&mut self, hold: bool) {
        self.resize.held = hold;
        if hold {
            return;
        }
        if let Some(payload) = self.resize.asked.take() {
            let posted = self.window.posted();
            self.resize.on_asked(payload, self.cfg.rcv_size_max, posted);
            self.on_posting_size();
        }
    }

    /// The passive side answers large buffers with large ones, up to its own limit:
    /// a peer that begins with them never asks for more.
    pub(super) fn begin_with(&mut self, size: u16) {
        let posting = size.min(self.cfg.rcv_size_max).max(self.cfg.rcv_size);
        self.resize.posting = posting;
        self.on_posting_size();
    }

    /// The size that the HelloAck states.
    pub(super) fn announce_posting(&mut self) -> u16 {
        self.resize.announced = self.resize.posting;
        self.resize.announced
    }

    /// The size of posted buffers may have changed.
    pub(super) fn on_posting_size(&mut self) {
        let size = self.resize.posting;
        self.window.on_size(self.cfg.rcv_size, size);
    }

    pub(super) fn check_resized(&self, size: u32) -> Result<(), PeerError> {
        self.resize.check_answer()?;
        //= spec: RESIZE-6
        let least = message::least_payload(self.cfg.max_send_payload);
        if size < self.max_payload.into() && payload(size) < least {
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
        //= spec: RESIZE-5
        let payload = payload(size);
        let known = u32::from(self.max_payload);
        if size < known {
            self.max_payload = payload;
            self.resize.larger = 0;
        } else {
            self.resize.larger = payload.min(self.cfg.max_send_payload);
            self.resize.posted = Mseq::new(acked.get().wrapping_add(bufs.into()));
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
            let size = self.resize.answer();
            // Offers that wait would come behind the answer.
            self.offers.end_unsent(size);
            return Some(self.send_control(Body::ChRcvBufAck(size)));
        }
        if !self.may_send(Need::Control) {
            return None;
        }
        self.grow();
        self.resize.ask.on_sent().ok()?;
        let wanted = self.resize.wanted;
        Some(self.send_control(Body::ChRcvBuf(wanted)))
    }

    /// Asks the peer for buffers that take our largest messages, if many bytes are
    /// waiting. It is asked once, whatever it answers.
    fn grow(&mut self) {
        let most = self.cfg.max_send_payload;
        let wants = message::wants_larger(self.stream.unsent(), self.max_payload, most);
        if wants && !self.resize.grown {
            self.resize.grown = true;
            // An earlier question that waits for its answer is enough.
            self.resize.want(most.into()).if_legal();
        }
    }
}

/// Bytes behind the header of a message that fits, if the header counts.
fn payload(size: u32) -> u16 {
    let payload = size.saturating_sub(HEADER.into());
    u16::try_from(payload).unwrap_or(u16::MAX)
}
