// SPDX-License-Identifier: GPL-2.0

//! One engine as a sink that reads, its source written out.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test says what is wrong by panicking"
)]

mod script;

use script::{Did, Script};
use sdp_engine::engine::{
    conn::{Config, Ended, Mode, Remote, Run},
    error::{PeerError, Refused},
    policy::patience,
    timer::Timer,
    types::Mseq,
    wire::{
        avail::SrcAvail,
        mode::{Half, ModeChange},
        Body, Mid, Repr,
    },
};

const ADVERT: SrcAvail = SrcAvail {
    len: 1000,
    r_key: 7,
    va: 0x10_0000,
};

const PIPELINED: Body = Body::ModeChange(ModeChange {
    half: Half::Receive,
    mode: Mode::Pipelined,
});

const COMBINED: Body = Body::ModeChange(ModeChange {
    half: Half::Receive,
    mode: Mode::Combined,
});

const RUN: Run = Run {
    len: 500,
    r_key: 1,
    va: 2,
    inline: 0,
};

/// A sink with a reader, in Combined mode.
fn combined() -> Script {
    let mut s = Script::zcopy(4);
    s.conn.set_reading(true);
    s
}

/// The same in Pipelined mode.
fn pipelined() -> Script {
    let mut s = combined();
    s.send(PIPELINED, 0).unwrap();
    assert_eq!(s.conn.receive_mode(), Mode::Pipelined);
    s
}

/// The sent messages except credit updates.
fn answers(s: &mut Script) -> Vec<Body> {
    s.sent()
        .into_iter()
        .filter(|body| *body != Body::Data)
        .collect()
}

//= test: SRC-4, DATA-3, READ-1, MR-3
#[test]
fn what_is_offered_is_read_behind_the_inline_bytes_and_reported_once() {
    let mut s = combined();
    let delivery = s.send(Body::SrcAvail(ADVERT), 60).unwrap();
    assert_eq!((delivery.payload_len, delivery.remote), (60, 940));
    assert_eq!(s.conn.remote_len(), 940);
    let whole = Remote {
        r_key: 7,
        va: 0x10_0000 + 60,
        len: 940,
        inline: 60,
    };
    assert_eq!(s.conn.next_remote(), Some(whole));
    let first = s.conn.start_read(100).unwrap();
    assert_eq!(first, Remote { len: 100, ..whole });
    let second = s.conn.start_read(u32::MAX).unwrap();
    assert_eq!(
        second,
        Remote {
            r_key: 7,
            va: 0x10_0000 + 160,
            len: 840,
            inline: 0
        }
    );
    assert_eq!(s.conn.start_read(1), Err(Refused::Nothing));
    assert_eq!(s.conn.remote_len(), 0);
    s.conn.handle_read_completed();
    assert_eq!(answers(&mut s), []);
    s.conn.handle_read_completed();
    assert_eq!(answers(&mut s), [Body::RdmaRdCompl(940)]);
    assert_eq!(s.conn.stats().read_bytes_received, 940);
    // Resolved: Data may come.
    assert_eq!(s.send(Body::Data, 5).unwrap().payload_len, 5);
}

//= test: READ-2, READ-5
#[test]
fn parts_are_reported_when_they_are_large_and_in_order() {
    let mut s = combined();
    let large = SrcAvail {
        len: 200 << 10,
        ..ADVERT
    };
    s.send(Body::SrcAvail(large), 1).unwrap();
    for _ in 0..15 {
        s.conn.start_read(4 << 10).unwrap();
        s.conn.handle_read_completed();
        assert_eq!(answers(&mut s), []);
    }
    s.conn.start_read(4 << 10).unwrap();
    s.conn.handle_read_completed();
    assert_eq!(answers(&mut s), [Body::RdmaRdCompl(64 << 10)]);
    let mut s = pipelined();
    s.send(Body::SrcAvail(ADVERT), 0).unwrap();
    s.send(Body::SrcAvail(ADVERT), 0).unwrap();
    assert_eq!(s.conn.remote_len(), 2000);
    for _ in 0..2 {
        // A Read does not go across two buffers.
        assert_eq!(s.conn.start_read(5000).unwrap().len, 1000);
    }
    s.conn.handle_read_completed();
    assert_eq!(answers(&mut s), [Body::RdmaRdCompl(1000)]);
    s.conn.handle_read_completed();
    assert_eq!(answers(&mut s), [Body::RdmaRdCompl(1000)]);
}

