// SPDX-License-Identifier: GPL-2.0

//! One engine and the model of its shell.

use super::memory::Memory;
use sdp_engine::engine::{
    conn::{Config, Connection, Ended, Output, Queue, Run, RunId, Sink, SinkId, SinkWhy, Why},
    timer::Timer,
    wire::{Message, Repr},
};
use std::collections::VecDeque;

/// What travels, in the order of its posting.
#[derive(Debug, Clone)]
pub(crate) enum Packet {
    Send(Vec<u8>),
    Write { key: u32, va: u64, bytes: Vec<u8> },
}

/// What a completion is of.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Sent {
    Message,
    Write,
}

/// An RDMA Read under way.
#[derive(Debug)]
pub(crate) struct Read {
    pub(crate) key: u32,
    pub(crate) va: u64,
    pub(crate) len: usize,
    /// What it has fetched.
    pub(crate) bytes: Option<Vec<u8>>,
}

/// Bytes of the send stream that lie together.
#[derive(Debug)]
struct Segment {
    run: Option<RunId>,
    bytes: VecDeque<u8>,
}

pub(crate) struct Shell {
    pub(crate) conn: Connection,
    pub(crate) memory: Memory,
    seed: u8,
    fifo: VecDeque<Segment>,
    /// Bytes that have left the stream at its front, in order.
    pub(crate) left: Vec<u8>,
    /// Bytes that have come.
    pub(crate) got: Vec<u8>,
    /// Ends of urgent bytes in those two.
    pub(crate) urgent_left: Vec<usize>,
    pub(crate) urgent_got: Vec<usize>,
    pub(crate) runs: Vec<(RunId, u32)>,
    pub(crate) sinks: Vec<(SinkId, u32)>,
    pub(crate) posted: u16,
    pub(crate) unread: usize,
    pub(crate) wire: VecDeque<Packet>,
    pub(crate) arrived: VecDeque<Vec<u8>>,
    pub(crate) acknowledged: VecDeque<Sent>,
    pub(crate) reads: VecDeque<Read>,
    pub(crate) dreq_sent: bool,
    pub(crate) told: bool,
    pub(crate) eof: bool,
    pub(crate) timer: Option<Timer>,
    pub(crate) withdrawn: usize,
}

impl Shell {
    pub(crate) fn new(conn: Connection, seed: u8) -> Self {
        Self {
            conn,
            memory: Memory::default(),
            seed,
            fifo: VecDeque::new(),
            left: Vec::new(),
            got: Vec::new(),
            urgent_left: Vec::new(),
            urgent_got: Vec::new(),
            runs: Vec::new(),
            sinks: Vec::new(),
            posted: 0,
            unread: 0,
            wire: VecDeque::new(),
            arrived: VecDeque::new(),
            acknowledged: VecDeque::new(),
            reads: VecDeque::new(),
            dreq_sent: false,
            told: false,
            eof: false,
            timer: None,
            withdrawn: 0,
        }
    }

    pub(crate) fn ended(&self) -> Option<Ended> {
        self.conn.ended()
    }

    fn bytes(&mut self, len: u32) -> Vec<u8> {
        (0..len)
            .map(|_| {
                self.seed = self.seed.wrapping_mul(5).wrapping_add(17);
                self.seed
            })
            .collect()
    }

    pub(crate) fn write(&mut self, len: u32, how: Queue) -> bool {
        if self.conn.queue(len, how).is_err() {
            return false;
        }
        let bytes = self.bytes(len).into();
        self.fifo.push_back(Segment { run: None, bytes });
        true
    }

