// SPDX-License-Identifier: GPL-2.0

//! One engine as a source with a shell that copies what the peer does not take.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test says what is wrong by panicking"
)]

mod script;

use script::{
    lent::{RUN, SINK},
    Did, Script,
};
use sdp_engine::engine::{
    conn::{RunId, Why},
    error::Refused,
    wire::{avail::SinkAvail, Body},
};

/// A source in Pipelined mode, with a peer that has buffers.
fn source() -> Script {
    let mut s = Script::zcopy(4);
    s.conn.request_pipelined().unwrap();
    s.drain();
    s
}

/// The peer has `bufs` buffers from now on; fewer than three are none for payload.
fn grant(s: &mut Script, bufs: u16) {
    s.bufs = bufs;
    s.send(Body::Data, 0).unwrap();
}

fn run(s: &mut Script) -> RunId {
    s.conn.queue_run(RUN).unwrap()
}

/// A source with runs that it could not offer.
fn full(runs: usize) -> (Script, Vec<RunId>) {
    let mut s = source();
    grant(&mut s, 2);
    let ids = (0..runs).map(|_| run(&mut s)).collect();
    assert_eq!(s.news(), []);
    (s, ids)
}

/// Payload of each message.
fn payloads(did: &[Did]) -> Vec<u32> {
    let payload = |did: &Did| match did {
        Did::Sent(repr) if repr.body == Body::Data => Some(repr.payload_len),
        _ => None,
    };
    did.iter()
        .filter_map(payload)
        .filter(|len| *len > 0)
        .collect()
}

#[test]
fn a_source_awaits_buffers_while_the_peer_has_neither_buffers_nor_an_offer() {
    let mut s = source();
    assert!(!s.conn.awaits_buffers());
    run(&mut s);
    s.drain();
    grant(&mut s, 2);
    assert!(!s.conn.awaits_buffers(), "the peer may read its offer");
    s.send(Body::SendSm, 0).unwrap();
    s.drain();
    assert!(s.conn.awaits_buffers(), "the peer has declined it");
    grant(&mut s, 3);
    assert!(!s.conn.awaits_buffers());
    s.drain();
    grant(&mut s, 0);
    assert!(s.conn.awaits_buffers());
}

#[test]
fn a_source_does_not_await_buffers_while_it_may_write() {
    let mut s = source();
    grant(&mut s, 2);
    assert!(s.conn.awaits_buffers());
    let advert = SinkAvail {
        len: SINK.len,
        r_key: SINK.r_key,
        va: SINK.va,
        non_discards: 0,
    };
    s.send(Body::SinkAvail(advert), 0).unwrap();
    assert!(!s.conn.awaits_buffers());
}

#[test]
fn runs_that_wait_for_their_turn_are_returned_to_be_copied() {
    let (mut s, ids) = full(3);
    s.conn.copy_queued();
    let returned = |id: &RunId| Did::Returned(*id, Why::NotOffered);
    assert_eq!(s.news(), ids.iter().map(returned).collect::<Vec<_>>());
    for id in &ids {
        s.conn.on_copied(*id, RUN.len).unwrap();
    }
    // They have no place any more.
    assert_eq!((s.news(), s.conn.run_room()), (vec![], 4));
    assert_eq!(s.conn.unsent(), 3 * RUN.len);
    grant(&mut s, 60);
    assert_eq!(payloads(&s.news()), [100; 30]);
    assert_eq!(s.conn.unsent(), 0);
    run(&mut s);
    assert_eq!(s.sent().len(), 1, "offered as before");
}

#[test]
fn what_was_copied_stays_when_the_rest_is_withdrawn() {
    let (mut s, ids) = full(3);
    s.conn.copy_queued();
    s.news();
    s.conn.on_copied(ids[0], RUN.len).unwrap();
    s.conn.on_copied(ids[1], 300).unwrap();
    s.conn.on_copied(ids[1], 100).unwrap();
    s.conn.withdraw(ids[1]).unwrap();
    let dropped = [
        Did::Dropped(ids[1], RUN.len - 400),
        Did::Dropped(ids[2], RUN.len),
    ];
    assert_eq!(s.news(), dropped);
    assert_eq!(s.conn.unsent(), RUN.len + 400);
    s.queue(50);
    grant(&mut s, 60);
    assert_eq!(payloads(&s.news()).iter().sum::<u32>(), RUN.len + 450);
    assert_eq!((s.conn.unsent(), s.conn.run_room()), (0, 4));
}

#[test]
fn only_a_rest_that_goes_as_data_is_copied() {
    let mut s = source();
    let id = run(&mut s);
    assert_eq!(
        s.conn.on_copied(id, 1),
        Err(Refused::NotNow),
        "to be offered"
    );
    s.drain();
    assert_eq!(s.conn.on_copied(id, 1), Err(Refused::NotNow), "offered");
    s.send(Body::RdmaRdCompl(600), 0).unwrap();
    grant(&mut s, 2);
    s.send(Body::SendSm, 0).unwrap();
    s.drain();
    assert_eq!(
        s.conn.on_copied(id, 401),
        Err(Refused::NotNow),
        "more than its rest"
    );
    s.conn.on_copied(id, 400).unwrap();
    s.drain();
    assert_eq!(s.conn.on_copied(id, 0), Err(Refused::Stale), "forgotten");
    assert_eq!(s.conn.unsent(), 400);
}
