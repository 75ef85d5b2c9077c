// SPDX-License-Identifier: GPL-2.0

//! What a peer can do wrong, and what it costs.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test says what is wrong by panicking"
)]

mod script;

use script::{hello_ack, Did, Script};
use sdp_engine::engine::{
    conn::{Ended, State},
    error::PeerError,
    types::Mseq,
    wire::{
        avail::{SinkAvail, SrcAvail},
        hello::Hello,
        mode::{Half, Mode, ModeChange},
        Body, Flags, Mid,
    },
};

const ADVERT: SrcAvail = SrcAvail {
    len: 1000,
    r_key: 7,
    va: 0,
};

/// Sends raw bytes as the whole message.
fn raw(script: &mut Script, bytes: &[u8]) -> Result<(), PeerError> {
    let head = &bytes[..bytes.len().min(36)];
    let len = u32::try_from(bytes.len()).unwrap();
    script.conn.handle_message(head, len).map(|_| ())
}

fn send(script: &mut Script, body: Body, payload: u32) -> Result<(), PeerError> {
    script.send(body, payload).map(|_| ())
}

type Fault = (PeerError, fn(&mut Script) -> Result<(), PeerError>);

/// Each violation that an established connection can meet.
const FAULTS: &[Fault] = &[
    (PeerError::Truncated, |s| raw(s, &[0xff; 15])),
    (PeerError::Truncated, |s| raw(s, &[])),
    (PeerError::LenMismatch, |s| {
        let mut bytes = s.next(Body::Data, 3).emit().as_bytes().to_vec();
        bytes.resize(20, 0);
        raw(s, &bytes)
    }),
    (PeerError::TooLong, |s| send(s, Body::Data, 101)),
    (PeerError::ReservedBits(Mid::ModeChange), |s| {
        let change = Body::ModeChange(ModeChange {
            half: Half::Receive,
            mode: Mode::Buffered,
        });
        let mut bytes = s.next(change, 0).emit().as_bytes().to_vec();
        bytes[19] = 1;
        raw(s, &bytes)
    }),
    (PeerError::PayloadNotAllowed(Mid::DisConn), |s| {
        send(s, Body::DisConn, 1)
    }),
    (PeerError::MseqGap, |s| {
        let mut repr = s.next(Body::Data, 1);
        repr.mseq = repr.mseq.next();
        s.send_repr(&repr).map(|_| ())
    }),
    (PeerError::MseqGap, |s| {
        // A repetition.
        let repr = s.next(Body::Data, 1);
        s.send_repr(&repr)?;
        s.send_repr(&repr).map(|_| ())
    }),
    (PeerError::AckBeyondSent, |s| {
        let mut repr = s.next(Body::Data, 1);
        repr.mseq_ack = Mseq::new(1000);
        s.send_repr(&repr).map(|_| ())
    }),
    (PeerError::PayloadWithoutCredit, |s| {
        // Four were granted, and no more since.
        send(s, Body::Data, 1)?;
        send(s, Body::Data, 1)?;
        send(s, Body::Data, 1)
    }),
    (PeerError::WithoutCredit, |s| {
        s.conn.on_receives_posted(10);
        for _ in 0..4 {
            send(s, Body::Data, 0)?;
        }
        send(s, Body::Data, 0)
    }),
    (PeerError::OobPlacement(Mid::Data), |s| {
        let mut repr = s.next(Body::Data, 0);
        repr.flags.oob_pres = true;
        s.send_repr(&repr).map(|_| ())
    }),
    (PeerError::OobPlacement(Mid::SrcAvail), |s| {
        let mut repr = s.next(Body::SrcAvail(ADVERT), 1);
        repr.flags.oob_pres = true;
        s.send_repr(&repr).map(|_| ())
    }),
    (PeerError::HandshakeRepeated(Mid::Hello), |s| {
        send(s, Body::Handshake(Mid::Hello), 0)
    }),
    (PeerError::HandshakeRepeated(Mid::HelloAck), |s| {
        send(s, Body::Handshake(Mid::HelloAck), 0)
    }),
    (PeerError::AfterDisConn(Mid::Data), |s| {
        send(s, Body::DisConn, 0)?;
        s.drain();
        send(s, Body::Data, 1)
    }),
    (PeerError::AfterDisConn(Mid::DisConn), |s| {
        send(s, Body::DisConn, 0)?;
        s.drain();
        send(s, Body::DisConn, 0)
    }),
    (PeerError::AfterDisConn(Mid::SrcAvail), |s| {
        send(s, Body::DisConn, 0)?;
        s.drain();
        send(s, Body::SrcAvail(ADVERT), 1)
    }),
    (PeerError::AfterDisConn(Mid::SrcAvailCancel), |s| {
        send(s, Body::DisConn, 0)?;
        send(s, Body::SrcAvailCancel, 0)
    }),
    (PeerError::AbortWithoutDisConn, |s| {
        send(s, Body::AbortConn, 0)
    }),
    (PeerError::SrcAvailInline, |s| {
        send(s, Body::SrcAvail(ADVERT), 0)
    }),
    (PeerError::SrcAvailInline, |s| {
        send(s, Body::SrcAvail(SrcAvail { len: 50, ..ADVERT }), 50)
    }),
    (PeerError::SrcAvailOutstanding(Mid::SrcAvail), |s| {
        send(s, Body::SrcAvail(ADVERT), 1)?;
        send(s, Body::SrcAvail(ADVERT), 1)
    }),
    (PeerError::SrcAvailOutstanding(Mid::Data), |s| {
        send(s, Body::SrcAvail(ADVERT), 1)?;
        send(s, Body::Data, 1)
    }),
    (PeerError::SrcAvailOutstanding(Mid::DisConn), |s| {
        send(s, Body::SrcAvail(ADVERT), 1)?;
        send(s, Body::DisConn, 0)
    }),
    (PeerError::SrcAvailOutstanding(Mid::ModeChange), |s| {
        send(s, Body::SrcAvail(ADVERT), 1)?;
        send(s, BUFFERED, 0)
    }),
    (PeerError::ModeForbids(Mid::SrcAvail), |s| {
        send(s, BUFFERED, 0)?;
        send(s, Body::SrcAvail(ADVERT), 1)
    }),
    (PeerError::ModeForbids(Mid::SrcAvailCancel), |s| {
        send(s, BUFFERED, 0)?;
        send(s, Body::SrcAvailCancel, 0)
    }),
    (PeerError::ModeTransition, |s| {
        send(s, BUFFERED, 0)?;
        send(s, BUFFERED, 0)
    }),
    (PeerError::NotAnnounced(Mid::ModeChange), |s| {
        let change = ModeChange {
            half: Half::Receive,
            mode: Mode::Pipelined,
        };
        send(s, Body::ModeChange(change), 0)
    }),
    (PeerError::NotAnnounced(Mid::SinkAvail), |s| {
        let advert = SinkAvail {
            len: 100,
            r_key: 1,
            va: 2,
            non_discards: 0,
        };
        send(s, Body::SinkAvail(advert), 0)
    }),
    (PeerError::NotAnnounced(Mid::SinkAvailCancel), |s| {
        send(s, Body::SinkAvailCancel, 0)
    }),
    (PeerError::NotAnnounced(Mid::SinkCancelAck), |s| {
        send(s, Body::SinkCancelAck, 0)
    }),
    (PeerError::NotAnnounced(Mid::RdmaWrCompl), |s| {
        send(s, Body::RdmaWrCompl(1), 0)
    }),
    (PeerError::Unsolicited(Mid::SendSm), |s| {
        send(s, Body::SendSm, 0)
    }),
    (PeerError::Unsolicited(Mid::RdmaRdCompl), |s| {
        send(s, Body::RdmaRdCompl(1), 0)
    }),
    (PeerError::Unsolicited(Mid::ChRcvBufAck), |s| {
        send(s, Body::ChRcvBufAck(1), 0)
    }),
    (PeerError::Unsolicited(Mid::SuspCommAck), |s| {
        send(s, Body::SuspCommAck, 0)
    }),
    (PeerError::ChRcvBufOutstanding, |s| {
        send(s, Body::ChRcvBuf(1), 0)?;
        send(s, Body::ChRcvBuf(1), 0)
    }),
];

