// SPDX-License-Identifier: GPL-2.0

//! Two sides that wait for each other while only time passes.
#![allow(clippy::panic, reason = "a test says what is wrong by panicking")]

use sdp_engine::engine::conn::{Config, Zcopy};
use sdp_sim::{
    op::{Mood, Op, Step},
    run::History,
    side::Side::{self, A, B},
};

const fn config(rx_depth: u16, rx_initial: u16) -> Config {
    Config {
        rcv_size: 116,
        rx_depth,
        rx_initial,
        tx_depth: 8,
        max_send_payload: 100,
        max_adverts: 4,
        rcv_size_max: 0,
        zcopy: Zcopy {
            advertise: true,
            read: true,
            write: true,
            read_depth: 2,
            write_depth: 2,
            max_write: 100,
        },
    }
}

const SMALL: Config = config(3, 3);

fn play(config: Config, mood: Mood, steps: impl IntoIterator<Item = (Side, Op)>) {
    play_with([config; 2], mood, steps);
}

fn play_with([a, b]: [Config; 2], mood: Mood, steps: impl IntoIterator<Item = (Side, Op)>) {
    let step = |(side, op)| Step { side, op };
    let history = History {
        a,
        b,
        mood,
        steps: steps.into_iter().map(step).collect(),
    };
    if let Err(failure) = history.check() {
        panic!("{failure}");
    }
}

const fn write(len: u16, more: bool) -> Op {
    Op::Write {
        len,
        more,
        urgent: false,
    }
}

const fn run(len: u16) -> Op {
    Op::WriteRun { len, inline: 0 }
}

const NOW: Op = Op::Wait(1);

/// With both windows shut, both recall at the same time: each cancel takes the
/// credit that the answer to the other one would need.
//= test: CREDIT-5, SRCCANCEL-9
#[test]
fn cancels_that_cross_shut_windows_are_answered() {
    let both = |op| [(A, op), (B, op)];
    let steps = [
        both(NOW),
        both(Op::Pipelined),
        both(NOW),
        // Readers that are there but do not get to read.
        both(Op::Reading(true)),
        both(write(10, false)),
        both(NOW),
        both(run(500)),
        both(NOW),
        both(Op::Wait(20_000)),
    ];
    play(SMALL, Mood::Peaceful, steps.into_iter().flatten());
}

//= test: SRC-6
#[test]
fn bytes_that_are_corked_do_not_keep_a_src_avail() {
    let start = [(A, NOW), (A, run(300)), (A, NOW)];
    let dribble = [(B, write(1, true)), (B, Op::Wait(15))];
    let all = start.into_iter().chain([dribble; 10].into_iter().flatten());
    play(config(8, 4), Mood::Peaceful, all);
}

//= test: SRCCANCEL-9
#[test]
fn bytes_that_are_corked_do_not_keep_who_waits_for_the_answer_to_a_cancel() {
    let start = [
        (A, NOW),
        (B, Op::Pipelined),
        (A, NOW),
        (A, Op::Offer(50)),
        (A, NOW),
        (A, Op::CancelSinks),
    ];
    let dribble = [(A, write(1, true)), (A, Op::Stall(300))];
    let all = start.into_iter().chain([dribble; 20].into_iter().flatten());
    play(config(10, 5), Mood::Wild, all);
}

/// Neither side reads, and a message without payload has left one of them with a single credit.
//= test: UPDATE-4
#[test]
fn two_silent_sides_with_shut_windows_fall_silent() {
    let both = |op| [(A, op), (B, op)];
    let fill = [both(NOW), both(write(300, false)), both(NOW)];
    let all = fill.into_iter().flatten().chain([(A, Op::AskRcvSize(50))]);
    play(SMALL, Mood::Silent, all);
}

/// Neither side gets to read, and each lends memory to the other: updates alone bring neither
/// further.
//= test: UPDATE-4
#[test]
fn updates_that_answer_updates_are_few_while_memory_is_lent() {
    let both = |op| [(A, op), (B, op)];
    for trip in [0, 1, 5] {
        for nudge in [Op::ReadRemote(50), Op::AskRcvSize(50), Op::Push] {
            let steps = [
                both(NOW),
                both(Op::Trip(trip)),
                both(Op::Pipelined),
                both(Op::Wait(20)),
                both(Op::Reading(true)),
                both(write(10, false)),
                both(Op::Wait(20)),
                both(run(500)),
                both(Op::Wait(20)),
                [(A, nudge), (A, Op::Wait(20_000))],
            ];
            play(SMALL, Mood::Peaceful, steps.into_iter().flatten());
        }
    }
}

/// Each answer comes in time. Offers and runs are taken back in turn, so that one of both is
/// awaited at any time.
//= test: SRCCANCEL-9
#[test]
fn cancels_of_both_kinds_that_overlap_are_each_answered_in_time() {
    let both = |op| [(A, op), (B, op)];
    let begin = [
        both(NOW),
        both(Op::Pipelined),
        [(A, NOW), (B, Op::Reading(true))],
        both(Op::Trip(440)),
    ];
    let again = [
        (A, Op::Offer(50)),
        (A, Op::CancelSinks),
        (A, Op::Wait(450)),
        (A, run(300)),
        (A, Op::Withdraw),
        (A, Op::Wait(450)),
    ];
    let all = begin.into_iter().chain([[(A, NOW); 2]]).flatten();
    play(
        config(8, 8),
        Mood::Peaceful,
        all.chain([again; 12].into_iter().flatten()),
    );
}

/// B's buffer is offered, both windows are shut, and B has one credit. A has been silent for so
/// long that its next update would be late.
//= test: SRCCANCEL-9, UPDATE-4
#[test]
fn a_cancel_after_a_long_silence_finds_its_credit_in_time() {
    let a = Config {
        max_adverts: 2,
        ..config(4, 3)
    };
    let b = Config {
        zcopy: Zcopy {
            read: false,
            ..SMALL.zcopy
        },
        ..SMALL
    };
    let steps = [
        (B, Op::Mad(1)),
        (B, write(130, false)),
        (A, write(200, false)),
        (B, run(76)),
        (A, Op::Starve(1)),
        (B, Op::ReqPipe(true)),
        (A, Op::Wait(1617)),
        (B, Op::Starve(5)),
        (A, Op::Read(3)),
        (A, Op::Carry(2)),
        (B, Op::Handle(2)),
        (B, Op::Offer(9)),
        (A, Op::Starve(3)),
    ];
    play_with([a, b], Mood::Silent, steps);
}

/// Without zero copy the writer would wait as long, with its own limits.
//= test: SRCCANCEL-9
#[test]
fn a_peer_that_is_frozen_is_not_given_up_for_memory_that_the_program_does_not_want_back() {
    let begin = [(A, NOW), (A, run(300)), (A, NOW)];
    for end in [Op::Stall(60_000), Op::Wait(0)] {
        let frozen = [(B, Op::Reading(true)), (A, Op::Stall(8_000)), (A, end)];
        let all = begin.into_iter().chain(frozen);
        play(config(8, 4), Mood::Peaceful, all);
    }
}
