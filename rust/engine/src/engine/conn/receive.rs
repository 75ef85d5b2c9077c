// SPDX-License-Identifier: GPL-2.0

//! The effects of a received message.
//!
//! Everything that can be wrong with it is found before anything changes.
//!
//! rules: HDR

use super::{legal::Meaning, Connection, Delivery, Ended, Mode, SinkWhy, State};
use crate::engine::{
    bcopy::rx::Payload,
    error::PeerError,
    flow::receive::Arrival,
    oob::Urgency,
    wire::{
        mode::{Half, ModeChange},
        Body, Message, Mid, Repr,
    },
};

impl Connection {
    /// A posted receive buffer was filled with a message of `wire_len` bytes;
    /// `head` is its first `HEADER_MAX` bytes, or all of it when it is shorter.
    ///
    /// An error means that the connection has failed; the outputs take it down.
    /// When it has failed or ended before, nothing is delivered and nothing
    /// happens.
    pub fn handle_message(&mut self, head: &[u8], wire_len: u32) -> Result<Delivery, PeerError> {
        self.window.on_used();
        self.resize.on_used();
        self.handle_established();
        let mid = head
            .first()
            .map_or(Mid::Unknown(0), |id| Mid::from_wire(*id));
        //= spec: ROBUST-2
        if self.close.has_failed() || self.is_over() {
            self.window.on_dropped();
            return Ok(Delivery::default());
        }
        self.take(mid, head, wire_len).inspect_err(|error| {
            self.window.on_dropped();
            self.fail(Ended::Violation(*error));
        })
    }

    fn take(&mut self, mid: Mid, head: &[u8], wire_len: u32) -> Result<Delivery, PeerError> {
        if !self.state.is_connected() {
            //= spec: EST-3
            return Err(PeerError::BeforeEstablished(mid));
        }
        // rules: HDR
        //= spec: HDR-3
        if wire_len > self.resize.longest() {
            return Err(PeerError::TooLong);
        }
        let mut repr = Repr::parse(&Message::check(head, wire_len)?)?;
        if let Body::Unknown(_) = repr.body {
            // The bytes behind its header are unknown, too.
            repr.payload_len = 0;
        }
        self.window.check(repr.mseq, repr.payload_len > 0)?;
        repr.mseq_ack = self.credits.newest(repr.mseq_ack)?;
        let meaning = self.check_legal(&repr)?;
        //= spec: ROBUST-3
        // From here on nothing fails.
        self.credits.on_granted(repr.bufs, repr.mseq_ack);
        let urgency = self.urgent.on_message(repr.flags);
        let arrival = arrival(&repr, urgency);
        self.window.on_received(arrival);
        self.held.on_acked(repr.mseq_ack);
        self.modes.on_flags(mid, repr.flags);
        self.count_received(&repr, arrival);
        let mut delivery = Delivery {
            urgent_pending: urgency.announced,
            ..Delivery::default()
        };
        match meaning {
            Meaning::Plain => self.obey(&repr, &mut delivery),
            Meaning::Void => self.on_void_message(&repr),
        }
        //= spec: DATA-3, SINK-6
        self.take_payload(&repr, urgency, &mut delivery);
        Ok(delivery)
    }

    /// Applies everything in a message but its payload.
    fn obey(&mut self, repr: &Repr, delivery: &mut Delivery) {
        match repr.body {
            Body::DisConn => {
                self.on_peer_disconn();
                delivery.peer_closed = true;
            }
            //= spec: ABORT-4
            Body::AbortConn => self.fail(Ended::Reset),
            Body::SrcAvail(advert) => self.on_src_avail(advert, repr.payload_len, delivery),
            Body::SrcAvailCancel => self.on_src_avail_cancel(),
            Body::SendSm => self.on_send_sm(),
            Body::RdmaRdCompl(len) => self.on_read_by_peer(len),
            Body::SinkAvail(advert) => self.on_sink_avail(advert),
            Body::SinkAvailCancel => {
                self.stats.cancels_received = self.stats.cancels_received.wrapping_add(1);
                self.targets.on_cancel();
            }
            Body::SinkCancelAck => self.offers.on_cancel_ack(),
            Body::RdmaWrCompl(len) => self.on_written_by_peer(len, delivery),
            //= spec: MODE-4
            Body::ModeChange(change) => self.on_mode_change(change),
            Body::ChRcvBuf(size) => self.on_asked(size),
            Body::ChRcvBufAck(size) => {
                self.on_resized(size, repr.mseq_ack, repr.bufs);
            }
            Body::SuspComm(_) => self.on_suspend(),
            //= spec: HDR-7
            Body::Unknown(_) => {
                self.stats.unknown_received = self.stats.unknown_received.wrapping_add(1);
            }
            Body::Data | Body::SuspCommAck | Body::Handshake(_) => {}
        }
    }

