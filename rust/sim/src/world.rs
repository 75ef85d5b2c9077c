// SPDX-License-Identifier: GPL-2.0

//! Two peers, the link and the connection manager between them.
//!
//! Checked after every step:
//! - delivered bytes are the written bytes, in order;
//! - each sent message has the needed credits, the next number and the right acknowledgement,
//!   according to counts from the headers alone;
//! - each message that arrives finds a receive buffer;
//! - the credits of a side never exceed the buffers that wait for its messages;
//! - the counts of the engine and of the shell agree, and the engine's parts are sound;
//! - bytes that could be sent have been sent, and memory that no application reads is not advertised for
//!   ever;
//! - the limits for buffers and sends hold.
//!
//! At the end of a run: activity ends within a limit, then everything has arrived, and both sides
//! know that the connection has ended.

use crate::{
    cm::{Cm, Mad},
    coverage::Coverage,
    fault::{ensure, Checked},
    loans::Loans,
    op::{Op, Step},
    port::{Done, Work},
    shell::{Leave, Shell, Watch},
    side::Side,
    trace::Sight,
    travel::Travel,
};
use sdp_engine::engine::{
    conn::{Config, Connection, Ended, Queue},
    timer::Timer,
    types::Ip,
    wire::hello::{Hello, HelloAck},
};
use std::fmt::Write as _;

/// Far more rounds than two peers need until nothing happens.
const ROUNDS_MAX: usize = 20_000;

/// The two peers and everything between them.
#[derive(Clone, Debug)]
pub struct World {
    a: Shell,
    b: Shell,
    cm: Cm,
    pub(crate) watch: Watch,
    pub(crate) travel: Travel,
}

const IP_A: Ip = Ip::V4([10, 0, 0, 1]);
const IP_B: Ip = Ip::V4([10, 0, 0, 2]);

impl World {
    /// A's Hello is in flight to B.
    pub fn new(a: Config, b: Config) -> Checked<Self> {
        let mut world = Self {
            a: Shell::new(Side::A, a),
            b: Shell::new(Side::B, b),
            cm: Cm::default(),
            watch: Watch::default(),
            travel: Travel::default(),
        };
        world.connect()?;
        Ok(world)
    }

    /// The same, with all visible events recorded.
    pub fn observed(a: Config, b: Config) -> Checked<Self> {
        let mut world = Self {
            a: Shell::new(Side::A, a),
            b: Shell::new(Side::B, b),
            cm: Cm::default(),
            watch: Watch::default(),
            travel: Travel::default(),
        };
        world.watch.trace.sights = Some(Vec::new());
        world.connect()?;
        Ok(world)
    }

    /// Connected, with no message in flight.
    pub fn established(a: Config, b: Config) -> Checked<Self> {
        let mut world = Self::new(a, b)?;
        world.rest()?;
        Ok(world)
    }

    fn connect(&mut self) -> Checked {
        let cfg = self.a.cfg;
        self.a.begin(Connection::connecting(cfg));
        let hello = self.a.tell(&mut self.watch, "make Hello", |c| {
            c.hello(IP_A, IP_B, 40000)
        });
        if let Some(Ok(bytes)) = hello {
            self.send_mad(Side::B, Mad::Req(Box::new(bytes)));
        }
        self.settle(Side::A)
    }

    pub(crate) fn side(&self, side: Side) -> &Shell {
        match side {
            Side::A => &self.a,
            Side::B => &self.b,
        }
    }

    pub(crate) fn both(&mut self, side: Side) -> (&mut Shell, &mut Shell, &mut Watch) {
        match side {
            Side::A => (&mut self.a, &mut self.b, &mut self.watch),
            Side::B => (&mut self.b, &mut self.a, &mut self.watch),
        }
    }

    /// The pairs that occurred so far, for comparison with the engine's table.
    pub fn coverage(&self) -> &Coverage {
        &self.watch.coverage
    }

