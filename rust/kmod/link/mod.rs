// SPDX-License-Identifier: GPL-2.0

//! The RDMA half of one connection: queue pair, CM identifier, buffers.
//!
//! A link belongs to its endpoint while the connection lives. Then it is retired, and
//! the reaper destroys it: destroying sleeps until callbacks have returned, and these
//! take the endpoint's lock.
//!
//! [`send`] posts messages and Writes, [`chores`] registrations, invalidations and Reads, [`receive`]
//! the receive buffers. [`callbacks`] hands completions to the endpoint, and [`attendance`] says
//! which thread does that. [`end`] tells the peer of the end, and [`reap`] destroys what is left.
//!
//! Contexts: under the endpoint's lock; [`Link::destroy`] without it.

pub(crate) mod attendance;
mod callbacks;
mod chores;
mod end;
mod layout;
mod pace;
mod reap;
pub(crate) mod receive;
mod send;

use attendance::Attendance;
pub(crate) use attendance::{
    Next,
    Taken, //
};
use layout::{
    Layout,
    BUFFER_MAX,
    RECEIVE_SLOT, //
};
pub(crate) use pace::between;
use pace::Pacing;

use crate::{
    cm::identifier::CmId,
    devices::Lease,
    engine::policy::{
        copying::Cause,
        round_trip::RoundTrip, //
    },
    fifo::Fifo,
    handle::Origin,
    net::account::Charge,
    prelude::*,
    queue::{
        RxBuffer,
        Sheet, //
    },
    rdma::{
        cm::ReadDepths,
        cq::{
            Batch,
            Side, //
        },
        device::Device,
        domain::Domain,
        qp::{
            Capacity,
            Qp,
            Reply,
            State, //
        },
        receive::{
            BUFFERS,
            SLOT_PIECES, //
        },
        send::PIECES, //
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

/// Pieces of one SEND: the header and the stream's fragments. A fragment of the socket is
/// 32 KiB where memory allows it. sendfile() gives single pages; eight fill a message.
/// They cost 96 bytes more for each element of a send queue than three pieces, and 256 on rxe.
const SEND_SGES: u32 = PIECES as u32;

/// Maximum payload of one SEND: two fragments. The largest receive of this module has room for all
/// of it, each of OFED and FreeBSD for half.
pub(crate) const MAX_PAYLOAD: u32 = 65536;

/// Receive buffers of an unused connection: with three credits the peer may send one
/// payload message, and then more are posted.
pub(crate) const RX_INITIAL: u16 = 3;
/// Minimum number of receive buffers of a used connection.
pub(crate) const RX_LEAST: u16 = RX_INITIAL + 1;

/// Room of one header; the longest has 36 bytes.
const HEADER_SLOT: usize = 64;

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
#[derive(Clone, Copy)]
pub(crate) struct Load {
    pub(crate) bytes: u32,
    /// The overhead of its fragments, see [`Frag`](crate::queue::Frag).
    pub(crate) extra: u32,
    /// The payload is in a program's memory.
    pub(crate) pinned: bool,
}

/// One posted request of the send queue.
#[derive(Clone, Copy)]
pub(crate) enum Slot {
    Message(Load),
    /// Into the peer's memory.
    Write(Load),
    Probe,
    /// A registration; no call waits for it.
    Register,
    /// The end of a registration of this key.
    Revoke(u32),
    /// A Read that counts when the one behind it has completed.
    UnprovenRead,
    Read,
}

/// The queue pair of a link.
pub(crate) type LinkQp = Qp<Context, Arc<Charge>, Slot, RECEIVE_SLOT>;

/// The message with a timed acknowledgement. One at a time is timed, because reading
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
    /// With its buffer, if it went to one of the kernel.
    Read(Option<RxBuffer>),
}

/// See the module.
///
/// Field order is destruction order: no more CM callbacks, no more completions,
/// then the buffers, then the context of the callbacks.
pub(crate) struct Link {
    pub(crate) cm: Option<CmId>,
    qp: LinkQp,
    timed: Option<Timed>,
    pub(crate) round_trip: RoundTrip,
    pacing: Pacing,
    /// Slots that are messages or probes.
    messages: usize,
    /// Slots that are registrations or invalidations.
    chores: usize,
    /// Why there is no zero copy; none if there is.
    pub(crate) copied: Option<Cause>,
    spare: Fifo<RxBuffer>,
    /// Small buffers are cut from it.
    sheet: Sheet,
    rx_depth: u16,
    /// The buffers of a receive that is posted now; none before the first.
    posting: Layout,
    /// Until then only indispensable memory is requested.
    tight_until: Option<Instant<Monotonic>>,
    send_depth: usize,
    send_pieces: usize,
    /// Dropped after the queue pair, which has the memory: its end is reported then.
    pub(crate) source: Source,
    pub(crate) sink: Sink,
    /// The peer has accepted, and has no RTU yet.
    pub(crate) unconfirmed: bool,
    /// A DREQ of ours is due, or awaits its answer, see [`Parting`].
    disconnecting: bool,
    /// It has been sent, or could not be.
    told: bool,
    /// Dropped after every object that the device knows.
    lease: Lease,
    /// The peer has disconnected: the queue pair still delivers its completions and
    /// then flushes. Flushed requests are no failure.
    pub(crate) draining: bool,
    /// All completions have been delivered.
    drained: bool,
    pub(crate) origin: Arc<Context>,
    /// An event of receives has come, and their queue has not been armed since. The thread
    /// that takes completions arms it when there are none left.
    disarmed: bool,
    /// The queue of sends has been armed, and no event has come since.
    sends_armed: bool,
    /// Sends that have completed are to be taken soon, because they have been there for long.
    sweeping: bool,
    /// Messages until the next one with a timed acknowledgement.
    untimed: u32,
    /// The next older link to reap.
    pub(crate) older: Option<KBox<Link>>,
}

/// Sizes and depths that a new link shall have.
pub(crate) struct Shape {
    /// Receive buffers at the start.
    pub(crate) rcv_size: u16,
    /// Largest size that the peer may ask for.
    pub(crate) rcv_size_max: u32,
    pub(crate) rx_depth: u16,
    pub(crate) send_depth: u16,
    /// Why there is no zero copy, which needs work requests; none if there is.
    pub(crate) copied: Option<Cause>,
}

/// Number of sends from which their completions are looked for without an event.
const REAP_FROM: usize = 4;

/// One of so many messages is timed.
const TIMED_ONE_IN: u32 = 16;

/// RDMA Reads in flight.
pub(crate) const READ_DEPTH: u8 = 4;

/// RDMA Writes in flight.
pub(crate) const WRITE_DEPTH: u8 = 2;

/// Registrations and invalidations in flight. A send queue with zero copy is a ring of 32, twice as
/// long as one without: 14 messages, 4 Reads, 2 Writes, 10 of these, the drain marker and a free
/// slot.
const CHORES: u16 = 10;

/// Work requests that zero copy needs beside the messages.
const ZCOPY_REQUESTS: u16 = CHORES + READ_DEPTH as u16 + WRITE_DEPTH as u16;

fn send_sges(device: &Device) -> u32 {
    // A device that supports less than two refuses the queue pair.
    device.limits().send_sges.clamp(2, SEND_SGES)
}

/// Buffers of one receive, beside its slot.
fn receive_buffers(device: &Device) -> u32 {
    let room = device
        .limits()
        .receive_sges
        .saturating_sub(SLOT_PIECES as u32);
    // A device that supports less than one refuses the queue pair.
    room.clamp(1, BUFFERS as u32)
}

/// The longest message that the device can receive into so many buffers.
fn most_received(device: &Device) -> u32 {
    let buffers = receive_buffers(device).saturating_mul(BUFFER_MAX as u32);
    buffers.saturating_add(RECEIVE_SLOT as u32)
}

impl Shape {
    /// Reduces the sizes to the device's limits.
    pub(crate) fn fit(self, device: &Device) -> Self {
        let limits = device.limits();
        let room = limits.work_requests.saturating_sub(1);
        let wanted = self.send_depth.saturating_add(ZCOPY_REQUESTS);
        Self {
            rcv_size: self.rcv_size,
            rcv_size_max: self.rcv_size_max.min(most_received(device)),
            // Two more receives and one marker are posted; one marker here.
            rx_depth: self.rx_depth.min(limits.work_requests.saturating_sub(3)),
            send_depth: self.send_depth.min(room),
            copied: self.copied.or_else(|| {
                let able = wanted <= room && device.region_pages() > 1;
                (!able).then_some(Cause::Device)
            }),
        }
    }

    /// Whether zero copy is possible.
    pub(crate) fn is_zcopy(&self) -> bool {
        self.copied.is_none()
    }
}

fn capacity(device: &Device, shape: &Shape) -> Capacity {
    let requests = if shape.is_zcopy() { ZCOPY_REQUESTS } else { 0 };
    Capacity {
        sends: u32::from(shape.send_depth).saturating_add(requests.into()),
        send_sges: send_sges(device),
        // Two more than the engine's depth: see `Connection::receives_wanted`.
        receives: u32::from(shape.rx_depth).saturating_add(2),
        receive_buffers: receive_buffers(device),
        headers: shape.send_depth.into(),
        header_len: HEADER_SLOT,
    }
}

impl Link {
    /// Makes the queue pair. Takes the lease of the device, if
    /// it succeeds. May sleep.
    pub(crate) fn new(
        device: &Arc<Device>,
        origin: Origin,
        shape: &Shape,
        lease: &mut Option<Lease>,
    ) -> Result<KBox<Self>> {
        let retired = Atomic::new(0);
        let origin = Arc::new(Context { origin, retired }, GFP_KERNEL)?;
        let place = KBox::<Self>::new_uninit(GFP_KERNEL)?;
        let capacity = capacity(device, shape);
        let tenant = lease.as_ref().ok_or(EINVAL)?.tenant();
        //= spec: KEEPALIVE-1
        // All queue pairs let the peer write: a keepalive is a Write of nothing.
        let qp = Qp::new(Domain::of(tenant)?, &capacity, origin.clone())?;
        let lease = lease.take().ok_or(EINVAL)?;
        Ok(KBox::write(
            place,
            Self {
                cm: None,
                qp,
                timed: None,
                round_trip: RoundTrip::new(),
                pacing: Pacing::new(),
                messages: 0,
                chores: 0,
                copied: shape.copied,
                spare: Fifo::new(),
                sheet: Sheet::default(),
                rx_depth: shape.rx_depth,
                posting: Layout::default(),
                tight_until: None,
                send_depth: shape.send_depth.into(),
                send_pieces: send_sges(device).saturating_sub(1) as usize,
                source: Source::new(),
                sink: Sink::new(),
                unconfirmed: false,
                disconnecting: false,
                told: false,
                lease,
                draining: false,
                drained: false,
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

    /// ENODEV if the device of the link is being removed. That is then the reason, whatever error
    /// the device has returned.
    pub(crate) fn check_device(&self) -> Result {
        if self.lease.is_leaving() {
            Err(ENODEV)
        } else {
            Ok(())
        }
    }

    pub(crate) fn generation(&self) -> u64 {
        self.origin.generation
    }

    pub(crate) fn qp(&self) -> &LinkQp {
        &self.qp
    }

    /// Fragments of payload that one SEND can carry.
    pub(crate) fn send_pieces(&self) -> usize {
        self.send_pieces
    }

    /// The oldest completions of a side; under the endpoint's lock, as everything that takes
    /// them.
    pub(crate) fn take_completions(&mut self, side: Side, attendance: &Attendance) -> Batch {
        let event = attendance.take_event(side);
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

    /// Whether all sends are messages that no call is in a hurry for: few, none of them timed,
    /// and not there for long. Their completion frees memory, and no more.
    pub(crate) fn may_reap_lazily(&self) -> bool {
        !self.sweeping
            && !self.draining
            && self.source.is_empty()
            && self.timed.is_none()
            && !self.pacing.is_timing()
            && self.qp.sends_in_flight() == self.messages
            && self.messages <= self.send_depth / 2
    }

    /// Whether there are so many sends that it is worth a look at their queue.
    pub(crate) fn is_reap_worthwhile(&self) -> bool {
        self.qp.sends_in_flight() >= REAP_FROM
    }

    pub(crate) fn set_sweeping(&mut self, on: bool) {
        self.sweeping = on;
    }

    /// Whether an event of receives has come since their queue was armed.
    pub(crate) fn is_disarmed(&self) -> bool {
        self.disarmed
    }

    /// The drain has ended.
    fn set_drained(&mut self) {
        self.drained = true;
        self.qp.set_drained();
    }

    /// From here on events start the worker, for which a drain may wait: no thread finds the link.
    fn give_up(&self) {
        self.origin.retired.xchg(1, Full);
    }

    /// Leaves the completions to the worker, because the endpoint gives the link up. It has some
    /// to take only if a drain waits for them: otherwise they go with the queues.
    pub(crate) fn leave_to_worker(&self, attendance: &Attendance) {
        self.give_up();
        // The next link begins without events.
        attendance.forget();
        if self.draining && !self.drained {
            self.qp.start_work();
        }
    }

    /// Moves the queue pair as the connection manager wants it.
    pub(crate) fn modify(&self, state: State, reply: Option<&Reply>) -> Result {
        let cm = self.cm.as_ref().ok_or(EINVAL)?;
        self.qp.modify_by_cm(cm, state, self.reads(), reply)
    }

    /// Moves the queue pair of a connection that was asked for to INIT.
    pub(crate) fn initialise(&self) -> Result {
        let cm = self.cm.as_ref().ok_or(EINVAL)?;
        self.qp.initialise_by_cm(cm)
    }

    /// Sends the RTU, unless the peer has it already.
    pub(crate) fn confirm(&mut self) -> Result {
        match self.cm.as_ref() {
            Some(cm) if core::mem::take(&mut self.unconfirmed) => cm.confirm(),
            _ => Ok(()),
        }
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
