// SPDX-License-Identifier: GPL-2.0

//! One connection. Owns one of every part and routes between them.

mod close;
mod handshake;
mod inspect;
mod io;
mod legal;
mod receive;
mod resize;
mod rest;
mod sink;
mod source;
mod state;
mod stream;
mod transmit;

pub use crate::engine::{
    types::{RunId, SinkId},
    wire::mode::Mode,
    zcopy::{
        held::Remote,
        offers::{SinkEnd, SinkWhy},
        run::Why,
        ADVERTS_MAX,
    },
};
#[allow(unused_imports, reason = "for tests and simulations")]
pub use inspect::machines;
pub use io::{
    Config, Delivery, Ended, Output, PeerTraits, Queue, RemoteSink, Run, SinkBuffer, Zcopy,
};
pub use state::State;

use crate::engine::{
    bcopy::{rx::ReceiveStream, tx::SendStream},
    error::Refused,
    flow::{
        credit::{Credits, Need},
        mode::Modes,
        receive::Window,
        slots::Slots,
    },
    oob::UrgentNotice,
    policy::{
        absence::Absence,
        holding::Holding,
        offering::Habit,
        patience::{self, Wait},
        pipeline, send_buffer,
    },
    stats::Stats,
    timer::Timer,
    zcopy::{cancel::Cancel, held::Held, offers::Offers, runs::Runs, targets::Targets},
};

/// One SDP connection, from its Hello to its end.
///
/// A plain object: the shell keeps it under one lock, tells it about events, and
/// carries out its outputs. No payload passes through it, only counts.
///
/// # Kinds of methods
///
/// - `handle_*`: events from outside: from the connection manager, the completion
///   queues or a timer. They can be called in any state; an event that no longer
///   makes sense has no effect.
/// - `queue`, `push`, `shutdown_send`, `close_receive`, `abort`, `set_*`: what
///   the application wants; and without copies, as a source `queue_run`,
///   `withdraw`, `request_pipelined`, and as a sink `start_read`, `decline`,
///   `offer_sink`, `cancel_sinks`.
/// - `on_*`: the shell has done an action that the engine counts.
/// - [`receives_wanted`](Self::receives_wanted),
///   [`poll_output`](Self::poll_output), [`wants`](Self::wants): what the
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
///    be lost and the order is the wire's. Where it may lack the memory for one, it
///    says so before by [`allow_posts`](Self::allow_posts), and drains again later,
/// 3. lets [`Deadlines`](super::timer::Deadlines) see which timers are wanted, and
///    sets its alarm to the first one. When that goes off, what is due is handed
///    in by [`handle_timeout`](Self::handle_timeout).
///
/// It may skip the first two steps if [`is_at_rest`](Self::is_at_rest).
///
/// # Buffers
///
/// `handle_message` takes one posted buffer back. When the delivery has
/// payload, the buffer belongs to the application until
/// [`on_buffer_consumed`](Self::on_buffer_consumed); otherwise it is free. Each
/// [`Output::Send`] is one signalled SEND, and each completion of one, in
/// order, is one [`handle_send_completed`](Self::handle_send_completed).
///
/// # Without copies
///
/// As a source: [`queue_run`](Self::queue_run) puts registered bytes into the
/// stream. How they travel (the peer reads them, they are written into a buffer
/// that it offers, or they go as Data) is decided here; see [`Output`].
///
/// As a sink: bytes in the peer's memory come behind all bytes that were
/// delivered; [`start_read`](Self::start_read) fetches the next of them. Buffers
/// can be offered to be written by [`offer_sink`](Self::offer_sink).
///
/// Memory is pinned and registered without the lock and handed over under it:
/// ask, work, commit. Beside `tx_depth` messages the send queue has room for
/// `read_depth` Reads and `write_depth` Writes. Completions of each kind are
/// handed in in the order of their posting.
///
/// # End
///
/// [`ended`](Self::ended) says when and why. Delivered bytes stay readable. The
/// outputs return every run and every offered buffer, after the end as well; their
/// memory must not change until the queue pair is in its error state and has been
/// drained.
#[derive(Clone, Debug)]
pub struct Connection {
    cfg: Config,
    state: State,
    /// We have accepted the connection.
    passive: bool,
    credits: Credits,
    window: Window,
    slots: Slots,
    stream: SendStream,
    received: ReceiveStream,
    urgent: UrgentNotice,
    modes: Modes,
    runs: Runs,
    held: Held,
    offers: Offers,
    targets: Targets,
    resize: resize::Resize,
    close: close::Close,
    stats: Stats,
    /// The most payload of one message to the peer.
    max_payload: u32,
    /// The most that the shell can gather for the next one.
    gather: u32,
    /// [`Timer::CreditUpdate`] has run since our last message.
    answer_update: bool,
    /// Our last message was a credit update.
    updated: bool,
    /// Payload is ready and waits for a credit or a slot.
    stalled: bool,
    /// The shell has the memory that posting a message takes.
    may_post: bool,
    /// Advertisements that we may have outstanding, 1 before the peer has said.
    peer_adverts: u8,
    /// SrcAvails that policy would have outstanding.
    advert_window: u8,
    /// How seldom, to a peer that does not read them.
    lending: Habit,
    /// Whether the next one waits for a SinkAvail.
    holding: Holding,
    /// A reader is waiting that could take the peer's offers.
    reading: bool,
    /// How long they wait for one.
    absence: Absence,
    /// A reader was waiting while SrcAvails of ours were outstanding, and no wait
    /// for one has been in vain since.
    duplex: bool,
    /// The waits for the answers to cancels of ours.
    runs_wait: Wait,
    offers_wait: Wait,
    /// A move was refused that earlier checks had made legal: a fault of the engine,
    /// which [`is_sound`](Self::is_sound) shows to tests and simulations.
    refused: bool,
}

