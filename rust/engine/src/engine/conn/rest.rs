// SPDX-License-Identifier: GPL-2.0

//! Whether a connection has anything to do.

use super::{Connection, State};
use crate::engine::flow::receive::UpdateDue;

impl Connection {
    /// Whether the drain rule can wait for the next event: there is no output, no timer is wanted,
    /// and so few receive buffers are lacking that they can be posted with the next message.
    ///
    /// Most events leave a connection like that, and this question costs less than the others
    /// together. It may be answered with no for a connection that has nothing to do either.
    pub fn is_at_rest(&self) -> bool {
        self.state == State::Established
            && !self.close.has_failed()
            && self.stream.unsent() == 0
            && !self.stream.urgent().wants_announcement()
            && self.window.may_wait()
            && self.window.update_due() == UpdateDue::Not
            && self.is_nothing_lent()
            && !self.wants_pipelined()
            && self.resize.is_at_rest()
    }

    /// Whether everything that is queued waits for more bytes, which were announced, to fill a
    /// message. Until they are queued there is nothing new to do but to limit that wait.
    pub fn is_gathering(&self) -> bool {
        self.runs.is_clear()
            && self.targets.is_empty()
            && self.stream.is_held_by_cork(self.next_payload())
    }

    /// Whether one side has memory of the other that it was offered, as far as this one knows.
    pub(super) fn is_lent(&self) -> bool {
        self.runs.outstanding() > 0
            || self.offers.outstanding() > 0
            || !self.held.is_empty()
            || !self.targets.is_empty()
    }

    /// Whether neither side offers memory, or has an answer to an offer to send.
    fn is_nothing_lent(&self) -> bool {
        self.runs.is_at_rest()
            && self.held.is_empty()
            && self.offers.is_at_rest()
            && self.targets.is_at_rest()
    }
}
