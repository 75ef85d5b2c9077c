// SPDX-License-Identifier: GPL-2.0

//! What a completion changes: bytes that have come, and bytes that have left.
//!
//! Locks: under [`Sock::drive`], in process context.

use crate::{
    alarm::Alarm,
    endpoint::Inner,
    engine::{
        conn::Delivery,
        stats::Answered, //
    },
    ffi,
    link::{
        receive,
        Load,
        Sent, //
    },
    object::Sock,
    rdma::cq::{
        self,
        Received, //
    },
    trace::{
        self,
        Life,
        Of,
        Path, //
    },
};

/// Counts what a message has answered, or offered too late.
fn count_answers(sock: &Sock, of: Of<'_>, answered: &Answered) {
    sock.count(|t| &t.answers_stale, answered.stale);
    sock.count(|t| &t.sinks_received, answered.sinks);
    sock.count(|t| &t.sinks_stale, answered.sinks_stale);
    if answered.sinks_stale > 0 {
        trace::advert(of, true, Life::Stale, 0);
    } else if answered.sinks > 0 {
        trace::advert(of, true, Life::Received, 0);
    }
}

impl Inner {
    /// Whether the receive buffers are full until the program reads.
    pub(crate) fn is_full(&self) -> bool {
        self.engine
            .as_ref()
            .is_some_and(|engine| engine.is_receive_shut())
    }

    /// A receive has completed.
    pub(crate) fn on_received(&mut self, sock: &Sock, received: Received) {
        let done = received.done;
        let (Some(link), Some(engine)) = (self.link.as_mut(), self.engine.as_mut()) else {
            return;
        };
        if !done.ok {
            if !link.draining {
                engine.handle_link_failed();
            }
            return;
        }
        let len = done.byte_len as usize;
        let Some(message) = link.take_received(received) else {
            engine.handle_link_failed();
            return;
        };
        self.hearing.on_message();
        sock.note_processor();
        if self.arrival.is_pending() {
            // Payload has overtaken the RTU, so the CM may treat the connection as
            // established. Not every driver reports that itself.
            sock.set_alarm(Alarm::Notify, 0);
        }
        let has_room = self.recv.reserve().is_ok();
        let head = message.head(len);
        let head_len = head.len().min(len);
        let size = engine.rcv_size();
        let before = link.is_zcopy().then(|| engine.stats().answered());
        let delivery =
            match engine.handle_message(head.get(..head_len).unwrap_or(&[]), done.byte_len) {
                Ok(delivery) => delivery,
                Err(_) => {
                    // The engine is failing; settle() sees how.
                    link.recycle_all(message.into_buffers());
                    return;
                }
            };
        if let Some(before) = before {
            let of = Of(sock, &self.local, &self.peer);
            count_answers(sock, of, &engine.stats().answered().since(before));
        }
        if delivery.payload_len > 0 && !has_room {
            // Rather no connection than one that has lost bytes.
            engine.handle_link_failed();
            return;
        }
        link.grow(engine.whole(), size);
        self.on_urgent(sock, &delivery);
        if let Some(end) = delivery.sink {
            self.on_sink_end(sock, end);
        }
        self.on_delivery(sock, message, &delivery);
    }

    /// Queues the payload of a message, and tells of what it announces.
    fn on_delivery(&mut self, sock: &Sock, mut message: receive::Received, delivery: &Delivery) {
        let Some(link) = self.link.as_mut() else {
            return;
        };
        let stats = &sock.net().stats;
        if delivery.payload_len == 0 {
            stats.control_msgs_received.inc();
            trace::receive(Of(sock, &self.local, &self.peer), 0, Path::Control);
            link.recycle_all(message.into_buffers());
            // The message took a buffer, perhaps the last one in which payload may come. Then
            // the bytes that are here are enough for each reader.
            self.wake.readable |= self.is_full() && !self.recv.is_empty();
        } else {
            stats.data_msgs_received.inc();
            self.on_payload(sock, &mut message, delivery);
        }
        self.on_announced(sock, delivery);
    }

