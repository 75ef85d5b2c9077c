// SPDX-License-Identifier: MIT

//! What the ledger says of ranges, as numbers.

#![allow(clippy::arithmetic_side_effects, reason = "numbers of a test")]

use super::*;

static FIRST: AtomicU32 = AtomicU32::new(0);
static SECOND: AtomicU32 = AtomicU32::new(0);

fn range(start: usize, len: usize, ended: &'static AtomicU32, id: u32) -> Range {
    Range {
        start,
        len,
        ended: Some(ended),
        id,
    }
}

fn used(ledger: &Ledger) -> Vec<(usize, usize, u32)> {
    let used = ledger.ranges.iter().filter(|range| range.len > 0);
    used.map(|range| (range.start, range.len, range.id))
        .collect()
}

#[test]
fn memory_that_one_socket_lends_again_needs_one_place() {
    let mut ledger = Ledger::new();
    assert!(ledger.insert(range(10, 10, &FIRST, 1)));
    assert!(ledger.insert(range(12, 4, &FIRST, 2)));
    assert_eq!(
        used(&ledger),
        [(10, 10, 2)],
        "the later end counts for all of it"
    );
    assert!(ledger.insert(range(5, 20, &FIRST, 3)));
    assert_eq!(used(&ledger), [(5, 20, 3)]);
    assert!(ledger.insert(range(5, 20, &SECOND, 1)));
    assert_eq!(
        used(&ledger),
        [(5, 20, 3), (5, 20, 1)],
        "another socket's end is another one"
    );
}

#[test]
fn memory_is_shared_while_somebody_else_has_it() {
    static DONE: AtomicU32 = AtomicU32::new(7);
    let mut ledger = Ledger::new();
    assert!(ledger.insert(range(0, 10, &DONE, 7)));
    assert!(!ledger.is_shared(0));
    assert!(ledger.insert(range(5, 10, &FIRST, 1)));
    assert!(ledger.is_shared(0));
    assert!(!ledger.is_shared(1), "what is over does not count");
    assert_eq!(
        (ledger.find(2), ledger.find(6), ledger.find(12)),
        (Some(0), Some(1), Some(1))
    );
    assert_eq!(
        (ledger.over(0), ledger.over(1), ledger.find(15)),
        (Some(0), None, None)
    );
}

#[test]
fn ranges_go_with_their_bytes() {
    let mut ledger = Ledger::new();
    assert!(ledger.insert(range(100, 100, &FIRST, 1)));
    ledger.on_moved(150, 1000, 20);
    assert_eq!(used(&ledger), [(1000, 20, 1), (100, 50, 1), (170, 30, 1)]);
    ledger.on_moved(90, 500, 60);
    assert_eq!(used(&ledger), [(1000, 20, 1), (510, 50, 1), (170, 30, 1)]);
}

#[test]
fn a_full_table_does_not_split() {
    static ENDED: AtomicU32 = AtomicU32::new(0);
    let mut ledger = Ledger::new();
    for at in 0..RANGES {
        assert!(ledger.insert(range(at * 100, 50, &ENDED, 1)));
    }
    assert!(!ledger.insert(range(90, 5, &SECOND, 1)));
    ledger.on_moved(0, 1 << 30, 50);
    assert_eq!(ledger.find(1 << 30), Some(0), "a whole one needs no place");
    assert!(!ledger.has_lost());
    ledger.on_moved(100, 1 << 31, 10);
    assert!(ledger.has_lost());
    ENDED.store(1, Ordering::Release);
    assert!(!ledger.has_lost(), "nothing is lent any more");
}
