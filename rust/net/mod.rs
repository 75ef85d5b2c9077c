// SPDX-License-Identifier: GPL-2.0

//! The socket layer, for modules in Rust: sockets, their operations, messages and options,
//! network namespaces, wait queues, and the memory account of a protocol.
//!
//! C headers: [`include/linux/net.h`](srctree/include/linux/net.h),
//! [`include/net/sock.h`](srctree/include/net/sock.h)
//!
//! A socket of a module is an object that begins with an [`Sk`](sk::Sk)
//! ([`Object`](sk::Object)). Its system calls are an implementation of
//! [`Operations`](proto_ops::Operations); the library has the thunks.
//!
//! Nothing here knows a protocol. Helpers in C are in `ffi`, and their names begin with
//! `rust_net_`; no other part of a module names them. The iovs of messages and the memory of
//! user programs are the kernel crate's.
//!
//! Contexts and locks: each file says which. Methods of [`Sk`](sk::Sk) need no lock unless their
//! comment names one, and no promise in any case: a lock orders changes, it keeps no memory.

pub(crate) mod account;
pub(crate) mod family;
pub(crate) mod msg;
pub(crate) mod namespace;
pub(crate) mod option;
pub(crate) mod proto;
pub(crate) mod proto_ops;
pub(crate) mod sk;
pub(crate) mod socket;
pub(crate) mod splice;
pub(crate) mod task;
pub(crate) mod wait;
