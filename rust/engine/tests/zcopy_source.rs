// SPDX-License-Identifier: GPL-2.0

//! One engine as a source without copies, its sink written out.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test says what is wrong by panicking"
)]

mod script;

use script::{lent::RUN, zcopy, Did, Script};
use sdp_engine::engine::{
    conn::{Config, Ended, Mode, Queue, Run, RunId, Why, Zcopy},
    error::{PeerError, Refused},
    policy::patience,
    timer::Timer,
    types::Mseq,
    wire::{
        avail::SrcAvail,
        mode::{Half, ModeChange},
        Body, Mid,
    },
};

/// A source in Combined mode towards a peer like OFED.
fn combined() -> Script {
    Script::zcopy(1)
}

/// A source in Pipelined mode.
fn pipelined() -> Script {
    let mut s = Script::zcopy(4);
    s.conn.request_pipelined().unwrap();
    assert_eq!(
        s.sent(),
        [Body::ModeChange(ModeChange {
            half: Half::Receive,
            mode: Mode::Pipelined
        })]
    );
    s
}

fn run(s: &mut Script) -> RunId {
    s.conn.queue_run(RUN).unwrap()
}

fn advert(len: u32, va: u64) -> Body {
    Body::SrcAvail(SrcAvail { len, r_key: 7, va })
}

/// Bytes of each kind that an engine has done with, and the bodies.
fn bodies(did: &[Did]) -> Vec<(Body, u32)> {
    did.iter()
        .filter_map(|did| match did {
            Did::Sent(repr) => Some((repr.body, repr.payload_len)),
            _ => None,
        })
        .collect()
}

fn notices(did: &[Did]) -> Vec<Did> {
    did.iter()
        .filter(|did| !matches!(did, Did::Sent(_)))
        .copied()
        .collect()
}

//= test: SRC-1, READ-1, READ-2, MR-1
#[test]
fn a_run_is_advertised_read_in_parts_and_returned() {
    let mut s = combined();
    let id = run(&mut s);
    assert_eq!(s.conn.unsent(), 1000);
    assert_eq!(bodies(&s.news()), [(advert(1000, 0x10_0000), 1)]);
    assert_eq!(s.conn.unsent(), 999);
    s.send(Body::RdmaRdCompl(400), 0).unwrap();
    assert_eq!(notices(&s.news()), [Did::Taken(id, 400)]);
    s.send(Body::RdmaRdCompl(599), 0).unwrap();
    assert_eq!(
        notices(&s.news()),
        [Did::Taken(id, 599), Did::Returned(id, Why::Through)]
    );
    assert_eq!(s.conn.unsent(), 0);
    assert_eq!(s.conn.stats().read_bytes_sent, 999);
    assert_eq!(s.conn.timers().next(), None);
}

//= test: ADVERT-2, ADVERT-3
#[test]
fn towards_one_advert_the_next_waits_for_the_first_and_the_mode_stays() {
    let mut s = combined();
    let first = run(&mut s);
    let second = run(&mut s);
    s.queue(10);
    assert_eq!(bodies(&s.news()).len(), 1);
    assert_eq!(s.conn.send_mode(), Mode::Combined);
    assert_eq!(s.conn.request_pipelined(), Err(Refused::NotNow));
    s.send(Body::RdmaRdCompl(999), 0).unwrap();
    let did = s.news();
    assert_eq!(did[0], Did::Taken(first, 999));
    assert_eq!(bodies(&did), [(advert(1000, 0x10_0000), 1)]);
    s.send(Body::RdmaRdCompl(999), 0).unwrap();
    let did = s.news();
    assert_eq!(did[1], Did::Returned(second, Why::Through));
    assert_eq!(bodies(&did), [(Body::Data, 10)]);
}

//= test: DATA-2, DATA-1
#[test]
fn plain_bytes_go_in_front_and_behind_in_their_order() {
    let mut s = combined();
    s.conn
        .queue(
            30,
            Queue {
                more: true,
                urgent: false,
            },
        )
        .unwrap();
    let id = run(&mut s);
    s.queue(20);
    // Bytes in front are not held back, corked or not.
    assert_eq!(
        bodies(&s.news()),
        [(Body::Data, 30), (advert(1000, 0x10_0000), 1)]
    );
    s.send(Body::RdmaRdCompl(999), 0).unwrap();
    let did = s.news();
    assert_eq!(did[1], Did::Returned(id, Why::Through));
    assert_eq!(bodies(&did), [(Body::Data, 20)]);
}

