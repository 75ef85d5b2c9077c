// SPDX-License-Identifier: GPL-2.0

//! Tuners in worlds whose costs are known, so that an oracle knows the better way.

mod many;
mod meter;
mod tries;
mod world;

use super::{Joint, Tuner, Way, CLASSES, LEAST};
use std::vec::Vec;
use world::{Costs, Dice, World, ABSENT, ALL, DDR, DECLINE, FAST, FRAGMENT, KEPT, RLO, RXE};

/// The time of the best fixed rule: copy all, lend all, or lend from some size on.
fn oracle(costs: &Costs, sizes: &[u64], times: usize, pause: u64, seed: u64) -> u64 {
    let rules: [fn(u64) -> Way; 12] = [
        |_| Way::Copy,
        |_| Way::Lend,
        |len| from(len, 14),
        |len| from(len, 15),
        |len| from(len, 16),
        |len| from(len, 17),
        |len| from(len, 18),
        |len| from(len, 19),
        |len| from(len, 20),
        |len| from(len, 21),
        |len| from(len, 22),
        |len| from(len, 23),
    ];
    let time = |rule| {
        let mut world = World::new(0, seed);
        world.pause = pause;
        world.forced = Some(rule);
        world.run(costs, sizes, times)
    };
    // One after the other: a rule that is far worse takes as long to simulate.
    rules.into_iter().map(time).min().unwrap_or(0)
}

fn from(len: u64, shift: u32) -> Way {
    if len >= 1 << shift {
        Way::Lend
    } else {
        Way::Copy
    }
}

const SIZES: [(&str, &[u64]); 8] = [
    ("8K", &[8 << 10]),
    ("16K", &[16 << 10]),
    ("64K", &[64 << 10]),
    ("256K", &[256 << 10]),
    ("1M", &[1 << 20]),
    ("4M", &[4 << 20]),
    (
        "mixed",
        &[100, 8 << 10, 20_000, 64 << 10, 256 << 10, 1 << 20],
    ),
    ("two", &[64, 1 << 20]),
];

/// Worst of some seeds: how long a settled tuner takes, of the best fixed rule's time, in
/// thousandths; and one that has yet to learn.
fn against_oracle(costs: &Costs, sizes: &[u64], times: usize, pause: u64) -> (u64, u64) {
    let mut worst = (0, 0);
    for seed in 1..=2 {
        let mut world = World::new(0, seed);
        world.pause = pause;
        let learning = world.run(costs, sizes, times);
        let settled = world.run(costs, sizes, times);
        let best = oracle(costs, sizes, times, pause, seed + 100);
        worst.0 = worst.0.max(settled * 1000 / best);
        worst.1 = worst.1.max(learning * 1000 / best);
    }
    worst
}

#[test]
fn it_is_nearly_as_fast_as_the_best_fixed_rule() {
    for (name, costs) in ALL {
        for (size, sizes) in SIZES {
            let (settled, learning) = against_oracle(&costs, sizes, 2000, 0);
            let what = std::format!("{name} {size}: {settled} {learning}");
            let most = if sizes.len() > 2 { 1110 } else { 1080 };
            assert!(settled <= most, "{what}");
            assert!(learning <= 1250 || !costs.reader, "{what}");
        }
    }
}

/// A program that computes between its calls, while copied bytes travel.
#[test]
fn pauses_that_hide_a_transfer_count() {
    for (name, costs) in ALL {
        for (size, sizes) in [SIZES[2], SIZES[4]] {
            for pause in [50_000, 2_000_000] {
                let (settled, _) = against_oracle(&costs, sizes, 600, pause);
                assert!(settled <= 1110, "{name} {size} {pause}: {settled}");
            }
        }
    }
    // Copies cost the program 0.45 of what they take, and lending all of it.
    let mut world = World::new(0, 1);
    world.pause = 600_000;
    world.run(&DDR, &[1 << 20], 1000);
    let before = world.lent;
    world.run(&DDR, &[1 << 20], 1000);
    assert!(world.lent - before < 100 << 20, "{}", world.lent >> 20);
}

#[test]
fn a_reader_that_is_never_there_costs_a_64th() {
    for (size, sizes) in SIZES {
        let mut world = World::new(0, 3);
        let times = 6000;
        let took = world.run(&ABSENT, sizes, times);
        let best = oracle(&ABSENT, sizes, times, 0, 3);
        // One try of each class at first.
        let first = sizes.iter().map(|_| DECLINE).sum::<u64>();
        let most = best + best / 16 + first + first / 8;
        assert!(took <= most, "{size}: {took} {best}");
    }
}