//= test: MR-4
#[test]
fn no_more_reads_are_in_flight_than_agreed() {
    let mut s = combined();
    s.send(Body::SrcAvail(ADVERT), 1).unwrap();
    for n in 1..=4 {
        s.conn.start_read(10).unwrap();
        assert_eq!(s.conn.reads_in_flight(), n);
    }
    assert_eq!(s.conn.start_read(10), Err(Refused::Busy));
    s.conn.handle_read_completed();
    s.conn.start_read(10).unwrap();
    assert_eq!(s.conn.start_read(0), Err(Refused::BadRange));
}

//= test: MR-4
#[test]
fn reads_reach_as_far_as_one_for_each_offer() {
    let mut s = pipelined();
    assert_eq!(s.conn.read_reach(), 0);
    for len in [1000, 300] {
        s.send(Body::SrcAvail(SrcAvail { len, ..ADVERT }), 0)
            .unwrap();
    }
    assert_eq!(s.conn.read_reach(), 1300);
    // Three more are possible: one for the rest of the first, one for the second.
    s.conn.start_read(10).unwrap();
    assert_eq!(s.conn.read_reach(), 1290);
    for len in [10, 10] {
        s.conn.start_read(len).unwrap();
    }
    assert_eq!(s.conn.read_reach(), 970, "the second one has to wait");
    s.conn.start_read(10).unwrap();
    assert_eq!((s.conn.read_reach(), s.conn.remote_len()), (0, 1260));
    s.conn.handle_read_completed();
    assert_eq!(s.conn.read_reach(), 960);
}

//= test: SRCCANCEL-3, SRCCANCEL-5
#[test]
fn what_reads_have_reached_comes_although_the_peer_takes_it_back() {
    let mut s = pipelined();
    s.send(Body::SrcAvail(ADVERT), 0).unwrap();
    s.send(Body::SrcAvail(ADVERT), 0).unwrap();
    let reach = s.conn.read_reach();
    assert_eq!(reach, 2000);
    for _ in 0..2 {
        s.conn.start_read(1000).unwrap();
    }
    // The reader has gone, and has been told of these bytes.
    s.conn.set_reading(false);
    s.send(Body::SrcAvailCancel, 0).unwrap();
    s.conn.decline();
    s.conn.handle_timeout(Timer::Decline);
    assert_eq!(answers(&mut s), []);
    for _ in 0..2 {
        s.conn.handle_read_completed();
    }
    assert_eq!(
        answers(&mut s),
        [Body::RdmaRdCompl(1000), Body::RdmaRdCompl(1000)]
    );
    assert_eq!(s.conn.stats().read_bytes_received, reach);
    assert_eq!(s.send(Body::Data, 5).unwrap().payload_len, 5);
}

#[test]
fn reads_reach_nothing_once_no_read_may_begin() {
    let mut s = pipelined();
    s.send(Body::SrcAvail(ADVERT), 0).unwrap();
    s.send(Body::SrcAvailCancel, 0).unwrap();
    assert_eq!(s.conn.read_reach(), 0, "taken back");
    let mut s = pipelined();
    s.send(Body::SrcAvail(ADVERT), 0).unwrap();
    s.conn.decline();
    assert_eq!(s.conn.read_reach(), 0, "declined");
    let mut s = pipelined();
    s.send(Body::SrcAvail(ADVERT), 0).unwrap();
    s.conn.abort();
    assert_eq!(s.conn.read_reach(), 0, "the end");
}

