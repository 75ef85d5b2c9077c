// SPDX-License-Identifier: GPL-2.0

//! A hostile peer of one engine. The peer sends any message at any time; only MSeq and
//! MSeqAck are possible ones, so that messages are not refused at once. The engine's
//! application offers and reads memory meanwhile.
//!
//! After every message only advertised memory is read or written, every loan ends
//! once, and the engine's invariants hold.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test says what is wrong by panicking"
)]

mod script;

use proptest::prelude::*;
use script::{Did, Script};
use sdp_engine::engine::{
    conn::{Mode, Run, RunId, SinkBuffer, SinkId},
    types::Mseq,
    wire::{
        avail::{SinkAvail, SrcAvail},
        mode::{Half, ModeChange},
        Body,
    },
};

#[derive(Clone, Copy, Debug)]
enum Op {
    Message {
        body: Body,
        payload: u32,
        /// So many messages of ours are not acknowledged.
        behind: u32,
        bufs: u16,
    },
    Run(u32),
    Withdraw(usize),
    Recall,
    StartRead(u32),
    CompleteRead,
    CompleteWrite,
    Decline,
    Reading(bool),
    Hold(bool),
    Offer(u32),
    CancelSinks,
    Pipelined,
    Write(u32),
    Timeout,
    Consume,
    Shutdown,
}

fn len() -> impl Strategy<Value = u32> {
    prop_oneof![
        Just(0u32),
        Just(1),
        Just(99),
        Just(100),
        Just(u32::MAX),
        0u32..3000
    ]
}

fn va() -> impl Strategy<Value = u64> {
    prop_oneof![
        Just(0u64),
        Just(u64::MAX),
        Just(u64::MAX - 500),
        0u64..1 << 40
    ]
}

fn mode() -> impl Strategy<Value = Mode> {
    prop_oneof![
        1 => Just(Mode::Buffered),
        1 => Just(Mode::Combined),
        3 => Just(Mode::Pipelined)
    ]
}

fn body() -> impl Strategy<Value = Body> {
    let half = prop_oneof![3 => Just(Half::Receive), 1 => Just(Half::Send)];
    prop_oneof![
        4 => Just(Body::Data),
        3 => Just(Body::SendSm),
        4 => len().prop_map(Body::RdmaRdCompl),
        4 => len().prop_map(Body::RdmaWrCompl),
        3 => (half, mode()).prop_map(|(half, mode)| Body::ModeChange(ModeChange { half, mode })),
        3 => Just(Body::SrcAvailCancel),
        3 => Just(Body::SinkAvailCancel),
        2 => Just(Body::SinkCancelAck),
        5 => (len(), any::<u32>(), va())
            .prop_map(|(len, r_key, va)| Body::SrcAvail(SrcAvail { len, r_key, va })),
        5 => (len(), any::<u32>(), va(), 0u32..4).prop_map(|(len, r_key, va, non_discards)| {
            Body::SinkAvail(SinkAvail { len, r_key, va, non_discards })
        }),
        1 => len().prop_map(Body::ChRcvBuf),
        1 => len().prop_map(Body::ChRcvBufAck),
        1 => Just(Body::DisConn),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        20 => (body(), prop_oneof![3 => Just(0u32), 1 => 1u32..60], 0u32..3, 2u16..20).prop_map(
            |(body, payload, behind, bufs)| Op::Message { body, payload, behind, bufs }
        ),
        5 => (2u32..2000).prop_map(Op::Run),
        1 => (0usize..3).prop_map(Op::Withdraw),
        1 => Just(Op::Recall),
        5 => (1u32..500).prop_map(Op::StartRead),
        5 => Just(Op::CompleteRead),
        4 => Just(Op::CompleteWrite),
        1 => Just(Op::Decline),
        1 => any::<bool>().prop_map(Op::Reading),
        1 => any::<bool>().prop_map(Op::Hold),
        4 => (100u32..600).prop_map(Op::Offer),
        1 => Just(Op::CancelSinks),
        2 => Just(Op::Pipelined),
        3 => (1u32..600).prop_map(Op::Write),
        1 => Just(Op::Timeout),
        4 => Just(Op::Consume),
        1 => Just(Op::Shutdown),
    ]
}

/// Memory of the peer that it has advertised at some time.
#[derive(Default)]
struct Advertised {
    src: Vec<SrcAvail>,
    sink: Vec<SinkAvail>,
}

impl Advertised {
    fn may_read(&self, r_key: u32, va: u64, len: u32) -> bool {
        self.src.iter().any(|advert| {
            advert.r_key == r_key
                && va >= advert.va
                && va + u64::from(len) <= advert.va + u64::from(advert.len)
        })
    }

    fn may_write(&self, r_key: u32, va: u64, len: u32) -> bool {
        self.sink.iter().any(|advert| {
            advert.r_key == r_key
                && va >= advert.va
                && va + u64::from(len) <= advert.va + u64::from(advert.len)
        })
    }
}

struct Game {
    s: Script,
    advertised: Advertised,
    runs: Vec<RunId>,
    sinks: Vec<SinkId>,
    queued: u64,
    left: u64,
    unread: u32,
}

impl Game {
    fn new() -> Self {
        let mut s = Script::zcopy(4);
        s.conn.set_reading(true);
        Self {
            s,
            advertised: Advertised::default(),
            runs: Vec::new(),
            sinks: Vec::new(),
            queued: 0,
            left: 0,
            unread: 0,
        }
    }