    /// The uses of lent memory, for both sides.
    pub fn loans(&self) -> Loans {
        let mut sum = Loans::default();
        for conn in [&self.a.conn, &self.b.conn].into_iter().flatten() {
            sum.add(&Loans::of(conn.stats()));
        }
        sum
    }

    /// Number of steps that had an effect.
    pub fn steps(&self) -> u64 {
        self.watch.steps
    }

    pub(crate) fn sights(&self) -> &[Sight] {
        self.watch.trace.sights.as_deref().unwrap_or_default()
    }

    /// The reason why each side has ended, if it has.
    pub fn ended(&self) -> [Option<Ended>; 2] {
        [self.a.ended(), self.b.ended()]
    }

    /// Executes one step. Returns false if the step was impossible and changed nothing.
    pub fn apply(&mut self, step: Step) -> Checked<bool> {
        let moved = self.happen(step)?;
        if moved {
            self.watch.steps += 1;
            self.settle(step.side)?;
            self.check()?;
        }
        Ok(moved)
    }

    fn happen(&mut self, step: Step) -> Checked<bool> {
        let side = step.side;
        let place = self.sights().len();
        let (shell, _, watch) = self.both(side);
        shell.patience.wanted |= matches!(step.op, Op::Withdraw | Op::Recall | Op::CancelSinks);
        let moved = match step.op {
            Op::Write { len, more, urgent } => shell.write(len, Queue { more, urgent }, watch),
            Op::WriteRun { len, inline } => shell.write_run(len, inline, watch),
            Op::Withdraw => shell.withdraw(),
            Op::Recall => told(shell.conn.as_mut(), Connection::recall),
            Op::ReadRemote(max) => shell.read_remote(max.into(), watch)?,
            Op::Reading(on) => shell.set_reading(on),
            Op::Hold(may) => told(shell.conn.as_mut(), |conn| {
                conn.hold_offers(may);
            }),
            Op::Decline => told(shell.conn.as_mut(), Connection::decline),
            Op::Offer(more) => shell.offer(more),
            Op::CancelSinks => told(shell.conn.as_mut(), Connection::cancel_sinks),
            Op::Pipelined => shell.request_pipelined(),
            Op::ReqPipe(on) => told(shell.conn.as_mut(), |conn| conn.set_req_pipe(on)),
            Op::AskRcvSize(len) => told(shell.conn.as_mut(), |conn| {
                let _ = conn.ask_rcv_size(len.into());
            }),
            Op::Idle => told(shell.conn.as_mut(), Connection::on_idle),
            Op::Read(count) => (0..count).take_while(|_| shell.read()).count() > 0,
            Op::Nodelay(on) => told(shell.conn.as_mut(), |conn| conn.set_nodelay(on)),
            Op::Cork(on) => shell.set_cork(on),
            Op::Push => told(shell.conn.as_mut(), Connection::push),
            Op::Chunk => told(shell.conn.as_mut(), Connection::release_chunk),
            Op::Shutdown => shell.shut_down(watch),
            Op::Close => shell.close(watch),
            Op::Abort => shell.tell(watch, "abort", Connection::abort).is_some(),
            Op::Complete(count) => self.repeat(count, |world| {
                let (shell, _, watch) = world.both(side);
                shell.complete(watch)
            })?,
            Op::Timeout(at) => {
                let long = [
                    Timer::PeerClose,
                    Timer::CancelAnswer,
                    Timer::SinkCancelAnswer,
                ];
                shell.time_out(at, |timer| !long.contains(&timer), watch)
            }
            Op::LongTimeout(at) => {
                shell.patience.unfair = true;
                shell.time_out(at, |_| true, watch)
            }
            Op::Wait(ms) => self.pass(ms.into(), false)?,
            Op::Stall(ms) => self.pass(ms.into(), true)?,
            Op::Trip(ms) => {
                self.travel.trip_ms = ms.into();
                true
            }
            Op::Starve(count) => {
                shell.starved = count.into();
                true
            }
            Op::Refuse(on) => core::mem::replace(&mut shell.refused, on) != on,
            Op::Break => self.fail(side, "link failure", Connection::handle_link_failed),
            Op::GiveUp => {
                self.side(side).port.unreachable
                    && self.fail(side, "unanswered", Connection::handle_unanswered)
            }
            Op::Carry(count) => self.repeat(count, |world| world.carry(side))?,
            Op::Handle(count) => self.repeat(count, |world| {
                let (shell, _, watch) = world.both(side);
                shell.handle(watch)
            })?,
            Op::Mad(at) => self.take_mad(side, at, World::deliver)?,
            Op::LoseMad(at) => self.take_mad(side, at, World::lose)?,
            Op::RepeatMad(at) => self.repeat_mad(side, at),
            Op::SpoilMad(at, byte) => self.spoil_mad(side, at, byte),
        };
        if let (true, Some(words)) = (moved, step.op.in_words()) {
            self.watch.trace.insert(place, Sight::Note(side, words));
        }
        Ok(moved)
    }

