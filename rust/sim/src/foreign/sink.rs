// SPDX-License-Identifier: GPL-2.0

//! The receiving direction of a model.

use super::Kind;
use crate::{
    fault::{ensure, fault, Checked},
    frame::Span,
};
use sdp_engine::engine::wire::{
    avail::{SinkAvail, SrcAvail},
    mode::{Half, Mode, ModeChange},
    Body, Repr,
};
use std::collections::{BTreeSet, VecDeque};

/// A SrcAvail of the engine.
#[derive(Clone, Debug)]
struct Held {
    key: u32,
    va: u64,
    left: u32,
}

/// A SinkAvail of the model.
#[derive(Clone, Debug)]
struct Offer {
    key: u32,
    len: u32,
    written: u32,
}

/// A Read in flight.
#[derive(Clone, Copy, Debug)]
pub(super) struct Read {
    pub(super) key: u32,
    pub(super) va: u64,
    pub(super) len: u32,
}

#[derive(Clone, Debug)]
pub(super) struct Sink {
    kind: Kind,
    mode: Mode,
    pub(super) delivered: u64,
    /// Receive buffers with unread bytes.
    unread: u32,
    held: VecDeque<Held>,
    reading: Option<Read>,
    /// A SrcAvailCancel waits for the end of the Read.
    cancelled: bool,
    /// A SendSm is to be sent.
    asked: bool,
    /// Number of our last SendSm; 0 for none.
    declined: u32,
    offers: VecDeque<Offer>,
    /// Our SinkAvailCancel has no answer yet.
    cancelling: bool,
    /// Messages with payload that did not use up a SinkAvail.
    non_discards: u32,
    next_key: u32,
    /// Rare events that have occurred.
    pub(super) seen: BTreeSet<&'static str>,
}

impl Sink {
    pub(super) fn new(kind: Kind) -> Self {
        Self {
            kind,
            mode: Mode::Combined,
            delivered: 0,
            unread: 0,
            held: VecDeque::new(),
            reading: None,
            cancelled: false,
            asked: false,
            declined: 0,
            offers: VecDeque::new(),
            cancelling: false,
            non_discards: 0,
            next_key: 5000,
            seen: BTreeSet::new(),
        }
    }

    pub(super) fn has_unread(&self) -> bool {
        self.unread > 0 || !self.held.is_empty() || self.reading.is_some()
    }

    /// SinkAvails outstanding.
    pub(super) fn offered(&self) -> usize {
        self.offers.len()
    }

    fn deliver(&mut self, span: Span) -> Checked {
        ensure!(
            span.start == self.delivered,
            "bytes from {} on come at {}",
            span.start,
            self.delivered
        );
        self.delivered = span.end();
        Ok(())
    }

    /// Payload in a receive buffer. Returns true if the buffer is free again, because the bytes
    /// were copied to the oldest SinkAvail, which is used up by that.
    pub(super) fn on_payload(&mut self, span: Span) -> Checked<bool> {
        self.deliver(span)?;
        let Some(offer) = self.offers.pop_front() else {
            self.non_discards = self.non_discards.wrapping_add(1);
            self.unread += 1;
            return Ok(false);
        };
        ensure!(
            offer.written == 0,
            "payload uses up {offer:?}, and what was written is not told"
        );
        self.cancelling &= !self.offers.is_empty();
        self.seen
            .insert("Data of the engine that uses up a SinkAvail");
        Ok(true)
    }

    /// An RDMA Write of the engine.
    pub(super) fn on_write(&mut self, key: u32, va: u64, payload: Span) -> Checked {
        let Some(offer) = self.offers.front_mut() else {
            return Err(fault("a Write, and nothing is offered"));
        };
        ensure!(
            offer.key == key && va == u64::from(offer.written),
            "a Write to {va} with key {key}, and the oldest is {offer:?}"
        );
        offer.written += payload.len;
        self.seen.insert("a Write of the engine");
        ensure!(offer.written <= offer.len, "a Write beyond {offer:?}");
        self.deliver(payload)
    }

    pub(super) fn on_written(&mut self, len: u32) -> Checked {
        let written = self.offers.pop_front().map(|offer| offer.written);
        ensure!(
            written == Some(len) && len > 0,
            "RdmaWrCompl of {len}, and {written:?} were written"
        );
        self.cancelling &= !self.offers.is_empty();
        Ok(())
    }

    pub(super) fn on_cancel_ack(&mut self) -> Checked {
        ensure!(self.cancelling, "SinkCancelAck, and nothing is cancelled");
        self.seen.insert("SinkCancelAck of the engine");
        self.cancelling = false;
        self.drop_offers()
    }

    fn drop_offers(&mut self) -> Checked {
        ensure!(
            self.offers.iter().all(|offer| offer.written == 0),
            "{:?} have ended, and the written length is not told",
            self.offers
        );
        self.offers.clear();
        Ok(())
    }

