// SPDX-License-Identifier: GPL-2.0

//! Every state and every event: what becomes of it, as a table.
//!
//! The table is `matrix.txt` beside this file and was reviewed line by line.
//! When a change is meant, `BLESS=1 cargo test -p sdp-engine --test matrix`
//! writes it again; review the difference.
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test says what is wrong by panicking"
)]

mod script;
mod snapshot;

use script::{hello_ack, Did, Script};
use sdp_engine::engine::{
    conn::{Queue, State},
    timer::Timer,
    types::Ip,
    wire::{
        avail::{SinkAvail, SrcAvail},
        mode::{Half, Mode, ModeChange},
        Body, Mid,
    },
};
use snapshot::assert_reviewed;
use std::fmt::Write;

/// A connection in each state.
fn in_state(state: State) -> Script {
    let mut s = match state {
        State::Idle => Script::idle(),
        State::HelloSent => Script::hello_sent(),
        State::HelloReceived => Script::hello_received(),
        State::HelloAckSent => Script::hello_ack_sent(),
        _ => Script::established(),
    };
    match state {
        State::Idle
        | State::HelloSent
        | State::HelloReceived
        | State::HelloAckSent
        | State::Established => {}
        State::LocalClosing => {
            s.conn.shutdown_send();
            // In flight; the peer has it.
            s.step();
        }
        State::LocalClosed => {
            s.conn.shutdown_send();
            s.drain();
        }
        State::PeerClosed => {
            s.send(Body::DisConn, 0).unwrap();
        }
        State::BothClosing => {
            s.send(Body::DisConn, 0).unwrap();
            s.conn.shutdown_send();
            s.step();
        }
        State::BothClosed => {
            s.send(Body::DisConn, 0).unwrap();
            s.conn.shutdown_send();
            s.drain();
        }
        State::Disconnecting => {
            s.conn.shutdown_send();
            s.drain();
            s.send(Body::DisConn, 0).unwrap();
            s.drain();
        }
        State::Ended => s.conn.handle_disconnected(),
    }
    assert_eq!(s.conn.state(), state);
    s
}

type Event = fn(&mut Script) -> Result<String, String>;

fn message(script: &mut Script, body: Body, payload: u32) -> Result<String, String> {
    match script.send(body, payload) {
        Ok(delivery) => Ok(match (delivery.payload_len, delivery.peer_closed) {
            (0, false) => String::new(),
            (0, true) => "end of stream".to_owned(),
            (len, _) => format!("{len} bytes"),
        }),
        Err(error) => Err(format!("{error}")),
    }
}

fn quiet(event: impl FnOnce()) -> Result<String, String> {
    event();
    Ok(String::new())
}

fn told<T, E: core::fmt::Debug>(result: Result<T, E>) -> Result<String, String> {
    result
        .map(|_| String::new())
        .map_err(|error| format!("{error:?}"))
}

