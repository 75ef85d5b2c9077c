// SPDX-License-Identifier: GPL-2.0

//! The sending direction of a model.

use super::Kind;
use crate::{
    fault::{ensure, fault, Checked},
    frame::Span,
};
use sdp_engine::engine::wire::{
    avail::{SinkAvail, SrcAvail},
    mode::{Half, Mode, ModeChange},
    Body,
};
use std::collections::{BTreeSet, VecDeque};

/// Maximum length of one RDMA Write of a model.
const WRITE_MAX: u32 = 100;

/// A SrcAvail of the model.
#[derive(Clone, Debug)]
struct Advert {
    mseq: u32,
    key: u32,
    inline: u32,
    /// Place of the first byte that is not inline.
    start: u64,
    /// Bytes that are not inline, and completed bytes among them.
    len: u32,
    done: u32,
}

/// A SinkAvail of the engine.
#[derive(Clone, Debug)]
struct Target {
    key: u32,
    va: u64,
    len: u32,
    written: u32,
}

/// One write of the model's program.
#[derive(Clone, Debug)]
struct Call {
    left: u32,
    /// Large enough for zero copy.
    large: bool,
}

/// The next message of a source.
#[derive(Clone, Debug)]
pub(super) enum Saying {
    Message(Body, Span),
    Write { key: u32, va: u64, payload: Span },
}

#[derive(Clone, Debug)]
pub(super) struct Source {
    kind: Kind,
    /// The engine's announcements: MaxAdverts, and the size of its receive buffers.
    adverts_max: usize,
    payload_max: u32,
    pub(super) written: u64,
    /// Bytes that were sent or are advertised.
    sent: u64,
    calls: VecDeque<Call>,
    adverts: VecDeque<Advert>,
    /// A cancel has no answer yet.
    cancel: bool,
    pub(super) wants_cancel: bool,
    pub(super) mode: Mode,
    /// A mode that it would go to.
    pub(super) wants_mode: Option<Mode>,
    /// Its way out of Pipelined mode, which the engine has not acknowledged: number
    /// of the message, and the count of messages then.
    left: Option<(u32, u32)>,
    targets: VecDeque<Target>,
    /// Number of RDMA Writes that may be posted.
    pub(super) pace: u32,
    /// Messages with payload that were sent without a SinkAvail.
    non_discards: u32,
    /// Rare events that have occurred.
    pub(super) seen: BTreeSet<&'static str>,
}

impl Source {
    pub(super) fn new(kind: Kind, adverts_max: u8, payload_max: u32) -> Self {
        Self {
            kind,
            adverts_max: adverts_max.into(),
            payload_max,
            written: 0,
            sent: 0,
            calls: VecDeque::new(),
            adverts: VecDeque::new(),
            cancel: false,
            wants_cancel: false,
            mode: Mode::Combined,
            wants_mode: None,
            left: None,
            targets: VecDeque::new(),
            pace: 0,
            non_discards: 0,
            seen: BTreeSet::new(),
        }
    }

    pub(super) fn write(&mut self, len: u32, large: bool) {
        if self.calls.len() < 4 {
            self.calls.push_back(Call { left: len, large });
            self.written += u64::from(len);
        }
    }

    /// SrcAvails outstanding.
    pub(super) fn outstanding(&self) -> usize {
        self.adverts.len()
    }

    pub(super) fn is_done(&self) -> bool {
        self.calls.is_empty() && self.adverts.is_empty()
    }

    /// The bytes that the engine reads by RDMA.
    pub(super) fn on_read(&self, key: u32, va: u64, len: u32) -> Checked<Span> {
        let Some(advert) = self.adverts.iter().find(|advert| advert.key == key) else {
            return Err(fault("a Read of what is not advertised"));
        };
        let offset = u32::try_from(va).unwrap_or(u32::MAX);
        let offset = offset.wrapping_sub(advert.inline);
        ensure!(
            offset.saturating_add(len) <= advert.len && offset >= advert.done,
            "a Read of {len} at {offset} of {advert:?}"
        );
        let start = advert.start + u64::from(offset);
        Ok(Span { start, len })
    }

