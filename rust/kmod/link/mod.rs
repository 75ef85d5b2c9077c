// SPDX-License-Identifier: GPL-2.0

//! The RDMA half of one connection: queue pair, CM identifier, buffers.
//!
//! A link belongs to its endpoint while the connection lives. Then it is retired, and
//! the reaper destroys it: destroying sleeps until callbacks have returned, and these
//! take the endpoint's lock.
//!
//! Contexts: under the endpoint's lock; [`Link::destroy`] without it.

pub(crate) mod attendance;
mod callbacks;
mod chores;
mod reap;
mod receive;
mod send;

use callbacks::Callbacks;
pub(crate) use callbacks::{
    Next,
    Taken, //
};
use receive::{
    RECEIVE_SGES,
    RECEIVE_SLOT, //
};

use crate::{
    cm::identifier::CmId,
    devices::{
        Lease,
        Leasing, //
    },
    engine::policy::round_trip::RoundTrip,
    ffi,
    fifo::Fifo,
    net,
    object::SockRef,
    prelude::*,
    queue::Frag,
    verbs::{
        buffer::{
            Mapping,
            RxBuffer, //
        },
        cq::{
            Batch,
            Side, //
        },
        device::Device,
        domain::Domain,
        kept::Keeper,
        qp::{
            Capacity,
            Qp,
            ReadDepths,
            Reply, //
        },
        slots::{
            ReceiveSlots,
            SlotRing, //
        },
    },
    zcopy::{
        sink::Sink,
        source::Source, //
    },
};
use kernel::{
    sync::{
        atomic::{
            Atomic,
            Full,
            Relaxed, //
        },
        Arc, //
    },
    time::{
        Instant,
        Monotonic, //
    },
};

/// Pieces of one SEND: the header and the stream's fragments. A fragment is
/// 32 KiB where memory allows it, so more pieces would seldom be of use, and
/// would double an element of rxe's send queue (256 bytes).
const SEND_SGES: u32 = 3;

/// Maximum payload of one SEND: a fragment. A grown buffer of this module, and each of OFED and
/// FreeBSD, has room for all of it.
pub(crate) const MAX_PAYLOAD: u16 = 32768;

/// Room of one header; the longest has 36 bytes.
const HEADER_SLOT: usize = 64;

/// The connection attempt to which a callback belongs.
///
/// Callbacks of a retired link still arrive, so each carries the generation of its
/// link.
pub(crate) struct Origin {
    pub(crate) sock: SockRef,
    pub(crate) generation: u64,
}

/// The context of a queue pair's callbacks.
pub(crate) struct Context {
    origin: Origin,
    /// 1 if the link has been retired, and its completions are the worker's.
    retired: Atomic<i32>,
}

impl Context {
    /// Whether the link has been retired.
    fn is_retired(&self) -> bool {
        self.retired.load(Relaxed) != 0
    }
}

impl core::ops::Deref for Context {
    type Target = Origin;

    fn deref(&self) -> &Origin {
        &self.origin
    }
}

/// Payload of one request.
pub(crate) struct Load {
    /// Number of the socket's fragments that hold it.
    frags: u8,
    pub(crate) bytes: u32,
    /// See [`Frag`]; known when the request has completed.
    pub(crate) extra: u32,
    /// The payload is in a program's memory.
    pub(crate) pinned: bool,
}

/// One posted request of the send queue.
enum Slot {
    Message(Load),
    /// Into the peer's memory.
    Write(Load),
    Probe,
    /// A registration; nobody waits for it.
    Register,
    /// The end of a registration of this key.
    Revoke(u32),
    /// A Read that counts when the one behind it has completed.
    UnprovenRead,
    Read,
}

/// A fragment in flight.
///
/// # Invariants
///
/// The page of a fragment is mapped by this or by a later element of the same page.
/// Requests complete in order, so the last of them is there as long as any.
struct Flying {
    mapping: Option<Mapping>,
    /// Where in the page the mapping begins.
    start: usize,
    frag: Frag,
}

