// SPDX-License-Identifier: GPL-2.0

//! SinkAvail: one engine as the source that writes and as the sink that offers,
//! its peer written out.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test says what is wrong by panicking"
)]

mod script;

use script::{
    lent::{change, RUN, SINK, SRC_AVAIL},
    zcopy, Did, Script,
};
use sdp_engine::engine::{
    conn::{
        Config, Ended, Mode, Queue, RemoteSink, SinkBuffer, SinkEnd, SinkId, SinkWhy, Why, Zcopy,
    },
    error::{PeerError, Refused},
    timer::Timer,
    wire::{
        avail::{SinkAvail, SrcAvail},
        mode::Half,
        Body, Mid,
    },
};

fn offer(len: u32, non_discards: u32) -> Body {
    Body::SinkAvail(SinkAvail {
        len,
        r_key: 9,
        va: 0x20_0000,
        non_discards,
    })
}

fn to(va: u64) -> RemoteSink {
    RemoteSink { r_key: 9, va }
}

/// A source in Pipelined mode.
fn source() -> Script {
    let mut s = Script::zcopy(4);
    s.conn.request_pipelined().unwrap();
    s.news();
    s
}

/// A sink of a source in Pipelined mode.
fn sink() -> Script {
    let mut s = Script::zcopy(4);
    s.send(change(Half::Receive, Mode::Pipelined), 0).unwrap();
    s
}

fn bodies(did: &[Did]) -> Vec<Body> {
    did.iter()
        .filter_map(|did| match did {
            Did::Sent(repr) => Some(repr.body),
            _ => None,
        })
        .collect()
}

fn complete_writes(s: &mut Script) {
    for _ in 0..4 {
        s.conn.handle_write_completed();
    }
}

//= test: SINK-3, SINK-4
#[test]
fn a_run_is_written_and_completed_behind_it() {
    let mut s = source();
    s.send(offer(1500, 0), 0).unwrap();
    let id = s.conn.queue_run(RUN).unwrap();
    let did = s.news();
    assert_eq!(did[0], Did::Wrote(to(0x20_0000), 1000));
    assert_eq!(did[1], Did::Returned(id, Why::Through));
    assert_eq!(bodies(&did), [Body::RdmaWrCompl(1000)]);
    assert_eq!(s.conn.stats().written_bytes_sent, 1000);
    assert_eq!(s.conn.stats().sink_avails_received, 1);
}

/// A source with SrcAvails that have crossed two SinkAvails, and its next run, held back.
fn crossed() -> Script {
    let mut s = source();
    assert!(!s.conn.hold_offers(true));
    for _ in 0..2 {
        s.conn.queue_run(RUN).unwrap();
        assert_eq!(s.sent()[0].mid(), Mid::SrcAvail);
        s.send(offer(1000, 0), 0).unwrap();
        assert_eq!(bodies(&s.news()), [Body::RdmaWrCompl(1000)]);
        complete_writes(&mut s);
    }
    s.conn.queue_run(RUN).unwrap();
    assert_eq!(s.news(), []);
    s
}

//= test: CROSS-2
#[test]
fn a_srcavail_that_would_cross_waits_for_the_sinkavail() {
    let mut s = crossed();
    for _ in 0..100 {
        s.send(offer(1000, 0), 0).unwrap();
        let did = s.news();
        assert_eq!(did[0], Did::Wrote(to(0x20_0000), 1000));
        assert_eq!(bodies(&did), [Body::RdmaWrCompl(1000)]);
        complete_writes(&mut s);
        s.conn.queue_run(RUN).unwrap();
        assert_eq!(s.news(), []);
    }
    assert_eq!(s.conn.stats().src_avails_sent, 2);
}

#[test]
fn a_srcavail_is_not_held_back_for_long() {
    let mut s = crossed();
    assert!(s.conn.hold_offers(false));
    assert_eq!(s.sent()[0].mid(), Mid::SrcAvail);
    assert!(!s.conn.hold_offers(false));
    // The end of the stream ends the wait as well.
    let mut s = crossed();
    s.conn.shutdown_send();
    assert_eq!(s.sent()[0].mid(), Mid::SrcAvail);
    // A program that gives up leaves nothing behind.
    let mut s = crossed();
    s.conn.recall();
    assert!(s.sent().contains(&Body::Data));
    s.conn.hold_offers(false);
    assert_eq!(s.sent(), []);
}