    /// Handles RdmaRdCompl; one for an ended advertisement is ignored.
    pub(super) fn on_completion(&mut self, ack: u32, len: u32) -> Checked {
        let Some(advert) = self.adverts.front_mut().filter(|a| a.mseq <= ack) else {
            return Ok(());
        };
        advert.done += len;
        ensure!(
            advert.done <= advert.len,
            "{} bytes completed of {advert:?}",
            advert.done
        );
        if advert.done == advert.len {
            self.adverts.pop_front();
            self.cancel &= !self.adverts.is_empty();
        }
        Ok(())
    }

    /// Handles SendSm: the rest of all advertisements is sent as Data, unless the SendSm is an
    /// older one.
    pub(super) fn on_send_sm(&mut self, ack: u32) {
        if self.adverts.front().is_some_and(|a| a.mseq <= ack) {
            self.take_back(false);
        }
    }

    /// Withdraws everything that is advertised; it must be sent again.
    fn take_back(&mut self, large: bool) {
        let Some(front) = self.adverts.front() else {
            return;
        };
        let start = front.start + u64::from(front.done);
        let left = u32::try_from(self.sent - start).unwrap_or(u32::MAX);
        self.sent = start;
        self.adverts.clear();
        self.cancel = false;
        if left > 0 {
            self.calls.push_front(Call { left, large });
        }
    }

    /// Called with the number of the last message that the engine has acknowledged.
    pub(super) fn on_acked(&mut self, ack: u32) {
        if self.left.is_some_and(|(at, _)| at <= ack) {
            self.left = None;
        }
    }

    /// A SinkAvail is void if it crossed our payload; otherwise it takes precedence over SrcAvails.
    pub(super) fn on_sink_avail(&mut self, advert: SinkAvail, ack: u32) -> Checked {
        if let Some((_, count)) = self.left.as_mut().filter(|(at, _)| ack < *at) {
            self.seen.insert("a SinkAvail void by a mode");
            if advert.non_discards != *count {
                *count = count.wrapping_sub(1);
                self.non_discards = self.non_discards.wrapping_sub(1);
            }
            return Ok(());
        }
        ensure!(
            self.mode == Mode::Pipelined,
            "a SinkAvail for {:?} outside of Pipelined mode",
            self.kind
        );
        ensure!(
            advert.len >= self.payload_max.min(super::PAYLOAD_MAX),
            "{advert:?} would not hold one message"
        );
        if advert.non_discards != self.non_discards {
            self.non_discards = self.non_discards.wrapping_sub(1);
            self.seen.insert("a stale SinkAvail");
            return Ok(());
        }
        if !self.adverts.is_empty() {
            self.seen.insert("SrcAvails void by a SinkAvail");
        }
        self.take_back(true);
        self.targets.push_back(Target {
            key: advert.r_key,
            va: advert.va,
            len: advert.len,
            written: 0,
        });
        Ok(())
    }

    /// Handles SinkAvailCancel: the used part is completed, the rest is dropped and confirmed.
    pub(super) fn on_sink_cancel(&mut self, answers: &mut VecDeque<Body>) {
        let written = self.targets.front().map_or(0, |target| target.written);
        if written > 0 {
            self.targets.pop_front();
            answers.push_back(Body::RdmaWrCompl(written));
            self.seen.insert("a cancel of what is written into");
        }
        if !self.targets.is_empty() {
            self.targets.clear();
            answers.push_back(Body::SinkCancelAck);
            self.seen.insert("SinkCancelAck");
        }
    }

    /// The next bytes, for a message of at most this length.
    fn payload(&mut self, most: u32) -> Span {
        let start = self.sent;
        let Some(call) = self.calls.front_mut() else {
            return Span { start, len: 0 };
        };
        let len = call.left.min(most);
        call.left -= len;
        if call.left == 0 {
            self.calls.pop_front();
        }
        self.sent += u64::from(len);
        Span { start, len }
    }

    /// Counts a message with payload, and its effect on SinkAvails.
    fn count(&mut self, payload: Span) {
        if payload.len == 0 {
            return;
        }
        if self.targets.pop_front().is_some() {
            self.seen.insert("Data that uses up a SinkAvail");
        } else {
            self.non_discards = self.non_discards.wrapping_add(1);
        }
    }

    fn front_is_large(&self) -> bool {
        self.mode != Mode::Buffered && self.calls.front().is_some_and(|c| c.large && c.left >= 2)
    }

