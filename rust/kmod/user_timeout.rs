// SPDX-License-Identifier: GPL-2.0

//! TCP_USER_TIMEOUT: the time that written bytes may wait for the peer.
//!
//! The time counts from the last bytes that left. It does not matter whether an answer
//! of the peer's transport or credits are missing: TCP counts it for a closed window,
//! too.

use crate::{
    alarm::Alarm,
    endpoint::{
        Inner,
        Phase, //
    },
    object::Sock, //
};
use kernel::time::{
    Instant,
    Monotonic, //
};

/// The wait of one connection.
#[derive(Default)]
pub(crate) struct UserTimeout {
    /// Time of the last progress, while the alarm is set.
    since: Option<Instant<Monotonic>>,
}

impl Inner {
    /// Some bytes have left.
    pub(crate) fn on_progress(&mut self) {
        if self.user_timeout.since.is_some() {
            self.user_timeout.since = Some(Instant::now());
        }
    }

    /// The limit has changed: sets the alarm again.
    pub(crate) fn renew_user_timeout(&mut self) {
        self.user_timeout.since = None;
    }

    /// Sets the alarm if bytes wait and there is a limit.
    pub(crate) fn settle_user_timeout(&mut self, sock: &Sock) {
        let limit = self.options.user_timeout;
        if limit == 0 || self.user_timeout.since.is_some() || !self.is_waiting() {
            return;
        }
        self.user_timeout.since = Some(Instant::now());
        sock.set_alarm(Alarm::UserTimeout, limit);
    }

    fn is_waiting(&self) -> bool {
        self.phase == Phase::Connected && self.send.held() > 0
    }

    fn on_user_timeout(&mut self, sock: &Sock) {
        let Some(since) = self.user_timeout.since.take() else {
            return;
        };
        let limit = self.options.user_timeout;
        if limit == 0 || !self.is_waiting() {
            return;
        }
        let passed = since.elapsed().as_millis();
        let passed = u32::try_from(passed).unwrap_or(u32::MAX);
        if passed < limit {
            self.user_timeout.since = Some(since);
            return sock.set_alarm(Alarm::UserTimeout, limit.wrapping_sub(passed));
        }
        if let Some(engine) = self.engine.as_mut() {
            engine.handle_unanswered();
        }
    }
}

impl Sock {
    /// The alarm behind [`Alarm::UserTimeout`].
    pub(crate) fn alarm_user_timeout(&self) {
        self.drive(|inner| inner.on_user_timeout(self));
    }
}
