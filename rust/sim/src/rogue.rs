// SPDX-License-Identifier: GPL-2.0

//! One engine, and a malicious peer: it sends random messages, from correct ones with one fault to
//! noise.
//!
//! For every input, the engine's invariants hold and its memory is bounded. It sends only messages
//! that the peer has granted, a refused message changes nothing, delivered bytes stay readable, and
//! it reports its end once.

use crate::{
    coverage::event_of,
    dice::Dice,
    fault::{ensure, Checked},
    frame::{Frame, Span},
    op,
    port::{Done, Work},
    run::limits,
    shell::{Shell, Watch},
    side::Side,
    trace::Sight,
};
use sdp_engine::engine::{
    conn::{Connection, Ended, Queue, State},
    error::PeerError,
    timer::Timer,
    types::{Ip, Mseq},
    wire::{
        avail::{SinkAvail, SrcAvail},
        hello::{Hello, HelloAck},
        mode::{Half, Mode, ModeChange},
        Body, Flags, Mid, Repr,
    },
};

const IP: Ip = Ip::V4([10, 0, 0, 1]);

/// Maximum number of steps of a meeting.
const STEPS_MAX: u64 = 2_000;

/// Number of steps that are tried after the end.
const AFTERWARDS: u32 = 40;

pub(crate) struct Rogue {
    shell: Shell,
    pub(crate) watch: Watch,
    /// Number of steps since the end.
    afterwards: u32,
    /// Number of our last message, and of the last one that we acknowledge.
    mseq: Mseq,
    ack: Mseq,
    /// Number of the engine's last message.
    seen: Mseq,
    bufs: u16,
    ended: Option<Ended>,
    /// The end of the Reads in flight.
    reading: u64,
}

fn size(dice: &mut impl Dice, least: u32, most: u32) -> u16 {
    u16::try_from(dice.between(least, most)).unwrap_or(u16::MAX)
}

fn adverts(dice: &mut impl Dice) -> u8 {
    u8::try_from(dice.between(1, 5)).unwrap_or(1)
}

/// Mostly small numbers, sometimes limits.
fn number(dice: &mut impl Dice) -> u32 {
    match dice.below(6) {
        0 => u32::MAX - dice.below(3),
        1 => 0,
        2 => dice.below(1 << 16) << 16,
        _ => dice.below(300),
    }
}

impl Rogue {
    pub(crate) fn new(watch: Watch, dice: &mut impl Dice) -> Checked<Self> {
        let mut cfg = limits(dice);
        if dice.once_in(4) {
            // Much more than the rogue's buffers hold, so that it is asked for larger ones.
            cfg.max_send_payload = 1280;
        }
        let bufs = size(dice, 0, 12);
        let mut rogue = Self {
            shell: Shell::new(Side::A, cfg),
            watch,
            afterwards: 0,
            mseq: Mseq::HELLO,
            ack: Mseq::HELLO,
            seen: Mseq::HELLO,
            bufs,
            ended: None,
            reading: 0,
        };
        if dice.once_in(2) {
            rogue.be_called(dice)?;
        } else {
            rogue.call(dice)?;
        }
        rogue.settle()?;
        Ok(rogue)
    }

    /// The engine sends the Hello, and gets an answer that may be faulty.
    fn be_called(&mut self, dice: &mut impl Dice) -> Checked {
        let cfg = self.shell.cfg;
        self.shell.begin(Connection::connecting(cfg));
        self.hesitate(dice)?;
        let watch = &mut self.watch;
        let hello = self
            .shell
            .tell(watch, "make Hello", |conn| conn.hello(IP, IP, 1));
        if let Some(Ok(hello)) = hello.map(|made| Hello::parse(&made.unwrap_or([0; 92]))) {
            self.shell.ledger.on_hello_sent(hello.bufs);
        }
        let mut ack = HelloAck {
            bufs: self.bufs,
            minor: 2,
            max_adverts: adverts(dice),
            actual_rcv_size: 100,
        }
        .emit();
        spoil(&mut ack, dice);
        if dice.once_in(16) {
            return Ok(());
        }
        let event = match HelloAck::parse(&ack) {
            Ok(ack) => {
                self.bufs = ack.bufs;
                "REP, good HelloAck"
            }
            Err(_) => "REP, bad HelloAck",
        };
        self.shell.ledger.on_hello_received(self.bufs);
        self.shell
            .tell(watch, event, |conn| conn.handle_hello_ack(&ack).is_ok());
        Ok(())
    }

