// SPDX-License-Identifier: GPL-2.0

//! RDMA for consumers in the kernel: ib_core, ib_cm and rdma_cm.
//!
//! C headers: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h),
//! [`include/rdma/ib_cm.h`](srctree/include/rdma/ib_cm.h),
//! [`include/rdma/rdma_cm.h`](srctree/include/rdma/rdma_cm.h)
//!
//! The library wraps what a consumer with reliable connections needs:
//!
//! | module | what |
//! |---|---|
//! | [`client`] | devices as they come and go |
//! | [`device`], [`lease`] | a device and its limits; shares of it, and who has them |
//! | [`domain`], [`holdings`], [`pd`] | a protection domain for each user of a device, with its idle regions |
//! | [`qp`], [`cq`] | a queue pair, and its completion queues, which its owner takes |
//! | [`receive`], [`send`], [`slots`] | the memory that is given away for receives and sends until they have completed |
//! | [`mapping`], [`page`] | memory that is mapped for a device; pages with a reference count |
//! | [`pages`], [`mr`], [`pool`], [`region`] | pages of a program, registered for a peer or for Reads |
//! | [`translations`], [`translation`], [`interval`] | the cache of pages that stay pinned and mapped |
//! | [`lend`] | regions that are given away while requests name them |
//! | [`cm`] | connections: requests, replies, events |
//! | [`route`] | from an address to a device and a path |
//!
//! # Invariants
//!
//! - **A reference to a [`device::Device`] keeps it.** The removal of a device waits for the last
//!   one, and everything made on a device has one. Nothing is promised about leases.
//! - **A mapping owns its memory** and ends before the memory is freed.
//! - **A posted request owns its memory**, which comes back for its completion alone: the buffer of
//!   a receive or Read, the pages and regions that a message or Write gathers from.
//! - **The target of events lives as long as they come.** A queue pair and a resolution own their
//!   contexts and are destroyed before them. The context of a connection is a number.
//! - **An event is an enum** with the data that it has, for as long as its handler runs.
//!
//! # Contexts
//!
//! Making and destroying sleep. Posting, polling and arming do not, and have no lock: the owner of a
//! queue pair has one. An event of a completion queue comes in the context that the driver chooses,
//! up to hardirq. Events of connections come in workqueues.
//!
//! Nothing here knows the protocol above it. Only this library names the bindings of ib_core;
//! `make check` looks at both.

pub(crate) mod cached;
pub(crate) mod client;
pub(crate) mod cm;
pub(crate) mod cq;
pub(crate) mod device;
pub(crate) mod domain;
pub(crate) mod holdings;
mod interval;
pub(crate) mod lease;
pub(crate) mod lend;
mod mapped;
pub(crate) mod mapping;
pub(crate) mod mr;
pub(crate) mod noio;
pub(crate) mod page;
pub(crate) mod pages;
pub(crate) mod pd;
mod pins;
pub(crate) mod pool;
pub(crate) mod qp;
pub(crate) mod receive;
pub(crate) mod region;
pub(crate) mod route;
pub(crate) mod send;
mod sightings;
pub(crate) mod slots;
mod spans;
mod translation;
pub(crate) mod translations;
pub(crate) mod unique;