//= test: READ-1, READ-5, MR-3, MR-4
#[test]
fn two_parts_of_an_offer_are_read_in_either_order() {
    let mut s = pipelined();
    let large = SrcAvail {
        len: 200 << 10,
        ..ADVERT
    };
    s.send(Body::SrcAvail(large), 0).unwrap();
    let (front, rest) = s.conn.start_split_read(192 << 10, 100).unwrap();
    assert_eq!((front.va, front.len), (ADVERT.va, 192 << 10));
    assert_eq!((rest.va, rest.len), (ADVERT.va + (192 << 10), 100));
    assert_eq!(s.conn.remote_len(), (8 << 10) - 100);
    // Enough to be reported, but no side knows which part of it has come.
    s.conn.handle_read_completed();
    assert_eq!(answers(&mut s), []);
    s.conn.handle_read_completed();
    assert_eq!(answers(&mut s), [Body::RdmaRdCompl((192 << 10) + 100)]);
    let left = (8 << 10) - 100;
    for (first, second, refused) in [
        (0, 1, Refused::BadRange),
        (1, 0, Refused::BadRange),
        (left, 1, Refused::BadRange),
        (u32::MAX, 2, Refused::BadRange),
    ] {
        assert_eq!(s.conn.start_split_read(first, second), Err(refused));
    }
    for _ in 0..3 {
        s.conn.start_read(1).unwrap();
    }
    assert_eq!(s.conn.start_split_read(1, 1), Err(Refused::Busy));
    assert_eq!(
        s.conn.remote_len(),
        u64::from(left) - 3,
        "nothing was begun"
    );
}

//= test: SRCCANCEL-2
#[test]
fn a_cancel_of_nothing_is_not_answered() {
    let mut s = combined();
    s.send(Body::SrcAvailCancel, 0).unwrap();
    assert_eq!(answers(&mut s), []);
    // Read, and reported or about to be.
    s.send(Body::SrcAvail(ADVERT), 1).unwrap();
    s.conn.start_read(999).unwrap();
    s.conn.handle_read_completed();
    s.send(Body::SrcAvailCancel, 0).unwrap();
    assert_eq!(answers(&mut s), [Body::RdmaRdCompl(999)]);
    s.send(Body::SrcAvailCancel, 0).unwrap();
    assert_eq!(answers(&mut s), []);
}

//= test: SRCCANCEL-3
#[test]
fn a_cancel_of_what_was_not_begun_is_answered_by_send_sm() {
    for mut s in [combined(), pipelined()] {
        let inline = u32::from(s.conn.receive_mode() == Mode::Combined);
        s.send(Body::SrcAvail(ADVERT), inline).unwrap();
        s.send(Body::SrcAvailCancel, 0).unwrap();
        assert_eq!(s.conn.start_read(1), Err(Refused::Nothing));
        assert_eq!(answers(&mut s), [Body::SendSm]);
        assert_eq!(s.send(Body::Data, 5).unwrap().payload_len, 5);
    }
}

//= test: SRCCANCEL-4, SENDSM-2
#[test]
fn a_cancel_of_a_part_is_answered_by_its_length_and_send_sm() {
    let mut s = combined();
    s.send(Body::SrcAvail(ADVERT), 1).unwrap();
    s.conn.start_read(400).unwrap();
    s.conn.handle_read_completed();
    assert_eq!(answers(&mut s), []);
    s.send(Body::SrcAvailCancel, 0).unwrap();
    assert_eq!(answers(&mut s), [Body::RdmaRdCompl(400), Body::SendSm]);
    assert_eq!(s.conn.stats().cancels_received, 1);
    assert_eq!(s.conn.stats().send_sms_sent, 1);
}

fn acks(did: &[Did]) -> Vec<u32> {
    did.iter()
        .filter_map(|did| match did {
            Did::Sent(repr) => Some(repr.mseq_ack.get()),
            _ => None,
        })
        .collect()
}