    pub(super) fn on_src_avail(&mut self, advert: SrcAvail, repr: &Repr) -> Checked {
        let inline = repr.payload_len;
        let good = match self.mode {
            Mode::Buffered => false,
            Mode::Combined => self.held.is_empty() && (1..advert.len).contains(&inline),
            Mode::Pipelined => inline == 0 && advert.len > 0,
        };
        ensure!(
            good,
            "{repr} in {:?}, with {:?} held",
            self.mode,
            self.held.len()
        );
        // It crosses a SinkAvail, which takes precedence, or our SendSm.
        let early = self.mode == Mode::Pipelined && repr.mseq_ack.get() < self.declined;
        if early {
            self.seen.insert("a SrcAvail that crosses SendSm");
        } else if !self.offers.is_empty() {
            self.seen.insert("a SrcAvail that crosses a SinkAvail");
        } else {
            self.held.push_back(Held {
                key: advert.r_key,
                va: advert.va + u64::from(inline),
                left: advert.len - inline,
            });
        }
        Ok(())
    }

    /// Handles a SrcAvailCancel. `again`: send SendSm even after an earlier one. Returns true if
    /// the acknowledgement waits for the Read.
    pub(super) fn on_cancel(&mut self, again: bool, answers: &mut VecDeque<Body>) -> bool {
        if self.reading.is_some() {
            self.cancelled = true;
            self.seen.insert("a cancel that waits for a Read");
            return self.kind == Kind::Gen2;
        }
        if self.held.is_empty() && again && self.declined > 0 && !self.asked {
            self.seen.insert("a second SendSm");
            self.ask_for_data(answers);
        } else if !self.held.is_empty() && !self.asked {
            self.ask_for_data(answers);
        }
        false
    }

    /// Requests the advertised bytes as Data.
    pub(super) fn decline(&mut self, answers: &mut VecDeque<Body>) {
        if self.reading.is_none() && !self.held.is_empty() && !self.asked {
            self.ask_for_data(answers);
        }
    }

    fn ask_for_data(&mut self, answers: &mut VecDeque<Body>) {
        self.held.clear();
        self.asked = true;
        answers.push_back(Body::SendSm);
    }

    /// SendSm is sent with this number. SrcAvails that have arrived since are dropped with the
    /// rest.
    pub(super) fn on_send_sm_sent(&mut self, mseq: u32) {
        self.held.clear();
        self.asked = false;
        self.declined = mseq;
    }

    pub(super) fn on_mode_change(&mut self, change: ModeChange) -> Checked {
        ensure!(self.kind == Kind::Gen2, "{change:?} for {:?}", self.kind);
        ensure!(change.half == Half::Receive, "{change:?} of our own half");
        let legal = (self.mode, change.mode) == (Mode::Combined, Mode::Pipelined);
        ensure!(legal, "{change:?} in {:?}", self.mode);
        ensure!(
            self.held.is_empty() && self.reading.is_none(),
            "{change:?} while SrcAvails are outstanding"
        );
        self.mode = change.mode;
        Ok(())
    }

    /// A SinkAvail for so many bytes.
    pub(super) fn offer(&mut self, len: u32) -> Option<SinkAvail> {
        let may = self.mode == Mode::Pipelined && self.held.is_empty() && !self.cancelling;
        if !may {
            return None;
        }
        self.next_key += 1;
        let key = self.next_key;
        self.offers.push_back(Offer {
            key,
            len,
            written: 0,
        });
        Some(SinkAvail {
            len,
            r_key: key,
            va: 0,
            non_discards: self.non_discards,
        })
    }

    pub(super) fn cancel_offers(&mut self) -> Option<Body> {
        if self.cancelling || self.offers.is_empty() {
            return None;
        }
        self.cancelling = true;
        Some(Body::SinkAvailCancel)
    }

    pub(super) fn is_cancelling(&self) -> bool {
        self.cancelling
    }

    /// The stream has ended.
    pub(super) fn on_disconn(&mut self) -> Checked {
        ensure!(self.held.is_empty(), "DisConn with SrcAvails outstanding");
        self.cancelling = false;
        self.drop_offers()
    }

    /// Whether [`read`](Self::read) would read from the engine's memory.
    pub(super) fn reads_remote(&self) -> bool {
        self.unread == 0
    }

    /// The program reads a receive buffer, or advertised bytes by RDMA Read. Returns true if a
    /// buffer is free again.
    pub(super) fn read(&mut self, most: u32) -> bool {
        if self.unread > 0 {
            self.unread -= 1;
            return true;
        }
        let may = self.reading.is_none() && !self.cancelled && !self.asked;
        if let Some(held) = self.held.front().filter(|_| may) {
            self.reading = Some(Read {
                key: held.key,
                va: held.va,
                len: most.min(held.left),
            });
        }
        false
    }

    /// The Read in flight.
    pub(super) fn reading(&self) -> Option<Read> {
        self.reading
    }

    /// Completes it with these bytes. Returns true if a cancel has waited for it.
    pub(super) fn on_read(&mut self, span: Span, answers: &mut VecDeque<Body>) -> Checked<bool> {
        self.deliver(span)?;
        self.reading = None;
        if let Some(held) = self.held.front_mut() {
            held.va += u64::from(span.len);
            held.left -= span.len;
            if held.left == 0 {
                self.held.pop_front();
            }
        }
        answers.push_back(Body::RdmaRdCompl(span.len));
        let waited = core::mem::take(&mut self.cancelled);
        if waited && !self.held.is_empty() {
            self.ask_for_data(answers);
        }
        Ok(waited)
    }
}
