// SPDX-License-Identifier: GPL-2.0

//! Random sequences of operations on two engines.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test says what is wrong by panicking"
)]

mod link;

use link::{config, Side, World};
use proptest::prelude::*;
use sdp_engine::engine::conn::{Config, Ended, Queue};

#[derive(Clone, Copy, Debug)]
enum Op {
    Write {
        len: u32,
        more: bool,
        urgent: bool,
    },
    Read(usize),
    Carry(usize),
    Handle(usize),
    Complete(usize),
    Nodelay(bool),
    Cork(bool),
    Push,
    Timeout,
    /// So many of the receive buffers that are wanted cannot be had.
    Starve(u16),
    ConnectionManager,
    Shutdown,
    Close,
    Abort,
    LinkFailure,
}

/// What may happen without ending the connection early.
fn peaceful() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (1u32..200, any::<bool>(), prop::bool::weighted(0.1))
            .prop_map(|(len, more, urgent)| Op::Write { len, more, urgent }),
        6 => (1usize..6).prop_map(Op::Read),
        12 => (1usize..6).prop_map(Op::Carry),
        12 => (1usize..6).prop_map(Op::Handle),
        10 => (1usize..6).prop_map(Op::Complete),
        1 => any::<bool>().prop_map(Op::Nodelay),
        1 => any::<bool>().prop_map(Op::Cork),
        1 => Just(Op::Push),
        1 => Just(Op::ConnectionManager),
        1 => (0u16..6).prop_map(Op::Starve),
    ]
}

fn anything() -> impl Strategy<Value = Op> {
    prop_oneof![
        60 => peaceful(),
        3 => Just(Op::Timeout),
        2 => Just(Op::Shutdown),
        1 => Just(Op::Close),
        1 => Just(Op::Abort),
        1 => Just(Op::LinkFailure),
    ]
}

fn side() -> impl Strategy<Value = Side> {
    prop_oneof![Just(Side::A), Just(Side::B)]
}

fn limits() -> impl Strategy<Value = Config> {
    (3u16..6, 0u16..6, 3u16..8, 21u16..90)
        .prop_map(|(initial, more, tx, payload)| config(initial + more, initial, tx, payload))
}

fn apply(world: &mut World, side: Side, op: Op) {
    match op {
        Op::Write { len, more, urgent } => {
            world.write(side, len, Queue { more, urgent });
        }
        Op::Read(count) => {
            world.read(side, count);
        }
        Op::Carry(count) => {
            for _ in 0..count {
                world.carry(side);
            }
        }
        Op::Handle(count) => {
            world.handle(side, count);
        }
        Op::Complete(count) => {
            world.complete(side, count);
        }
        Op::Nodelay(on) => world.act(side, |peer| peer.conn.set_nodelay(on)),
        Op::Cork(on) => world.act(side, |peer| peer.conn.set_cork(on)),
        Op::Push => world.act(side, |peer| peer.conn.push()),
        Op::Timeout => {
            world.fire(side);
        }
        Op::Starve(count) => world.act(side, |peer| peer.starved = count),
        Op::ConnectionManager => {
            world.deliver_mad();
        }
        Op::Shutdown => world.shutdown(side),
        Op::Close => world.close(side),
        Op::Abort => world.act(side, |peer| peer.conn.abort()),
        Op::LinkFailure => world.act(side, |peer| peer.conn.handle_link_failed()),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    //= test: DATA-1
    /// Whatever the order of events and however small the grants, every byte
    /// and every urgent mark arrives, the two come to rest, and then close.
    #[test]
    fn everything_written_arrives(
        a in limits(),
        b in limits(),
        ops in prop::collection::vec((side(), peaceful()), 0..400),
        closer in side(),
    ) {
        let mut world = World::new(a, b);
        for (side, op) in ops {
            apply(&mut world, side, op);
        }
        world.run_out();
        world.assert_transferred();
        prop_assert_eq!(world.ended(), [None, None]);
        // At rest both can send at once.
        for side in Side::BOTH {
            prop_assert!(world.peer(side).conn.credits() >= 3);
            prop_assert_eq!(world.peer(side).timer, None);
        }
        world.shutdown(closer);
        world.run_out();
        world.shutdown(closer.other());
        world.run_out();
        prop_assert_eq!(world.ended(), [Some(Ended::Finished); 2]);
    }

    /// With closes, aborts, timeouts and failures in between, both sides come
    /// to an end and nobody has received what was not sent.
    #[test]
    fn every_end_is_reached_by_both(
        a in limits(),
        b in limits(),
        ops in prop::collection::vec((side(), anything()), 0..300),
    ) {
        let mut world = World::new(a, b);
        for (side, op) in ops {
            apply(&mut world, side, op);
        }
        for side in Side::BOTH {
            world.close(side);
        }
        world.run_out();
        world.assert_prefix();
        let ended = world.ended();
        for side in Side::BOTH {
            prop_assert!(world.peer(side).conn.ended().is_some(), "{:?}", ended);
        }
        if ended == [Some(Ended::Finished); 2] && Side::BOTH.iter().all(|s| world.peer(*s).eof) {
            world.assert_transferred();
        }
    }

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
        let mut world = World::new(a, b);
        for (side, op) in before {
            apply(&mut world, side, op);
        }
        world.shutdown(first);
        for (side, op) in between {
            apply(&mut world, side, op);
        }
        world.shutdown(first.other());
        for (side, op) in after {
            apply(&mut world, side, op);
        }
        world.run_out();
        prop_assert_eq!(world.ended(), [Some(Ended::Finished); 2]);
        world.assert_transferred();
    }
}