#[test]
fn it_follows_a_reader_that_goes_and_comes_back() {
    let mut world = World::new(0, 1);
    world.run(&FAST, &[1 << 20], 200);
    let share = |world: &mut World, costs: &Costs, times| {
        let before = (world.lent, world.sent, world.now);
        world.run(costs, &[1 << 20], times);
        (
            (world.lent - before.0) * 100 / (world.sent - before.1),
            world.now - before.2,
        )
    };
    assert!(share(&mut world, &FAST, 200).0 > 90);
    // The first decline is enough.
    let (_, took) = share(&mut world, &ABSENT, 20);
    assert!(took < 2 * DECLINE, "{took}");
    assert_eq!(world.tuner.lends(), 0);
    // It is tried again when 64 times as much time has passed as it had cost.
    let (lent, took) = share(&mut world, &FAST, 10_000);
    assert!(took < 80 * DECLINE, "{took}");
    assert!(lent < 60, "{lent}");
    assert!(share(&mut world, &FAST, 10_000).0 > 90);
}

#[test]
fn it_follows_costs_that_change() {
    let mut world = World::new(0, 1);
    for _ in 0..3 {
        for (costs, lends) in [(KEPT, true), (FAST, false), (KEPT, true), (DDR, false)] {
            world.run(&costs, &[64 << 10], 20_000);
            let bits = if lends { 1 << 3 } else { 0 };
            assert_eq!(world.tuner.lends(), bits, "{}", world.tuner.changes());
        }
    }
    assert!(world.tuner.changes() < 30, "{}", world.tuner.changes());
}

/// Another program takes the processor while copying is measured.
#[test]
fn a_bad_first_impression_does_not_last() {
    for (name, costs) in [("rxe", RXE), ("rlo", RLO), ("ddr", DDR), ("fast", FAST)] {
        // Copying is measured with the first MiB.
        for (size, first) in [(16 << 10, 64), (32 << 10, 32)] {
            for slow in [4, 10, 40] {
                let mut world = World::new(0, 1);
                let busy = Costs {
                    copy: costs.copy * slow,
                    transfer: costs.transfer * slow,
                    ..costs
                };
                world.run(&busy, &[size], first + 8);
                let took = world.run(&costs, &[size], 2000);
                let best = oracle(&costs, &[size], 2000, 0, 7);
                assert!(
                    took < best + best / 2,
                    "{name} {size} {slow}: {took} {best}"
                );
            }
        }
    }
}

/// A peer that lets lending look good while it is tried, and bad afterwards.
#[test]
fn a_peer_that_baits_gains_nothing() {
    let mut world = World::new(0, 1);
    let mut best = 0;
    let begun = world.now;
    for _ in 0..20_000 {
        let tried = world.tuner.attempt.is_some();
        let costs = if tried { &KEPT } else { &ABSENT };
        best += FRAGMENT * 8 * KEPT.copy / 1000;
        world.send(costs, 256 << 10);
    }
    let took = world.now - begun;
    assert!(took < best + best / 4 + 4 * DECLINE, "{took} {best}");
}

/// Holds what is lent a little longer each time, below any limit.
#[test]
fn a_peer_that_grows_slow_is_noticed() {
    let mut world = World::new(u16::MAX, 1);
    world.run(&FAST, &[1 << 20], 100);
    assert_ne!(world.tuner.lends(), 0);
    let before = world.lent;
    for more in 0..1000 {
        let costs = Costs {
            lend: FAST.lend + more * 2_000,
            ..FAST
        };
        world.send(&costs, 1 << 20);
    }
    // From 39 messages on copying is better.
    assert!(
        world.lent - before < 150 << 20,
        "{}",
        (world.lent - before) >> 20
    );
}

#[test]
fn what_others_have_learnt_counts_when_copying_was_measured() {
    let mut world = World::new(1 << 7, 1);
    let mut ways = Vec::new();
    for _ in 0..40 {
        ways.push(world.send(&FAST, 1 << 20).way);
    }
    let first = ways.iter().position(|way| *way == Way::Lend);
    assert!(first.is_some_and(|at| (4..14).contains(&at)), "{first:?}");
    assert_eq!(world.tuner.lends(), 1 << 7);
    // One try of copying confirms it.
    assert_eq!(world.tuner.tries(), 1);
    // Without the hint, copies are measured for a mebibyte at least, then two tries.
    let mut world = World::new(0, 1);
    world.run(&FAST, &[1 << 20], 60);
    assert_eq!(world.tuner.lends(), 1 << 7);
    assert_eq!(world.tuner.learnt(), 1 << 7);
}