    pub(crate) fn queue_run(&mut self, len: u32, inline: u16) -> bool {
        if self.conn.run_room() == 0 {
            return false;
        }
        let bytes = self.bytes(len);
        let (r_key, va) = self.memory.register(bytes.clone(), false);
        let run = Run {
            len,
            r_key,
            va,
            inline,
        };
        match self.conn.queue_run(run) {
            Ok(id) => {
                self.runs.push((id, r_key));
                self.fifo.push_back(Segment {
                    run: Some(id),
                    bytes: bytes.into(),
                });
                true
            }
            Err(_) => {
                self.memory.give_back(r_key);
                false
            }
        }
    }

    pub(crate) fn withdraw(&mut self, rank: usize) -> bool {
        let Some((id, _)) = self.runs.iter().rev().nth(rank) else {
            return false;
        };
        self.conn.withdraw(*id).is_ok()
    }

    pub(crate) fn offer(&mut self, extra: u32) -> bool {
        if self.conn.sink_room() == 0 {
            return false;
        }
        let len = self.conn.sink_len_min() + extra;
        let (r_key, va) = self
            .memory
            .register(vec![0; usize::try_from(len).unwrap()], true);
        let id = self.conn.offer_sink(Sink { len, r_key, va }).unwrap();
        self.sinks.push((id, r_key));
        true
    }

    pub(crate) fn start_read(&mut self, max: u32) -> bool {
        let Ok(remote) = self.conn.start_read(max) else {
            return false;
        };
        assert!(remote.len > 0 && remote.len <= max);
        self.reads.push_back(Read {
            key: remote.r_key,
            va: remote.va,
            len: usize::try_from(remote.len).unwrap(),
            bytes: None,
        });
        true
    }

    /// The oldest Read completes, if it has fetched its bytes.
    pub(crate) fn complete_read(&mut self) -> bool {
        if self.reads.front().is_none_or(|read| read.bytes.is_none()) {
            return false;
        }
        let bytes = self.reads.pop_front().unwrap().bytes.unwrap();
        self.conn.handle_read_completed();
        if self.ended().is_none() {
            self.got.extend(bytes);
        }
        true
    }

    /// The next `len` bytes of the stream, of one kind.
    fn take(&mut self, len: u32) -> (Option<RunId>, Vec<u8>) {
        let mut left = usize::try_from(len).unwrap();
        let mut taken = Vec::new();
        let mut run = None;
        while left > 0 {
            let segment = self.fifo.front_mut().expect("bytes to send");
            assert!(
                taken.is_empty() || segment.run == run,
                "bytes of two kinds in one operation"
            );
            run = segment.run;
            let n = left.min(segment.bytes.len());
            taken.extend(segment.bytes.drain(..n));
            left -= n;
            if segment.bytes.is_empty() {
                self.fifo.pop_front();
            }
        }
        self.left.extend(&taken);
        (run, taken)
    }

    /// The drain rule. Returns true when a DREQ is to go out.
    pub(crate) fn settle(&mut self) -> bool {
        let mut disconnect = false;
        loop {
            let post = self.conn.receives_wanted();
            self.posted += post;
            self.conn.on_receives_posted(post);
            let Some(output) = self.conn.poll_output() else {
                break;
            };
            self.carry_out(output, &mut disconnect);
            assert!(self.conn.is_sound(), "{:?}", self.conn);
        }
        self.timer = self.conn.timer();
        assert!(self.conn.is_sound(), "{:?}", self.conn);
        disconnect
    }

