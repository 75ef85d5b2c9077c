// SPDX-License-Identifier: GPL-2.0

//! The curve in a model of the pipeline: copy, handover, link, handover, copy.

use super::{Chunks, Mode, LEAST, UNIT};
use crate::engine::policy::pace::{Costs, Pace};
use std::{vec, vec::Vec};

const MOST: u32 = 32768;
const MIB: u32 = 1 << 20;

/// A link of 10 Gb/s; a copy is twice as fast.
const TWICE: Costs = Costs {
    copy: 410,
    post: 1000,
    link: 820,
    round_trip: 9000,
};

fn with(copy: u32, post: u32, link: u32) -> Costs {
    Costs {
        copy,
        post,
        link,
        ..TWICE
    }
}

fn pace(costs: &Costs) -> Pace {
    let mut pace = Pace::new();
    pace.on_first_chunk(1024, costs.copy.into(), costs.post.into());
    pace.on_all(1024, costs.link.into());
    pace.on_first(0, costs.round_trip.into());
    assert!(
        pace.costs().is_some_and(|found| found == *costs),
        "{pace:?}"
    );
    pace
}

fn cut(mode: Mode, costs: &Costs, len: u32) -> Vec<u32> {
    let mut all = vec![];
    let mut left = len;
    let mut chunks = Chunks::begin(mode, &pace(costs), len, MOST);
    while left > 0 {
        let n = chunks.as_mut().map_or(MOST.min(left), |c| c.next(left));
        assert!(n > 0 && n <= left && n <= MOST, "{n} of {left}");
        all.push(n);
        left -= n;
    }
    all
}

fn of(len: u32, per_kib: u32) -> f64 {
    f64::from(len) / 1024.0 * f64::from(per_kib)
}

/// From the begin of the write to the end of the reader's last copy, in ns. A message costs the
/// reader as much as the writer.
fn time(pieces: &[u32], costs: &Costs) -> f64 {
    let (mut copied, mut left, mut read) = (0.0, 0.0, 0.0);
    for n in pieces {
        copied += of(*n, costs.copy) + f64::from(costs.post);
        left = f64::max(left, copied) + of(*n, costs.link);
        let came = left + f64::from(costs.round_trip) / 2.0;
        read = f64::max(read, came) + f64::from(costs.post) + of(*n, costs.copy);
    }
    read
}

/// The same without copies.
fn raw(len: u32, costs: &Costs) -> f64 {
    2.0 * f64::from(costs.post) + of(len, costs.link) + f64::from(costs.round_trip) / 2.0
}

fn of_raw(mode: Mode, costs: &Costs, len: u32) -> f64 {
    raw(len, costs) / time(&cut(mode, costs, len), costs)
}

#[test]
fn a_copy_twice_as_fast_as_the_link_costs_little() {
    for (len, least, whole) in [
        (4 * 4096, 0.84, 0.65),
        (64 << 10, 0.94, 0.72),
        (256 << 10, 0.98, 0.90),
        (MIB, 0.99, 0.98),
        (4 * MIB, 0.99, 0.995),
    ] {
        let found = of_raw(Mode::Fitted, &TWICE, len);
        assert!(found >= least, "{len}: {found:.3}");
        let found = of_raw(Mode::Whole, &TWICE, len);
        assert!(found <= whole, "{len}, whole: {found:.3}");
    }
}

#[test]
fn the_fitted_curve_is_seldom_far_behind_any_other() {
    let links = [82, 200, 410, 820, 1640];
    for (copy, post) in [(41, 500), (100, 300), (410, 500), (410, 1000), (410, 2000)] {
        for link in links {
            let costs = with(copy, post, link);
            for shift in 13..=22 {
                let len = 1 << shift;
                let fitted = of_raw(Mode::Fitted, &costs, len);
                let fixed = [4096, 8192, 16384].map(Mode::Fixed);
                let others = [Mode::Whole, Mode::Doubling].into_iter().chain(fixed);
                for other in others {
                    let best = of_raw(other, &costs, len);
                    assert!(
                        fitted >= 0.90 * best,
                        "{costs:?} {len}: {fitted:.3}, {other:?} {best:.3}"
                    );
                }
            }
        }
    }
}

#[test]
fn chunks_grow_to_whole_messages_and_shrink_again() {
    let all = cut(Mode::Fitted, &TWICE, MIB);
    assert_eq!(all.iter().sum::<u32>(), MIB);
    assert!((LEAST..=2 * LEAST).contains(&all[0]), "{all:?}");
    let top = all.iter().position(|n| *n == MOST).unwrap();
    let end = all.iter().rposition(|n| *n == MOST).unwrap();
    assert!(top <= 6 && all.len() - end <= 8, "{all:?}");
    assert!(all[..=top].is_sorted());
    assert!(all[top..=end].iter().all(|n| *n == MOST));
    assert!(all[end..].iter().rev().skip(1).is_sorted(), "{all:?}");
    // Few messages more than whole ones.
    assert!(all.len() <= 32 + 8, "{all:?}");
}

