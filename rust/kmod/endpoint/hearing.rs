// SPDX-License-Identifier: GPL-2.0

//! Signs of life of the peer, and what keepalive has asked of it.
//!
//! This is the state alone; `keepalive.rs` acts.
//!
//! Locks: under the endpoint's lock.

/// See the module.
#[derive(Default)]
pub(crate) struct Hearing {
    /// Number of messages received, to detect a silent peer.
    messages: u64,
    /// `messages` when the keepalive alarm was set.
    at_alarm: u64,
    /// Keepalive probes since the peer's last message.
    probes: u32,
    /// The keepalive alarm is set for a sender without credits.
    stalled: bool,
}

impl Hearing {
    pub(super) fn on_message(&mut self) {
        self.messages = self.messages.wrapping_add(1);
        self.probes = 0;
    }

    pub(crate) fn on_probe(&mut self) {
        self.probes = self.probes.saturating_add(1);
    }

    /// The peer's transport has answered a probe, or the connection is forgotten.
    pub(super) fn forget_probes(&mut self) {
        self.probes = 0;
    }

    /// The keepalive alarm is set, and no probe counts that was sent before.
    pub(crate) fn on_alarm_set(&mut self) {
        self.probes = 0;
        self.stalled = false;
        self.at_alarm = self.messages;
    }

    /// The keepalive alarm is set for a sender without credits.
    pub(crate) fn on_stall_alarm_set(&mut self) {
        self.stalled = true;
        self.at_alarm = self.messages;
    }

    /// That alarm has gone off, or is cleared.
    pub(crate) fn on_stall_alarm_over(&mut self) {
        self.stalled = false;
    }

    /// Whether the keepalive alarm is set for a sender without credits.
    pub(crate) fn is_stall_watched(&self) -> bool {
        self.stalled
    }

    /// Whether no message has come since the alarm was set.
    pub(crate) fn is_silent(&self) -> bool {
        self.messages == self.at_alarm
    }

    pub(crate) fn probes(&self) -> u32 {
        self.probes
    }

    pub(super) fn heard(&self) -> u64 {
        self.messages
    }
}
