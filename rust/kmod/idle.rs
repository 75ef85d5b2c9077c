// SPDX-License-Identifier: GPL-2.0

//! Idle connections: the memory that they give back.
//!
//! A connection in use keeps memory for the next message: spare receive buffers, the page
//! fragment of written bytes, queues that have grown. Most connections are idle most of the
//! time, so one without messages for [`IDLE_MS`] returns all of it. Posted receive buffers
//! stay, because the peer has credits for them. The engine wants no more of them than an idle
//! connection needs; if they had grown for a stream, the peer that sent it asks for small
//! ones, and uses up the large ones by messages without payload.
//!
//! One alarm goes off every [`IDLE_MS`] while messages flow, so that a message costs no more
//! than a comparison.
//!
//! This is the observation alone; `endpoint/timers.rs` acts.
//!
//! Locks: under the endpoint's lock.

/// Time without a message after which a connection is idle.
pub(crate) const IDLE_MS: u32 = 2_000;

/// How far the observation of a connection has come.
#[derive(Default)]
pub(crate) struct Idle {
    /// The alarm is set.
    watched: bool,
    /// Number of messages when the alarm was set last, or when memory was given back.
    messages: u64,
}

/// The effect of the alarm.
pub(crate) enum Action {
    /// The connection is not observed any more.
    Nothing,
    /// There were messages: the alarm is set again.
    Watch,
    /// The connection gives its memory back.
    GiveBack,
}

impl Idle {
    /// Whether the alarm is set.
    pub(crate) fn is_watched(&self) -> bool {
        self.watched
    }

    /// Whether there were messages since the last look. `messages` is their number by now.
    pub(crate) fn has_news(&self, messages: u64) -> bool {
        messages != self.messages
    }

    /// The alarm is set, after so many `messages`.
    pub(crate) fn watch(&mut self, messages: u64) {
        *self = Self {
            watched: true,
            messages,
        };
    }

    /// The alarm has gone off, after so many `messages`.
    pub(crate) fn on_alarm(&mut self, messages: u64) -> Action {
        if !core::mem::take(&mut self.watched) {
            Action::Nothing
        } else if self.has_news(messages) {
            Action::Watch
        } else {
            Action::GiveBack
        }
    }
}
