// SPDX-License-Identifier: MIT
//! Cases that fail on purpose, for tests of the runner.

use crate::case::{Case, Difference};
use crate::world::Family;

pub const CASES: &[Case] = &[
    Case::alone("passes", |t| t.eq("sum", 1 + 1, 2)),
    Case::alone("fails_an_assertion", |t| t.eq("sum", 1 + 1, 3)),
    Case::alone("observes_another_value", |t| t.see("family", t.family.to_string())),
    Case::alone("observes_more_on_one_family", |t| {
        if t.family == Family::Sdp {
            t.see("extra", true);
        }
    }),
    Case::alone("differs_as_declared", |t| t.see("family", t.family.to_string())).differs(&[
        Difference { label: "family", tcp: "tcp", sdp: "sdp", reason: "it is the family" },
    ]),
    Case::alone("differs_in_another_way_than_declared", |t| t.see("family", t.family.to_string()))
        .differs(&[Difference {
            label: "family",
            tcp: "tcp",
            sdp: "xyz",
            reason: "a wrong guess",
        }]),
    Case::two(
        "never_ends",
        |t| {
            t.say("the last point");
            t.wait("a point that never comes");
        },
        |t| {
            t.wait("the last point");
            loop {
                std::thread::park();
            }
        },
    ),
    Case::two("dies_of_a_signal", |t| t.wait("nothing"), |_| std::process::abort()),
    Case::two("ends_without_a_word", |t| t.wait("nothing"), |_| std::process::exit(7)),
    Case::two("speaks_out_of_order", |t| t.say("second"), |t| t.wait("first")),
];
