// SPDX-License-Identifier: GPL-2.0

//! The timers of a connection: the engine's, the one of an idle connection, and TCP_USER_TIMEOUT.
//!
//! Locks: under the endpoint's lock.

use crate::{
    alarm::Alarm,
    endpoint::{
        Inner,
        Phase, //
    },
    engine::timer::{
        Deadlines,
        Timer, //
    },
    idle::{
        self,
        Idle,
        IDLE_MS, //
    },
    object::Sock,
    prelude::*,
    user_timeout, //
};
use kernel::time::{
    Instant,
    Monotonic, //
};

/// A connection may outlive its program by at most this many times `close_timeout_ms`,
/// while the peer takes its bytes.
const ORPHAN_PERIODS: i64 = 10;

fn millis_since(past: Instant<Monotonic>) -> u64 {
    u64::try_from(past.elapsed().as_millis()).unwrap_or(0)
}

impl Inner {
    /// Number of messages in both directions.
    fn messages(&self) -> u64 {
        let sent = self
            .engine
            .as_ref()
            .map_or(0, |engine| engine.stats().messages_sent);
        self.hearing.heard().wrapping_add(sent.into())
    }

    /// Sets the alarm of a connection that has exchanged messages.
    pub(super) fn settle_idle(&mut self, sock: &Sock) {
        if self.idle.is_watched() {
            return;
        }
        let Some(link) = self.link.as_ref() else {
            return;
        };
        // A program may read long after the last message; then buffers become spare.
        if link.has_spare_buffers() || self.idle.has_news(self.messages()) {
            self.watch_idle(sock);
        }
    }

    pub(crate) fn watch_idle(&mut self, sock: &Sock) {
        if self.link.is_some() {
            self.idle.watch(self.messages());
            sock.set_alarm(Alarm::Idle, IDLE_MS);
        }
    }

    /// The alarm has gone off. Returns whether the connection is idle.
    pub(crate) fn on_idle(&mut self, sock: &Sock) -> bool {
        let action = self.idle.on_alarm(self.messages());
        if self.link.is_none() {
            return false;
        }
        match action {
            idle::Action::Nothing => return false,
            idle::Action::Watch => {
                self.watch_idle(sock);
                return false;
            }
            idle::Action::GiveBack => {}
        }
        if let (Some(link), Some(engine)) = (self.link.as_mut(), self.engine.as_mut()) {
            engine.on_idle();
            link.shrink(engine.rcv_size());
        }
        self.send.shrink();
        self.recv.shrink();
        true
    }

    /// The connection has ended.
    pub(super) fn stop_idle(&mut self, sock: &Sock) {
        self.idle = Idle::default();
        sock.clear_alarm(Alarm::Idle);
    }

    /// Sets the alarm if bytes wait and there is a limit.
    pub(super) fn settle_user_timeout(&mut self, sock: &Sock) {
        let limit = self.options.user_timeout;
        if limit == 0 || self.user_timeout.is_set() || !self.is_waiting() {
            return;
        }
        self.user_timeout.begin();
        sock.set_alarm(Alarm::UserTimeout, limit);
    }

    fn is_waiting(&self) -> bool {
        self.phase == Phase::Connected && self.send.held() > 0
    }

    pub(crate) fn on_user_timeout(&mut self, sock: &Sock) {
        let waiting = self.is_waiting();
        let limit = self.options.user_timeout;
        match self.user_timeout.on_alarm(limit, waiting) {
            user_timeout::Action::Nothing => {}
            user_timeout::Action::Again(left) => sock.set_alarm(Alarm::UserTimeout, left),
            user_timeout::Action::End => {
                if let Some(engine) = self.engine.as_mut() {
                    engine.handle_unanswered();
                }
            }
        }
    }

    pub(super) fn settle_timers(&mut self, sock: &Sock) {
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

    /// The alarm of the engine's timers has gone off. It may be a late one, and its
    /// deadline has been replaced; then it is set again.
    pub(crate) fn on_timeout(&mut self, sock: &Sock) {
        self.due = None;
        let now = millis_since(self.born);
        let limit = i64::from(sock.net().knobs().close_timeout_ms).saturating_mul(ORPHAN_PERIODS);
        let age = self.orphan.age();
        let Some(engine) = self.engine.as_mut() else {
            return;
        };
        if age >= limit && !engine.is_failing() {
            // The limit holds even if the peer still takes bytes.
            engine.abort();
            // The time that AbortConn may take begins now.
            self.deadlines.stop(Timer::PeerClose);
            return;
        }
        while let Some(timer) = self.deadlines.take_due(now) {
            engine.handle_timeout(timer);
        }
    }

    pub(crate) fn stop_timers(&mut self) {
        self.deadlines = Deadlines::new();
        self.due = None;
    }

    /// connect() has failed over SDP; a worker repeats it over TCP, see
    /// [`Sock::give_way`].
    pub(crate) fn give_way_soon(&mut self, sock: &Sock, error: Error) {
        self.fallback.fail(error);
        self.stop_timers();
        sock.set_alarm(Alarm::Engine, 0);
    }
}
