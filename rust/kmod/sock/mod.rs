// SPDX-License-Identifier: GPL-2.0

//! The system calls of a socket: each group of them in a file, as methods of
//! [`Sock`](crate::object::Sock).
//!
//! | files | content |
//! |---|---|
//! | [`operations`], [`family`], [`protocol`] | the table of all calls; socket(2) of the family and of `IPPROTO_SDP` |
//! | [`name`], [`connect`], [`accept`], [`close`] | bind(2) and the names; connect(2); listen(2) and accept(2); shutdown(2) and close(2) |
//! | [`send`], [`fragment`], [`chunks`] | sendmsg(2); `fragment` copies the written bytes, in chunks where nothing is in flight |
//! | [`recv`], [`splice`], [`offload`] | recvmsg(2), which copies the received bytes; splice(2); reads by a DMA engine |
//! | [`poll`], [`call`], [`wait`] | poll(2) and ioctls; what every call that may wait has; sleeps |
//! | [`setsockopt`], [`getsockopt`] | options; `options` and `remembered` have their values |
//! | [`companion`], [`decision`], [`attempt`], [`race`], [`halves`], [`needed`], [`shared_options`] | SDP or TCP: the TCP half; the decision; connect(2); a silent peer; the other calls; options that only TCP has; options of both |
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