#[test]
fn several_writes_fill_a_buffer_and_one_completion_tells() {
    let mut s = source();
    s.send(offer(1500, 0), 0).unwrap();
    s.conn.queue_run(RUN).unwrap();
    s.conn.queue_run(RUN).unwrap();
    let did = s.news();
    assert_eq!(did[0], Did::Wrote(to(0x20_0000), 1000));
    assert_eq!(did[2], Did::Wrote(to(0x20_0000 + 1000), 500));
    assert_eq!(bodies(&did)[0], Body::RdmaWrCompl(1500));
    // Nothing more to write to: offered.
    assert_eq!(bodies(&did)[1].mid(), Mid::SrcAvail);
    // Plain bytes too, in pieces that can be gathered, and no more in flight
    // than agreed.
    let mut s = source();
    s.send(offer(800, 0), 0).unwrap();
    s.queue(1000);
    let did = s.news();
    assert_eq!(
        did,
        [
            Did::Wrote(to(0x20_0000), 300),
            Did::Wrote(to(0x20_0000 + 300), 300)
        ]
    );
    complete_writes(&mut s);
    let did = s.news();
    assert_eq!(did[0], Did::Wrote(to(0x20_0000 + 600), 200));
    assert_eq!(
        bodies(&did),
        [Body::RdmaWrCompl(800), Body::Data, Body::Data]
    );
}

#[test]
fn writes_into_an_offered_buffer_are_not_cut() {
    let mut s = source();
    assert!(s.conn.chunk_most(1000).is_some());
    s.send(offer(800, 0), 0).unwrap();
    assert_eq!(s.conn.chunk_most(1000), None);
}

//= test: SINK-4
#[test]
fn one_completion_tells_of_all_runs_also_when_writes_are_waited_for() {
    let mut s = source();
    s.send(offer(4000, 0), 0).unwrap();
    for _ in 0..3 {
        s.conn.queue_run(RUN).unwrap();
    }
    let did = s.news();
    let writes = did.iter().filter(|did| matches!(did, Did::Wrote(..)));
    assert_eq!((writes.count(), bodies(&did)), (2, vec![]));
    complete_writes(&mut s);
    let did = s.news();
    assert_eq!(did[0], Did::Wrote(to(0x20_0000 + 2000), 1000));
    assert_eq!(bodies(&did), [Body::RdmaWrCompl(3000)]);
}

#[test]
fn a_run_behind_a_completion_that_waits_for_credits_does_not_wait_itself() {
    let mut s = Script::with(zcopy(), 4, 4);
    s.conn.request_pipelined().unwrap();
    s.news();
    s.bufs = 2;
    s.send(offer(1000, 0), 0).unwrap();
    for _ in 0..2 {
        s.conn.queue_run(RUN).unwrap();
    }
    assert_eq!(s.step(), Some(Did::Wrote(to(0x20_0000), 1000)));
    s.send(Body::ChRcvBuf(5), 0).unwrap();
    assert_eq!(bodies(&s.news()), [Body::ChRcvBufAck(100)]);
    assert_eq!((s.conn.credits(), s.conn.stats().credit_stalls), (1, 0));
    s.bufs = 4;
    s.send(Body::Data, 0).unwrap();
    let sent = bodies(&s.news());
    assert_eq!(sent, [Body::RdmaWrCompl(1000), Body::SrcAvail(SRC_AVAIL)]);
}

//= test: DATA-5
#[test]
fn a_few_bytes_behind_a_write_do_not_wait_for_it() {
    let mut s = source();
    s.send(offer(1500, 0), 0).unwrap();
    s.conn.queue_run(RUN).unwrap();
    assert_eq!(bodies(&s.news()), [Body::RdmaWrCompl(1000)]);
    s.queue(10);
    assert!(matches!(s.step(), Some(Did::Sent(repr)) if repr.payload_len == 10));
    // They are few, and others behind them wait.
    s.queue(10);
    assert_eq!(s.step(), None);
    s.complete();
    assert_eq!(bodies(&s.news()), [Body::Data]);
}

