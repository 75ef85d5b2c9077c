// SPDX-License-Identifier: GPL-2.0

//! One engine, and the part of the kernel module: it posts the engine's requests and executes its
//! outputs, without knowledge of the protocol.

use crate::{
    app::App,
    coverage::{event_of, Coverage},
    fault::{ensure, Checked, Fault},
    frame::{Frame, Span},
    ledger::Ledger,
    memory::{Region, Use},
    patience::Patience,
    port::{Done, Port, Work},
    side::Side,
    thrift::Thrift,
    trace::{Sight, Trace},
};
use sdp_engine::engine::{
    conn::{
        Config, Connection, Ended, Output, Queue, Run, SinkBuffer, SinkEnd, SinkWhy, State, Why,
    },
    timer::{Deadlines, Timer},
};

/// Maximum number of unsent bytes of an application, like SO_SNDBUF.
const SEND_BUFFER: u64 = 2000;

/// State that all sides share.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watch {
    pub(crate) coverage: Coverage,
    pub(crate) trace: Trace,
    pub(crate) steps: u64,
    /// Milliseconds, on one clock for both sides.
    pub(crate) now: u64,
}

/// A message for the connection manager.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Leave {
    Stays,
    /// DREQ, or REJ before there is a connection.
    Tells,
}

#[derive(Clone, Debug)]
pub(crate) struct Shell {
    pub(crate) side: Side,
    pub(crate) cfg: Config,
    /// None: no connection was requested yet.
    pub(crate) conn: Option<Connection>,
    pub(crate) port: Port,
    pub(crate) app: App,
    pub(crate) ledger: Ledger,
    pub(crate) deadlines: Deadlines,
    pub(crate) patience: Patience,
    pub(crate) thrift: Thrift,
    pub(crate) starved: u16,
    /// There is no memory to post messages.
    pub(crate) refused: bool,
    dreq_sent: bool,
    /// The other side knows, or will know, that this one has ended.
    pub(crate) told: bool,
}

impl Shell {
    pub(crate) fn new(side: Side, cfg: Config) -> Self {
        Self {
            side,
            cfg,
            conn: None,
            port: Port::default(),
            app: App::default(),
            ledger: Ledger::default(),
            deadlines: Deadlines::new(),
            patience: Patience::default(),
            thrift: Thrift::default(),
            starved: 0,
            refused: false,
            dreq_sent: false,
            told: false,
        }
    }

    /// Posts the buffers that Hello and HelloAck announce.
    pub(crate) fn begin(&mut self, mut conn: Connection) -> &mut Connection {
        self.port
            .post_receives(self.cfg.rx_initial, conn.rcv_size());
        conn.on_receives_posted(self.cfg.rx_initial);
        self.conn.insert(conn)
    }

    pub(crate) fn state(&self) -> Option<State> {
        self.conn.as_ref().map(Connection::state)
    }

    pub(crate) fn ended(&self) -> Option<Ended> {
        self.conn.as_ref().and_then(Connection::ended)
    }

    /// Passes an event to the engine, and counts it.
    pub(crate) fn tell<R>(
        &mut self,
        watch: &mut Watch,
        event: &'static str,
        happen: impl FnOnce(&mut Connection) -> R,
    ) -> Option<R> {
        let conn = self.conn.as_mut()?;
        watch.coverage.add(conn.state(), event);
        Some(happen(conn))
    }

