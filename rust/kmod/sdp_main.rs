// SPDX-License-Identifier: GPL-2.0

//! Sockets Direct Protocol: TCP's streams over RDMA.
//!
//! ARCHITECTURE.md has the map of the files.

#![crate_name = "sdp"]
#![recursion_limit = "256"]

// The pure protocol engine, which is also built and tested on the host. It has
// to be mounted here, at the root: see ARCHITECTURE.md.
#[path = "../engine/src/engine/mod.rs"]
#[allow(unreachable_pub, reason = "the host crate exports what is `pub` there")]
mod engine;

// The library for the socket layer, in a folder of its own: nothing there knows SDP.
#[path = "../net/mod.rs"]
mod net;

// The wrappers of ib_core, in a folder of their own: nothing there knows SDP.
#[path = "../rdma/mod.rs"]
mod rdma;

// The library for copies by a DMA engine, in a folder of its own: nothing there knows SDP.
#[path = "../copier/mod.rs"]
mod copier;

// The parts that all modules share.
#[path = "../linux/calls.rs"]
mod calls;
#[path = "../linux/ffi.rs"]
mod ffi;
#[path = "../linux/fifo.rs"]
mod fifo;
#[path = "../linux/offsets.rs"]
mod offsets;
#[path = "../linux/prelude.rs"]
mod prelude;
#[path = "../linux/random.rs"]
mod random;

mod addr;
mod alarm;
mod binding;
mod cm;
mod devices;
mod diag;
mod endpoint;
mod errno;
mod events;
mod fallback;
mod handle;
mod idle;
mod keepalive;
mod link;
mod namespace;
mod netns;
mod object;
mod options;
mod parting;
mod proc;
mod proto;
mod queue;
mod race;
mod remembered;
mod shell;
mod sock;
mod trace;
mod user_timeout;
mod wake;
mod zcopy;

use crate::prelude::*;

module! {
    type: Sdp,
    name: "sdp",
    authors: ["SDP for Linux developers"],
    description: "Sockets Direct Protocol (AF_INET_SDP) over RDMA",
    license: "GPL",
    // One alias, so that one line of modprobe.d keeps the module out: see sdp(7).
    alias: ["net-pf-27"],
}

/// The loaded module. Fields are dropped in this order: no new sockets, then no
/// devices, then the infrastructure of sockets. Nothing is in use by then, because
/// every socket holds the module.
struct Sdp {
    _protocol: sock::protocol::Registration,
    _family: net::family::Registration,
    _shells: sock::protocol::Shells,
    _diag: diag::Registration,
    _devices: cm::client::Registration,
    _cache: rdma::translations::Cache,
    _net: namespace::Registration,
    _engine: sock::offload::Engine,
    _queue: alarm::Workqueue,
    _proto: proto::Registration,
}

impl kernel::Module for Sdp {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        // SAFETY: Called once, before anything locks them.
        unsafe {
            devices::REGISTRY.init();
            devices::KNOWN.init();
            cm::ticket::TABLE.init();
        }
        // SAFETY: Called once, before any socket.
        let cache = unsafe { rdma::translations::Cache::new() }?;
        let proto = proto::Registration::new()?;
        let queue = alarm::Workqueue::new()?;
        let engine = sock::offload::Engine::new()?;
        let net = namespace::Registration::new()?;
        let devices = cm::client::Registration::new()?;
        let shells = sock::protocol::Shells::new()?;
        let diag = diag::Registration::new()?;
        // The two doors for programs come last. Another module may have the number of the
        // first one; the second one always opens. So nothing is undone under a socket.
        let family = sock::family::register()?;
        let protocol = sock::protocol::Registration::new()?;
        Ok(Self {
            _protocol: protocol,
            _family: family,
            _shells: shells,
            _diag: diag,
            _devices: devices,
            _cache: cache,
            _net: net,
            _engine: engine,
            _queue: queue,
            _proto: proto,
        })
    }
}
