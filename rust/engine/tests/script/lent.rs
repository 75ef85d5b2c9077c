// SPDX-License-Identifier: GPL-2.0

//! What is lent in the tests of zero copy, by us and by the peer.

use sdp_engine::engine::{
    conn::{Mode, Run, SinkBuffer},
    wire::{
        avail::SrcAvail,
        mode::{Half, ModeChange},
        Body,
    },
};

pub(crate) const RUN: Run = Run {
    len: 1000,
    r_key: 7,
    va: 0x10_0000,
    inline: 0,
};

pub(crate) const SINK: SinkBuffer = SinkBuffer {
    len: 500,
    r_key: 9,
    va: 0x20_0000,
};

pub(crate) const SRC_AVAIL: SrcAvail = SrcAvail {
    len: 1000,
    r_key: 7,
    va: 0x10_0000,
};

pub(crate) const fn change(half: Half, mode: Mode) -> Body {
    Body::ModeChange(ModeChange { half, mode })
}
