// SPDX-License-Identifier: GPL-2.0

//! One connection. Owns one of every part and routes between them.

mod close;
mod handshake;
mod io;
mod receive;
mod state;
mod transmit;

pub use io::{Config, Delivery, Ended, Output, Queue};
pub use state::State;

use crate::engine::{
    bcopy::{rx::ReceiveStream, tx::SendStream},
    error::Refused,
    flow::{credit::Credits, mode::ReceiveMode, receive::Window, slots::Slots},
    oob::UrgentNotice,
    stats::Stats,
    timer::Timer,
    zcopy::src_avail::Declined,
};

/// What the peer has asked and was not answered yet.
#[derive(Clone, Copy, Debug, Default)]
struct Answers {
    /// ChRcvBufAck is owed.
    ch_rcv_buf: bool,
}

/// One SDP connection, from its Hello to its end.
///
/// A plain object: the shell keeps it under one lock, tells it what happens,
/// and carries out what it wants. No payload passes through it, only counts.
///
/// # Kinds of methods
///
/// - `handle_*`: something came from outside, from the connection manager, the
///   completion queues or a timer. They can be called in any state; what makes
///   no sense any more does nothing.
/// - `queue`, `push`, `shutdown_send`, `close_receive`, `abort`, `set_*`: what
///   the application wants.
/// - `on_*`: the shell has done something that the engine counts.
/// - [`receives_wanted`](Self::receives_wanted),
///   [`poll_output`](Self::poll_output), [`timer`](Self::timer): what the
///   engine wants.
/// - all others: questions without effect.
///
/// # Drain rule
///
/// After each call that takes `&mut self`, and under the same lock, the shell
/// 1. posts as many receive buffers as `receives_wanted` says and reports them
///    by [`on_receives_posted`](Self::on_receives_posted) (fewer, if memory
///    fails; the rest is wanted again the next time),
/// 2. calls `poll_output` and carries out what it returns until it returns
///    None; outputs are computed when asked for and never queued, so none can
///    be lost and the order is that of the wire,
/// 3. looks at `timer`: when the answer differs from the one before, the old
///    timer is void and a new one is started; and after
///    [`handle_timeout`](Self::handle_timeout) an equal answer starts it again.
///
/// # Buffers
///
/// `handle_message` takes one posted buffer back. When the delivery has
/// payload, the buffer belongs to the application until
/// [`on_buffer_consumed`](Self::on_buffer_consumed); otherwise it is free. Each
/// [`Output::Send`] is one signalled SEND, and each completion of one, in
/// order, is one [`handle_send_completed`](Self::handle_send_completed).
///
/// # End
///
/// [`ended`](Self::ended) says when and why. What was delivered before stays
/// readable.
#[derive(Clone, Debug)]
pub struct Connection {
    cfg: Config,
    state: State,
    credits: Credits,
    window: Window,
    slots: Slots,
    stream: SendStream,
    received: ReceiveStream,
    urgent: UrgentNotice,
    receive_mode: ReceiveMode,
    declined: Declined,
    answers: Answers,
    close: close::Close,
    stats: Stats,
    /// The most payload of one message to the peer.
    max_payload: u16,
    /// The most that the shell can gather for the next one.
    gather: u32,
    /// [`Timer::CreditUpdate`] has run since our last message.
    answer_update: bool,
    /// Payload is ready and waits for a credit or a slot.
    stalled: bool,
}

impl Connection {
    fn new(cfg: Config, state: State) -> Self {
        Self {
            cfg,
            state,
            credits: Credits::default(),
            window: Window::new(cfg.rx_depth, cfg.rx_initial),
            slots: Slots::new(cfg.tx_depth),
            stream: SendStream::default(),
            received: ReceiveStream::default(),
            urgent: UrgentNotice::default(),
            //= spec: MODE-1
            receive_mode: ReceiveMode::Combined,
            declined: Declined::default(),
            answers: Answers::default(),
            close: close::Close::new(),
            stats: Stats::default(),
            max_payload: cfg.max_send_payload,
            gather: u32::MAX,
            answer_update: false,
            stalled: false,
        }
    }