//= test: SRCCANCEL-5, SEQ-5, SENDSM-5
#[test]
fn a_cancel_waits_for_reads_in_flight_and_so_does_the_acknowledgement() {
    let mut s = combined();
    s.send(Body::SrcAvail(ADVERT), 1).unwrap();
    s.conn.start_read(400).unwrap();
    s.conn.start_read(100).unwrap();
    s.send(Body::SrcAvailCancel, 0).unwrap();
    // The other direction goes on, and says nothing of the cancel.
    s.queue(10);
    assert_eq!(acks(&s.news()), [1]);
    s.conn.handle_read_completed();
    assert_eq!(answers(&mut s), []);
    assert_eq!(s.conn.start_read(1), Err(Refused::Nothing));
    s.conn.handle_read_completed();
    let did = s.news();
    assert_eq!(acks(&did), [2, 2]);
    let bodies: Vec<Body> = did
        .iter()
        .filter_map(|did| match did {
            Did::Sent(repr) => Some(repr.body),
            _ => None,
        })
        .collect();
    assert_eq!(bodies, [Body::RdmaRdCompl(500), Body::SendSm]);
    // Everything was in flight: no SendSm.
    let mut s = combined();
    s.send(Body::SrcAvail(ADVERT), 1).unwrap();
    s.conn.start_read(999).unwrap();
    s.send(Body::SrcAvailCancel, 0).unwrap();
    s.conn.handle_read_completed();
    assert_eq!(answers(&mut s), [Body::RdmaRdCompl(999)]);
}

#[test]
fn nothing_is_advertised_while_the_acknowledgement_stays_behind() {
    let mut s = combined();
    s.send(Body::SrcAvail(ADVERT), 1).unwrap();
    s.conn.start_read(400).unwrap();
    s.send(Body::SrcAvailCancel, 0).unwrap();
    let run = Run {
        len: 500,
        r_key: 1,
        va: 2,
        inline: 0,
    };
    s.conn.queue_run(run).unwrap();
    assert_eq!(answers(&mut s), []);
    s.conn.handle_read_completed();
    let sent = answers(&mut s);
    assert_eq!(sent[..2], [Body::RdmaRdCompl(400), Body::SendSm]);
    assert_eq!(sent[2].mid(), Mid::SrcAvail);
}

//= test: SRCCANCEL-8, SRC-5
#[test]
fn between_a_cancel_and_its_answer_the_source_is_silent() {
    let faults = [
        (
            Body::SrcAvailCancel,
            0,
            PeerError::CancelOutstanding(Mid::SrcAvailCancel),
        ),
        (
            Body::SrcAvail(ADVERT),
            0,
            PeerError::CancelOutstanding(Mid::SrcAvail),
        ),
        (Body::Data, 1, PeerError::SrcAvailOutstanding(Mid::Data)),
        (
            Body::DisConn,
            0,
            PeerError::SrcAvailOutstanding(Mid::DisConn),
        ),
    ];
    for (body, payload, error) in faults {
        let mut s = pipelined();
        s.send(Body::SrcAvail(ADVERT), 0).unwrap();
        s.conn.start_read(1).unwrap();
        s.send(Body::SrcAvailCancel, 0).unwrap();
        s.drain();
        assert_eq!(s.send(body, payload).err(), Some(error));
        assert_eq!(s.news(), [Did::Disconnect]);
        // The Read in flight completes into nothing.
        s.conn.handle_read_completed();
        s.conn.handle_read_completed();
        assert_eq!(s.conn.ended(), Some(Ended::Violation(error)));
    }
}

#[test]
fn declining_asks_for_data_once_reads_are_through() {
    let mut s = pipelined();
    s.send(Body::SrcAvail(ADVERT), 0).unwrap();
    s.send(Body::SrcAvail(ADVERT), 0).unwrap();
    s.conn.start_read(300).unwrap();
    s.conn.decline();
    s.conn.decline();
    assert_eq!((s.conn.remote_len(), s.conn.next_remote()), (0, None));
    assert_eq!(answers(&mut s), []);
    s.conn.handle_read_completed();
    assert_eq!(answers(&mut s), [Body::RdmaRdCompl(300), Body::SendSm]);
}

