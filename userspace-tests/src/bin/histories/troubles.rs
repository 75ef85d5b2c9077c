// SPDX-License-Identifier: MIT
//! Draws what goes wrong.

use crate::chance::Chance;
use crate::draw::KNOBS;
use crate::plan::{Event, Ground, Plan, What, CLIENT, SERVER};

/// What a network emulator does.
const EMULATIONS: &[&str] = &[
    "delay 2ms",
    "delay 5ms 4ms",
    "delay 1ms reorder 50%",
    "duplicate 30%",
    "loss 5%",
    "loss 30%",
    "loss 100%",
];

/// Statuses of the specification of `InfiniBand`: flushed, remote access, transport retries, RNR retries.
const STATUSES: &[u32] = &[5, 10, 12, 13];

/// Adds something that goes wrong between `begin` and `begin + len`, and comes back.
pub fn trouble(chance: &mut Chance, plan: &mut Plan) {
    let begin = chance.below(120) as u32;
    let len = chance.of(&[1, 5, 20, 100, 400, 3000]);
    let host = chance.below(plan.hosts.len());
    let conversation = chance.below(plan.conversations.len());
    let end = chance.of(&[CLIENT, SERVER]);
    let mut add = |at_ms, what| plan.events.push(Event { at_ms, what });
    let rdma = plan.ground != Ground::Tcp;
    let rlo = plan.ground == Ground::Rlo;
    match chance.below(18) {
        0 | 1 => add(begin, What::Kill { conversation, end }),
        2 => {
            add(begin, What::Stop { conversation, end });
            add(begin + len, What::Continue { conversation, end });
        }
        3 => {
            for step in 0..4 {
                add(begin + step * 3, What::Signal { conversation, end });
            }
        }
        4 => {
            add(begin, What::LinkDown { host });
            add(begin + len, What::LinkUp { host });
        }
        5 | 6 => {
            add(begin, What::Emulate { host, settings: chance.of(EMULATIONS) });
            add(begin + len.max(50), What::Emulate { host, settings: "" });
        }
        7 => {
            for at_ms in [begin, begin + len] {
                add(at_ms, What::Clock { seconds: chance.of(&[-86_400, -60, -1, 1, 60, 86_400]) });
            }
        }
        8 if rdma => {
            add(begin, What::RemoveDevice { host });
            add(begin + len, What::AddDevice { host });
        }
        9 if rdma => add(begin, What::DeleteHost { host }),
        10 if rdma => {
            let (name, values) = chance.of(KNOBS);
            add(begin, What::Knob { host, name, value: chance.of(values) });
        }
        11 if rdma => add(begin, What::Unload),
        12 if rlo => {
            add(begin, What::Fault { host, name: "hold", value: 1 });
            add(begin + len.min(400), What::Fault { host, name: "hold", value: 0 });
        }
        13 if rlo => {
            add(begin, What::Fault { host, name: "silent", value: 1 });
            add(begin + len, What::Fault { host, name: "silent", value: 0 });
        }
        14 if rlo => {
            add(begin, What::Fault { host, name: "fail_status", value: chance.of(STATUSES) });
            add(
                begin,
                What::Fault { host, name: "fail_requests", value: chance.of(&[1, 1, 3, 20]) },
            );
            add(begin + len, What::Fault { host, name: "fail_requests", value: 0 });
        }
        15 if rlo => {
            add(begin, What::Fault { host, name: "fail_posts", value: chance.of(&[1, 2, 8]) });
        }
        16 if rlo => {
            add(begin, What::Fault { host, name: "not_ready", value: chance.of(&[1, 4, 30]) });
        }
        17 if rlo => {
            let value = chance.of(&[1, 5, 100]);
            add(begin, What::Fault { host, name: "fail_registrations", value });
        }
        _ => {}
    }
}
