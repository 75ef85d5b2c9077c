// SPDX-License-Identifier: GPL-2.0

//! The state of a socket behind its lock, and the run loop of the engine.
//!
//! The run loop gives the engine its time, takes its outputs and carries them out.
//! Everything here runs under [`Sock::drive`] or [`Sock::look`], in process context.

mod engine;

pub(crate) use engine::Engine;

use crate::{
    addr::{
        Addr,
        Family, //
    },
    alarm::Alarm,
    cm::{
        answer::Request,
        resolve::Resolver, //
    },
    engine::{
        conn::{
            Ended,
            Output,
            Why, //
        },
        timer::{
            Deadlines,
            Timer, //
        },
    },
    errno,
    ffi,
    fifo::Fifo,
    link::{
        Link,
        Load,
        Sent, //
    },
    net::ports::PortLease,
    object::{
        Sock,
        SockRef, //
    },
    options::Options,
    parting::Parting,
    patience::Patience,
    prelude::*,
    queue::{
        RecvQueue,
        Segment,
        SendQueue, //
    },
    trace::{
        self,
        Life,
        Of,
        Path, //
    },
    verbs::qp::Done,
    wake::Wake,
    zcopy::Turns, //
};
use kernel::{
    page::PAGE_SIZE,
    time::{
        Instant,
        Monotonic, //
    },
};

/// A connection may outlive its program by at most this many times `close_timeout_ms`,
/// while the peer takes its bytes.
const ORPHAN_PERIODS: i64 = 10;

/// Delay before memory is requested again.
const REFILL_MS: u32 = 100;

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

/// State of a listening socket.
pub(crate) struct Listener {
    pub(crate) backlog: u32,
    /// Connections between Hello and establishment.
    pub(crate) pending: u32,
    /// Hellos taken so far.
    arrivals: u64,
    /// Established ones in the order of their Hellos.
    ready: Fifo<(u64, SockRef)>,
    /// Keeps the service id listening on every device.
    _service: crate::devices::Service,
}

impl Listener {
    pub(crate) fn new(backlog: u32, service: crate::devices::Service) -> Self {
        Self {
            backlog,
            pending: 0,
            arrivals: 0,
            ready: Fifo::new(),
            _service: service,
        }
    }

    /// The number of a Hello that has just come.
    pub(crate) fn next_arrival(&mut self) -> u64 {
        self.arrivals = self.arrivals.wrapping_add(1);
        self.arrivals
    }

    /// Number of connections that wait for accept().
    pub(crate) fn ready(&self) -> usize {
        self.ready.len()
    }

    /// The connection of the Hello with that number is established. The CM
    /// works on several at a time, so they may come here out of order.
    pub(crate) fn push_ready(&mut self, arrival: u64, sock: SockRef) -> Result {
        self.ready.push((arrival, sock), GFP_KERNEL)?;
        let mut at = self.ready.len().saturating_sub(1);
        while let Some(before) = at.checked_sub(1) {
            if self.ready.get(before).is_none_or(|(n, _)| *n < arrival) {
                break;
            }
            self.ready.swap(before, at);
            at = before;
        }
        Ok(())
    }

