// SPDX-License-Identifier: GPL-2.0

//! Time, and how long each side has waited.
//!
//! Rules limit two times: how long a SrcAvail is held while nobody reads, and how long a side waits
//! for the answer to a cancel. A third rule: a correct peer is never given up, however long the
//! applications are silent. And two idle sides send few messages.

use crate::{
    fault::{ensure, Checked},
    shell::Shell,
    side::Side,
    world::World,
};
use sdp_engine::engine::{
    conn::{Connection, Ended},
    policy::patience,
};

/// Limit for a SrcAvail that nobody reads: the timer finds no progress the second time that it
/// expires.
const HELD_MS: u64 = 2 * patience::DECLINE_MS as u64;
/// Limit for an answer.
const ANSWER_MS: u64 = patience::ANSWER_MS as u64 * patience::ANSWER_TRIES as u64;
/// How long the applications are silent.
const SILENCE_MS: u64 = 600_000;
/// Limit for the messages of both sides in that time, after an equally long silence: one of each
/// side every 15 seconds.
const WHISPERS: u64 = 2 + 2 * SILENCE_MS / 15_000;

/// The start times of one side's waits.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Patience {
    /// A reader waits for bytes.
    pub(crate) reading: bool,
    /// The number of bytes that wait in the peer's memory while nobody reads, and since when.
    held: Option<(u64, u64)>,
    cancel: Option<u64>,
    /// The peer was prevented from answering, or time passed for one side only.
    pub(crate) unfair: bool,
}

impl Patience {
    /// Called after all wanted actions were done.
    pub(crate) fn note(&mut self, conn: &Connection, now: u64) {
        let left = conn.remote_len();
        let unread = left > 0 && !self.reading && conn.reads_in_flight() == 0;
        let before = self.held.filter(|(len, _)| *len == left);
        self.held = unread.then(|| before.unwrap_or((left, now)));
        let awaits = conn.awaits_cancel() && conn.ended().is_none();
        self.cancel = awaits.then(|| self.cancel.unwrap_or(now));
    }
}

impl Shell {
    /// Whether it has waited longer than allowed, for any kind of peer.
    pub(crate) fn check_waits(&self, now: u64) -> Checked {
        let side = self.side;
        let waited = |since: u64| now.saturating_sub(since);
        if let Some((left, since)) = self.patience.held {
            ensure!(
                waited(since) <= HELD_MS,
                "{side:?} holds a SrcAvail of {left} bytes for {} ms, and nobody reads",
                waited(since)
            );
        }
        if let Some(since) = self.patience.cancel {
            ensure!(
                waited(since) <= ANSWER_MS,
                "{side:?} waits for {} ms for the answer to a cancel",
                waited(since)
            );
        }
        Ok(())
    }

    fn check_fair(&self, other: &Shell) -> Checked {
        let side = self.side;
        let gives_up = self.ended() == Some(Ended::TimedOut) && !self.app.closed;
        let alone = self.patience.unfair || self.port.unreachable || other.port.dead;
        ensure!(
            !gives_up || alone,
            "{side:?} gives up a peer that has done its part"
        );
        Ok(())
    }
}

impl World {
    /// Time passes. Messages are faster, unless they are `stalled`.
    pub(crate) fn pass(&mut self, ms: u64, stalled: bool) -> Checked<bool> {
        let end = self.watch.now + ms;
        loop {
            if stalled {
                for side in Side::BOTH {
                    self.both(side).0.patience.unfair = true;
                }
            } else {
                self.rest()?;
            }
            let Some(next) = self.next_due().filter(|next| *next <= end) else {
                break;
            };
            self.watch.now = self.watch.now.max(next);
            // The timers of both sides run before either side gets the other's messages.
            for side in Side::BOTH {
                loop {
                    let (shell, _, watch) = self.both(side);
                    if !shell.run_timer(watch) {
                        break;
                    }
                    self.watch.steps += 1;
                    self.settle(side)?;
                }
            }
            self.check()?;
            self.check_patience()?;
        }
        self.watch.now = end;
        self.check_patience()?;
        Ok(true)
    }

    fn next_due(&self) -> Option<u64> {
        let due = |side| self.side(side).deadlines.next();
        Side::BOTH.into_iter().filter_map(due).min()
    }

    /// Time passes until a timer expires. Returns false if none is set.
    pub(crate) fn pass_to_next(&mut self) -> Checked<bool> {
        match self.next_due() {
            Some(due) => self.pass(due.saturating_sub(self.watch.now), false),
            None => Ok(false),
        }
    }

    fn check_patience(&self) -> Checked {
        let now = self.watch.now;
        for side in Side::BOTH {
            self.side(side).check_waits(now)?;
            self.side(side).check_fair(self.side(side.other()))?;
        }
        Ok(())
    }

    /// The applications do nothing for a long time.
    pub(crate) fn be_silent(&mut self) -> Checked {
        self.pass(SILENCE_MS, false)?;
        let said = |world: &Self| Side::BOTH.map(|side| world.side(side).ledger.sent());
        let before: i64 = said(self).into_iter().sum();
        self.pass(SILENCE_MS, false)?;
        let after: i64 = said(self).into_iter().sum();
        let count = u64::try_from(after - before).unwrap_or(0);
        ensure!(
            count <= WHISPERS,
            "{count} messages in {} s in which nobody does anything",
            SILENCE_MS / 1000
        );
        Ok(())
    }
}