    fn call(&mut self, dice: &mut impl Dice) -> Checked {
        let mut hello = Hello {
            bufs: self.bufs,
            minor: 2,
            capabilities: 0,
            max_adverts: adverts(dice),
            desired_remote_rcv_size: 100,
            local_rcv_size: 100,
            local_port: 1,
            src: IP,
            dst: IP,
            ext_max_adverts: 0,
        }
        .emit();
        spoil(&mut hello, dice);
        let Ok(hello) = Hello::parse(&hello) else {
            return Ok(());
        };
        self.bufs = hello.bufs;
        let cfg = self.shell.cfg;
        self.shell.begin(Connection::accepting(cfg, &hello));
        self.hesitate(dice)?;
        let watch = &mut self.watch;
        let ack = self
            .shell
            .tell(watch, "make HelloAck", Connection::hello_ack);
        if let Some(Ok(ack)) = ack.map(|made| HelloAck::parse(&made.unwrap_or([0; 196]))) {
            self.shell.ledger.on_hello_sent(ack.bufs);
        }
        self.shell.ledger.on_hello_received(self.bufs);
        Ok(())
    }

    /// Whether enough steps were tried, including those after the end.
    pub(crate) fn is_over(&self) -> bool {
        self.afterwards > AFTERWARDS || self.watch.steps >= STEPS_MAX
    }

    pub(crate) fn step(&mut self, dice: &mut impl Dice) -> Checked {
        self.watch.steps += 1;
        self.take_step(dice)?;
        self.afterwards += u32::from(self.ended.is_some() || self.shell.conn.is_none());
        Ok(())
    }

    fn take_step(&mut self, dice: &mut impl Dice) -> Checked {
        let watch = &mut self.watch;
        let shell = &mut self.shell;
        match dice.below(16) {
            0..=5 => self.send(dice)?,
            6 if dice.once_in(4) => self.noise(dice)?,
            6 => self.pass(op::time(dice).into())?,
            7 | 8 => {
                for _ in 0..dice.between(1, 4) {
                    shell.complete(watch)?;
                }
            }
            9 => self.admit(dice),
            10 | 11 => {
                let how = Queue {
                    more: dice.once_in(4),
                    urgent: dice.once_in(4),
                };
                shell.write(size(dice, 1, 250), how, watch);
            }
            12 => {
                shell.read();
            }
            13 => {
                shell.read_remote(dice.between(1, 300), watch)?;
            }
            14 => self.manage(dice)?,
            _ => self.program(dice),
        }
        self.settle()
    }

    /// Events that a shell may cause before Hello or HelloAck are made.
    fn hesitate(&mut self, dice: &mut impl Dice) -> Checked {
        while !dice.is_empty() && dice.once_in(4) {
            match dice.below(3) {
                0 => self.manage(dice)?,
                1 => self.program(dice),
                _ => {
                    let len = size(dice, 1, 250);
                    self.shell.write(len, Queue::default(), &mut self.watch);
                }
            }
        }
        Ok(())
    }

    fn manage(&mut self, dice: &mut impl Dice) -> Checked {
        let (shell, watch) = (&mut self.shell, &mut self.watch);
        match dice.below(16) {
            0 => shell.tell(
                watch,
                "DREQ or REJ",
                Connection::handle_disconnect_requested,
            ),
            1 => shell.tell(watch, "DREP", Connection::handle_disconnected),
            2 if dice.once_in(2) => shell.tell(watch, "unanswered", Connection::handle_unanswered),
            2 => shell.tell(watch, "link failure", Connection::handle_link_failed),
            3..=5 => shell.tell(watch, "RTU", Connection::handle_established),
            // It expired while it was being stopped.
            6 | 7 if !shell.timers().contains(&Timer::PeerClose) => {
                let same = shell.tell(watch, "PeerClose timer", |conn| {
                    let timers = |conn: &Connection| conn.timers().collect::<Vec<_>>();
                    let before = (conn.state(), timers(conn));
                    conn.handle_timeout(Timer::PeerClose);
                    before == (conn.state(), timers(conn))
                });
                ensure!(
                    same != Some(false),
                    "a timer that is not wanted does something"
                );
                None
            }
            _ => {
                shell.time_out(0, |_| true, watch);
                None
            }
        };
        Ok(())
    }

    /// Time passes without a message of the peer.
    fn pass(&mut self, ms: u64) -> Checked {
        let end = self.watch.now + ms;
        while let Some(due) = self.shell.deadlines.next().filter(|due| *due <= end) {
            self.watch.now = self.watch.now.max(due);
            self.shell.run_timer(&mut self.watch);
            self.settle()?;
            self.shell.check_waits(self.watch.now)?;
        }
        self.watch.now = end;
        self.shell.check_waits(end)
    }