    fn repeat(
        &mut self,
        count: u8,
        mut once: impl FnMut(&mut Self) -> Checked<bool>,
    ) -> Checked<bool> {
        let mut moved = false;
        for _ in 0..count {
            if !once(self)? {
                break;
            }
            moved = true;
        }
        Ok(moved)
    }

    /// One request of `side` arrives at the other side; the adapter there executes it.
    fn carry(&mut self, side: Side) -> Checked<bool> {
        let (from, to, watch) = self.both(side);
        let Some(work) = from.port.out.pop_front() else {
            return Ok(false);
        };
        let (number, name) = match &work {
            Work::Send(frame) => {
                let repr = frame.repr();
                let number = repr.map_or(0, |repr| u64::from(repr.mseq.get()));
                let name = repr.map_or_else(|| "garbage".to_owned(), |repr| repr.to_string());
                (number, name)
            }
            Work::Read { len, .. } => (0, format!("RDMA Read of {len}")),
            Work::Write { payload, .. } => (0, format!("RDMA Write of {}", payload.len)),
        };
        if to.port.dead || to.conn.is_none() {
            // Never acknowledged; the sender's retries will run out.
            from.port.unreachable = true;
            watch.trace.see(|| Sight::Lost(side, number, name));
            return Ok(true);
        }
        watch.trace.see(|| Sight::Reached(side, number, name));
        let done = match work {
            Work::Send(frame) => {
                to.port.fill(frame)?;
                Done::Send
            }
            Work::Read { key, va, len } => Done::Read(to.on_remote_read(key, va, len)?),
            Work::Write { key, va, payload } => {
                to.on_remote_write(key, va, payload)?;
                Done::Write
            }
        };
        from.port.done.push_back(done);
        Ok(true)
    }

    fn fail(
        &mut self,
        side: Side,
        event: &'static str,
        happen: impl FnOnce(&mut Connection),
    ) -> bool {
        let (shell, _, watch) = self.both(side);
        let told = shell.tell(watch, event, happen);
        shell.port.kill();
        told.is_some()
    }

    fn send_mad(&mut self, to: Side, mad: Mad) {
        self.watch
            .trace
            .see(|| Sight::Left(to.other(), 0, mad.name().to_owned()));
        self.cm.send(to, mad);
    }

    pub(crate) fn has_mads(&self) -> bool {
        !self.cm.mads.is_empty()
    }

    /// The index in the list of `side`'s datagram number `at`.
    fn find_mad(&self, side: Side, at: u8) -> Option<usize> {
        let mine = |(index, (to, _)): (usize, &(Side, Mad))| (*to == side).then_some(index);
        let all: Vec<usize> = self.cm.mads.iter().enumerate().filter_map(mine).collect();
        all.get(usize::from(at) % all.len().max(1)).copied()
    }

    fn take_mad(
        &mut self,
        side: Side,
        at: u8,
        then: impl FnOnce(&mut Self, Side, Mad) -> Checked,
    ) -> Checked<bool> {
        let found = self.find_mad(side, at);
        let Some((_, mad)) = found.and_then(|index| self.cm.mads.remove(index)) else {
            return Ok(false);
        };
        then(self, side, mad)?;
        Ok(true)
    }

