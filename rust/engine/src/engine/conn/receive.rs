// SPDX-License-Identifier: GPL-2.0

//! What a received message changes.
//!
//! Everything that can be wrong with it is found before anything changes.
//!
//! protocol: messages

use super::{Connection, Delivery, Ended, State};
use crate::engine::{
    bcopy::rx::Payload,
    error::PeerError,
    flow::receive::Arrival,
    oob::{Urgency, UrgentNotice},
    wire::{Body, Message, Mid, Repr},
    zcopy::src_avail::Declined,
};

impl Delivery {
    /// Nothing for the application.
    fn empty(mid: Mid) -> Self {
        Self {
            mid,
            payload_offset: 0,
            payload_len: 0,
            urgent_pending: false,
            urgent_byte: false,
            peer_closed: false,
        }
    }
}

impl Connection {
    /// A posted receive buffer was filled with a message of `wire_len` bytes;
    /// `head` is its first `HEADER_MAX` bytes, or all of it when it is shorter.
    ///
    /// An error means that the connection has failed; the outputs take it down.
    /// When it has failed or ended before, nothing is delivered and nothing
    /// happens.
    pub fn handle_message(&mut self, head: &[u8], wire_len: u32) -> Result<Delivery, PeerError> {
        self.window.on_used();
        self.handle_established();
        let mid = head
            .first()
            .map_or(Mid::Unknown(0), |id| Mid::from_wire(*id));
        //= spec: ROBUST-2
        if self.close.has_failed() || self.is_over() {
            self.window.on_dropped();
            return Ok(Delivery::empty(mid));
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
        // protocol: base-header
        //= spec: HDR-3
        if wire_len > u32::from(self.cfg.rcv_size) {
            return Err(PeerError::TooLong);
        }
        let repr = Repr::parse(&Message::check(head, wire_len)?)?;
        let payload_len = u16::try_from(repr.payload_len).map_err(|_| PeerError::TooLong)?;
        self.window.check(repr.mseq, payload_len > 0)?;
        self.check_legal(&repr)?;
        self.credits.on_granted(repr.bufs, repr.mseq_ack)?;
        let mut mode = self.receive_mode;
        if let Body::ModeChange(change) = repr.body {
            mode.on_mode_change(change)?;
        }
        //= spec: ROBUST-3
        // From here on nothing fails.
        //= spec: MODE-4
        self.receive_mode = mode;
        let urgency = self.urgent.on_message(repr.flags);
        let arrival = arrival(&repr, urgency);
        self.window.on_received(arrival);
        self.count_received(&repr, arrival);
        Ok(self.deliver(&repr, payload_len, urgency))
    }

    /// Whether the message may come now. What it says about numbers was
    /// checked before.
    fn check_legal(&self, repr: &Repr) -> Result<(), PeerError> {
        let mid = repr.body.mid();
        UrgentNotice::check(mid, repr.flags, repr.payload_len > 0)?;
        match repr.body {
            Body::Data if repr.payload_len == 0 => Ok(()),
            Body::Data | Body::DisConn => {
                //= spec: SRC-8
                self.received.check_open(mid)?;
                self.declined.check_none(mid)
            }
            Body::SrcAvail(advert) => {
                self.received.check_open(mid)?;
                self.receive_mode.check_adverts(mid)?;
                self.declined.check_none(mid)?;
                Declined::check_inline(advert, repr.payload_len)
            }
            Body::SrcAvailCancel => {
                self.received.check_open(mid)?;
                self.receive_mode.check_adverts(mid)
            }
            Body::ModeChange(_) => {
                // protocol: modes (no change while a SrcAvail is outstanding)
                //= spec: MODE-3
                self.declined.check_none(mid)
            }
            Body::AbortConn => {
                if self.received.is_finished() {
                    Ok(())
                } else {
                    //= spec: ABORT-3
                    Err(PeerError::AbortWithoutDisConn)
                }
            }
            Body::ChRcvBuf(_) => {
                //= spec: RESIZE-3
                if self.answers.ch_rcv_buf {
                    Err(PeerError::ChRcvBufOutstanding)
                } else {
                    Ok(())
                }
            }
            Body::SuspComm(_) => Ok(()),
            // protocol: max-adverts
            Body::SinkAvail(_)
            | Body::SinkAvailCancel
            | Body::SinkCancelAck
            | Body::RdmaWrCompl(_) => Err(PeerError::NotAnnounced(mid)),
            // We advertise nothing and ask for nothing.
            //= spec: SUSPEND-2, SENDSM-6
            Body::SendSm | Body::RdmaRdCompl(_) | Body::ChRcvBufAck(_) | Body::SuspCommAck => {
                Err(PeerError::Unsolicited(mid))
            }
            //= spec: EST-3
            Body::Handshake(_) => Err(PeerError::HandshakeRepeated(mid)),
            //= spec: HDR-7
            Body::Unknown(id) => Err(PeerError::UnknownMid(id)),
        }
    }

    fn deliver(&mut self, repr: &Repr, payload_len: u16, urgency: Urgency) -> Delivery {
        let mut delivery = Delivery::empty(repr.body.mid());
        match repr.body {
            Body::DisConn => {
                self.on_peer_disconn();
                delivery.peer_closed = true;
            }
            //= spec: ABORT-4
            Body::AbortConn => self.fail(Ended::Reset),
            Body::SrcAvail(_) => self.declined.on_src_avail(),
            Body::ChRcvBuf(_) => self.answers.ch_rcv_buf = true,
            Body::SuspComm(_) => self.on_suspend(),
            // A cancelled SrcAvail is answered by the SendSm that is owed
            // anyway, or was answered before.
            Body::SrcAvailCancel
            | Body::ModeChange(_)
            | Body::Data
            | Body::SendSm
            | Body::RdmaWrCompl(_)
            | Body::RdmaRdCompl(_)
            | Body::SinkAvailCancel
            | Body::SinkCancelAck
            | Body::ChRcvBufAck(_)
            | Body::SuspCommAck
            | Body::SinkAvail(_)
            | Body::Handshake(_)
            | Body::Unknown(_) => {}
        }
        delivery.urgent_pending = urgency.announced;
        if payload_len == 0 {
            return delivery;
        }
        match self.received.on_payload() {
            Payload::Deliver => {
                self.window.on_held();
                delivery.payload_offset = repr.payload_offset();
                delivery.payload_len = payload_len;
                delivery.urgent_byte = urgency.present;
            }
            Payload::Unwanted => self.fail(Ended::Aborted),
        }
        delivery
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
            stats.src_avails_declined = stats.src_avails_declined.wrapping_add(1);
        }
    }

    /// The application has read a buffer with payload to its end.
    pub fn on_buffer_consumed(&mut self) {
        self.window.on_consumed();
    }

    /// How many more receive buffers to post now.
    pub fn receives_wanted(&self) -> u16 {
        if self.close.has_failed() || self.is_over() || self.state == State::BothClosed {
            return 0;
        }
        self.window.wanted()
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
