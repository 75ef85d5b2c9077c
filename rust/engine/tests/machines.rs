// SPDX-License-Identifier: GPL-2.0

//! The state machines as a document: diagrams made from the tables of the engine.
//!
//! `docs/state-machines.md` is what this test makes. When a change is meant,
//! `BLESS=1 cargo test -p sdp-engine --test machines` writes it again; review the
//! difference.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test says what is wrong by panicking"
)]

mod snapshot;

use sdp_engine::engine::conn::machines::{
    Ask, Cancel, DisConn, HalfMode, Hold, OfferState, RunState, State, TargetState,
};
use snapshot::assert_reviewed;
use std::fmt::Write;

/// A machine, its names as text.
struct Machine {
    title: &'static str,
    about: &'static str,
    states: Vec<String>,
    /// Event, from, to.
    moves: Vec<(String, String, String)>,
}

macro_rules! machine {
    ($Name:ident, $title:literal, $about:literal) => {
        Machine {
            title: $title,
            about: $about,
            states: $Name::STATES.iter().map(|s| format!("{s:?}")).collect(),
            moves: $Name::MOVES
                .iter()
                .map(|(event, from, to)| {
                    let event = event.strip_prefix("on_").expect("an event");
                    (
                        event.replace('_', " "),
                        format!("{from:?}"),
                        format!("{to:?}"),
                    )
                })
                .collect(),
        }
    };
}

fn machines() -> Vec<Machine> {
    vec![
        machine!(
            State,
            "Connection",
            "Where a connection is in its life (`conn/state.rs`)."
        ),
        machine!(
            DisConn,
            "DisConn",
            "The end of our byte stream (`conn/close.rs`)."
        ),
        machine!(
            HalfMode,
            "Mode of one direction",
            "There is one for each direction (`flow/mode.rs`)."
        ),
        machine!(
            RunState,
            "SrcAvail, at its source",
            "One run of the send stream that lies in registered memory (`zcopy/run.rs`)."
        ),
        machine!(
            Hold,
            "SrcAvail, at its sink",
            "All SrcAvails that the sink holds, as cancel and SendSm are about all of them \
             (`zcopy/held.rs`)."
        ),
        machine!(
            OfferState,
            "SinkAvail, at its sink",
            "One buffer that is offered to be written (`zcopy/offers.rs`)."
        ),
        machine!(
            TargetState,
            "SinkAvail, at its source",
            "One buffer of the peer (`zcopy/targets.rs`)."
        ),
        machine!(
            Cancel,
            "Cancel, at its sender",
            "SrcAvailCancel or SinkAvailCancel (`zcopy/cancel.rs`)."
        ),
        machine!(
            Ask,
            "ChRcvBuf, at its sender",
            "Our question about the peer's receive buffers (`conn/resize.rs`)."
        ),
    ]
}

impl Machine {
    /// The events that lead from each state to one, in a machine with many states. A sentence says so,
    /// instead of an arrow from each.
    fn events_of_all(&self) -> Vec<(&str, &str)> {
        let mut found = Vec::new();
        for (event, _, to) in &self.moves {
            let moves = self.moves.iter();
            let sources = moves.filter(|(e, f, t)| e == event && t == to && f != to);
            let all = sources.count() + 1 == self.states.len() && self.states.len() > 8;
            if all && !found.contains(&(event.as_str(), to.as_str())) {
                found.push((event.as_str(), to.as_str()));
            }
        }
        found
    }

    /// Moves between the same two states share an arrow.
    fn diagram(&self, out: &mut String) {
        let of_all = self.events_of_all();
        for (event, to) in &of_all {
            writeln!(out, "From each other state, *{event}* leads to {to}.\n").unwrap();
        }
        writeln!(out, "```mermaid\nstateDiagram-v2").unwrap();
        let mut drawn: Vec<(&str, &str)> = Vec::new();
        for (event, from, to) in &self.moves {
            if drawn.contains(&(from, to)) || of_all.contains(&(event, to)) {
                continue;
            }
            drawn.push((from, to));
            let events: Vec<&str> = self
                .moves
                .iter()
                .filter(|(e, f, t)| f == from && t == to && !of_all.contains(&(e, t)))
                .map(|(event, _, _)| event.as_str())
                .collect();
            writeln!(out, "    {from} --> {to}: {}", events.join(", ")).unwrap();
        }
        writeln!(out, "```").unwrap();
    }
}

fn document() -> String {
    let mut out = String::from(
        "<!-- SPDX-License-Identifier: GPL-2.0 -->\n\
         <!-- Made by `BLESS=1 cargo test -p sdp-engine --test machines`. -->\n\
         # State machines\n\n\
         Each is a table in the engine (`machine!`), and this page is made from the tables. An\n\
         arrow is a move, with the events that cause it. An event without an arrow is refused and\n\
         changes nothing.\n",
    );
    for machine in machines() {
        write!(out, "\n## {}\n\n{}\n\n", machine.title, machine.about).unwrap();
        machine.diagram(&mut out);
    }
    out
}

#[test]
fn the_document_is_what_the_tables_say() {
    assert_reviewed("../../docs/state-machines.md", &document());
}

#[test]
fn no_event_has_two_outcomes_and_no_state_is_out_of_reach() {
    for machine in machines() {
        for (n, (event, from, _)) in machine.moves.iter().enumerate() {
            let again = machine.moves[n + 1..]
                .iter()
                .any(|(e, f, _)| e == event && f == from);
            assert!(!again, "{}: {event} from {from}", machine.title);
        }
        // The first state is where it begins; a connection has two beginnings.
        let mut seen = vec![machine.states[0].clone()];
        if machine.title == "Connection" {
            seen.push("HelloReceived".to_owned());
        }
        let mut next = 0;
        while let Some(state) = seen.get(next).cloned() {
            next += 1;
            for (_, from, to) in &machine.moves {
                if *from == state && !seen.contains(to) {
                    seen.push(to.clone());
                }
            }
        }
        for state in &machine.states {
            assert!(seen.contains(state), "{}: {state}", machine.title);
        }
    }
}
