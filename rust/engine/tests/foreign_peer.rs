// SPDX-License-Identifier: GPL-2.0

//! The engine against the credit policies of other implementations.
//!
//! Their policies differ from ours in when they send a credit update: the
//! OpenFabrics one answers whatever leaves us two credits or fewer, the gen2
//! one waits until it can grant eight or until fewer than three are left.
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test says what is wrong by panicking"
)]

mod script;

use script::{Did, Script};
use sdp_engine::engine::{
    conn::{Ended, State},
    wire::Body,
};

#[derive(Clone, Copy, Debug)]
enum Policy {
    OpenFabrics,
    Gen2,
}

/// The foreign side: numbers only.
struct Foreign {
    policy: Policy,
    /// Buffers of its ring; each is posted again as soon as it is free.
    ring: i64,
    /// Messages sent, and the last of ours that it received.
    sent: i64,
    credits: i64,
    /// The grant of its last message, less the messages that arrived since.
    granted: i64,
    arrived: i64,
    /// Messages with payload still to send.
    payload: u32,
    received_payload: u32,
    wants_disconn: bool,
}

impl Foreign {
    fn update_due(&self) -> bool {
        let left = self.granted - self.arrived;
        match self.policy {
            Policy::OpenFabrics if left <= 2 => self.ring > left,
            Policy::OpenFabrics => 2 * self.ring > 3 * left,
            Policy::Gen2 => (left < 3 && self.ring > left) || self.ring - left > 8,
        }
    }

    fn next(&mut self) -> Option<(Body, u32)> {
        if self.payload > 0 && self.credits > 2 {
            self.payload -= 1;
            return Some((Body::Data, 10));
        }
        if self.wants_disconn && self.payload == 0 && self.credits >= 2 {
            self.wants_disconn = false;
            return Some((Body::DisConn, 0));
        }
        (self.update_due() && self.credits > 0).then_some((Body::Data, 0))
    }
}

/// The two exchange messages until both are at rest. Returns how many.
fn run(script: &mut Script, foreign: &mut Foreign) -> usize {
    let mut messages = 0;
    loop {
        let mut moved = false;
        for did in script.drain() {
            moved = true;
            messages += 1;
            if let Did::Sent(repr) = did {
                foreign.arrived += 1;
                foreign.credits =
                    i64::from(repr.bufs) - (foreign.sent - i64::from(repr.mseq_ack.get()));
                foreign.received_payload += repr.payload_len;
            }
        }
        while let Some((body, payload)) = foreign.next() {
            moved = true;
            messages += 1;
            script.bufs = u16::try_from(foreign.ring).unwrap();
            let delivery = script.send(body, payload).unwrap();
            foreign.sent += 1;
            foreign.credits -= 1;
            foreign.granted = foreign.ring;
            foreign.arrived = 0;
            if delivery.payload_len > 0 {
                script.conn.on_buffer_consumed();
            }
        }
        if !moved {
            return messages;
        }
        assert!(messages < 20_000, "the two never come to rest");
    }
}

#[test]
fn both_directions_flow_and_come_to_rest() {
    for policy in [Policy::OpenFabrics, Policy::Gen2] {
        for ring in 3..=12 {
            let bufs = u16::try_from(ring).unwrap();
            let mut script = Script::granted(bufs);
            let mut foreign = Foreign {
                policy,
                ring,
                sent: 0,
                credits: 4,
                granted: ring,
                arrived: 0,
                payload: 100,
                received_payload: 0,
                wants_disconn: false,
            };
            script.queue(5000);
            let messages = run(&mut script, &mut foreign);
            assert_eq!(foreign.received_payload, 5000, "{policy:?} {ring}");
            assert_eq!(foreign.payload, 0, "{policy:?} {ring}");
            // 150 with payload, and no more than one update for each.
            assert!(messages < 320, "{policy:?} {ring}: {messages}");
            for _ in 0..50 {
                script.queue(1);
                assert!(run(&mut script, &mut foreign) <= 4);
                foreign.payload = 1;
                assert!(run(&mut script, &mut foreign) <= 4);
                assert_eq!(foreign.payload, 0);
            }
            foreign.wants_disconn = true;
            run(&mut script, &mut foreign);
            assert_eq!(script.conn.state(), State::PeerClosed, "{policy:?} {ring}");
            script.queue(2000);
            script.conn.shutdown_send();
            run(&mut script, &mut foreign);
            assert_eq!(foreign.received_payload, 7050, "{policy:?} {ring}");
            script.conn.handle_disconnect_requested();
            assert_eq!(script.conn.ended(), Some(Ended::Finished));
        }
    }
}