    /// A message that needs 2 credits: the completion of a written SinkAvail.
    pub(super) fn completion(&mut self) -> Option<Saying> {
        let target = self.targets.front().filter(|target| target.written > 0)?;
        if target.written < target.len && self.front_is_large() {
            return None;
        }
        let written = target.written;
        self.targets.pop_front();
        let none = self.payload(0);
        Some(Saying::Message(Body::RdmaWrCompl(written), none))
    }

    /// A message that needs 3 credits. An advertisement has the number of its message. `own`: the
    /// model's advertisements for the other direction.
    pub(super) fn say(&mut self, mseq: u32, own: usize) -> Option<Saying> {
        let here = self.payload(0);
        if core::mem::take(&mut self.wants_cancel) && !self.cancel && !self.adverts.is_empty() {
            self.cancel = true;
            return Some(Saying::Message(Body::SrcAvailCancel, here));
        }
        if let Some(mode) = self.next_mode() {
            if self.mode == Mode::Pipelined {
                self.left = Some((mseq + 1, self.non_discards));
                self.targets.clear();
            }
            self.mode = mode;
            let change = ModeChange {
                half: Half::Receive,
                mode,
            };
            return Some(Saying::Message(Body::ModeChange(change), here));
        }
        if self.front_is_large() {
            if !self.targets.is_empty() {
                return self.write_into();
            }
            let room = match self.mode {
                Mode::Buffered => 0,
                Mode::Combined => 1,
                Mode::Pipelined => (self.adverts_max - own).min(3),
            };
            if !self.cancel && self.adverts.len() < room {
                return Some(self.advertise(mseq + 1));
            }
        }
        if self.calls.is_empty() || !self.adverts.is_empty() {
            return None;
        }
        let payload = self.payload(self.payload_max);
        self.count(payload);
        Some(Saying::Message(Body::Data, payload))
    }

    /// Bytes of this direction that are sent within a SinkAvail.
    pub(super) fn along(&mut self) -> Span {
        let written = self.targets.front().is_some_and(|t| t.written > 0);
        if written || self.front_is_large() || !self.adverts.is_empty() {
            return self.payload(0);
        }
        let payload = self.payload(self.payload_max.saturating_sub(20));
        self.count(payload);
        if payload.len > 0 {
            self.seen.insert("payload in a SinkAvail");
        }
        payload
    }

    /// The mode to announce, with nothing outstanding: Pipelined when several calls
    /// wait.
    fn next_mode(&mut self) -> Option<Mode> {
        let written = self.targets.front().is_some_and(|t| t.written > 0);
        let able = self.kind == Kind::Gen2 && self.adverts_max > 1;
        if !able || written || !self.adverts.is_empty() {
            return None;
        }
        match (self.mode, self.wants_mode.take()) {
            (Mode::Pipelined, Some(_)) => Some(Mode::Combined),
            (Mode::Combined, Some(Mode::Buffered)) => Some(Mode::Buffered),
            (Mode::Combined, _) if self.calls.len() >= 2 && self.left.is_none() => {
                Some(Mode::Pipelined)
            }
            _ => None,
        }
    }

    fn write_into(&mut self) -> Option<Saying> {
        self.pace = self.pace.checked_sub(1)?;
        let target = self.targets.front()?;
        let (key, va) = (target.key, target.va + u64::from(target.written));
        let room = (target.len - target.written).min(WRITE_MAX);
        self.seen.insert("a Write");
        let payload = self.payload(room);
        if let Some(target) = self.targets.front_mut() {
            target.written += payload.len;
        }
        Some(Saying::Write { key, va, payload })
    }

    fn advertise(&mut self, mseq: u32) -> Saying {
        let inline = u32::from(self.mode == Mode::Combined);
        let whole = self.calls.front().map_or(0, |call| call.left);
        let payload = self.payload(inline);
        self.count(payload);
        let rest = self.payload(u32::MAX);
        let key = mseq + 1000;
        self.adverts.push_back(Advert {
            mseq,
            key,
            inline,
            start: rest.start,
            len: rest.len,
            done: 0,
        });
        let advert = SrcAvail {
            len: whole,
            r_key: key,
            va: 0,
        };
        Saying::Message(Body::SrcAvail(advert), payload)
    }
}
