// SPDX-License-Identifier: GPL-2.0

//! Keepalive: probes of a silent peer.
//!
//! SDP has no message for it. The probe is a zero-length RDMA Write. If the peer's
//! transport does not answer, the transport's own retries end the connection. So the
//! number of probes matters only for transports that keep a request pending.
//!
//! A sender without credits and with nothing in flight is probed as well: otherwise
//! nothing would ever report that its peer has gone.
//!
//! Locks: under the endpoint's lock, except that SO_KEEPALIVE sets an alarm under `lock_sock`.

use crate::{
    alarm::Alarm,
    endpoint::{
        Inner,
        Phase, //
    },
    ffi,
    object::Sock, //
};

const MSEC_PER_SEC: u32 = 1000;

/// Silence after which the peer of a stalled sender is probed.
const STALL_MS: u32 = 5_000;

impl Inner {
    /// Starts the timer of a connection that has keepalive switched on.
    pub(crate) fn start_keepalive(&mut self, sock: &Sock) {
        if self.phase == Phase::Connected && sock.flag(ffi::sock_flags_SOCK_KEEPOPEN) {
            self.set_keepalive_alarm(sock);
        }
    }

    pub(crate) fn set_keepalive_alarm(&mut self, sock: &Sock) {
        self.hearing.on_alarm_set();
        sock.set_alarm(Alarm::Keepalive, self.idle_ms(sock));
    }

    /// Whether bytes wait for the peer's credits and no request is in flight that would
    /// report its end.
    fn is_stalled(&self) -> bool {
        self.phase == Phase::Connected
            && self.send.held() > 0
            && self.link.as_ref().is_some_and(|link| link.is_send_idle())
    }

    /// Probes for a stalled sender, as TCP does when the window is closed.
    pub(crate) fn settle_stall(&mut self, sock: &Sock) {
        if !self.hearing.is_stall_watched() && self.is_stalled() {
            self.hearing.on_stall_alarm_set();
            sock.set_alarm(Alarm::Keepalive, STALL_MS);
        }
    }

    fn on_stalled(&mut self, sock: &Sock) {
        let (Some(link), Some(engine)) = (self.link.as_mut(), self.engine.as_mut()) else {
            return;
        };
        if self.hearing.is_silent() {
            //= spec: KEEPALIVE-3
            match link.probe() {
                Ok(true) => sock.net().stats.keepalive_probes.inc(),
                Ok(false) => {}
                Err(_) => return engine.handle_link_failed(),
            }
        }
        self.settle_stall(sock);
    }

    fn idle_ms(&self, sock: &Sock) -> u32 {
        let secs = self
            .options
            .keep_idle
            .unwrap_or_else(|| sock.net().knobs().keepalive_time);
        secs.saturating_mul(MSEC_PER_SEC)
    }

    pub(crate) fn on_keepalive(&mut self, sock: &Sock) {
        if self.arrival.is_pending() && !self.arrival.is_deferred() {
            // The alarm of a connection that waits for its RTU.
            return self.on_unanswered(sock);
        }
        self.hearing.on_stall_alarm_over();
        if self.is_stalled() {
            return self.on_stalled(sock);
        }
        if self.phase != Phase::Connected || !sock.flag(ffi::sock_flags_SOCK_KEEPOPEN) {
            return;
        }
        if !self.hearing.is_silent() {
            return self.start_keepalive(sock);
        }
        let knobs = sock.net().knobs();
        let most = self.options.keep_count.unwrap_or(knobs.keepalive_probes);
        let secs = self.options.keep_interval.unwrap_or(knobs.keepalive_intvl);
        let interval = secs.saturating_mul(MSEC_PER_SEC);
        let probes = self.hearing.probes();
        let silent = interval
            .saturating_mul(probes)
            .saturating_add(self.idle_ms(sock));
        let over = match self.options.user_timeout {
            0 => probes >= most,
            limit => probes > 0 && silent >= limit,
        };
        let (Some(link), Some(engine)) = (self.link.as_mut(), self.engine.as_mut()) else {
            return;
        };
        if over {
            return engine.handle_unanswered();
        }
        //= spec: KEEPALIVE-2
        match link.probe() {
            Ok(true) => {
                self.hearing.on_probe();
                sock.net().stats.keepalive_probes.inc();
            }
            // A request in flight will tell the same.
            Ok(false) => {}
            Err(_) => return engine.handle_link_failed(),
        }
        // Without memory for a probe there is another try soon.
        let busy = !link.is_send_idle();
        let next = if self.hearing.probes() == 0 && busy {
            self.idle_ms(sock)
        } else {
            interval
        };
        sock.set_alarm(Alarm::Keepalive, next);
    }
}

impl Sock {
    /// SO_KEEPALIVE is being set; the flag itself changes afterwards. Must not sleep,
    /// because a BPF program may set it.
    pub(crate) fn keepalive_switched(&self) {
        self.set_alarm(Alarm::Switched, 0);
    }
}
