// SPDX-License-Identifier: GPL-2.0

//! One engine, and a peer that behaves as another implementation is known to.
//!
//! The models are written from what is known of these implementations on the
//! wire: what they send when, what they ignore, and what they get wrong. What
//! is checked is what an application would notice: every byte arrives, in both
//! directions, and the connection ends well.

use crate::{
    dice::{Bytes, Dice},
    fault::{ensure, Checked, Fault},
    frame::{Frame, Span},
    port::{Done, Work},
    run::{limits, Shown},
    shell::{Leave, Shell, Watch},
    side::Side,
};
use sdp_engine::engine::{
    conn::{Config, Connection, Ended, Queue},
    timer::Timer,
    types::{Ip, Mseq},
    wire::{
        avail::SrcAvail,
        hello::{Hello, HelloAck},
        mode::{Half, Mode, ModeChange},
        Body, Flags, Repr,
    },
};
use std::collections::VecDeque;

/// Which implementation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Mellanox OFED: Combined for ever, one SrcAvail, many partial completions,
    /// no credit updates once the peer has sent its DisConn.
    Ofed,
    /// OpenIB gen2 as far as its source and sink of SrcAvails: Pipelined mode,
    /// many SrcAvails, one SendSm for all, and an acknowledgement that waits.
    Gen2,
}

const IP: Ip = Ip::V4([10, 0, 0, 1]);
const RCV_SIZE: u16 = 80;
const BUFFERS: i64 = 6;
const ROUNDS_MAX: usize = 20_000;

/// Meets the peer that these bytes describe.
pub fn meet(kind: Kind, bytes: &[u8]) -> Checked<Shown> {
    meet_by(kind, &mut Bytes::new(bytes), usize::MAX)
}

/// The same with dice that may be without end.
pub fn meet_by(kind: Kind, dice: &mut impl Dice, most: usize) -> Checked<Shown> {
    let mut meeting = Meeting::new(kind, dice)?;
    for _ in 0..most {
        if dice.is_empty() {
            break;
        }
        meeting.step(dice)?;
        meeting.watch.steps += 1;
    }
    meeting.finish()?;
    Ok(Shown {
        steps: meeting.watch.steps,
        coverage: meeting.watch.coverage,
    })
}

/// A SrcAvail of the model.
#[derive(Clone, Debug)]
struct Advert {
    mseq: u32,
    key: u32,
    inline: u32,
    /// Place of the first byte that is not inline.
    start: u64,
    /// Bytes that are not inline, and of these completed.
    len: u32,
    done: u32,
}

/// A SrcAvail of the engine.
#[derive(Clone, Debug)]
struct Held {
    key: u32,
    va: u64,
    left: u32,
}

/// What the model's program has written: one call each.
#[derive(Clone, Debug)]
struct Write {
    left: u32,
    /// Large enough to be advertised.
    large: bool,
}

struct Meeting {
    kind: Kind,
    shell: Shell,
    watch: Watch,
    /// On its way to the engine.
    out: VecDeque<Frame>,
    mseq: u32,
    received: u32,
    credits: i64,
    /// Receive buffers, and Bufs of the last message sent less what came since.
    posted: i64,
    told: i64,
    written: u64,
    sent: u64,
    writes: VecDeque<Write>,
    adverts: VecDeque<Advert>,
    /// Of the cancel that is not answered.
    cancel: Option<u32>,
    wants_cancel: bool,
    pipelined: bool,
    /// The engine's direction, as far as we were told.
    delivered: u64,
    held: VecDeque<Held>,
    /// Payload buffers that the program has not read.
    unread: i64,
    answers: VecDeque<Body>,
    shut: bool,
    disconn_sent: bool,
    disconn_received: bool,
    first: bool,
    dreq: bool,
}

