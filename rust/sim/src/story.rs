// SPDX-License-Identifier: GPL-2.0

//! One engine meets a stranger: a peer that is not our engine. A meeting that fails is reduced to
//! the needed steps and repeated.

use crate::{
    dice::{Bytes, Dice, Seeded},
    fault::{Checked, Fault},
    foreign::{Kind, Meeting},
    rogue::Rogue,
    run::Shown,
    shell::Watch,
    trace::{Sight, Trace},
};
use std::fmt;

/// The kind of peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stranger {
    /// A malicious peer.
    Rogue,
    /// A peer that behaves like OFED.
    Ofed,
    /// A peer that behaves like gen2.
    Gen2,
}

enum Met {
    Rogue(Box<Rogue>),
    Foreign(Box<Meeting>),
}

impl Met {
    fn begin(who: Stranger, watch: Watch, dice: &mut impl Dice) -> Checked<Self> {
        let kind = match who {
            Stranger::Rogue => return Ok(Self::Rogue(Box::new(Rogue::new(watch, dice)?))),
            Stranger::Ofed => Kind::Ofed,
            Stranger::Gen2 => Kind::Gen2,
        };
        Ok(Self::Foreign(Box::new(Meeting::new(kind, watch, dice)?)))
    }

    fn step(&mut self, dice: &mut impl Dice) -> Checked {
        match self {
            Self::Rogue(met) => met.step(dice),
            Self::Foreign(met) => met.step(dice),
        }
    }

    fn is_over(&self) -> bool {
        match self {
            Self::Rogue(met) => met.is_over(),
            Self::Foreign(_) => false,
        }
    }

    fn finish(&mut self) -> Checked {
        match self {
            Self::Rogue(met) => met.leave(),
            Self::Foreign(met) => met.finish(),
        }
    }

    fn watch(&self) -> &Watch {
        match self {
            Self::Rogue(met) => &met.watch,
            Self::Foreign(met) => &met.watch,
        }
    }

    fn shown(&self) -> Shown {
        Shown {
            steps: self.watch().steps,
            coverage: self.watch().coverage,
            ..Shown::default()
        }
    }
}

impl Stranger {
    /// All of them.
    pub const ALL: [Stranger; 3] = [Stranger::Rogue, Stranger::Ofed, Stranger::Gen2];

    /// The maximum number of steps of a meeting with endless dice.
    fn steps(self) -> usize {
        match self {
            Stranger::Rogue => 2_000,
            Stranger::Ofed | Stranger::Gen2 => 200,
        }
    }

    /// The meeting determined by the dice.
    fn meet(self, dice: &mut impl Dice, most: usize) -> Checked<Shown> {
        let mut met = Met::begin(self, Watch::default(), dice)?;
        for _ in 0..most {
            if dice.is_empty() || met.is_over() {
                break;
            }
            met.step(dice)?;
        }
        met.finish()?;
        Ok(met.shown())
    }

    /// The meeting of a seed.
    pub fn meet_seed(self, seed: u64) -> Result<Shown, Box<Told>> {
        self.meet(&mut Seeded::new(seed), self.steps())
            .map_err(|_| {
                let story = Story::record(self, &mut Seeded::new(seed), self.steps());
                Box::new(story.tell(Some(seed)))
            })
    }

    /// The meeting encoded in bytes.
    pub fn meet_bytes(self, bytes: &[u8]) -> Result<Shown, Box<Told>> {
        self.meet(&mut Bytes::new(bytes), usize::MAX).map_err(|_| {
            let story = Story::record(self, &mut Bytes::new(bytes), usize::MAX);
            Box::new(story.tell(None))
        })
    }
}

/// Dice with recorded results.
struct Recorded<'a, D> {
    dice: &'a mut D,
    numbers: Vec<u32>,
}

impl<D: Dice> Dice for Recorded<'_, D> {
    fn below(&mut self, limit: u32) -> u32 {
        let number = self.dice.below(limit);
        self.numbers.push(number);
        number
    }

    fn is_empty(&self) -> bool {
        self.dice.is_empty()
    }
}

/// Replays recorded dice; 0 after their end.
struct Again<'a>(std::slice::Iter<'a, u32>);

impl Dice for Again<'_> {
    fn below(&mut self, limit: u32) -> u32 {
        self.0.next().map_or(0, |number| number % limit)
    }

    fn is_empty(&self) -> bool {
        false
    }
}

/// A recorded meeting: the dice of its beginning, and of each step.
#[derive(Clone, Debug)]
struct Story {
    who: Stranger,
    opening: Vec<u32>,
    steps: Vec<Vec<u32>>,
}

impl Story {
    fn record(who: Stranger, dice: &mut impl Dice, most: usize) -> Self {
        let mut recorded = Recorded {
            dice,
            numbers: Vec::new(),
        };
        let met = Met::begin(who, Watch::default(), &mut recorded);
        let opening = core::mem::take(&mut recorded.numbers);
        let mut steps = Vec::new();
        if let Ok(mut met) = met {
            while steps.len() < most && !recorded.is_empty() && !met.is_over() {
                let good = met.step(&mut recorded).is_ok();
                steps.push(core::mem::take(&mut recorded.numbers));
                if !good {
                    break;
                }
            }
        }
        Self {
            who,
            opening,
            steps,
        }
    }

    fn play(&self, trace: Trace) -> (Checked, Vec<Sight>) {
        let watch = Watch {
            trace,
            ..Watch::default()
        };
        let mut met = match Met::begin(self.who, watch, &mut Again(self.opening.iter())) {
            Ok(met) => met,
            Err(fault) => return (Err(fault), Vec::new()),
        };
        let mut result = Ok(());
        for step in &self.steps {
            if result.is_ok() && !met.is_over() {
                result = met.step(&mut Again(step.iter()));
            }
        }
        let result = result.and_then(|()| met.finish());
        (result, met.watch().trace.sights.clone().unwrap_or_default())
    }

    /// Removes parts, smaller and smaller ones, as long as the meeting still fails.
    fn tell(mut self, seed: Option<u64>) -> Told {
        let mut size = self.steps.len().div_ceil(2);
        while size > 0 {
            let mut start = 0;
            while start < self.steps.len() {
                let mut shorter = self.clone();
                let end = (start + size).min(shorter.steps.len());
                shorter.steps.drain(start..end);
                if shorter.play(Trace::default()).0.is_err() {
                    self = shorter;
                } else {
                    start += size;
                }
            }
            size /= 2;
        }
        let observed = Trace {
            sights: Some(Vec::new()),
        };
        let (result, sights) = self.play(observed);
        let lost = || Fault::new("it fails no more when it is told".to_owned());
        Told {
            who: self.who,
            seed,
            steps: self.steps.len(),
            fault: result.err().unwrap_or_else(lost),
            sights,
        }
    }
}

/// A meeting that failed.
#[derive(Debug)]
pub struct Told {
    who: Stranger,
    seed: Option<u64>,
    steps: usize,
    /// The fault.
    pub fault: Fault,
    sights: Vec<Sight>,
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:?}: {}", self.who, self.fault)?;
        writeln!(f, "what was seen, in {} steps:", self.steps)?;
        for sight in &self.sights {
            writeln!(f, "  {sight:?}")?;
        }
        if let Some(seed) = self.seed {
            writeln!(f, "again: cargo run --release -p sdp-sim -- replay {seed}")?;
        }
        Ok(())
    }
}
