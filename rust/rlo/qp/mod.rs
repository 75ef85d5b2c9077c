// SPDX-License-Identifier: GPL-2.0

//! Queue pairs: their two queues, their state, and the turn to execute their sends.
//!
//! A queue pair has two sides. The *outbound* side is its send queue. The owner of its turn
//! executes requests, one after the other: the poster for small ones, or the queue pair's task. The
//! *inbound* side is its receive queue and the requests of its peer. Only one peer is connected,
//! which executes one request at a time.
//!
//! Contexts: posting and all requests of peers work in any context; creation, [`Qp::reset`] and
//! [`Qp::stop`] sleep. Locks: `outbound` and `inbound` are never held together; the lock of a
//! completion queue or of a shared receive queue is taken under either.

mod completion;
pub(crate) mod datagram;
mod events;
mod execution;
pub(crate) mod modify;
mod post;
mod requester;
mod reset;
mod responder;
mod soft;
mod transfer;
mod transition;
mod turn;

use self::{
    events::Events,
    soft::Soft, //
};
use crate::{
    cq::Cq,
    device,
    ffi,
    irq_lock::{
        new_spinlock_irq,
        SpinLockIrq, //
    },
    joint,
    names::state,
    port::Port,
    prelude::*,
    receive::{
        Pieces,
        Receive,
        Receives,
        Srq, //
    },
    send::Sends,
    task::Task, //
};
use core::cell::UnsafeCell;
use kernel::sync::{
    atomic::{
        Acquire,
        Atomic,
        Release, //
    },
    Arc, //
};

pub(crate) type Device = device::Device<Qp>;
pub(crate) type Joint = joint::Joint<Device>;
type Underway = execution::Underway<Route, Qp>;
type Execution = execution::Execution<Route, Qp>;

/// Bytes that are copied at most without a chance to be preempted. A poster that cannot be preempted
/// anyway, perhaps with interrupts disabled, copies no more.
const ATOMIC_BYTES: usize = 65536;

/// The bit beside the events': a completion queue had no room.
const OVERRUN: u32 = 31;

/// The owner of the turn, which executes the sends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Turn {
    Free,
    Held,
    /// None, but a request is in progress: the task continues it.
    Parked,
}

/// The connection's parameters for the outbound side.
#[derive(Clone)]
struct Route {
    joint: Arc<Joint>,
    dest: u32,
    psn: u32,
    /// Nanoseconds; 0: unlimited.
    timeout: u64,
    retries: u32,
    /// 7: unlimited.
    rnr_retries: u32,
    max_reads: u32,
}

struct Outbound {
    turn: Turn,
    /// The owner of the turn must look again, because something has changed.
    again: bool,
    sends: Sends,
    route: Option<Route>,
    notify_drained: bool,
}

impl Outbound {
    /// Whether requests wait to be executed, or to be completed.
    fn has_work(&self) -> bool {
        self.turn == Turn::Parked || self.sends.has_waiting() || self.sends.next_due().is_some()
    }
}

/// The connection's parameters for the inbound side.
struct Origin {
    joint: Arc<Joint>,
    from: u32,
    psn: u32,
    rights: u32,
    rnr_timer: u64,
    max_reads: u32,
}

/// The completion of a receive that the modelled link has not delivered yet.
struct Arrival {
    entry: ffi::ib_wc,
    solicited: bool,
    due: u64,
}

struct Inbound {
    receives: Option<Receives>,
    /// Requests of peers in progress: at most one, except for datagrams.
    busy: u32,
    /// The receive of a message that its sender abandoned.
    partial: Option<Receive>,
    arrivals: KVVec<Arrival>,
    origin: Option<Origin>,
    /// A sender that waits for a posted receive.
    waiter: Option<Arc<Qp>>,
    /// A message has arrived in RTR.
    established: bool,
}

// SAFETY: The pointers in completions are the consumer's, who may use them anywhere.
unsafe impl Send for Inbound {}

/// The attributes that `ib_query_qp` returns and later transitions need.
struct Attributes(ffi::ib_qp_attr);

// SAFETY: Its pointers are not used.
unsafe impl Send for Attributes {}

/// The parameters with which a queue pair was created.
pub(crate) struct Shape {
    pub(crate) device: Arc<Device>,
    pub(crate) pd: usize,
    pub(crate) datagrams: bool,
    pub(crate) send_cq: Arc<Cq>,
    pub(crate) recv_cq: Arc<Cq>,
    pub(crate) srq: Option<Arc<Srq>>,
    pub(crate) cap: ffi::ib_qp_cap,
    pub(crate) signal_all: bool,
}

/// A queue pair.
#[pin_data]
pub(crate) struct Qp {
    ib: *mut ffi::ib_qp,
    number: u32,
    shape: Shape,
    #[pin]
    attributes: SpinLockIrq<Attributes>,
    #[pin]
    outbound: SpinLockIrq<Outbound>,
    #[pin]
    inbound: SpinLockIrq<Inbound>,
    /// The state, of both sides. It changes under the lock of `inbound` alone, and is read under any
    /// lock, or none: whoever changes it takes the lock of `outbound` afterwards, so that no reader
    /// there misses the change.
    state: Atomic<u32>,
    /// Pending asynchronous events, one bit each, and `OVERRUN`.
    events: Events,
    /// Accessed by the owner of the turn only.
    execution: UnsafeCell<Execution>,
    #[pin]
    task: Task<Qp>,
    /// Sends datagrams before the task would.
    soft: Option<Pin<KBox<Soft<Sending>>>>,
}