//= test: SRC-2, SRC-3
#[test]
fn the_last_byte_of_a_run_is_offered_in_pipelined_mode() {
    let mut s = source();
    s.send(offer(999, 0), 0).unwrap();
    s.conn.queue_run(RUN).unwrap();
    assert_eq!(s.step(), Some(Did::Wrote(to(0x20_0000), 999)));
    let last = SrcAvail {
        len: 1,
        va: SRC_AVAIL.va + 999,
        ..SRC_AVAIL
    };
    let sent = bodies(&s.news());
    assert_eq!(sent, [Body::RdmaWrCompl(999), Body::SrcAvail(last)]);
}

//= test: DISCARD-3, URGENT-4
#[test]
fn small_and_urgent_bytes_go_as_data_and_drop_the_oldest() {
    let mut s = source();
    s.send(offer(500, 0), 0).unwrap();
    s.send(offer(500, 0), 0).unwrap();
    s.queue(100);
    assert_eq!(bodies(&s.news()), [Body::Data]);
    s.conn
        .queue(
            400,
            Queue {
                more: false,
                urgent: true,
            },
        )
        .unwrap();
    assert_eq!(bodies(&s.news()), [Body::Data; 4]);
    // The first two used up one each and were not counted, three were.
    s.send(offer(500, 3), 0).unwrap();
    assert_eq!(s.conn.stats().sink_avails_stale, 0);
    s.conn.queue_run(RUN).unwrap();
    assert!(matches!(s.news()[0], Did::Wrote(_, 500)));
}

//= test: DISCARD-4
#[test]
fn a_sink_avail_that_crossed_data_is_stale_and_the_next_is_not() {
    let mut s = source();
    s.queue(10);
    s.news();
    s.conn.queue_run(RUN).unwrap();
    s.news();
    s.send(offer(500, 0), 0).unwrap();
    assert_eq!(s.conn.stats().sink_avails_stale, 1);
    // Our SrcAvail is not concerned.
    assert_eq!(s.news(), []);
    s.send(offer(500, 0), 0).unwrap();
    assert_eq!(s.conn.stats().sink_avails_stale, 1);
    assert!(matches!(s.news()[0], Did::Wrote(_, 500)));
}

//= test: CROSS-2, SRCCANCEL-7, SRCCANCEL-6
#[test]
fn a_valid_sink_avail_voids_our_src_avails_and_ends_a_cancel() {
    let mut s = source();
    let first = s.conn.queue_run(RUN).unwrap();
    let second = s.conn.queue_run(RUN).unwrap();
    assert_eq!(bodies(&s.news()).len(), 2);
    s.conn.withdraw(second).unwrap();
    assert_eq!(bodies(&s.news()), [Body::SrcAvailCancel]);
    s.send(offer(1500, 0), 0).unwrap();
    let did = s.news();
    assert_eq!(
        did[..4],
        [
            Did::Dropped(second, 1000),
            Did::Returned(second, Why::Withdrawn),
            Did::Wrote(to(0x20_0000), 1000),
            Did::Returned(first, Why::Through)
        ]
    );
    assert_eq!(bodies(&did), [Body::RdmaWrCompl(1000)]);
    assert_eq!(s.conn.timers().next(), None);
    // Late answers to what is void are ignored.
    s.send(Body::SendSm, 0).unwrap();
    assert_eq!(s.conn.stats().stale_answers, 1);
}

//= test: SINKCANCEL-2, SINKCANCEL-3, SINKCANCEL-4
#[test]
fn a_cancel_completes_what_was_written_drops_the_rest_and_is_answered_once() {
    // None held.
    let mut s = source();
    s.send(Body::SinkAvailCancel, 0).unwrap();
    assert_eq!(s.news(), []);
    // Held and unwritten.
    s.send(offer(500, 0), 0).unwrap();
    s.send(offer(500, 0), 0).unwrap();
    s.send(Body::SinkAvailCancel, 0).unwrap();
    assert_eq!(bodies(&s.news()), [Body::SinkCancelAck]);
    // One written in part, one not.
    s.send(offer(2000, 0), 0).unwrap();
    s.send(offer(500, 0), 0).unwrap();
    s.queue(1000);
    assert_eq!(s.news().len(), 2);
    s.send(Body::SinkAvailCancel, 0).unwrap();
    assert_eq!(
        bodies(&s.news())[..2],
        [Body::RdmaWrCompl(600), Body::SinkCancelAck]
    );
    // One written in part, and nothing dropped.
    let mut s = source();
    s.send(offer(2000, 0), 0).unwrap();
    s.queue(1000);
    assert_eq!(s.news().len(), 2);
    s.send(Body::SinkAvailCancel, 0).unwrap();
    assert_eq!(bodies(&s.news())[0], Body::RdmaWrCompl(600));
    assert!(!bodies(&s.news()).contains(&Body::SinkCancelAck));
}

