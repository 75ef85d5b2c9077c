// SPDX-License-Identifier: GPL-2.0

//! Ladder diagrams of protocol exchanges, drawn from two running engines. They are in
//! docs/ladders.md, and a test compares them.

use crate::{
    fault::Checked,
    op::{run, write, Op, Step},
    side::Side::{self, A, B},
    trace::Sight,
    world::World,
};
use sdp_engine::engine::conn::{Config, Zcopy};
use std::fmt::Write as _;

/// Columns between the two vertical lines.
const WIDTH: usize = 66;

/// A part of an exchange.
#[derive(Clone, Copy)]
enum Act {
    Do(Side, Op),
    /// All steps happen that need no application.
    Rest,
}

use Act::{Do, Rest};

/// One exchange.
struct Exchange {
    name: &'static str,
    /// MaxAdverts of each side.
    adverts: u8,
    /// Steps before the diagram begins.
    before: &'static [Act],
    acts: &'static [Act],
}

const CONNECTED: &[Act] = &[Rest];
const PIPELINED: &[Act] = &[Rest, Do(A, Op::Pipelined), Rest];

const EXCHANGES: &[Exchange] = &[
    Exchange {
        name: "connection",
        adverts: 1,
        before: &[],
        acts: &[Rest],
    },
    Exchange {
        name: "data",
        adverts: 1,
        before: CONNECTED,
        acts: &[
            Do(A, write(1500)),
            Rest,
            Do(B, Op::Read(1)),
            Do(B, Op::Read(1)),
            Do(A, write(500)),
            Rest,
            Do(A, write(500)),
            Rest,
            Do(B, Op::Read(4)),
            Rest,
        ],
    },
    Exchange {
        name: "urgent",
        adverts: 1,
        before: CONNECTED,
        acts: &[
            Do(
                A,
                Op::Write {
                    len: 1200,
                    more: false,
                    urgent: true,
                },
            ),
            Rest,
        ],
    },
    Exchange {
        name: "close",
        adverts: 1,
        before: CONNECTED,
        acts: &[
            Do(A, write(10)),
            Do(A, Op::Shutdown),
            Rest,
            Do(B, write(20)),
            Do(B, Op::Shutdown),
            Rest,
        ],
    },
    Exchange {
        name: "simultaneous-close",
        adverts: 1,
        before: CONNECTED,
        acts: &[Do(A, Op::Shutdown), Do(B, Op::Shutdown), Rest],
    },
    Exchange {
        name: "abort",
        adverts: 1,
        before: CONNECTED,
        acts: &[Do(A, Op::Shutdown), Rest, Do(A, Op::Abort), Rest],
    },
    Exchange {
        name: "src-avail",
        adverts: 1,
        before: CONNECTED,
        acts: &[
            Do(A, run(1900)),
            Rest,
            Do(B, Op::Read(1)),
            Do(B, Op::ReadRemote(5000)),
            Rest,
        ],
    },
    Exchange {
        name: "declined",
        adverts: 1,
        before: CONNECTED,
        acts: &[Do(A, run(1900)), Rest, Do(B, Op::Decline), Rest],
    },
    Exchange {
        name: "cancel",
        adverts: 1,
        before: CONNECTED,
        acts: &[
            Do(A, run(1900)),
            Rest,
            Do(B, Op::ReadRemote(700)),
            Do(A, Op::Recall),
            Rest,
        ],
    },
    Exchange {
        name: "cancel-crossing",
        adverts: 1,
        before: CONNECTED,
        acts: &[
            Do(A, run(1900)),
            Rest,
            Do(B, Op::ReadRemote(5000)),
            Do(B, Op::Carry(1)),
            Do(B, Op::Complete(1)),
            Do(A, Op::Recall),
            Rest,
        ],
    },
    Exchange {
        name: "pipelined",
        adverts: 4,
        before: CONNECTED,
        acts: &[
            Do(A, Op::Pipelined),
            Do(A, run(700)),
            Do(A, run(600)),
            Do(A, run(500)),
            Rest,
            Do(B, Op::ReadRemote(5000)),
            Do(B, Op::ReadRemote(5000)),
            Rest,
            Do(B, Op::ReadRemote(5000)),
            Rest,
        ],
    },
    Exchange {
        name: "sink-avail",
        adverts: 4,
        before: PIPELINED,
        acts: &[Do(B, Op::Offer(200)), Rest, Do(A, run(1100)), Rest],
    },
    Exchange {
        name: "discard",
        adverts: 4,
        before: PIPELINED,
        acts: &[
            Do(B, Op::Offer(0)),
            Do(A, write(300)),
            Rest,
            Do(B, Op::Offer(0)),
            Rest,
            Do(A, run(1000)),
            Rest,
        ],
    },
    Exchange {
        name: "crossing",
        adverts: 4,
        before: PIPELINED,
        acts: &[Do(B, Op::Offer(0)), Do(A, run(900)), Rest],
    },
    Exchange {
        name: "sink-cancel",
        adverts: 4,
        before: PIPELINED,
        acts: &[Do(B, Op::Offer(0)), Rest, Do(B, Op::CancelSinks), Rest],
    },
    Exchange {
        name: "resize",
        adverts: 1,
        before: CONNECTED,
        acts: &[
            Do(A, Op::AskRcvSize(200)),
            Rest,
            Do(A, write(190)),
            Rest,
            Do(B, Op::Read(8)),
            Do(A, write(190)),
            Rest,
            Do(B, Op::Read(8)),
            Do(A, write(190)),
            Rest,
            Do(B, Op::Read(8)),
            Do(A, write(190)),
            Rest,
            Do(B, Op::Read(8)),
            Do(A, write(190)),
            Rest,
        ],
    },
];

