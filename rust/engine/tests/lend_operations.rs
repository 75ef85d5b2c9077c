// SPDX-License-Identifier: GPL-2.0

//! Random sequences of operations on two engines that lend each other memory.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test says what is wrong by panicking"
)]

mod lend;

use lend::{config, Pair, Side};
use proptest::{prelude::*, strategy::ValueTree, test_runner::TestRunner};
use sdp_engine::engine::conn::{Config, Ended, Mode, Queue};

#[derive(Clone, Copy, Debug)]
enum Op {
    Write { len: u32, more: bool, urgent: bool },
    Run { len: u32, inline: u16 },
    Recall,
    Withdraw(usize),
    Advertise(bool),
    Read(usize),
    StartRead(u32),
    Decline,
    Reading(bool),
    Offer(u32),
    CancelSinks,
    Mode(Mode),
    AskCombined,
    ReqPipe(bool),
    Resize(u32),
    Carry(usize),
    Fetch(usize),
    CompleteRead(usize),
    Handle(usize),
    Complete(usize),
    Timeout,
    Shutdown,
    Close,
    Abort,
    LinkFailure,
}

/// What may happen without ending the connection early.
fn peaceful() -> impl Strategy<Value = Op> {
    let mode = prop_oneof![
        Just(Mode::Pipelined),
        Just(Mode::Combined),
        Just(Mode::Buffered)
    ];
    prop_oneof![
        4 => (1u32..200, any::<bool>(), prop::bool::weighted(0.1))
            .prop_map(|(len, more, urgent)| Op::Write { len, more, urgent }),
        6 => (2u32..300, 0u16..60).prop_map(|(len, inline)| Op::Run { len, inline }),
        1 => Just(Op::Recall),
        1 => (0usize..3).prop_map(Op::Withdraw),
        1 => prop::bool::weighted(0.8).prop_map(Op::Advertise),
        6 => (1usize..6).prop_map(Op::Read),
        8 => (1u32..200).prop_map(Op::StartRead),
        1 => Just(Op::Decline),
        1 => any::<bool>().prop_map(Op::Reading),
        5 => (0u32..200).prop_map(Op::Offer),
        1 => Just(Op::CancelSinks),
        2 => mode.prop_map(Op::Mode),
        2 => Just(Op::AskCombined),
        1 => any::<bool>().prop_map(Op::ReqPipe),
        1 => (0u32..200).prop_map(Op::Resize),
        14 => (1usize..6).prop_map(Op::Carry),
        8 => (1usize..3).prop_map(Op::Fetch),
        8 => (1usize..3).prop_map(Op::CompleteRead),
        14 => (1usize..6).prop_map(Op::Handle),
        12 => (1usize..6).prop_map(Op::Complete),
    ]
}

fn anything() -> impl Strategy<Value = Op> {
    prop_oneof![
        80 => peaceful(),
        3 => Just(Op::Timeout),
        1 => Just(Op::Shutdown),
        1 => Just(Op::Close),
        1 => Just(Op::Abort),
        1 => Just(Op::LinkFailure),
    ]
}

fn side() -> impl Strategy<Value = Side> {
    prop_oneof![Just(Side::A), Just(Side::B)]
}

fn limits() -> impl Strategy<Value = Config> {
    (3u16..10, 3u16..8, 21u16..60, 1u8..5)
        .prop_map(|(rx, tx, payload, adverts)| config(rx, tx, payload, adverts))
}

fn apply(pair: &mut Pair, side: Side, op: Op) {
    let times = |count: usize, mut step: Box<dyn FnMut() -> bool + '_>| {
        for _ in 0..count {
            step();
        }
    };
    match op {
        Op::Write { len, more, urgent } => {
            pair.act(side, |shell| shell.write(len, Queue { more, urgent }));
        }
        Op::Run { len, inline } => {
            pair.act(side, |shell| shell.queue_run(len, inline));
        }
        Op::Recall => pair.act(side, |shell| shell.conn.recall()),
        Op::Withdraw(rank) => {
            pair.act(side, |shell| shell.withdraw(rank));
        }
        Op::Advertise(on) => pair.act(side, |shell| shell.conn.set_advertise(on)),
        Op::Read(count) => pair.act(side, |shell| {
            for _ in 0..count {
                shell.read_one();
            }
        }),
        Op::StartRead(max) => {
            pair.act(side, |shell| shell.start_read(max));
        }
        Op::Decline => pair.act(side, |shell| shell.conn.decline()),
        Op::Reading(on) => pair.act(side, |shell| shell.conn.set_reading(on)),
        Op::Offer(extra) => {
            pair.act(side, |shell| shell.offer(extra));
        }
        Op::CancelSinks => pair.act(side, |shell| shell.conn.cancel_sinks()),
        Op::Mode(mode) => pair.act(side, |shell| {
            let _ = shell.conn.request_mode(mode);
        }),
        Op::AskCombined => pair.act(side, |shell| {
            let _ = shell.conn.ask_combined();
        }),
        Op::ReqPipe(on) => pair.act(side, |shell| shell.conn.set_req_pipe(on)),
        Op::Resize(len) => pair.act(side, |shell| {
            let _ = shell.conn.ask_rcv_size(len);
        }),
        Op::Carry(count) => times(count, Box::new(|| pair.carry(side))),
        Op::Fetch(count) => times(count, Box::new(|| pair.fetch(side))),
        Op::CompleteRead(count) => times(count, Box::new(|| pair.complete_read(side))),
        Op::Handle(count) => {
            pair.handle(side, count);
        }
        Op::Complete(count) => {
            pair.complete(side, count);
        }
        Op::Timeout => {
            pair.fire(side);
        }
        Op::Shutdown => pair.act(side, |shell| shell.conn.shutdown_send()),
        Op::Close => pair.act(side, |shell| {
            if shell.unread > 0 {
                shell.conn.abort();
            } else {
                shell.conn.close_receive();
                shell.conn.shutdown_send();
            }
        }),
        Op::Abort => pair.act(side, |shell| shell.conn.abort()),
        Op::LinkFailure => pair.act(side, |shell| shell.conn.handle_link_failed()),
    }
}

