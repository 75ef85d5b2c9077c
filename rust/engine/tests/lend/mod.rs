// SPDX-License-Identifier: GPL-2.0

//! Two engines that lend each other memory, under a small model of their
//! shells.
//!
//! The model carries the bytes themselves: each has a value, so that a byte
//! that is lost, doubled or out of place is seen at once. Memory is known by
//! its key, and using a key that was given back fails the test.
#![allow(dead_code, reason = "each test file uses its part")]

mod memory;
mod pair;
mod shell;

pub(crate) use pair::{Pair, Side};

use sdp_engine::engine::conn::{Config, Zcopy};

/// A configuration with tiny limits, so that every corner is near.
pub(crate) fn config(rx_depth: u16, tx_depth: u16, max_payload: u16, max_adverts: u8) -> Config {
    Config {
        rcv_size: max_payload.saturating_add(16).max(37),
        rx_depth,
        rx_initial: 3,
        tx_depth,
        max_send_payload: max_payload,
        max_adverts,
        rcv_size_max: 100,
        zcopy: Zcopy {
            advertise: true,
            read: true,
            write: true,
            read_depth: 2,
            write_depth: 2,
            max_write: 70,
        },
    }
}
