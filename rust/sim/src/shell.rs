// SPDX-License-Identifier: GPL-2.0

//! One engine, and what the kernel module is to it: posts what it wants,
//! carries out what it says, and knows nothing of the protocol.

use crate::{
    app::App,
    coverage::{event_of, Coverage},
    fault::{ensure, Checked, Fault},
    frame::Frame,
    ledger::Ledger,
    port::Port,
    side::Side,
    trace::{Sight, Trace},
};
use sdp_engine::engine::{
    conn::{Config, Connection, Ended, Output, Queue, State},
    timer::Timer,
};

/// Unsent bytes that an application may have, as SO_SNDBUF.
const SEND_BUFFER: u64 = 2000;

/// What all sides share.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watch {
    pub(crate) coverage: Coverage,
    pub(crate) trace: Trace,
    pub(crate) steps: u64,
}

/// What the connection manager is to be told.
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
    /// None: nobody has asked for a connection yet.
    pub(crate) conn: Option<Connection>,
    pub(crate) port: Port,
    pub(crate) app: App,
    pub(crate) ledger: Ledger,
    pub(crate) timer: Option<Timer>,
    pub(crate) starved: u16,
    dreq_sent: bool,
    /// The other side knows, or will, that this one is over.
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
            timer: None,
            starved: 0,
            dreq_sent: false,
            told: false,
        }
    }

    /// Begins with the buffers that Hello and HelloAck ask for.
    pub(crate) fn begin(&mut self, mut conn: Connection) -> &mut Connection {
        self.port.post_receives(self.cfg.rx_initial);
        conn.on_receives_posted(self.cfg.rx_initial);
        self.conn.insert(conn)
    }

    pub(crate) fn state(&self) -> Option<State> {
        self.conn.as_ref().map(Connection::state)
    }

    pub(crate) fn ended(&self) -> Option<Ended> {
        self.conn.as_ref().and_then(Connection::ended)
    }

    /// Something happens to the engine, and is counted.
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
            let wanted = conn.receives_wanted();
            let posted = u16::try_from(self.port.posted()).unwrap_or(u16::MAX);
            // Two are always had, however little memory there is.
            let keep = 2u16.saturating_sub(posted);
            let post = wanted.saturating_sub(self.starved).max(wanted.min(keep));
            if post > 0 {
                self.port.post_receives(post);
                conn.on_receives_posted(post);
            }
            let Some(output) = conn.poll_output() else {
                break;
            };
            match output {
                Output::Send {
                    header,
                    payload_len,
                    solicited: _,
                } => {
                    ensure!(!self.dreq_sent, "a message after the DREQ");
                    let frame = Frame::new(&header, self.app.take(payload_len)?);
                    self.post(frame, watch)?;
                }
                Output::Write { .. }
                | Output::Taken { .. }
                | Output::Dropped { .. }
                | Output::Returned { .. }
                | Output::SinkReturned { .. } => {
                    return Err(Fault::new(format!("{output:?} without zero copy")));
                }
                Output::Disconnect => {
                    ensure!(!self.dreq_sent, "a second DREQ");
                    self.dreq_sent = true;
                    disconnect = true;
                }
            }
            self.check()?;
        }
        self.timer = self.conn.as_ref().and_then(Connection::timer);
        self.check()?;
        if self.ended().is_some() {
            self.port.kill();
        }
        // Without a DREQ it is a REJ that the shell sends.
        let rejects = self.state() == Some(State::Ended) && !self.told;
        if disconnect || rejects {
            self.told = true;
            return Ok(Leave::Tells);
        }
        Ok(Leave::Stays)
    }

    fn post(&mut self, frame: Frame, watch: &mut Watch) -> Checked {
        let Some(repr) = frame.repr() else {
            return Err(crate::fault::Fault::new(format!("{frame:?} is no message")));
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
        self.port.post(frame, self.cfg.tx_depth)
    }

    /// The oldest message that has arrived goes to the engine.
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
                return Err(crate::fault::Fault::new(format!(
                    "{:?} takes {repr} for a violation: {error}",
                    self.side
                )))
            }
            (Err(error), None) => {
                return Err(crate::fault::Fault::new(format!("no message: {error}")))
            }
        };
        if delivery.peer_closed {
            ensure!(!self.app.eof, "a second end of the stream");
            self.app.eof = true;
        }
        if delivery.payload_len > 0 {
            let mut span = frame.payload;
            span.len = delivery.payload_len.into();
            self.app.deliver(span, delivery.urgent_byte)?;
        }
        Ok(true)
    }

    /// The oldest send that has completed is reported.
    pub(crate) fn complete(&mut self, watch: &mut Watch) -> bool {
        if self.port.acknowledged == 0 {
            return false;
        }
        self.port.acknowledged -= 1;
        self.tell(watch, "send completed", Connection::handle_send_completed);
        true
    }

    pub(crate) fn write(&mut self, len: u16, how: Queue, watch: &mut Watch) -> bool {
        let len = u32::from(len);
        if self.app.written - self.app.sent + u64::from(len) > SEND_BUFFER {
            return false;
        }
        let accepted = self.tell(watch, "write", |conn| conn.queue(len, how).is_ok());
        if accepted == Some(true) {
            self.app.on_written(len, how.urgent);
        }
        accepted == Some(true)
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

    pub(crate) fn shut_down(&mut self, watch: &mut Watch) -> bool {
        let news = self.conn.is_some() && !self.app.shut;
        if news {
            self.app.shut = true;
            self.tell(watch, "shutdown", Connection::shutdown_send);
        }
        news
    }

    /// As close() does: with bytes unread it is an abort.
    pub(crate) fn close(&mut self, watch: &mut Watch) -> bool {
        if self.conn.is_none() || self.app.closed {
            return false;
        }
        self.app.closed = true;
        self.app.shut = true;
        if self.app.unread.is_empty() {
            self.tell(watch, "close", |conn| {
                conn.close_receive();
                conn.shutdown_send();
            });
        } else {
            self.tell(watch, "abort", Connection::abort);
        }
        true
    }

    pub(crate) fn time_out(&mut self, watch: &mut Watch) -> bool {
        let Some(timer) = self.timer else {
            return false;
        };
        let event = match timer {
            Timer::PeerClose => "PeerClose timer",
            _ => "another timer",
        };
        self.tell(watch, event, |conn| conn.handle_timeout(timer));
        true
    }

    /// What this side believes, against what is.
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
            u64::from(conn.unsent()) == self.app.written - self.app.sent,
            "{} bytes unsent, and the engine counts {}",
            self.app.written - self.app.sent,
            conn.unsent()
        );
        ensure!(
            usize::from(conn.held()) == self.app.unread.len(),
            "{} buffers unread, and the engine counts {}",
            self.app.unread.len(),
            conn.held()
        );
        Ok(())
    }
}
