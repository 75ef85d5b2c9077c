// SPDX-License-Identifier: GPL-2.0

//! The pairs of state and event that occurred, compared with the engine's own table of legal pairs.

use sdp_engine::engine::{
    conn::State,
    wire::{Body, Mid, Repr},
};
use std::collections::BTreeSet;

/// The reviewed table of every event in every state.
const MATRIX: &str = include_str!("../../engine/tests/matrix.txt");

/// Pairs that no history reaches, with reasons.
const UNREACHABLE: &str = include_str!("unreachable.txt");

/// The events, with the matrix's names, plus timers and messages that the matrix does not
/// distinguish.
const EVENTS: [&str; 39] = [
    "make Hello",
    "make HelloAck",
    "REP, good HelloAck",
    "REP, bad HelloAck",
    "RTU",
    "DREQ or REJ",
    "DREP",
    "link failure",
    "unanswered",
    "send completed",
    "write",
    "shutdown",
    "close",
    "abort",
    "PeerClose timer",
    "another timer",
    "read completed",
    "write completed",
    "Data",
    "credit update",
    "DisConn",
    "AbortConn",
    "SrcAvail",
    "SrcAvailCancel",
    "SendSm",
    "RdmaRdCompl",
    "RdmaWrCompl",
    "ModeChange",
    "SinkAvail",
    "SinkAvailCancel",
    "SinkCancelAck",
    "ChRcvBuf",
    "ChRcvBufAck",
    "SuspComm",
    "SuspCommAck",
    "Hello",
    "HelloAck",
    "unknown message",
    "garbage",
];

/// Those events that are not in the matrix.
const UNLISTED: [&str; 3] = ["another timer", "read completed", "write completed"];

/// The pairs that occurred: a word for each state, a bit for each event.
#[derive(Clone, Copy, Debug, Default)]
pub struct Coverage {
    seen: [u64; 16],
}

/// The comparison with the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comparison {
    /// Pairs that the table calls legal.
    pub legal: usize,
    /// Number of legal pairs that occurred.
    pub reached: usize,
    /// Legal pairs that did not occur, without a reason.
    pub missing: Vec<String>,
    /// Number of legal pairs that are listed as unreachable.
    pub excused: usize,
    /// Pairs listed as unreachable that occurred or are not legal.
    pub stale: Vec<String>,
    /// Number of refused pairs that occurred, by bad input.
    pub refused: usize,
}

impl Coverage {
    pub(crate) fn add(&mut self, state: State, event: &'static str) {
        let row = State::STATES.iter().position(|other| *other == state);
        let column = EVENTS.iter().position(|other| *other == event);
        if let (Some(word), Some(bit)) = (row.and_then(|row| self.seen.get_mut(row)), column) {
            *word |= 1 << bit;
        }
    }

    /// Adds the pairs of another run.
    pub fn merge(&mut self, other: &Coverage) {
        for (own, other) in self.seen.iter_mut().zip(other.seen) {
            *own |= other;
        }
    }

    fn pairs(&self) -> BTreeSet<(String, String)> {
        let mut all = BTreeSet::new();
        for (state, seen) in State::STATES.iter().zip(self.seen) {
            for (bit, event) in EVENTS.iter().enumerate() {
                if seen & (1 << bit) != 0 {
                    all.insert((format!("{state:?}"), (*event).to_owned()));
                }
            }
        }
        all
    }

    /// Compares with the engine's matrix.
    pub fn compare(&self) -> Comparison {
        let happened = self.pairs();
        let legal: BTreeSet<(String, String)> = rows(MATRIX)
            .filter(|(_, _, result)| *result == "ok")
            .map(|(state, event, _)| (state.to_owned(), event.to_owned()))
            .collect();
        let excused: BTreeSet<(String, String)> = rows(UNREACHABLE)
            .map(|(state, event, _)| (state.to_owned(), event.to_owned()))
            .collect();
        let name = |pair: &(String, String)| format!("{} | {}", pair.0, pair.1);
        let is_missing = |pair: &&(String, String)| !happened.contains(*pair);
        Comparison {
            legal: legal.len(),
            reached: legal.intersection(&happened).count(),
            missing: legal
                .difference(&excused)
                .filter(is_missing)
                .map(name)
                .collect(),
            excused: excused.len(),
            stale: excused
                .iter()
                .filter(|pair| happened.contains(*pair) || !legal.contains(*pair))
                .map(name)
                .collect(),
            refused: happened
                .difference(&legal)
                .filter(|(_, event)| !UNLISTED.contains(&event.as_str()))
                .count(),
        }
    }
}

/// State, event and third column of a table.
fn rows(table: &str) -> impl Iterator<Item = (&str, &str, &str)> {
    table.lines().filter_map(|line| {
        let mut columns = line.split('|').map(str::trim);
        match (columns.next(), columns.next(), columns.next()) {
            (Some(state), Some(event), Some(third)) if !state.starts_with('#') => {
                Some((state, event, third))
            }
            _ => None,
        }
    })
}

/// The matrix's name for a message.
pub(crate) fn event_of(repr: Option<&Repr>) -> &'static str {
    let Some(repr) = repr else { return "garbage" };
    match repr.body {
        Body::Data if repr.payload_len > 0 => "Data",
        Body::Data => "credit update",
        Body::DisConn => "DisConn",
        Body::AbortConn => "AbortConn",
        Body::SendSm => "SendSm",
        Body::RdmaWrCompl(_) => "RdmaWrCompl",
        Body::RdmaRdCompl(_) => "RdmaRdCompl",
        Body::ModeChange(_) => "ModeChange",
        Body::SrcAvailCancel => "SrcAvailCancel",
        Body::SinkAvailCancel => "SinkAvailCancel",
        Body::SinkCancelAck => "SinkCancelAck",
        Body::ChRcvBuf(_) => "ChRcvBuf",
        Body::ChRcvBufAck(_) => "ChRcvBufAck",
        Body::SuspComm(_) => "SuspComm",
        Body::SuspCommAck => "SuspCommAck",
        Body::SinkAvail(_) => "SinkAvail",
        Body::SrcAvail(_) => "SrcAvail",
        Body::Handshake(Mid::HelloAck) => "HelloAck",
        Body::Handshake(_) => "Hello",
        Body::Unknown(_) => "unknown message",
    }
}