#[test]
fn the_next_chunk_is_there_when_the_one_before_has_left() {
    for costs in [TWICE, with(200, 500, 820), with(410, 500, 820)] {
        let all = cut(Mode::Fitted, &costs, MIB);
        for pair in all.windows(2).take_while(|pair| pair[0] < pair[1]) {
            let copied = of(pair[1], costs.copy) + f64::from(costs.post);
            assert!(copied <= 1.05 * of(pair[0], costs.link), "{all:?}");
        }
    }
}

#[test]
fn a_short_write_is_one_message() {
    for len in [1, 64, LEAST] {
        assert_eq!(Chunks::begin(Mode::Fitted, &pace(&TWICE), len, MOST), None);
        assert_eq!(Chunks::begin(Mode::Fitted, &Pace::new(), len, MOST), None);
    }
    // No message of less than 1 KiB because of a rest.
    for len in LEAST + 1..4 * LEAST {
        let all = cut(Mode::Fitted, &TWICE, len);
        assert!(all.iter().all(|n| *n >= 1024), "{len}: {all:?}");
    }
}

#[test]
fn messages_of_the_length_of_a_chunk_are_not_cut() {
    for most in [512, 4096] {
        let begin = |mode| Chunks::begin(mode, &pace(&TWICE), MIB, most);
        assert_eq!(begin(Mode::Fitted), None);
        assert_eq!(begin(Mode::Fixed(4096)), None);
    }
}

#[test]
fn the_round_trip_limits_the_first_chunk() {
    let first = |round_trip| {
        let costs = Costs {
            post: 2500,
            round_trip,
            ..TWICE
        };
        cut(Mode::Fitted, &costs, MIB)[0]
    };
    assert!(first(9000) > 9000);
    assert_eq!(first(2460), 6 << 10);
    assert_eq!(first(10), LEAST);
}

#[test]
fn slow_copies_go_in_equal_chunks() {
    let costs = with(410, 1000, 200);
    let all = cut(Mode::Fitted, &costs, 64 << 10);
    assert!(all.len() > 3 && all.len() < 10, "{all:?}");
    assert!(all[..all.len() - 1].iter().all(|n| *n == all[0]));
    // A long write has few handovers.
    assert!(cut(Mode::Fitted, &costs, 4 * MIB).len() <= 140);
}

#[test]
fn where_handovers_are_dear_messages_are_whole() {
    let costs = with(41, 2000, 82);
    assert_eq!(Chunks::begin(Mode::Fitted, &pace(&costs), MIB, MOST), None);
}

#[test]
fn the_other_curves() {
    assert_eq!(
        cut(Mode::Doubling, &TWICE, 100 << 10),
        [8, 16, 32, 32, 12].map(|kib: u32| kib << 10)
    );
    assert_eq!(
        cut(Mode::Fixed(10_000), &TWICE, 32768),
        [9728, 9728, 9728, 3584]
    );
    assert_eq!(cut(Mode::Whole, &TWICE, 70_000), [32768, 32768, 4464]);
    assert_eq!(
        [-2, -1, 0, 1, 8192].map(Mode::of),
        [
            Mode::Doubling,
            Mode::Fitted,
            Mode::Whole,
            Mode::Fixed(1),
            Mode::Fixed(8192)
        ]
    );
}

#[test]
fn any_numbers_lead_to_chunks_that_end() {
    let numbers = [0, 1, 7, 1000, 1 << 20, u32::MAX];
    for copy in numbers {
        for post in numbers {
            for link in numbers {
                let mut pace = Pace::new();
                pace.on_first_chunk(1024, copy.into(), post.into());
                pace.on_all(1024, link.into());
                pace.on_first(1, post.into());
                for len in [0, 1, 4097, MIB + 1, u32::MAX] {
                    for most in [1, 4097, MOST, u32::MAX] {
                        let Some(mut chunks) = Chunks::begin(Mode::Fitted, &pace, len, most) else {
                            continue;
                        };
                        let mut left = len;
                        for _ in 0..64 {
                            let n = chunks.next(left);
                            assert!(n <= left && n <= most && (n > 0 || left == 0));
                            assert!(n == left || n == most || n % UNIT == 0);
                            left -= n;
                        }
                    }
                }
            }
        }
    }
}