//= test: SENDSM-1, SRC-4
#[test]
fn send_sm_gives_the_registration_back_and_the_rest_goes_as_data() {
    let mut s = combined();
    let id = run(&mut s);
    s.news();
    s.send(Body::RdmaRdCompl(799), 0).unwrap();
    s.send(Body::SendSm, 0).unwrap();
    let did = s.news();
    assert_eq!(
        notices(&did),
        [Did::Taken(id, 799), Did::Returned(id, Why::SendSm)]
    );
    assert_eq!(did[1], Did::Returned(id, Why::SendSm));
    assert_eq!(bodies(&did), [(Body::Data, 100), (Body::Data, 100)]);
    assert_eq!(s.conn.unsent(), 0);
}

//= test: SENDSM-3, READ-4
#[test]
fn stale_answers_are_ignored_and_counted() {
    let mut s = combined();
    let first = run(&mut s);
    s.news();
    s.send(Body::SendSm, 0).unwrap();
    s.conn.withdraw(first).unwrap();
    assert_eq!(
        s.news(),
        [
            Did::Dropped(first, 999),
            Did::Returned(first, Why::Withdrawn)
        ]
    );
    // About a run that has ended.
    s.send(Body::SendSm, 0).unwrap();
    s.send(Body::RdmaRdCompl(5), 0).unwrap();
    // About what came before. Behind an offer in vain one run is not offered.
    run(&mut s);
    s.drain();
    s.send(Body::Data, 0).unwrap();
    run(&mut s);
    let sent = std::iter::from_fn(|| s.step()).collect::<Vec<_>>();
    assert!(matches!(sent.last(), Some(Did::Sent(repr)) if repr.body.mid() == Mid::SrcAvail));
    s.send(Body::SendSm, 0).unwrap();
    s.send(Body::RdmaRdCompl(5), 0).unwrap();
    assert_eq!(s.conn.stats().stale_answers, 4);
    assert_eq!(s.conn.unsent(), 999);
}

//= test: SENDSM-6, READ-3
#[test]
fn answers_to_nothing_too_much_and_of_nothing_are_violations() {
    let mut s = combined();
    assert_eq!(
        s.send(Body::SendSm, 0).err(),
        Some(PeerError::Unsolicited(Mid::SendSm))
    );
    let fails = |len| {
        let mut s = combined();
        let id = run(&mut s);
        s.news();
        let error = s.send(Body::RdmaRdCompl(len), 0).err();
        if error.is_some() {
            assert_eq!(
                s.news(),
                [Did::Returned(id, Why::Over), Did::Disconnect],
                "{len}"
            );
        }
        error
    };
    let too_much = Some(PeerError::CompletionLen(Mid::RdmaRdCompl));
    assert_eq!(fails(0), too_much);
    assert_eq!(fails(1000), too_much);
    assert_eq!(fails(u32::MAX), too_much);
    assert_eq!(fails(999), None);
    // Of nothing, about nothing.
    let mut s = combined();
    run(&mut s);
    s.news();
    s.send(Body::SendSm, 0).unwrap();
    s.news();
    assert_eq!(s.send(Body::RdmaRdCompl(0), 0).err(), too_much);
}

//= test: ADVERT-1, SRC-3
#[test]
fn pipelined_adverts_go_up_to_the_peers_limit_and_the_windows() {
    let mut s = pipelined();
    let ids: Vec<RunId> = (0..4).map(|_| run(&mut s)).collect();
    assert_eq!(s.conn.run_room(), 0);
    assert_eq!(s.conn.queue_run(RUN), Err(Refused::Busy));
    let did = s.news();
    // Two at first; no byte inline.
    assert_eq!(bodies(&did), [(advert(1000, 0x10_0000), 0); 2]);
    s.send(Body::RdmaRdCompl(1000), 0).unwrap();
    let did = s.news();
    assert_eq!(did[1], Did::Returned(ids[0], Why::Through));
    // Three now: two more.
    assert_eq!(bodies(&did).len(), 2);
    // A peer with a smaller limit.
    let mut s = Script::zcopy(2);
    s.conn.request_pipelined().unwrap();
    for _ in 0..4 {
        run(&mut s);
    }
    s.news();
    for _ in 0..2 {
        s.send(Body::RdmaRdCompl(1000), 0).unwrap();
        assert_eq!(bodies(&s.news()).len(), 1);
    }
}

//= test: SENDSM-4
#[test]
fn one_send_sm_is_about_all_of_them() {
    let mut s = pipelined();
    let (first, second) = (run(&mut s), run(&mut s));
    s.news();
    s.send(Body::RdmaRdCompl(990), 0).unwrap();
    s.send(Body::SendSm, 0).unwrap();
    let did = s.news();
    assert_eq!(
        did[..3],
        [
            Did::Taken(first, 990),
            Did::Returned(first, Why::SendSm),
            Did::Returned(second, Why::SendSm)
        ]
    );
    // In the order of the stream, and no message across the border.
    let lens: Vec<u32> = bodies(&did).iter().map(|(_, len)| *len).collect();
    assert_eq!(lens[..3], [10, 100, 100]);
    assert!(bodies(&did).iter().all(|(body, _)| *body == Body::Data));
}

