// SPDX-License-Identifier: GPL-2.0

//! Messages that take time, so that their number in a second can be counted.
//!
//! Without that, messages that follow from each other without end would only be seen if they never
//! ended.

use crate::{
    fault::{ensure, Checked},
    op::{Op, Step},
    side::Side,
    world::World,
};

/// Limit for the messages of both sides in a second in which the applications do nothing. They use
/// up the windows of both sides, which are small, and the larger buffers of RESIZE-11.
const MESSAGES_MAX: i64 = 160;

/// The link.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Travel {
    /// Time of a message on its way.
    pub(crate) trip_ms: u64,
    /// The time when messages in flight arrive.
    lands: Option<u64>,
}

/// Counts the messages of each second.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rate {
    since: u64,
    before: i64,
}

impl Rate {
    /// `sent` messages had been sent at the time `now`.
    pub(crate) fn new(now: u64, sent: i64) -> Self {
        Self {
            since: now,
            before: sent,
        }
    }

    pub(crate) fn check(&mut self, now: u64, sent: i64) -> Checked {
        ensure!(
            sent - self.before <= MESSAGES_MAX,
            "{} messages in {} ms in which no application does anything",
            sent - self.before,
            now - self.since
        );
        if now >= self.since + 1_000 {
            *self = Self::new(now, sent);
        }
        Ok(())
    }
}

impl World {
    /// Messages sent by both sides.
    pub(crate) fn sent(&self) -> i64 {
        Side::BOTH
            .map(|side| self.side(side).ledger.sent())
            .iter()
            .sum()
    }

    /// Whether anything happens without applications and timers.
    fn is_moving(&self) -> bool {
        let moves = |side| self.side(side).port.is_moving();
        Side::BOTH.into_iter().any(moves) || self.has_mads()
    }

    /// Lets messages arrive that have travelled long enough. Returns when the next ones do.
    pub(crate) fn travel(&mut self) -> Checked<Option<u64>> {
        if self.travel.trip_ms == 0 {
            self.rest()?;
            return Ok(None);
        }
        if self.travel.lands.is_some_and(|at| at <= self.watch.now) {
            self.travel.lands = None;
            self.land()?;
        }
        if self.travel.lands.is_none() && self.is_moving() {
            self.travel.lands = Some(self.watch.now + self.travel.trip_ms);
        }
        Ok(self.travel.lands)
    }

    /// Everything in flight arrives.
    fn land(&mut self) -> Checked {
        let mut moved = false;
        for op in [
            Op::Carry(u8::MAX),
            Op::Handle(u8::MAX),
            Op::Complete(u8::MAX),
        ] {
            for side in Side::BOTH {
                moved |= self.apply(Step { side, op })?;
            }
        }
        if !moved {
            self.carry_mad()?;
        }
        Ok(())
    }
}