/// The names of all exchanges.
pub fn names() -> impl Iterator<Item = &'static str> {
    EXCHANGES.iter().map(|exchange| exchange.name)
}

/// The diagram of one exchange, or None for an unknown name.
pub fn draw(name: &str) -> Checked<Option<String>> {
    let Some(exchange) = EXCHANGES.iter().find(|exchange| exchange.name == name) else {
        return Ok(None);
    };
    let config = Config {
        rcv_size: if name == "resize" { 116 } else { 1016 },
        rx_depth: 6,
        rx_initial: 4,
        tx_depth: 8,
        max_send_payload: 1000,
        max_adverts: exchange.adverts,
        rcv_size_max: 1016,
        zcopy: Zcopy {
            advertise: true,
            read: true,
            write: true,
            read_depth: 2,
            write_depth: 2,
            max_write: 4000,
        },
    };
    let mut world = World::observed(config, config)?;
    play(&mut world, exchange.before)?;
    let start = match exchange.before {
        [] => 0,
        _ => world.sights().len(),
    };
    play(&mut world, exchange.acts)?;
    let sights = world.sights().get(start..).unwrap_or(&[]);
    Ok(Some(picture(sights)))
}

fn play(world: &mut World, acts: &[Act]) -> Checked {
    for act in acts {
        match act {
            Do(side, op) => {
                let step = Step {
                    side: *side,
                    op: *op,
                };
                let moved = world.apply(step)?;
                crate::fault::ensure!(moved, "{step} does nothing");
            }
            Rest => {
                world.rest()?;
            }
        }
    }
    Ok(())
}

/// Whether the first message arrives before the other side does anything, so that one line shows
/// it. Messages of its own side may be under way if they are lines (`shown`) or leave behind it.
fn is_uncrossed(sights: &[Sight], shown: &[Sight]) -> bool {
    let Some((Sight::Left(side, number, what), later)) = sights.split_first() else {
        return false;
    };
    let end = Sight::Reached(*side, *number, what.clone());
    for sight in later {
        match sight {
            _ if *sight == end => return true,
            Sight::Note(from, _) | Sight::Left(from, ..) if from == side => {}
            Sight::Reached(..) if shown.contains(sight) => {}
            _ => return false,
        }
    }
    false
}