impl Connection {
    fn new(cfg: Config, state: State) -> Self {
        Self {
            cfg,
            state,
            passive: state == State::HelloReceived,
            credits: Credits::default(),
            window: Window::new(cfg.rx_depth, cfg.rx_initial),
            slots: Slots::new(cfg.tx_depth),
            stream: SendStream::default(),
            received: ReceiveStream::default(),
            urgent: UrgentNotice::default(),
            //= spec: MODE-1
            modes: Modes::new(),
            runs: Runs::new(),
            held: Held::new(),
            offers: Offers::new(),
            targets: Targets::new(),
            resize: resize::Resize::new(cfg.rcv_size),
            close: close::Close::new(),
            stats: Stats::default(),
            max_payload: cfg.max_send_payload,
            gather: u32::MAX,
            answer_update: false,
            updated: false,
            stalled: false,
            may_post: true,
            peer_adverts: 1,
            advert_window: pipeline::WINDOW_INITIAL,
            lending: Habit::new(),
            holding: Holding::new(),
            reading: false,
            absence: Absence::new(),
            duplex: false,
            runs_wait: Wait::UNLIMITED,
            offers_wait: Wait::UNLIMITED,
            refused: false,
        }
    }

    /// Earlier checks have made this move legal.
    fn must<E>(&mut self, moved: Result<(), E>) {
        self.refused |= moved.is_err();
    }

    /// `len` more bytes of the send stream. Before the connection is
    /// established they wait.
    pub fn queue(&mut self, len: u32, how: Queue) -> Result<(), Refused> {
        self.check_send_open()?;
        self.resize.on_queued();
        self.stream.queue(len, how.more, how.urgent)
    }

    /// The next message can carry at most `len` bytes, because more do not fit
    /// into one work request as they lie in memory. Holds until it is called
    /// again; a message of that length counts as full.
    pub fn limit_payload(&mut self, len: u32) {
        self.gather = len.max(1);
    }