//= test: SRCCANCEL-1, SRCCANCEL-6, SRCCANCEL-10
#[test]
fn a_recall_is_one_cancel_and_any_answer_resolves_it() {
    // By SendSm.
    let mut s = pipelined();
    let (first, second) = (run(&mut s), run(&mut s));
    s.news();
    s.conn.recall();
    s.conn.recall();
    assert_eq!(s.sent(), [Body::SrcAvailCancel]);
    assert_eq!(s.conn.timers().next(), Some(Timer::CancelAnswer));
    s.send(Body::RdmaRdCompl(500), 0).unwrap();
    assert_eq!(s.news(), [Did::Taken(first, 500)]);
    s.send(Body::SendSm, 0).unwrap();
    let did = s.news();
    assert_eq!(
        notices(&did),
        [
            Did::Returned(first, Why::Recalled),
            Did::Returned(second, Why::Recalled)
        ]
    );
    // The rest as Data, as far as credits go.
    assert!(bodies(&did).iter().all(|(body, _)| *body == Body::Data));
    // By completions.
    let mut s = pipelined();
    let (first, second) = (run(&mut s), run(&mut s));
    s.news();
    s.conn.recall();
    s.news();
    s.send(Body::RdmaRdCompl(1000), 0).unwrap();
    assert_eq!(s.conn.timers().next(), Some(Timer::CancelAnswer));
    s.send(Body::RdmaRdCompl(1000), 0).unwrap();
    assert_eq!(
        notices(&s.news()),
        [
            Did::Taken(first, 1000),
            Did::Returned(first, Why::Through),
            Did::Taken(second, 1000),
            Did::Returned(second, Why::Through)
        ]
    );
    assert_eq!(s.conn.timers().next(), None);
    // By a SendSm that was sent before the cancel arrived.
    let mut s = combined();
    let id = run(&mut s);
    s.news();
    let mut repr = s.next(Body::SendSm, 0);
    s.conn.recall();
    s.news();
    repr.mseq_ack = Mseq::new(1);
    s.send_repr(&repr).unwrap();
    assert_eq!(s.news()[0], Did::Returned(id, Why::Recalled));
    // With nothing outstanding there is no cancel.
    let mut s = combined();
    s.conn.recall();
    assert_eq!(s.news(), []);
}

//= test: SRCCANCEL-10
#[test]
fn a_cancel_that_was_not_sent_yet_is_dropped_when_all_is_read() {
    let mut s = Script::with(zcopy(), 3, 1);
    let id = run(&mut s);
    s.news();
    let mut repr = s.next(Body::RdmaRdCompl(999), 0);
    // Two credits are left, and an announcement takes one.
    s.conn
        .queue(
            1,
            Queue {
                more: false,
                urgent: true,
            },
        )
        .unwrap();
    s.news();
    s.conn.recall();
    assert_eq!(s.news(), []);
    repr.mseq_ack = Mseq::new(1);
    repr.bufs = 3;
    s.send_repr(&repr).unwrap();
    let did = s.news();
    assert_eq!(did[1], Did::Returned(id, Why::Through));
    assert!(!s.sent().contains(&Body::SrcAvailCancel));
}

//= test: SRC-5
#[test]
fn nothing_of_the_stream_goes_while_a_cancel_is_open() {
    let mut s = pipelined();
    run(&mut s);
    s.news();
    s.conn.recall();
    s.news();
    run(&mut s);
    s.queue(10);
    assert_eq!(s.news(), []);
    s.send(Body::SendSm, 0).unwrap();
    assert!(bodies(&s.news()).len() > 1);
}

#[test]
fn what_is_withdrawn_never_goes_and_its_count_is_exact() {
    // Not advertised: at once.
    let mut s = combined();
    let first = run(&mut s);
    let second = run(&mut s);
    s.news();
    s.conn.withdraw(second).unwrap();
    assert_eq!(s.conn.unsent(), 999);
    assert_eq!(
        s.news(),
        [
            Did::Dropped(second, 1000),
            Did::Returned(second, Why::Withdrawn)
        ]
    );
    // Advertised: when the peer has answered.
    s.conn.withdraw(first).unwrap();
    assert_eq!(s.sent(), [Body::SrcAvailCancel]);
    s.send(Body::RdmaRdCompl(99), 0).unwrap();
    s.send(Body::SendSm, 0).unwrap();
    assert_eq!(
        s.news(),
        [
            Did::Taken(first, 99),
            Did::Dropped(first, 900),
            Did::Returned(first, Why::Withdrawn)
        ]
    );
    assert_eq!(s.conn.unsent(), 0);
    // On its way as Data: what is left.
    let third = run(&mut s);
    s.news();
    s.send(Body::SendSm, 0).unwrap();
    while s.conn.unsent() > 799 {
        s.step();
    }
    s.conn.withdraw(third).unwrap();
    assert_eq!(s.step(), Some(Did::Dropped(third, 799)));
    assert_eq!(s.conn.unsent(), 0);
    assert_eq!(s.conn.withdraw(third), Err(Refused::Stale));
}