//= test: SINKCANCEL-7
#[test]
fn a_second_cancel_before_the_answer_is_a_violation() {
    // Without credits for an answer.
    let mut s = Script::with(zcopy(), 4, 4);
    s.conn.request_pipelined().unwrap();
    s.news();
    s.bufs = 0;
    s.send(offer(500, 0), 0).unwrap();
    s.send(Body::SinkAvailCancel, 0).unwrap();
    s.news();
    assert_eq!(
        s.send(Body::SinkAvailCancel, 0).err(),
        Some(PeerError::CancelOutstanding(Mid::SinkAvailCancel))
    );
}

//= test: SINK-2, ADVERT-1, MODE-5
#[test]
fn sink_avails_that_cannot_be_are_violations() {
    let fault = |mut s: Script, body| s.send(body, 0).err();
    assert_eq!(fault(source(), offer(99, 0)), Some(PeerError::SinkAvailLen));
    assert_eq!(fault(source(), offer(100, 0)), None);
    let range = PeerError::AdvertRange(Mid::SinkAvail);
    assert_eq!(fault(source(), offer(0, 0)), Some(range));
    let past = SinkAvail {
        len: 500,
        r_key: 9,
        va: u64::MAX - 100,
        non_discards: 0,
    };
    assert_eq!(fault(source(), Body::SinkAvail(past)), Some(range));
    let combined = || Script::zcopy(4);
    for body in [offer(500, 0), Body::SinkAvailCancel] {
        let error = PeerError::ModeForbids(body.mid());
        assert_eq!(fault(combined(), body), Some(error));
    }
    for body in [Body::SinkCancelAck, Body::RdmaWrCompl(1)] {
        let error = PeerError::ModeForbids(body.mid());
        assert_eq!(fault(combined(), body), Some(error));
    }
    let mut s = source();
    for _ in 0..4 {
        s.send(offer(500, 0), 0).unwrap();
        s.news();
    }
    assert_eq!(
        s.send(offer(500, 0), 0).err(),
        Some(PeerError::TooManyAdverts(Mid::SinkAvail))
    );
}

//= test: DATA-2, CLOSE-3
#[test]
fn payload_of_a_sink_avail_is_bound_to_its_own_direction() {
    // Which has ended.
    let mut s = source();
    s.send(Body::DisConn, 0).unwrap();
    s.drain();
    s.send(offer(500, 0), 0).unwrap();
    s.drain();
    assert_eq!(
        s.send(offer(500, 0), 7).err(),
        Some(PeerError::AfterDisConn(Mid::SinkAvail))
    );
    // In which a SrcAvail is outstanding.
    let mut s = source();
    s.send(Body::SrcAvail(SRC_AVAIL), 1).unwrap();
    s.drain();
    s.send(offer(500, 0), 0).unwrap();
    s.drain();
    assert_eq!(
        s.send(offer(500, 0), 7).err(),
        Some(PeerError::SrcAvailOutstanding(Mid::SinkAvail))
    );
}

//= test: SINK-6, DISCARD-1
#[test]
fn payload_of_a_sink_avail_is_taken_valid_or_stale() {
    let mut s = source();
    assert_eq!(s.send(offer(500, 0), 7).unwrap().payload_len, 7);
    assert_eq!(s.send(offer(500, 5), 8).unwrap().payload_len, 8);
    assert_eq!(s.conn.stats().sink_avails_stale, 1);
}

#[test]
fn a_sink_avail_behind_our_disconn_means_nothing() {
    let mut s = source();
    s.send(offer(500, 0), 0).unwrap();
    s.conn.shutdown_send();
    assert_eq!(s.sent(), [Body::DisConn]);
    s.send(offer(500, 0), 0).unwrap();
    s.send(Body::SinkAvailCancel, 0).unwrap();
    assert_eq!(s.news(), []);
}

