// SPDX-License-Identifier: GPL-2.0

//! Time, and how long each side has waited.
//!
//! Rules limit two times: how long a SrcAvail is held while no application reads, and how long a side waits
//! for the answer to a cancel. A third rule: a correct peer is never given up, however long the
//! applications are silent. And two idle sides send few messages.

use crate::{
    fault::{ensure, Checked},
    op::{Op, Step},
    shell::Shell,
    side::Side,
    travel::Rate,
    world::World,
};
use sdp_engine::engine::{
    conn::{Connection, Ended},
    policy::patience,
};

/// Limit for a SrcAvail that no application reads: the timer finds no progress the second time that it
/// expires.
const HELD_MS: u64 = 2 * patience::DECLINE_MS as u64;
/// Limit for a cancel: it may wait for a credit, and then for its answer.
const ANSWER_MS: u64 = 2 * patience::ANSWER_MS as u64 * patience::ANSWER_TRIES as u64;
/// How long the applications are silent.
const SILENCE_MS: u64 = 600_000;
/// Longer than a correct peer is given up by mistake.
const WAKE_MS: u64 = 60_000;
/// Limit for the messages of both sides in that time, after an equally long silence: one of each
/// side every 15 seconds, or every second while memory is lent, as a cancel may wait for a credit.
const WHISPERS: u64 = 2 + 2 * SILENCE_MS / 15_000;
const WHISPERS_LENT: u64 = 2 + 2 * SILENCE_MS / 1_000;

/// The start times of one side's waits.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Patience {
    /// A reader waits for bytes.
    pub(crate) reading: bool,
    /// The number of bytes that wait in the peer's memory while no application reads, and since when.
    held: Option<(u64, u64)>,
    /// SrcAvailCancel and SinkAvailCancel.
    cancels: [Option<u64>; 2],
    /// The application has wanted memory back at some time.
    pub(crate) wanted: bool,
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
        let awaits = [conn.awaits_cancel(), conn.awaits_sink_cancel()];
        for (since, awaits) in self.cancels.iter_mut().zip(awaits) {
            let awaits = awaits && conn.ended().is_none();
            *since = awaits.then(|| since.unwrap_or(now));
        }
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
                "{side:?} holds a SrcAvail of {left} bytes for {} ms, and no application reads",
                waited(since)
            );
        }
        for since in self.patience.cancels.into_iter().flatten() {
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
        ensure!(
            !gives_up || self.patience.wanted,
            "{side:?} gives up its peer, and its application only waits"
        );
        Ok(())
    }
}

impl World {
    /// Time passes. Messages are faster, unless they are `stalled`.
    pub(crate) fn pass(&mut self, ms: u64, stalled: bool) -> Checked<bool> {
        // There is memory again: the shell does not wait for it as long as for a peer.
        for side in Side::BOTH {
            let op = Op::Refuse(false);
            self.apply(Step { side, op })?;
        }
        let end = self.watch.now + ms;
        let mut rate = Rate::new(self.watch.now, self.sent());
        loop {
            let arrives = if stalled {
                for side in Side::BOTH {
                    self.both(side).0.patience.unfair = true;
                }
                None
            } else {
                self.travel()?
            };
            rate.check(self.watch.now, self.sent())?;
            let next = self.next_due().into_iter().chain(arrives).min();
            let Some(next) = next.filter(|next| *next <= end) else {
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
        let before = self.sent();
        self.pass(SILENCE_MS, false)?;
        let count = u64::try_from(self.sent() - before).unwrap_or(0);
        let is_lent = |side| self.side(side).port.memory.is_lent();
        let most = if Side::BOTH.into_iter().any(is_lent) {
            WHISPERS_LENT
        } else {
            WHISPERS
        };
        ensure!(
            count <= most,
            "{count} messages in {} s in which no application does anything",
            SILENCE_MS / 1000
        );
        Ok(())
    }

    /// After that, the applications want their memory back.
    pub(crate) fn wake(&mut self) -> Checked {
        for side in Side::BOTH {
            for op in [Op::CancelSinks, Op::Withdraw] {
                self.apply(Step { side, op })?;
            }
        }
        self.pass(WAKE_MS, false)?;
        Ok(())
    }
}
