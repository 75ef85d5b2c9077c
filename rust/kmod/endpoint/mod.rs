// SPDX-License-Identifier: GPL-2.0

//! The state of a socket behind its lock.
//!
//! [`drive`] is the way in. [`completions`] says what events of the device change, [`run_loop`]
//! carries out what the engine then wants, [`timers`] acts on alarms, and [`end`] handles the end of
//! a connection. [`engine`] has the inputs of the engine, [`listener`] the queue of accept(2). All
//! of it runs under [`Sock::drive`](crate::object::Sock::drive) or
//! [`Sock::look`](crate::object::Sock::look), in process context.

mod callers;
mod completions;
mod drive;
mod end;
mod engine;
mod hearing;
mod listener;
mod orphan;
mod run_loop;
mod timers;

pub(crate) use engine::Engine;
pub(crate) use listener::{
    Listener,
    Room, //
};

use callers::Callers;
use hearing::Hearing;
use orphan::Orphan;

use crate::{
    addr::{
        Addr,
        Family, //
    },
    binding::Binding,
    cm::{
        arrival::Arrival,
        resolving::Resolving, //
    },
    engine::{
        timer::Deadlines,
        types::Ip, //
    },
    fallback::Fallback,
    idle::Idle,
    link::Link,
    net::sk::Sk,
    options::Options,
    parting::Partings,
    prelude::*,
    queue::{
        RecvQueue,
        SendQueue, //
    },
    trace::{
        self,
        Of, //
    },
    user_timeout::UserTimeout,
    wake::Wake,
    zcopy::turns::Turns, //
};
use kernel::time::{
    Instant,
    Monotonic, //
};

/// Phase of a socket's life, as the system calls see it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Fresh, bound, or disconnected.
    Idle,
    Listening,
    /// connect() has begun: address, route, Hello.
    Connecting,
    /// From the HelloAck, or from the peer's Hello, until the link is gone.
    Connected,
    /// The connection has ended; received bytes can still be read.
    Over,
}

/// See the module.
pub(crate) struct Inner {
    pub(crate) phase: Phase,
    pub(crate) family: Family,
    pub(crate) local: Addr,
    pub(crate) peer: Addr,
    pub(crate) binding: Binding,
    /// The socket that `inet_create` made for IPPROTO_SDP.
    pub(crate) shell: Option<crate::shell::Shell>,
    pub(crate) options: Options,
    pub(crate) listener: Option<Listener>,
    pub(crate) arrival: Arrival,
    pub(crate) resolving: Resolving,
    pub(crate) fallback: Fallback,
    pub(crate) engine: Option<Engine>,
    pub(crate) link: Option<KBox<Link>>,
    retired: Option<KBox<Link>>,
    /// The reaper runs, and will look for retired links.
    reaping: bool,
    pub(crate) partings: Partings,
    generation: u64,
    pub(crate) send: SendQueue,
    pub(crate) recv: RecvQueue,
    /// The peer has sent its last byte. TCP uses SOCK_DONE for this. That flag is in a
    /// word that is changed with `lock_sock`, which a completion cannot take.
    pub(crate) peer_done: bool,
    pub(crate) orphan: Orphan,
    /// Counted in `Stats::established`.
    counted: bool,
    /// When the engine's timers run, in milliseconds since `born`.
    deadlines: Deadlines,
    /// The deadline for which the alarm is set.
    due: Option<u64>,
    born: Instant<Monotonic>,
    pub(crate) hearing: Hearing,
    pub(crate) user_timeout: UserTimeout,
    pub(crate) idle: Idle,
    wake: Wake,
    pub(crate) turns: Turns,
    pub(crate) callers: Callers,
}

impl Inner {
    pub(crate) fn new(family: Family) -> Self {
        Self {
            phase: Phase::Idle,
            family,
            local: Addr::any(family),
            peer: Addr::any(family),
            binding: Binding::default(),
            shell: None,
            options: Options::new(),
            listener: None,
            arrival: Arrival::default(),
            resolving: Resolving::default(),
            fallback: Fallback::default(),
            engine: None,
            link: None,
            retired: None,
            reaping: false,
            partings: Partings::new(),
            generation: 0,
            send: SendQueue::new(),
            recv: RecvQueue::new(),
            peer_done: false,
            orphan: Orphan::default(),
            counted: false,
            deadlines: Deadlines::new(),
            due: None,
            born: Instant::now(),
            hearing: Hearing::default(),
            user_timeout: UserTimeout::default(),
            idle: Idle::default(),
            wake: Wake::default(),
            turns: Turns::default(),
            callers: Callers::new(),
        }
    }

    pub(crate) fn wake(&mut self) -> &mut Wake {
        &mut self.wake
    }

    pub(crate) fn take_wake(&mut self) -> Option<Wake> {
        let due = self.wake.is_due();
        due.then(|| core::mem::take(&mut self.wake))
    }

    /// Starts a new connection attempt; callbacks of older ones are ignored
    /// from here on.
    pub(crate) fn next_generation(&mut self) -> u64 {
        self.generation = self.generation.wrapping_add(1);
        self.generation
    }

    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    /// Whether a callback belongs to the current connection attempt.
    pub(crate) fn is_current(&self, generation: u64) -> bool {
        self.link
            .as_ref()
            .is_some_and(|link| link.generation() == generation)
    }

    /// The program has accepted the connection.
    pub(crate) fn on_accepted(&mut self) {
        self.arrival.on_accepted();
        if let (Some(link), Some(engine)) = (self.link.as_mut(), self.engine.as_mut()) {
            let size = engine.rcv_size();
            engine.hold_rcv_size(false);
            link.grow(engine.whole(), size);
        }
    }

    /// Whether a wildcard address means both families.
    pub(crate) fn is_dual(&self, ip: Ip, family: Family) -> bool {
        family == Family::V6 && matches!(ip, Ip::V6(_)) && Addr::is_any(ip) && !self.options.v6only
    }

    /// The connection to name in a trace event.
    pub(crate) fn of<'a>(&'a self, sock: &'a Sk) -> Of<'a> {
        Of(sock, &self.local, &self.peer)
    }

    /// The state that C code and other threads see.
    pub(crate) fn show_state(&self, sock: &Sk, state: u32) {
        if trace::is_state_on() && state != sock.tcp_state() {
            trace::state(self.of(sock), sock.tcp_state(), state);
        }
        sock.set_tcp_state(state);
    }

    /// Bytes that may still be written before a writer has to wait.
    pub(crate) fn send_room(&self, sock: &Sk) -> u32 {
        if self.turns.write.is_taken() || self.send.is_starved() {
            // Nothing can be queued behind memory that another writer has offered,
            // because the offer could not be withdrawn then. Without memory nothing can
            // be queued at all.
            return 0;
        }
        sock.sndbuf().saturating_sub(self.charged())
    }

    /// Bytes that count against SO_SNDBUF. Those that a program lends do not: the lender
    /// bounds them, and what is copied behind them must not wait for the peer.
    pub(crate) fn charged(&self) -> u32 {
        let lender = self.turns.lender.as_ref();
        let lent = lender.map_or(0, |lender| lender.bytes());
        let lent = lent.min(self.send.pinned());
        self.send.charged().saturating_sub(lent)
    }
}
