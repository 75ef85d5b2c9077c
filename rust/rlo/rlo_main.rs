// SPDX-License-Identifier: GPL-2.0

//! RDMA between the interfaces of one machine, by memory copies.
//!
//! ARCHITECTURE.md has a section about it, with contexts, locks and invariants.

#![crate_name = "rlo"]
#![recursion_limit = "256"]

// The library for copies by a DMA engine, in a folder of its own: nothing there knows RDMA.
#[path = "../copier/mod.rs"]
mod copier;
mod copies;
mod counters;
mod cq;
mod datagram;
mod device;
mod faults;
mod ffi;
mod group;
mod irq_lock;
mod joint;
mod joints;
mod memory;
mod modify;
mod mr;
mod names;
#[path = "../kmod/prelude.rs"]
mod prelude;
mod qp;
mod receive;
mod requester;
mod responder;
mod send;
mod soft;
mod subnet;
mod table;
mod task;
#[allow(
    clippy::missing_safety_doc,
    reason = "thunks: ib_core's rules for each operation are what they ask of their callers"
)]
mod verbs;

use crate::prelude::*;
use kernel::{
    error::to_result,
    sync::SetOnce, //
};

module! {
    type: Rlo,
    name: "rlo",
    authors: ["SDP for Linux developers"],
    description: "RDMA between the interfaces of one machine",
    license: "GPL",
}

/// The debugfs directory of the devices, for `rdma link add`, which passes no context.
static ROOT: SetOnce<faults::Root> = SetOnce::new();

/// The module receives frames while this exists.
struct Frames(());

impl Drop for Frames {
    fn drop(&mut self) {
        // SAFETY: Frames were registered by `rlo_frames_init`.
        unsafe { ffi::rlo_frames_exit() }
    }
}

/// The link type is registered while this exists.
struct Links(());

impl Drop for Links {
    fn drop(&mut self) {
        // SAFETY: It was registered. All devices are gone afterwards.
        unsafe { ffi::rlo_link_unregister() }
    }
}

/// The loaded module. Fields are dropped in this order: the link type and all devices, then frames,
/// then tasks, then the engine.
struct Rlo {
    _links: Links,
    _frames: Frames,
    _queue: task::Queue,
    _engine: copies::Engine,
    _root: RootGuard,
}

/// Removes the directory, because a static is never dropped.
struct RootGuard(());

impl Drop for RootGuard {
    fn drop(&mut self) {
        if let Some(root) = ROOT.as_ref() {
            root.remove();
        }
    }
}

impl kernel::Module for Rlo {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        ROOT.populate(faults::Root::new());
        let root = RootGuard(());
        let engine = copies::Engine::new()?;
        let queue = task::Queue::new()?;
        // SAFETY: Once.
        to_result(unsafe { ffi::rlo_frames_init() })?;
        let frames = Frames(());
        // SAFETY: Once, and everything that devices need is there.
        to_result(unsafe { ffi::rlo_link_register() })?;
        Ok(Self {
            _links: Links(()),
            _frames: frames,
            _queue: queue,
            _engine: engine,
            _root: root,
        })
    }
}

/// `rdma link add`, under the lock of rdma's netlink and RTNL not held.
///
/// # Safety
///
/// Both are valid for the call.
#[no_mangle]
unsafe extern "C" fn rlo_link_add(
    name: *const c_char,
    ndev: *mut ffi::net_device,
    infiniband: bool,
) -> c_int {
    let Some(root) = ROOT.as_ref() else {
        return ENODEV.to_errno();
    };
    // SAFETY: Both are valid for the call.
    match unsafe { device::Device::create(root.dir(), name, ndev, infiniband) } {
        Ok(()) => 0,
        Err(error) => error.to_errno(),
    }
}