fn picture(sights: &[Sight]) -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = writeln!(text, "A{:WIDTH$}B", "");
    // Messages in flight, by their number in the diagram.
    let mut flying: Vec<(usize, &Sight)> = Vec::new();
    // The ends of messages that are one line.
    let mut shown: Vec<Sight> = Vec::new();
    let mut tags = 0;
    for (index, sight) in sights.iter().enumerate() {
        if let Some(at) = shown.iter().position(|end| end == sight) {
            shown.remove(at);
            continue;
        }
        let line = match sight {
            Sight::Note(side, what) => note(*side, what),
            Sight::Left(side, number, what) => {
                if is_uncrossed(sights.get(index..).unwrap_or(&[]), &shown) {
                    shown.push(Sight::Reached(*side, *number, what.clone()));
                    arrow(*side, &short(what), "", true, true)
                } else {
                    tags += 1;
                    flying.push((tags, sight));
                    arrow(*side, &short(what), &format!("({tags})"), true, false)
                }
            }
            Sight::Reached(side, number, what) | Sight::Lost(side, number, what) => {
                let left = Sight::Left(*side, *number, what.clone());
                let at = flying.iter().position(|(_, sight)| **sight == left);
                let tag = at.map_or(0, |at| flying.remove(at).0);
                let lost = matches!(sight, Sight::Lost(..));
                let what = if lost { "lost" } else { "" };
                arrow(*side, what, &format!("({tag})"), false, !lost)
            }
        };
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

/// An arrow from one line to the other, or only its beginning or end.
fn arrow(from: Side, what: &str, tag: &str, begins: bool, ends: bool) -> String {
    let label = match (what.is_empty(), begins) {
        (true, _) => String::new(),
        (false, _) => format!(" {what} "),
    };
    let tag = if tag.is_empty() {
        String::new()
    } else {
        format!(" {tag} ")
    };
    let room = WIDTH.saturating_sub(label.chars().count() + tag.len() + 3);
    let line = match (begins, ends) {
        (true, true) => format!("--{label}{}>", "-".repeat(room + tag.len())),
        (true, false) => format!("--{label}{}{tag} ", "-".repeat(room.min(6))),
        (false, _) => format!("{tag}{label}{}>", "-".repeat(room.min(12))),
    };
    let gap = " ".repeat(WIDTH.saturating_sub(line.chars().count()));
    match (from, begins) {
        (Side::A, true) => format!("|{line}{gap}|"),
        (Side::A, false) => format!("|{gap}{line}|"),
        (Side::B, true) => format!("|{gap}{}|", mirrored(&line, &label, &tag)),
        (Side::B, false) => format!("|{}{gap}|", mirrored(&line, &label, &tag)),
    }
}

/// The mirrored line, with readable text.
fn mirrored(line: &str, label: &str, tag: &str) -> String {
    let rest: String = line
        .replacen(label, "\u{1}", usize::from(!label.is_empty()))
        .replacen(tag, "\u{2}", usize::from(!tag.is_empty()))
        .chars()
        .rev()
        .map(|c| if c == '>' { '<' } else { c })
        .collect();
    rest.replace('\u{1}', label).replace('\u{2}', tag)
}

fn note(side: Side, what: &str) -> String {
    let room = WIDTH.saturating_sub(2);
    match side {
        Side::A => format!("* {what}"),
        Side::B => format!("|{:>room$} *", what),
    }
}

/// The text without details that readers do not need.
fn short(what: &str) -> String {
    let words: Vec<&str> = what
        .split(' ')
        .filter(|word| {
            !["r_key=", "va=", "payload=0"]
                .iter()
                .any(|w| word.starts_with(w))
        })
        .collect();
    let text = words.join(" ");
    match text.strip_prefix("Data ") {
        Some(rest) if !rest.contains("payload=") => format!("Data (credit update) {rest}"),
        _ => text,
    }
}
