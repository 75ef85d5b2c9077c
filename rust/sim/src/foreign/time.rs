// SPDX-License-Identifier: GPL-2.0

//! Time in a meeting, and models that from some moment on never do something.
//!
//! Some of these things are a program's to do, and the model keeps every rule without them: the
//! engine waits for it as long as it likes. Others are its duty. The engine's own limits hold for
//! both, and it sends few messages meanwhile.

use super::Meeting;
use crate::{
    dice::Dice,
    fault::{ensure, Checked},
    travel::Rate,
};
use sdp_engine::engine::conn::{Connection, Ended};

/// How long the engine waits for a model that stalls.
const STALL_MS: u64 = 60_000;
/// Longer than any limit of the engine.
const END_MS: u64 = 200_000;

/// An act that a model never does again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stall {
    /// Its program reads.
    Read,
    /// Its program reads from the engine's memory.
    ReadRemote,
    /// Its program acts at all.
    Program,
    /// It writes into the engine's buffers.
    Write,
    /// It sees its RDMA Read complete.
    Complete,
    /// It answers.
    Answer,
    /// It sends a credit update.
    Update,
    /// It takes messages from its queue.
    Hear,
}

impl Stall {
    const ALL: [Stall; 8] = [
        Stall::Read,
        Stall::ReadRemote,
        Stall::Program,
        Stall::Write,
        Stall::Complete,
        Stall::Answer,
        Stall::Update,
        Stall::Hear,
    ];

    fn draw(dice: &mut impl Dice) -> Option<Self> {
        let all = u32::try_from(Self::ALL.len()).unwrap_or(1);
        let at = usize::try_from(dice.below(all)).ok()?;
        Self::ALL.get(at).copied()
    }

    /// Whether the model keeps every rule.
    fn is_fair(self) -> bool {
        match self {
            Stall::Read | Stall::ReadRemote | Stall::Program | Stall::Write => true,
            Stall::Complete | Stall::Answer | Stall::Update | Stall::Hear => false,
        }
    }
}

impl Meeting {
    /// Whether the model still does something.
    pub(super) fn does(&self, what: Stall) -> bool {
        self.stall != Some(what)
    }

    pub(super) fn begin_stall(&mut self, dice: &mut impl Dice) {
        if self.stall.is_none() {
            self.stall = Stall::draw(dice);
        }
    }

    fn sent(&self) -> i64 {
        self.shell.ledger.sent() + i64::from(self.books.mseq)
    }

    /// Time passes, and a message travels for one millisecond. The programs do nothing.
    pub(super) fn pass(&mut self, ms: u64) -> Checked {
        let end = self.watch.now + ms;
        let mut rate = Rate::new(self.watch.now, self.sent());
        loop {
            let moved = self.land()?;
            while self.shell.run_timer(&mut self.watch) {
                self.settle()?;
            }
            let now = self.watch.now;
            rate.check(now, self.sent())?;
            self.shell.check_waits(now)?;
            let fair = self.stall.is_none_or(Stall::is_fair);
            ensure!(
                !fair || self.shell.ended() != Some(Ended::TimedOut),
                "the engine gives up a peer that has done its part"
            );
            if now >= end {
                return Ok(());
            }
            let next = if moved {
                Some(now + 1)
            } else {
                self.shell.deadlines.next()
            };
            self.watch.now = next.map_or(end, |next| next.clamp(now, end));
        }
    }

    /// The message in flight arrives.
    fn land(&mut self) -> Checked<bool> {
        let (going, coming) = (self.shell.port.out.len(), self.out.len());
        let mut moved = false;
        for _ in 0..going {
            moved |= self.carry_in()?;
        }
        for _ in 0..coming {
            moved |= self.carry_out()?;
        }
        while self.shell.handle(&mut self.watch)? || self.shell.complete(&mut self.watch)? {
            moved = true;
            self.settle()?;
        }
        moved |= self.complete_read()?;
        self.settle()?;
        Ok(moved)
    }

    /// The end of a meeting with a model that stalls.
    pub(super) fn leave(&mut self) -> Checked {
        self.pass(STALL_MS)?;
        if let Some(conn) = self.shell.conn.as_mut() {
            conn.cancel_sinks();
            conn.recall();
        }
        self.settle()?;
        self.pass(STALL_MS)?;
        if let Some(conn) = self
            .shell
            .conn
            .as_mut()
            .filter(|conn| conn.ended().is_none())
        {
            Connection::abort(conn);
        }
        self.settle()?;
        self.pass(END_MS)?;
        ensure!(
            self.shell.ended().is_some(),
            "no end: {:?}",
            self.shell.conn
        );
        self.shell.port.memory.check_returned()
    }
}