    fn deliver(&mut self, side: Side, mad: Mad) -> Checked {
        self.watch
            .trace
            .see(|| Sight::Reached(side.other(), 0, mad.name().to_owned()));
        match mad {
            Mad::Req(bytes) => self.request(&bytes[..]),
            Mad::Rep(bytes) => self.reply(&bytes[..]),
            Mad::Rtu => {
                let (shell, _, watch) = self.both(side);
                shell.tell(watch, "RTU", Connection::handle_established);
            }
            Mad::Rej => {
                let (shell, _, watch) = self.both(side);
                shell.tell(
                    watch,
                    "DREQ or REJ",
                    Connection::handle_disconnect_requested,
                );
            }
            Mad::Dreq => self.disconnect(side)?,
            Mad::Drep => {
                let (shell, _, watch) = self.both(side);
                shell.tell(watch, "DREP", Connection::handle_disconnected);
                shell.port.kill();
            }
        }
        Ok(())
    }

    fn request(&mut self, bytes: &[u8]) {
        let Ok(hello) = Hello::parse(bytes) else {
            return self.send_mad(Side::A, Mad::Rej);
        };
        let cfg = self.b.cfg;
        self.b.begin(Connection::accepting(cfg, &hello));
        let ack = self
            .b
            .tell(&mut self.watch, "make HelloAck", Connection::hello_ack);
        if let Some(Ok(bytes)) = ack {
            self.a.ledger.on_hello_sent(hello.bufs);
            self.b.ledger.on_hello_received(hello.bufs);
            self.send_mad(Side::A, Mad::Rep(Box::new(bytes)));
        }
    }

    fn reply(&mut self, bytes: &[u8]) {
        let event = match HelloAck::parse(bytes) {
            Ok(ack) => {
                self.b.ledger.on_hello_sent(ack.bufs);
                self.a.ledger.on_hello_received(ack.bufs);
                "REP, good HelloAck"
            }
            Err(_) => "REP, bad HelloAck",
        };
        let taken = self
            .a
            .tell(&mut self.watch, event, |conn| conn.handle_hello_ack(bytes));
        if let Some(Ok(())) = taken {
            self.send_mad(Side::B, Mad::Rtu);
        } else if !self.a.told {
            self.a.told = true;
            self.send_mad(Side::B, Mad::Rej);
        }
    }

    /// Messages that have arrived are handled first; those still on the wire find no queue pair.
    fn disconnect(&mut self, side: Side) -> Checked {
        let (shell, _, watch) = self.both(side);
        shell.tell(watch, "RTU", Connection::handle_established);
        shell.port.kill();
        loop {
            let (shell, _, watch) = self.both(side);
            if !(shell.handle(watch)? || shell.complete(watch)?) {
                break;
            }
            self.settle(side)?;
        }
        let (shell, _, watch) = self.both(side);
        shell.told = true;
        shell.tell(
            watch,
            "DREQ or REJ",
            Connection::handle_disconnect_requested,
        );
        self.send_mad(side.other(), Mad::Drep);
        Ok(())
    }

    /// The result in the connection managers if a datagram is lost each time that it is sent.
    fn lose(&mut self, side: Side, mad: Mad) -> Checked {
        self.watch
            .trace
            .see(|| Sight::Lost(side.other(), 0, mad.name().to_owned()));
        match mad {
            // There is no answer, and the sender gives up.
            Mad::Req(_) => {
                self.fail(side.other(), "unanswered", Connection::handle_unanswered);
            }
            // The sender gives up and reports it.
            Mad::Rep(_) | Mad::Rtu => {
                let waiting = Side::B;
                self.fail(waiting, "unanswered", Connection::handle_unanswered);
                self.settle(waiting)?;
                self.send_mad(Side::A, Mad::Rej);
            }
            // The sender gives up and counts as disconnected.
            Mad::Dreq => self.deliver(side.other(), Mad::Drep)?,
            // The receiver gives up waiting, which has the same effect.
            Mad::Rej | Mad::Drep => self.deliver(side, mad)?,
        }
        self.settle(side.other())
    }

