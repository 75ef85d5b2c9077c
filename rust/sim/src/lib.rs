// SPDX-License-Identifier: GPL-2.0

//! A world in which two SDP peers meet. It makes all decisions of the environment: when a message
//! arrives, when a completion is seen, which datagrams the connection manager loses, when an
//! application reads.
//!
//! A history is a list of [`Step`](op::Step)s. The list comes from a seed ([`run`]), from bytes
//! (property tests and fuzzing), from an exhaustive search ([`explore`]) or from a script
//! ([`scene`]). The world behaves the same for all of them, so every failure is replayed by its
//! list.
//!
//! The world's checks do not ask the engine: see [`world`].

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
mod travel;
