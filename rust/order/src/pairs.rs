// SPDX-License-Identifier: GPL-2.0

//! Models of pairs in C code, and in Rust code that needs more of the kernel. Each is run with its
//! barriers, and once without one of them, which the model has to notice.

use loom::sync::atomic::{
    fence, AtomicBool, AtomicU32,
    Ordering::{self, Acquire, Relaxed, Release, SeqCst},
};
use loom::sync::{Arc, Mutex};
use loom::thread;

/// Runs `other` beside `own`, on the same state, and returns both results.
fn both<S: Default + Send + Sync + 'static, A: Send + 'static, B>(
    other: impl FnOnce(&S) -> A + Send + 'static,
    own: impl FnOnce(&S) -> B,
) -> (A, B) {
    let state = Arc::new(S::default());
    let its = state.clone();
    let thread = thread::spawn(move || other(&its));
    let result = own(&state);
    (thread.join().unwrap(), result)
}

/// Words that are 0 at first.
#[derive(Default)]
struct Words {
    first: AtomicU32,
    second: AtomicU32,
    third: AtomicU32,
}

fn publish(words: &Words, order: Ordering) {
    words.first.store(7, Relaxed);
    words.second.store(1, order);
}

fn see(words: &Words, order: Ordering) -> (u32, u32) {
    (words.second.load(order), words.first.load(Relaxed))
}

fn a_reader_sees_both(store: Ordering, load: Ordering) {
    loom::model(move || {
        let ((), seen) = both(move |w: &Words| publish(w, store), |w| see(w, load));
        assert_ne!(seen, (1, 0));
    });
}

/// A word that says that another one is valid: `in_use` and the reason in companion_calls.c, `in_use`
/// and a failed repetition, `registered` and the slab in net/proto.rs, the counters of
/// SDP_AHEAD in the program, `Mr::uses` and the copied bytes, `left` of a flight of the copier.
#[test]
fn a_word_that_is_released_shows_what_was_before() {
    a_reader_sees_both(Release, Acquire);
}

#[test]
#[should_panic(expected = "(1, 0)")]
fn a_relaxed_store_shows_less() {
    a_reader_sees_both(Relaxed, Acquire);
}

#[test]
#[should_panic(expected = "(1, 0)")]
fn a_relaxed_load_sees_less() {
    a_reader_sees_both(Release, Relaxed);
}

/// `sdp_companion_use`: `first` is `in_use`, `second` the end of the attempt, `third` the end of
/// SDP's half.
fn decide(words: &Words, barrier: bool) {
    words.first.store(1, Release);
    if barrier {
        fence(Release);
    }
    words.second.store(1, Relaxed);
    words.third.store(1, Relaxed);
}

fn sees_an_end_without_the_decision(words: &Words) -> bool {
    // forward_event(), sdp_companion_attempt()
    let attempt_is_over = words.second.load(Acquire) == 1;
    attempt_is_over && words.first.load(Acquire) == 0
}

fn sees_hang_up_without_the_decision(words: &Words) -> bool {
    // poll_halves()
    let hang_up = words.third.load(Relaxed) == 1;
    fence(Acquire);
    hang_up && words.first.load(Acquire) == 0
}

fn an_end_shows_the_decision(is_wrong: fn(&Words) -> bool, barrier: bool) {
    loom::model(move || {
        let (wrong, ()) = both(is_wrong, |w| decide(w, barrier));
        assert!(!wrong);
    });
}

#[test]
fn the_end_of_an_attempt_shows_the_decision() {
    an_end_shows_the_decision(sees_an_end_without_the_decision, true);
    an_end_shows_the_decision(sees_hang_up_without_the_decision, true);
}

#[test]
#[should_panic(expected = "!wrong")]
fn a_release_does_not_order_the_stores_behind_it() {
    an_end_shows_the_decision(sees_an_end_without_the_decision, false);
}

/// Each of two threads stores one word and then loads the other's: forward_event() and
/// `sdp_companion_catch_up`, `set_alarm_once` and the worker that begins, a poller and the event
/// that looks for pollers, `note_no_space` and `wake_writable`.
fn store_and_look(own: &AtomicU32, other: &AtomicU32, barrier: bool) -> u32 {
    own.store(1, Relaxed);
    if barrier {
        fence(SeqCst);
    }
    other.load(Relaxed)
}

/// `barrier`: of the second thread.
fn one_sees_the_other(barrier: bool) {
    loom::model(move || {
        let seen = both(
            |w: &Words| store_and_look(&w.first, &w.second, true),
            |w| store_and_look(&w.second, &w.first, barrier),
        );
        assert_ne!(seen, (0, 0));
    });
}

