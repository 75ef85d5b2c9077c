// SPDX-License-Identifier: GPL-2.0

//! TCP_USER_TIMEOUT: the time that written bytes may wait for the peer.
//!
//! The time counts from the last bytes that left. It does not matter whether an answer
//! of the peer's transport or credits are missing: TCP counts it for a closed window,
//! too.
//!
//! This is the time alone; `endpoint/timers.rs` acts.
//!
//! Locks: under the endpoint's lock.

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

/// The effect of the alarm.
pub(crate) enum Action {
    /// No bytes wait, or the limit is gone.
    Nothing,
    /// Some time is left: the alarm is set again, for so many milliseconds.
    Again(u32),
    /// The connection ends.
    End,
}

impl UserTimeout {
    /// Whether the alarm is set.
    pub(crate) fn is_set(&self) -> bool {
        self.since.is_some()
    }

    /// Bytes begin to wait, and the alarm is set.
    pub(crate) fn begin(&mut self) {
        self.since = Some(Instant::now());
    }

    /// Some bytes have left.
    pub(crate) fn on_progress(&mut self) {
        if self.since.is_some() {
            self.since = Some(Instant::now());
        }
    }

    /// The limit has changed: the alarm has to be set again.
    pub(crate) fn renew(&mut self) {
        self.since = None;
    }

    /// The alarm has gone off. The limit is `limit` milliseconds by now, or 0 for none, and bytes
    /// wait if `waiting`.
    pub(crate) fn on_alarm(&mut self, limit: u32, waiting: bool) -> Action {
        let Some(since) = self.since.take() else {
            return Action::Nothing;
        };
        if limit == 0 || !waiting {
            return Action::Nothing;
        }
        let passed = since.elapsed().as_millis();
        let passed = u32::try_from(passed).unwrap_or(u32::MAX);
        if passed < limit {
            self.since = Some(since);
            return Action::Again(limit.wrapping_sub(passed));
        }
        Action::End
    }
}
