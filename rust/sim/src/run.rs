// SPDX-License-Identifier: GPL-2.0

//! Histories drawn from a seed or from bytes, and the reduction of those that fail.

use crate::{
    coverage::Coverage,
    dice::{Bytes, Dice, Seeded},
    fault::{Checked, Fault},
    loans::Loans,
    op::{Mood, Step},
    world::World,
};
use sdp_engine::engine::conn::{Config, Zcopy};
use std::fmt;

/// Two configurations and the steps.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct History {
    /// Of the active side.
    pub a: Config,
    /// Of the passive side.
    pub b: Config,
    /// The kind of history: its end, and the possible steps.
    pub mood: Mood,
    /// In order.
    pub steps: Vec<Step>,
}

/// The result of a history.
#[derive(Clone, Debug, Default)]
pub struct Shown {
    /// Number of steps that had an effect.
    pub steps: u64,
    /// The pairs of state and event that occurred.
    pub coverage: Coverage,
    /// The uses of lent memory.
    pub loans: Loans,
}

impl Shown {
    /// Adds the result of another history.
    pub fn add(&mut self, other: &Shown) {
        self.steps += other.steps;
        self.coverage.merge(&other.coverage);
        self.loans.add(&other.loans);
    }
}

/// A history that breaks an invariant, reduced to the needed steps.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The fault.
    pub fault: Fault,
    /// The steps that lead to it.
    pub history: History,
}

/// Small limits, so that histories reach them.
pub(crate) fn limits(dice: &mut impl Dice) -> Config {
    let mut draw = |least, most| u16::try_from(dice.between(least, most)).unwrap_or(3);
    // Many rules are about the last credits.
    let tight = draw(0, 3) == 0;
    let rx_initial = if tight { 3 } else { draw(3, 5) };
    let rx_spare = if tight { draw(0, 1) } else { draw(0, 5) };
    let payload = draw(21, 90);
    Config {
        rcv_size: (payload + 16).max(37),
        rx_depth: rx_initial + rx_spare,
        rx_initial,
        tx_depth: draw(3, 8),
        max_send_payload: payload.into(),
        max_adverts: u8::try_from(draw(1, 4)).unwrap_or(1),
        rcv_size_max: if draw(0, 3) == 0 {
            u32::from(payload) + 60
        } else {
            0
        },
        zcopy: if draw(0, 4) == 0 {
            Zcopy::OFF
        } else {
            Zcopy {
                advertise: draw(0, 5) > 0,
                read: draw(0, 5) > 0,
                write: draw(0, 2) > 0,
                read_depth: u8::try_from(draw(1, 4)).unwrap_or(1),
                write_depth: u8::try_from(draw(1, 4)).unwrap_or(1),
                max_write: draw(1, 120).into(),
            }
        },
    }
}

impl History {
    /// Draws until the dice are empty or there are `most` steps.
    pub fn draw(dice: &mut impl Dice, most: usize) -> Self {
        let mood = match dice.below(8) {
            0 | 1 => Mood::Peaceful,
            2 => Mood::Silent,
            3 | 4 => Mood::Graceful,
            _ => Mood::Wild,
        };
        let (a, b) = (limits(dice), limits(dice));
        let mut steps = Vec::new();
        while steps.len() < most && !dice.is_empty() {
            steps.push(Step::draw(dice, mood));
        }
        Self { a, b, mood, steps }
    }

    /// The history of a seed.
    pub fn of_seed(seed: u64) -> Self {
        let mut dice = Seeded::new(seed);
        let most = dice.between(10, 600);
        Self::draw(&mut dice, usize::try_from(most).unwrap_or(600))
    }

    /// The history encoded in bytes.
    pub fn of_bytes(bytes: &[u8]) -> Self {
        Self::draw(&mut Bytes::new(bytes), usize::MAX)
    }

    /// Executes it.
    pub fn play(&self) -> Checked<Shown> {
        let mut world = World::new(self.a, self.b)?;
        self.play_in(&mut world)?;
        Ok(Shown {
            steps: world.steps(),
            coverage: *world.coverage(),
            loans: world.loans(),
        })
    }

    fn play_in(&self, world: &mut World) -> Checked {
        for step in &self.steps {
            world.apply(*step)?;
        }
        match self.mood {
            Mood::Peaceful => world.finish_peacefully(),
            Mood::Silent => {
                world.be_silent()?;
                world.wake()?;
                world.finish_peacefully()
            }
            Mood::Graceful => world.finish_gracefully(),
            Mood::Wild => world.finish_anyhow(),
        }
    }

    /// Executes it, and reduces a failing history.
    pub fn check(&self) -> Result<Shown, Box<Failure>> {
        self.play().map_err(|fault| {
            let history = self.shrunk();
            let fault = history.play().err().unwrap_or(fault);
            Box::new(Failure { fault, history })
        })
    }

    /// Removes parts, smaller and smaller ones, as long as the history still fails.
    fn shrunk(&self) -> Self {
        let mut best = self.clone();
        let mut size = best.steps.len().div_ceil(2);
        while size > 0 {
            let mut start = 0;
            while start < best.steps.len() {
                let mut shorter = best.clone();
                let end = (start + size).min(shorter.steps.len());
                shorter.steps.drain(start..end);
                if shorter.play().is_err() {
                    best = shorter;
                } else {
                    start += size;
                }
            }
            size /= 2;
        }
        best
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let history = &self.history;
        writeln!(f, "{}", self.fault)?;
        writeln!(
            f,
            "A: {:?}\nB: {:?}\n{:?}",
            history.a, history.b, history.mood
        )?;
        for step in &history.steps {
            writeln!(f, "  {step}")?;
        }
        // The same history again, with all messages shown.
        if let Ok(mut world) = World::observed(history.a, history.b) {
            let _ = history.play_in(&mut world);
            writeln!(f, "what was seen:")?;
            for sight in world.sights() {
                writeln!(f, "  {sight:?}")?;
            }
        }
        Ok(())
    }
}