    /// The drain rule.
    pub(crate) fn settle(&mut self, watch: &mut Watch) -> Checked<Leave> {
        let mut disconnect = false;
        while let Some(conn) = self.conn.as_mut() {
            if conn.is_at_rest() {
                check_rest(conn)?;
                break;
            }
            let wanted = conn.receives_wanted();
            let posted = u16::try_from(self.port.posted()).unwrap_or(u16::MAX);
            // Two are always available, however little memory there is.
            let keep = 2u16.saturating_sub(posted);
            let post = wanted.saturating_sub(self.starved).max(wanted.min(keep));
            if post > 0 {
                self.port.post_receives(post, conn.rcv_size());
                conn.on_receives_posted(post);
            }
            conn.allow_posts(!self.refused);
            let Some(output) = conn.poll_output() else {
                break;
            };
            let max_payload = conn.max_payload();
            self.thrift.on_output(&output, self.app.next_is_run());
            disconnect |= output == Output::Disconnect;
            self.carry_out(output, max_payload, watch)?;
            self.check()?;
        }
        if let Some(conn) = self.conn.as_ref() {
            self.deadlines
                .settle(|| watch.now, |timer| conn.wants(timer));
            self.patience.note(conn, watch.now);
        }
        self.thrift.on_settled();
        self.check_drained()?;
        if self.ended().is_some() {
            self.port.kill();
        }
        // Without a DREQ the shell sends a REJ.
        let rejects = self.state() == Some(State::Ended) && !self.told;
        if disconnect || rejects {
            self.told = true;
            return Ok(Leave::Tells);
        }
        Ok(Leave::Stays)
    }

    fn carry_out(&mut self, output: Output, max_payload: u32, watch: &mut Watch) -> Checked {
        match output {
            Output::Send {
                header,
                payload_len,
                solicited: _,
            } => {
                ensure!(!self.dreq_sent, "a message after the DREQ");
                self.thrift.on_posted(payload_len, max_payload);
                let frame = Frame::new(&header, self.app.take(payload_len)?);
                self.check_worth(&frame)?;
                self.thrift.check_offer(&frame)?;
                self.post(frame, watch)?;
            }
            Output::Write { to, len } => {
                ensure!(!self.dreq_sent, "a Write after the DREQ");
                let payload = self.app.take(len)?;
                let side = self.side;
                watch
                    .trace
                    .see(|| Sight::Left(side, 0, format!("RDMA Write of {len}")));
                self.post_work(Work::Write {
                    key: to.r_key,
                    va: to.va,
                    payload,
                })?;
            }
            Output::Taken { run, len } => self.app.taken(run, len)?,
            Output::Dropped { run, len } => self.app.dropped(run, len)?,
            Output::Returned { run, why } => {
                self.port.memory.give_back_run(run, why == Why::Over)?;
            }
            Output::SinkReturned { sink, why } => {
                let stays = why == SinkWhy::Over;
                let region = self.port.memory.give_back_sink(sink, stays)?;
                ensure!(
                    stays || written(&region).is_empty(),
                    "bytes are lost in {region:?}"
                );
            }
            Output::Disconnect => {
                ensure!(!self.dreq_sent, "a second DREQ");
                self.dreq_sent = true;
            }
        }
        Ok(())
    }

    fn post(&mut self, frame: Frame, watch: &mut Watch) -> Checked {
        let Some(repr) = frame.repr() else {
            return Err(Fault::new(format!("{frame:?} is no message")));
        };
        ensure!(
            repr.payload_len == frame.payload.len,
            "{repr} goes with {} bytes",
            frame.payload.len
        );
        self.ledger.on_sent(&repr)?;
        let number = u64::from(repr.mseq.get());
        let side = self.side;
        watch
            .trace
            .see(|| Sight::Left(side, number, repr.to_string()));
        self.post_work(Work::Send(frame))
    }

    fn post_work(&mut self, work: Work) -> Checked {
        let zcopy = self.cfg.zcopy;
        let depth = [
            self.cfg.tx_depth.into(),
            zcopy.read_depth.into(),
            zcopy.write_depth.into(),
        ];
        self.port.post(work, depth)
    }