//= test: SENDSM-4, CROSS-3
#[test]
fn what_was_offered_before_our_send_sm_was_known_is_void() {
    let mut s = pipelined();
    s.send(Body::SrcAvail(ADVERT), 0).unwrap();
    let before: Repr = s.next(Body::SrcAvail(ADVERT), 0);
    s.conn.decline();
    assert_eq!(answers(&mut s), [Body::SendSm]);
    let mut late = s.next(Body::SrcAvail(ADVERT), 0);
    late.mseq_ack = before.mseq_ack;
    let delivery = s.send_repr(&late).unwrap();
    assert_eq!((delivery.remote, s.conn.remote_len()), (0, 0));
    // The rest as Data, and then a new one, which counts.
    s.send(Body::Data, 10).unwrap();
    assert_eq!(s.send(Body::SrcAvail(ADVERT), 0).unwrap().remote, 1000);
    // In Combined mode there cannot be a second one in flight.
    let mut s = combined();
    s.send(Body::SrcAvail(ADVERT), 1).unwrap();
    s.conn.decline();
    s.news();
    let mut late = s.next(Body::SrcAvail(ADVERT), 1);
    late.mseq_ack = Mseq::HELLO;
    assert_eq!(
        s.send_repr(&late).err(),
        Some(PeerError::SrcAvailOutstanding(Mid::SrcAvail))
    );
}

/// No reader comes until the offer is declined. Returns the milliseconds until then.
fn wait_in_vain(s: &mut Script) -> u32 {
    for looks in 1..20 {
        assert!(s.conn.wants(Timer::Decline).is_some());
        s.conn.handle_timeout(Timer::Decline);
        match answers(s).as_slice() {
            [] => {}
            [Body::SendSm] => return looks * Timer::Decline.millis(),
            other => panic!("{other:?}"),
        }
    }
    panic!("it is never declined");
}

//= test: SRC-6
#[test]
fn a_reader_that_is_late_again_and_again_is_waited_for_less() {
    let mut s = combined();
    s.conn.set_reading(false);
    s.send(Body::SrcAvail(ADVERT), 1).unwrap();
    for _ in 0..2 {
        s.conn.handle_timeout(Timer::Decline);
        assert_eq!(answers(&mut s), []);
        s.conn.set_reading(true);
        s.conn.start_read(10).unwrap();
        s.conn.handle_read_completed();
        s.conn.set_reading(false);
        answers(&mut s);
    }
    assert_eq!(s.conn.timers().next(), Some(Timer::Decline));
    s.conn.handle_timeout(Timer::Decline);
    assert_eq!(answers(&mut s).last(), Some(&Body::SendSm));
}

//= test: SRC-6
#[test]
fn without_a_reader_it_is_declined_after_a_while() {
    let mut s = combined();
    s.conn.set_reading(false);
    assert_eq!(s.send(Body::SrcAvail(ADVERT), 1).unwrap().remote, 999);
    assert_eq!(answers(&mut s), []);
    assert_eq!(s.conn.timers().next(), Some(Timer::Decline));
    assert_eq!(wait_in_vain(&mut s), patience::DECLINE_MS);
    assert_eq!(s.conn.timers().next(), None);
    // A reader comes in time; while it reads nothing runs.
    s.send(Body::SrcAvail(ADVERT), 1).unwrap();
    s.conn.set_reading(true);
    assert_eq!(s.conn.timers().next(), None);
    s.conn.set_reading(false);
    s.conn.start_read(10).unwrap();
    assert_eq!(s.conn.timers().next(), None);
}

