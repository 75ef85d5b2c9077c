// SPDX-License-Identifier: GPL-2.0

//! One engine, and a peer that behaves like another implementation.
//!
//! The models follow the known behaviour of these implementations on the wire: when they send what,
//! which input they ignore, and their faults. The checks are an application's: every byte
//! arrives, in both directions, and the connection ends correctly.

mod books;
mod sink;
mod source;
mod speak;
mod time;

use crate::{
    dice::Dice,
    fault::{ensure, fault, Checked},
    frame::{Frame, Span},
    port::{Done, Work},
    run::limits,
    shell::{Leave, Shell, Watch},
    side::Side,
    trace::Sight,
};
use books::{Books, BUFFERS_MAX, BUFFERS_MIN, LARGE_SIZE, RCV_SIZE};
use sdp_engine::engine::{
    conn::{Config, Connection, Ended, Queue},
    timer::Timer,
    types::Ip,
    wire::{
        hello::{Hello, HelloAck},
        mode::Mode,
        Body,
    },
};
use sink::Sink;
use source::Source;
use std::collections::VecDeque;
use time::Stall;

/// Which implementation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// Mellanox OFED: stays in Combined mode, one SrcAvail, many partial completions, no credit
    /// updates once the peer has sent its DisConn. It announces larger buffers when it begins to
    /// post them.
    Ofed,
    /// OpenIB gen2: Pipelined mode with many SrcAvails, one SendSm for all and sometimes a second
    /// one, SinkAvails that take precedence over SrcAvails and are counted against payload, and an
    /// acknowledgement that waits for a Read.
    Gen2,
}

const IP: Ip = Ip::V4([10, 0, 0, 1]);
/// Maximum payload of a message to the model.
const PAYLOAD_MAX: u32 = 64;
const ROUNDS_MAX: usize = 20_000;

/// A message in flight to the engine.
#[derive(Clone, Debug)]
enum Going {
    Send(Frame),
    Write { key: u32, va: u64, payload: Span },
}

pub(crate) struct Meeting {
    kind: Kind,
    shell: Shell,
    pub(crate) watch: Watch,
    out: VecDeque<Going>,
    books: Books,
    source: Source,
    sink: Sink,
    /// Control messages that wait for credits.
    answers: VecDeque<Body>,
    /// The program wants to send a SinkAvail for so many bytes.
    offer: Option<u32>,
    /// A cancel is answered by SendSm even after an earlier SendSm.
    again: bool,
    shut: bool,
    disconn_sent: bool,
    disconn_received: bool,
    first: bool,
    dreq: bool,
    stall: Option<Stall>,
    /// Whether there is a stall at all.
    stalls: bool,
}

impl Meeting {
    pub(crate) fn new(kind: Kind, watch: Watch, dice: &mut impl Dice) -> Checked<Self> {
        let drawn = limits(dice);
        // The message with a SrcAvail must fit.
        let long = kind == Kind::Ofed && dice.once_in(2);
        let cfg = Config {
            max_send_payload: if long {
                u32::from(LARGE_SIZE) - 16
            } else {
                drawn.max_send_payload.min(u32::from(RCV_SIZE) - 16)
            },
            ..drawn
        };
        let mut shell = Shell::new(Side::A, cfg);
        let mut watch = watch;
        let conn = shell.begin(Connection::connecting(cfg));
        let hello = conn
            .hello(IP, IP, 1)
            .map_err(|e| fault(&format!("{e:?}")))?;
        let hello = Hello::parse(&hello).map_err(|e| fault(&e.to_string()))?;
        shell.ledger.on_hello_sent(hello.bufs);
        let buffers = dice.between(BUFFERS_MIN, BUFFERS_MAX);
        let buffers = u16::try_from(buffers).unwrap_or(3);
        let ack = HelloAck {
            bufs: buffers,
            minor: 2,
            max_adverts: if kind == Kind::Gen2 { 255 } else { 1 },
            actual_rcv_size: RCV_SIZE.into(),
        };
        shell.ledger.on_hello_received(ack.bufs);
        let taken = shell.tell(&mut watch, "REP, good HelloAck", |conn| {
            conn.handle_hello_ack(&ack.emit())
        });
        ensure!(
            taken == Some(Ok(())),
            "the HelloAck is not taken: {taken:?}"
        );
        let mut meeting = Self {
            kind,
            shell,
            watch,
            out: VecDeque::new(),
            books: Books::new(hello.bufs, buffers),
            source: Source::new(kind, hello.max_adverts, u32::from(cfg.rcv_size) - 16),
            sink: Sink::new(kind),
            answers: VecDeque::new(),
            offer: None,
            again: dice.once_in(2),
            shut: false,
            disconn_sent: false,
            disconn_received: false,
            first: false,
            dreq: false,
            stall: None,
            stalls: dice.once_in(4),
        };
        meeting.settle()?;
        Ok(meeting)
    }

