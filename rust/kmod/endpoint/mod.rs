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
mod run_loop;
mod timers;

pub(crate) use engine::Engine;
pub(crate) use listener::{
    Listener,
    Room, //
};

use callers::Callers;
use hearing::Hearing;

use crate::{
    addr::{
        Addr,
        Family, //
    },
    cm::{
        request::Request,
        resolver::Resolver, //
    },
    engine::{
        timer::Deadlines,
        types::Ip, //
    },
    handle::SockRef,
    idle::Idle,
    link::Link,
    net::sk::Sk,
    netns::ports::PortLease,
    options::Options,
    parting::Partings,
    prelude::*,
    queue::{
        RecvQueue,
        SendQueue, //
    },
    race::Race,
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
    pub(crate) port: Option<PortLease>,
    /// The address was chosen by bind(), not by a connect.
    pub(crate) bound_ip: bool,
    /// The port was chosen by bind().
    pub(crate) bound_port: bool,
    pub(crate) last_bind_err: i32,
    /// The socket that `inet_create` made for IPPROTO_SDP.
    pub(crate) shell: Option<crate::shell::Shell>,
    pub(crate) options: Options,
    pub(crate) listener: Option<Listener>,
    /// The listener that an unaccepted connection came from.
    pub(crate) parent: Option<SockRef>,
    /// Not accepted yet: the connection gets no more memory than it needs.
    pub(crate) unaccepted: bool,
    /// Number of its Hello at that listener.
    pub(crate) arrival: u64,
    pub(crate) resolver: Option<Resolver>,
    /// The request that created the socket, until it is answered.
    pub(crate) request: Option<KBox<Request>>,
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
    /// The application has closed the socket.
    pub(crate) orphan: bool,
    /// Time of close(), if the connection lives on; then it is counted in
    /// `Stats::orphans`.
    orphaned: Option<Instant<Monotonic>>,
    /// The socket was closed, and another one has its addresses.
    aside: bool,
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
    /// Established, but hidden from accept() until its first bytes arrive
    /// (TCP_DEFER_ACCEPT).
    pub(crate) deferred: bool,
    /// Tries that address resolution has used.
    pub(crate) resolve_tries: u32,
    /// Hellos that the peer rejected because it knows the queue pair from an old
    /// connection.
    pub(crate) stale_tries: u32,
    /// A failing connect() may fall back to TCP.
    pub(crate) has_way_out: bool,
    /// The last connect() has succeeded, even if the connection has ended since.
    pub(crate) came_about: bool,
    /// TCP's attempt is under way beside SDP's.
    pub(crate) race: Option<KBox<Race>>,
    /// The error of SDP, until TCP's attempt takes over.
    pub(crate) failure: Option<Error>,
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
            port: None,
            bound_ip: false,
            bound_port: false,
            last_bind_err: 0,
            shell: None,
            options: Options::new(),
            listener: None,
            parent: None,
            unaccepted: false,
            arrival: 0,
            resolver: None,
            request: None,
            engine: None,
            link: None,
            retired: None,
            reaping: false,
            partings: Partings::new(),
            generation: 0,
            send: SendQueue::new(),
            recv: RecvQueue::new(),
            peer_done: false,
            orphan: false,
            orphaned: None,
            aside: false,
            counted: false,
            deadlines: Deadlines::new(),
            due: None,
            born: Instant::now(),
            hearing: Hearing::default(),
            user_timeout: UserTimeout::default(),
            idle: Idle::default(),
            deferred: false,
            resolve_tries: 0,
            stale_tries: 0,
            has_way_out: false,
            came_about: false,
            race: None,
            failure: None,
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
        self.unaccepted = false;
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
