// SPDX-License-Identifier: GPL-2.0

//! Every situation of what is lent and borrowed, and every event: what becomes
//! of it, as a table.
//!
//! The table is `zcopy_matrix.txt` beside this file and was reviewed line by
//! line. When a change is meant, `BLESS=1 cargo test -p sdp-engine --test
//! zcopy_matrix` writes it again; review the difference.
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test says what is wrong by panicking"
)]

mod script;
mod snapshot;

use script::{
    lent::{change, RUN, SINK, SRC_AVAIL},
    Did, Script,
};
use sdp_engine::engine::{
    conn::{Mode, RunId},
    wire::{avail::SinkAvail, mode::Half, Body},
};
use snapshot::assert_reviewed;
use std::fmt::Write;

fn sink_avail() -> Body {
    Body::SinkAvail(SinkAvail {
        len: 500,
        r_key: 9,
        va: 0x20_0000,
        non_discards: 0,
    })
}

/// A connection with both directions in that mode, with a reader. Our source
/// does not enter Buffered mode.
fn both(mode: Mode) -> Script {
    let mut s = Script::zcopy(4);
    s.conn.set_reading(true);
    if mode == Mode::Pipelined {
        s.conn.request_pipelined().unwrap();
    }
    if mode != Mode::Combined {
        s.send(change(Half::Receive, mode), 0).unwrap();
        s.drain();
    }
    s
}

struct Situation {
    name: &'static str,
    make: fn() -> (Script, Option<RunId>),
}

fn with_run(mode: Mode) -> (Script, Option<RunId>) {
    let mut s = both(mode);
    let id = s.conn.queue_run(RUN).unwrap();
    s.drain();
    (s, Some(id))
}

fn with_src_avail(mode: Mode) -> (Script, Option<RunId>) {
    let mut s = both(mode);
    let inline = u32::from(mode == Mode::Combined);
    s.send(Body::SrcAvail(SRC_AVAIL), inline).unwrap();
    s.drain();
    (s, None)
}

fn with_offer() -> (Script, Option<RunId>) {
    let mut s = both(Mode::Pipelined);
    s.conn.offer_sink(SINK).unwrap();
    s.drain();
    (s, None)
}

fn with_sink_avail() -> (Script, Option<RunId>) {
    let mut s = both(Mode::Pipelined);
    s.send(sink_avail(), 0).unwrap();
    s.drain();
    (s, None)
}

fn then(
    (mut s, id): (Script, Option<RunId>),
    change: impl FnOnce(&mut Script, Option<RunId>),
) -> (Script, Option<RunId>) {
    change(&mut s, id);
    s.drain();
    (s, id)
}

const SITUATIONS: &[Situation] = &[
    Situation {
        name: "Combined, nothing lent",
        make: || (both(Mode::Combined), None),
    },
    Situation {
        name: "Buffered, nothing lent",
        make: || (both(Mode::Buffered), None),
    },
    Situation {
        name: "Pipelined, nothing lent",
        make: || (both(Mode::Pipelined), None),
    },
    Situation {
        name: "Combined, SrcAvail sent",
        make: || with_run(Mode::Combined),
    },
    Situation {
        name: "Pipelined, SrcAvail sent",
        make: || with_run(Mode::Pipelined),
    },
    Situation {
        name: "Pipelined, SrcAvail sent and recalled",
        make: || then(with_run(Mode::Pipelined), |s, _| s.conn.recall()),
    },
    Situation {
        name: "Pipelined, SrcAvail sent and withdrawn",
        make: || {
            then(with_run(Mode::Pipelined), |s, id| {
                s.conn.withdraw(id.unwrap()).unwrap();
            })
        },
    },
    Situation {
        name: "Combined, SrcAvail held",
        make: || with_src_avail(Mode::Combined),
    },
    Situation {
        name: "Pipelined, SrcAvail held",
        make: || with_src_avail(Mode::Pipelined),
    },
    Situation {
        name: "Pipelined, SrcAvail being read",
        make: || {
            then(with_src_avail(Mode::Pipelined), |s, _| {
                s.conn.start_read(300).unwrap();
            })
        },
    },
    Situation {
        name: "Pipelined, SrcAvail being read and declined",
        make: || {
            then(with_src_avail(Mode::Pipelined), |s, _| {
                s.conn.start_read(300).unwrap();
                s.conn.decline();
            })
        },
    },
    Situation {
        name: "Pipelined, SrcAvail being read and cancelled",
        make: || {
            then(with_src_avail(Mode::Pipelined), |s, _| {
                s.conn.start_read(300).unwrap();
                s.send(Body::SrcAvailCancel, 0).unwrap();
            })
        },
    },
    Situation {
        name: "Pipelined, SinkAvail sent",
        make: with_offer,
    },
    Situation {
        name: "Pipelined, SinkAvail sent and cancelled",
        make: || then(with_offer(), |s, _| s.conn.cancel_sinks()),
    },
    Situation {
        name: "Pipelined, SinkAvail held",
        make: with_sink_avail,
    },
    Situation {
        name: "Pipelined, SinkAvail being written",
        make: || {
            then((both(Mode::Pipelined), None), |s, _| {
                let large = SinkAvail {
                    len: 2000,
                    r_key: 9,
                    va: 0x20_0000,
                    non_discards: 0,
                };
                s.send(Body::SinkAvail(large), 0).unwrap();
                // More than may be in flight.
                s.queue(1000);
            })
        },
    },
];