//= test: SRC-7
#[test]
fn two_senders_without_readers_give_way_at_once() {
    // Ours is out when the peer's comes.
    let mut s = combined();
    s.conn.set_reading(false);
    s.conn.queue_run(RUN).unwrap();
    s.news();
    assert_eq!(s.send(Body::SrcAvail(ADVERT), 1).unwrap().remote, 0);
    assert_eq!(answers(&mut s), [Body::SendSm]);
    // The peer's is there when ours goes.
    let mut s = combined();
    s.conn.set_reading(false);
    s.send(Body::SrcAvail(ADVERT), 1).unwrap();
    s.conn.queue_run(RUN).unwrap();
    let sent = answers(&mut s);
    assert_eq!(sent[0].mid(), Mid::SrcAvail);
    assert_eq!(sent[1], Body::SendSm);
}

/// As with two threads, one that writes and one that reads.
//= test: SRC-6, SRC-7
#[test]
fn a_reader_who_was_there_while_we_were_writing_is_waited_for() {
    let mut s = combined();
    s.conn.queue_run(RUN).unwrap();
    s.send(Body::SrcAvail(ADVERT), 1).unwrap();
    s.news();
    s.conn.set_reading(false);
    assert_eq!(answers(&mut s), []);
    assert!(s.conn.wants(Timer::Decline).is_some());
    // Back in a moment.
    s.conn.set_reading(true);
    assert_eq!(s.conn.wants(Timer::Decline), None);
    s.conn.start_read(999).unwrap();
    s.conn.handle_read_completed();
    assert_eq!(answers(&mut s), [Body::RdmaRdCompl(999)]);
    // The next one comes when no reader is there.
    s.conn.set_reading(false);
    s.send(Body::SrcAvail(ADVERT), 1).unwrap();
    assert_eq!(answers(&mut s), []);
    // No reader comes back: not for long, and from then on not at all.
    assert!(wait_in_vain(&mut s) > 0);
    s.send(Body::SrcAvail(ADVERT), 1).unwrap();
    assert_eq!(answers(&mut s), [Body::SendSm]);
    // Until a reader is there again.
    s.conn.set_reading(true);
    s.send(Body::SrcAvail(ADVERT), 1).unwrap();
    s.conn.set_reading(false);
    assert_eq!(answers(&mut s), []);
}

/// As with one thread that writes, reads and so on.
//= test: SRC-7
#[test]
fn a_reader_who_was_there_before_we_wrote_is_not_waited_for() {
    let mut s = combined();
    s.send(Body::SrcAvail(ADVERT), 1).unwrap();
    s.conn.start_read(999).unwrap();
    s.conn.handle_read_completed();
    s.conn.set_reading(false);
    assert_eq!(answers(&mut s), [Body::RdmaRdCompl(999)]);
    s.conn.queue_run(RUN).unwrap();
    s.news();
    s.send(Body::SrcAvail(ADVERT), 1).unwrap();
    assert_eq!(answers(&mut s), [Body::SendSm]);
    // A wait in vain while nothing of ours was out says nothing about that.
    let mut s = combined();
    s.conn.queue_run(RUN).unwrap();
    s.news();
    s.send(Body::RdmaRdCompl(499), 0).unwrap();
    s.conn.set_reading(false);
    s.send(Body::SrcAvail(ADVERT), 1).unwrap();
    wait_in_vain(&mut s);
    s.conn.queue_run(RUN).unwrap();
    s.send(Body::SrcAvail(ADVERT), 1).unwrap();
    assert_eq!(answers(&mut s).last().map(Body::mid), Some(Mid::SrcAvail));
}