impl Meeting {
    fn new(kind: Kind, dice: &mut impl Dice) -> Checked<Self> {
        let drawn = limits(dice);
        // The message in which a SrcAvail goes has to fit.
        let cfg = Config {
            max_send_payload: drawn.max_send_payload.min(RCV_SIZE - 16),
            ..drawn
        };
        let mut meeting = Self {
            kind,
            shell: Shell::new(Side::A, cfg),
            watch: Watch::default(),
            out: VecDeque::new(),
            mseq: 0,
            received: 0,
            credits: 0,
            posted: BUFFERS,
            told: BUFFERS,
            written: 0,
            sent: 0,
            writes: VecDeque::new(),
            adverts: VecDeque::new(),
            cancel: None,
            wants_cancel: false,
            pipelined: false,
            delivered: 0,
            held: VecDeque::new(),
            unread: 0,
            answers: VecDeque::new(),
            shut: false,
            disconn_sent: false,
            disconn_received: false,
            first: false,
            dreq: false,
        };
        let conn = meeting.shell.begin(Connection::connecting(cfg));
        let hello = conn
            .hello(IP, IP, 1)
            .map_err(|e| fault(&format!("{e:?}")))?;
        let hello = Hello::parse(&hello).map_err(|e| fault(&e.to_string()))?;
        meeting.shell.ledger.on_hello_sent(hello.bufs);
        meeting.credits = hello.bufs.into();
        let ack = HelloAck {
            bufs: u16::try_from(BUFFERS).unwrap_or(3),
            minor: 2,
            max_adverts: if kind == Kind::Gen2 { 255 } else { 1 },
            actual_rcv_size: RCV_SIZE.into(),
        };
        meeting.shell.ledger.on_hello_received(ack.bufs);
        let taken = meeting
            .shell
            .tell(&mut meeting.watch, "REP, good HelloAck", |conn| {
                conn.handle_hello_ack(&ack.emit())
            });
        ensure!(
            taken == Some(Ok(())),
            "the HelloAck is not taken: {taken:?}"
        );
        meeting.settle()?;
        Ok(meeting)
    }

    fn step(&mut self, dice: &mut impl Dice) -> Checked {
        let (shell, watch) = (&mut self.shell, &mut self.watch);
        let len = |dice: &mut _, most| u16::try_from(Dice::between(dice, 1, most)).unwrap_or(1);
        match dice.below(20) {
            0 | 1 => {
                let how = Queue {
                    more: dice.once_in(8),
                    urgent: dice.once_in(16),
                };
                shell.write(len(dice, 150), how, watch);
            }
            2 | 3 => {
                shell.write_run(len(dice, 300), 0, watch);
            }
            4 => {
                shell.read();
            }
            5 => {
                shell.read_remote(dice.between(1, 300), watch)?;
            }
            6 => {
                let on = dice.once_in(2);
                if let Some(conn) = shell.conn.as_mut() {
                    match dice.below(4) {
                        0 => conn.recall(),
                        1 => conn.decline(),
                        _ => conn.set_reading(on),
                    }
                }
            }
            7 => {
                if matches!(
                    shell.timer,
                    Some(Timer::Cork | Timer::Decline | Timer::Recall)
                ) {
                    shell.time_out(watch);
                }
            }
            8..=10 => {
                self.carry_in()?;
            }
            11..=13 => {
                self.carry_out()?;
            }
            14 => {
                shell.handle(watch)?;
            }
            15 => {
                shell.complete(watch)?;
            }
            16 | 17 => {
                let large = dice.once_in(2);
                let left = dice.between(2, if large { 300 } else { 120 });
                if self.writes.len() < 4 {
                    self.writes.push_back(Write { left, large });
                    self.written += u64::from(left);
                }
            }
            18 => self.read(dice.between(1, 200))?,
            _ => self.wants_cancel = true,
        }
        self.settle()
    }

    /// Something of the engine reaches the model.
    fn carry_in(&mut self) -> Checked<bool> {
        let Some(work) = self.shell.port.out.pop_front() else {
            return Ok(false);
        };
        let done = match work {
            Work::Send(frame) => {
                self.take(&frame)?;
                Done::Send
            }
            Work::Read { key, va, len } => {
                let found = self.adverts.iter().find(|advert| advert.key == key);
                let Some(advert) = found else {
                    return Err(fault("a Read of what is not advertised"));
                };
                let offset = u32::try_from(va).unwrap_or(u32::MAX);
                let offset = offset.wrapping_sub(advert.inline);
                ensure!(
                    offset.saturating_add(len) <= advert.len && offset >= advert.done,
                    "a Read of {len} at {offset} of {advert:?}"
                );
                let start = advert.start + u64::from(offset);
                Done::Read(Span { start, len })
            }
            Work::Write { .. } => return Err(fault("a Write, and nothing was offered")),
        };
        self.shell.port.done.push_back(done);
        Ok(true)
    }

    fn carry_out(&mut self) -> Checked<bool> {
        let Some(frame) = self.out.pop_front() else {
            return Ok(false);
        };
        self.shell.port.fill(frame)?;
        Ok(true)
    }