    fn program(&mut self, dice: &mut impl Dice) {
        let (shell, watch) = (&mut self.shell, &mut self.watch);
        match dice.below(24) {
            0..=3 => {
                shell.shut_down(watch);
            }
            4 => {
                shell.close(watch);
            }
            5 => {
                shell.tell(watch, "abort", Connection::abort);
            }
            6 | 7 => {
                shell.write_run(size(dice, 1, 300), 0, watch);
            }
            8 => {
                shell.offer(30);
            }
            n if n % 8 == 2 => {
                shell.set_reading(dice.once_in(2));
            }
            n if n % 8 == 1 => {
                shell.set_cork(dice.once_in(2));
            }
            n => {
                if let Some(conn) = shell.conn.as_mut() {
                    let on = dice.once_in(2);
                    match n % 8 {
                        0 => conn.set_nodelay(on),
                        3 => conn.recall(),
                        4 => conn.decline(),
                        5 => conn.cancel_sinks(),
                        6 => conn.set_req_pipe(on),
                        _ => conn.push(),
                    }
                }
            }
        }
    }

    /// Acknowledges more messages.
    fn admit(&mut self, dice: &mut impl Dice) {
        for _ in 0..dice.between(1, 8) {
            if self.ack != self.seen {
                self.ack = self.ack.next();
            }
        }
        self.bufs = size(dice, 0, 20);
    }

    /// Sends a correct message, with at most one fault.
    fn send(&mut self, dice: &mut impl Dice) -> Checked {
        let body = body(dice);
        let mut repr = Repr {
            flags: Flags::default(),
            bufs: self.bufs,
            mseq: self.mseq.next(),
            mseq_ack: self.ack,
            body,
            payload_len: 0,
        };
        let carries = matches!(body, Body::Data | Body::SrcAvail(_) | Body::SinkAvail(_));
        if carries && !dice.once_in(3) {
            repr.payload_len = dice.between(1, 60);
        }
        match dice.below(24) {
            0 => repr.mseq = Mseq::new(number(dice)),
            1 => repr.mseq_ack = Mseq::new(number(dice)),
            2 => repr.bufs = size(dice, 0, 65535),
            3 => repr.payload_len = dice.below(200),
            4 => repr.flags.oob_pend = true,
            5 => repr.flags.oob_pres = true,
            6 => repr.flags.req_pipe = true,
            _ => {}
        }
        let payload = Span {
            start: self.shell.app.delivered,
            len: repr.payload_len,
        };
        let mut bytes = repr.emit().as_bytes().to_vec();
        if dice.once_in(24) {
            let place = dice.below(36);
            if let Some(byte) = usize::try_from(place).ok().and_then(|at| bytes.get_mut(at)) {
                *byte ^= 1 << dice.below(8);
            }
        }
        self.arrive(Frame::raw(&bytes, payload))
    }

    fn noise(&mut self, dice: &mut impl Dice) -> Checked {
        let mut bytes = Vec::new();
        for _ in 0..dice.below(40) {
            bytes.push(u8::try_from(dice.below(256)).unwrap_or(0));
        }
        let payload = Span {
            start: self.shell.app.delivered,
            len: number(dice).min(70_000),
        };
        self.arrive(Frame::raw(&bytes, payload))
    }

    /// The adapter accepts a message if there is a buffer.
    fn arrive(&mut self, frame: Frame) -> Checked {
        let shell = &mut self.shell;
        let Some(conn) = shell.conn.as_mut() else {
            return Ok(());
        };
        let size = shell.port.free.front().copied().unwrap_or(0);
        if frame.wire_len() > size || size == 0 {
            // Not ready, or too long: the transport handles this.
            return Ok(());
        }
        shell.port.free.pop_front();
        let repr = frame.repr();
        self.watch
            .coverage
            .add(conn.state(), event_of(repr.as_ref()));
        self.watch.trace.see(|| {
            let text = repr.map_or_else(|| format!("{frame:?}"), |repr| repr.to_string());
            Sight::Left(Side::B, 0, text)
        });
        let over = conn.ended().is_some();
        let (before, held) = (*conn.stats(), conn.held());
        match conn.handle_message(frame.head(), frame.wire_len()) {
            Ok(delivery) if delivery.payload_len > 0 => {
                ensure!(!over, "bytes are delivered after the end");
                let mut span = frame.payload;
                span.len = delivery.payload_len;
                shell.app.deliver(span, delivery.urgent_byte)?;
            }
            Ok(_) => {}
            Err(error) => {
                ensure!(!over, "a violation after the end: {error}");
                ensure!(*conn.stats() == before, "a violation is counted: {error}");
                ensure!(conn.held() == held, "a violation is held: {error}");
                ensure!(!error.requirement().is_empty(), "{error} names no rule");
                let rejected = matches!(error, PeerError::BeforeEstablished(_));
                let early = conn.state() == State::Ended;
                ensure!(
                    rejected == early,
                    "{error} is answered in {:?}",
                    conn.state()
                );
                return Ok(());
            }
        }
        if let (Some(repr), false) = (repr, over) {
            self.mseq = repr.mseq;
            self.ack = repr.mseq_ack;
            shell.ledger.on_received_of_stranger(&repr);
        }
        Ok(())
    }

