// SPDX-License-Identifier: GPL-2.0

//! The dangerous parts of the protocol, small enough to be searched whole.

use crate::{explore::Scene, fault::Checked, op::Op, world::World};
use sdp_engine::engine::conn::{Config, Zcopy};

/// As few credits as a connection can have.
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

const fn write(len: u16) -> Op {
    Op::Write {
        len,
        more: false,
        urgent: false,
    }
}

/// All scenes.
pub fn all() -> Checked<Vec<Scene>> {
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
            name: "nobody reads, and timers run",
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