    /// Passes the oldest arrived message to the engine.
    pub(crate) fn handle(&mut self, watch: &mut Watch) -> Checked<bool> {
        let Some(frame) = self.port.arrived.pop_front() else {
            return Ok(false);
        };
        let Some(conn) = self.conn.as_mut() else {
            return Ok(false);
        };
        let repr = frame.repr();
        let over = conn.ended().is_some();
        watch.coverage.add(conn.state(), event_of(repr.as_ref()));
        if let (Some(repr), false) = (&repr, over) {
            self.ledger.on_received(repr)?;
        }
        let delivery = conn.handle_message(frame.head(), frame.wire_len());
        let delivery = match (delivery, &repr) {
            (Ok(delivery), _) => delivery,
            (Err(error), Some(repr)) => {
                return Err(Fault::new(format!(
                    "{:?} takes {repr} for a violation: {error}",
                    self.side
                )))
            }
            (Err(error), None) => return Err(Fault::new(format!("no message: {error}"))),
        };
        if delivery.peer_closed {
            ensure!(!self.app.eof, "a second end of the stream");
            self.app.eof = true;
        }
        if let Some(end) = delivery.sink {
            self.end_sink(end, delivery.payload_len > 0)?;
        }
        if delivery.payload_len > 0 {
            let mut span = frame.payload;
            span.len = delivery.payload_len;
            self.app.deliver(span, delivery.urgent_byte)?;
        }
        Ok(true)
    }

    /// An offered buffer has ended, with bytes or because payload came as Data.
    fn end_sink(&mut self, end: SinkEnd, payload: bool) -> Checked {
        let region = self.port.memory.give_back_sink(end.sink, false)?;
        let spans = written(&region);
        let sum: u32 = spans.iter().map(|span| span.len).sum();
        ensure!(
            sum == end.len && ((end.len > 0) != payload || self.app.closed),
            "{end:?} of {region:?}, payload {payload}"
        );
        for span in spans {
            self.app.place_directly(*span)?;
        }
        Ok(())
    }

    /// Reports the oldest completed request.
    pub(crate) fn complete(&mut self, watch: &mut Watch) -> Checked<bool> {
        let Some(done) = self.port.done.pop_front() else {
            return Ok(false);
        };
        match done {
            Done::Send => {
                self.thrift.on_completed();
                self.tell(watch, "send completed", Connection::handle_send_completed);
            }
            Done::Read(span) => {
                if self.ended().is_none() {
                    self.app.place_directly(span)?;
                }
                self.tell(watch, "read completed", Connection::handle_read_completed);
            }
            Done::Write => {
                self.tell(watch, "write completed", Connection::handle_write_completed);
            }
        }
        Ok(true)
    }

    pub(crate) fn write(&mut self, len: u16, how: Queue, watch: &mut Watch) -> bool {
        let len = u32::from(len);
        if self.app.unsent() + u64::from(len) > SEND_BUFFER {
            return false;
        }
        let accepted = self.tell(watch, "write", |conn| conn.queue(len, how).is_ok());
        if accepted == Some(true) {
            self.app.on_written(len, how.urgent);
            self.thrift.on_write(how.more);
        }
        accepted == Some(true)
    }

    pub(crate) fn set_cork(&mut self, on: bool) -> bool {
        let Some(conn) = self.conn.as_mut() else {
            return false;
        };
        conn.set_cork(on);
        self.thrift.on_cork(on);
        true
    }

    pub(crate) fn read(&mut self) -> bool {
        let Some(conn) = self.conn.as_mut().filter(|_| !self.app.closed) else {
            return false;
        };
        let read = self.app.read();
        if read {
            conn.on_buffer_consumed();
        }
        read
    }

    /// A write with bytes that the peer may read, or that may be written into its memory.
    pub(crate) fn write_run(&mut self, len: u16, inline: u8, watch: &mut Watch) -> bool {
        let len = u32::from(len);
        if self.app.unsent() + u64::from(len) > SEND_BUFFER {
            return false;
        }
        let (r_key, va) = self.port.memory.next();
        let run = Run {
            len,
            r_key,
            va,
            inline: inline.into(),
        };
        let queued = self.tell(watch, "write", |conn| conn.queue_run(run));
        let Some(Ok(id)) = queued else {
            return false;
        };
        self.port.memory.lend(len, Use::Run(Some(id)));
        self.app.on_run(len, id);
        self.thrift.on_write(false);
        self.thrift.on_run();
        true
    }