type Event = fn(&mut Script, Option<RunId>) -> Result<String, String>;

fn message(s: &mut Script, body: Body, payload: u32) -> Result<String, String> {
    let delivery = s
        .send(body, payload)
        .map_err(|error| format!("{error:?}"))?;
    let mut text = Vec::new();
    if delivery.payload_len > 0 {
        text.push(format!("{} bytes", delivery.payload_len));
    }
    if delivery.remote > 0 {
        text.push(format!("{} remote", delivery.remote));
    }
    if let Some(end) = delivery.sink {
        text.push(format!("sink ends with {}", end.len));
    }
    if delivery.peer_closed {
        text.push("end of stream".to_owned());
    }
    Ok(text.join(", "))
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
    ("Data", |s, _| message(s, Body::Data, 5)),
    ("credit update", |s, _| message(s, Body::Data, 0)),
    ("SrcAvail, Combined", |s, _| {
        message(s, Body::SrcAvail(SRC_AVAIL), 1)
    }),
    ("SrcAvail, Pipelined", |s, _| {
        message(s, Body::SrcAvail(SRC_AVAIL), 0)
    }),
    ("SrcAvailCancel", |s, _| message(s, Body::SrcAvailCancel, 0)),
    ("RdmaRdCompl, a part", |s, _| {
        message(s, Body::RdmaRdCompl(100), 0)
    }),
    ("RdmaRdCompl, all", |s, id| {
        let all = id.map_or(1000, |_| s.conn.unsent());
        message(s, Body::RdmaRdCompl(all), 0)
    }),
    ("RdmaRdCompl, too much", |s, _| {
        message(s, Body::RdmaRdCompl(1001), 0)
    }),
    ("SendSm", |s, _| message(s, Body::SendSm, 0)),
    ("SinkAvail", |s, _| message(s, sink_avail(), 0)),
    ("SinkAvail, stale", |s, _| {
        let stale = SinkAvail {
            len: 500,
            r_key: 9,
            va: 0,
            non_discards: 77,
        };
        message(s, Body::SinkAvail(stale), 0)
    }),
    ("SinkAvailCancel", |s, _| {
        message(s, Body::SinkAvailCancel, 0)
    }),
    ("SinkCancelAck", |s, _| message(s, Body::SinkCancelAck, 0)),
    ("RdmaWrCompl", |s, _| message(s, Body::RdmaWrCompl(200), 0)),
    ("ModeChange 0x00", |s, _| {
        message(s, change(Half::Receive, Mode::Buffered), 0)
    }),
    ("ModeChange 0x10", |s, _| {
        message(s, change(Half::Receive, Mode::Combined), 0)
    }),
    ("ModeChange 0x20", |s, _| {
        message(s, change(Half::Receive, Mode::Pipelined), 0)
    }),
    ("ModeChange 0x90", |s, _| {
        message(s, change(Half::Send, Mode::Combined), 0)
    }),
    ("DisConn", |s, _| message(s, Body::DisConn, 0)),
    ("DREQ", |s, _| {
        quiet(|| s.conn.handle_disconnect_requested())
    }),
    ("write", |s, _| quiet(|| s.queue(10))),
    ("queue run", |s, _| told(s.conn.queue_run(RUN))),
    ("recall", |s, _| quiet(|| s.conn.recall())),
    ("withdraw", |s, id| {
        let id = id.ok_or("no run".to_owned())?;
        told(s.conn.withdraw(id))
    }),
    ("start Read", |s, _| told(s.conn.start_read(100))),
    ("Read completed", |s, _| {
        quiet(|| s.conn.handle_read_completed())
    }),
    ("decline", |s, _| quiet(|| s.conn.decline())),
    ("reader goes", |s, _| quiet(|| s.conn.set_reading(false))),
    ("offer", |s, _| told(s.conn.offer_sink(SINK))),
    ("cancel offers", |s, _| quiet(|| s.conn.cancel_sinks())),
    ("Write completed", |s, _| {
        quiet(|| s.conn.handle_write_completed())
    }),
    ("request Pipelined", |s, _| told(s.conn.request_pipelined())),
    ("shutdown", |s, _| quiet(|| s.conn.shutdown_send())),
    ("close", |s, _| {
        s.conn.close_receive();
        quiet(|| s.conn.shutdown_send())
    }),
    ("abort", |s, _| quiet(|| s.conn.abort())),
];