    fn carry_out(&mut self, output: Output, disconnect: &mut bool) {
        match output {
            Output::Send {
                header,
                payload_len,
                ..
            } => {
                assert!(!self.dreq_sent, "a message after the DREQ");
                let mut bytes = header.as_bytes().to_vec();
                bytes.extend(self.take(payload_len).1);
                if repr(&bytes).flags.oob_pres {
                    self.urgent_left.push(self.left.len());
                }
                self.wire.push_back(Packet::Send(bytes));
            }
            Output::Write { to, len } => {
                let (_, bytes) = self.take(len);
                self.wire.push_back(Packet::Write {
                    key: to.r_key,
                    va: to.va,
                    bytes,
                });
            }
            Output::Taken { run, len } => {
                assert_eq!(self.take(len).0, Some(run));
            }
            Output::Dropped { run, len } => {
                let place = self
                    .fifo
                    .iter()
                    .position(|segment| segment.run == Some(run))
                    .expect("a run that is dropped");
                let segment = self.fifo.remove(place).unwrap();
                assert_eq!(segment.bytes.len(), usize::try_from(len).unwrap());
                self.withdrawn += segment.bytes.len();
            }
            Output::Returned { run, why } => {
                let place = self.runs.iter().position(|(id, _)| *id == run);
                let (_, key) = self.runs.remove(place.expect("a run, once"));
                // At the end the memory is lent until the queue pair is gone.
                if why != Why::Over {
                    self.memory.give_back(key);
                }
            }
            Output::SinkReturned { sink, why } => {
                let key = self.end_sink(sink);
                if why != SinkWhy::Over {
                    self.memory.give_back(key);
                }
            }
            Output::Disconnect => {
                assert!(!self.dreq_sent, "a second DREQ");
                self.dreq_sent = true;
                *disconnect = true;
            }
        }
    }

    fn end_sink(&mut self, sink: SinkId) -> u32 {
        let place = self.sinks.iter().position(|(id, _)| *id == sink);
        self.sinks.remove(place.expect("an offer, once")).1
    }

    /// Hands the oldest arrived message to the engine.
    pub(crate) fn handle_one(&mut self) -> bool {
        let Some(bytes) = self.arrived.pop_front() else {
            return false;
        };
        self.posted -= 1;
        let len = u32::try_from(bytes.len()).unwrap();
        let delivery = self
            .conn
            .handle_message(&bytes[..bytes.len().min(36)], len)
            .unwrap_or_else(|e| panic!("{}: {e}", repr(&bytes)));
        if delivery.peer_closed {
            self.eof = true;
        }
        if let Some(end) = delivery.sink {
            let key = self.end_sink(end.sink);
            let memory = self.memory.give_back(key);
            let len = usize::try_from(end.len).unwrap();
            self.got.extend(memory.iter().take(len));
        }
        if delivery.payload_len > 0 {
            let from = usize::from(delivery.payload_offset);
            self.got
                .extend(&bytes[from..from + usize::from(delivery.payload_len)]);
            self.unread += 1;
        }
        if delivery.urgent_byte {
            self.urgent_got.push(self.got.len());
        }
        true
    }

    pub(crate) fn read_one(&mut self) -> bool {
        if self.unread == 0 {
            return false;
        }
        self.unread -= 1;
        self.conn.on_buffer_consumed();
        true
    }

    pub(crate) fn complete_one(&mut self) -> bool {
        match self.acknowledged.pop_front() {
            Some(Sent::Message) => self.conn.handle_send_completed(),
            Some(Sent::Write) => self.conn.handle_write_completed(),
            None => return false,
        }
        true
    }

    /// Bytes that have left, and those that may.
    pub(crate) fn stream(&self) -> Vec<u8> {
        let mut all = self.left.clone();
        for segment in &self.fifo {
            all.extend(&segment.bytes);
        }
        all
    }

    pub(crate) fn queued(&self) -> usize {
        self.fifo.iter().map(|segment| segment.bytes.len()).sum()
    }
}

pub(crate) fn repr(bytes: &[u8]) -> Repr {
    let head = &bytes[..bytes.len().min(36)];
    Repr::parse(&Message::check(head, u32::try_from(bytes.len()).unwrap()).unwrap()).unwrap()
}

pub(crate) fn start(
    cfg: Config,
    passive: Option<&sdp_engine::engine::wire::hello::Hello>,
) -> Connection {
    let mut conn = match passive {
        Some(hello) => Connection::accepting(cfg, hello),
        None => Connection::connecting(cfg),
    };
    conn.on_receives_posted(cfg.rx_initial);
    conn
}