//= test: SRC-8, CLOSE-5
#[test]
fn disconn_waits_for_writes() {
    let mut s = source();
    s.send(offer(1500, 0), 0).unwrap();
    s.conn.queue_run(RUN).unwrap();
    s.conn.shutdown_send();
    let sent = bodies(&s.news());
    assert_eq!(sent, [Body::RdmaWrCompl(1000)]);
    s.conn.handle_write_completed();
    assert_eq!(s.sent(), [Body::DisConn]);
}

#[test]
fn a_close_waits_as_long_as_writes_complete() {
    let mut s = source();
    s.send(offer(2000, 0), 0).unwrap();
    s.queue(1500);
    s.news();
    s.conn.close_receive();
    s.conn.shutdown_send();
    for _ in 0..2 {
        s.conn.handle_write_completed();
        s.conn.handle_timeout(Timer::PeerClose);
        assert_eq!(s.news().len(), 1);
        assert_eq!(s.conn.ended(), None);
    }
    s.conn.handle_timeout(Timer::PeerClose);
    s.news();
    assert_eq!(s.conn.ended(), Some(Ended::TimedOut));
}

#[test]
fn a_source_that_does_not_write_lets_buffers_go() {
    let cfg = Config {
        zcopy: Zcopy {
            write: false,
            ..zcopy().zcopy
        },
        ..zcopy()
    };
    let mut s = Script::with(cfg, 20, 4);
    s.conn.request_pipelined().unwrap();
    s.news();
    s.send(offer(500, 0), 0).unwrap();
    let id = s.conn.queue_run(RUN).unwrap();
    let did = s.news();
    assert_eq!(did[0], Did::Returned(id, Why::NotOffered));
    assert!(bodies(&did).iter().all(|body| *body == Body::Data));
}

// As a sink.

fn offered(s: &mut Script) -> SinkId {
    let id = s.conn.offer_sink(SINK).unwrap();
    let sent = s.sent();
    assert!(
        sent.iter().any(|body| body.mid() == Mid::SinkAvail),
        "{sent:?}"
    );
    id
}

fn end(sink: SinkId, len: u32) -> Option<SinkEnd> {
    Some(SinkEnd { sink, len })
}

//= test: SINK-1, SINK-4, DISCARD-2
#[test]
fn an_offer_is_sent_in_pipelined_mode_and_ends_by_a_completion() {
    let mut s = Script::zcopy(4);
    assert_eq!(s.conn.sink_room(), 0);
    assert_eq!(s.conn.offer_sink(SINK), Err(Refused::NotNow));
    let mut s = sink();
    s.send(Body::Data, 10).unwrap();
    assert_eq!(s.conn.sink_room(), 3);
    let id = s.conn.offer_sink(SINK).unwrap();
    // Behind one message that had payload.
    assert_eq!(s.sent()[0], offer(500, 1));
    assert_eq!(
        s.send(Body::RdmaWrCompl(300), 0).unwrap().sink,
        end(id, 300)
    );
    assert_eq!(s.conn.stats().written_bytes_received, 300);
    assert_eq!(
        s.send(Body::RdmaWrCompl(1), 0).err(),
        Some(PeerError::Unsolicited(Mid::RdmaWrCompl))
    );
}

//= test: DISCARD-1, DISCARD-2
#[test]
fn each_message_with_payload_uses_up_the_oldest() {
    let mut s = sink();
    let (first, second) = (offered(&mut s), offered(&mut s));
    let delivery = s.send(Body::Data, 10).unwrap();
    assert_eq!((delivery.payload_len, delivery.sink), (10, end(first, 0)));
    s.send(Body::Data, 0).unwrap();
    s.drain();
    assert_eq!(s.send(Body::Data, 10).unwrap().sink, end(second, 0));
    s.drain();
    assert_eq!(s.send(Body::Data, 10).unwrap().sink, None);
    s.conn.offer_sink(SINK).unwrap();
    // One of three used up none.
    assert!(s.sent().contains(&offer(500, 1)));
}