impl Flying {
    /// The mapping, if it covers `frag` as well.
    fn share(&mut self, frag: &Frag) -> Option<Mapping> {
        let offset = (frag.offset as usize).checked_sub(self.start)?;
        let covered = self.frag.page.as_ptr() == frag.page.as_ptr()
            && self.mapping.as_ref()?.covers(offset, frag.len as usize);
        // INVARIANT: the caller's element of the page is the next one.
        covered.then(|| self.mapping.take())?
    }
}

/// The message whose acknowledgement is timed. One at a time is timed, because reading
/// the clock costs more than the arithmetic.
struct Timed {
    /// Requests before it in the send queue.
    before: usize,
    since: Instant<Monotonic>,
}

/// The request that a completion of the send queue has ended.
pub(crate) enum Sent {
    Message(Load),
    Write(Load),
    Probe,
    Registered,
    Revoked(u32),
    /// Nothing yet.
    UnprovenRead,
    Read,
}

/// See the module.
///
/// Field order is destruction order: no more CM callbacks, no more completions,
/// then the buffers, then the context of the callbacks.
pub(crate) struct Link {
    pub(crate) cm: Option<CmId>,
    qp: Qp,
    slots: Fifo<Slot>,
    timed: Option<Timed>,
    pub(crate) round_trip: RoundTrip,
    /// Slots that are messages or probes.
    messages: usize,
    /// Slots that are registrations or invalidations.
    chores: usize,
    /// Number of these that were ever posted.
    chores_begun: u64,
    /// Maximum number of these in flight.
    chores_max: usize,
    flying: Fifo<Flying>,
    posted: Fifo<RxBuffer>,
    spare: Fifo<RxBuffer>,
    /// Until then only indispensable memory is requested.
    tight_until: Option<Instant<Monotonic>>,
    headers: SlotRing<HEADER_SLOT>,
    receive_slots: ReceiveSlots<RECEIVE_SLOT>,
    send_depth: usize,
    send_pieces: usize,
    /// Dropped after the queue pair, which may still access this memory.
    pub(crate) source: Source,
    pub(crate) sink: Sink,
    pub(crate) keeper: Keeper,
    /// The peer has accepted, and has no RTU yet.
    pub(crate) unconfirmed: bool,
    /// A DREQ of ours awaits its answer, see [`Parting`].
    pub(crate) disconnecting: bool,
    /// Dropped after every object that the device knows.
    lease: Lease,
    /// The peer has disconnected: the queue pair still delivers its completions and
    /// then flushes. Flushed requests are no failure.
    pub(crate) draining: bool,
    pub(crate) origin: KBox<Context>,
    /// An event of receives has come, and their queue has not been armed since. The thread
    /// that takes completions arms it when there are none left.
    disarmed: bool,
    /// The queue of sends has been armed, and no event has come since.
    sends_armed: bool,
    /// Sends that have completed are to be taken soon, because they have been there for long.
    sweeping: bool,
    /// Messages until the next one whose acknowledgement is timed.
    untimed: u32,
    /// The next older link to reap.
    pub(crate) older: Option<KBox<Link>>,
}

/// Sizes and depths that a new link shall have.
pub(crate) struct Shape {
    /// Receive buffers at the start.
    pub(crate) rcv_size: u16,
    /// Largest size that the peer may ask for.
    pub(crate) rcv_size_max: u16,
    pub(crate) rx_depth: u16,
    pub(crate) send_depth: u16,
    /// Zero copy is possible. It needs work requests.
    pub(crate) zcopy: bool,
}

/// Number of sends from which their completions are looked for without an event.
const REAP_FROM: usize = 4;

/// One of so many messages is timed.
const TIMED_ONE_IN: u32 = 16;

/// RDMA Reads in flight.
pub(crate) const READ_DEPTH: u8 = 4;

/// RDMA Writes in flight.
pub(crate) const WRITE_DEPTH: u8 = 2;

/// Registrations and invalidations in flight. With the Reads and Writes this
/// makes a send queue of twice the size: 14 messages, 4 Reads, 2 Writes, 10 of
/// these, the drain marker and the free slot of a ring of 32.
const CHORES: u16 = 10;

