// SPDX-License-Identifier: GPL-2.0

//! The messages of a model, as far as its credits allow.

use super::{source::Saying, time::Stall, Going, Kind, Meeting};
use crate::{
    frame::{Frame, Span},
    side::Side,
    trace::Sight,
};
use sdp_engine::engine::wire::{Body, Flags};

impl Meeting {
    /// Sends all messages that are allowed now.
    pub(super) fn speak(&mut self) {
        while self.speak_once() {}
    }

    fn speak_once(&mut self) -> bool {
        if !self.does(Stall::Answer) && !self.answers.is_empty() {
            return self.update();
        }
        if self.books.credits >= 2 {
            if let Some(body) = self.answers.pop_front() {
                // The cancel of a SinkAvail that was used up meanwhile is not sent.
                if body != Body::SinkAvailCancel || self.sink.is_cancelling() {
                    self.send(body, Span::default());
                }
                return true;
            }
            if let Some(saying) = self.source.completion() {
                self.say(saying);
                return true;
            }
        }
        let waits = self.books.held_ack.is_some();
        if self.books.credits >= 3 && !waits {
            if let Some(body) = self.sink_avail() {
                let along = self.source.along();
                self.send(body, along);
                return true;
            }
            let mseq = self.books.mseq;
            if let Some(saying) = self.source.say(mseq, self.sink.offered()) {
                self.say(saying);
                return true;
            }
        }
        let closing = self.shut && self.source.is_done() && !waits;
        if closing && !self.disconn_sent && self.books.credits >= 2 {
            self.disconn_sent = true;
            self.send(Body::DisConn, Span::default());
            return true;
        }
        self.update()
    }

    fn update(&mut self) -> bool {
        // OFED sends nothing once the peer has sent DisConn.
        let closed = self.disconn_received && (self.kind == Kind::Ofed || self.disconn_sent);
        if !closed && self.does(Stall::Update) && self.books.wants_update() {
            self.send(Body::Data, Span::default());
            return true;
        }
        false
    }

    fn sink_avail(&mut self) -> Option<Body> {
        let len = self.offer.take()?;
        let used = self.source.outstanding() + self.sink.offered();
        let room = used + 1 < usize::from(self.shell.cfg.max_adverts);
        let able = self.kind == Kind::Gen2 && room && !self.disconn_received;
        let offered = if able { self.sink.offer(len) } else { None };
        offered.map(Body::SinkAvail)
    }

    fn say(&mut self, saying: Saying) {
        match saying {
            Saying::Message(body, payload) => self.send(body, payload),
            Saying::Write { key, va, payload } => {
                self.out.push_back(Going::Write { key, va, payload });
            }
        }
    }

    fn send(&mut self, body: Body, payload: Span) {
        let flags = Flags {
            req_pipe: self.kind == Kind::Gen2 && matches!(body, Body::RdmaRdCompl(_)),
            ..Flags::default()
        };
        let repr = self.books.send(body, flags, payload);
        if body == Body::SendSm {
            self.sink.on_send_sm_sent(self.books.mseq);
        }
        let number = u64::from(repr.mseq.get());
        self.watch
            .trace
            .see(|| Sight::Left(Side::B, number, repr.to_string()));
        self.out
            .push_back(Going::Send(Frame::new(&repr.emit(), payload)));
    }
}