    fn take(&mut self, frame: &Frame) -> Checked {
        let Some(repr) = frame.repr() else {
            return Err(fault("the engine sends no message"));
        };
        ensure!(self.posted > 0, "no buffer for {repr}");
        ensure!(
            frame.wire_len() <= RCV_SIZE.into(),
            "{repr} is longer than {RCV_SIZE}"
        );
        self.posted -= 1;
        self.told -= 1;
        self.received += 1;
        let ack = repr.mseq_ack.get();
        self.credits = i64::from(repr.bufs) - i64::from(self.mseq - ack);
        if repr.payload_len > 0 {
            ensure!(
                frame.payload.start == self.delivered,
                "bytes from {} on at {}",
                frame.payload.start,
                self.delivered
            );
            self.delivered = frame.payload.end();
            self.unread += 1;
        } else {
            self.posted += 1;
        }
        match repr.body {
            Body::Data => {}
            Body::DisConn => {
                self.disconn_received = true;
                self.first = self.disconn_sent;
            }
            Body::RdmaRdCompl(len) => self.on_completion(ack, len)?,
            Body::SendSm => self.on_send_sm(ack),
            Body::SrcAvail(advert) => {
                ensure!(
                    self.held.is_empty() || self.kind == Kind::Gen2,
                    "a second SrcAvail for a peer with MaxAdverts 1"
                );
                self.held.push_back(Held {
                    key: advert.r_key,
                    va: advert.va + u64::from(repr.payload_len),
                    left: advert.len - repr.payload_len,
                });
            }
            Body::SrcAvailCancel => {
                if !self.held.is_empty() {
                    self.held.clear();
                    self.answers.push_back(Body::SendSm);
                }
            }
            Body::ModeChange(_) => {
                ensure!(self.kind == Kind::Gen2, "a ModeChange for OFED");
            }
            other => return Err(fault(&format!("{other:?} for {:?}", self.kind))),
        }
        Ok(())
    }

    fn on_completion(&mut self, ack: u32, len: u32) -> Checked {
        let Some(advert) = self.adverts.front_mut() else {
            return Ok(());
        };
        if ack < advert.mseq {
            return Ok(());
        }
        advert.done += len;
        ensure!(
            advert.done <= advert.len,
            "{} bytes completed of {advert:?}",
            advert.done
        );
        if advert.done == advert.len {
            self.adverts.pop_front();
            if self.adverts.is_empty() {
                self.cancel = None;
            }
        }
        Ok(())
    }

    /// The rest of all adverts goes as Data.
    fn on_send_sm(&mut self, ack: u32) {
        let Some(front) = self.adverts.front() else {
            return;
        };
        if ack < front.mseq {
            return;
        }
        let start = front.start + u64::from(front.done);
        let left = u32::try_from(self.sent - start).unwrap_or(u32::MAX);
        self.sent = start;
        self.adverts.clear();
        self.cancel = None;
        if left > 0 {
            self.writes.push_front(Write { left, large: false });
        }
    }

    /// The model's program reads.
    fn read(&mut self, most: u32) -> Checked {
        if self.unread > 0 {
            self.unread -= 1;
            self.posted += 1;
            return Ok(());
        }
        let Some(held) = self.held.front_mut() else {
            return Ok(());
        };
        let len = most.min(held.left);
        let span = self.shell.on_remote_read(held.key, held.va, len)?;
        ensure!(
            span.start == self.delivered,
            "bytes from {} on are read at {}",
            span.start,
            self.delivered
        );
        self.delivered = span.end();
        held.va += u64::from(len);
        held.left -= len;
        if held.left == 0 {
            self.held.pop_front();
        }
        self.answers.push_back(Body::RdmaRdCompl(len));
        Ok(())
    }

    /// Everything that the model may send now.
    fn speak(&mut self) {
        loop {
            if self.credits >= 2 {
                if let Some(body) = self.answers.pop_front() {
                    self.send(body, 0);
                    continue;
                }
            }
            if self.credits >= 3 && self.speak_payload() {
                continue;
            }
            let closing = self.shut && self.writes.is_empty() && self.adverts.is_empty();
            if closing && !self.disconn_sent && self.credits >= 2 {
                self.disconn_sent = true;
                self.send(Body::DisConn, 0);
                continue;
            }
            if self.wants_update() {
                self.send(Body::Data, 0);
                continue;
            }
            break;
        }
    }

