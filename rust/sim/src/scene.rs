// SPDX-License-Identifier: GPL-2.0

//! The risky parts of the protocol, small enough to be searched completely.

use crate::{
    explore::Scene,
    fault::Checked,
    op::{run, write, Op, Step},
    side::Side,
    world::World,
};
use sdp_engine::engine::conn::{Config, Zcopy};

/// The minimum credits of a connection.
fn tiny(rx_depth: u16) -> Config {
    Config {
        rcv_size: 37,
        rx_depth,
        rx_initial: 3,
        tx_depth: 3,
        max_send_payload: 21,
        max_adverts: 1,
        rcv_size_max: 0,
        zcopy: Zcopy::OFF,
    }
}

const READ: Op = Op::ReadRemote(40);

/// With all kinds of zero copy.
fn lending(max_adverts: u8) -> Config {
    Config {
        rx_depth: 4,
        max_adverts,
        zcopy: Zcopy {
            advertise: true,
            read: true,
            write: true,
            read_depth: 1,
            write_depth: 1,
            max_write: 30,
        },
        ..tiny(4)
    }
}

/// Combined mode in both directions.
fn combined() -> Checked<World> {
    World::established(lending(1), lending(1))
}

/// A's direction is Pipelined.
fn pipelined() -> Checked<World> {
    let mut world = World::established(lending(3), lending(3))?;
    world.apply(Step {
        side: Side::A,
        op: Op::Pipelined,
    })?;
    world.rest()?;
    Ok(world)
}

/// All scenes.
pub fn all() -> Checked<Vec<Scene>> {
    let mut all = copying()?;
    all.extend(advertising()?);
    all.extend(offering()?);
    Ok(all)
}

/// Scenes with SrcAvails.
fn advertising() -> Checked<Vec<Scene>> {
    Ok(vec![
        Scene {
            name: "cancel against completion",
            start: combined()?,
            scripts: [vec![run(60), Op::Recall], vec![READ, READ]],
            faults: false,
            timers: false,
        },
        Scene {
            name: "cancel against SendSm",
            start: combined()?,
            scripts: [vec![run(60), Op::Recall, run(30)], vec![READ, Op::Decline]],
            faults: false,
            timers: false,
        },
        Scene {
            name: "a write is taken back by a signal",
            start: combined()?,
            scripts: [vec![run(60), Op::Withdraw, write(5)], vec![READ, READ]],
            faults: false,
            timers: false,
        },
        Scene {
            name: "both sides advertise",
            start: combined()?,
            scripts: [vec![run(30), READ], vec![run(30), READ]],
            faults: false,
            timers: true,
        },
        Scene {
            name: "close against a SrcAvail",
            start: combined()?,
            scripts: [vec![run(60), Op::Close], vec![READ, Op::Close]],
            faults: false,
            timers: true,
        },
        Scene {
            name: "a SrcAvail, and everything breaks",
            start: combined()?,
            scripts: [vec![run(60), Op::Recall], vec![READ]],
            faults: true,
            timers: true,
        },
    ])
}

/// Scenes with SinkAvails.
fn offering() -> Checked<Vec<Scene>> {
    Ok(vec![
        Scene {
            name: "Data against a SinkAvail",
            start: pipelined()?,
            scripts: [vec![write(21), write(10)], vec![Op::Offer(0), Op::Offer(0)]],
            faults: false,
            timers: false,
        },
        Scene {
            name: "SrcAvail against SinkAvail",
            start: pipelined()?,
            scripts: [vec![run(40), run(30)], vec![Op::Offer(20), READ]],
            faults: false,
            timers: false,
        },
        Scene {
            name: "a SinkAvail and its cancel",
            start: pipelined()?,
            scripts: [vec![run(60)], vec![Op::Offer(20), Op::CancelSinks]],
            faults: false,
            timers: false,
        },
        Scene {
            name: "Pipelined mode against writes and a SinkAvail",
            start: World::established(lending(3), lending(3))?,
            scripts: [
                vec![write(21), Op::Pipelined, write(10)],
                vec![Op::Offer(0), Op::Offer(0)],
            ],
            faults: false,
            timers: false,
        },
        Scene {
            name: "close against a SinkAvail",
            start: pipelined()?,
            scripts: [vec![run(40), Op::Shutdown], vec![Op::Offer(20), Op::Close]],
            faults: false,
            timers: true,
        },
    ])
}

/// Scenes with Data only.
fn copying() -> Checked<Vec<Scene>> {
    let established = |depth| World::established(tiny(depth), tiny(depth));
    Ok(vec![
        Scene {
            name: "credits run out, one way",
            start: established(3)?,
            scripts: [
                vec![write(21), write(21), write(21), write(21)],
                vec![Op::Read(1), Op::Read(1), Op::Read(1)],
            ],
            faults: false,
            timers: false,
        },
        Scene {
            name: "credits run out, both ways",
            start: established(3)?,
            scripts: [
                vec![write(42), write(42), Op::Read(2)],
                vec![write(42), write(42), Op::Read(2)],
            ],
            faults: false,
            timers: false,
        },
        Scene {
            name: "no application reads, and timers run",
            start: established(3)?,
            scripts: [vec![write(63)], vec![write(63)]],
            faults: false,
            timers: true,
        },
        Scene {
            name: "the connection is made",
            start: World::new(tiny(3), tiny(3))?,
            scripts: [vec![write(21), Op::Shutdown], vec![write(21), Op::Shutdown]],
            faults: true,
            timers: true,
        },
        Scene {
            name: "close against close",
            start: established(3)?,
            scripts: [
                vec![write(21), Op::Close],
                vec![write(21), Op::Shutdown, Op::Read(1)],
            ],
            faults: false,
            timers: true,
        },
        Scene {
            name: "close against everything",
            start: established(3)?,
            scripts: [vec![write(21), Op::Close], vec![Op::Shutdown, Op::Abort]],
            faults: true,
            timers: true,
        },
        Scene {
            name: "an urgent byte against a shut window",
            start: established(3)?,
            scripts: [
                vec![
                    write(42),
                    Op::Write {
                        len: 2,
                        more: false,
                        urgent: true,
                    },
                    Op::Shutdown,
                ],
                vec![Op::Read(1), Op::Read(2), Op::Shutdown],
            ],
            faults: false,
            timers: false,
        },
    ])
}
