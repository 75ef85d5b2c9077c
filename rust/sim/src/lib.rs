// SPDX-License-Identifier: GPL-2.0

//! A world in which two SDP peers meet, and which decides everything that a
//! real one decides for them: when a message crosses, when a completion is
//! seen, what the connection manager loses, when an application reads.
//!
//! Everything that happens is a [`Step`](op::Step) of a list. The list comes
//! from a seed ([`run`]), from bytes (property tests and fuzzing), from an
//! exhaustive search ([`explore`]) or from a script ([`scene`]); the world
//! behaves the same, so a failure of any of them is replayed by its list.
//!
//! What the world checks, it checks without asking the engine: see [`world`].

pub mod codec;
pub mod coverage;
pub mod dice;
pub mod explore;
pub mod fault;
pub mod ladder;
pub mod loans;
pub mod op;
pub mod run;
pub mod scene;
pub mod side;
pub mod story;
pub mod world;

mod app;
mod cm;
mod foreign;
mod frame;
mod ledger;
mod memory;
mod patience;
mod port;
mod rogue;
mod shell;
mod thrift;
mod trace;