    fn speak_payload(&mut self) -> bool {
        if self.wants_cancel && self.cancel.is_none() && !self.adverts.is_empty() {
            self.wants_cancel = false;
            self.send(Body::SrcAvailCancel, 0);
            self.cancel = Some(self.mseq);
            return true;
        }
        self.wants_cancel = false;
        let most = u32::from(self.shell.cfg.rcv_size) - 16;
        let room = match (self.kind, self.pipelined) {
            (Kind::Gen2, true) => usize::from(self.shell.cfg.max_adverts.min(3)),
            _ => 1,
        };
        let busy = !self.adverts.is_empty();
        let wish = self.kind == Kind::Gen2 && !self.pipelined && self.shell.cfg.max_adverts > 1;
        if wish && self.writes.len() >= 2 && !busy {
            self.pipelined = true;
            let change = ModeChange {
                half: Half::Receive,
                mode: Mode::Pipelined,
            };
            self.send(Body::ModeChange(change), 0);
            return true;
        }
        let Some(write) = self.writes.front_mut() else {
            return false;
        };
        let large = write.large && write.left >= 2;
        if large && self.cancel.is_none() && self.adverts.len() < room {
            let inline = u32::from(!self.pipelined);
            let len = write.left;
            self.writes.pop_front();
            let start = self.sent + u64::from(inline);
            let key = self.mseq + 1000;
            let advert = SrcAvail {
                len,
                r_key: key,
                va: 0,
            };
            self.advertise(advert, inline, start);
            return true;
        }
        if busy {
            return false;
        }
        let len = write.left.min(most);
        write.left -= len;
        if write.left == 0 {
            self.writes.pop_front();
        }
        self.send(Body::Data, len);
        true
    }

    fn advertise(&mut self, advert: SrcAvail, inline: u32, start: u64) {
        let len = advert.len - inline;
        self.send(Body::SrcAvail(advert), inline);
        self.sent += u64::from(len);
        self.adverts.push_back(Advert {
            mseq: self.mseq,
            key: advert.r_key,
            inline,
            start,
            len,
            done: 0,
        });
    }

    /// OFED's rule, and its silence once the peer has sent DisConn.
    fn wants_update(&self) -> bool {
        let closed = self.disconn_received && (self.kind == Kind::Ofed || self.disconn_sent);
        let c = self.told.max(0);
        let more = if c <= 2 {
            self.posted > c
        } else {
            2 * self.posted > 3 * c
        };
        !closed && more && self.credits > 0
    }

    fn send(&mut self, body: Body, payload_len: u32) {
        self.credits -= 1;
        self.mseq += 1;
        self.told = self.posted;
        let repr = Repr {
            flags: Flags::default(),
            bufs: u16::try_from(self.posted).unwrap_or(0),
            mseq: Mseq::new(self.mseq),
            mseq_ack: Mseq::new(self.received),
            body,
            payload_len,
        };
        let payload = Span {
            start: self.sent,
            len: payload_len,
        };
        self.sent = payload.end();
        self.out.push_back(Frame::new(&repr.emit(), payload));
    }

    fn settle(&mut self) -> Checked {
        if self.shell.settle(&mut self.watch)? == Leave::Tells {
            self.dreq = true;
        }
        self.speak();
        Ok(())
    }

    /// Everything that can happen happens, with programs that read. When
    /// nothing else is left, timers run.
    fn run_out(&mut self) -> Checked {
        for _ in 0..ROUNDS_MAX {
            let mut moved = self.carry_in()? | self.carry_out()?;
            moved |= self.shell.handle(&mut self.watch)?;
            moved |= self.shell.complete(&mut self.watch)?;
            self.settle()?;
            moved |= self.shell.read();
            moved |= self.shell.read_remote(u32::MAX, &mut self.watch)?;
            let waits = self.unread > 0 || !self.held.is_empty();
            self.read(u32::MAX)?;
            moved |= waits;
            self.settle()?;
            if !moved && !self.shell.time_out(&mut self.watch) {
                return Ok(());
            }
            self.settle()?;
        }
        Err(fault("the two never come to rest"))
    }

    fn finish(&mut self) -> Checked {
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
        // Who was first disconnects, and the other one is told.
        if let (true, Some(conn)) = (self.first || self.dreq, self.shell.conn.as_mut()) {
            conn.handle_disconnect_requested();
        }
        self.settle()?;
        let ended = self.shell.ended();
        ensure!(ended == Some(Ended::Finished), "ended: {ended:?}");
        self.shell.port.memory.check_returned()
    }

    fn check_transferred(&self) -> Checked {
        let app = &self.shell.app;
        ensure!(
            self.delivered == app.written(),
            "the engine's program wrote {} bytes and {} arrived",
            app.written(),
            self.delivered
        );
        ensure!(
            app.read == self.written,
            "the other program wrote {} bytes and {} were read",
            self.written,
            app.read
        );
        Ok(())
    }
}

fn fault(text: &str) -> Fault {
    Fault::new(text.to_owned())
}
