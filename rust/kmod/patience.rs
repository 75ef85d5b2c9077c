// SPDX-License-Identifier: GPL-2.0

//! TCP_USER_TIMEOUT: for how long written bytes may wait for the peer.
//!
//! The time is counted from the last bytes that left, whether what is missing
//! is an answer of the peer's transport or its credits: TCP counts it for a
//! closed window, too.

use crate::{
    alarm::Alarm,
    endpoint::{
        Inner,
        Phase, //
    },
    sock::Sock, //
};
use kernel::time::{
    Instant,
    Monotonic, //
};

/// What is known about the wait of one connection.
#[derive(Default)]
pub(crate) struct Patience {
    /// Since when nothing has left, while the alarm is set.
    since: Option<Instant<Monotonic>>,
}

impl Inner {
    /// Some bytes have left.
    pub(crate) fn on_progress(&mut self) {
        if self.patience.since.is_some() {
            self.patience.since = Some(Instant::now());
        }
    }

    /// The limit is another one; the alarm is set anew.
    pub(crate) fn renew_patience(&mut self) {
        self.patience.since = None;
    }

    /// Sets the alarm where bytes wait and there is a limit.
    pub(crate) fn settle_patience(&mut self, sock: &Sock) {
        let limit = self.options.user_timeout;
        if limit == 0 || self.patience.since.is_some() || !self.is_waiting() {
            return;
        }
        self.patience.since = Some(Instant::now());
        sock.set_alarm(Alarm::Patience, limit);
    }

    fn is_waiting(&self) -> bool {
        self.phase == Phase::Connected && self.send.held() > 0
    }

    fn on_impatient(&mut self, sock: &Sock) {
        let Some(since) = self.patience.since.take() else {
            return;
        };
        let limit = self.options.user_timeout;
        if limit == 0 || !self.is_waiting() {
            return;
        }
        let passed = since.elapsed().as_millis();
        let passed = u32::try_from(passed).unwrap_or(u32::MAX);
        if passed < limit {
            self.patience.since = Some(since);
            return sock.set_alarm(Alarm::Patience, limit.wrapping_sub(passed));
        }
        if let Some(engine) = self.engine.as_mut() {
            engine.handle_unanswered();
        }
    }
}

impl Sock {
    /// The alarm behind [`Alarm::Patience`].
    pub(crate) fn alarm_patience(&self) {
        self.drive(|inner| inner.on_impatient(self));
    }
}