#[test]
fn a_withdrawal_takes_what_is_behind_it_and_no_plain_bytes() {
    let mut s = pipelined();
    let runs: Vec<RunId> = (0..3).map(|_| run(&mut s)).collect();
    s.queue(10);
    assert_eq!(s.conn.withdraw(runs[1]), Err(Refused::BytesBehind));
    let mut s = pipelined();
    let first = run(&mut s);
    s.queue(10);
    let second = run(&mut s);
    assert_eq!(s.conn.withdraw(first), Err(Refused::BytesBehind));
    s.conn.withdraw(second).unwrap();
    assert_eq!(s.conn.unsent(), 1010);
    let mut s = pipelined();
    let runs: Vec<RunId> = (0..3).map(|_| run(&mut s)).collect();
    s.news();
    s.conn.withdraw(runs[1]).unwrap();
    // The cancel is about the first as well; its rest goes.
    assert_eq!(s.sent(), [Body::SrcAvailCancel]);
    s.send(Body::SendSm, 0).unwrap();
    let did = s.news();
    assert!(did.contains(&Did::Returned(runs[0], Why::SendSm)));
    assert!(did.contains(&Did::Dropped(runs[1], 1000)));
    let data: u32 = bodies(&did).iter().map(|(_, len)| len).sum();
    assert_eq!(data + s.conn.unsent(), 1000);
}

#[test]
fn an_urgent_byte_behind_a_withdrawn_run_keeps_its_place() {
    let mut s = combined();
    let id = run(&mut s);
    s.news();
    s.conn.withdraw(id).unwrap();
    s.news();
    s.conn
        .queue(
            5,
            Queue {
                more: false,
                urgent: true,
            },
        )
        .unwrap();
    s.queue(5);
    s.news();
    s.send(Body::SendSm, 0).unwrap();
    let sent: Vec<_> = s
        .drain()
        .iter()
        .filter_map(|did| match did {
            Did::Sent(repr) => Some((repr.payload_len, repr.flags.oob_pres)),
            _ => None,
        })
        .collect();
    assert_eq!(sent, [(5, true), (5, false)]);
}

#[test]
fn an_urgent_byte_in_front_of_a_withdrawn_run_keeps_its_place() {
    let urgent = Queue {
        more: false,
        urgent: true,
    };
    let mut s = Script::with(zcopy(), 3, 1);
    s.queue(1);
    s.drain();
    // Two credits: neither Data nor SrcAvail goes.
    s.conn.queue(5, urgent).unwrap();
    run(&mut s);
    let second = run(&mut s);
    s.conn.withdraw(second).unwrap();
    assert_eq!(s.conn.unsent(), 1005);
    s.bufs = 4;
    s.send(Body::Data, 0).unwrap();
    let sent = s.news();
    assert!(sent
        .iter()
        .any(|did| matches!(did, Did::Sent(repr) if repr.flags.oob_pres && repr.payload_len == 5)));
    // It is the last byte in front.
    let mut s = combined();
    s.conn.queue(5, urgent).unwrap();
    let id = run(&mut s);
    s.conn.withdraw(id).unwrap();
    let sent = s.news();
    assert!(matches!(
        sent.last(),
        Some(Did::Sent(repr)) if repr.flags.oob_pres && repr.payload_len == 5
    ));
}

//= test: CREDIT-3
#[test]
fn a_src_avail_needs_three_credits_with_payload_or_without() {
    for max_adverts in [1, 4] {
        let mut s = Script::with(zcopy(), 4, max_adverts);
        if max_adverts > 1 {
            s.conn.request_pipelined().unwrap();
            s.news();
            s.bufs = 3;
            s.send(Body::Data, 0).unwrap();
        } else {
            s.queue(1);
            s.news();
        }
        assert_eq!(s.conn.credits(), 3);
        let first = run(&mut s);
        assert_eq!(bodies(&s.news()).len(), 1);
        let _ = first;
        run(&mut s);
        assert_eq!(s.conn.credits(), 2);
        assert_eq!(s.news(), []);
        // Each halt is counted once.
        if max_adverts > 1 {
            assert_eq!(s.news(), []);
            assert_eq!(s.conn.stats().credit_stalls, 1);
            s.send(Body::Data, 0).unwrap();
            assert_eq!(bodies(&s.news()).len(), 1);
            s.conn.queue_run(RUN).unwrap();
            s.send(Body::RdmaRdCompl(1000), 0).unwrap();
            s.bufs = 2;
            s.send(Body::Data, 0).unwrap();
            s.news();
            assert_eq!(s.conn.stats().credit_stalls, 2);
        }
    }
}

