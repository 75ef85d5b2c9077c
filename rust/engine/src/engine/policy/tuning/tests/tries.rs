// SPDX-License-Identifier: GPL-2.0

//! Tries that others invite to, and those that end early.

use super::super::{Joint, Way};
use super::{
    oracle,
    world::{World, ABSENT, DECLINE, FAST, KEPT},
    SIZES,
};

/// Other connections of the device invite all the time, perhaps with bad intent.
#[test]
fn invitations_cost_a_32nd_at_most() {
    for (size, sizes) in SIZES {
        let mut world = World::new(0, 3);
        world.pestered = true;
        let times = 6000;
        let took = world.run(&ABSENT, sizes, times);
        let best = oracle(&ABSENT, sizes, times, 0, 3);
        let first = sizes.iter().map(|_| DECLINE).sum::<u64>();
        let most = best + best / 8 + first + first / 4;
        assert!(took <= most, "{size}: {took} {best}");
    }
}

/// An invitation whose connection is gone.
#[test]
fn a_stale_invitation_does_not_hide_a_reader_that_goes() {
    let mut world = World::new(0, 1);
    world.run(&FAST, &[1 << 20], 200);
    assert_eq!(world.tuner.lends(), 1 << 7);
    world.joint = Joint::NONE.next(7, Way::Copy);
    world.run(&FAST, &[1 << 20], 100);
    let before = world.now;
    world.run(&ABSENT, &[1 << 20], 20);
    assert!(world.now - before < 2 * DECLINE, "{}", world.now - before);
}

/// A program changes the size of its messages in the middle of a try.
#[test]
fn a_try_that_nobody_continues_ends() {
    let mut world = World::new(0, 1);
    while world.tuner.attempt.is_none() {
        world.send(&KEPT, 1 << 20);
    }
    world.run(&KEPT, &[64 << 10], 2000);
    assert_eq!(world.tuner.lends(), 1 << 3);
}

/// A reader of messages of 16 KiB that finds some of them there when it comes, `here` percent.
/// Copying takes another time for each, and lending a quarter of it. Returns how many took
/// the way of lending.
fn read(world: &mut World, here: u64, times: usize) -> u32 {
    let mut lends = 0;
    for _ in 0..times {
        let choice = world.tuner.choose(16 << 10, Joint::NONE);
        let is_here = world.dice.below(100) < here;
        let begun = world.now;
        let ns = 10_000 + world.dice.below(40_000);
        let lent = choice.way == Way::Lend && !is_here;
        world.now += if lent { ns / 4 } else { ns };
        world.tuner.on_gone(choice, 16 << 10);
        lends += u32::from(choice.way == Way::Lend);
        if choice.way == Way::Lend && is_here {
            world.tuner.on_needless(choice);
        } else if choice.timed {
            let now = world.now;
            world.tuner.on_begun(choice, 16 << 10, begun, 0, 0);
            world.tuner.on_left(16 << 10, now);
        }
    }
    lends
}

#[test]
fn a_reader_that_never_waits_learns_nothing_of_lending() {
    for prior in [0, 1 << 1] {
        let mut world = World::new(prior, 1);
        let lends = read(&mut world, 100, 50_000);
        assert_eq!((world.tuner.lends(), world.tuner.changes()), (prior, 0));
        assert_eq!(world.tuner.learnt(), 0);
        // A try ends after a stretch.
        let (tries, most) = (world.tuner.tries(), 17 * world.tuner.tries());
        assert!(
            prior != 0 || (1..4).contains(&tries) && lends <= most,
            "{tries} {lends}"
        );
    }
}

#[test]
fn a_reader_that_waits_mostly_learns_of_lending() {
    for here in [0, 5, 15] {
        let mut world = World::new(0, 1);
        read(&mut world, here, 1000);
        assert_eq!(world.tuner.lends(), 1 << 1, "{here}");
        let changes = world.tuner.changes();
        let lends = read(&mut world, here, 50_000);
        assert!(lends > 47_500, "{here}: {lends}");
        assert_eq!(
            (world.tuner.lends(), world.tuner.changes()),
            (1 << 1, changes)
        );
    }
}

#[test]
fn a_message_that_was_cut_teaches_nothing() {
    let mut world = World::new(0, 1);
    world.run(&FAST, &[64 << 10], 400);
    let before = world.tuner.lends();
    for _ in 0..200 {
        let choice = world.tuner.choose(64 << 10, Joint::NONE);
        let (now, queued, left) = (world.now, world.queued, world.left);
        world.tuner.on_begun(choice, 64 << 10, now, queued, left);
        assert!(world.tuner.is_waiting() || !choice.opens);
        world.tuner.on_cut(choice);
        assert!(!world.tuner.is_waiting() && world.tuner.attempt.is_none());
        world.now += 1 << 30;
    }
    assert_eq!(world.tuner.lends(), before);
}
