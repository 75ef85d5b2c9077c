// SPDX-License-Identifier: GPL-2.0

//! Code without locks of the modules, under a model of weakly ordered memory.
//!
//! loom runs a test in every interleaving, and with every value that a load may give. Files of the
//! modules are mounted where they need nothing else; the pairs of C code are modelled in `pairs`.
//! docs/memory-order.md lists all pairs.
#![cfg(test)]
#![allow(dead_code, reason = "the modules use the rest")]

#[path = "../../kmod/link/attendance.rs"]
mod attendance;
#[path = "../../rlo/qp/events.rs"]
mod events;
mod pairs;
mod sources;

/// The import of `attendance`.
mod rdma {
    pub(crate) mod cq {
        #[derive(Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Side {
            Receives,
            Sends,
        }
    }
}