//= test: SINK-5
#[test]
fn completions_beyond_a_buffer_or_of_nothing_are_violations() {
    for len in [0, 501, u32::MAX] {
        let mut s = sink();
        let id = offered(&mut s);
        assert_eq!(
            s.send(Body::RdmaWrCompl(len), 0).err(),
            Some(PeerError::CompletionLen(Mid::RdmaWrCompl))
        );
        assert_eq!(
            s.news(),
            [Did::SinkReturned(id, SinkWhy::Over), Did::Disconnect]
        );
    }
}

//= test: CROSS-1
#[test]
fn a_src_avail_that_crosses_an_offer_is_dropped_without_a_word() {
    let mut s = sink();
    let id = offered(&mut s);
    assert_eq!(s.send(Body::SrcAvail(SRC_AVAIL), 0).unwrap().remote, 0);
    assert_eq!(s.conn.remote_len(), 0);
    assert!(s.sent().iter().all(|body| *body == Body::Data));
    assert_eq!(
        s.send(Body::RdmaWrCompl(500), 0).unwrap().sink,
        end(id, 500)
    );
    s.send(Body::SrcAvail(SRC_AVAIL), 0).unwrap();
    assert_eq!(s.conn.remote_len(), 1000);
    assert_eq!(s.conn.offer_sink(SINK), Err(Refused::NotNow));
}

//= test: SINKCANCEL-1, SINKCANCEL-5
#[test]
fn a_cancel_ends_by_its_answer_by_completions_or_by_payload() {
    let mut s = sink();
    let (first, second) = (offered(&mut s), offered(&mut s));
    s.conn.cancel_sinks();
    s.conn.cancel_sinks();
    assert_eq!(s.sent(), [Body::SinkAvailCancel]);
    assert_eq!(s.conn.timers().next(), Some(Timer::SinkCancelAnswer));
    assert_eq!(s.conn.offer_sink(SINK), Err(Refused::Busy));
    assert_eq!(s.send(Body::RdmaWrCompl(5), 0).unwrap().sink, end(first, 5));
    s.send(Body::SinkCancelAck, 0).unwrap();
    assert_eq!(s.news()[0], Did::SinkReturned(second, SinkWhy::Cancelled));
    assert_eq!(s.conn.timers().next(), None);
    // By the last completion, and by payload.
    for body in [Body::RdmaWrCompl(5), Body::Data] {
        let id = offered(&mut s);
        s.conn.cancel_sinks();
        s.news();
        let payload = u32::from(body == Body::Data);
        let ended = s.send(body, payload).unwrap().sink.unwrap();
        assert_eq!(ended.sink, id);
        assert_eq!(s.conn.timers().next(), None);
    }
    offered(&mut s);
}

//= test: SINKCANCEL-6
#[test]
fn an_answer_without_a_cancel_is_a_violation() {
    let mut s = sink();
    offered(&mut s);
    assert_eq!(
        s.send(Body::SinkCancelAck, 0).err(),
        Some(PeerError::Unsolicited(Mid::SinkCancelAck))
    );
    // Wanted is not sent.
    let mut s = Script::with(zcopy(), 4, 4);
    s.send(change(Half::Receive, Mode::Pipelined), 0).unwrap();
    s.conn.offer_sink(SINK).unwrap();
    s.news();
    s.bufs = 0;
    s.send(Body::Data, 0).unwrap();
    s.conn.cancel_sinks();
    assert_eq!(s.news(), []);
    assert!(s.send(Body::SinkCancelAck, 0).is_err());
}

#[test]
fn an_offer_that_was_not_sent_ends_with_what_comes_before_it() {
    // No credit to send it.
    let poor = || {
        let mut s = Script::with(zcopy(), 3, 4);
        s.queue(1);
        s.news();
        s.bufs = 1;
        s.send(change(Half::Receive, Mode::Pipelined), 0).unwrap();
        let id = s.conn.offer_sink(SINK).unwrap();
        assert_eq!(s.news(), []);
        (s, id)
    };
    let (mut s, id) = poor();
    assert_eq!(s.send(Body::Data, 1).unwrap().sink, end(id, 0));
    let (mut s, id) = poor();
    assert_eq!(s.send(Body::SrcAvail(SRC_AVAIL), 0).unwrap().remote, 1000);
    assert_eq!(s.news(), [Did::SinkReturned(id, SinkWhy::Crossed)]);
    let (mut s, id) = poor();
    s.conn.cancel_sinks();
    assert_eq!(s.news(), [Did::SinkReturned(id, SinkWhy::Cancelled)]);
    assert_eq!(s.conn.timers().next(), None);
}

