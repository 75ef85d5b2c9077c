// SPDX-License-Identifier: GPL-2.0

//! The run loop of the engine: it gives the engine its time, takes its outputs and carries
//! them out.
//!
//! Locks: under [`Sock::drive`], in process context.

use crate::{
    addr::Addr,
    endpoint::{
        Inner,
        Phase, //
    },
    engine::conn::{
        Output,
        Why, //
    },
    errno,
    ffi,
    object::Sock,
    prelude::*,
    trace::{
        self,
        Life,
        Of,
        Path, //
    }, //
};

/// Counts a message with so much payload, which is of `pinned` memory or of copies.
fn count_message(sock: &Sock, of: Of<'_>, payload_len: u32, pinned: bool) {
    let stats = &sock.net().stats;
    if payload_len == 0 {
        stats.control_msgs_sent.inc();
        return trace::transmit(of, 0, Path::Control);
    }
    stats.data_msgs_sent.inc();
    if pinned {
        sock.count(|t| &t.gathered_bytes_sent, payload_len);
        trace::transmit(of, payload_len, Path::Gathered);
    } else {
        sock.count(|t| &t.bcopy_bytes_sent, payload_len);
        trace::transmit(of, payload_len, Path::Copy);
    }
}

/// The same of an RDMA Write.
fn count_write(sock: &Sock, of: Of<'_>, len: u32, pinned: bool) {
    if pinned {
        sock.count(|t| &t.written_bytes_sent, len);
        trace::transmit(of, len, Path::Written);
    } else {
        sock.count(|t| &t.copied_bytes_written, len);
        trace::transmit(of, len, Path::WrittenCopy);
    }
}

impl Inner {
    /// Carries out the engine's outputs until there are none, and publishes the result.
    pub(crate) fn settle(&mut self, sock: &Sock) {
        if self.engine.is_none() {
            return;
        }
        let state = sock.tcp_state();
        let rests = self.is_engine_at_rest() || self.drain(sock);
        self.settle_offered(sock);
        sock.set_wmem_queued(self.send.charged() as c_int);
        self.settle_user_timeout(sock);
        self.settle_idle(sock);
        if rests && self.due.is_none() && state == ffi::TCP_ESTABLISHED {
            // No timer has to be set, and no state to be published.
            return;
        }
        self.publish(sock);
        self.settle_timers(sock);
        self.settle_stall(sock);
        // As TCP in CLOSE_WAIT.
        self.settle_end(sock, state == ffi::TCP_CLOSE_WAIT);
    }

    /// Returns whether the engine is at rest, as far as is known.
    pub(super) fn drain(&mut self, sock: &Sock) -> bool {
        loop {
            self.post_wanted(sock);
            let Some(output) = self.next_output(sock) else {
                return false;
            };
            if self.link.is_none() {
                continue;
            }
            self.carry_out(sock, output);
            if self.is_engine_at_rest() {
                return true;
            }
        }
    }

    /// Posts the receive buffers that the engine wants.
    fn post_wanted(&mut self, sock: &Sock) {
        let (Some(link), Some(engine)) = (self.link.as_mut(), self.engine.as_mut()) else {
            return;
        };
        let wanted @ 1.. = engine.receives_wanted() else {
            return;
        };
        let needed = engine.receives_needed();
        let wanted = if !self.arrival.is_unaccepted() && link.has_room(wanted) {
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
            sock.refill_soon();
        }
    }

    /// Takes the next output, and counts what it advertises.
    fn next_output(&mut self, sock: &Sock) -> Option<Output> {
        let of = Of(sock, &self.local, &self.peer);
        let engine = self.engine.as_mut()?;
        let mut before = None;
        if let Some(link) = self.link.as_mut() {
            let may_post = link.has_memory(&self.send);
            engine.allow_posts(may_post);
            if !may_post {
                // Nothing of this socket need be in flight, so no event would start another
                // try.
                sock.refill_soon();
            }
            engine.limit_payload(self.send.gatherable(link.send_pieces()));
            before = link.is_zcopy().then(|| engine.stats().advertised());
        }
        let stalls = trace::is_stall_on().then(|| engine.stats().stalls());
        let output = engine.poll_output();
        if stalls.is_some_and(|before| before != engine.stats().stalls()) {
            let slots = stalls.map(|(_, slots)| slots) != Some(engine.stats().slot_stalls);
            trace::stall(of, slots, engine.credits(), engine.unsent());
        }
        if let (Some(before), Some(_)) = (before, output.as_ref()) {
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
        output
    }

    fn carry_out(&mut self, sock: &Sock, output: Output) {
        let of = Of(sock, &self.local, &self.peer);
        let (Some(link), Some(engine)) = (self.link.as_mut(), self.engine.as_mut()) else {
            return;
        };
        match output {
            Output::Send {
                header,
                payload_len,
                solicited,
            } => {
                count_message(sock, of, payload_len, self.send.is_pinned());
                let sent = link.send(&mut self.send, &header, payload_len, solicited);
                if sent.is_err() {
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
                self.user_timeout.on_progress();
            }
            Output::Dropped { run, len } => {
                self.turns.write.on_dropped(len);
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
                count_write(sock, of, len, self.send.is_pinned());
                if link.write(&mut self.send, &to, len).is_err() {
                    engine.handle_link_failed();
                }
            }
            Output::SinkReturned { sink, why } => self.on_sink_returned(sock, sink, why),
            Output::Disconnect => {
                link.part();
                // The reaper of a connection that has failed sends its DREQ. It has one try, and
                // the peer would wait for ever. The caller may be one that memory is refused to.
                if engine.ended().is_none() {
                    link.disconnect();
                }
            }
        }
    }

    fn is_engine_at_rest(&self) -> bool {
        let engine = self.engine.as_ref();
        engine.is_some_and(|engine| engine.is_at_rest())
    }

    /// Mirrors the engine's state in fields that C code and other threads read.
    fn publish(&mut self, sock: &Sock) {
        let Some(engine) = self.engine.as_ref() else {
            return;
        };
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
            sock.note_processor();
        } else {
            // A close() with SO_LINGER waits for this.
            self.wake.state = true;
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
            // The engine goes before AbortConn has completed, so no output asks for the DREQ.
            let ended = self.engine.as_ref().is_none_or(|e| e.ended().is_some());
            if let Some(link) = self.link.as_mut().filter(|_| !ended) {
                link.part();
            }
        }
        self.finish(sock);
        self.engine = None;
        self.phase = Phase::Idle;
        self.recv.clear();
        self.next_generation();
        self.peer = Addr::any(self.family);
        if !self.binding.has_ip() {
            let port = self.local.port;
            self.local = Addr::any(self.family);
            self.local.port = port;
        }
        if !self.binding.has_port() {
            self.binding.release();
            self.local.port = 0;
        }
        let dual = self.is_dual(self.local.ip, self.family);
        if let Some(lease) = self.binding.lease_mut() {
            lease.disconnect(self.local.ip, dual);
        }
        self.hearing.forget_probes();
    }
}
