// SPDX-License-Identifier: GPL-2.0

//! Two engines under a small model of their shells, joined by a reliable
//! connection and a connection manager; the test decides their timing.
//!
//! The model checks without asking the engine: the bytes and
//! urgent marks that arrive, credits and sequence numbers by a ledger of its
//! own that reads the headers, and memory by counting buffers.
#![allow(dead_code, reason = "each test file uses its part")]

mod ledger;
mod peer;
mod world;

pub(crate) use world::{Side, World};

use sdp_engine::engine::conn::{Config, Zcopy};

/// A configuration with tiny limits, so that every corner is near.
pub(crate) fn config(rx_depth: u16, rx_initial: u16, tx_depth: u16, max_payload: u16) -> Config {
    Config {
        rcv_size: max_payload.saturating_add(16).max(37),
        rx_depth,
        rx_initial,
        tx_depth,
        max_send_payload: max_payload.into(),
        max_adverts: 1,
        rcv_size_max: 0,
        zcopy: Zcopy::OFF,
    }
}