    /// A signal: the last run, and the bytes after it, are withdrawn.
    pub(crate) fn withdraw(&mut self) -> bool {
        let (Some(conn), Some(run)) = (self.conn.as_mut(), self.app.last_run()) else {
            return false;
        };
        conn.withdraw(run).is_ok()
    }

    /// Reads bytes from the peer's memory.
    pub(crate) fn read_remote(&mut self, max: u32, watch: &mut Watch) -> Checked<bool> {
        if self.app.closed {
            return Ok(false);
        }
        let Some(conn) = self.conn.as_mut() else {
            return Ok(false);
        };
        let expected = conn.next_remote();
        let Ok(remote) = conn.start_read(max) else {
            return Ok(false);
        };
        let first = expected.is_some_and(|e| e.va == remote.va && e.r_key == remote.r_key);
        ensure!(
            first && remote.len > 0 && remote.len <= max,
            "{remote:?} of {expected:?}, at most {max}"
        );
        let side = self.side;
        watch
            .trace
            .see(|| Sight::Left(side, 0, format!("RDMA Read of {}", remote.len)));
        self.post_work(Work::Read {
            key: remote.r_key,
            va: remote.va,
            len: remote.len,
        })?;
        Ok(true)
    }

    /// Offers a buffer to the peer.
    pub(crate) fn offer(&mut self, more: u8) -> bool {
        if self.app.closed {
            return false;
        }
        let Some(conn) = self.conn.as_mut() else {
            return false;
        };
        let len = conn.sink_len_min() + u32::from(more);
        let (r_key, va) = self.port.memory.next();
        let Ok(id) = conn.offer_sink(SinkBuffer { len, r_key, va }) else {
            return false;
        };
        let what = Use::Sink(Some(id), Vec::new());
        self.port.memory.lend(len, what);
        true
    }

    pub(crate) fn request_pipelined(&mut self) -> bool {
        self.conn
            .as_mut()
            .is_some_and(|conn| conn.request_pipelined().is_ok())
    }

    /// Handles a Read of the peer.
    pub(crate) fn on_remote_read(&mut self, key: u32, va: u64, len: u32) -> Checked<Span> {
        let (region, offset) = self.port.memory.access(key, va, len)?;
        let (what, whole) = (region.what.clone(), region.len);
        let place = match what {
            Use::Run(Some(run)) => self.app.place(run, whole, offset),
            Use::Run(None) | Use::Sink(..) => None,
        };
        let Some(start) = place else {
            return Err(Fault::new(format!("a Read of {what:?}")));
        };
        Ok(Span { start, len })
    }

    /// Handles a Write of the peer.
    pub(crate) fn on_remote_write(&mut self, key: u32, va: u64, payload: Span) -> Checked {
        let (region, offset) = self.port.memory.access(key, va, payload.len)?;
        let Use::Sink(_, spans) = &mut region.what else {
            return Err(Fault::new(format!("a Write to {region:?}")));
        };
        let used: u32 = spans.iter().map(|span| span.len).sum();
        ensure!(offset == used, "a Write at {offset}, behind {used} bytes");
        spans.push(payload);
        Ok(())
    }

    pub(crate) fn shut_down(&mut self, watch: &mut Watch) -> bool {
        let there = self.conn.is_some();
        if there {
            self.app.shut = true;
            self.tell(watch, "shutdown", Connection::shutdown_send);
        }
        there
    }

    /// Like close(): an abort if there are unread bytes.
    pub(crate) fn close(&mut self, watch: &mut Watch) -> bool {
        if self.conn.is_none() || self.app.closed {
            return false;
        }
        self.app.closed = true;
        self.app.shut = true;
        let remote = self.conn.as_ref().map_or(0, Connection::remote_len);
        if self.app.unread.is_empty() && remote == 0 {
            self.tell(watch, "close", |conn| {
                conn.close_receive();
                conn.shutdown_send();
            });
        } else {
            self.tell(watch, "abort", Connection::abort);
        }
        true
    }

