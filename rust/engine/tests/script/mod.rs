// SPDX-License-Identifier: GPL-2.0

//! One engine with a peer that is written out message by message.
#![allow(dead_code, reason = "each test file uses its part")]

pub(crate) mod lent;

use sdp_engine::engine::{
    conn::{
        Config, Connection, Delivery, Output, Queue, RemoteSink, RunId, SinkId, SinkWhy, Why, Zcopy,
    },
    error::PeerError,
    types::{Ip, Mseq},
    wire::{
        hello::{Hello, HelloAck},
        Body, Flags, Message, Repr,
    },
};

pub(crate) const RCV_SIZE: u16 = 116;

pub(crate) fn config() -> Config {
    Config {
        rcv_size: RCV_SIZE,
        rx_depth: 8,
        rx_initial: 4,
        tx_depth: 8,
        max_send_payload: 100,
        max_adverts: 1,
        rcv_size_max: 0,
        zcopy: Zcopy::OFF,
    }
}

/// Everything without copies.
pub(crate) fn zcopy() -> Config {
    Config {
        max_adverts: 4,
        zcopy: Zcopy {
            advertise: true,
            read: true,
            write: true,
            read_depth: 4,
            write_depth: 2,
            max_write: 300,
        },
        ..config()
    }
}

pub(crate) fn hello(bufs: u16) -> Hello {
    Hello {
        bufs,
        minor: 2,
        capabilities: 0,
        max_adverts: 1,
        desired_remote_rcv_size: 116,
        local_rcv_size: 116,
        local_port: 40000,
        src: Ip::V4([10, 0, 0, 1]),
        dst: Ip::V4([10, 0, 0, 2]),
        ext_max_adverts: 0,
    }
}

pub(crate) fn hello_ack(bufs: u16) -> [u8; 196] {
    hello_ack_of(bufs, 1)
}

pub(crate) fn hello_ack_of(bufs: u16, max_adverts: u8) -> [u8; 196] {
    HelloAck {
        bufs,
        minor: 2,
        max_adverts,
        actual_rcv_size: 116,
    }
    .emit()
}

/// An act of the engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Did {
    Sent(Repr),
    Wrote(RemoteSink, u32),
    Taken(RunId, u32),
    Dropped(RunId, u32),
    Returned(RunId, Why),
    SinkReturned(SinkId, SinkWhy),
    Disconnect,
}

pub(crate) struct Script {
    pub(crate) conn: Connection,
    /// Number of the peer's last message.
    pub(crate) mseq: Mseq,
    /// Number of the last message that the peer has received.
    ack: Mseq,
    /// Buffers that the peer grants.
    pub(crate) bufs: u16,
    /// Sends that have not completed.
    pub(crate) in_flight: usize,
}

impl Script {
    pub(crate) fn new(conn: Connection, bufs: u16) -> Self {
        Self {
            conn,
            mseq: Mseq::HELLO,
            ack: Mseq::HELLO,
            bufs,
            in_flight: 0,
        }
    }

    pub(crate) fn idle() -> Self {
        Self::new(Connection::connecting(config()), 20)
    }

    pub(crate) fn hello_sent() -> Self {
        let mut this = Self::idle();
        this.conn.on_receives_posted(4);
        let ip = Ip::V4([10, 0, 0, 1]);
        this.conn.hello(ip, ip, 1).unwrap();
        this
    }

    pub(crate) fn hello_received() -> Self {
        Self::new(Connection::accepting(config(), &hello(20)), 20)
    }

    pub(crate) fn hello_ack_sent() -> Self {
        let mut this = Self::hello_received();
        this.conn.on_receives_posted(4);
        this.conn.hello_ack().unwrap();
        this
    }

    pub(crate) fn established() -> Self {
        Self::granted(20)
    }

    /// Established, everything without copies, towards a peer that takes so
    /// many adverts.
    pub(crate) fn zcopy(max_adverts: u8) -> Self {
        Self::with(zcopy(), 20, max_adverts)
    }

    pub(crate) fn with(cfg: Config, bufs: u16, max_adverts: u8) -> Self {
        let mut this = Self::new(Connection::connecting(cfg), bufs);
        this.conn.on_receives_posted(4);
        let ip = Ip::V4([10, 0, 0, 1]);
        this.conn.hello(ip, ip, 1).unwrap();
        this.conn
            .handle_hello_ack(&hello_ack_of(bufs, max_adverts))
            .unwrap();
        this
    }