//= test: SRC-2, SRC-3, ADVERT-1, ADVERT-2, ADVERT-6
#[test]
fn adverts_that_cannot_be_are_violations() {
    let range = PeerError::AdvertRange(Mid::SrcAvail);
    let with = |mut s: Script, len, va, payload| {
        let advert = SrcAvail { len, va, ..ADVERT };
        s.send(Body::SrcAvail(advert), payload).err()
    };
    assert_eq!(with(pipelined(), 0, 0, 0), Some(range));
    assert_eq!(with(pipelined(), 1, 0, 0), None);
    assert_eq!(with(pipelined(), 2, u64::MAX - 1, 0), Some(range));
    assert_eq!(with(pipelined(), u32::MAX, u64::MAX - 1, 0), Some(range));
    assert_eq!(with(combined(), 10, u64::MAX - 9, 1), Some(range));
    assert_eq!(
        with(combined(), u32::MAX, u64::MAX - u64::from(u32::MAX), 1),
        None
    );
    assert_eq!(
        with(pipelined(), 10, 0, 1),
        Some(PeerError::SrcAvailPayload)
    );
    assert_eq!(with(combined(), 10, 0, 0), Some(PeerError::SrcAvailInline));
    assert_eq!(with(combined(), 10, 0, 10), Some(PeerError::SrcAvailInline));
    let mut s = pipelined();
    s.bufs = 100;
    for _ in 0..4 {
        s.send(Body::SrcAvail(ADVERT), 0).unwrap();
        s.news();
    }
    assert_eq!(
        s.send(Body::SrcAvail(ADVERT), 0).err(),
        Some(PeerError::TooManyAdverts(Mid::SrcAvail))
    );
}

//= test: MODE-6
#[test]
fn leaving_pipelined_mode_drops_what_is_held_if_nothing_was_read() {
    let mut s = pipelined();
    s.send(Body::SrcAvail(ADVERT), 0).unwrap();
    s.send(COMBINED, 0).unwrap();
    assert_eq!(
        (s.conn.receive_mode(), s.conn.remote_len()),
        (Mode::Combined, 0)
    );
    assert_eq!(answers(&mut s), []);
    assert_eq!(s.send(Body::SrcAvail(ADVERT), 1).unwrap().remote, 999);
    let mut s = pipelined();
    s.send(Body::SrcAvail(ADVERT), 0).unwrap();
    s.conn.start_read(1).unwrap();
    assert_eq!(s.send(COMBINED, 0).err(), Some(PeerError::PartlyRead));
}

#[test]
fn pipelined_mode_can_be_entered_with_a_src_avail_held() {
    let mut s = combined();
    s.send(Body::SrcAvail(ADVERT), 1).unwrap();
    s.send(PIPELINED, 0).unwrap();
    assert_eq!(s.conn.remote_len(), 999);
    assert_eq!(s.send(Body::SrcAvail(ADVERT), 0).unwrap().remote, 1000);
}

//= test: DATA-4, CLOSE-10
#[test]
fn a_close_with_bytes_in_the_peers_memory_is_a_reset() {
    let mut s = combined();
    s.send(Body::SrcAvail(ADVERT), 1).unwrap();
    s.conn.on_buffer_consumed();
    s.conn.close_receive();
    assert_eq!(s.news(), [Did::Disconnect]);
    assert_eq!(s.conn.ended(), Some(Ended::Aborted));
    assert_eq!(s.conn.start_read(1), Err(Refused::Ended));
    // And so is what comes after it.
    let mut s = pipelined();
    s.conn.close_receive();
    assert_eq!(s.send(Body::SrcAvail(ADVERT), 0).unwrap().remote, 0);
    assert_eq!(s.news(), [Did::Disconnect]);
}

#[test]
fn no_read_is_started_once_the_connection_has_failed() {
    let mut s = combined();
    s.send(Body::SrcAvail(ADVERT), 1).unwrap();
    s.conn.abort();
    // Before its end as well.
    assert_eq!(s.conn.ended(), None);
    assert_eq!(s.conn.start_read(1), Err(Refused::Ended));
    assert_eq!((s.conn.remote_len(), s.conn.next_remote()), (0, None));
}

#[test]
fn completions_of_reads_that_were_never_started_mean_nothing() {
    let mut s = combined();
    s.conn.handle_read_completed();
    s.conn.handle_write_completed();
    s.send(Body::SrcAvail(ADVERT), 1).unwrap();
    s.conn.handle_read_completed();
    assert_eq!(answers(&mut s), []);
    assert_eq!(s.conn.remote_len(), 999);
}