//= test: MODE-6, SINK-7
#[test]
fn the_end_of_the_stream_or_of_the_mode_gives_offers_back() {
    let mut s = sink();
    let id = offered(&mut s);
    s.send(change(Half::Receive, Mode::Combined), 0).unwrap();
    assert_eq!(s.news()[0], Did::SinkReturned(id, SinkWhy::Crossed));
    let mut s = sink();
    let id = offered(&mut s);
    assert!(s.send(Body::DisConn, 0).unwrap().peer_closed);
    assert_eq!(s.news()[0], Did::SinkReturned(id, SinkWhy::Crossed));
    assert_eq!(s.conn.sink_room(), 0);
    // And the application's end takes them back.
    let mut s = sink();
    offered(&mut s);
    s.conn.close_receive();
    assert_eq!(s.sent(), [Body::SinkAvailCancel]);
    s.send(Body::RdmaWrCompl(5), 0).unwrap();
    s.news();
    assert_eq!(s.conn.ended(), Some(Ended::Aborted));
}

//= test: SINK-2
#[test]
fn an_offer_has_room_for_a_message_and_one_place_is_left_for_the_source() {
    let mut s = sink();
    assert_eq!(s.conn.sink_len_min(), 100);
    for bad in [
        SinkBuffer { len: 99, ..SINK },
        SinkBuffer {
            va: u64::MAX,
            ..SINK
        },
    ] {
        assert_eq!(s.conn.offer_sink(bad), Err(Refused::BadRange));
    }
    let least = SinkBuffer { len: 100, ..SINK };
    s.conn.offer_sink(least).unwrap();
    assert_eq!(s.sent()[0], offer(100, 0));
    for _ in 0..2 {
        offered(&mut s);
    }
    assert_eq!(s.conn.offer_sink(SINK), Err(Refused::Busy));
    s.conn.queue_run(RUN).unwrap();
    assert_eq!(s.sent()[0].mid(), Mid::SrcAvail);
    assert_eq!(s.conn.unsent(), 999);
}

//= test: ADVERT-1
#[test]
fn adverts_of_both_kinds_together_keep_the_peers_limit() {
    let both = || {
        let mut s = source();
        s.send(change(Half::Receive, Mode::Pipelined), 0).unwrap();
        s.news();
        s
    };
    let mids = |s: &mut Script| -> Vec<Mid> { bodies(&s.news()).iter().map(Body::mid).collect() };
    // Two SrcAvails leave room for two SinkAvails of three.
    let mut s = both();
    for _ in 0..2 {
        s.conn.queue_run(RUN).unwrap();
    }
    assert_eq!(mids(&mut s), [Mid::SrcAvail; 2]);
    for _ in 0..3 {
        s.conn.offer_sink(SINK).unwrap();
    }
    assert_eq!(mids(&mut s), [Mid::SinkAvail; 2]);
    s.send(Body::RdmaRdCompl(1000), 0).unwrap();
    assert_eq!(mids(&mut s), [Mid::SinkAvail]);
    // Three SinkAvails leave room for one SrcAvail.
    let mut s = both();
    for _ in 0..3 {
        s.conn.offer_sink(SINK).unwrap();
    }
    assert_eq!(mids(&mut s), [Mid::SinkAvail; 3]);
    for _ in 0..2 {
        s.conn.queue_run(RUN).unwrap();
    }
    assert_eq!(mids(&mut s), [Mid::SrcAvail]);
    s.send(Body::RdmaWrCompl(5), 0).unwrap();
    assert_eq!(mids(&mut s), [Mid::SrcAvail]);
}

