// SPDX-License-Identifier: GPL-2.0

//! What an idle connection does, and one with bytes that wait for longer than TCP_USER_TIMEOUT.
//!
//! Contexts: the workers of the alarms; the rest under the endpoint's lock.

use crate::{
    alarm::Alarm,
    endpoint::{
        Inner,
        Phase, //
    },
    ffi,
    idle::{
        self,
        Idle,
        IDLE_MS, //
    },
    object::Sock,
    user_timeout, //
};

impl Inner {
    /// Number of messages in both directions.
    fn messages(&self) -> u64 {
        let sent = self
            .engine
            .as_ref()
            .map_or(0, |engine| engine.stats().messages_sent);
        self.heard.wrapping_add(sent.into())
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

    fn watch_idle(&mut self, sock: &Sock) {
        if self.link.is_some() {
            self.idle.watch(self.messages());
            sock.set_alarm(Alarm::Idle, IDLE_MS);
        }
    }

    /// The alarm has gone off. Returns whether the connection is idle.
    fn on_idle(&mut self, sock: &Sock) -> bool {
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

    fn on_user_timeout(&mut self, sock: &Sock) {
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
}

impl Sock {
    /// The alarm behind [`Alarm::Idle`].
    pub(crate) fn alarm_idle(&self) {
        if !self.drive(|inner| inner.on_idle(self)) {
            return;
        }
        // SAFETY: `sk` is valid; the call takes the lock that protects the fragment.
        if !unsafe { ffi::sdp_drop_fragment(self.sk()) } {
            // A system call is using it.
            self.look(|inner| inner.watch_idle(self));
        }
    }

    /// The alarm behind [`Alarm::UserTimeout`].
    pub(crate) fn alarm_user_timeout(&self) {
        self.drive(|inner| inner.on_user_timeout(self));
    }
}
