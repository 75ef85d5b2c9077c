// SPDX-License-Identifier: MIT
//! Draws conversations in which one end has to find room while its peer is silent.

use std::ops::Range;

use crate::chance::Chance;
use crate::draw::pause;
use crate::plan::{Piece, Plan, Urgent, Way, What};

/// Options and knobs of small receive buffers, and of sends that wait for their reader.
const NARROW: &[&str] = &[
    "rcv_size",
    "rcv_size_initial",
    "rcv_depth",
    "zcopy_thresh",
    "SO_SNDBUF",
    "SO_RCVBUF",
    "SDP_ZCOPY_THRESH",
    "SDP_ZCOPY_SOURCE_THRESH",
    "SDP_ZCOPY_SINK_THRESH",
];

/// One end has to find room while its peer is silent, if nothing else can be the reason that there is none.
pub fn fall_silent(chance: &mut Chance, plan: &mut Plan, number: usize) {
    let writer = chance.below(2);
    let conversation = &mut plan.conversations[number];
    let hosts = conversation.ends.iter().map(|end| &plan.hosts[end.host]);
    let mut knobs = hosts.flat_map(|host| &host.knobs).map(|&(name, _)| name);
    let turned = plan.events.iter().any(|event| matches!(event.what, What::Knob { .. }));
    let undisturbed = conversation.certain && conversation.ends[0].urgent == Urgent::None;
    if !undisturbed || turned || knobs.any(|name| NARROW.contains(&name)) {
        return;
    }
    for end in &mut conversation.ends {
        end.options.retain(|option| !NARROW.contains(&option.text));
    }
    let end = &mut conversation.ends[writer];
    let ways = &[Way::Write, Way::Send, Way::Writev, Way::Sendmsg, Way::Sendfile, Way::Uring];
    let count = 1 + chance.below(4);
    let mut first = vec![Piece { way: Way::Send, len: 65_536, pause_us: 0 }];
    first.extend((0..count).map(|_| {
        let len = 3000 + chance.below(13_000);
        Piece { way: chance.of(ways), len, pause_us: pause(chance) }
    }));
    end.sends.splice(0..0, first);
    end.unread = Range { start: 1, end: 1 + count };
    end.narrow = !chance.one_in(4);
}