const BUFFERED: Body = Body::ModeChange(ModeChange {
    half: Half::Receive,
    mode: Mode::Buffered,
});

//= test: EST-3, HDR-2, HDR-3, HDR-4, HDR-5, HDR-6, HDR-7, HDR-8, SEQ-2, SEQ-4, CREDIT-7
//= test: URGENT-1, DATA-2, MODE-2, MODE-3, MODE-5, ADVERT-2, ADVERT-5, SRC-2, SRC-8, SENDSM-6
//= test: CLOSE-3, ABORT-1, ABORT-3, RESIZE-3, SUSPEND-2, ROBUST-1
#[test]
fn each_violation_is_named_and_resets_the_connection() {
    for (expected, fault) in FAULTS {
        let mut script = Script::established();
        assert_eq!(fault(&mut script), Err(*expected));
        assert_eq!(script.conn.ended(), None);
        let did: Vec<Did> = std::iter::from_fn(|| script.step()).collect();
        assert_eq!(did, [Did::Disconnect], "{expected}");
        assert_eq!(script.conn.ended(), Some(Ended::Violation(*expected)));
        assert_eq!(script.conn.state(), State::Disconnecting);
        // Later events do not change the reason.
        script.conn.handle_disconnected();
        script.conn.handle_link_failed();
        assert_eq!(script.conn.ended(), Some(Ended::Violation(*expected)));
        assert_eq!(script.conn.state(), State::Ended);
    }
}