#[test]
fn a_run_that_cannot_be_offered_goes_as_data() {
    // Switched off.
    let mut s = combined();
    let id = run(&mut s);
    s.conn.limit_reads(3, false);
    assert_eq!(s.conn.run_room(), 0);
    assert_eq!(s.conn.queue_run(RUN), Err(Refused::NotNow));
    let did = s.news();
    assert_eq!(did[0], Did::Returned(id, Why::NotOffered));
    assert!(bodies(&did).iter().all(|(body, _)| *body == Body::Data));
}

//= test: ADVERT-4
#[test]
fn without_leave_nothing_is_advertised() {
    let cfg = Config {
        zcopy: Zcopy {
            advertise: false,
            ..zcopy().zcopy
        },
        ..zcopy()
    };
    let mut s = Script::with(cfg, 20, 4);
    assert_eq!(s.conn.queue_run(RUN), Err(Refused::NotNow));
}

//= test: ADVERT-4
#[test]
fn switched_off_the_next_is_not_offered_behind_one_that_is_being_read() {
    let mut s = pipelined();
    let first = run(&mut s);
    s.news();
    let second = run(&mut s);
    s.conn.limit_reads(3, false);
    assert_eq!(s.news(), []);
    s.send(Body::RdmaRdCompl(1000), 0).unwrap();
    let did = s.news();
    assert_eq!(
        notices(&did),
        [
            Did::Taken(first, 1000),
            Did::Returned(first, Why::Through),
            Did::Returned(second, Why::NotOffered)
        ]
    );
    assert_eq!(bodies(&did), [(Body::Data, 100); 10]);
}

#[test]
fn a_run_of_two_bytes_is_offered() {
    let mut s = combined();
    s.conn.queue_run(Run { len: 2, ..RUN }).unwrap();
    assert_eq!(bodies(&s.news()), [(advert(2, 0x10_0000), 1)]);
    s.send(Body::RdmaRdCompl(1), 0).unwrap();
    s.news();
    assert_eq!(s.conn.unsent(), 0);
}

//= test: SRC-2, HDR-3
#[test]
fn a_run_is_copied_where_no_byte_fits_behind_the_header_of_a_src_avail() {
    let shrunk = |size| {
        let mut s = combined();
        s.conn.ask_rcv_size(1).unwrap();
        s.news();
        s.send(Body::ChRcvBufAck(size), 0).unwrap();
        s
    };
    let mut s = shrunk(33);
    assert_eq!(s.conn.max_payload(), 17);
    run(&mut s);
    let offered = Some((advert(1000, 0x10_0000), 1));
    assert_eq!(bodies(&s.news()).pop(), offered);
    let mut s = shrunk(32);
    assert_eq!(s.conn.max_payload(), 16);
    let id = run(&mut s);
    let did = s.news();
    assert_eq!(notices(&did), [Did::Returned(id, Why::NotOffered)]);
    assert_eq!(bodies(&did).pop(), Some((Body::Data, 16)));
}

//= test: URGENT-2
#[test]
fn a_src_avail_announces_the_urgent_byte_behind_its_run() {
    let mut s = combined();
    run(&mut s);
    let urgent = Queue {
        more: false,
        urgent: true,
    };
    s.conn.queue(5, urgent).unwrap();
    let did = s.news();
    assert_eq!(bodies(&did), [(advert(1000, 0x10_0000), 1)]);
    assert!(matches!(did[0], Did::Sent(repr) if repr.flags.oob_pend));
}

#[test]
fn a_run_out_of_range_is_refused() {
    let mut s = combined();
    let bad = [
        Run { len: 0, ..RUN },
        Run { len: 1, ..RUN },
        Run {
            va: u64::MAX - 500,
            ..RUN
        },
    ];
    for run in bad {
        assert_eq!(s.conn.queue_run(run), Err(Refused::BadRange));
    }
    s.conn.queue(u32::MAX - 10, Queue::default()).unwrap();
    assert_eq!(s.conn.queue_run(RUN), Err(Refused::TooMuch));
    s.conn.shutdown_send();
    assert_eq!(s.conn.queue_run(RUN), Err(Refused::SendClosed));
    s.conn.abort();
    assert_eq!(s.conn.queue_run(RUN), Err(Refused::Ended));
}

/// A SrcAvail that nothing was heard about was taken back.
fn taken_back(s: &mut Script) -> RunId {
    let id = run(s);
    s.news();
    assert_eq!(s.conn.timers().next(), Some(Timer::Recall));
    s.conn.handle_timeout(Timer::Recall);
    assert_eq!(s.news(), []);
    s.conn.handle_timeout(Timer::Recall);
    assert_eq!(s.sent(), [Body::SrcAvailCancel]);
    id
}

