// SPDX-License-Identifier: MIT

//! What the ledger says of ranges, as numbers.

#![allow(clippy::arithmetic_side_effects, reason = "numbers of a test")]
#![allow(clippy::expect_used, reason = "a panic is how a test fails")]

use super::*;

static FIRST: AtomicU32 = AtomicU32::new(0);
static SECOND: AtomicU32 = AtomicU32::new(0);

fn range(start: usize, len: usize, ended: &'static AtomicU32, id: u32) -> Range {
    Range {
        start,
        len,
        counted: Some(Counted::Sent(ended)),
        id,
        offset: 0,
        late: false,
    }
}

fn find(ledger: &Ledger, page: usize) -> Option<usize> {
    ledger.find(page, Kind::Sent)
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
    assert!(!ledger.is_shared(1), "an ended range does not count");
    assert_eq!(
        (find(&ledger, 2), find(&ledger, 6), find(&ledger, 12)),
        (Some(0), Some(1), Some(1))
    );
    assert_eq!(
        (ledger.over(0), ledger.over(1), find(&ledger, 15)),
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
    assert_eq!(
        find(&ledger, 1 << 30),
        Some(0),
        "a whole one needs no place"
    );
    assert!(!ledger.has_lost());
    ledger.on_moved(100, 1 << 31, 10);
    assert!(ledger.has_lost());
    ENDED.store(1, Ordering::Release);
    assert!(!ledger.has_lost(), "nothing is lent any more");
}

/// The range that is received ahead under this number.
fn ahead(start: usize, len: usize, receipts: &'static Receipts, id: u32) -> Range {
    Range {
        counted: Some(Counted::Received(receipts)),
        ..range(start, len, &FIRST, id)
    }
}

#[test]
fn a_failure_is_about_what_is_not_counted() {
    static RECEIPTS: Receipts = Receipts::new();
    let pages = 4 * PAGE;
    let (first, second) = (
        ahead(0, pages, &RECEIPTS, 1),
        ahead(pages, pages, &RECEIPTS, 2),
    );
    assert_eq!(first.state(), State::Open);
    RECEIPTS.ended.store(1, Ordering::Release);
    assert_eq!((first.state(), second.state()), (State::Over, State::Open));
    RECEIPTS.filled.store(6000, Ordering::Release);
    RECEIPTS.failed.store(1, Ordering::Release);
    assert_eq!(
        (first.state(), second.state()),
        (State::Over, State::Failed(6000))
    );
    assert!(second.is_filled(pages, 6000));
    assert!(
        !second.is_filled(pages + PAGE, 6000),
        "a part is not enough"
    );
}

#[test]
fn bytes_that_moved_keep_their_place_in_the_run() {
    static RECEIPTS: Receipts = Receipts::new();
    let mut ledger = Ledger::new();
    assert!(ledger.insert(ahead(10 * PAGE, 8 * PAGE, &RECEIPTS, 1)));
    ledger.on_moved(12 * PAGE, 100 * PAGE, 2 * PAGE);
    let place = |page: usize| {
        let at = ledger.find(page * PAGE, Kind::Received).expect("a range");
        ledger.get(at)
    };
    // Three pages of the run have come.
    let is_filled = |page: usize| place(page).is_filled(page * PAGE, 3 * PAGE);
    assert!(is_filled(10) && is_filled(11));
    assert!(is_filled(100), "the third page of the run");
    assert!(!is_filled(101));
    assert!(!is_filled(14) && !is_filled(17));
}

#[test]
fn a_page_is_looked_for_by_its_kind() {
    static RECEIPTS: Receipts = Receipts::new();
    let mut ledger = Ledger::new();
    assert!(ledger.insert(range(0, PAGE, &FIRST, 1)));
    assert!(ledger.insert(ahead(0, PAGE, &RECEIPTS, 1)));
    assert!(
        ledger.insert(ahead(0, PAGE, &RECEIPTS, 2)),
        "each needs a place"
    );
    assert_eq!(find(&ledger, 0), Some(0));
    assert_eq!(ledger.find(0, Kind::Received), Some(1));
    assert!(ledger.has(Kind::Received, |state| state == State::Open));
    RECEIPTS.ended.store(1, Ordering::Release);
    assert_eq!(ledger.find(0, Kind::Received), Some(2), "the open one");
}

#[test]
fn what_never_came_is_forgotten_where_other_bytes_come() {
    static BROKEN: Receipts = Receipts::new();
    static RECEIPTS: Receipts = Receipts::new();
    BROKEN.failed.store(1, Ordering::Release);
    let mut ledger = Ledger::new();
    assert!(ledger.insert(ahead(10 * PAGE, 10 * PAGE, &BROKEN, 1)));
    assert!(ledger.insert(ahead(14 * PAGE, 2 * PAGE, &RECEIPTS, 1)));
    RECEIPTS.ended.store(1, Ordering::Release);
    let state = |page: usize| {
        let at = ledger.find(page * PAGE, Kind::Received).expect("a range");
        ledger.get(at).state()
    };
    let states = [13, 14, 15, 16, 19].map(state);
    let failed = State::Failed(0);
    assert_eq!(states, [failed, State::Over, State::Over, failed, failed]);
}

#[test]
fn a_counter_is_forgotten_before_another_socket_has_it() {
    let [first, second] = [&ENDED_OF_ONE, &ENDED_OF_TWO];
    let mut ledger = Ledger::new();
    assert!(ledger.insert(range(0x10000, 0x4000, first, 1)));
    assert!(ledger.insert(range(0x20000, 0x4000, second, 1)));
    let address = core::ptr::from_ref(second).addr() as u64;
    assert_eq!(ledger.counted_by(Kind::Sent, address), Some(1));
    assert_eq!(ledger.counted_by(Kind::Received, address), None);
    ledger.remove(1);
    assert_eq!(ledger.counted_by(Kind::Sent, address), None);
}

static ENDED_OF_ONE: AtomicU32 = AtomicU32::new(0);
static ENDED_OF_TWO: AtomicU32 = AtomicU32::new(0);