#[test]
fn a_new_class_goes_the_way_of_its_neighbours() {
    let mut world = World::new(0, 1);
    world.run(&FAST, &[256 << 10], 400);
    assert_eq!(world.tuner.lends(), 1 << 5);
    world.send(&FAST, 1 << 20);
    assert_eq!(world.tuner.lends(), (1 << 5) | (1 << 7));
    let mut world = World::new(1 << 2, 1);
    world.run(&ABSENT, &[256 << 10], 400);
    world.send(&FAST, 32 << 10);
    assert_eq!(world.tuner.lends(), 0);
}

#[test]
fn memory_that_cannot_be_lent_is_asked_for_rarely() {
    let mut world = World::new(u16::MAX, 1);
    let mut refused = 0;
    for _ in 0..20_000 {
        let choice = world.tuner.choose(64 << 10, Joint::NONE);
        let (now, queued, left) = (world.now, world.queued, world.left);
        if choice.timed {
            world.tuner.on_begun(choice, 64 << 10, now, queued, left);
        }
        if choice.way == Way::Lend {
            refused += 1;
            world.tuner.on_refused(choice);
        }
        world.copy(&FAST, 64 << 10);
        world.tuner.on_gone(choice, 64 << 10);
    }
    assert!((2..30).contains(&refused), "{refused}");
}

#[test]
fn short_messages_need_no_clock_and_long_ones_seldom() {
    let mut world = World::new(u16::MAX, 1);
    for len in [0, 1, 64, u64::from(LEAST) - 1] {
        let choice = world.tuner.choose(len, Joint::NONE);
        assert_eq!((choice.way, choice.timed), (Way::Copy, false));
    }
    let mut world = World::new(0, 1);
    world.run(&FAST, &[16 << 10], 4000);
    let timed = (0..4000).filter(|_| world.send(&FAST, 16 << 10).timed);
    let timed = timed.count();
    assert!((200..900).contains(&timed), "{timed}");
}

#[test]
fn classes_are_told_apart() {
    let sizes = [
        8191,
        8192,
        16383,
        16384,
        1 << 20,
        (4 << 20) - 1,
        4 << 20,
        u64::MAX,
    ];
    let classes = [
        None,
        Some(0),
        Some(0),
        Some(1),
        Some(7),
        Some(8),
        Some(9),
        Some(9),
    ];
    assert_eq!(sizes.map(super::class_of), classes);
    assert_eq!(super::class_of(0), None);
    for at in 0..CLASSES {
        let tuner = Tuner::new(1 << at);
        assert_eq!(tuner.lends(), 1 << at);
    }
    assert_eq!(
        [0, 3, 4, 6, 7, 8, 9].map(super::stretch),
        [16, 16, 16, 4, 2, 1, 1]
    );
}

/// A clock that stands still, or runs backwards.
#[test]
fn without_a_clock_everything_is_copied() {
    for step in [0, u64::MAX] {
        let mut tuner = Tuner::new(u16::MAX);
        let (mut now, mut position) = (1u64 << 40, 0u64);
        for _ in 0..1000 {
            let choice = tuner.choose(1 << 20, Joint::NONE);
            assert_eq!(choice.way, Way::Copy);
            tuner.on_begun(choice, 1 << 20, now, position, position);
            position += 1 << 20;
            now = now.wrapping_add(step);
            tuner.on_left(position, now);
            tuner.on_gone(choice, 1 << 20);
        }
    }
}

#[test]
fn no_numbers_are_too_large() {
    let mut dice = Dice(7);
    let mut any = |spread: u64| {
        let number = (dice.roll() << 33) | dice.roll();
        if dice.below(4) == 0 {
            number
        } else {
            number % spread
        }
    };
    for _ in 0..20 {
        let mut tuner = Tuner::new(u16::try_from(any(1 << 16)).unwrap_or(u16::MAX));
        let mut choice = tuner.choose(1 << 16, Joint::NONE);
        for _ in 0..10_000 {
            match any(7) {
                0 | 1 => {
                    let len = any(8 << 20);
                    let joint = u32::try_from(any(1 << 32)).unwrap_or(0);
                    choice = tuner.choose(len, Joint::from_number(joint));
                    assert!(len >= LEAST.into() || choice.way == Way::Copy);
                }
                2 => tuner.on_begun(
                    choice,
                    any(8 << 20),
                    any(1 << 40),
                    any(1 << 40),
                    any(1 << 40),
                ),
                3 | 4 => {
                    let (left, now) = (any(1 << 40), any(1 << 40));
                    if tuner.is_due(left) || any(9) == 0 {
                        tuner.on_left(left, now);
                    }
                }
                5 => tuner.on_gone(choice, any(8 << 20)),
                _ if any(50) == 0 => tuner.on_refused(choice),
                _ => {}
            }
            assert!(tuner.lends() < 1 << CLASSES && tuner.learnt() < 1 << CLASSES);
        }
    }
}
