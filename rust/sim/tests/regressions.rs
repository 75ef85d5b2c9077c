// SPDX-License-Identifier: GPL-2.0

//! Histories that once broke an invariant, reduced to the needed steps.
#![allow(clippy::panic, reason = "a test says what is wrong by panicking")]

use sdp_engine::engine::conn::{Config, Zcopy};
use sdp_sim::{
    op::{Mood, Op, Step},
    run::History,
    side::Side::{self, A, B},
};

const EVERYTHING: Zcopy = Zcopy {
    advertise: true,
    read: true,
    write: true,
    read_depth: 3,
    write_depth: 2,
    max_write: 102,
};

/// The size of receive buffers, their depth and initial number, and the number of send slots.
fn config(rcv_size: u16, rx: [u16; 2], tx_depth: u16, max_adverts: u8) -> Config {
    let [rx_depth, rx_initial] = rx;
    Config {
        rcv_size,
        rx_depth,
        rx_initial,
        tx_depth,
        max_send_payload: u32::from(rcv_size) - 16,
        max_adverts,
        rcv_size_max: 0,
        zcopy: EVERYTHING,
    }
}

fn play(a: Config, b: Config, mood: Mood, steps: &[(Side, Op)]) {
    let history = History {
        a,
        b,
        mood,
        steps: steps
            .iter()
            .map(|(side, op)| Step {
                side: *side,
                op: *op,
            })
            .collect(),
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

const fn run(len: u16, inline: u8) -> Op {
    Op::WriteRun { len, inline }
}

//= test: HDR-3
#[test]
fn inline_bytes_leave_room_for_the_header_of_the_src_avail() {
    play(
        config(39, [7, 4], 3, 2),
        config(88, [4, 3], 8, 1),
        Mood::Graceful,
        &[(B, Op::Mad(0)), (B, run(388, 37))],
    );
}

//= test: SINK-2
#[test]
fn an_offer_that_the_peers_buffer_outgrows_is_not_sent() {
    let growing = Config {
        rcv_size_max: 86,
        ..config(42, [5, 3], 6, 4)
    };
    play(
        config(90, [4, 4], 7, 4),
        growing,
        Mood::Peaceful,
        &[
            (B, Op::Starve(2)),
            (A, run(209, 27)),
            (A, run(83, 20)),
            (A, Op::AskRcvSize(156)),
            (B, Op::Mad(0)),
            (A, Op::Mad(2)),
            (
                B,
                Op::Write {
                    len: 151,
                    more: false,
                    urgent: true,
                },
            ),
            (A, Op::Carry(3)),
            (B, Op::Handle(1)),
            (B, Op::Handle(2)),
            (B, Op::Offer(24)),
        ],
    );
}

//= test: SEQ-5, CREDIT-7
#[test]
fn a_message_that_a_frozen_acknowledgement_crosses_had_its_credit() {
    play(
        config(43, [10, 5], 6, 3),
        config(51, [8, 5], 6, 2),
        Mood::Graceful,
        &[
            (B, Op::Mad(0)),
            (B, run(82, 0)),
            (A, write(61, false)),
            (A, Op::Mad(1)),
            (B, Op::Mad(1)),
            (A, Op::Starve(1)),
            (B, Op::Carry(1)),
            (A, Op::Handle(2)),
            (A, Op::Starve(3)),
            (A, Op::Carry(16)),
            (B, Op::Recall),
            (B, Op::Carry(1)),
            (A, Op::ReadRemote(223)),
            (B, Op::Starve(1)),
            (A, Op::Handle(2)),
            (A, write(64, false)),
            (A, Op::Carry(2)),
            (B, Op::Handle(3)),
            (B, Op::Read(1)),
            (B, Op::Read(1)),
            (B, Op::Starve(0)),
            (B, Op::Carry(1)),
        ],
    );
}