//= test: SRC-6
#[test]
fn an_advert_without_progress_is_taken_back() {
    let mut s = combined();
    let id = run(&mut s);
    s.news();
    assert_eq!(Timer::Recall.millis(), 1000);
    // Something moved since.
    s.conn.handle_timeout(Timer::Recall);
    assert_eq!(s.news(), []);
    s.send(Body::RdmaRdCompl(10), 0).unwrap();
    s.conn.handle_timeout(Timer::Recall);
    assert_eq!(s.news(), [Did::Taken(id, 10)]);
    s.conn.handle_timeout(Timer::Recall);
    assert_eq!(s.sent(), [Body::SrcAvailCancel]);
}

/// A caller that waits for a peer waits as long with zero copy as without.
//= test: SRCCANCEL-9
#[test]
fn a_cancel_for_no_caller_waits_without_a_limit() {
    let mut s = combined();
    let id = taken_back(&mut s);
    assert!(!s.conn.awaits_cancel());
    assert_eq!(s.conn.timers().next(), None);
    for _ in 0..100 {
        s.conn.handle_timeout(Timer::CancelAnswer);
    }
    assert_eq!(s.conn.ended(), None);
    // It is answered after all.
    s.send(Body::SendSm, 0).unwrap();
    let did = s.news();
    assert!(did
        .iter()
        .any(|did| matches!(did, Did::Returned(run, _) if *run == id)));
}

//= test: SRCCANCEL-9
#[test]
fn a_caller_that_wants_its_memory_back_waits_with_a_limit() {
    let mut s = combined();
    let id = taken_back(&mut s);
    s.conn.withdraw(id).unwrap();
    assert_eq!(s.sent(), []);
    for _ in 1..patience::ANSWER_TRIES {
        assert_eq!(s.conn.timers().next(), Some(Timer::CancelAnswer));
        s.conn.handle_timeout(Timer::CancelAnswer);
        // Neither a little progress nor our own impatience makes it longer.
        s.send(Body::RdmaRdCompl(1), 0).unwrap();
        let _ = s.conn.withdraw(id);
        s.conn.recall();
    }
    assert_eq!(s.conn.ended(), None);
    s.conn.handle_timeout(Timer::CancelAnswer);
    let did = s.news();
    assert_eq!(did.last(), Some(&Did::Disconnect));
    assert!(did.contains(&Did::Returned(id, Why::Over)));
    assert_eq!(s.conn.ended(), Some(Ended::TimedOut));
}

/// The engine's own cancel of a later SrcAvail has no limit because an earlier one had.
//= test: SRCCANCEL-9
#[test]
fn a_limit_is_that_of_one_cancel() {
    let mut s = combined();
    run(&mut s);
    s.news();
    s.conn.recall();
    assert_eq!(s.sent(), [Body::SrcAvailCancel]);
    s.send(Body::RdmaRdCompl(999), 0).unwrap();
    s.news();
    taken_back(&mut s);
    assert!(!s.conn.awaits_cancel());
}

/// Without a credit the cancel stays here, and the peer cannot have answered it.
//= test: SRCCANCEL-9
#[test]
fn the_limit_counts_from_when_the_cancel_was_sent() {
    let mut s = combined();
    s.bufs = 4;
    s.send(Body::Data, 0).unwrap();
    run(&mut s);
    s.news();
    s.bufs = 0;
    s.send(Body::Data, 0).unwrap();
    assert_eq!(s.conn.credits(), 0);
    s.conn.recall();
    assert_eq!(s.sent(), []);
    for _ in 1..patience::ANSWER_TRIES {
        s.conn.handle_timeout(Timer::CancelAnswer);
    }
    s.bufs = 4;
    s.send(Body::Data, 0).unwrap();
    assert_eq!(s.sent(), [Body::SrcAvailCancel]);
    for _ in 1..patience::ANSWER_TRIES {
        s.conn.handle_timeout(Timer::CancelAnswer);
    }
    assert_eq!(s.conn.ended(), None);
    s.conn.handle_timeout(Timer::CancelAnswer);
    s.news();
    assert_eq!(s.conn.ended(), Some(Ended::TimedOut));
}

//= test: SRCCANCEL-9
#[test]
fn patience_begins_anew_with_each_cancel() {
    let mut s = combined();
    for _ in 0..3 {
        run(&mut s);
        s.news();
        s.conn.recall();
        assert_eq!(s.sent(), [Body::SrcAvailCancel]);
        for _ in 1..patience::ANSWER_TRIES {
            s.conn.handle_timeout(Timer::CancelAnswer);
        }
        s.send(Body::RdmaRdCompl(999), 0).unwrap();
        s.news();
        assert_eq!((s.conn.unsent(), s.conn.ended()), (0, None));
    }
}