const EVENTS: &[(&str, Event)] = &[
    ("make Hello", |s| {
        told(s.conn.hello(Ip::V4([0; 4]), Ip::V4([0; 4]), 1))
    }),
    ("make HelloAck", |s| told(s.conn.hello_ack())),
    ("REP, good HelloAck", |s| {
        told(s.conn.handle_hello_ack(&hello_ack(20)))
    }),
    ("REP, bad HelloAck", |s| {
        told(s.conn.handle_hello_ack(&[1; 196]))
    }),
    ("RTU", |s| quiet(|| s.conn.handle_established())),
    ("DREQ or REJ", |s| {
        quiet(|| s.conn.handle_disconnect_requested())
    }),
    ("DREP", |s| quiet(|| s.conn.handle_disconnected())),
    ("link failure", |s| quiet(|| s.conn.handle_link_failed())),
    ("unanswered", |s| quiet(|| s.conn.handle_unanswered())),
    ("send completed", |s| {
        quiet(|| s.conn.handle_send_completed())
    }),
    ("write", |s| told(s.conn.queue(1, Queue::default()))),
    ("shutdown", |s| quiet(|| s.conn.shutdown_send())),
    ("close", |s| {
        s.conn.close_receive();
        quiet(|| s.conn.shutdown_send())
    }),
    ("abort", |s| quiet(|| s.conn.abort())),
    ("PeerClose timer", |s| {
        quiet(|| s.conn.handle_timeout(Timer::PeerClose))
    }),
    ("Data", |s| message(s, Body::Data, 5)),
    ("credit update", |s| message(s, Body::Data, 0)),
    ("DisConn", |s| message(s, Body::DisConn, 0)),
    ("AbortConn", |s| message(s, Body::AbortConn, 0)),
    ("SrcAvail", |s| {
        let advert = SrcAvail {
            len: 100,
            r_key: 1,
            va: 2,
        };
        message(s, Body::SrcAvail(advert), 1)
    }),
    ("SrcAvailCancel", |s| message(s, Body::SrcAvailCancel, 0)),
    ("SendSm", |s| message(s, Body::SendSm, 0)),
    ("RdmaRdCompl", |s| message(s, Body::RdmaRdCompl(1), 0)),
    ("RdmaWrCompl", |s| message(s, Body::RdmaWrCompl(1), 0)),
    ("ModeChange", |s| {
        let change = ModeChange {
            half: Half::Receive,
            mode: Mode::Buffered,
        };
        message(s, Body::ModeChange(change), 0)
    }),
    ("SinkAvail", |s| {
        let advert = SinkAvail {
            len: 100,
            r_key: 1,
            va: 2,
            non_discards: 0,
        };
        message(s, Body::SinkAvail(advert), 0)
    }),
    ("SinkAvailCancel", |s| message(s, Body::SinkAvailCancel, 0)),
    ("SinkCancelAck", |s| message(s, Body::SinkCancelAck, 0)),
    ("ChRcvBuf", |s| message(s, Body::ChRcvBuf(1), 0)),
    ("ChRcvBufAck", |s| message(s, Body::ChRcvBufAck(1), 0)),
    ("SuspComm", |s| message(s, Body::SuspComm(1), 0)),
    ("SuspCommAck", |s| message(s, Body::SuspCommAck, 0)),
    ("Hello", |s| message(s, Body::Handshake(Mid::Hello), 0)),
    ("HelloAck", |s| {
        message(s, Body::Handshake(Mid::HelloAck), 0)
    }),
    ("unknown message", |s| message(s, Body::Unknown(0x22), 0)),
    ("garbage", |s| told(s.conn.handle_message(&[0xee; 36], 77))),
];

/// The next outputs of the engine, without completions.
fn outputs(script: &mut Script) -> String {
    let mut all = String::new();
    while let Some(did) = script.step() {
        match did {
            Did::Disconnect => all.push_str(" DREQ"),
            Did::Sent(repr) => write!(all, " {}", repr.body.mid()).unwrap(),
            other => write!(all, " {other:?}").unwrap(),
        }
    }
    all
}

fn table() -> String {
    let mut table = String::from(
        "# SPDX-License-Identifier: GPL-2.0\n\
         # state | event | result | next state | sent | ended\n",
    );
    for state in State::STATES {
        writeln!(table).unwrap();
        for (name, event) in EVENTS {
            let mut script = in_state(*state);
            let result = match event(&mut script) {
                Ok(text) if text.is_empty() => "ok".to_owned(),
                Ok(text) => text,
                Err(text) => format!("error: {text}"),
            };
            let sent = outputs(&mut script);
            let next = script.conn.state();
            let ended = script
                .conn
                .ended()
                .map_or_else(String::new, |ended| format!("{ended:?}"));
            assert!(script.conn.is_sound());
            assert!(is_reachable(*state, next), "{state:?} {name}: {next:?}");
            let line = format!(
                "{:<15} | {name:<18} | {result} | {} |{} | {ended}",
                format!("{state:?}"),
                if next == *state {
                    "=".to_owned()
                } else {
                    format!("{next:?}")
                },
                if sent.is_empty() { " -" } else { sent.as_str() },
            );
            writeln!(table, "{}", line.trim_end()).unwrap();
        }
    }
    table
}

/// Whether moves of the table lead from one state to the other.
fn is_reachable(from: State, to: State) -> bool {
    let mut seen = vec![from];
    let mut next = 0;
    while let Some(state) = seen.get(next).copied() {
        next += 1;
        for (_, start, end) in State::MOVES {
            if *start == state && !seen.contains(end) {
                seen.push(*end);
            }
        }
    }
    seen.contains(&to)
}

#[test]
fn every_state_and_event_is_as_reviewed() {
    assert_reviewed("tests/matrix.txt", &table());
}

/// Two events in a row, everything with everything: nothing is unsound, and
/// what has ended stays so.
#[test]
fn every_pair_of_events_in_every_state_is_survived() {
    for state in State::STATES {
        for (_, first) in EVENTS {
            for (_, second) in EVENTS {
                let mut script = in_state(*state);
                let _ = first(&mut script);
                outputs(&mut script);
                let ended = script.conn.ended();
                let _ = second(&mut script);
                outputs(&mut script);
                assert!(script.conn.is_sound());
                if ended.is_some() {
                    assert_eq!(script.conn.ended(), ended);
                }
            }
        }
    }
}