    /// Counts what a void message still changes.
    fn on_void_message(&mut self, repr: &Repr) {
        match repr.body {
            Body::SendSm | Body::RdmaRdCompl(_) => {
                self.stats.stale_answers = self.stats.stale_answers.wrapping_add(1);
            }
            _ => {}
        }
    }

    /// The peer's change of a mode, checked.
    fn on_mode_change(&mut self, change: ModeChange) {
        if let Ok(modes) = self.changed_modes(change) {
            self.modes = modes;
        }
        if (change.half, change.mode) == (Half::Receive, Mode::Combined) {
            //= spec: MODE-6
            self.held.forget();
            self.window.thaw();
            self.offers.end(SinkWhy::Crossed);
        }
    }

    fn take_payload(&mut self, repr: &Repr, urgency: Urgency, delivery: &mut Delivery) {
        if repr.payload_len == 0 {
            return;
        }
        //= spec: DISCARD-1
        //= spec: DISCARD-2
        delivery.sink = self.offers.on_payload();
        match self.received.on_payload() {
            Payload::Deliver => {
                self.window.on_held();
                delivery.payload_offset = repr.payload_offset();
                delivery.payload_len = repr.payload_len;
                delivery.urgent_byte = urgency.present;
            }
            Payload::Unwanted => self.fail(Ended::Aborted),
        }
    }

    fn count_received(&mut self, repr: &Repr, arrival: Arrival) {
        let stats = &mut self.stats;
        stats.messages_received = stats.messages_received.wrapping_add(1);
        stats.payload_bytes_received = stats
            .payload_bytes_received
            .wrapping_add(repr.payload_len.into());
        if arrival == Arrival::CreditUpdate {
            stats.credit_updates_received = stats.credit_updates_received.wrapping_add(1);
        }
        if repr.flags.oob_pres {
            stats.urgent_received = stats.urgent_received.wrapping_add(1);
        }
        if matches!(repr.body, Body::SrcAvail(_)) {
            stats.src_avails_received = stats.src_avails_received.wrapping_add(1);
        }
    }

    /// The application has read a buffer with payload to its end.
    pub fn on_buffer_consumed(&mut self) {
        self.window.on_consumed();
    }

    /// No message has come or gone for a while. The shell says how long that is.
    pub fn on_idle(&mut self) {
        self.window.on_idle();
        self.resize.on_idle();
        self.ask_first_size();
    }

    /// Whether the peer may send no payload until the program reads. A reader that
    /// waits for more bytes than are here would wait for ever.
    pub fn is_receive_shut(&self) -> bool {
        self.window.is_shut()
    }

    /// How many more receive buffers to post now.
    pub fn receives_wanted(&self) -> u16 {
        if self.close.has_failed() || self.is_over() || self.state == State::BothClosed {
            return 0;
        }
        self.window.wanted()
    }

    /// How many buffers that come back are worth keeping beside the posted ones.
    pub fn spares_wanted(&self) -> u16 {
        self.window.spares()
    }

    /// Number of wanted buffers that the connection needs to go on. A shell that is
    /// short of memory posts only these, and the rest stays wanted.
    pub fn receives_needed(&self) -> u16 {
        self.receives_wanted().min(self.window.needed())
    }

    /// So many receive buffers were posted.
    pub fn on_receives_posted(&mut self, count: u16) {
        self.window.on_posted(count);
    }
}

/// Data without payload that brings news of an urgent byte was sent for that,
/// and costs its sender a credit like any control message.
fn arrival(repr: &Repr, urgency: Urgency) -> Arrival {
    if repr.payload_len > 0 {
        Arrival::Payload
    } else if repr.body == Body::Data && !urgency.announced {
        Arrival::CreditUpdate
    } else {
        Arrival::Control
    }
}
