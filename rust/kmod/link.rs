// SPDX-License-Identifier: GPL-2.0

//! The RDMA half of one connection: queue pair, CM identifier, buffers.
//!
//! A link belongs to its endpoint while the connection lives. Then it is retired, and
//! the reaper destroys it: destroying sleeps until callbacks have returned, and these
//! take the endpoint's lock.
//!
//! Contexts: under the endpoint's lock; [`Link::destroy`] without it.

use crate::{
    account::Need,
    alarm::Alarm,
    cm::{
        ticket::Ticket,
        RX_INITIAL,
        RX_LEAST, //
    },
    devices::{
        Lease,
        Leasing, //
    },
    engine::{
        conn::{
            Connection,
            Remote,
            RemoteSink, //
        },
        policy::round_trip::RoundTrip,
        wire::Header, //
    },
    ffi,
    fifo::Fifo,
    net,
    object::{
        Sock,
        SockRef, //
    },
    parting::Parting,
    queue::{
        Frag,
        SendQueue, //
    },
    verbs::{
        buffer::{
            Direction,
            Mapping,
            RxBuffer,
            SlotRing, //
        },
        device::Device,
        domain::Domain,
        kept::{
            self,
            Keeper, //
        },
        qp::{
            Capacity,
            Completions,
            Done,
            Qp,
            ReadDepths,
            Reply, //
        },
        region::Region, //
    },
    zcopy::{
        sink::{
            Read,
            Sink,
            Target, //
        },
        source::Source, //
    },
};
use core::ptr::NonNull;
use kernel::{
    prelude::*,
    sync::Arc,
    time::{
        Delta,
        Instant,
        Monotonic, //
    }, //
};

/// Pieces of one SEND: the header and the stream's fragments. A fragment is
/// 32 KiB where memory allows it, so more pieces would seldom be of use, and
/// would double an element of rxe's send queue (256 bytes).
const SEND_SGES: u32 = 3;

/// Maximum payload of one SEND: a fragment. A peer with this module has room for a
/// header less; OFED and FreeBSD have room for all of it.
pub(crate) const MAX_PAYLOAD: u16 = 32768;

/// Time until a cgroup that had no room is asked again.
const TIGHT_MS: i64 = 100;

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

/// A CM identifier of ours.
///
/// # Invariants
///
/// `id` is valid and nobody else destroys it; the ticket is its context.
pub(crate) struct CmId {
    id: NonNull<ffi::ib_cm_id>,
    ticket: Ticket,
}

// SAFETY: CM identifiers may be used from any thread.
unsafe impl Send for CmId {}

impl CmId {
    /// # Safety
    ///
    /// `id` is valid and handed over, and `ticket` is its context.
    pub(crate) unsafe fn from_raw(id: NonNull<ffi::ib_cm_id>, ticket: Ticket) -> Self {
        // INVARIANT: by the caller's promise.
        Self { id, ticket }
    }

    /// Whether the peer needs no further message.
    pub(crate) fn is_parted(&self) -> bool {
        self.ticket.is_parted()
    }

    pub(crate) fn as_ptr(&self) -> *mut ffi::ib_cm_id {
        self.id.as_ptr()
    }
}

