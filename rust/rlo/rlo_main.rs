// SPDX-License-Identifier: GPL-2.0

//! RDMA between the interfaces of one machine, by memory copies.
//!
//! # Files
//!
//! | files | content |
//! |---|---|
//! | `verbs/` | the operations that ib_core calls, a file for each kind of object |
//! | `frame`, `ffi/frame.c`, `ffi/devices.c`, `ffi/link.c` | frames; the devices of the machine; `rdma link add` |
//! | `device`, `port` | a device and its queue pairs; its limits, keys, counters, the link that it models |
//! | `qp/mod`, `qp/completion`, `qp/transition`, `qp/events` | queue pairs: two sides, their state, completions, events |
//! | `qp/post`, `qp/modify`, `qp/reset` | the calls of a consumer |
//! | `qp/turn`, `qp/soft`, `task` | the turn; a softirq that sends; deferred work |
//! | `qp/requester`, `qp/transfer`, `qp/execution`, `qp/responder` | one request, from one queue pair to the other; its copy; its admission |
//! | `qp/datagram` | UD and connection managers |
//! | `send`, `receive`, `cq` | the three rings |
//! | `mr`, `bus`, `memory`, `copies` | keys, rights, bounds; device addresses; copies between scattered pieces; large ones by a DMA engine |
//! | `path`, `joint`, `joints`, `subnet`, `group` | paths; the device at the other end; ports of InfiniBand; multicast |
//! | `table`, `counters`, `names` | objects by number; counters; the standard's names |
//! | `faults`, `ffi/knobs.c`, `irq_lock` | faults on request; limits; the spin lock without interrupts |
//!
//! ARCHITECTURE.md has the floors on which they stand.
//!
//! # Rules
//!
//! - **The turn.** The holder of a queue pair's turn carries out its sends one after the other, so
//!   order and fences hold. ib_post_send takes the turn for requests of at most `inline_bytes` in
//!   all, or of 64 KiB if the poster cannot be preempted. The task takes it for everything else,
//!   and for more than 256 KiB if the DMA engine may copy them. It yields its worker after 1 MiB. A
//!   request that waits for a receive, for an answer or for a time parks the turn. A poster that
//!   finds the turn taken leaves a note (`again`).
//! - **Completion handlers run without the poster's locks**, because a poster may hold a lock that
//!   its handler takes. They run from an `irq_work`, in hardirq context. If the poster can be
//!   preempted, it holds no such lock, and they run at the end of the post (`ffi/bell.c`), or at
//!   the end of a frame that has come.
//! - **Datagrams.** Connection managers post with interrupts disabled, where no frame can be sent.
//!   An `irq_work` raises a softirq, which sends up to 64 KiB; the task sends the rest.
//! - **The inbound side** counts the requests of peers in progress (`busy`). A queue pair in the
//!   error state flushes its receives when the last request has ended. RESET and destruction wait
//!   for it.
//! - **A queue pair has one state**, an atomic number. It changes under the lock of the inbound
//!   side; then the outbound side is woken under its own lock. SQE is there before the completion
//!   that tells the consumer, which then asks for RTS.
//! - **Access.** The peer's queue pair admits a request, under its lock (`Qp::admit`), and keys of
//!   the device that owns the memory decide about the access. A copy holds its source and its target.
//!   A region counts its uses, and an invalidation or deregistration ends when there is none.
//! - **Joints.** Two devices are joined when a frame of one reaches the other and is answered. The
//!   answer carries a random number of the device, which is valid in this machine's memory only. An
//!   answered joint of RoCE stays one to two seconds after its last user; the end of the queue pair
//!   of connection managers and a change of the link end it at once.
//! - **Any host can send frames.** The handler is called for frames of every namespace. So it reads
//!   a copy of the header, looks for the device at a cost that no tenant's interfaces change, then
//!   makes the frame its own, and pulls the payload together last.
//! - **Ports of InfiniBand.** A path is a pair of LIDs, numbers of the machine (`lid_take` in `ffi/devices.c`). A
//!   frame names the LID, so that a wrong receiver drops it. Messages of ib_sa end in the device
//!   (`Administrator::ask`); all multicast groups exist. There is no queue pair 0.
//! - Large objects are freed in places that may sleep (`stop`, `revoke`), not with the last
//!   reference.
//!
//! # Locks
//!
//! | lock | type | protects | may be taken under it |
//! |---|---|---|---|
//! | `Qp::outbound` | spin lock, interrupts off | send queue, turn, route | the completion queue's |
//! | `Qp::inbound` | the same | receives, origin, `busy`, changes of the state | locks of a completion queue, of a shared receive queue, and of the table of queue pairs |
//! | `Joints::list` | the same | the list of joints | `Joint::state` |
//! | `Administrator::questions` | the same | path queries without an answer yet | `Joint::state` |
//! | `Groups::members`, `Table::slots`, `Cq::ring`, `Srq::shared`, `Mr::state`, `Joint::state` | the same | themselves | none |
//!
//! `outbound` and `inbound`, of one queue pair or of two, are never held together. No lock except
//! the copy engine's is held while bytes are copied.
//!
//! # Contexts
//!
//! | entry | where it runs | may sleep |
//! |---|---|---|
//! | post, poll, arm | the consumer's choice, with interrupts off as well | **no** |
//! | create, modify, destroy, map | caller | yes |
//! | `Qp::run`, `Joint::run`, `Joints::run`, `Administrator::run` | the workqueue `rlo` (unbound, with a rescuer) | yes |
//! | comp_handler | irq_work; the end of a post or of a softirq of ours | **no** |
//! | `Qp::send_softly`, frame in | softirq | **no** |
//! | write to `engine_bytes` | caller, under the lock of parameters | yes |
//! | event handlers | the workqueue `rlo` | yes |
//! | interface events | under RTNL | yes; ib_core's own worker removes a device later |

#![crate_name = "rlo"]
#![recursion_limit = "256"]

mod bus;
// The library for copies by a DMA engine, in a folder of its own: nothing there knows RDMA.
#[path = "../copier/mod.rs"]
mod copier;
mod copies;
mod counters;
mod cq;
mod device;
mod faults;
#[path = "../linux/ffi.rs"]
mod ffi;
mod frame;
mod group;
mod irq_lock;
mod joint;
mod joints;
mod memory;
mod mr;
mod names;
mod path;
mod port;
#[path = "../linux/prelude.rs"]
mod prelude;
mod qp;
mod receive;
mod send;
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
    // SAFETY: The device is not registered yet.
    let describe = |ib: &mut ffi::ib_device, device: &qp::Device| unsafe {
        verbs::describe(ib, device);
    };
    // SAFETY: Both are valid for the call.
    match unsafe { qp::Device::create(root.dir(), name, ndev, infiniband, describe) } {
        Ok(()) => 0,
        Err(error) => error.to_errno(),
    }
}