/// Work requests that zero copy needs beside the messages.
const ZCOPY_REQUESTS: u16 = CHORES + READ_DEPTH as u16 + WRITE_DEPTH as u16;

fn send_sges(device: &Device) -> u32 {
    // A device that supports less than two refuses the queue pair.
    device.limits().send_sges.clamp(2, SEND_SGES)
}

impl Shape {
    /// Reduces the sizes to the device's limits.
    pub(crate) fn fit(self, device: &Device) -> Self {
        let limits = device.limits();
        let room = limits.work_requests.saturating_sub(1);
        let wanted = self.send_depth.saturating_add(ZCOPY_REQUESTS);
        Self {
            rcv_size: self.rcv_size,
            rcv_size_max: self.rcv_size_max,
            // Two more receives and one marker are posted; one marker here.
            rx_depth: self.rx_depth.min(limits.work_requests.saturating_sub(3)),
            send_depth: self.send_depth.min(room),
            zcopy: self.zcopy && wanted <= room && device.region_pages() > 1,
        }
    }
}

impl Link {
    /// Makes the queue pair and the slots of headers. Takes the lease of the device, if
    /// it succeeds. May sleep.
    pub(crate) fn new(
        device: &Arc<Device>,
        origin: Origin,
        shape: &Shape,
        lease: &mut Option<Lease>,
    ) -> Result<KBox<Self>> {
        let retired = Atomic::new(0);
        let origin = KBox::new(Context { origin, retired }, GFP_KERNEL)?;
        let place = KBox::<Self>::new_uninit(GFP_KERNEL)?;
        let capacity = Capacity {
            sends: u32::from(shape.send_depth).saturating_add(if shape.zcopy {
                ZCOPY_REQUESTS.into()
            } else {
                0
            }),
            send_sges: send_sges(device),
            // Two more than the engine's depth: see `Connection::receives_wanted`.
            receives: u32::from(shape.rx_depth).saturating_add(2),
            // A device that supports fewer refuses the queue pair.
            receive_sges: RECEIVE_SGES as u32,
        };
        let context = core::ptr::from_ref(&*origin).cast_mut().cast();
        let tenant = lease.as_ref().ok_or(EINVAL)?.tenant();
        let send_depth = usize::from(shape.send_depth);
        // SAFETY: The lease is the caller's until the link has it, behind the queue pair and
        // the slots; so is `origin`, which `Callbacks` expects. Links alone post, and
        // `undo` and `destroy`, by which a link that has posted ends, drain the queue pair.
        let (qp, headers, receive_slots) = unsafe {
            let qp = Qp::new::<Callbacks>(Domain::of(tenant)?, &capacity, context)?;
            let headers = SlotRing::new(qp.device(), send_depth)?;
            let receive_slots = ReceiveSlots::new(qp.device(), capacity.receives as usize)?;
            (qp, headers, receive_slots)
        };
        let lease = lease.take().ok_or(EINVAL)?;
        Ok(KBox::write(
            place,
            Self {
                cm: None,
                qp,
                slots: Fifo::new(),
                timed: None,
                round_trip: RoundTrip::new(),
                messages: 0,
                chores: 0,
                chores_begun: 0,
                chores_max: if shape.zcopy { CHORES.into() } else { 0 },
                flying: Fifo::new(),
                posted: Fifo::new(),
                spare: Fifo::new(),
                tight_until: None,
                headers,
                receive_slots,
                send_depth,
                send_pieces: send_sges(device).saturating_sub(1) as usize,
                source: Source::new(),
                sink: Sink::new(),
                keeper: Keeper::new(),
                unconfirmed: false,
                disconnecting: false,
                lease,
                draining: false,
                origin,
                disarmed: false,
                // As all new completion queues.
                sends_armed: true,
                sweeping: false,
                untimed: 0,
                older: None,
            },
        ))
    }

    /// The right to use `device` for a link of `sock`.
    pub(crate) fn lease(device: &Arc<Leasing>, sock: &SockRef) -> Result<Lease> {
        let lease = device.lease(sock.clone(), net::user_share());
        if matches!(&lease, Err(e) if *e == ENOBUFS) {
            sock.net().stats.user_share_exceeded.inc();
        }
        lease
    }

