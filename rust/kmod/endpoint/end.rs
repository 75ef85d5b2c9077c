// SPDX-License-Identifier: GPL-2.0

//! The end of a connection, and its life after its program has closed the socket.
//!
//! Locks: under [`Sock::drive`], in process context.

use crate::{
    alarm::Alarm,
    endpoint::{
        Inner,
        Phase, //
    },
    engine::conn::Ended,
    errno,
    ffi,
    link::Link,
    object::Sock,
    prelude::*,
    trace, //
};
use kernel::{
    page::PAGE_SIZE,
    time::Instant, //
};

impl Inner {
    /// The links to destroy. If there is none, the reaper is done.
    pub(crate) fn take_retired(&mut self) -> Option<KBox<Link>> {
        let retired = self.retired.take();
        self.reaping = retired.is_some();
        retired
    }

    /// The reaper runs, and will look for retired links.
    pub(crate) fn begin_reaping(&mut self) {
        self.reaping = true;
    }

    /// Puts the link aside for the reaper.
    pub(crate) fn retire_link(&mut self, sock: &Sock) {
        if let Some(mut link) = self.link.take() {
            self.recv.unmap();
            link.leave_to_worker(sock.attendance());
            sock.clear_alarm(Alarm::Attend);
            // Bytes that were offered and not read are no longer sent.
            let left = link.source.awaited_left();
            self.turns.write.on_dropped(left);
            link.older = self.retired.take();
            self.retired = Some(link);
            // The reaper looks again before it ends.
            if !self.reaping {
                sock.set_alarm(Alarm::Reap, 0);
            }
        }
    }

    /// Handles the end of a connection, once.
    pub(super) fn settle_end(&mut self, sock: &Sock, peer_had_closed: bool) {
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

    /// Bytes of the peer are lost, which came on the connection with this `generation`. It ends with an
    /// error. Without one, readers would believe that the peer has sent no more.
    pub(crate) fn lose_bytes(&mut self, sock: &Sock, generation: u64) {
        if generation != self.generation() {
            return;
        }
        // Queued bytes, and the peer's end, come behind the lost bytes.
        self.recv.cut();
        self.peer_done = false;
        self.break_off(sock);
    }

    /// The connection cannot go on, and its programs have not asked for its end.
    pub(crate) fn break_off(&mut self, sock: &Sock) {
        if let Some(engine) = self.engine.as_mut() {
            engine.abort();
        }
        // An error that nothing has fetched says more.
        if sock.err() == 0 {
            sock.set_err(ECONNRESET);
        }
        self.wake.error = true;
    }

    /// Takes the connection down locally: no more transfers, waiters woken.
    pub(crate) fn finish(&mut self, sock: &Sock) {
        self.phase = Phase::Over;
        self.fallback.finish();
        if self.orphan.since.take().is_some() {
            sock.net().stats.orphans.dec();
        }
        if self.counted {
            self.counted = false;
            sock.net().stats.established.dec();
        }
        self.stop_timers();
        if self.fallback.race().is_some() && !self.orphan.is_closed() {
            // TCP's attempt has to be given up.
            sock.set_alarm(Alarm::Race, 0);
        } else {
            sock.clear_alarm(Alarm::Race);
        }
        sock.clear_alarm(Alarm::Engine);
        sock.clear_alarm(Alarm::Keepalive);
        self.hearing.on_stall_alarm_over();
        sock.clear_alarm(Alarm::UserTimeout);
        self.user_timeout.renew();
        self.stop_idle(sock);
        self.send.clear();
        sock.set_wmem_queued(0);
        self.show_state(sock, ffi::TCP_CLOSE);
        sock.add_shutdown(ffi::SHUTDOWN_MASK);
        self.retire_link(sock);
        self.wake.settled = true;
        self.wake.hangup = true;
        self.wake.writable = true;
        self.wake.bereaved = self.arrival.leave();
        if self.orphan.is_closed() {
            self.recv.clear();
            self.binding.release();
        }
    }

    /// The program has closed the socket and the connection lives on: for a bounded
    /// time, and only if the number of such connections and the memory in use permit
    /// it.
    pub(crate) fn become_orphan(&mut self, sock: &Sock) {
        let stats = &sock.net().stats;
        if self.orphan.since.is_none() {
            self.orphan.since = Some(Instant::now());
            stats.orphans.inc();
        }
        let many = stats.sum(|stats| &stats.orphans) > sock.net().knobs().max_orphans.into();
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
        if !self.orphan.is_closed() || self.phase != Phase::Connected || unsent > 0 {
            return false;
        }
        let Some(lease) = self.binding.lease() else {
            return false;
        };
        lease.stand_aside();
        self.orphan.aside = true;
        self.end_aside();
        true
    }

    /// A connection that has made room ends as soon as the peer knows of its end:
    /// no program would use later messages of the peer. TCP's peer gets a reset at this
    /// point, when the new connection begins.
    pub(super) fn end_aside(&mut self) {
        let engine = self.engine.as_mut().filter(|_| self.orphan.aside);
        if let Some(engine) = engine {
            if errno::tcp_state(engine.state()) == ffi::TCP_FIN_WAIT2 {
                engine.abort();
            }
        }
    }
}