    fn repeat_mad(&mut self, side: Side, at: u8) -> bool {
        let copy = self
            .find_mad(side, at)
            .and_then(|index| self.cm.mads.get(index))
            .filter(|(_, mad)| !matches!(mad, Mad::Req(_) | Mad::Rep(_)))
            .cloned();
        // More than a few copies test nothing new.
        let room = self.cm.mads.len() < 8;
        match copy {
            Some(copy) if room => {
                self.cm.mads.push_back(copy);
                true
            }
            _ => false,
        }
    }

    fn spoil_mad(&mut self, side: Side, at: u8, byte: u8) -> bool {
        let place = usize::from(byte);
        let found = self.find_mad(side, at);
        let byte = match found.and_then(|index| self.cm.mads.get_mut(index)) {
            Some((_, Mad::Req(bytes))) => bytes.get_mut(place),
            Some((_, Mad::Rep(bytes))) => bytes.get_mut(place),
            _ => None,
        };
        // Version, kind, MaxAdverts, MID and length are validated. Other fields would change
        // grants, on which both sides must agree.
        let validated = [0, 1, 4, 5, 6, 7, 8, 12, 16, 19].contains(&place);
        match byte {
            Some(byte) if validated => {
                *byte = if *byte == 0 { 0x77 } else { 0 };
                true
            }
            _ => false,
        }
    }

    pub(crate) fn settle(&mut self, side: Side) -> Checked {
        let (shell, _, watch) = self.both(side);
        if shell.settle(watch)? == Leave::Tells {
            self.send_mad(side.other(), Mad::Dreq);
        }
        Ok(())
    }

    /// Compares each side's view of the other with the facts.
    pub(crate) fn check(&self) -> Checked {
        for side in Side::BOTH {
            let (from, to) = (self.side(side), self.side(side.other()));
            let (Some(conn), Some(_)) = (&from.conn, &to.conn) else {
                continue;
            };
            if !conn.state().is_connected() || from.port.dead || to.port.dead {
                continue;
            }
            let (may, coming) = (usize::from(conn.credits()), from.port.sends_out());
            ensure!(
                may + coming <= to.port.free.len(),
                "{side:?} may send {may} and {coming} are on their way, but {} buffers wait",
                to.port.free.len()
            );
        }
        Ok(())
    }

    /// Executes all steps that need no application or timer. Returns whether there were any.
    pub fn rest(&mut self) -> Checked<bool> {
        for round in 0..ROUNDS_MAX {
            let mut moved = false;
            for side in Side::BOTH {
                for op in [Op::Carry(1), Op::Handle(2), Op::Complete(2)] {
                    moved |= self.apply(Step { side, op })?;
                }
            }
            moved = moved || self.carry_mad()?;
            if !moved {
                return Ok(round > 0);
            }
        }
        Err(crate::fault::Fault::new(
            "the two never come to rest".to_owned(),
        ))
    }

    /// A datagram arrives, or a transport gives up. Messages on the connection are faster.
    pub(crate) fn carry_mad(&mut self) -> Checked<bool> {
        let mut moved = false;
        for side in Side::BOTH {
            for op in [Op::Mad(0), Op::GiveUp] {
                moved = moved || self.apply(Step { side, op })?;
            }
        }
        Ok(moved)
    }