    /// `len` more bytes of the send stream. Before the connection is
    /// established they wait.
    pub fn queue(&mut self, len: u32, how: Queue) -> Result<(), Refused> {
        if self.close.has_failed() || self.is_over() {
            return Err(Refused::Ended);
        }
        if !self.close.is_send_open() {
            return Err(Refused::SendClosed);
        }
        self.stream.queue(len, how.more, how.urgent)
    }

    /// The next message can carry at most `len` bytes, because more do not fit
    /// into one work request as they lie in memory. Holds until it is called
    /// again; a message of that length counts as full.
    pub fn limit_payload(&mut self, len: u32) {
        self.gather = len.max(1);
    }

    fn next_payload(&self) -> u16 {
        u16::try_from(self.gather).map_or(self.max_payload, |len| len.min(self.max_payload))
    }

    /// Holds nothing back of what was queued until now.
    pub fn push(&mut self) {
        self.stream.push();
    }

    /// Whether small messages are sent without waiting for earlier ones, as
    /// TCP_NODELAY.
    pub fn set_nodelay(&mut self, on: bool) {
        self.stream.set_nodelay(on);
    }

    /// Whether only full messages are sent, as TCP_CORK.
    pub fn set_cork(&mut self, on: bool) {
        self.stream.set_cork(on);
    }

    /// The oldest SEND has completed.
    pub fn handle_send_completed(&mut self) {
        if self.slots.on_completed() {
            self.on_send_completed();
        }
    }

    /// The timer that is wanted, if any.
    pub fn timer(&self) -> Option<Timer> {
        if self.waits_for_abort() {
            return Some(Timer::PeerClose);
        }
        if self.close.has_failed() || !self.state.is_connected() {
            return None;
        }
        if self.stream.is_held_by_cork(self.next_payload()) {
            return Some(Timer::Cork);
        }
        self.close_timer()
            .or(self.wants_update_timer().then_some(Timer::CreditUpdate))
    }

    /// The time of [`timer`](Self::timer) has run.
    pub fn handle_timeout(&mut self, timer: Timer) {
        if self.timer() != Some(timer) {
            return;
        }
        match timer {
            Timer::Cork => self.stream.push(),
            Timer::PeerClose => self.on_peer_close_timeout(),
            Timer::CreditUpdate => self.answer_update = true,
        }
    }

    /// Where the connection is in its life.
    pub fn state(&self) -> State {
        self.state
    }

    /// Whether messages may be exchanged, in one direction at least.
    pub fn is_established(&self) -> bool {
        self.state.is_connected()
    }

    /// Bytes queued that no message carries yet.
    pub fn unsent(&self) -> u32 {
        self.stream.unsent()
    }

    /// Payload bytes posted whose sends have not completed.
    pub fn uncompleted(&self) -> u32 {
        self.slots.bytes()
    }

    /// The most payload of one message to the peer.
    pub fn max_payload(&self) -> u16 {
        self.max_payload
    }

    /// Messages that the peer would take now.
    pub fn credits(&self) -> u16 {
        self.credits.count()
    }

    /// Receive buffers posted.
    pub fn posted(&self) -> u16 {
        self.window.posted()
    }

    /// Receive buffers with payload that the application has not read.
    pub fn held(&self) -> u16 {
        self.window.held()
    }

    /// The most credits that the peer can have.
    pub fn granted(&self) -> u16 {
        self.window.granted()
    }

    /// Counters.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// What holds between any two calls, for tests and simulations.
    pub fn is_sound(&self) -> bool {
        self.window.is_sound() && self.slots.is_sound() && self.stream.is_sound()
    }
}

//= spec: ROBUST-5
const _: () = assert!(size_of::<Connection>() < 400);
