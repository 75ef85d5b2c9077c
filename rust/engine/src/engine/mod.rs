// SPDX-License-Identifier: GPL-2.0

//! The Sockets Direct Protocol, without its side effects.
//!
//! The engine performs no I/O, reads no clock, holds no payload byte, allocates
//! nothing and cannot panic, whatever a peer sends. It names no errno, lock,
//! page or verb. Its rules are in `spec/sdp.md`, one by one: comments name
//! a group of rules (`rules: CREDIT`) or, above the statement that obeys it, a rule.
//!
//! Start reading at [`conn::Connection`]: its documentation is the contract
//! with the shell, the code that owns sockets, queue pairs and clocks. Below it:
//!
//! | module | what |
//! |---|---|
//! | [`wire`] | bytes: headers and messages; knows no state |
//! | `flow` | numbers: credits, receive buffers, send slots, mode |
//! | `bcopy` | the byte stream in Data messages, both directions |
//! | `zcopy` | advertisements, of both kinds and seen from both sides |
//! | [`policy`] | what is wise, where the rules leave a choice |
//! | `oob` | the urgent byte |
//! | [`conn`] | the connection that owns one of each and routes between them |

#![forbid(unsafe_code)]
//= spec: ROBUST-4
// What stands in for a proof that nothing here can panic; the object code is
// examined as well (`rust/engine/tests/no_panic.rs`).
#![deny(
    clippy::arithmetic_side_effects,
    clippy::as_conversions,
    clippy::cast_possible_truncation,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::integer_division,
    clippy::panic,
    clippy::string_slice,
    clippy::todo,
    clippy::unimplemented,
    clippy::unreachable,
    clippy::unwrap_used
)]
#![cfg_attr(
    test,
    allow(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::integer_division,
        clippy::panic,
        clippy::unreachable,
        clippy::unwrap_used,
        reason = "a test says what is wrong by panicking"
    )
)]

#[macro_use]
mod machine;

mod bcopy;
pub mod conn;
pub mod error;
mod flow;
mod oob;
pub mod policy;
pub mod stats;
pub mod timer;
pub mod types;
pub mod wire;
mod zcopy;