    pub(crate) fn step(&mut self, dice: &mut impl Dice) -> Checked {
        self.watch.steps += 1;
        match dice.below(20) {
            0 if dice.once_in(4) => self.pass(crate::op::time(dice).into())?,
            0 if self.stalls && dice.once_in(4) => self.begin_stall(dice),
            0..=4 => self.program(dice)?,
            5 | 6 => self.wish(dice),
            7 | 8 => self.model_program(dice)?,
            9..=11 => {
                self.carry_in()?;
            }
            12..=15 => {
                self.carry_out()?;
            }
            16 | 17 => {
                self.shell.handle(&mut self.watch)?;
            }
            18 => {
                self.shell.complete(&mut self.watch)?;
            }
            _ => {
                let short = [Timer::Cork, Timer::Decline, Timer::Recall];
                let pass = |timer| short.contains(&timer);
                self.shell.time_out(0, pass, &mut self.watch);
            }
        }
        self.settle()
    }

    fn note(&mut self, side: Side, text: impl FnOnce() -> String) {
        self.watch.trace.see(|| Sight::Note(side, text()));
    }

    /// The engine's program acts.
    fn program(&mut self, dice: &mut impl Dice) -> Checked {
        let (shell, watch) = (&mut self.shell, &mut self.watch);
        let size = |dice: &mut _, most| u16::try_from(Dice::between(dice, 1, most)).unwrap_or(1);
        match dice.below(5) {
            0 => {
                let how = Queue {
                    more: dice.once_in(8),
                    urgent: dice.once_in(16),
                };
                let len = size(dice, 150);
                shell.write(len, how, watch);
                self.note(Side::A, || format!("writes {len} bytes"));
            }
            1 | 2 => {
                let len = size(dice, 300);
                shell.write_run(len, 0, watch);
                self.note(Side::A, || format!("writes {len} registered bytes"));
            }
            3 => {
                shell.read();
            }
            _ => {
                shell.read_remote(dice.between(1, 300), watch)?;
            }
        }
        Ok(())
    }

    /// The engine's shell changes its settings.
    fn wish(&mut self, dice: &mut impl Dice) {
        let on = dice.once_in(2);
        match dice.below(8) {
            0 => {
                self.shell.offer(30);
            }
            1 => {
                self.shell.request_pipelined();
            }
            6 | 7 => {
                self.shell.set_reading(on);
            }
            wish => {
                if let Some(conn) = self.shell.conn.as_mut() {
                    match wish {
                        2 => conn.recall(),
                        3 => conn.decline(),
                        4 => conn.cancel_sinks(),
                        _ => conn.set_req_pipe(on),
                    }
                }
            }
        }
    }

    /// The model's program acts, or the model changes its settings.
    fn model_program(&mut self, dice: &mut impl Dice) -> Checked {
        if !self.does(Stall::Program) {
            return Ok(());
        }
        match dice.below(14) {
            0..=3 => {
                let large = dice.once_in(2);
                let len = dice.between(2, if large { 300 } else { 120 });
                self.note(Side::B, || format!("writes {len} bytes"));
                self.source.write(len, large);
            }
            4 | 5 => self.read(dice.between(1, 200)),
            6 | 7 => {
                self.complete_read()?;
            }
            8 => self.source.wants_cancel = true,
            9 => self.offer = Some(PAYLOAD_MAX + dice.below(200)),
            10 => self.sink.decline(&mut self.answers),
            11 | 12 if self.does(Stall::Write) => self.source.pace += 1,
            _ if dice.once_in(2) => self.answers.extend(self.sink.cancel_offers()),
            _ if dice.once_in(6) => {
                // Rarely for good, as the engine's sink leaves the choice to it.
                self.source.wants_mode = Some(if dice.once_in(32) {
                    Mode::Buffered
                } else {
                    Mode::Combined
                });
            }
            _ => {}
        }
        Ok(())
    }