    /// The next connection to be accepted.
    pub(crate) fn take_ready(&mut self) -> Option<SockRef> {
        self.ready.pop().map(|(_, sock)| sock)
    }
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
    pub(crate) partings: Fifo<Parting>,
    generation: u64,
    pub(crate) send: SendQueue,
    pub(crate) recv: RecvQueue,
    /// The peer has sent its last byte. TCP uses SOCK_DONE for this. That flag is in a
    /// word whose changes need `lock_sock`, which a completion cannot take.
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
    /// Keepalive probes since the peer's last message.
    pub(crate) probes: u32,
    /// Number of messages received, to detect a silent peer.
    pub(crate) heard: u64,
    /// `heard` when the keepalive alarm was set.
    pub(crate) heard_at_alarm: u64,
    /// The keepalive alarm is set for a sender without credits.
    pub(crate) stall_watched: bool,
    pub(crate) patience: Patience,
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
    /// The error of SDP, until TCP's attempt takes over.
    pub(crate) failure: Option<Error>,
    wake: Wake,
    pub(crate) turns: Turns,
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
            partings: Fifo::new(),
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
            probes: 0,
            heard: 0,
            heard_at_alarm: 0,
            stall_watched: false,
            patience: Patience::default(),
            deferred: false,
            resolve_tries: 0,
            stale_tries: 0,
            has_way_out: false,
            came_about: false,
            failure: None,
            wake: Wake::default(),
            turns: Turns::default(),
        }
    }

    pub(crate) fn wake(&mut self) -> &mut Wake {
        &mut self.wake
    }

    pub(crate) fn take_wake(&mut self) -> Wake {
        core::mem::take(&mut self.wake)
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

    pub(crate) fn take_retired(&mut self) -> Option<KBox<Link>> {
        self.retired.take()
    }

    /// Somebody has accepted the connection.
    pub(crate) fn on_accepted(&mut self) {
        self.unaccepted = false;
        if let (Some(link), Some(engine)) = (self.link.as_mut(), self.engine.as_mut()) {
            let size = engine.rcv_size();
            engine.hold_rcv_size(false);
            link.grow(engine.whole(), size);
        }
    }

    /// Puts the link aside for the reaper.
    pub(crate) fn retire_link(&mut self, sock: &Sock) {
        if let Some(mut link) = self.link.take() {
            self.recv.unmap();
            // Bytes that were offered and not read are no longer sent.
            let left = link.source.awaited_left();
            self.turns.dropped = self.turns.dropped.saturating_add(left);
            link.older = self.retired.take();
            self.retired = Some(link);
            sock.set_alarm(Alarm::Reap, 0);
        }
    }

    /// A receive has completed.
    pub(crate) fn on_received(&mut self, sock: &Sock, done: Done) {
        let (Some(link), Some(engine)) = (self.link.as_mut(), self.engine.as_mut()) else {
            return;
        };
        if !done.ok {
            if !link.draining {
                engine.handle_link_failed();
            }
            return;
        }
        let Some(buffer) = link.take_received(done.byte_len) else {
            engine.handle_link_failed();
            return;
        };
        self.heard = self.heard.wrapping_add(1);
        self.probes = 0;
        // SAFETY: `sk` is valid.
        unsafe { ffi::sdp_note_processor(sock.sk()) };
        if self.parent.is_some() {
            // Payload has overtaken the RTU, so the CM may treat the connection as
            // established. Not every driver reports that itself.
            sock.set_alarm(Alarm::Notify, 0);
        }
        if self.recv.reserve().is_err() {
            engine.handle_link_failed();
            return;
        }
        let head = buffer.head::<{ crate::engine::wire::HEADER_MAX }>(done.byte_len as usize);
        let head_len = head.len().min(done.byte_len as usize);
        let stats = &sock.net().stats;
        let size = engine.rcv_size();
        let before = link.is_zcopy().then(|| engine.stats().answered());
        let delivery =
            match engine.handle_message(head.get(..head_len).unwrap_or(&[]), done.byte_len) {
                Ok(delivery) => delivery,
                Err(_) => {
                    // The engine is failing; settle() sees how.
                    link.recycle(buffer);
                    return;
                }
            };
        if let Some(before) = before {
            let answered = engine.stats().answered().since(before);
            sock.count(|t| &t.answers_stale, answered.stale);
            sock.count(|t| &t.sinks_received, answered.sinks);
            sock.count(|t| &t.sinks_stale, answered.sinks_stale);
            let of = Of(sock, &self.local, &self.peer);
            if answered.sinks_stale > 0 {
                trace::advert(of, true, Life::Stale, 0);
            } else if answered.sinks > 0 {
                trace::advert(of, true, Life::Received, 0);
            }
        }
        link.grow(engine.whole(), size);
        if (delivery.urgent_pending || delivery.urgent_byte)
            && !sock.flag(ffi::sock_flags_SOCK_URGINLINE)
        {
            // A new urgent byte makes an old one part of the stream, unless
            // the reader stands before it: as `tcp_check_urg`.
            self.skip_urgent();
        }
        if delivery.urgent_pending {
            // Wake before the byte is queued, because a reader may consume it as soon
            // as it is there.
            // SAFETY: `sk` is valid.
            unsafe { ffi::sdp_wake_urgent(sock.sk()) };
        }
        if let Some(end) = delivery.sink {
            self.on_sink_end(sock, end);
        }
        let Some(link) = self.link.as_mut() else {
            return;
        };
        if delivery.payload_len == 0 {
            stats.control_msgs_received.inc();
            trace::receive(Of(sock, &self.local, &self.peer), 0, Path::Control);
            link.recycle(buffer);
        } else {
            stats.data_msgs_received.inc();
            sock.count(|t| &t.bcopy_bytes_received, delivery.payload_len.into());
            let of = Of(sock, &self.local, &self.peer);
            trace::receive(of, delivery.payload_len.into(), Path::Copy);
            // Room was reserved, and the engine has seen that the message has these bytes.
            let queued = self.recv.push(
                Segment {
                    buffer,
                    offset: delivery.payload_offset.into(),
                    len: delivery.payload_len.into(),
                    message: true,
                },
                delivery.urgent_byte,
            );
            if let (Err(_), Some(engine)) = (queued, self.engine.as_mut()) {
                // Rather no connection than one that has lost bytes.
                engine.handle_link_failed();
            }
            self.wake.readable = true;
        }
        if delivery.remote > 0 {
            sock.count(|t| &t.adverts_received, 1);
            trace::advert(self.of(sock), false, Life::Received, delivery.remote);
            self.wake.readable = true;
            self.wake.settled = true;
        }
        if delivery.urgent_pending {
            self.recv.announce_urgent();
        }
        if delivery.peer_closed {
            self.peer_done = true;
            sock.add_shutdown(ffi::RCV_SHUTDOWN);
            self.wake.hangup = true;
        }
    }

    /// A send has completed.
    pub(crate) fn on_sent(&mut self, sock: &Sock, done: Done) {
        let (Some(link), Some(engine)) = (self.link.as_mut(), self.engine.as_mut()) else {
            return;
        };
        if !done.ok {
            if !link.draining {
                if done.unanswered {
                    engine.handle_unanswered();
                } else {
                    engine.handle_link_failed();
                }
            }
            return;
        }
        let Some(sent) = link.take_sent() else {
            return;
        };
        if link.draining && link.is_send_idle() {
            // The reaper waits for this.
            sock.set_alarm(Alarm::Reap, 0);
        }
        match sent {
            // The peer's transport answered.
            Sent::Probe => self.probes = 0,
            Sent::Registered => self.wake.settled = true,
            Sent::Revoked(key) => {
                link.source.on_revoked(key);
                link.sink.on_revoked(key);
                self.wake.settled = true;
                self.tend_runs(sock);
            }
            Sent::UnprovenRead => {}
            Sent::Read => self.on_read(sock),
            Sent::Message(load) => {
                engine.handle_send_completed();
                if load.bytes > 0 {
                    self.on_progress();
                    self.on_left(sock, &load);
                }
                self.end_aside();
            }
            Sent::Write(load) => {
                engine.handle_write_completed();
                self.on_left(sock, &load);
            }
        }
    }

    /// Bytes have left the send queue of the hardware.
    fn on_left(&mut self, sock: &Sock, load: &Load) {
        self.wake.writable = true;
        if load.pinned {
            self.send.complete_pinned(load.bytes);
            self.tend_runs(sock);
        } else {
            self.send.complete(load.bytes, load.extra);
        }
    }

    /// Carries out the engine's outputs until there are none, and publishes the result.
    pub(crate) fn settle(&mut self, sock: &Sock) {
        if self.engine.is_none() {
            return;
        }
        // As TCP in CLOSE_WAIT; publish() forgets it.
        let peer_had_closed = sock.tcp_state() == ffi::TCP_CLOSE_WAIT;
        self.drain(sock);
        self.publish(sock);
        self.settle_timers(sock);
        self.settle_stall(sock);
        self.settle_patience(sock);
        self.settle_end(sock, peer_had_closed);
    }

    fn drain(&mut self, sock: &Sock) {
        let stats = &sock.net().stats;
        loop {
            let of = Of(sock, &self.local, &self.peer);
            let Some(engine) = self.engine.as_mut() else {
                return;
            };
            if let (Some(link), wanted @ 1..) = (self.link.as_mut(), engine.receives_wanted()) {
                let needed = engine.receives_needed();
                let wanted = if !self.unaccepted && link.has_room(wanted) {
                    wanted
                } else {
                    needed.max(link.spares().min(wanted))
                };
                let posted = link.post_receives(wanted, needed, engine.rcv_size());
                if posted > 0 {
                    engine.on_receives_posted(posted);
                } else if engine.posted() < 2 && engine.ended().is_none() {
                    // Not even control messages could come in.
                    engine.handle_link_failed();
                }
                if posted < needed {
                    // With so few buffers posted the peer may be unable to send, so no
                    // event would start another try.
                    sock.set_alarm(Alarm::Refill, REFILL_MS);
                }
            }
            let mut before = None;
            if let Some(link) = self.link.as_ref() {
                engine.limit_payload(self.send.gatherable(link.send_pieces()));
                before = link.is_zcopy().then(|| engine.stats().advertised());
            }
            let stalls = trace::is_stall_on().then(|| engine.stats().stalls());
            let output = engine.poll_output();
            if stalls.is_some_and(|before| before != engine.stats().stalls()) {
                let slots = stalls.map(|(_, slots)| slots) != Some(engine.stats().slot_stalls);
                trace::stall(of, slots, engine.credits(), engine.unsent());
            }
            let Some(output) = output else {
                return;
            };
            if let Some(before) = before {
                let advertised = engine.stats().advertised().since(before);
                sock.count(|t| &t.adverts_sent, advertised.sources);
                sock.count(|t| &t.sinks_sent, advertised.sinks);
                if advertised.sources > 0 {
                    trace::advert(of, false, Life::Sent, 0);
                }
                if advertised.sinks > 0 {
                    trace::advert(of, true, Life::Sent, 0);
                }
            }
            let Some(link) = self.link.as_mut() else {
                continue;
            };
            match output {
                Output::Send {
                    header,
                    payload_len,
                    solicited,
                } => {
                    if payload_len > 0 {
                        stats.data_msgs_sent.inc();
                        if self.send.is_pinned() {
                            sock.count(|t| &t.gathered_bytes_sent, payload_len);
                            trace::transmit(of, payload_len, Path::Gathered);
                        } else {
                            sock.count(|t| &t.bcopy_bytes_sent, payload_len);
                            trace::transmit(of, payload_len, Path::Copy);
                        }
                    } else {
                        stats.control_msgs_sent.inc();
                        trace::transmit(of, 0, Path::Control);
                    }
                    if link
                        .send(&mut self.send, &header, payload_len, solicited)
                        .is_err()
                    {
                        engine.handle_link_failed();
                    }
                }
                Output::Taken { run: _, len } => {
                    sock.count(|t| &t.zcopy_bytes_sent, len);
                    trace::transmit(of, len, Path::Read);
                    self.send.skip(len);
                    link.source.on_taken(len);
                    // A writer that has lent memory may wait for room.
                    self.wake.writable = true;
                    self.on_progress();
                }
                Output::Dropped { run, len } => {
                    self.turns.dropped = self.turns.dropped.saturating_add(len);
                    if let Some(pages) = link.source.on_dropped(run) {
                        self.send.drop_pinned(pages);
                    }
                    self.tend_runs(sock);
                }
                Output::Returned { run, why } => {
                    // At the end of the connection the key stays valid until the queue
                    // pair is destroyed, so the memory stays pinned as long.
                    link.source.on_returned(run, why == Why::Over);
                    self.tend_runs(sock);
                    sock.count_return(why);
                    trace::advert(self.of(sock), false, why.into(), 0);
                    self.wake.settled = true;
                }
                Output::Write { to, len } => {
                    if self.send.is_pinned() {
                        sock.count(|t| &t.written_bytes_sent, len);
                        trace::transmit(of, len, Path::Written);
                    } else {
                        sock.count(|t| &t.copied_bytes_written, len);
                        trace::transmit(of, len, Path::WrittenCopy);
                    }
                    if link.write(&mut self.send, &to, len).is_err() {
                        engine.handle_link_failed();
                    }
                }
                Output::SinkReturned { sink, why } => self.on_sink_returned(sock, sink, why),
                Output::Disconnect => {
                    if let Some(cm) = link.cm.as_ref() {
                        // An error means that the CM is past it already.
                        // SAFETY: The identifier is ours.
                        let sent =
                            unsafe { ffi::ib_send_cm_dreq(cm.as_ptr(), core::ptr::null(), 0) };
                        link.disconnecting = sent == 0;
                    }
                }
            }
        }
    }

    /// Whose trace event it is.
    pub(crate) fn of<'a>(&'a self, sock: &'a Sock) -> Of<'a> {
        Of(sock, &self.local, &self.peer)
    }

    /// The state that C code and other threads see.
    pub(crate) fn show_state(&self, sock: &Sock, state: u32) {
        if trace::is_state_on() && state != sock.tcp_state() {
            trace::state(self.of(sock), sock.tcp_state(), state);
        }
        sock.set_tcp_state(state);
    }

    /// Mirrors the engine's state in fields that C code and other threads read.
    fn publish(&mut self, sock: &Sock) {
        let Some(engine) = self.engine.as_ref() else {
            return;
        };
        // SAFETY: `sk` is valid.
        unsafe { ffi::sdp_set_wmem_queued(sock.sk(), self.send.charged() as c_int) };
        let state = errno::tcp_state(engine.state());
        let before = sock.tcp_state();
        if state == before || self.phase != Phase::Connected {
            return;
        }
        self.show_state(sock, state);
        let handshaking = |state| state == ffi::TCP_SYN_SENT || state == ffi::TCP_SYN_RECV;
        let over = state == ffi::TCP_CLOSE || state == ffi::TCP_TIME_WAIT;
        if handshaking(before) && !handshaking(state) && !over && !self.counted {
            self.counted = true;
            sock.net().stats.established.inc();
            self.wake.connected = true;
            // SAFETY: `sk` is valid.
            unsafe { ffi::sdp_note_processor(sock.sk()) };
        } else {
            // A close() with SO_LINGER waits for this.
            self.wake.state = true;
        }
    }

    fn settle_timers(&mut self, sock: &Sock) {
        let (engine, born) = (&self.engine, self.born);
        let wanted = |timer| {
            let msecs = engine.as_ref()?.wants(timer)?;
            Some(match timer {
                Timer::PeerClose => sock.net().knobs().close_timeout_ms,
                _ => msecs,
            })
        };
        let due = self.deadlines.settle(|| millis_since(born), wanted);
        if due == self.due {
            return;
        }
        self.due = due;
        match due {
            Some(due) => {
                let left = due.saturating_sub(millis_since(born));
                sock.set_alarm(Alarm::Engine, u32::try_from(left).unwrap_or(u32::MAX));
            }
            None => sock.clear_alarm(Alarm::Engine),
        }
    }

    /// Handles the end of a connection, once.
    fn settle_end(&mut self, sock: &Sock, peer_had_closed: bool) {
        let Some(ended) = self.engine.as_ref().and_then(|engine| engine.ended()) else {
            return;
        };
        if self.phase == Phase::Over {
            return;
        }
        if trace::is_end_on() {
            let rule = errno::rule(ended);
            trace::end(self.of(sock), errno::end_number(ended), &rule);
        }
        let stats = &sock.net().stats;
        match ended {
            Ended::Finished => {}
            Ended::Reset => stats.resets_received.inc(),
            Ended::Aborted | Ended::TimedOut => stats.resets_sent.inc(),
            Ended::Violation(_) => {
                stats.violations.inc();
                stats.resets_sent.inc();
            }
            Ended::LinkFailed | Ended::Unanswered => stats.link_failures.inc(),
        }
        if let Some(error) = errno::of_end(ended, peer_had_closed) {
            // The error is set only here, at the end. A reader that fetched it earlier
            // would get a second error from the end itself.
            sock.set_err(error);
            self.wake.error = true;
        }
        self.finish(sock);
    }

    /// Takes the connection down locally: no more transfers, waiters woken.
    pub(crate) fn finish(&mut self, sock: &Sock) {
        self.phase = Phase::Over;
        self.has_way_out = false;
        self.failure = None;
        if self.orphaned.take().is_some() {
            sock.net().stats.orphans.dec();
        }
        if self.counted {
            self.counted = false;
            sock.net().stats.established.dec();
        }
        self.stop_timers();
        sock.clear_alarm(Alarm::Engine);
        sock.clear_alarm(Alarm::Keepalive);
        sock.clear_alarm(Alarm::Kept);
        self.stall_watched = false;
        self.deferred = false;
        sock.clear_alarm(Alarm::Patience);
        self.renew_patience();
        self.send.clear();
        // SAFETY: `sk` is valid.
        unsafe { ffi::sdp_set_wmem_queued(sock.sk(), 0) };
        self.show_state(sock, ffi::TCP_CLOSE);
        sock.add_shutdown(ffi::SHUTDOWN_MASK);
        self.retire_link(sock);
        self.wake.settled = true;
        self.wake.hangup = true;
        self.wake.writable = true;
        self.wake.bereaved = self.parent.take();
        if self.orphan {
            self.recv.clear();
            self.port = None;
        }
    }

    /// Back to a fresh socket that can connect again. The port stays when
    /// bind() chose it.
    pub(crate) fn forget_connection(&mut self, sock: &Sock) {
        if self.phase == Phase::Connected {
            if let Some(engine) = self.engine.as_mut() {
                engine.abort();
            }
            self.drain(sock);
        }
        self.finish(sock);
        self.engine = None;
        self.phase = Phase::Idle;
        self.recv.clear();
        self.next_generation();
        self.peer = Addr::any(self.family);
        if !self.bound_ip {
            let port = self.local.port;
            self.local = Addr::any(self.family);
            self.local.port = port;
        }
        if !self.bound_port {
            self.port = None;
            self.local.port = 0;
        }
        let dual = self.is_dual(self.local.ip, self.family);
        if let Some(lease) = self.port.as_mut() {
            lease.disconnect(self.local.ip, dual);
        }
        self.probes = 0;
    }

    /// The alarm of the engine's timers has gone off. It may be a late one whose
    /// deadline has been replaced; then it is set again.
    pub(crate) fn on_timeout(&mut self, sock: &Sock) {
        self.due = None;
        let now = millis_since(self.born);
        let limit = i64::from(sock.net().knobs().close_timeout_ms).saturating_mul(ORPHAN_PERIODS);
        let age = self.orphaned.map_or(0, |since| since.elapsed().as_millis());
        let Some(engine) = self.engine.as_mut() else {
            return;
        };
        if age >= limit {
            // The limit holds even if the peer still takes bytes.
            engine.abort();
            return;
        }
        while let Some(timer) = self.deadlines.take_due(now) {
            engine.handle_timeout(timer);
        }
    }

    /// The program has closed the socket and the connection lives on: for a bounded
    /// time, and only if the number of such connections and the memory in use permit
    /// it.
    pub(crate) fn become_orphan(&mut self, sock: &Sock) {
        let stats = &sock.net().stats;
        if self.orphaned.is_none() {
            self.orphaned = Some(Instant::now());
            stats.orphans.inc();
        }
        let many = stats.orphans.get() > sock.net().knobs().max_orphans.into();
        // As tcp_out_of_memory().
        let large = self.send.charged() > PAGE_SIZE as u32 && sock.is_memory_out();
        if many || large {
            stats.orphans_reset.inc();
            if let Some(engine) = self.engine.as_mut() {
                engine.abort();
            }
        }
    }

    /// Another socket wants to connect with the same addresses. As with TCP, this
    /// connection makes room if its program has closed it and everything written has
    /// been sent. Messages in flight still arrive, because packets find their queue
    /// pair without addresses.
    pub(crate) fn stand_aside(&mut self) -> bool {
        let unsent = self.engine.as_ref().map_or(0, |engine| engine.unsent());
        if !self.orphan || self.phase != Phase::Connected || unsent > 0 {
            return false;
        }
        let Some(lease) = self.port.as_ref() else {
            return false;
        };
        lease.stand_aside();
        self.aside = true;
        self.end_aside();
        true
    }

    /// A connection that has made room ends as soon as the peer knows of its end:
    /// nobody would use later messages of the peer. TCP's peer gets a reset at this
    /// point, when the new connection begins.
    fn end_aside(&mut self) {
        let engine = self.engine.as_mut().filter(|_| self.aside);
        if let Some(engine) = engine {
            if errno::tcp_state(engine.state()) == ffi::TCP_FIN_WAIT2 {
                engine.abort();
            }
        }
    }

    pub(crate) fn stop_timers(&mut self) {
        self.deadlines = Deadlines::new();
        self.due = None;
    }

    /// connect() has failed over SDP; a worker repeats it over TCP, see
    /// [`Sock::give_way`].
    pub(crate) fn give_way_soon(&mut self, sock: &Sock, error: Error) {
        self.failure = Some(error);
        self.stop_timers();
        sock.set_alarm(Alarm::Engine, 0);
    }

    /// Bytes that may still be written before a writer has to wait.
    pub(crate) fn send_room(&self, sock: &Sock) -> u32 {
        if self.turns.sending || self.send.is_starved() {
            // Nothing can be queued behind memory that another writer has offered,
            // because the offer could not be withdrawn then. Without memory nothing can
            // be queued at all.
            return 0;
        }
        sock.sndbuf().saturating_sub(self.send.charged())
    }
}

fn millis_since(past: Instant<Monotonic>) -> u64 {
    u64::try_from(past.elapsed().as_millis()).unwrap_or(0)
}

impl Sock {
    /// The alarm behind [`Alarm::Engine`].
    pub(crate) fn alarm_engine(&self) {
        let (knocked, failed, resolving) = self.look(|inner| {
            let resolving = inner.phase == Phase::Connecting && inner.link.is_none();
            (inner.request.is_some(), inner.failure.is_some(), resolving)
        });
        if knocked {
            self.answer();
        } else if failed {
            self.give_way();
        } else if resolving {
            crate::cm::resolve::again(self);
        } else {
            self.drive(|inner| inner.on_timeout(self));
        }
    }
}