    /// All timers that are wanted.
    pub(crate) fn timers(&self) -> Vec<Timer> {
        self.conn
            .as_ref()
            .map_or_else(Vec::new, |conn| conn.timers().collect())
    }

    /// Sets whether a reader waits for bytes.
    pub(crate) fn set_reading(&mut self, on: bool) -> bool {
        let Some(conn) = self.conn.as_mut() else {
            return false;
        };
        self.patience.reading = on;
        conn.set_reading(on);
        true
    }

    /// One of the timers that match expires, regardless of the time; `at` is its index.
    pub(crate) fn time_out(
        &mut self,
        at: u8,
        pass: impl Fn(Timer) -> bool,
        watch: &mut Watch,
    ) -> bool {
        let mut wanted = self.timers();
        wanted.retain(|timer| pass(*timer));
        let count = wanted.len().max(1);
        let Some(timer) = wanted.get(usize::from(at) % count).copied() else {
            return false;
        };
        self.deadlines.stop(timer);
        self.ring(timer, watch);
        true
    }

    /// The next timer that is due expires.
    pub(crate) fn run_timer(&mut self, watch: &mut Watch) -> bool {
        let due = self.deadlines.take_due(watch.now);
        if let Some(timer) = due {
            self.ring(timer, watch);
        }
        due.is_some()
    }

    fn ring(&mut self, timer: Timer, watch: &mut Watch) {
        let event = match timer {
            Timer::PeerClose => "PeerClose timer",
            _ => "another timer",
        };
        self.tell(watch, event, |conn| conn.handle_timeout(timer));
    }

    /// Compares the engine's counts with the shell's.
    pub(crate) fn check(&self) -> Checked {
        let Some(conn) = &self.conn else {
            return Ok(());
        };
        ensure!(conn.is_sound(), "unsound: {conn:?}");
        let posted = self.port.posted();
        ensure!(
            usize::from(conn.posted()) == posted,
            "{} buffers posted, and the engine counts {}",
            posted,
            conn.posted()
        );
        let most = usize::from(self.cfg.rx_depth) + 2;
        ensure!(
            posted + self.app.unread.len() <= most,
            "{posted} buffers posted and {} unread, of {most}",
            self.app.unread.len()
        );
        if conn.ended().is_some() {
            return Ok(());
        }
        ensure!(
            usize::from(conn.held()) == self.app.unread.len(),
            "{} buffers unread, and the engine counts {}",
            self.app.unread.len(),
            conn.held()
        );
        Ok(())
    }

    /// Conditions that hold when the engine has no more output.
    fn check_drained(&self) -> Checked {
        self.check()?;
        let Some(conn) = self.conn.as_ref().filter(|conn| conn.ended().is_none()) else {
            return Ok(());
        };
        ensure!(
            u64::from(conn.unsent()) == self.app.unsent(),
            "{} bytes unsent, and the engine counts {}",
            self.app.unsent(),
            conn.unsent()
        );
        self.thrift.check(self, conn)
    }
}

/// Whether a connection that is said to be at rest has nothing to do.
fn check_rest(conn: &Connection) -> Checked {
    let output = conn.clone().poll_output();
    ensure!(output.is_none(), "at rest, but there is {output:?}");
    let timer = conn.timers().next();
    ensure!(timer.is_none(), "at rest, but {timer:?} is wanted");
    let (wanted, granted) = (conn.receives_wanted(), conn.granted());
    ensure!(
        wanted == 0 || granted >= 3,
        "at rest, but {wanted} receives are wanted, and the peer has {granted} credits"
    );
    Ok(())
}

fn written(region: &Region) -> &[Span] {
    match &region.what {
        Use::Sink(_, spans) => spans,
        Use::Run(_) => &[],
    }
}