//= test: SRC-8, CLOSE-1
#[test]
fn disconn_waits_for_adverts() {
    let mut s = combined();
    run(&mut s);
    s.conn.shutdown_send();
    assert_eq!(bodies(&s.news()).len(), 1);
    s.send(Body::RdmaRdCompl(998), 0).unwrap();
    assert_eq!(bodies(&s.news()), []);
    s.send(Body::RdmaRdCompl(1), 0).unwrap();
    assert_eq!(bodies(&s.news()), [(Body::DisConn, 0)]);
}

//= test: MR-2
#[test]
fn whatever_ends_the_connection_gives_every_run_back_once() {
    let ends: [fn(&mut Script); 5] = [
        |s| s.conn.abort(),
        |s| s.conn.handle_link_failed(),
        |s| s.conn.handle_disconnect_requested(),
        |s| {
            s.send(Body::SuspCommAck, 0).unwrap_err();
        },
        |s| s.conn.handle_disconnected(),
    ];
    for end in ends {
        for cancelled in [false, true] {
            let mut s = pipelined();
            let runs: Vec<RunId> = (0..4).map(|_| run(&mut s)).collect();
            let mut all = s.news();
            s.send(Body::RdmaRdCompl(1000), 0).unwrap();
            if cancelled {
                s.conn.withdraw(runs[2]).unwrap();
                all.extend(s.news());
            }
            end(&mut s);
            all.extend(s.news());
            for run in &runs {
                let count = all
                    .iter()
                    .filter(|did| matches!(did, Did::Returned(id, _) if id == run))
                    .count();
                assert_eq!(count, 1, "{run:?}: {all:?}");
            }
            assert!(all.contains(&Did::Taken(runs[0], 1000)));
            s.conn.recall();
            assert_eq!(s.news(), []);
            assert!(s.conn.ended().is_some());
        }
    }
}

//= test: MODE-2, MODE-7, MODE-9
#[test]
fn pipelined_mode_is_entered_when_nothing_stands_against_it_and_never_left() {
    // Behind a SrcAvail of Combined mode.
    let mut s = Script::zcopy(4);
    run(&mut s);
    s.news();
    s.conn.request_pipelined().unwrap();
    assert_eq!(s.news(), []);
    s.send(Body::RdmaRdCompl(999), 0).unwrap();
    let to = ModeChange {
        half: Half::Receive,
        mode: Mode::Pipelined,
    };
    assert_eq!(bodies(&s.news()), [(Body::ModeChange(to), 0)]);
    assert_eq!(s.conn.send_mode(), Mode::Pipelined);
    // Once.
    s.conn.request_pipelined().unwrap();
    assert_eq!(s.news(), []);
    // No message takes it out of that again.
    let change = ModeChange {
        half: Half::Send,
        mode: Mode::Combined,
    };
    let error = s.send(Body::ModeChange(change), 0).err();
    assert_eq!(error, Some(PeerError::ModeTransition));
    // And it needs two credits.
    let mut s = Script::with(zcopy(), 3, 4);
    s.queue(1);
    s.news();
    s.conn
        .queue(
            1,
            Queue {
                more: false,
                urgent: true,
            },
        )
        .unwrap();
    s.news();
    assert_eq!(s.conn.credits(), 1);
    s.conn.request_pipelined().unwrap();
    assert_eq!(s.news(), []);
}

//= test: MODE-8
#[test]
fn policy_asks_for_pipelined_mode_when_two_wait_or_the_peer_would() {
    let to = Body::ModeChange(ModeChange {
        half: Half::Receive,
        mode: Mode::Pipelined,
    });
    let mut s = Script::zcopy(4);
    run(&mut s);
    run(&mut s);
    assert_eq!(bodies(&s.news())[0], (to, 0));
    let mut s = Script::zcopy(4);
    let mut repr = s.next(Body::Data, 0);
    repr.flags.req_pipe = true;
    s.send_repr(&repr).unwrap();
    assert_eq!(s.sent(), [to]);
    // Not towards a peer with one.
    let mut s = Script::zcopy(1);
    let mut repr = s.next(Body::Data, 0);
    repr.flags.req_pipe = true;
    s.send_repr(&repr).unwrap();
    assert!(!s.sent().contains(&to));
    assert_eq!(s.conn.peer().max_adverts, 1);
    assert!(!s.conn.peer().pipelined);
    // For the sake of offering or of writing, and not of neither.
    for (advertise, write) in [(true, false), (false, true), (false, false)] {
        let cfg = Config {
            zcopy: Zcopy {
                advertise,
                write,
                ..zcopy().zcopy
            },
            ..zcopy()
        };
        let mut s = Script::with(cfg, 20, 4);
        let mut repr = s.next(Body::Data, 0);
        repr.flags.req_pipe = true;
        s.send_repr(&repr).unwrap();
        assert_eq!(s.sent().contains(&to), advertise || write);
    }
}