    /// Delivers the engine's next request to the model.
    fn carry_in(&mut self) -> Checked<bool> {
        if !self.does(Stall::Hear) {
            return Ok(false);
        }
        let Some(work) = self.shell.port.out.pop_front() else {
            return Ok(false);
        };
        let done = match work {
            Work::Send(frame) => {
                self.take(&frame)?;
                Done::Send
            }
            Work::Read { key, va, len } => Done::Read(self.source.on_read(key, va, len)?),
            Work::Write { key, va, payload } => {
                self.sink.on_write(key, va, payload)?;
                Done::Write
            }
        };
        self.shell.port.done.push_back(done);
        Ok(true)
    }

    fn carry_out(&mut self) -> Checked<bool> {
        if self.shell.port.dead {
            // The model's queue pair learns of it in its own time.
            return Ok(self.out.pop_front().is_some());
        }
        match self.out.pop_front() {
            None => return Ok(false),
            Some(Going::Send(frame)) => {
                if let Some(repr) = frame.repr() {
                    let number = repr.mseq.get().into();
                    self.watch
                        .trace
                        .see(|| Sight::Reached(Side::A, number, repr.to_string()));
                }
                self.shell.port.fill(frame)?;
            }
            Some(Going::Write { key, va, payload }) => {
                self.note(Side::B, || format!("RDMA Write of {}", payload.len));
                self.shell.on_remote_write(key, va, payload)?;
            }
        }
        Ok(true)
    }

    fn take(&mut self, frame: &Frame) -> Checked {
        let Some(repr) = frame.repr() else {
            return Err(fault("the engine sends no message"));
        };
        self.books.receive(frame, &repr)?;
        let number = u64::from(repr.mseq.get());
        self.watch
            .trace
            .see(|| Sight::Reached(Side::B, number, repr.to_string()));
        let free = repr.payload_len == 0 || self.sink.on_payload(frame.payload)?;
        self.books.posted += i64::from(free);
        let ack = repr.mseq_ack.get();
        self.source.on_acked(ack);
        match repr.body {
            Body::Data => {}
            Body::DisConn => {
                self.disconn_received = true;
                self.first = self.disconn_sent;
                self.sink.on_disconn()?;
            }
            Body::RdmaRdCompl(len) => self.source.on_completion(ack, len)?,
            Body::SendSm => self.source.on_send_sm(ack),
            Body::SrcAvail(advert) => self.sink.on_src_avail(advert, &repr)?,
            Body::SrcAvailCancel => {
                if self.sink.on_cancel(self.again, &mut self.answers) {
                    self.books.held_ack = Some(self.books.received - 1);
                }
            }
            Body::ModeChange(change) => self.sink.on_mode_change(change)?,
            Body::SinkAvail(advert) => self.source.on_sink_avail(advert, ack)?,
            Body::SinkAvailCancel => self.source.on_sink_cancel(&mut self.answers),
            Body::SinkCancelAck => self.sink.on_cancel_ack()?,
            Body::RdmaWrCompl(len) => self.sink.on_written(len)?,
            // Regardless of the posted buffers.
            Body::ChRcvBuf(_) if self.kind == Kind::Ofed => {
                self.books.resize(LARGE_SIZE);
                let payload = u32::from(LARGE_SIZE) - 16;
                self.answers.push_back(Body::ChRcvBufAck(payload));
            }
            other => return Err(fault(&format!("{other:?} for {:?}", self.kind))),
        }
        Ok(())
    }

    fn read(&mut self, most: u32) {
        let stalls = match self.sink.reads_remote() {
            true => !self.does(Stall::ReadRemote),
            false => !self.does(Stall::Read),
        };
        if stalls {
            return;
        }
        let free = self.sink.read(most);
        self.books.posted += i64::from(free);
    }

    /// Completes the model's Read, if there is one.
    fn complete_read(&mut self) -> Checked<bool> {
        let Some(read) = self
            .sink
            .reading()
            .filter(|_| self.does(Stall::Complete) && !self.shell.port.dead)
        else {
            return Ok(false);
        };
        self.note(Side::B, || format!("RDMA Read of {}", read.len));
        let span = self.shell.on_remote_read(read.key, read.va, read.len)?;
        if self.sink.on_read(span, &mut self.answers)? {
            self.books.held_ack = None;
        }
        Ok(true)
    }

