// SPDX-License-Identifier: GPL-2.0

//! Zero copy with peers like OFED's: source and sink know one
//! SrcAvail at a time and nothing of Pipelined mode.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test says what is wrong by panicking"
)]

mod script;

use script::{zcopy, Did, Script};
use sdp_engine::engine::{
    conn::{Config, Run, SinkBuffer, Why},
    error::Refused,
    timer::Timer,
    wire::{avail::SrcAvail, Body, Mid},
};

const RUN: Run = Run {
    len: 2_088_960,
    r_key: 7,
    va: 40,
    inline: 50,
};

fn bodies(did: &[Did]) -> Vec<Body> {
    did.iter()
        .filter_map(|did| match did {
            Did::Sent(repr) => Some(repr.body),
            _ => None,
        })
        .collect()
}

//= test: UPDATE-4
#[test]
fn a_peer_that_owes_an_answer_gets_the_credits_for_it() {
    for asks in [false, true] {
        let mut s = Script::zcopy(4);
        // The program does not read, so the window is shut.
        while s.conn.posted() >= 3 {
            s.send(Body::Data, 1).unwrap();
            s.drain();
        }
        if asks {
            s.conn.queue_run(RUN).unwrap();
            assert!(bodies(&s.drain())
                .iter()
                .any(|body| matches!(body, Body::SrcAvail(_))));
        }
        // An update leaves the peer with one credit.
        s.send(Body::Data, 0).unwrap();
        let answered = bodies(&s.drain()) == [Body::Data];
        assert_eq!(answered, asks);
        if asks {
            answers_to_updates_are_late(&mut s);
        }
    }
}

/// The peer has spent the credit that it was given on another update.
fn answers_to_updates_are_late(s: &mut Script) {
    // Not later each time, because a cancel could wait for the credit.
    for _ in 0..3 {
        s.send(Body::Data, 0).unwrap();
        assert_eq!(bodies(&s.drain()), []);
        assert_eq!(s.conn.wants(Timer::CreditUpdate), Some(1_000));
        s.conn.handle_timeout(Timer::CreditUpdate);
        assert_eq!(bodies(&s.drain()), [Body::Data]);
    }
    // At once again when another message of ours has gone.
    s.conn.recall();
    assert_eq!(bodies(&s.drain()), [Body::SrcAvailCancel]);
    s.send(Body::Data, 0).unwrap();
    assert_eq!(bodies(&s.drain()), [Body::Data]);
}

//= test: ADVERT-3, MODE-1
#[test]
fn a_peer_with_one_advert_meets_combined_mode_only_whatever_is_asked() {
    let mut s = Script::zcopy(1);
    assert!(!s.conn.peer().pipelined);
    s.conn.set_req_pipe(true);
    assert_eq!(s.conn.request_pipelined(), Err(Refused::NotNow));
    let sink = SinkBuffer {
        len: 1000,
        r_key: 1,
        va: 0,
    };
    assert_eq!(s.conn.offer_sink(sink), Err(Refused::NotNow));
    for _ in 0..4 {
        s.conn.queue_run(RUN).unwrap();
    }
    s.queue(500);
    let mut repr = s.next(Body::Data, 0);
    repr.flags.req_pipe = true;
    s.send_repr(&repr).unwrap();
    let mut all = Vec::new();
    for _ in 0..4 {
        all.extend(s.news());
        s.send(Body::RdmaRdCompl(RUN.len - 50), 0).unwrap();
    }
    all.extend(s.news());
    for did in &all {
        if let Did::Sent(repr) = did {
            assert!(
                matches!(repr.body, Body::SrcAvail(_) | Body::Data),
                "{repr}"
            );
            assert!(!repr.flags.req_pipe);
        }
    }
    assert_eq!(s.conn.unsent(), 0);
    // And so does one to which we announced one.
    let cfg = Config {
        max_adverts: 1,
        ..zcopy()
    };
    let mut s = Script::with(cfg, 20, 255);
    assert!(!s.conn.peer().pipelined);
    assert_eq!(s.conn.request_pipelined(), Err(Refused::NotNow));
}

/// It completes each step of its reader, and answers a cancel which it meets
/// with SendSm although it has sent one.
#[test]
fn its_sink_reports_in_steps_and_may_say_send_sm_twice() {
    let mut s = Script::zcopy(1);
    let id = s.conn.queue_run(RUN).unwrap();
    assert_eq!(bodies(&s.news())[0].mid(), Mid::SrcAvail);
    let mut read = 0;
    for step in [4096, 1, 65536] {
        s.send(Body::RdmaRdCompl(step), 0).unwrap();
        assert_eq!(s.news(), [Did::Taken(id, step)]);
        read += step;
    }
    s.conn.recall();
    assert_eq!(s.sent(), [Body::SrcAvailCancel]);
    s.send(Body::SendSm, 0).unwrap();
    s.send(Body::SendSm, 0).unwrap();
    let did = s.news();
    assert_eq!(did[0], Did::Returned(id, Why::Recalled));
    assert!(bodies(&did).iter().all(|body| *body == Body::Data));
    assert_eq!(s.conn.stats().stale_answers, 1);
    let sent: u32 = did
        .iter()
        .map(|did| match did {
            Did::Sent(repr) => repr.payload_len,
            _ => 0,
        })
        .sum();
    assert_eq!(s.conn.unsent(), RUN.len - 50 - read - sent);
}

/// It puts as many bytes inline as fit, waits for a second, cancels, and sends
/// the rest as Data.
#[test]
fn its_source_advertises_with_much_inline_and_takes_back_what_takes_long() {
    let mut s = Script::zcopy(1);
    s.conn.set_reading(true);
    let advert = SrcAvail {
        len: 1000,
        r_key: 5,
        va: 4000,
    };
    let delivery = s.send(Body::SrcAvail(advert), 84).unwrap();
    assert_eq!((delivery.payload_len, delivery.remote), (84, 916));
    assert_eq!(s.conn.start_read(16).unwrap().va, 4084);
    s.send(Body::SrcAvailCancel, 0).unwrap();
    assert_eq!(s.news(), []);
    s.conn.handle_read_completed();
    assert_eq!(s.sent(), [Body::RdmaRdCompl(16), Body::SendSm]);
    let mut left = 900;
    while left > 0 {
        s.conn.on_buffer_consumed();
        s.drain();
        let len = left.min(100);
        assert_eq!(s.send(Body::Data, len).unwrap().payload_len, len);
        left -= len;
    }
    s.conn.on_buffer_consumed();
    s.drain();
    assert_eq!(s.send(Body::SrcAvail(advert), 84).unwrap().remote, 916);
}
