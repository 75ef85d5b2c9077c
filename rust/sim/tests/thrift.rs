// SPDX-License-Identifier: GPL-2.0

//! Behaviour that costs time or messages, but breaks nothing.
#![allow(clippy::panic, reason = "a test says what is wrong by panicking")]

use sdp_engine::engine::conn::{Config, Zcopy};
use sdp_sim::{
    op::{Mood, Op, Step},
    run::History,
    side::Side::{self, A, B},
};

const CONFIG: Config = Config {
    rcv_size: 116,
    rx_depth: 8,
    rx_initial: 4,
    tx_depth: 8,
    max_send_payload: 100,
    max_adverts: 1,
    rcv_size_max: 0,
    zcopy: Zcopy::OFF,
};

const LENDING: Config = Config {
    zcopy: Zcopy {
        advertise: true,
        ..Zcopy::OFF
    },
    ..CONFIG
};

fn play(a: Config, b: Config, steps: impl IntoIterator<Item = (Side, Op)>) {
    let step = |(side, op)| Step { side, op };
    let history = History {
        a,
        b,
        mood: Mood::Peaceful,
        steps: steps.into_iter().map(step).collect(),
    };
    if let Err(failure) = history.check() {
        panic!("{failure}");
    }
}

const NOW: Op = Op::Wait(1);

//= test: DATA-5
#[test]
fn the_rest_of_a_write_goes_with_its_full_messages() {
    let write = Op::Write {
        len: 130,
        more: false,
        urgent: false,
    };
    play(CONFIG, CONFIG, [(A, NOW), (A, write)]);
}

/// With B's zero copy disabled, and with a reader that never comes.
#[test]
fn who_never_reads_is_offered_ever_less() {
    let reading = Config {
        zcopy: Zcopy {
            read: true,
            read_depth: 1,
            ..Zcopy::OFF
        },
        ..CONFIG
    };
    for b in [CONFIG, reading] {
        let once = [
            (
                A,
                Op::WriteRun {
                    len: 150,
                    inline: 0,
                },
            ),
            (A, Op::Wait(100)),
            (B, Op::Read(9)),
        ];
        play(
            LENDING,
            b,
            [(A, NOW)]
                .into_iter()
                .chain([once; 100].into_iter().flatten()),
        );
    }
}