    fn settle(&mut self) -> Checked {
        if self.shell.settle(&mut self.watch)? == Leave::Tells {
            self.dreq = true;
        }
        self.speak();
        Ok(())
    }

    /// Executes all possible steps, with programs that read. If no other step is possible, timers
    /// expire.
    fn run_out(&mut self) -> Checked {
        self.source.pace = u32::MAX;
        for _ in 0..ROUNDS_MAX {
            let mut moved = self.carry_in()? | self.carry_out()?;
            moved |= self.shell.handle(&mut self.watch)?;
            moved |= self.shell.complete(&mut self.watch)?;
            self.settle()?;
            moved |= self.shell.read();
            moved |= self.shell.read_remote(u32::MAX, &mut self.watch)?;
            moved |= self.sink.has_unread();
            self.read(u32::MAX);
            moved |= self.complete_read()?;
            self.settle()?;
            if !moved && !self.shell.time_out(0, |_| true, &mut self.watch) {
                return Ok(());
            }
            self.settle()?;
        }
        Err(fault("the two never come to rest"))
    }

    fn check_transferred(&self) -> Checked {
        let app = &self.shell.app;
        ensure!(
            self.sink.delivered == app.written(),
            "the engine's program wrote {} bytes and {} arrived",
            app.written(),
            self.sink.delivered
        );
        ensure!(
            app.read == self.source.written,
            "the other program wrote {} bytes and {} were read",
            self.source.written,
            app.read
        );
        Ok(())
    }

    /// Both programs end their streams.
    pub(crate) fn finish(&mut self) -> Checked {
        if self.stall.is_some() {
            return self.leave();
        }
        self.run_out()?;
        self.check_transferred()?;
        self.shut = true;
        self.run_out()?;
        self.shell.shut_down(&mut self.watch);
        self.settle()?;
        self.run_out()?;
        self.check_transferred()?;
        ensure!(
            self.disconn_sent && self.disconn_received,
            "no end of the streams: {:?}",
            self.shell.conn
        );
        // The side that closed first disconnects, and the other one is told.
        if let (true, Some(conn)) = (self.first || self.dreq, self.shell.conn.as_mut()) {
            conn.handle_disconnect_requested();
        }
        self.settle()?;
        let ended = self.shell.ended();
        ensure!(ended == Some(Ended::Finished), "ended: {ended:?}");
        self.shell.port.memory.check_returned()
    }
}

#[cfg(test)]
mod tests {
    use super::{Kind, Meeting};
    use crate::{dice::Seeded, fault::Checked, shell::Watch};
    use std::collections::BTreeSet;

    /// Rare events that occur in meetings with a peer of this kind.
    fn seen(kind: Kind) -> Checked<BTreeSet<&'static str>> {
        let mut seen = BTreeSet::new();
        for seed in 0..12_000 {
            let mut dice = Seeded::new(seed);
            let mut meeting = Meeting::new(kind, Watch::default(), &mut dice)?;
            for _ in 0..200 {
                meeting.step(&mut dice)?;
            }
            meeting.finish()?;
            seen.extend(meeting.source.seen);
            seen.extend(meeting.sink.seen);
        }
        Ok(seen)
    }

    //= test: CROSS-1, CROSS-2, DISCARD-1, DISCARD-3, DISCARD-4, DISCARD-5, MODE-6, SENDSM-3
    //= test: SRCCANCEL-5
    #[test]
    fn a_peer_like_gen2_meets_every_crossing() -> Checked {
        let all = [
            "Data of the engine that uses up a SinkAvail",
            "Data that uses up a SinkAvail",
            "SinkCancelAck",
            "SinkCancelAck of the engine",
            "SrcAvails void by a SinkAvail",
            "a SinkAvail void by a mode",
            "a SrcAvail that crosses SendSm",
            "a SrcAvail that crosses a SinkAvail",
            "a Write",
            "a Write of the engine",
            "a cancel of what is written into",
            "a cancel that waits for a Read",
            "a second SendSm",
            "a stale SinkAvail",
            "payload in a SinkAvail",
        ];
        assert_eq!(Vec::from_iter(seen(Kind::Gen2)?), all);
        Ok(())
    }

    //= test: ADVERT-3
    #[test]
    fn a_peer_like_ofed_meets_nothing_of_pipelined_mode() -> Checked {
        let some = ["a cancel that waits for a Read", "a second SendSm"];
        assert_eq!(Vec::from_iter(seen(Kind::Ofed)?), some);
        Ok(())
    }
}