    /// Established, and able to fill messages of `payload` bytes.
    pub(crate) fn asking(payload: u16) -> Self {
        Self::asking_with(config(), payload)
    }

    /// The same with another configuration.
    pub(crate) fn asking_with(cfg: Config, payload: u16) -> Self {
        let cfg = Config {
            max_send_payload: payload.into(),
            ..cfg
        };
        Self::with(cfg, 20, 1)
    }

    /// Established with so many credits.
    pub(crate) fn granted(bufs: u16) -> Self {
        let mut this = Self::hello_sent();
        this.conn.handle_hello_ack(&hello_ack(bufs)).unwrap();
        this.bufs = bufs;
        this
    }

    /// Posts what is wanted and returns the next thing that the engine does.
    pub(crate) fn step(&mut self) -> Option<Did> {
        let wanted = self.conn.receives_wanted();
        self.conn.on_receives_posted(wanted);
        assert!(self.conn.is_sound());
        match self.conn.poll_output()? {
            Output::Disconnect => Some(Did::Disconnect),
            Output::Write { to, len } => Some(Did::Wrote(to, len)),
            Output::Taken { run, len } => Some(Did::Taken(run, len)),
            Output::Dropped { run, len } => Some(Did::Dropped(run, len)),
            Output::Returned { run, why } => Some(Did::Returned(run, why)),
            Output::SinkReturned { sink, why } => Some(Did::SinkReturned(sink, why)),
            Output::Send {
                header,
                payload_len,
                ..
            } => {
                self.in_flight += 1;
                let bytes = header.as_bytes();
                let len = u32::try_from(bytes.len()).unwrap() + payload_len;
                let mut head = bytes.to_vec();
                head.resize(36, 0);
                let repr = Repr::parse(&Message::check(&head, len).unwrap()).unwrap();
                Some(Did::Sent(repr))
            }
        }
    }

    /// Drains; the peer receives everything, and the sends complete.
    pub(crate) fn drain(&mut self) -> Vec<Did> {
        let mut all = Vec::new();
        loop {
            while let Some(did) = self.step() {
                if let Did::Sent(repr) = did {
                    self.ack = repr.mseq;
                }
                all.push(did);
            }
            if self.in_flight == 0 {
                return all;
            }
            self.complete();
        }
    }

    /// As `drain`, without mere credit updates.
    pub(crate) fn news(&mut self) -> Vec<Did> {
        let mut all = self.drain();
        all.retain(|did| {
            !matches!(did, Did::Sent(repr)
                if repr.body == Body::Data && repr.payload_len == 0 && !repr.flags.oob_pend)
        });
        all
    }

    pub(crate) fn complete(&mut self) {
        assert!(self.in_flight > 0);
        self.in_flight -= 1;
        self.conn.handle_send_completed();
    }

    /// The bodies of what was sent.
    pub(crate) fn sent(&mut self) -> Vec<Body> {
        self.drain()
            .into_iter()
            .filter_map(|did| match did {
                Did::Sent(repr) => Some(repr.body),
                _ => None,
            })
            .collect()
    }

    /// The peer's next message, not sent yet.
    pub(crate) fn next(&self, body: Body, payload_len: u32) -> Repr {
        Repr {
            flags: Flags::default(),
            bufs: self.bufs,
            mseq: self.mseq.next(),
            mseq_ack: self.ack,
            body,
            payload_len,
        }
    }

    pub(crate) fn send_repr(&mut self, repr: &Repr) -> Result<Delivery, PeerError> {
        self.mseq = repr.mseq;
        let header = repr.emit();
        let len = u32::from(repr.payload_offset()) + repr.payload_len;
        let mut head = header.as_bytes().to_vec();
        head.resize(usize::try_from(len).unwrap().min(36), 0x5a);
        self.conn.handle_message(&head, len)
    }

    pub(crate) fn send(&mut self, body: Body, payload_len: u32) -> Result<Delivery, PeerError> {
        let repr = self.next(body, payload_len);
        self.send_repr(&repr)
    }

    pub(crate) fn queue(&mut self, len: u32) {
        self.conn.queue(len, Queue::default()).unwrap();
    }
}
