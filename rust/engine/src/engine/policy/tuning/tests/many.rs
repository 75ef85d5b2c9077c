// SPDX-License-Identifier: GPL-2.0

//! Connections that share processors, so that what a way costs one of them depends on the way
//! of the others.

use super::super::{Choice, Joint, Tuner, Way};
use super::world::Dice;
use std::vec::Vec;

const PROCESSORS: u64 = 2;
/// A writer that copies keeps its processor for so long while others wait, in ns.
const SLICE: u64 = 500_000;
/// A message that is lent wakes so many threads, one after the other.
const WAKE_UPS: u64 = 4;

/// Nanoseconds of a processor for each message.
#[derive(Clone, Copy)]
struct Costs {
    copy: u64,
    lend: u64,
}

/// Lending is the cheaper way.
const CHEAP: Costs = Costs {
    copy: 1_200_000,
    lend: 600_000,
};
/// Lending is the dearer way.
const DEAR: Costs = Costs {
    copy: 600_000,
    lend: 1_200_000,
};

struct Writer {
    tuner: Tuner,
    /// The end of its message.
    until: u64,
    choice: Option<Choice>,
    position: u64,
}

struct Many {
    writers: Vec<Writer>,
    dice: Dice,
    joint: Joint,
    /// Whether writers see the invitations of others.
    together: bool,
    len: u64,
    now: u64,
    lent: u64,
    sent: u64,
}

impl Many {
    fn new(count: usize, together: bool) -> Self {
        let writer = || Writer {
            tuner: Tuner::new(0),
            until: 0,
            choice: None,
            position: 0,
        };
        Self {
            writers: (0..count).map(|_| writer()).collect(),
            dice: Dice(1),
            joint: Joint::NONE,
            together,
            len: 1 << 20,
            now: 1 << 40,
            lent: 0,
            sent: 0,
        }
    }

    /// The time of a message that begins now.
    fn time(&mut self, way: Way, costs: Costs) -> u64 {
        let (mut copying, mut lending) = (0, 0);
        for choice in self.writers.iter().filter_map(|writer| writer.choice) {
            match choice.way {
                Way::Copy => copying += 1,
                Way::Lend => lending += 1,
            }
        }
        // Processors are shared in proportion to the work.
        let sharing = |own: u64| {
            let work = own + copying * costs.copy + lending * costs.lend;
            (work / PROCESSORS).max(own)
        };
        let ns = match way {
            Way::Copy => sharing(costs.copy),
            Way::Lend => {
                let others = copying.saturating_sub(PROCESSORS - 1);
                sharing(costs.lend).max(costs.lend + WAKE_UPS * SLICE * others)
            }
        };
        ns * (85 + self.dice.below(31)) / 100
    }

    /// The next message that ends, and the one behind it.
    fn step(&mut self, costs: Costs) {
        let Some((at, _)) = self.writers.iter().enumerate().min_by_key(|(_, w)| w.until) else {
            return;
        };
        let len = self.len;
        let writer = &mut self.writers[at];
        self.now = self.now.max(writer.until);
        let now = self.now;
        if let Some(choice) = writer.choice.take() {
            writer.position += len;
            writer.tuner.on_gone(choice, len);
            if writer.tuner.is_due(writer.position) {
                writer.tuner.on_left(writer.position, now);
            }
            if let Some(ended) = writer.tuner.take_ended() {
                if self.joint == ended.invitation {
                    self.joint = ended.result;
                }
            }
            self.sent += 1;
            self.lent += u64::from(choice.way == Way::Lend);
        }
        let joint = if self.together {
            self.joint
        } else {
            Joint::NONE
        };
        let choice = writer.tuner.choose(len, joint);
        if choice.timed {
            let position = writer.position;
            writer.tuner.on_begun(choice, len, now, position, position);
        }
        if let Some(invitation) = choice.invites {
            self.joint = invitation;
        }
        let ns = self.time(choice.way, costs);
        let writer = &mut self.writers[at];
        writer.choice = Some(choice);
        writer.until = now + ns;
    }

    /// Percent of messages that were lent, and ns for each.
    fn run(&mut self, costs: Costs, messages: u64) -> (u64, u64) {
        let before = (self.now, self.lent, self.sent);
        while self.sent < before.2 + messages {
            self.step(costs);
        }
        let lent = (self.lent - before.1) * 100 / messages;
        (lent, (self.now - before.0) / messages)
    }
}

#[test]
fn connections_find_together_what_is_cheaper_for_all() {
    for count in [2, 4, 8, 16] {
        let mut many = Many::new(count, true);
        let each = |messages| messages * u64::try_from(count).unwrap_or(0);
        let (early, _) = many.run(CHEAP, each(20));
        let (settled, ns) = many.run(CHEAP, each(200));
        let what = std::format!("{count}: {early} {settled} {ns}");
        // The first eight copies measure copying.
        assert!(early >= 35, "{what}");
        assert!(settled >= 88 && ns <= CHEAP.lend * 6 / 10, "{what}");
        // Connections that try alone wait behind many others.
        let mut alone = Many::new(count, false);
        let (lent, _) = alone.run(CHEAP, each(20));
        assert!(lent < early || count < 8, "{what} {lent}");
        let (lent, _) = alone.run(CHEAP, each(200));
        assert!(lent < settled || count < 8, "{what} {lent}");
    }
}

#[test]
fn together_they_pay_no_more_where_lending_is_dear() {
    for count in [1, 2, 4, 8, 16] {
        let mut many = Many::new(count, true);
        many.run(DEAR, 20 * u64::try_from(count).unwrap_or(0));
        let (lent, _) = many.run(DEAR, 4000);
        assert!(lent <= 3, "{count}: {lent}");
    }
}

#[test]
fn they_follow_costs_that_change() {
    let mut many = Many::new(8, true);
    for _ in 0..3 {
        many.run(CHEAP, 6000);
        let (lent, _) = many.run(CHEAP, 2000);
        assert!(lent >= 85, "{lent}");
        many.run(DEAR, 6000);
        let (lent, _) = many.run(DEAR, 2000);
        assert!(lent <= 5, "{lent}");
    }
}