#[test]
fn after_our_disconn_a_violation_is_answered_by_abort_conn() {
    for (expected, fault) in FAULTS {
        if matches!(expected, PeerError::AfterDisConn(_)) {
            // With both DisConn out the connection has ended before the fault.
            continue;
        }
        let mut script = Script::established();
        script.conn.shutdown_send();
        assert_eq!(script.sent(), [Body::DisConn]);
        assert_eq!(fault(&mut script), Err(*expected));
        let did = script.drain();
        let [.., Did::Sent(abort), Did::Disconnect] = did.as_slice() else {
            panic!("{expected}: {did:?}");
        };
        assert_eq!(abort.body, Body::AbortConn);
        assert_eq!(script.conn.ended(), Some(Ended::Violation(*expected)));
    }
}

//= test: EST-3
#[test]
fn a_fault_before_establishment_ends_without_an_output() {
    let mut script = Script::hello_sent();
    assert_eq!(
        send(&mut script, Body::Data, 1),
        Err(PeerError::BeforeEstablished(Mid::Data))
    );
    assert_eq!(script.drain(), []);
    assert_eq!(script.conn.state(), State::Ended);

    let mut ack = hello_ack(4);
    ack[19] = 0;
    let mut script = Script::hello_sent();
    let error = script.conn.handle_hello_ack(&ack).unwrap_err();
    assert_eq!(error, PeerError::HelloMaxAdverts);
    assert_eq!(script.drain(), []);
    assert_eq!(script.conn.state(), State::Ended);
    assert_eq!(script.conn.ended(), Some(Ended::Violation(error)));
}

#[test]
fn every_error_of_the_hello_names_a_rule_of_it() {
    let hello = script::hello(4).emit();
    for offset in 0..hello.len() {
        for value in [0, 0xff] {
            let mut bytes = hello;
            bytes[offset] = value;
            if let Err(error) = Hello::parse(&bytes) {
                assert!(error.requirement().starts_with("HELLO-"));
            }
        }
    }
}

//= test: ROBUST-2
#[test]
fn what_was_delivered_before_a_fault_stays_counted() {
    let mut script = Script::established();
    let delivery = script.send(Body::Data, 10).unwrap();
    assert_eq!((delivery.payload_offset, delivery.payload_len), (16, 10));
    assert!(script.send(Body::AbortConn, 0).is_err());
    script.drain();
    assert_eq!(script.conn.held(), 1);
    script.conn.on_buffer_consumed();
    assert_eq!(script.conn.held(), 0);
    // And nothing is delivered any more.
    assert_eq!(script.send(Body::Data, 10).unwrap().payload_len, 0);
}

//= test: ROBUST-2, ROBUST-3
#[test]
fn a_failed_connection_takes_nothing_more() {
    let mut script = Script::established();
    script.queue(500);
    assert!(script.send(Body::SendSm, 0).is_err());
    let did: Vec<Did> = std::iter::from_fn(|| script.step()).collect();
    assert_eq!(did, [Did::Disconnect]);
    assert!(script
        .conn
        .queue(1, sdp_engine::engine::conn::Queue::default())
        .is_err());
    assert!(script.conn.send_closed());
    assert_eq!(script.conn.receives_wanted(), 0);
    assert_eq!(script.conn.timers().next(), None);
}

#[test]
fn flags_of_another_direction_are_no_fault() {
    let mut script = Script::established();
    let mut repr = script.next(Body::Data, 0);
    repr.flags = Flags {
        req_pipe: true,
        oob_pend: true,
        oob_pres: false,
    };
    assert!(script.send_repr(&repr).unwrap().urgent_pending);
}

//= test: HDR-4, HDR-7
#[test]
fn what_means_nothing_is_counted_and_passed_over() {
    let mut script = Script::established();
    for id in 0..=u8::MAX {
        if Mid::KNOWN.contains(&Mid::from_wire(id)) {
            continue;
        }
        let mut bytes = script.next(Body::Unknown(id), 0).emit().as_bytes().to_vec();
        // Reserved flags, and bytes without a known meaning.
        bytes[1] = 0xf8;
        bytes[7] += 10;
        bytes.extend([0xff; 10]);
        script.mseq = script.mseq.next();
        let delivery = script.conn.handle_message(&bytes, 26).unwrap();
        assert_eq!(delivery.payload_len, 0);
        script.drain();
    }
    assert_eq!(script.conn.stats().unknown_received, 238);
    assert_eq!(script.conn.held(), 0);
    assert_eq!(script.send(Body::Data, 5).unwrap().payload_len, 5);
}

//= test: SEQ-4
#[test]
fn an_old_acknowledgement_is_no_news() {
    let mut script = Script::established();
    script.queue(1);
    script.drain();
    script.send(Body::Data, 1).unwrap();
    let credits = script.conn.credits();
    let mut repr = script.next(Body::Data, 1);
    repr.mseq_ack = Mseq::HELLO;
    script.send_repr(&repr).unwrap();
    assert_eq!(script.conn.credits(), credits);
}
