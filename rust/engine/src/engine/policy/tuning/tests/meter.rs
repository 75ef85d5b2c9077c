// SPDX-License-Identifier: GPL-2.0

//! What a meter says of messages whose times are known.

use super::super::{
    meter::{Begin, Meter, Sample},
    Way,
};
use std::vec::Vec;

fn begin(meter: &mut Meter, way: Way, len: u64, now: u64, queued: u64, left: u64) -> Vec<Sample> {
    let ended = meter.begin(&Begin {
        class: 3,
        way,
        most: 2,
        opens: true,
        urgent: false,
        warm: false,
        last: false,
        len,
        now,
        queued,
        left,
    });
    ended.into_iter().flatten().collect()
}

fn copy(meter: &mut Meter, now: u64, queued: u64, left: u64) -> Vec<Sample> {
    begin(meter, Way::Copy, 100, now, queued, left)
}

fn left(meter: &mut Meter, left: u64, now: u64) -> Vec<Sample> {
    let due = meter.is_due(left);
    let ended: Vec<_> = meter.on_left(left, now).into_iter().flatten().collect();
    assert!(due || ended.is_empty());
    ended
}

fn times(samples: &[Sample]) -> Vec<(u8, u64, u64)> {
    samples.iter().map(|s| (s.messages, s.len, s.ns)).collect()
}

#[test]
fn what_overlaps_counts_once() {
    let mut meter = Meter::new();
    // Each travels for 50; the next is there after 10.
    let ended = [
        copy(&mut meter, 1000, 0, 0),
        copy(&mut meter, 1010, 100, 0),
        // A third one is not of the stretch.
        copy(&mut meter, 1020, 200, 0),
        left(&mut meter, 100, 1050),
    ];
    assert!(ended.iter().all(Vec::is_empty));
    assert_eq!(times(&left(&mut meter, 200, 1100)), [(2, 200, 100)]);
    // The next begins behind bytes in flight, and is not charged for them.
    assert!(copy(&mut meter, 1110, 300, 200).is_empty());
    assert!(copy(&mut meter, 1115, 400, 200).is_empty());
    assert!(copy(&mut meter, 1120, 500, 200).is_empty());
    assert!(left(&mut meter, 300, 1150).is_empty());
    assert!(!meter.is_due(499));
    assert_eq!(times(&left(&mut meter, 500, 1260)), [(2, 200, 110)]);
}

#[test]
fn pauses_count_up_to_a_limit() {
    let mut meter = Meter::new();
    copy(&mut meter, 1000, 0, 0);
    assert!(left(&mut meter, 100, 1050).is_empty());
    // 30 are counted.
    assert!(copy(&mut meter, 1080, 100, 100).is_empty());
    assert!(left(&mut meter, 200, 1110).is_empty());
    // Two messages took 110: 4 times 55 of the pause.
    let ended = copy(&mut meter, 9999, 200, 200);
    assert_eq!(times(&ended), [(2, 200, 330)]);
}

#[test]
fn the_other_way_ends_a_stretch() {
    let mut meter = Meter::new();
    copy(&mut meter, 1000, 0, 0);
    // In flight: its own time goes on, and the new one waits for it.
    assert!(begin(&mut meter, Way::Lend, 100, 1010, 100, 0).is_empty());
    assert_eq!(times(&left(&mut meter, 100, 1030)), [(1, 100, 30)]);
    assert!(left(&mut meter, 200, 1100).is_empty());
    assert_eq!(meter.spent(3), 70);
    assert_eq!(meter.spent(4), 0);
    let ended = copy(&mut meter, 1105, 200, 200);
    assert_eq!(times(&ended), [(1, 100, 75)]);
    meter.forget(4);
    assert!(meter.goes_on(3) && !meter.goes_on(4));
    meter.forget(3);
    assert!(!meter.goes_on(3) && !meter.pauses());
}

#[test]
fn positions_wrap() {
    let mut meter = Meter::new();
    copy(&mut meter, 1000, u64::MAX - 150, u64::MAX - 200);
    copy(&mut meter, 1001, u64::MAX - 50, u64::MAX - 200);
    copy(&mut meter, 1002, 49, u64::MAX - 200);
    assert!(!meter.is_due(u64::MAX - 151) && meter.is_due(u64::MAX - 150));
    assert!(left(&mut meter, u64::MAX - 150, 1010).is_empty());
    assert!(left(&mut meter, 48, 1020).is_empty());
    assert_eq!(times(&left(&mut meter, 49, 1040)), [(2, 200, 30)]);
}

#[test]
fn no_stretch_takes_longer_than_since_its_begin() {
    let mut meter = Meter::new();
    copy(&mut meter, 1000, 100, 0);
    copy(&mut meter, 1001, 200, 0);
    copy(&mut meter, 1002, 300, 0);
    // A clock that was set back.
    left(&mut meter, 100, 10);
    assert_eq!(times(&left(&mut meter, 300, 1040)), [(2, 200, 40)]);
}