#[test]
fn a_partly_read_run_is_offered_again_from_where_it_is() {
    let mut s = pipelined();
    run(&mut s);
    s.news();
    s.send(Body::RdmaRdCompl(300), 0).unwrap();
    s.news();
    // A SinkAvail voids it; a message with payload uses that up unwritten.
    let sink = sdp_engine::engine::wire::avail::SinkAvail {
        len: 100,
        r_key: 9,
        va: 0x20_0000,
        non_discards: 0,
    };
    s.send(Body::SinkAvail(sink), 0).unwrap();
    let did = s.news();
    assert_eq!(
        did[0],
        Did::Wrote(
            sdp_engine::engine::conn::RemoteSink {
                r_key: 9,
                va: 0x20_0000
            },
            100
        )
    );
    assert_eq!(
        bodies(&did),
        [
            (Body::RdmaWrCompl(100), 0),
            (advert(600, 0x10_0000 + 400), 0)
        ]
    );
    assert_eq!(s.conn.unsent(), 600);
}

/// A run is queued for a peer that asks for Data. Returns whether it was offered.
fn write_in_vain(s: &mut Script) -> bool {
    let before = s.conn.stats().src_avails_sent;
    run(s);
    s.drain();
    let offered = s.conn.stats().src_avails_sent > before;
    if offered {
        s.send(Body::SendSm, 0).unwrap();
        s.drain();
    }
    s.send(Body::Data, 0).unwrap();
    s.drain();
    assert_eq!(s.conn.unsent(), 0);
    offered
}

#[test]
fn a_peer_that_never_reads_is_offered_less_and_less() {
    let mut s = combined();
    let offered: Vec<usize> = (0..500).filter(|_| write_in_vain(&mut s)).collect();
    assert_eq!(offered[..7], [0, 2, 6, 14, 30, 62, 126]);
    assert_eq!(offered.len(), 12);
}

#[test]
fn what_is_not_worth_an_offer_goes_as_data_at_once() {
    let mut s = combined();
    assert_eq!([(); 3].map(|()| write_in_vain(&mut s)), [true, false, true]);
    let id = run(&mut s);
    let did = s.news();
    assert_eq!(notices(&did), [Did::Returned(id, Why::NotOffered)]);
    assert_eq!(bodies(&did), [(Body::Data, 100); 10]);
}

#[test]
fn a_peer_that_reads_is_offered_everything_again() {
    let use_it: [fn(&mut Script); 2] = [
        |s| {
            s.send(Body::RdmaRdCompl(999), 0).unwrap();
        },
        // A part is better than nothing, and no reason to try less.
        |s| {
            s.send(Body::RdmaRdCompl(1), 0).unwrap();
            s.drain();
            s.send(Body::SendSm, 0).unwrap();
        },
    ];
    for use_it in use_it {
        let mut s = combined();
        let offered = (0..30).filter(|_| write_in_vain(&mut s)).count();
        assert_eq!(offered, 4);
        run(&mut s);
        s.drain();
        use_it(&mut s);
        s.drain();
        s.send(Body::Data, 0).unwrap();
        s.drain();
        assert!(write_in_vain(&mut s));
        // As in the beginning.
        assert!(!write_in_vain(&mut s));
        assert!(write_in_vain(&mut s));
    }
}

#[test]
fn who_withdraws_what_it_offered_learns_nothing_of_the_peer() {
    let mut s = combined();
    let id = run(&mut s);
    s.drain();
    s.conn.withdraw(id).unwrap();
    s.drain();
    s.send(Body::SendSm, 0).unwrap();
    s.drain();
    // A recall, because the peer does not read, tells something of the peer.
    run(&mut s);
    assert_eq!(bodies(&s.news()), [(advert(1000, 0x10_0000), 1)]);
    s.conn.recall();
    s.drain();
    s.send(Body::SendSm, 0).unwrap();
    s.drain();
    s.send(Body::Data, 0).unwrap();
    assert!(!write_in_vain(&mut s));
    assert!(write_in_vain(&mut s));
}

#[test]
fn what_waits_for_credits_is_one_chance_only() {
    let mut s = combined();
    assert_eq!([(); 2].map(|()| write_in_vain(&mut s)), [true, false]);
    s.bufs = 2;
    s.send(Body::Data, 0).unwrap();
    run(&mut s);
    for _ in 0..5 {
        s.conn.set_nodelay(true);
        assert_eq!(bodies(&s.news()), []);
    }
    s.bufs = 20;
    s.send(Body::Data, 0).unwrap();
    assert_eq!(bodies(&s.news()), [(advert(1000, 0x10_0000), 1)]);
}