/// The next outputs of the engine; sends complete, Writes do not.
fn outputs(s: &mut Script) -> String {
    let mut all = String::new();
    for did in s.news() {
        match did {
            Did::Disconnect => all.push_str(" DREQ"),
            Did::Sent(repr) => write!(all, " {}", repr.body.mid()).unwrap(),
            Did::Wrote(_, len) => write!(all, " (writes {len})").unwrap(),
            Did::Taken(_, len) => write!(all, " (taken {len})").unwrap(),
            Did::Dropped(_, len) => write!(all, " (dropped {len})").unwrap(),
            Did::Returned(_, why) => write!(all, " (run returned: {why:?})").unwrap(),
            Did::SinkReturned(_, why) => write!(all, " (sink returned: {why:?})").unwrap(),
        }
    }
    if all.is_empty() {
        all.push_str(" -");
    }
    all
}

fn table() -> String {
    let mut table = String::from(
        "# SPDX-License-Identifier: GPL-2.0\n\
         # event | result | done and sent | modes of sending and receiving, timer, end\n",
    );
    for situation in SITUATIONS {
        writeln!(table, "\n{}", situation.name).unwrap();
        for (name, event) in EVENTS {
            let (mut s, id) = (situation.make)();
            assert!(s.conn.state().is_connected());
            let result = match event(&mut s, id) {
                Ok(text) if text.is_empty() => "ok".to_owned(),
                Ok(text) => text,
                Err(text) => format!("error: {text}"),
            };
            let done = outputs(&mut s);
            assert!(s.conn.is_sound());
            let mut after = format!("{:?}/{:?}", s.conn.send_mode(), s.conn.receive_mode());
            if let Some(timer) = s.conn.timers().next() {
                write!(after, ", {timer:?}").unwrap();
            }
            if let Some(ended) = s.conn.ended() {
                write!(after, ", {ended:?}").unwrap();
            }
            writeln!(table, "  {name:<21} | {result} |{done} | {after}").unwrap();
        }
    }
    table
}

#[test]
fn every_situation_and_event_is_as_reviewed() {
    assert_reviewed("tests/zcopy_matrix.txt", &table());
}

/// Three events in a row, everything with everything: nothing is unsound, what
/// has ended stays so, and then nothing is lent any more.
#[test]
fn every_three_events_in_every_situation_are_survived() {
    for situation in SITUATIONS {
        for (_, first) in EVENTS {
            for (_, second) in EVENTS {
                for (_, third) in EVENTS {
                    let (mut s, id) = (situation.make)();
                    let mut ended = None;
                    for event in [first, second, third] {
                        if s.conn.send_closed() && std::ptr::fn_addr_eq(*event, EVENTS[20].1) {
                            continue;
                        }
                        let _ = event(&mut s, id);
                        let outputs = s.drain();
                        assert!(outputs.len() < 100);
                        assert!(s.conn.is_sound());
                        if ended.is_some() {
                            assert_eq!(s.conn.ended(), ended);
                        }
                        ended = s.conn.ended();
                    }
                    if ended.is_some() {
                        assert_eq!(s.conn.remote_len(), 0);
                        assert_eq!(s.conn.run_room(), 0);
                    }
                }
            }
        }
    }
}