// SAFETY: `ib` is handed back to ib_core; `execution` is used by the holder of the turn alone.
unsafe impl Send for Qp {}
// SAFETY: Every field is constant, atomic or has a lock, except `execution`, which belongs to the
// turn, and the turn is given and taken under a lock.
unsafe impl Sync for Qp {}

/// Has a queue pair send what it can without sleeping.
struct Sending {
    device: Arc<Device>,
    number: u32,
}

impl Qp {
    pub(crate) fn new(ib: *mut ffi::ib_qp, number: u32, shape: Shape) -> Result<Arc<Self>> {
        let cap = shape.cap;
        let sends = Sends::new(
            cap.max_send_wr,
            cap.max_send_sge,
            cap.max_inline_data,
            shape.signal_all,
        )?;
        let receives = match shape.srq {
            Some(_) => None,
            None => Some(Receives::new(cap.max_recv_wr, cap.max_recv_sge)?),
        };
        let soft = if shape.datagrams {
            Some(Soft::new(Sending {
                device: shape.device.clone(),
                number,
            })?)
        } else {
            None
        };
        Arc::pin_init(
            pin_init!(Self {
                ib,
                number,
                shape,
                attributes <- new_spinlock_irq!(Attributes(ffi::ib_qp_attr::default())),
                outbound <- new_spinlock_irq!(Outbound {
                    turn: Turn::Free,
                    again: false,
                    sends,
                    route: None,
                    notify_drained: false,
                }),
                inbound <- new_spinlock_irq!(Inbound {
                    receives,
                    busy: 0,
                    partial: None,
                    arrivals: KVVec::new(),
                    origin: None,
                    waiter: None,
                    established: false,
                }),
                state: Atomic::new(state::RESET),
                events: Events::new(),
                execution: UnsafeCell::new(Execution::new()),
                task <- Task::new(),
                soft,
            }),
            GFP_KERNEL,
        )
    }

    pub(crate) fn shape(&self) -> &Shape {
        &self.shape
    }

    pub(crate) fn port(&self) -> &Port {
        &self.shape.device.port
    }

    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// Its attributes, with the present state.
    pub(crate) fn attributes(&self) -> ffi::ib_qp_attr {
        let mut attr = self.attributes.lock().copied();
        attr.qp_state = self.state();
        attr.cur_qp_state = attr.qp_state;
        attr.cap = self.shape.cap;
        attr
    }

    pub(crate) fn ib(&self) -> *mut ffi::ib_qp {
        self.ib
    }

    /// Another reference to the same.
    fn this(&self) -> Option<Arc<Self>> {
        self.shape.device.qp(self.number)
    }

    /// Whether `device` no longer has it under its number.
    fn is_stopped(&self, device: &Arc<Device>) -> bool {
        self.state() == state::RESET || !Arc::ptr_eq(&self.shape.device, device)
    }

    /// Whether it has failed; a peer's copy checks this.
    fn is_failed(&self) -> bool {
        !self.can_receive()
    }

    /// Whether it is in a state in which messages arrive.
    fn can_receive(&self) -> bool {
        matches!(
            self.state(),
            state::RTR | state::RTS | state::SQD | state::SQE
        )
    }

    pub(crate) fn state(&self) -> u32 {
        self.state.load(Acquire)
    }

    /// Changes the state. The lock is what protects it.
    fn set_state(&self, _inbound: &mut Inbound, to: u32) {
        self.state.store(to, Release);
    }

    /// Takes the oldest receive, and copies its pieces to `pieces`. It stays in the queue if it has no
    /// room for `least` bytes.
    fn pop_receive(
        &self,
        inbound: &mut Inbound,
        pieces: &mut Pieces,
        least: u64,
    ) -> Option<Receive> {
        match (&self.shape.srq, inbound.receives.as_mut()) {
            (Some(srq), _) => srq.pop(pieces, least),
            (None, Some(receives)) => receives.pop(pieces, least),
            (None, None) => None,
        }
    }

    /// Has a waiting request tried again. Called under the lock: a reset comes before the task is
    /// stopped, and afterwards there may be no kick.
    fn wake(&self) {
        let mut outbound = self.outbound.lock();
        outbound.again = true;
        let held = outbound.turn == Turn::Held;
        if outbound.has_work() && !held && self.state() != state::RESET {
            self.task.kick();
        }
    }

    /// Raises an event, from the task. Called under a lock of the queue pair, in a state other than
    /// RESET, or by the owner of the turn, because the task may not be kicked once it is stopped.
    fn raise(&self, event: u32) {
        self.events.raise(event);
        self.task.kick();
    }
}

impl Attributes {
    /// A copy of all attributes. bindgen derives no `Clone` for the struct.
    fn copied(&self) -> ffi::ib_qp_attr {
        // SAFETY: Plain C data, without a destructor.
        unsafe { core::ptr::read(&self.0) }
    }
}