    /// Whether the device of the link is being removed.
    pub(crate) fn is_device_leaving(&self) -> bool {
        self.lease.is_leaving()
    }

    pub(crate) fn generation(&self) -> u64 {
        self.origin.generation
    }

    pub(crate) fn qp(&self) -> &Qp {
        &self.qp
    }

    /// Fragments of payload that one SEND can carry.
    pub(crate) fn send_pieces(&self) -> usize {
        self.send_pieces
    }

    /// The oldest completions of a side; under the endpoint's lock, as everything that takes
    /// them.
    pub(crate) fn take_completions(&mut self, side: Side) -> Batch {
        let event = self.origin.sock.attendance().take_event(side);
        match side {
            Side::Receives => self.disarmed |= event,
            Side::Sends => self.sends_armed &= !event,
        }
        self.qp.poll(side)
    }

    /// Requests an event for the next receive, if none is due, and for the next send, if
    /// `sends`. Returns false if there are completions to be taken first.
    pub(crate) fn arm(&mut self, sends: bool) -> bool {
        if core::mem::take(&mut self.disarmed) && !self.qp.arm(Side::Receives) {
            return false;
        }
        if sends && !self.sends_armed {
            self.sends_armed = true;
            return self.qp.arm(Side::Sends);
        }
        true
    }

    /// Whether no event would tell of the next send.
    pub(crate) fn is_send_unannounced(&self) -> bool {
        !self.sends_armed
    }

    /// Whether all sends are messages that nobody is in a hurry for: few, none of them timed,
    /// and not there for long. Their completion frees memory, and no more.
    pub(crate) fn may_reap_lazily(&self) -> bool {
        !self.sweeping
            && !self.draining
            && !self.is_zcopy()
            && self.timed.is_none()
            && self.slots.len() == self.messages
            && self.messages <= self.send_depth / 2
    }

    /// Whether there are so many sends that it is worth a look at their queue.
    pub(crate) fn is_reap_worthwhile(&self) -> bool {
        self.slots.len() >= REAP_FROM
    }

    pub(crate) fn set_sweeping(&mut self, on: bool) {
        self.sweeping = on;
    }

    /// Whether an event of receives has come since their queue was armed.
    pub(crate) fn is_disarmed(&self) -> bool {
        self.disarmed
    }

    /// Leaves the completions to the worker, because the endpoint gives the link up.
    pub(crate) fn leave_to_worker(&self) {
        self.origin.retired.xchg(1, Full);
        // The next link begins without events.
        self.origin.sock.attendance().forget();
        self.qp.start_work();
    }

    /// Moves the queue pair as the connection manager wants it.
    pub(crate) fn modify(&self, state: ffi::ib_qp_state, reply: Option<&Reply>) -> Result {
        let cm = self.cm.as_ref().ok_or(EINVAL)?;
        // SAFETY: The identifier is valid as long as `cm`, and that of this link.
        unsafe {
            self.qp
                .modify_by_cm(cm.as_ptr(), state, self.reads(), reply)
        }
    }

    /// Moves the queue pair of a connection that was asked for to INIT.
    pub(crate) fn initialise(&self) -> Result {
        let cm = self.cm.as_ref().ok_or(EINVAL)?;
        // SAFETY: The identifier is valid as long as `cm`, and came with a request; of
        // another one ib_cm would know nothing, and say so.
        unsafe { self.qp.initialise_by_cm(cm.as_ptr()) }
    }

    /// Number of RDMA Reads in flight that we would use.
    pub(crate) fn reads(&self) -> ReadDepths {
        ReadDepths::of_device(self.qp.device(), READ_DEPTH)
    }

    /// How many of these the engine may begin, `begun` being agreed on with the
    /// peer: where a Read has another one behind it, half of them.
    pub(crate) fn reads_to_begin(&self, begun: u8) -> u8 {
        if self.qp.device().cuts_reads_short() {
            begun.div_ceil(2)
        } else {
            begun
        }
    }
}