    /// Whether the shell has the memory that posting a message or an RDMA Write takes. Without it
    /// no output is one of these, and the shell asks again when there may be some. Holds until it is
    /// called again.
    pub fn allow_posts(&mut self, on: bool) {
        self.may_post = on;
    }

    fn next_payload(&self) -> u32 {
        self.gather.min(self.max_payload)
    }

    /// Releases all bytes that were queued until now.
    pub fn push(&mut self) {
        self.stream.push();
    }

    /// Releases all bytes that were queued until now: a chunk of a write; its rest follows.
    pub fn release_chunk(&mut self) {
        self.stream.release_chunk();
    }

    /// The bytes that [`Queue::more`] has announced do not come, for example at the
    /// end of a file that sendfile() sends.
    pub fn withdraw_more(&mut self) {
        self.stream.withdraw_more();
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
        let before = self.slots.bytes();
        if self.slots.on_completed() {
            self.on_send_completed(self.slots.bytes() != before);
        }
    }

    /// Milliseconds until `timer` must run, if it is wanted.
    pub fn wants(&self, timer: Timer) -> Option<u32> {
        let wanted = if self.close.has_failed() {
            timer == Timer::PeerClose && self.waits_for_abort()
        } else {
            self.state.is_connected() && self.is_waiting(timer)
        };
        wanted.then(|| match timer {
            Timer::CreditUpdate => {
                patience::update_ms(self.window.late(), self.passive, self.is_lent())
            }
            _ => timer.millis(),
        })
    }

    fn is_waiting(&self, timer: Timer) -> bool {
        match timer {
            Timer::Cork => self.stream.is_held_by_cork(self.next_payload()),
            Timer::Decline => self.wants_decline_timer(),
            Timer::CancelAnswer => self.awaits_cancel(),
            Timer::SinkCancelAnswer => self.awaits_sink_cancel(),
            Timer::Recall => self.runs.outstanding() > 0 && self.runs.cancel == Cancel::No,
            Timer::PeerClose => self.wants_peer_close(),
            Timer::CreditUpdate => self.wants_update_timer(),
        }
    }

    /// The time of a timer has run. One that is not wanted does nothing.
    pub fn handle_timeout(&mut self, timer: Timer) {
        if self.wants(timer).is_none() {
            return;
        }
        match timer {
            Timer::Cork => self.stream.push(),
            Timer::PeerClose => self.on_peer_close_timeout(),
            Timer::CreditUpdate => {
                self.answer_update = true;
                self.window.on_late();
            }
            Timer::Decline => self.on_decline_timeout(),
            Timer::Recall => {
                if !self.runs.take_progress() {
                    self.renew_wait();
                    self.take_back();
                }
            }
            Timer::CancelAnswer => {
                let over = self.runs_wait.look();
                self.on_answer_timeout(over);
            }
            Timer::SinkCancelAnswer => {
                let over = self.offers_wait.look();
                self.on_answer_timeout(over);
            }
        }
    }

    /// Where the connection is in its life.
    pub fn state(&self) -> State {
        self.state
    }

    /// Bytes queued that no message carries yet.
    pub fn unsent(&self) -> u32 {
        self.stream.unsent()
    }

    /// Posted payload bytes with sends that have not completed.
    pub fn uncompleted(&self) -> u32 {
        self.slots.bytes()
    }

    /// Bytes that a send buffer had better hold, if more bytes would have been sent now.
    pub fn send_buffer_wanted(&self) -> Option<u32> {
        let idle = self.stream.unsent() == 0 && self.may_send(Need::Payload);
        let messages = self.slots.in_flight().saturating_add(self.credits.count());
        idle.then(|| send_buffer::worth(messages, self.cfg.tx_depth, self.max_payload))
    }

    /// The most payload of one message to the peer.
    pub fn max_payload(&self) -> u32 {
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

    /// Counters.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }
}

//= spec: ROBUST-5
const _: () = assert!(size_of::<Connection>() <= 1280);
