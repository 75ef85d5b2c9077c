// SPDX-License-Identifier: GPL-2.0

//! The system calls of a socket: each group of them in a file, as methods of
//! [`Sock`](crate::object::Sock).
//!
//! Contexts: process context, may sleep. Locks: `lock_sock`, then the endpoint's.

pub(crate) mod accept;
pub(crate) mod attempt;
pub(crate) mod call;
pub(crate) mod chunks;
mod close;
pub(crate) mod companion;
pub(crate) mod connect;
pub(crate) mod decision;
pub(crate) mod family;
mod fragment;
pub(crate) mod getsockopt;
pub(crate) mod halves;
pub(crate) mod name;
pub(crate) mod needed;
pub(crate) mod offload;
pub(crate) mod operations;
pub(crate) mod poll;
pub(crate) mod protocol;
mod race;
pub(crate) mod recv;
pub(crate) mod send;
pub(crate) mod setsockopt;
pub(crate) mod shared_options;
pub(crate) mod splice;
pub(crate) mod wait;

/// The calls on a socket of this family.
pub(crate) struct Calls;