//= test: CREDIT-5, CREDIT-6
#[test]
fn answers_wait_for_a_credit_and_go_with_the_last_one() {
    let mut s = Script::with(script::zcopy(), 3, 4);
    s.conn.set_reading(true);
    s.queue(1);
    s.news();
    s.bufs = 0;
    s.send(Body::SrcAvail(ADVERT), 1).unwrap();
    s.conn.start_read(999).unwrap();
    s.conn.handle_read_completed();
    assert_eq!(answers(&mut s), []);
    s.bufs = 1;
    s.send(Body::SrcAvailCancel, 0).unwrap();
    assert_eq!(answers(&mut s), [Body::RdmaRdCompl(999)]);
}

/// Two cancels have crossed, and each has taken one of the last two credits.
//= test: CREDIT-5, SRCCANCEL-3, UPDATE-2
#[test]
fn a_cancel_that_crosses_ours_is_answered_with_the_last_credit() {
    let mut s = combined();
    s.conn.queue_run(RUN).unwrap();
    s.send(Body::SrcAvail(ADVERT), 1).unwrap();
    s.news();
    s.conn.recall();
    assert_eq!(answers(&mut s), [Body::SrcAvailCancel]);
    // Sent before it had ours: two buffers, and one is taken.
    s.bufs = 2;
    let mut crossing = s.next(Body::SrcAvailCancel, 0);
    crossing.mseq_ack = crossing.mseq_ack.previous();
    s.send_repr(&crossing).unwrap();
    assert_eq!(s.conn.credits(), 1);
    // The answer, and no mere update.
    assert_eq!(s.sent(), [Body::SendSm]);
}

//= test: SRC-6
#[test]
fn what_is_corked_keeps_no_other_timer_from_running() {
    let mut s = combined();
    s.conn.set_reading(false);
    s.send(Body::SrcAvail(ADVERT), 1).unwrap();
    s.news();
    s.conn.set_cork(true);
    s.queue(1);
    assert_eq!(answers(&mut s), []);
    let wanted: Vec<Timer> = s.conn.timers().collect();
    assert_eq!(wanted, [Timer::Cork, Timer::Decline]);
    wait_in_vain(&mut s);
    assert!(s.conn.wants(Timer::Cork).is_some());
}

//= test: MR-4
#[test]
fn no_more_reads_are_in_flight_than_the_transports_agreed_on() {
    for (agreed, most) in [(1, 1), (3, 3), (9, 4)] {
        let mut s = Script::zcopy(1);
        s.conn.limit_reads(agreed, true);
        s.send(Body::SrcAvail(ADVERT), 1).unwrap();
        let started = (0..9).filter(|_| s.conn.start_read(10).is_ok()).count();
        assert_eq!(started, most);
        assert_eq!(usize::from(s.conn.reads_in_flight()), most);
    }
}

/// The acknowledgement is held back for a Read. The last credit is for the message that
/// makes up for it.
//= test: SEQ-5
#[test]
fn the_last_credit_is_kept_while_the_acknowledgement_is_held_back() {
    let cfg = Config {
        rx_depth: 4,
        ..script::zcopy()
    };
    let mut s = Script::with(cfg, 20, 1);
    s.send(Body::Data, 1).unwrap();
    s.send(Body::SrcAvail(ADVERT), 1).unwrap();
    s.conn.start_read(999).unwrap();
    s.drain();
    s.send(Body::SrcAvailCancel, 0).unwrap();
    s.bufs = 1;
    s.send(Body::ChRcvBuf(50), 0).unwrap();
    // The window opens, so there is something to grant.
    s.conn.on_buffer_consumed();
    assert_eq!(s.conn.credits(), 1);
    assert_eq!(s.sent(), []);
    s.conn.handle_read_completed();
    assert_eq!(s.sent(), [Body::RdmaRdCompl(999)]);
}
