// SPDX-License-Identifier: GPL-2.0

//! One engine and the model of its shell.

use super::ledger::Ledger;
use sdp_engine::engine::{
    conn::{Config, Connection, Ended, Output, Queue},
    timer::Timer,
    wire::{Message, Repr},
};
use std::collections::VecDeque;

/// A message on its way: what the wire carries.
#[derive(Debug, Clone)]
pub(crate) struct Packet {
    pub(crate) bytes: Vec<u8>,
}

impl Packet {
    pub(crate) fn repr(&self) -> Repr {
        let head = &self.bytes[..self.bytes.len().min(36)];
        let len = u32::try_from(self.bytes.len()).unwrap();
        Repr::parse(&Message::check(head, len).unwrap()).unwrap()
    }
}

/// The byte at a position of a stream.
fn stream_byte(position: usize) -> u8 {
    u8::try_from(position.wrapping_mul(31) % 251).unwrap()
}

pub(crate) struct Peer {
    pub(crate) conn: Connection,
    cfg: Config,
    pub(crate) ledger: Ledger,
    /// Receive buffers that the queue pair really has.
    pub(crate) posted: u16,
    /// Payload segments that the application has not read.
    pub(crate) unread: VecDeque<Vec<u8>>,
    /// Bytes delivered, and read.
    pub(crate) delivered: usize,
    pub(crate) read: usize,
    /// Bytes written by the application, and sent.
    pub(crate) written: usize,
    pub(crate) sent: usize,
    /// Positions of urgent bytes announced to this side's peer: end offsets.
    pub(crate) urgent_written: Vec<usize>,
    pub(crate) urgent_received: Vec<usize>,
    pub(crate) urgent_announced: usize,
    /// Posted messages with a completion that has not been handed in.
    pub(crate) in_flight: VecDeque<()>,
    /// Posted, and not on the other side yet.
    pub(crate) wire: VecDeque<Packet>,
    /// Arrived here, in the completion queue.
    pub(crate) arrived: VecDeque<Packet>,
    /// Sends that the peer's adapter has acknowledged, completions to come.
    pub(crate) acknowledged: usize,
    pub(crate) dreq_sent: bool,
    /// The other side knows, or will, that this one has ended.
    pub(crate) told: bool,
    pub(crate) timer: Option<Timer>,
    /// While set, so many of the wanted buffers cannot be had.
    pub(crate) starved: u16,
    pub(crate) eof: bool,
    pub(crate) messages_sent: usize,
    pub(crate) closed: bool,
}

impl Peer {
    pub(crate) fn new(conn: Connection, cfg: Config) -> Self {
        Self {
            conn,
            cfg,
            ledger: Ledger::default(),
            posted: 0,
            unread: VecDeque::new(),
            delivered: 0,
            read: 0,
            written: 0,
            sent: 0,
            urgent_written: Vec::new(),
            urgent_received: Vec::new(),
            urgent_announced: 0,
            in_flight: VecDeque::new(),
            wire: VecDeque::new(),
            arrived: VecDeque::new(),
            acknowledged: 0,
            dreq_sent: false,
            told: false,
            timer: None,
            starved: 0,
            eof: false,
            messages_sent: 0,
            closed: false,
        }
    }

    pub(crate) fn ended(&self) -> Option<Ended> {
        self.conn.ended()
    }

    /// The drain rule. Returns true when a DREQ is to go out.
    pub(crate) fn settle(&mut self) -> bool {
        let mut disconnect = false;
        loop {
            let wanted = self.conn.receives_wanted();
            let keep = 2u16.saturating_sub(self.posted);
            let post = wanted.saturating_sub(self.starved).max(wanted.min(keep));
            if post > 0 {
                self.posted += post;
                self.conn.on_receives_posted(post);
            }
            assert!(
                usize::from(self.posted) + self.unread.len() <= usize::from(self.cfg.rx_depth) + 2,
                "more buffers than agreed"
            );
            match self.conn.poll_output() {
                Some(Output::Send {
                    header,
                    payload_len,
                    solicited: _,
                }) => {
                    assert!(!disconnect && !self.dreq_sent, "a message after the DREQ");
                    self.post_send(header.as_bytes(), payload_len);
                }
                Some(Output::Disconnect) => {
                    assert!(!self.dreq_sent, "a second DREQ");
                    self.dreq_sent = true;
                    disconnect = true;
                }
                Some(other) => panic!("{other:?} without zero copy"),
                None => break,
            }
            self.check();
        }
        self.timer = self.conn.timers().next();
        self.check();
        disconnect
    }

