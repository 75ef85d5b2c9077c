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
    let step = |(side, op)| Step { side, op };
    let history = History {
        a: config,
        b: config,
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