impl Drop for CmId {
    fn drop(&mut self) {
        // SAFETY: Valid by the invariant. The call waits for a running handler, except
        // a handler for an unanswered message. That is why the context is a ticket.
        unsafe { ffi::ib_destroy_cm_id(self.id.as_ptr()) };
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

/// The pieces that one request gathers.
struct Pieces {
    sges: [ffi::ib_sge; SEND_SGES as usize],
    used: usize,
    /// Number of them that are the socket's fragments.
    frags: u8,
}

impl Pieces {
    fn new() -> Self {
        Self {
            sges: pin_init::zeroed(),
            used: 0,
            frags: 0,
        }
    }

    fn push(&mut self, addr: u64, length: u32, lkey: u32) -> Result {
        let sge = self.sges.get_mut(self.used).ok_or(EMSGSIZE)?;
        *sge = ffi::ib_sge { addr, length, lkey };
        self.used = self.used.saturating_add(1);
        Ok(())
    }

    fn as_mut(&mut self) -> &mut [ffi::ib_sge] {
        self.sges.get_mut(..self.used).unwrap_or(&mut [])
    }
}

/// A fragment in flight.
struct Flying {
    _mapping: Mapping,
    frag: Frag,
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
    send_depth: usize,
    send_pieces: usize,
    /// Dropped after the queue pair, which may still access this memory.
    pub(crate) source: Source,
    pub(crate) sink: Sink,
    pub(crate) keeper: Keeper,
    /// A DREQ of ours awaits its answer, see [`Parting`].
    pub(crate) disconnecting: bool,
    /// Dropped after every object that the device knows.
    lease: Lease,
    /// The peer has disconnected: the queue pair still delivers its completions and
    /// then flushes. Flushed requests are no failure.
    pub(crate) draining: bool,
    pub(crate) origin: KBox<Origin>,
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
        let origin = KBox::new(origin, GFP_KERNEL)?;
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
        };
        let context = core::ptr::from_ref(&*origin).cast_mut().cast();
        let tenant = lease.as_ref().ok_or(EINVAL)?.tenant();
        let send_depth = usize::from(shape.send_depth);
        // SAFETY: The lease is the caller's until the link has it, behind the queue pair and
        // the slots; so is `origin`, which `Callbacks` expects. Links alone post, and
        // `undo` and `destroy`, by which a link that has posted ends, drain the queue pair.
        let (qp, headers) = unsafe {
            let qp = Qp::new::<Callbacks>(Domain::of(tenant)?, &capacity, context)?;
            let headers = SlotRing::new(qp.device(), send_depth)?;
            (qp, headers)
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
                send_depth,
                send_pieces: send_sges(device).saturating_sub(1) as usize,
                source: Source::new(),
                sink: Sink::new(),
                keeper: Keeper::new(),
                disconnecting: false,
                lease,
                draining: false,
                origin,
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

    /// A buffer of `size` bytes: a spare one, if it is of that size.
    fn rx_buffer(&mut self, size: usize, need: Need) -> Result<RxBuffer> {
        while let Some(buffer) = self.spare.pop() {
            if buffer.size() == size {
                return Ok(buffer);
            }
        }
        self.new_buffer(size, need)
    }

    fn new_buffer(&self, size: usize, need: Need) -> Result<RxBuffer> {
        // SAFETY: The socket is referenced by the origin. A buffer is dropped with the link,
        // before its lease, or loses its mapping when the link goes: `RecvQueue::unmap`.
        unsafe { RxBuffer::new(self.origin.sock.sk(), self.qp.device(), size, need) }
    }

    /// Makes spare buffers of `size` bytes: as many as keep a connection going
    /// when there is no memory for more, because they come back after use.
    /// Returns whether there was memory for them. May sleep.
    pub(crate) fn stock(&mut self, size: u16, count: u16) -> bool {
        if !self.leaves_room() {
            return false;
        }
        let made = (0..count).all(|_| {
            let buffer = self.new_buffer(size.into(), Need::Growth);
            buffer.is_ok_and(|buffer| self.spare.push(buffer, GFP_KERNEL).is_ok())
        });
        if !made {
            self.origin.sock.net().stats.rx_alloc_failures.inc();
        }
        made
    }

    /// Allocates memory for larger buffers if `engine` wants them larger than `size`,
    /// or has the engine decline them.
    pub(crate) fn grow(&mut self, engine: &mut Connection, size: u16) {
        let larger = engine.rcv_size();
        if larger > size && !self.stock(larger, RX_LEAST) {
            engine.keep_rcv_size();
        }
    }

    /// A replacement of `size` bytes for a buffer that does not come back. None if that
    /// would take the last memory of the socket's cgroup or of all sockets. May sleep.
    pub(crate) fn fresh_buffer(&mut self, size: u16) -> Option<RxBuffer> {
        if !self.leaves_room() {
            return None;
        }
        self.new_buffer(size.into(), Need::Growth).ok()
    }

    /// Whether `count` receive buffers can be allocated without taking the last memory
    /// of the socket's cgroup or of all sockets. May sleep.
    pub(crate) fn has_room(&mut self, count: u16) -> bool {
        count <= self.spares() || self.leaves_room()
    }

    fn leaves_room(&mut self) -> bool {
        if self.origin.sock.is_memory_tight() {
            return false;
        }
        if self
            .tight_until
            .is_some_and(|until| (until - Instant::now()).as_millis() > 0)
        {
            return false;
        }
        // SAFETY: The socket is referenced by the origin.
        let room = unsafe { ffi::sdp_leaves_room(self.origin.sock.sk()) };
        self.tight_until = (!room).then(|| Instant::now() + Delta::from_millis(TIGHT_MS));
        if !room {
            self.origin.sock.net().stats.rx_alloc_failures.inc();
        }
        room
    }

    /// Number of spare receive buffers.
    pub(crate) fn spares(&self) -> u16 {
        u16::try_from(self.spare.len()).unwrap_or(u16::MAX)
    }

    /// Posts the receive buffers that a connection begins with; ENOBUFS without memory
    /// for them.
    pub(crate) fn post_first(&mut self, engine: &mut Connection) -> Result {
        let posted = self.post_receives(RX_INITIAL, 0, engine.rcv_size());
        engine.on_receives_posted(posted);
        if posted < RX_INITIAL {
            return Err(ENOBUFS);
        }
        Ok(())
    }

    /// Posts up to `count` receive buffers of `size` bytes; the connection needs
    /// `least` of them to go on. Returns the number posted. Less than `count` means
    /// that memory ran out, or that the queue pair is broken.
    pub(crate) fn post_receives(&mut self, count: u16, least: u16, size: u16) -> u16 {
        let mut done = 0u16;
        while done < count {
            // Reserve the slot first, so that no buffer is lost if that fails.
            let room = self.posted.reserve(GFP_KERNEL);
            let need = if done < least {
                Need::Least
            } else {
                Need::Growth
            };
            let buffer = room.and_then(|()| self.rx_buffer(size.into(), need));
            let Ok(buffer) = buffer else {
                self.origin.sock.net().stats.rx_alloc_failures.inc();
                break;
            };
            let Some(mapping) = buffer.mapping() else {
                break;
            };
            mapping.sync_for_device(0, size.into());
            let addr = mapping.addr();
            // SAFETY: `size` bytes are mapped there. The buffer goes into `posted`, which
            // has room and gives it back when the receive has completed, and is dropped
            // behind the queue pair.
            let posted = unsafe { self.qp.post_receive::<Callbacks>(addr, size.into()) };
            if posted.is_err() {
                self.recycle(buffer);
                break;
            }
            // Room was reserved, so every posted buffer has its slot.
            let _ = self.posted.push(buffer, GFP_KERNEL);
            done = done.saturating_add(1);
        }
        done
    }

    /// The buffer of the receive that just completed with `len` bytes.
    pub(crate) fn take_received(&mut self, len: u32) -> Option<RxBuffer> {
        let buffer = self.posted.pop()?;
        if let Some(mapping) = buffer.mapping() {
            mapping.sync_for_cpu(usize::try_from(len).unwrap_or(0));
        }
        Some(buffer)
    }

    /// Makes a buffer a spare.
    pub(crate) fn recycle(&mut self, buffer: RxBuffer) {
        // If the push fails, the buffer is freed and allocated again later.
        let _ = self.spare.push(buffer, GFP_KERNEL);
    }

    /// Posts `header` and the next `payload_len` bytes of `queue`.
    pub(crate) fn send(
        &mut self,
        queue: &mut SendQueue,
        header: &Header,
        payload_len: u32,
        solicited: bool,
    ) -> Result {
        if self.messages >= self.send_depth {
            return Err(ENOBUFS);
        }
        self.slots.reserve(GFP_KERNEL)?;
        let bytes = header.as_bytes();
        // The slot's last send has completed: sends complete in order, and at
        // most `send_depth` are posted.
        let addr = self.headers.put(bytes)?;
        let lkey = self.qp.domain().local_dma_lkey();
        let mut pieces = Pieces::new();
        pieces.push(addr, bytes.len() as u32, lkey)?;
        let pinned = self.gather(queue, payload_len, &mut pieces)?;
        if self.timed.is_none() {
            self.timed = Some(Timed {
                before: self.slots.len(),
                since: Instant::now(),
            });
        }
        // SAFETY: The header lies in `headers`, in a slot that is not written to before this
        // has completed, and the payload where `gather` says.
        unsafe { self.qp.post_send::<Callbacks>(pieces.as_mut(), solicited) }?;
        // Room was reserved.
        self.slots.push(
            Slot::Message(Load {
                frags: pieces.frags,
                bytes: payload_len,
                extra: 0,
                pinned,
            }),
            GFP_KERNEL,
        )?;
        self.messages = self.messages.saturating_add(1);
        Ok(())
    }

    /// Posts a Write of the next `len` bytes of `queue`.
    pub(crate) fn write(&mut self, queue: &mut SendQueue, to: &RemoteSink, len: u32) -> Result {
        self.slots.reserve(GFP_KERNEL)?;
        let mut pieces = Pieces::new();
        let pinned = self.gather(queue, len, &mut pieces)?;
        // SAFETY: The payload stays where `gather` says until this has completed.
        unsafe {
            self.qp
                .post_write::<Callbacks>(pieces.as_mut(), to.r_key, to.va)
        }?;
        // Room was reserved.
        self.slots.push(
            Slot::Write(Load {
                frags: pieces.frags,
                bytes: len,
                extra: 0,
                pinned,
            }),
            GFP_KERNEL,
        )
    }

    /// Has `pieces` gather the next `len` bytes of `queue`. Returns whether they
    /// lie in a program's memory, which is all or none of them.
    ///
    /// They stay mapped until the request has completed: those of a program in a run of
    /// `source`, which is not over before that, others in `flying`. Both are dropped behind
    /// the queue pair.
    fn gather(&mut self, queue: &mut SendQueue, len: u32, pieces: &mut Pieces) -> Result<bool> {
        if len > 0 && queue.is_pinned() {
            let (lkey, addr) = self.source.place().ok_or(EINVAL)?;
            pieces.push(addr, len, lkey)?;
            queue.pass(len);
            self.source.on_gathered(len);
            return Ok(true);
        }
        let lkey = self.qp.domain().local_dma_lkey();
        let mut left = len;
        while left > 0 {
            let frag = queue.take(left).ok_or(EINVAL)?;
            left = left.saturating_sub(frag.len);
            // SAFETY: The page is kept with the mapping and behind it; the link has the
            // lease, and drops it behind `flying`.
            let mapping = unsafe {
                Mapping::new(
                    self.qp.device(),
                    &frag.page,
                    frag.offset as usize,
                    frag.len as usize,
                    Direction::ToDevice,
                )
            }?;
            pieces.push(mapping.addr(), frag.len, lkey)?;
            pieces.frags = pieces.frags.saturating_add(1);
            self.flying.push(
                Flying {
                    _mapping: mapping,
                    frag,
                },
                GFP_KERNEL,
            )?;
        }
        Ok(false)
    }

    /// Whether the connection supports zero copy.
    pub(crate) fn is_zcopy(&self) -> bool {
        self.chores_max > 0
    }

    /// Whether no registration and no invalidation is in flight.
    pub(crate) fn is_chore_idle(&self) -> bool {
        self.chores == 0
    }

    /// Whether there is room to register another region and to invalidate it later, if
    /// the peer gets its key.
    pub(crate) fn can_register(&self) -> bool {
        // One more, in case the last user of the region has not invalidated it.
        let open = self
            .source
            .unrevoked()
            .saturating_add(self.sink.unrevoked());
        let more = open.saturating_add(3);
        self.chores.saturating_add(more) <= self.chores_max
    }

    /// Registers `region` under the key that `Pooled::begin` has given it; `stale` is
    /// the value that `begin` returned. A region that is registered already is used as
    /// it is.
    pub(crate) fn register(&mut self, region: &mut Region, stale: Option<u32>) -> Result {
        let access = region.access();
        let registered = region.is_registered();
        let pooled = region.pooled().ok_or(EINVAL)?;
        pooled.set_posted();
        if registered {
            region.sync_for_device();
            return Ok(());
        }
        if let Some(key) = stale {
            self.slots.reserve(GFP_KERNEL)?;
            self.qp.post_invalidate::<Callbacks>(key)?;
            self.note_chore(Slot::Register);
        }
        self.slots.reserve(GFP_KERNEL)?;
        // SAFETY: A region has its pages pinned and mapped for such access, and ends what
        // was posted for it, with its memory region, before it gives them up. The caller
        // keeps it in `source` or `sink` until its requests have completed, also where this
        // fails; these are dropped behind the queue pair.
        unsafe {
            self.qp
                .post_register::<Callbacks>(pooled.mr().ok_or(EINVAL)?, access)
        }?;
        self.note_chore(Slot::Register);
        region.set_registered(self.chores_begun);
        Ok(())
    }

    /// Ends the registration of `key`.
    pub(crate) fn revoke(&mut self, key: u32) -> Result {
        self.slots.reserve(GFP_KERNEL)?;
        self.qp.post_invalidate::<Callbacks>(key)?;
        self.note_chore(Slot::Revoke(key));
        Ok(())
    }

    /// Records a posted request; room was reserved.
    fn note_chore(&mut self, slot: Slot) {
        let _ = self.slots.push(slot, GFP_KERNEL);
        self.chores = self.chores.saturating_add(1);
        self.chores_begun = self.chores_begun.wrapping_add(1);
    }

    /// Number of registrations and invalidations that have completed; they complete in
    /// order.
    pub(crate) fn chores_done(&self) -> u64 {
        self.chores_begun.wrapping_sub(self.chores as u64)
    }

    /// Reads the peer's offer into the reader's memory.
    pub(crate) fn read_for_program(&mut self, remote: &Remote) -> Result {
        let region = self.sink.region.as_ref().ok_or(EINVAL)?;
        let into = ffi::ib_sge {
            addr: region.start().wrapping_add(self.sink.started.into()),
            length: remote.len,
            lkey: region.key(),
        };
        // SAFETY: The region is registered for our own requests to write to, and stays in
        // `sink` until all Reads have completed.
        unsafe { self.post_read(into, remote, Target::Program) }?;
        self.sink.started = self.sink.started.saturating_add(remote.len);
        Ok(())
    }

    /// Reads the peer's offer into a buffer of the kernel.
    pub(crate) fn read_for_kernel(&mut self, remote: &Remote, buffer: RxBuffer) -> Result {
        let into = ffi::ib_sge {
            addr: buffer.mapping().ok_or(EINVAL)?.addr(),
            length: remote.len,
            lkey: self.qp.domain().local_dma_lkey(),
        };
        if buffer.size() < remote.len as usize {
            return Err(EMSGSIZE);
        }
        // SAFETY: So many bytes are mapped there, and the buffer goes into `sink` with the
        // Read.
        unsafe { self.post_read(into, remote, Target::Kernel(buffer)) }
    }

    /// # Safety
    ///
    /// `into` is mapped for the device to write `remote.len` bytes to, and is kept by
    /// `target`, or by `sink` already, until the Read has completed.
    unsafe fn post_read(&mut self, into: ffi::ib_sge, remote: &Remote, target: Target) -> Result {
        self.slots.reserve(GFP_KERNEL)?;
        self.sink.reserve()?;
        // SAFETY: The memory stays as the caller promises: `sink` has room for the target, and
        // is dropped behind the queue pair.
        unsafe {
            self.qp
                .post_read::<Callbacks>(into, remote.r_key, remote.va)
        }?;
        let prove = self.qp.device().cuts_reads_short();
        let slot = if prove {
            Slot::UnprovenRead
        } else {
            Slot::Read
        };
        // Room was reserved.
        self.slots.push(slot, GFP_KERNEL)?;
        self.sink.push(Read {
            target,
            len: remote.len,
        })?;
        if prove {
            self.post_proof(into, remote)?;
        }
        Ok(())
    }

    /// Reads the last byte of a Read once more, behind it: without the queue pair
    /// that does not succeed. It is one packet, of which no part can be missing,
    /// and its answer is no acknowledgement that could be late.
    fn post_proof(&mut self, into: ffi::ib_sge, remote: &Remote) -> Result {
        let before = u64::from(remote.len.saturating_sub(1));
        let into = ffi::ib_sge {
            addr: into.addr.wrapping_add(before),
            length: 1,
            lkey: into.lkey,
        };
        self.slots.reserve(GFP_KERNEL)?;
        // SAFETY: The byte is one of the Read before, whose memory stays until this one has
        // completed, too: `sink` loses the target with the second completion.
        unsafe {
            self.qp
                .post_read::<Callbacks>(into, remote.r_key, remote.va.wrapping_add(before))
        }?;
        self.slots.push(Slot::Read, GFP_KERNEL)
    }

    /// Posts a keepalive probe, unless a request in flight will tell the same.
    pub(crate) fn probe(&mut self) -> Result<bool> {
        if !self.slots.is_empty() {
            return Ok(false);
        }
        self.slots.reserve(GFP_KERNEL)?;
        self.qp.post_probe::<Callbacks>()?;
        self.slots.push(Slot::Probe, GFP_KERNEL)?;
        self.messages = self.messages.saturating_add(1);
        Ok(true)
    }

    /// Whether every send has completed.
    pub(crate) fn is_send_idle(&self) -> bool {
        self.slots.is_empty()
    }

    /// The oldest request of the send queue has completed.
    pub(crate) fn take_sent(&mut self) -> Option<Sent> {
        let mut slot = self.slots.pop()?;
        if let Some(timed) = self.timed.as_mut() {
            match timed.before.checked_sub(1) {
                Some(before) => timed.before = before,
                None => {
                    let us = timed.since.elapsed().as_micros_ceil();
                    self.round_trip
                        .on_measured(u32::try_from(us).unwrap_or(u32::MAX));
                    self.timed = None;
                }
            }
        }
        match &slot {
            Slot::Message(_) | Slot::Probe => self.messages = self.messages.saturating_sub(1),
            Slot::Register | Slot::Revoke(_) => self.chores = self.chores.saturating_sub(1),
            Slot::UnprovenRead | Slot::Read | Slot::Write(_) => {}
        }
        if let Slot::Message(load) | Slot::Write(load) = &mut slot {
            for _ in 0..load.frags {
                let flying = self.flying.pop();
                let extra = flying.map_or(0, |flying| flying.frag.extra);
                load.extra = load.extra.saturating_add(extra);
            }
            if load.pinned {
                self.source.on_sent(load.bytes);
            }
        }
        Some(match slot {
            Slot::Message(load) => Sent::Message(load),
            Slot::Write(load) => Sent::Write(load),
            Slot::Probe => Sent::Probe,
            Slot::Register => Sent::Registered,
            Slot::Revoke(key) => Sent::Revoked(key),
            Slot::UnprovenRead => Sent::UnprovenRead,
            Slot::Read => Sent::Read,
        })
    }

    /// Number of runs and regions of waiting calls that this link keeps pinned.
    pub(crate) fn pins(&self) -> (u32, u32) {
        (self.source.awaited_len(), self.sink.pins())
    }

    /// Frees a link that has sent nothing; returns its identifier and lease. Sleeps;
    /// without the endpoint's lock.
    pub(crate) fn undo(mut self: KBox<Self>) -> (Option<CmId>, Lease) {
        let cm = self.cm.take();
        // SAFETY: The queue pair is dropped after this.
        unsafe { self.qp.drain().run() };
        let Self { lease, .. } = KBox::into_inner(self);
        (cm, lease)
    }

    /// Ends all transfers and frees everything except the identifier that still has to
    /// tell the peer. Sleeps; without the endpoint's lock.
    pub(crate) fn destroy(mut self: KBox<Self>) -> Option<Parting> {
        // CM callbacks find the link through its endpoint, which no longer has it. But
        // one that found it earlier may still be running: destroying the identifier
        // waits for it, if the peer needs no further message.
        let parting = self.disconnecting && self.cm.as_ref().is_some_and(|cm| !cm.is_parted());
        if !parting {
            self.cm = None;
        }
        // SAFETY: The queue pair is dropped after this.
        unsafe { self.qp.drain().run() };
        let Self {
            cm, lease, origin, ..
        } = KBox::into_inner(self);
        // The other parts are dropped by now.
        Some(Parting::new(cm?, lease, origin))
    }
}

/// While this lives, the task's allocations start no I/O to make room.
///
/// Storage over RDMA needs the workqueue that delivers completions. A reclaim here that
/// waits for pages to be written there would wait for itself.
struct NoIo {
    before: c_uint,
    /// It belongs to the task that has made it.
    _task: core::marker::PhantomData<*mut ()>,
}

impl NoIo {
    fn new() -> Self {
        Self {
            // SAFETY: A flag of the current task.
            before: unsafe { ffi::sdp_noio_begin() },
            _task: core::marker::PhantomData,
        }
    }
}

impl Drop for NoIo {
    fn drop(&mut self) {
        // SAFETY: In the task of `new`, and the last of these first: they are only
        // made on the stack of a callback.
        unsafe { ffi::sdp_noio_end(self.before) };
    }
}

/// Completions of a link, on their way to the endpoint.
pub(crate) struct Callbacks;

impl Completions for Callbacks {
    unsafe fn received(context: *mut c_void, done: Done) {
        let _noio = NoIo::new();
        // SAFETY: The context is the origin of a link that still exists.
        let origin: &Origin = unsafe { &*context.cast() };
        origin.sock.drive(|inner| {
            if inner.is_current(origin.generation) {
                inner.on_received(&origin.sock, done);
            }
        });
    }

    unsafe fn sent(context: *mut c_void, done: Done) {
        let _noio = NoIo::new();
        // SAFETY: The context is the origin of a link that still exists.
        let origin: &Origin = unsafe { &*context.cast() };
        origin.sock.drive(|inner| {
            if inner.is_current(origin.generation) {
                inner.on_sent(&origin.sock, done);
            }
        });
    }

    unsafe fn communicated(context: *mut c_void) {
        // SAFETY: The context is the origin of a link that still exists.
        let origin: &Origin = unsafe { &*context.cast() };
        // A driver may call this with its locks held.
        origin.sock.set_alarm(Alarm::Notify, 0);
    }
}

impl Sock {
    /// The alarm behind [`Alarm::Notify`]: tells the CM that the connection is
    /// established although no RTU came, or hands it to its listener.
    pub(crate) fn alarm_notify(&self) {
        match self.look(|inner| inner.deferred.then(|| inner.is_deferrable(self))) {
            // It was a control message; the listener still waits for payload.
            Some(true) => return,
            Some(false) => return crate::cm::hand_over_deferred(self),
            None => {}
        }
        self.look(|inner| {
            if let Some(cm) = inner.link.as_ref().and_then(|l| l.cm.as_ref()) {
                // A failure only means that the CM already knows.
                // SAFETY: The identifier is valid while the link has it.
                unsafe { ffi::ib_cm_notify(cm.as_ptr(), ffi::ib_event_type_IB_EVENT_COMM_EST) };
            }
        });
    }

    /// The alarm behind [`Alarm::Refill`]: posts the receive buffers that the engine
    /// wants, as after every event, and wakes writers to try again.
    pub(crate) fn alarm_refill(&self) {
        self.drive(|inner| inner.wake().writable = true);
    }

    /// The alarm behind [`Alarm::Reap`]: ends a connection that the peer has
    /// disconnected, and destroys what connections left behind. A work item
    /// never runs twice at a time, so no link is destroyed while it is drained.
    pub(crate) fn alarm_reap(&self) {
        let drain = self.look(|inner| {
            let link = inner.link.as_ref()?;
            link.draining.then(|| (link.generation(), link.qp.drain()))
        });
        if let Some((generation, drain)) = drain {
            // SAFETY: Only the code below destroys a link that an endpoint has had, and
            // this function does not run twice at a time.
            unsafe { drain.run() };
            self.drive(|inner| {
                if inner.is_current(generation) {
                    if let Some(engine) = inner.engine.as_mut() {
                        engine.handle_disconnect_requested();
                    }
                }
            });
        }
        let mut retired = self.look(|inner| inner.take_retired());
        while let Some(mut link) = retired {
            retired = link.older.take();
            let (source, sink) = link.pins();
            self.count(|t| &t.kept_expirations, kept::clear(link.keeper.owner()));
            let parting = link.destroy();
            let rest = parting.and_then(|parting| self.look(|inner| inner.part(self, parting)));
            drop(rest);
            if source > 0 || sink > 0 {
                self.drive(|inner| inner.on_unpinned(source, sink));
            }
        }
    }
}