    fn settle(&mut self) -> Checked {
        self.shell.settle(&mut self.watch)?;
        while let Some(work) = self.shell.port.out.pop_front() {
            self.shell.port.done.push_back(match work {
                Work::Send(frame) => {
                    self.seen = frame.repr().map_or(self.seen, |repr| repr.mseq);
                    Done::Send
                }
                // The Read returns the next bytes of the stream.
                Work::Read { len, .. } => {
                    let start = self.reading.max(self.shell.app.delivered);
                    self.reading = start + u64::from(len);
                    Done::Read(Span { start, len })
                }
                Work::Write { .. } => Done::Write,
            });
        }
        let ended = self.shell.ended();
        ensure!(
            self.ended.is_none() || ended == self.ended,
            "ended as {:?}, then as {ended:?}",
            self.ended
        );
        self.ended = ended;
        Ok(())
    }

    /// The application reads everything and closes, and the peer's connection manager reports the
    /// end.
    pub(crate) fn leave(&mut self) -> Checked {
        if !self.shell.app.closed {
            while self.shell.read() {
                self.settle()?;
            }
            ensure!(
                self.shell.app.read == self.shell.app.delivered,
                "{} bytes delivered and {} read",
                self.shell.app.delivered,
                self.shell.app.read
            );
        }
        self.shell.close(&mut self.watch);
        self.settle()?;
        for _ in 0..3 {
            while self.shell.complete(&mut self.watch)? {}
            self.shell.time_out(0, |_| true, &mut self.watch);
            self.settle()?;
        }
        if let Some(conn) = self.shell.conn.as_mut() {
            conn.handle_disconnected();
        }
        self.settle()?;
        let over = self.shell.conn.is_none() || self.shell.ended().is_some();
        ensure!(over, "no end: {:?}", self.shell.conn);
        Ok(())
    }
}

/// Sometimes changes a byte.
fn spoil(bytes: &mut [u8], dice: &mut impl Dice) {
    if !dice.once_in(8) {
        return;
    }
    let place = usize::try_from(dice.below(36)).unwrap_or(0);
    if let Some(byte) = bytes.get_mut(place) {
        *byte ^= 1 << dice.below(8);
    }
}

fn body(dice: &mut impl Dice) -> Body {
    let mode = match dice.below(3) {
        0 => Mode::Buffered,
        1 => Mode::Combined,
        _ => Mode::Pipelined,
    };
    let half = if dice.once_in(4) {
        Half::Send
    } else {
        Half::Receive
    };
    match dice.below(32) {
        0 => Body::DisConn,
        1 => Body::AbortConn,
        2 => Body::SendSm,
        3 => Body::RdmaWrCompl(number(dice)),
        4 => Body::RdmaRdCompl(number(dice)),
        5 => Body::ModeChange(ModeChange { half, mode }),
        6 | 7 => Body::SrcAvailCancel,
        8 => Body::SinkAvailCancel,
        9 => Body::SinkCancelAck,
        10 | 11 => Body::ChRcvBuf(number(dice)),
        12 => Body::ChRcvBufAck(number(dice)),
        13 => Body::SuspComm(number(dice).into()),
        14 => Body::SuspCommAck,
        15 => Body::SinkAvail(SinkAvail {
            len: number(dice),
            r_key: 1,
            va: number(dice).into(),
            non_discards: dice.below(3),
        }),
        16..=18 => Body::SrcAvail(SrcAvail {
            len: number(dice),
            r_key: 1,
            va: number(dice).into(),
        }),
        19 => Body::Handshake(if dice.once_in(2) {
            Mid::Hello
        } else {
            Mid::HelloAck
        }),
        20 => Body::Unknown(0x22),
        _ => Body::Data,
    }
}