    /// Like [`rest`](Self::rest), with applications that read everything, and with timers when no
    /// other step is possible.
    pub fn run_out(&mut self) -> Checked {
        for side in Side::BOTH {
            let conn = self.both(side).0.conn.as_mut();
            if conn.is_some_and(|conn| conn.hold_offers(false)) {
                self.settle(side)?;
            }
        }
        for _ in 0..ROUNDS_MAX {
            let mut moved = self.rest()?;
            for side in Side::BOTH {
                moved |= self.apply(Step {
                    side,
                    op: Op::Refuse(false),
                })?;
                if self.side(side).starved > 0 {
                    moved |= self.apply(Step {
                        side,
                        op: Op::Starve(0),
                    })?;
                }
                moved |= self.apply(Step {
                    side,
                    op: Op::Read(u8::MAX),
                })?;
                moved |= self.apply(Step {
                    side,
                    op: Op::ReadRemote(u16::MAX),
                })?;
            }
            if !moved {
                moved = self.pass_to_next()?;
            }
            if !moved {
                return Ok(());
            }
        }
        Err(crate::fault::Fault::new(
            "the two never come to an end".to_owned(),
        ))
    }

    /// Both applications read until nothing is left. Then everything must have arrived, and both
    /// sides can send at once.
    pub fn finish_peacefully(&mut self) -> Checked {
        self.run_out()?;
        self.take_back()?;
        ensure!(self.ended() == [None, None], "ended: {:?}", self.ended());
        self.check_transferred()?;
        for side in Side::BOTH {
            let shell = self.side(side);
            let timers = shell.timers();
            ensure!(timers.is_empty(), "{side:?} waits for {timers:?}");
            let credits = shell.conn.as_ref().map_or(0, Connection::credits);
            ensure!(credits >= 3, "{side:?} is left with {credits} credits");
            ensure!(
                i64::from(credits) == shell.ledger.credits(),
                "{side:?} counts {credits} credits of {}",
                shell.ledger.credits()
            );
        }
        self.finish_gracefully()
    }

    /// Both shut down, nothing is lost, and both know that the connection has ended.
    pub fn finish_gracefully(&mut self) -> Checked {
        for side in Side::BOTH {
            self.apply(Step {
                side,
                op: Op::Shutdown,
            })?;
            self.run_out()?;
        }
        self.check_transferred()?;
        let finished = [Some(Ended::Finished); 2];
        ensure!(self.ended() == finished, "ended: {:?}", self.ended());
        self.check_returned()
    }

    /// Takes back buffers that wait for bytes which will not be sent.
    fn take_back(&mut self) -> Checked {
        for side in Side::BOTH {
            self.apply(Step {
                side,
                op: Op::CancelSinks,
            })?;
        }
        self.run_out()?;
        for side in Side::BOTH {
            let memory = &self.side(side).port.memory;
            ensure!(!memory.is_lent(), "{side:?} waits for {memory:?}");
        }
        Ok(())
    }

    fn check_returned(&self) -> Checked {
        for side in Side::BOTH {
            self.side(side).port.memory.check_returned()?;
        }
        Ok(())
    }

    /// Both applications close, whatever happened before, and both sides end.
    pub fn finish_anyhow(&mut self) -> Checked {
        for side in Side::BOTH {
            self.apply(Step {
                side,
                op: Op::Close,
            })?;
        }
        self.run_out()?;
        for side in Side::BOTH {
            let shell = self.side(side);
            // Only traffic reveals that a peer has disappeared.
            if shell.conn.is_some() && shell.ended().is_none() {
                self.apply(Step {
                    side,
                    op: Op::Break,
                })?;
                self.run_out()?;
            }
            let shell = self.side(side);
            ensure!(
                shell.conn.is_none() || shell.ended().is_some(),
                "{side:?} does not end: {:?}",
                shell.conn
            );
        }
        let whole = Side::BOTH.iter().all(|side| self.side(*side).app.eof);
        if whole && self.ended() == [Some(Ended::Finished); 2] {
            self.check_delivered()?;
        }
        self.check_returned()
    }

    fn check_transferred(&self) -> Checked {
        for side in Side::BOTH {
            let (from, to) = (&self.side(side).app, &self.side(side.other()).app);
            ensure!(
                to.read == from.written(),
                "{side:?} wrote {} bytes and {} were read",
                from.written(),
                to.read
            );
        }
        self.check_delivered()
    }