    /// Bytes to be read in the peer's memory, an urgent byte, or the end of the stream, behind the payload.
    fn on_announced(&mut self, sock: &Sock, delivery: &Delivery) {
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

    /// An urgent byte is announced, or is in a message that is not queued yet.
    fn on_urgent(&mut self, sock: &Sock, delivery: &Delivery) {
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
            sock.wake_urgent();
        }
    }

    /// Queues the payload of a message.
    fn on_payload(&mut self, sock: &Sock, message: &mut receive::Received, delivery: &Delivery) {
        let Some(link) = self.link.as_mut() else {
            return;
        };
        sock.count(|t| &t.bcopy_bytes_received, delivery.payload_len);
        if let declined @ 1.. = link.sink.come(delivery.payload_len) {
            sock.count(|t| &t.declined_bytes, declined);
        }
        let of = Of(sock, &self.local, &self.peer);
        trace::receive(of, delivery.payload_len, Path::Copy);
        // The engine has seen that the message has these bytes.
        let queued = message.take_payload(sock, delivery, |segment, is_end| {
            self.recv.push(segment, delivery.urgent_byte && is_end)
        });
        if let Some(engine) = self.engine.as_mut() {
            match queued {
                Ok(None) => {}
                Ok(Some(free)) => link.recycle_if_wanted(free, engine.spares_wanted()),
                // Rather no connection than one that has lost bytes.
                Err(_) => engine.handle_link_failed(),
            }
        }
        self.wake.readable = true;
    }

    /// Skips the urgent byte, which is not part of the stream, if it is next.
    pub(crate) fn skip_urgent(&mut self) {
        if self.recv.at_mark() {
            self.consume(1);
        }
    }

    /// The program has read `n` bytes; an empty buffer is recycled. Returns whether that is news
    /// for the engine.
    pub(crate) fn consume(&mut self, n: u32) -> bool {
        let Some(segment) = self.recv.consume(n) else {
            return false;
        };
        let (Some(link), Some(engine)) = (self.link.as_mut(), self.engine.as_mut()) else {
            return false;
        };
        if segment.is_of_link() {
            if segment.ends_message() {
                engine.on_buffer_consumed();
            }
            link.recycle_if_wanted(segment.buffer, engine.spares_wanted());
            return true;
        }
        false
    }

    /// A send has completed.
    pub(crate) fn on_sent(&mut self, sock: &Sock, sent: cq::Sent) {
        let done = sent.done;
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
        let Some(sent) = link.take_sent(sent, sock.attendance()) else {
            return;
        };
        if link.draining && link.is_send_idle() {
            // The reaper waits for this.
            sock.set_alarm(Alarm::Reap, 0);
        }
        match sent {
            // The peer's transport answered.
            Sent::Probe => self.hearing.forget_probes(),
            Sent::Registered => self.wake.settled = true,
            Sent::Revoked(key) => {
                link.on_revoked(key);
                self.wake.settled = true;
                self.tend_runs(sock);
            }
            Sent::UnprovenRead => {}
            Sent::Read(buffer) => self.on_read(sock, buffer),
            Sent::Message(load) => {
                engine.handle_send_completed();
                if load.bytes > 0 {
                    self.user_timeout.on_progress();
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
        self.settle_send_buffer(sock);
    }

    /// Makes the send buffer larger, as TCP's, if a writer had to wait while the peer would
    /// have taken more.
    fn settle_send_buffer(&mut self, sock: &Sock) {
        if !self.send.take_full() || sock.is_memory_tight() {
            return;
        }
        let wanted = self.engine.as_ref().and_then(|e| e.send_buffer_wanted());
        if let Some(bytes) = wanted {
            sock.grow_sndbuf(bytes);
        }
    }
}