/// Brings both to rest with nothing offered to be written.
fn settle(pair: &mut Pair) {
    pair.run_out();
    for side in Side::BOTH {
        pair.act(side, |shell| shell.conn.cancel_sinks());
    }
    pair.run_out();
}

/// What the sequences of this file reach, so that a change which makes them
/// lame is seen.
#[test]
fn the_sequences_reach_every_kind_of_message_and_event() {
    let mut runner = TestRunner::deterministic();
    let strategy = (
        limits(),
        limits(),
        prop::collection::vec((side(), peaceful()), 300..301),
    );
    let mut seen: [u64; 15] = [0; 15];
    for _ in 0..300 {
        let (a, b, ops) = strategy.new_tree(&mut runner).unwrap().current();
        let mut pair = Pair::new(a, b);
        for (side, op) in ops {
            apply(&mut pair, side, op);
        }
        settle(&mut pair);
        for side in Side::BOTH {
            let shell = pair.shell(side);
            let stats = shell.conn.stats();
            let counts = [
                stats.read_bytes_sent,
                stats.read_bytes_received,
                stats.written_bytes_sent,
                stats.written_bytes_received,
                stats.src_avails_sent.into(),
                stats.src_avails_received.into(),
                stats.src_avails_declined.into(),
                stats.sink_avails_sent.into(),
                stats.sink_avails_received.into(),
                stats.sink_avails_stale.into(),
                stats.send_sms_sent.into(),
                stats.send_sms_received.into(),
                stats.cancels_sent.into(),
                stats.cancels_received.into(),
                u64::try_from(shell.withdrawn).unwrap(),
            ];
            for (sum, count) in seen.iter_mut().zip(counts) {
                *sum += count;
            }
        }
    }
    println!("{seen:?}");
    assert!(seen.iter().all(|count| *count >= 20), "{seen:?}");
}

/// `PROPTEST_CASES` in the environment wins.
fn cases() -> ProptestConfig {
    ProptestConfig {
        failure_persistence: None,
        max_shrink_iters: 20_000,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(cases())]

    //= test: DATA-1, MR-1, MR-3
    /// Whatever the order of events, every byte that was not withdrawn arrives,
    /// every loan ends, the two come to rest, and then close.
    #[test]
    fn everything_that_was_not_withdrawn_arrives(
        a in limits(),
        b in limits(),
        ops in prop::collection::vec((side(), peaceful()), 0..300),
        closer in side(),
    ) {
        let mut pair = Pair::new(a, b);
        for (side, op) in ops {
            apply(&mut pair, side, op);
        }
        settle(&mut pair);
        prop_assert_eq!(pair.ended(), [None, None]);
        pair.assert_transferred();
        pair.assert_returned();
        for side in Side::BOTH {
            prop_assert!(pair.shell(side).conn.credits() >= 3);
            prop_assert_eq!(pair.shell(side).timer, None);
            prop_assert!(pair.shell(side).memory.is_empty());
        }
        pair.act(closer, |shell| shell.conn.shutdown_send());
        settle(&mut pair);
        pair.act(closer.other(), |shell| shell.conn.shutdown_send());
        settle(&mut pair);
        prop_assert_eq!(pair.ended(), [Some(Ended::Finished); 2]);
    }

    //= test: MR-2
    /// With every kind of end in between, both come to an end, nobody has got
    /// what was not sent, and every loan is over.
    #[test]
    fn every_end_is_reached_by_both_and_ends_every_loan(
        a in limits(),
        b in limits(),
        ops in prop::collection::vec((side(), anything()), 0..300),
    ) {
        let mut pair = Pair::new(a, b);
        for (side, op) in ops {
            apply(&mut pair, side, op);
        }
        for side in Side::BOTH {
            apply(&mut pair, side, Op::Close);
        }
        pair.run_out();
        for side in Side::BOTH {
            prop_assert!(pair.shell(side).conn.ended().is_some());
        }
        pair.assert_returned();
    }

    //= test: SRC-8, CLOSE-1
    /// Both close at some time and nobody aborts: both finish and have
    /// everything.
    #[test]
    fn a_graceful_close_loses_nothing(
        a in limits(),
        b in limits(),
        before in prop::collection::vec((side(), peaceful()), 0..200),
        first in side(),
        between in prop::collection::vec((side(), peaceful()), 0..100),
        after in prop::collection::vec((side(), peaceful()), 0..100),
    ) {
        let mut pair = Pair::new(a, b);
        for (side, op) in before {
            apply(&mut pair, side, op);
        }
        apply(&mut pair, first, Op::Shutdown);
        for (side, op) in between {
            apply(&mut pair, side, op);
        }
        apply(&mut pair, first.other(), Op::Shutdown);
        for (side, op) in after {
            apply(&mut pair, side, op);
        }
        settle(&mut pair);
        prop_assert_eq!(pair.ended(), [Some(Ended::Finished); 2]);
        pair.assert_transferred();
        pair.assert_returned();
    }
}