    fn apply(&mut self, op: Op) {
        let s = &mut self.s;
        match op {
            Op::Message {
                body,
                payload,
                behind,
                bufs,
            } => self.message(body, payload, behind, bufs),
            Op::Run(len) => {
                let run = Run {
                    len,
                    r_key: 1,
                    va: 0,
                    inline: 3,
                };
                if let Ok(id) = s.conn.queue_run(run) {
                    self.runs.push(id);
                    self.queued += u64::from(len);
                }
            }
            Op::Withdraw(rank) => {
                if let Some(id) = self.runs.iter().rev().nth(rank) {
                    let _ = s.conn.withdraw(*id);
                }
            }
            Op::Recall => s.conn.recall(),
            Op::StartRead(max) => {
                if let Ok(remote) = s.conn.start_read(max) {
                    let before = u64::from(remote.inline);
                    assert!(remote.len > 0 && remote.len <= max);
                    assert!(self.advertised.may_read(
                        remote.r_key,
                        remote.va - before,
                        remote.len + remote.inline
                    ));
                }
            }
            Op::CompleteRead => s.conn.handle_read_completed(),
            Op::CompleteWrite => s.conn.handle_write_completed(),
            Op::Decline => s.conn.decline(),
            Op::Reading(on) => s.conn.set_reading(on),
            Op::Hold(may) => {
                s.conn.hold_offers(may);
            }
            Op::Offer(len) => {
                let sink = SinkBuffer {
                    len,
                    r_key: 2,
                    va: 0,
                };
                if let Ok(id) = s.conn.offer_sink(sink) {
                    self.sinks.push(id);
                }
            }
            Op::CancelSinks => s.conn.cancel_sinks(),
            Op::Pipelined => {
                let _ = s.conn.request_pipelined();
            }
            Op::Write(len) => {
                if s.conn.queue(len, Default::default()).is_ok() {
                    self.queued += u64::from(len);
                }
            }
            Op::Timeout => {
                let timer = s.conn.timers().next();
                if let Some(timer) = timer {
                    s.conn.handle_timeout(timer);
                }
            }
            Op::Consume => {
                if self.unread > 0 {
                    self.unread -= 1;
                    s.conn.on_buffer_consumed();
                }
            }
            Op::Shutdown => s.conn.shutdown_send(),
        }
        self.drain();
    }

    fn message(&mut self, body: Body, payload: u32, behind: u32, bufs: u16) {
        let carries = matches!(body, Body::Data | Body::SrcAvail(_) | Body::SinkAvail(_));
        let mut repr = self.s.next(body, if carries { payload } else { 0 });
        let ack = repr.mseq_ack.get();
        repr.mseq_ack = Mseq::new(ack.saturating_sub(behind));
        repr.bufs = bufs;
        match body {
            Body::SrcAvail(advert) => self.advertised.src.push(advert),
            Body::SinkAvail(advert) => self.advertised.sink.push(advert),
            _ => {}
        }
        let before = self.s.conn.remote_len();
        match self.s.send_repr(&repr) {
            Ok(delivery) => {
                self.unread += u32::from(delivery.payload_len > 0);
                if let Some(end) = delivery.sink {
                    let place = self.sinks.iter().position(|id| *id == end.sink);
                    self.sinks.remove(place.expect("an offer, once"));
                }
                if delivery.remote > 0 {
                    let after = self.s.conn.remote_len();
                    assert_eq!(after, before + u64::from(delivery.remote));
                }
            }
            Err(error) => assert!(error.requirement().contains('-')),
        }
    }

    fn drain(&mut self) {
        let did = self.s.drain();
        assert!(did.len() < 200, "{} outputs", did.len());
        for did in did {
            match did {
                Did::Sent(repr) => self.left += u64::from(repr.payload_len),
                Did::Wrote(to, len) => {
                    assert!(self.advertised.may_write(to.r_key, to.va, len));
                    self.left += u64::from(len);
                }
                Did::Taken(_, len) | Did::Dropped(_, len) => self.left += u64::from(len),
                Did::Returned(run, _) => {
                    let place = self.runs.iter().position(|id| *id == run);
                    self.runs.remove(place.expect("a run, once"));
                }
                Did::SinkReturned(sink, _) => {
                    let place = self.sinks.iter().position(|id| *id == sink);
                    self.sinks.remove(place.expect("an offer, once"));
                }
                Did::Disconnect => {}
            }
        }
        assert!(self.left <= self.queued, "more has left than was queued");
        if self.s.conn.ended().is_some() {
            assert!(self.runs.is_empty() && self.sinks.is_empty());
            assert_eq!(self.s.conn.remote_len(), 0);
        } else {
            assert_eq!(u64::from(self.s.conn.unsent()), self.queued - self.left);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    //= test: MR-2, MR-3, ROBUST-1, ROBUST-5
    #[test]
    fn a_peer_that_says_anything_gets_at_nothing(ops in prop::collection::vec(op(), 0..120)) {
        let mut game = Game::new();
        for op in ops {
            game.apply(op);
        }
        game.s.conn.abort();
        game.drain();
        game.s.conn.handle_disconnected();
        game.drain();
        prop_assert!(game.s.conn.ended().is_some());
    }
}

/// A peer that sends nothing but credit updates, and uses up what each answer grants.
#[test]
fn updates_without_end_make_no_large_window() {
    let mut script = Script::established();
    for _ in 0..1000 {
        while script.conn.granted() > 0 {
            let update = script.next(Body::Data, 0);
            script.send_repr(&update).unwrap();
        }
        while script.step().is_some() {}
        assert!(script.conn.posted() <= 6, "{} posted", script.conn.posted());
    }
}
