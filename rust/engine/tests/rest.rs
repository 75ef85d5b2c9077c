// SPDX-License-Identifier: GPL-2.0

//! When there is nothing to do. The simulator compares each such answer with all other questions.

#![allow(clippy::unwrap_used, reason = "a test says what is wrong by panicking")]

mod script;

use script::Script;
use sdp_engine::engine::{
    conn::{Queue, Run},
    timer::Timer,
    wire::{avail::SrcAvail, Body},
};

const MORE: Queue = Queue {
    more: true,
    urgent: false,
};

fn settled() -> Script {
    let mut script = Script::established();
    script.drain();
    assert!(script.conn.is_at_rest());
    script
}

#[test]
fn a_question_leaves_a_connection_at_rest_until_its_answer() {
    let mut script = settled();
    script.send(Body::Data, 10).unwrap();
    // The buffer can be posted with the answer.
    assert_eq!(script.conn.receives_wanted(), 1);
    assert!(script.conn.is_at_rest());
    script.conn.on_buffer_consumed();
    assert!(script.conn.is_at_rest());
    script.queue(10);
    assert!(!script.conn.is_at_rest());
    assert_eq!(script.sent(), [Body::Data]);
    assert!(script.conn.is_at_rest());
}

#[test]
fn a_peer_that_goes_on_gets_its_credits_back() {
    let mut script = settled();
    script.send(Body::Data, 10).unwrap();
    script.send(Body::Data, 10).unwrap();
    assert!(!script.conn.is_at_rest());
}

#[test]
fn what_is_offered_is_not_at_rest() {
    let mut script = settled();
    script
        .send(
            Body::SrcAvail(SrcAvail {
                len: 1000,
                r_key: 7,
                va: 0,
            }),
            1,
        )
        .unwrap();
    assert!(!script.conn.is_at_rest());

    let mut script = Script::zcopy(4);
    script.drain();
    assert!(script.conn.is_at_rest());
    script
        .conn
        .queue_run(Run {
            va: 0,
            r_key: 1,
            len: 1000,
            inline: 1,
        })
        .unwrap();
    script.drain();
    assert!(!script.conn.is_at_rest());
}

#[test]
fn a_question_that_is_to_be_sent_is_not_at_rest() {
    let mut script = settled();
    script.conn.ask_rcv_size(500).unwrap();
    assert!(!script.conn.is_at_rest());
}

/// All buffers of a shut window are posted, and an update waits for its timer.
#[test]
fn an_update_that_is_late_is_not_at_rest() {
    let mut script = settled();
    while script.conn.posted() >= 3 {
        script.send(Body::Data, 1).unwrap();
        script.drain();
    }
    script.send(Body::Data, 0).unwrap();
    script.drain();
    assert_eq!(script.conn.receives_wanted(), 0);
    assert!(script.conn.wants(Timer::CreditUpdate).is_some());
    assert!(!script.conn.is_at_rest());
}

#[test]
fn a_connection_that_ends_is_not_at_rest() {
    let mut script = settled();
    script.conn.shutdown_send();
    assert!(!script.conn.is_at_rest());
    let mut script = settled();
    script.conn.abort();
    assert!(!script.conn.is_at_rest());
}

#[test]
fn bytes_are_gathered_until_they_fill_a_message() {
    let mut script = settled();
    assert!(!script.conn.is_gathering());
    script.conn.queue(60, MORE).unwrap();
    assert!(script.conn.is_gathering());
    assert!(!script.conn.is_at_rest());
    assert!(script.conn.clone().poll_output().is_none());
    script.conn.queue(60, MORE).unwrap();
    assert!(!script.conn.is_gathering());
    script.drain();
    assert!(script.conn.is_gathering());
    script.conn.push();
    assert!(!script.conn.is_gathering());
}