    fn post_send(&mut self, header: &[u8], payload_len: u32) {
        let len = usize::try_from(payload_len).unwrap();
        let mut bytes = header.to_vec();
        bytes.extend((self.sent..self.sent + len).map(stream_byte));
        self.sent += len;
        assert!(self.sent <= self.written, "bytes that were not written");
        let packet = Packet { bytes };
        let repr = packet.repr();
        assert_eq!(repr.payload_len, payload_len);
        self.ledger.on_sent(&repr);
        self.messages_sent += 1;
        self.in_flight.push_back(());
        assert!(self.in_flight.len() <= usize::from(self.cfg.tx_depth));
        self.wire.push_back(packet);
    }

    /// The adapter takes a packet in; it must find a buffer.
    pub(crate) fn receive(&mut self, packet: Packet) {
        let waiting = self.arrived.len();
        assert!(
            usize::from(self.posted) > waiting,
            "no receive buffer for {}",
            packet.repr()
        );
        assert!(packet.bytes.len() <= usize::from(self.cfg.rcv_size));
        self.arrived.push_back(packet);
    }

    /// Hands the oldest arrived message to the engine.
    pub(crate) fn handle_one(&mut self) -> bool {
        let Some(packet) = self.arrived.pop_front() else {
            return false;
        };
        let over = self.ended().is_some();
        let repr = packet.repr();
        if !over {
            self.ledger.on_received(&repr);
        }
        self.posted -= 1;
        let head = &packet.bytes[..packet.bytes.len().min(36)];
        let delivery = self
            .conn
            .handle_message(head, u32::try_from(packet.bytes.len()).unwrap())
            .unwrap_or_else(|e| panic!("{repr}: {e}"));
        if delivery.urgent_pending {
            self.urgent_announced += 1;
        }
        if delivery.peer_closed {
            assert!(!self.eof);
            self.eof = true;
        }
        if delivery.payload_len == 0 {
            return true;
        }
        assert!(!self.eof, "bytes behind the end");
        let from = usize::from(delivery.payload_offset);
        let payload = &packet.bytes[from..from + usize::try_from(delivery.payload_len).unwrap()];
        for byte in payload {
            assert_eq!(*byte, stream_byte(self.delivered), "at {}", self.delivered);
            self.delivered += 1;
        }
        if delivery.urgent_byte {
            self.urgent_received.push(self.delivered);
        }
        self.unread.push_back(payload.to_vec());
        true
    }

    pub(crate) fn write(&mut self, len: u32, how: Queue) -> bool {
        if self.conn.queue(len, how).is_err() {
            return false;
        }
        self.written += usize::try_from(len).unwrap();
        if how.urgent && len > 0 {
            // A mark that was not sent gives way to the newer one.
            let sent = self.sent;
            if self.urgent_written.last().is_some_and(|mark| *mark > sent) {
                self.urgent_written.pop();
            }
            self.urgent_written.push(self.written);
        }
        true
    }

    /// The application reads one buffer.
    pub(crate) fn read_one(&mut self) -> bool {
        let Some(segment) = self.unread.pop_front() else {
            return false;
        };
        self.read += segment.len();
        self.conn.on_buffer_consumed();
        true
    }

    pub(crate) fn complete_one(&mut self) -> bool {
        if self.acknowledged == 0 {
            return false;
        }
        self.acknowledged -= 1;
        self.in_flight.pop_front().expect("a message in flight");
        self.conn.handle_send_completed();
        true
    }

    fn check(&self) {
        assert!(self.conn.is_sound(), "{:?}", self.conn);
        assert_eq!(self.conn.posted(), self.posted);
        if self.ended().is_none() {
            assert_eq!(self.conn.unsent() as usize, self.written - self.sent);
            assert_eq!(usize::from(self.conn.held()), self.unread.len());
        }
    }
}