    fn check_delivered(&self) -> Checked {
        for side in Side::BOTH {
            let (from, to) = (&self.side(side).app, &self.side(side.other()).app);
            ensure!(
                to.delivered == from.written(),
                "{side:?} wrote {} bytes and {} arrived",
                from.written(),
                to.delivered
            );
            ensure!(
                to.urgent_received == from.urgent_written,
                "{side:?} marked {:?} and {:?} arrived",
                from.urgent_written,
                to.urgent_received
            );
        }
        Ok(())
    }

    /// All state that affects the future, as text. Counters do not.
    pub(crate) fn describe(&self, text: &mut String) {
        text.clear();
        // Writing to a string does not fail.
        for shell in [&self.a, &self.b] {
            let _ = write!(
                text,
                "{:?}{:?}{:?}{:?}{:?}{:?}",
                shell.port,
                shell.app,
                shell.timers(),
                shell.starved,
                shell.refused,
                shell.told
            );
            let start = text.len();
            let _ = write!(text, "{:?}", shell.conn);
            let counters = text
                .get(start..)
                .and_then(|own| own.find("stats: Stats {").map(|at| start + at));
            let end = counters
                .and_then(|at| text.get(at..))
                .and_then(|rest| rest.find('}'));
            if let (Some(at), Some(len)) = (counters, end) {
                text.replace_range(at..=at + len, "");
            }
        }
        let _ = write!(text, "{:?}{:?}", self.cm, self.travel);
    }
}

fn told(conn: Option<&mut Connection>, tell: impl FnOnce(&mut Connection)) -> bool {
    conn.map(tell).is_some()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test says what is wrong by panicking")]
mod tests {
    use super::World;
    use crate::{
        op::{Op, Step},
        port::Work,
        side::Side,
    };
    use sdp_engine::engine::conn::{Config, Zcopy};

    const CONFIG: Config = Config {
        rcv_size: 116,
        rx_depth: 4,
        rx_initial: 4,
        tx_depth: 8,
        max_send_payload: 100,
        max_adverts: 1,
        rcv_size_max: 0,
        zcopy: Zcopy::OFF,
    };

    const WRITE: Op = Op::Write {
        len: 10,
        more: false,
        urgent: false,
    };

    fn fault(spoil: impl FnOnce(&mut World)) -> String {
        let mut world = World::established(CONFIG, CONFIG).unwrap();
        let side = Side::A;
        world.apply(Step { side, op: WRITE }).unwrap();
        spoil(&mut world);
        world.finish_peacefully().unwrap_err().to_string()
    }

    #[test]
    fn what_the_link_must_not_do_is_noticed() {
        let lost = fault(|world| {
            world.a.port.out.clear();
        });
        assert_eq!(lost, "A wrote 10 bytes and 0 were read");
        let twice = fault(|world| {
            let copy = world.a.port.out.front().unwrap().clone();
            world.a.port.out.push_back(copy);
        });
        assert!(twice.contains("may send"), "{twice}");
        let elsewhere = fault(|world| {
            if let Some(Work::Send(frame)) = world.a.port.out.front_mut() {
                frame.payload.start = 5;
            }
        });
        assert_eq!(elsewhere, "bytes from 5 on are delivered at 0");
        let no_buffer = fault(|world| world.b.port.free.clear());
        assert!(no_buffer.contains("no receive buffer"), "{no_buffer}");
    }

    #[test]
    fn what_an_engine_must_not_do_is_noticed() {
        let forgetful = fault(|world| {
            world.a.app.on_written(1, false);
        });
        assert!(forgetful.contains("the engine counts"), "{forgetful}");
        let overdrawn = fault(|world| {
            // Its ledger says that B has granted no credits.
            world.a.ledger.on_hello_received(0);
            let op = Op::Write {
                len: 100,
                more: false,
                urgent: true,
            };
            for _ in 0..4 {
                let _ = world.happen(Step { side: Side::A, op });
            }
        });
        assert!(overdrawn.contains("credits"), "{overdrawn}");
    }
}