//= test: MR-2
#[test]
fn whatever_ends_the_connection_gives_every_offer_back_once() {
    let ends: [fn(&mut Script); 4] = [
        |s| s.conn.abort(),
        |s| s.conn.handle_link_failed(),
        |s| s.conn.handle_disconnect_requested(),
        |s| {
            s.send(Body::SuspCommAck, 0).unwrap_err();
        },
    ];
    for end in ends {
        for cancelled in [false, true] {
            let mut s = sink();
            let ids = [offered(&mut s), offered(&mut s)];
            if cancelled {
                s.conn.cancel_sinks();
                s.news();
            }
            end(&mut s);
            // Before the end is told as well.
            assert_eq!(s.conn.sink_room(), 0);
            assert_eq!(s.conn.offer_sink(SINK), Err(Refused::Ended));
            let did = s.news();
            for id in ids {
                assert!(
                    did.contains(&Did::SinkReturned(id, SinkWhy::Over)),
                    "{did:?}"
                );
            }
            let count = did
                .iter()
                .filter(|did| matches!(did, Did::SinkReturned(..)))
                .count();
            assert_eq!(count, 2);
            assert_eq!(s.conn.offer_sink(SINK), Err(Refused::Ended));
        }
    }
}

#[test]
fn a_peer_that_never_answers_a_cancel_is_given_up() {
    let mut s = sink();
    offered(&mut s);
    s.conn.cancel_sinks();
    s.news();
    for _ in 0..5 {
        assert_eq!(s.conn.timers().next(), Some(Timer::SinkCancelAnswer));
        s.conn.cancel_sinks();
        assert_eq!(s.conn.ended(), None);
        s.conn.handle_timeout(Timer::SinkCancelAnswer);
    }
    s.news();
    assert_eq!(s.conn.ended(), Some(Ended::TimedOut));
}

/// One of both kinds is awaited at any time.
//= test: SRCCANCEL-9
#[test]
fn cancels_of_both_kinds_have_their_own_limits() {
    let mut s = sink();
    for _ in 0..4 {
        offered(&mut s);
        s.conn.cancel_sinks();
        assert_eq!(s.sent(), [Body::SinkAvailCancel]);
        for _ in 0..4 {
            s.conn.handle_timeout(Timer::SinkCancelAnswer);
        }
        s.conn.queue_run(RUN).unwrap();
        s.drain();
        s.conn.recall();
        assert_eq!(s.sent(), [Body::SrcAvailCancel]);
        s.send(Body::SinkCancelAck, 0).unwrap();
        for _ in 0..4 {
            s.conn.handle_timeout(Timer::CancelAnswer);
        }
        offered(&mut s);
        s.conn.cancel_sinks();
        s.drain();
        assert!(s.conn.awaits_cancel() && s.conn.awaits_sink_cancel());
        s.send(Body::RdmaRdCompl(999), 0).unwrap();
        s.send(Body::SinkCancelAck, 0).unwrap();
        s.drain();
        assert_eq!(s.conn.timers().next(), None);
    }
    assert_eq!(s.conn.ended(), None);
}

/// A completion that belongs to no Write of ours is no progress of our data.
//= test: CLOSE-9
#[test]
fn a_write_that_was_not_posted_does_not_complete() {
    let mut s = source();
    s.conn.close_receive();
    s.conn.shutdown_send();
    s.news();
    s.conn.handle_write_completed();
    s.conn.handle_timeout(Timer::PeerClose);
    s.drain();
    assert_eq!(s.conn.ended(), Some(Ended::TimedOut));
}

#[test]
fn req_pipe_rides_on_what_is_sent_to_a_peer_that_can() {
    let mut s = Script::zcopy(4);
    s.conn.set_req_pipe(true);
    s.queue(1);
    assert!(matches!(s.news()[0], Did::Sent(repr) if repr.flags.req_pipe));
    let mut s = Script::zcopy(1);
    s.conn.set_req_pipe(true);
    s.queue(1);
    assert!(matches!(s.news()[0], Did::Sent(repr) if !repr.flags.req_pipe));
}

#[test]
fn who_has_memory_written_from_is_offered_more() {
    let mut s = source();
    let decline = |s: &mut Script| {
        s.conn.queue_run(RUN).unwrap();
        assert_eq!(bodies(&s.news()), [Body::SrcAvail(SRC_AVAIL)]);
        s.send(Body::SendSm, 0).unwrap();
        s.drain();
    };
    decline(&mut s);
    // Ten messages with payload for each run that was asked for.
    s.send(offer(1500, 10), 0).unwrap();
    s.conn.queue_run(RUN).unwrap();
    assert_eq!(bodies(&s.news()), [Body::RdmaWrCompl(1000)]);
    s.conn.handle_write_completed();
    decline(&mut s);
}