#[test]
fn one_of_two_that_store_and_look_sees_the_other() {
    one_sees_the_other(true);
}

#[test]
#[should_panic(expected = "(0, 0)")]
fn a_barrier_on_one_side_is_not_enough() {
    one_sees_the_other(false);
}

/// A region of rlo: `valid` under its lock, the number of copies, and the memory.
#[derive(Default)]
struct Region {
    valid: Mutex<bool>,
    uses: AtomicU32,
    memory: AtomicU32,
}

fn copy(region: &Region, order: Ordering) {
    {
        let valid = region.valid.lock().unwrap();
        if !*valid {
            return;
        }
        region.uses.fetch_add(1, Relaxed);
    }
    region.memory.store(1, Relaxed);
    region.uses.fetch_sub(1, order);
}

/// The owner of the memory takes it back, and writes to it.
fn invalidate(region: &Region) {
    *region.valid.lock().unwrap() = false;
    while region.uses.load(Acquire) != 0 {
        thread::yield_now();
    }
    region.memory.store(2, Relaxed);
}

fn memory_after(copying: fn(&Region)) -> u32 {
    let region = Arc::new(Region::default());
    *region.valid.lock().unwrap() = true;
    let its = region.clone();
    let copier = thread::spawn(move || copying(&its));
    invalidate(&region);
    copier.join().unwrap();
    region.memory.load(Relaxed)
}

#[test]
fn no_copy_goes_to_a_region_that_is_invalid() {
    loom::model(|| {
        assert_eq!(memory_after(|region| copy(region, Release)), 2);
    });
}

#[test]
#[should_panic(expected = "left: 1")]
fn an_end_of_a_copy_without_release_does() {
    loom::model(|| {
        assert_eq!(memory_after(|region| copy(region, Relaxed)), 2);
    });
}

/// A bell of rlo that is held: `held` is in the list of a processor, `calls` are those to come.
#[derive(Default)]
struct Bell {
    held: AtomicBool,
    calls: AtomicU32,
    completions: AtomicU32,
    handled: AtomicU32,
}

/// `atomic_xchg`, or one without its barriers.
fn swap(word: &AtomicBool, value: bool, barriers: bool) -> bool {
    if barriers {
        fence(SeqCst);
    }
    let before = word.swap(value, Relaxed);
    if barriers {
        fence(SeqCst);
    }
    before
}

/// hold(); returns whether this processor has the bell in its list.
fn ring(bell: &Bell, barriers: bool) -> bool {
    bell.completions.fetch_add(1, Relaxed);
    if swap(&bell.held, true, barriers) {
        return false;
    }
    bell.calls.fetch_add(1, Relaxed);
    true
}

/// rlo_bells_release()
fn call(bell: &Bell) {
    swap(&bell.held, false, true);
    bell.handled
        .fetch_max(bell.completions.load(Relaxed), Relaxed);
    bell.calls.fetch_sub(1, Release);
}

/// Two processors with a completion each. `barriers`: of the one that rings.
fn two_completions(barriers: bool) {
    let bell = Arc::new(Bell::default());
    let its = bell.clone();
    let other = thread::spawn(move || {
        if ring(&its, barriers) {
            call(&its);
        }
    });
    if ring(&bell, barriers) {
        call(&bell);
    }
    other.join().unwrap();
    assert_eq!(bell.handled.load(Relaxed), 2, "no call saw a completion");
    assert_eq!(bell.calls.load(Acquire), 0);
}

#[test]
fn a_completion_that_finds_the_bell_held_is_seen_by_that_call() {
    loom::model(|| two_completions(true));
}

#[test]
#[should_panic(expected = "no call saw a completion")]
fn a_bell_that_is_rung_without_barriers_loses_one() {
    loom::model(|| two_completions(false));
}

/// Counters of SDP_AHEAD: the last promise may be kept, and then the connection breaks, while a
/// program asks. `first` is `ended`, `second` is `failed`.
fn keep_and_fail(words: &Words) {
    words.first.fetch_add(1, Release);
    words.second.store(1, Release);
}

fn a_kept_promise_counts(is_lost: fn(&Words) -> bool) {
    loom::model(move || {
        let ((), lost) = both(keep_and_fail, is_lost);
        assert!(!lost);
    });
}

#[test]
fn a_promise_that_was_kept_before_the_failure_counts() {
    // Promiser::outcome(), and Range::state() in the program.
    a_kept_promise_counts(|w| w.second.load(Acquire) == 1 && w.first.load(Acquire) == 0);
}

#[test]
#[should_panic(expected = "!lost")]
fn the_other_order_of_the_questions_loses_it() {
    a_kept_promise_counts(|w| w.first.load(Acquire) == 0 && w.second.load(Acquire) == 1);
}
