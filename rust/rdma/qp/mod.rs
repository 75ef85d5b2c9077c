// SPDX-License-Identifier: GPL-2.0

//! A reliable-connected queue pair with its completion queues.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)
//!
//! This file makes it, moves it from state to state, and posts. [`receive`], [`send`] and [`lend`] have the
//! memory of what is posted.
//!
//! Contexts: creating and destroying sleep; posting does not. `cq` has the contexts of
//! completions.

pub(crate) mod lend;
pub(crate) mod receive;
pub(crate) mod send;

use crate::{
    ffi,
    prelude::*,
    random::random_u32,
    rdma::{
        cm::{
            Id,
            ReadDepths, //
        },
        cq::{
            receive_entry,
            send_entry,
            Batch,
            Borrowed,
            Completions,
            Cq,
            Side, //
        },
        device::Device,
        domain::Domain,
        mapping::Sge,
        mr::{
            Access,
            Mr, //
        },
        receive::{
            Receives,
            SLOT_PIECES, //
        },
        send::{
            Remote,
            Sends, //
        },
        slots::{
            ReceiveSlots,
            SlotRing, //
        },
        unique::unique, //
    },
};
use core::{
    cell::Cell,
    ptr::NonNull, //
};
use kernel::{
    error::to_result,
    sync::Arc, //
};

/// Maximum number of transport retries; 7 would mean endless.
const RETRY_COUNT_MAX: u8 = 6;
/// Longest wait for an acknowledgement: 4.096 us << 18, about a second. 0 would mean
/// endless.
const ACK_TIMEOUT_MAX: u8 = 18;

/// Wait of a peer that has found no receive posted: 0.64 ms. ib_cm leaves 0 there,
/// which means 655 ms.
const RNR_TIMER: u8 = 12;

/// The passive side's decisions about the transport.
pub(crate) struct Reply {
    /// Number of the first packet that we expect, 24 bits.
    pub(crate) starting_psn: u32,
    pub(crate) reads: ReadDepths,
    /// The traffic class of our packets; 0 means the class of the peer's path.
    pub(crate) class: u8,
}

/// A request of the send queue.
#[derive(Clone, Copy)]
enum Work<'a> {
    Send {
        solicited: bool,
    },
    Write(Remote),
    Read(Remote),
    /// Registers what was put into the region under its key of now, for the peer to read or to
    /// write, or for our own Reads to write to.
    Register(&'a Mr, Access),
    /// Ends the registration with this key. With another one the request fails, and the queue
    /// pair with it.
    Invalidate(u32),
}

/// The size of a queue pair.
pub(crate) struct Capacity {
    pub(crate) sends: u32,
    pub(crate) send_sges: u32,
    pub(crate) receives: u32,
    /// Buffers that a receive can have, at most [`BUFFERS`](crate::rdma::receive::BUFFERS).
    pub(crate) receive_buffers: u32,
    /// Number of messages in flight that have a header, and the room for each.
    pub(crate) headers: usize,
    pub(crate) header_len: usize,
}

/// A state of a queue pair, to which a connection manager moves it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    ReadyToReceive,
    ReadyToSend,
}

/// An RC queue pair and its completion queues; their events go to `C`.
///
/// Dropping it ends all transfers and waits until every completion was delivered. That sleeps;
/// no lock that a handler of events takes may be held.
///
/// # Invariants
///
/// `qp` and the queues are valid and belong to `domain`. Their context is `_context`.
///
/// The order of the fields is the order of destruction: a completion queue counts its users.
pub(crate) struct Qp<C, T, S, const SLOT: usize> {
    qp: RawQp,
    sent: Cq,
    received: Cq,
    receives: Receives<T, SLOT>,
    sends: Sends<T, S>,
    domain: Domain,
    _context: Arc<C>,
    /// No other queue pair ever has the same; never 0.
    id: u64,
    /// The queue pair has left the RESET state, in which it neither needs to be drained
    /// nor can be.
    started: Cell<bool>,
}

/// A queue pair, destroyed when this is dropped.
struct RawQp(NonNull<ffi::ib_qp>);

// SAFETY: Verbs objects may be used from any thread, and `started` goes with the value.
unsafe impl<C: Send + Sync, T: Send, S: Send, const SLOT: usize> Send for Qp<C, T, S, SLOT> {}

/// # Safety
///
/// Called from C, with the arguments that the slot it stands in promises.
unsafe extern "C" fn event_cb<C: Completions>(event: *mut ffi::ib_event, context: *mut c_void) {
    // SAFETY: ib_core passes a valid event.
    if unsafe { (*event).event } == ffi::ib_event_type_IB_EVENT_COMM_EST {
        // SAFETY: Drivers tell no event of a queue pair once `ib_destroy_qp()` has
        // returned, and the context is dropped behind the queue pair.
        unsafe { &*context.cast::<C>() }.communicated();
    }
}

impl<C: Completions, T, S, const SLOT: usize> Qp<C, T, S, SLOT> {
    /// Creates a queue pair with events that go to `context`. May sleep.
    pub(crate) fn new(domain: Domain, capacity: &Capacity, context: Arc<C>) -> Result<Self> {
        let device = domain.tenant().device().as_ptr();
        let raw = core::ptr::from_ref(&*context);
        // One more of each than is ever posted: draining posts a marker.
        let sends = capacity.sends.saturating_add(1);
        let receives = capacity.receives.saturating_add(1);
        // Spreads connections over the completion vectors (and so over CPUs).
        // SAFETY: The device is valid, by its type's invariant; the number never changes.
        let vectors = unsafe { (*device).num_comp_vectors }.max(1);
        let pick = (random_u32() >> 1) as i32;
        let vector = pick.checked_rem(vectors).unwrap_or(0);
        // SAFETY: The device and the context are kept, by the domain and here, and dropped
        // behind the queues.
        let (sent, received) = unsafe {
            (
                Cq::new::<C>(Side::Sends, device, raw, sends, vector)?,
                Cq::new::<C>(Side::Receives, device, raw, receives, vector)?,
            )
        };

        let mut attr = ffi::ib_qp_init_attr {
            event_handler: Some(event_cb::<C>),
            qp_context: raw.cast_mut().cast(),
            send_cq: sent.as_ptr(),
            recv_cq: received.as_ptr(),
            sq_sig_type: ffi::ib_sig_type_IB_SIGNAL_ALL_WR,
            qp_type: ffi::ib_qp_type_IB_QPT_RC,
            ..pin_init::zeroed()
        };
        attr.cap.max_send_wr = sends;
        attr.cap.max_recv_wr = receives;
        attr.cap.max_send_sge = capacity.send_sges;
        // A device that supports fewer refuses the queue pair.
        attr.cap.max_recv_sge = capacity.receive_buffers.saturating_add(SLOT_PIECES as u32);
        // SAFETY: The protection domain is valid by its type's invariant, and the queue is new.
        let qp = unsafe { ffi::rust_ib_create_qp(domain.as_ptr(), &mut attr) };
        let qp = NonNull::new(kernel::error::from_err_ptr(qp)?).ok_or(ENOMEM)?;
        let qp = RawQp(qp);
        let device = domain.tenant().device();
        let slots = ReceiveSlots::new(device, capacity.receives as usize)?;
        let headers = SlotRing::new(device, capacity.headers, capacity.header_len)?;
        // INVARIANT: just created.
        Ok(Self {
            qp,
            sent,
            received,
            receives: Receives::new(slots),
            sends: Sends::new(headers),
            domain,
            _context: context,
            id: unique(),
            started: Cell::new(false),
        })
    }
}

impl<C, T, S, const SLOT: usize> Qp<C, T, S, SLOT> {
    /// Takes the oldest completions of a side. After an event, call this until a batch is not
    /// full, and then [`arm`](Self::arm).
    pub(crate) fn poll(&mut self, side: Side) -> Batch {
        let id = self.id;
        self.queue(side).poll(id)
    }

    /// Requests an event for the next completion of a side. Returns false if there are
    /// completions that were there before; no event need tell of these.
    pub(crate) fn arm(&mut self, side: Side) -> bool {
        self.queue(side).arm()
    }

    fn queue(&mut self, side: Side) -> &mut Cq {
        match side {
            Side::Receives => &mut self.received,
            Side::Sends => &mut self.sent,
        }
    }

    /// Whether `queue` is a completion queue of this queue pair.
    pub(crate) fn owns(&self, queue: &Borrowed<'_>) -> bool {
        queue.is(&self.sent) || queue.is(&self.received)
    }

    /// Starts the workers, which call [`Completions::work`].
    pub(crate) fn start_work(&self) {
        self.sent.start_work();
        self.received.start_work();
    }

    pub(crate) fn domain(&self) -> &Domain {
        &self.domain
    }

    pub(crate) fn device(&self) -> &Arc<Device> {
        self.domain.tenant().device()
    }

    /// The queue pair's number.
    pub(crate) fn number(&self) -> u32 {
        // SAFETY: Valid by the invariant; the number never changes.
        unsafe { (*self.qp.0.as_ptr()).qp_num }
    }

    /// Moves to INIT on `port` with the partition key `pkey`.
    /// From here on receives can be posted. May sleep.
    ///
    /// For the active side: the connection manager knows these attributes only after
    /// the request was sent, and the Hello in it has to state the posted buffers.
    pub(crate) fn initialise(&self, port: u32, pkey: u16) -> Result {
        let mut attr = KBox::new(pin_init::zeroed::<ffi::ib_qp_attr>(), GFP_KERNEL)?;
        let mut index = 0;
        // SAFETY: The device is valid by its type's invariant, the result ours.
        to_result(unsafe {
            ffi::ib_find_cached_pkey(self.device().as_ptr(), port, pkey, &mut index)
        })?;
        attr.pkey_index = index;
        attr.port_num = port;
        self.begin(attr)
    }

    /// The same for the passive side: the port is from the path in the request, as
    /// RTR will have it, and not the port where the request came in.
    /// Fails where `id` has received no request.
    pub(crate) fn initialise_by_cm(&self, id: &Id) -> Result {
        let (attr, _) = Self::attributes_by_cm(id, ffi::ib_qp_state_IB_QPS_INIT)?;
        self.begin(attr)
    }

    /// The attributes that the connection manager has worked out for a state, and which they are.
    fn attributes_by_cm(
        id: &Id,
        state: ffi::ib_qp_state,
    ) -> Result<(KBox<ffi::ib_qp_attr>, c_int)> {
        let mut attr = KBox::new(pin_init::zeroed::<ffi::ib_qp_attr>(), GFP_KERNEL)?;
        attr.qp_state = state;
        let mut mask = 0;
        // SAFETY: The identifier is valid by its type's invariant, the rest is ours.
        to_result(unsafe { ffi::ib_cm_init_qp_attr(id.as_ptr(), &mut *attr, &mut mask) })?;
        Ok((attr, mask))
    }

    /// INIT with the port and the key index that `attr` has.
    fn begin(&self, mut attr: KBox<ffi::ib_qp_attr>) -> Result {
        attr.qp_state = ffi::ib_qp_state_IB_QPS_INIT;
        // The peer reads and writes what it has a key for; a probe writes nothing.
        attr.qp_access_flags = (ffi::ib_access_flags_IB_ACCESS_LOCAL_WRITE
            | ffi::ib_access_flags_IB_ACCESS_REMOTE_WRITE
            | ffi::ib_access_flags_IB_ACCESS_REMOTE_READ) as c_int;
        let mask = ffi::ib_qp_attr_mask_IB_QP_STATE
            | ffi::ib_qp_attr_mask_IB_QP_PKEY_INDEX
            | ffi::ib_qp_attr_mask_IB_QP_PORT
            | ffi::ib_qp_attr_mask_IB_QP_ACCESS_FLAGS;
        self.change(&mut attr, mask as c_int)?;
        self.started.set(true);
        Ok(())
    }

    /// Moves to the state and attributes that the connection manager worked
    /// out for `state`. May sleep.
    ///
    /// The number of Reads is at most `most`, whatever the peer's messages say.
    ///
    /// `reply` has the values of the REP that will be sent: the connection manager does
    /// not know them yet, and the queue pair has to be ready before the peer may send.
    ///
    /// After a failure the queue pair is as new; posted requests are lost.
    pub(crate) fn modify_by_cm(
        &self,
        id: &Id,
        state: State,
        most: ReadDepths,
        reply: Option<&Reply>,
    ) -> Result {
        let state = match state {
            State::ReadyToReceive => ffi::ib_qp_state_IB_QPS_RTR,
            State::ReadyToSend => ffi::ib_qp_state_IB_QPS_RTS,
        };
        let (mut attr, mask) = Self::attributes_by_cm(id, state)?;
        if let Some(reply) = reply {
            if mask & ffi::ib_qp_attr_mask_IB_QP_RQ_PSN as c_int != 0 {
                attr.rq_psn = reply.starting_psn;
                attr.max_dest_rd_atomic = reply.reads.answered;
            }
            if mask & ffi::ib_qp_attr_mask_IB_QP_MAX_QP_RD_ATOMIC as c_int != 0 {
                attr.max_rd_atomic = reply.reads.begun;
            }
            // On InfiniBand another class would need another path of the subnet.
            let roce = attr.ah_attr.type_ == ffi::rdma_ah_attr_type_RDMA_AH_ATTR_TYPE_ROCE;
            if roce && reply.class != 0 {
                attr.ah_attr.grh.traffic_class = reply.class;
            }
        }
        // The peer's wishes are bounded: retries end, waits end, and Reads stay within
        // the device's limits.
        attr.retry_cnt = attr.retry_cnt.min(RETRY_COUNT_MAX);
        attr.min_rnr_timer = RNR_TIMER;
        if attr.timeout == 0 || attr.timeout > ACK_TIMEOUT_MAX {
            attr.timeout = ACK_TIMEOUT_MAX;
        }
        attr.max_rd_atomic = attr.max_rd_atomic.min(most.begun);
        attr.max_dest_rd_atomic = attr.max_dest_rd_atomic.min(most.answered);
        let modified = self.change(&mut attr, mask);
        if modified.is_err() {
            // The queue pair may be between two states now. rxe, without memory for the
            // Reads that it has to answer, has set the state but never looks at its
            // receive queue again, so draining would wait for ever.
            attr.qp_state = ffi::ib_qp_state_IB_QPS_RESET;
            let mask = ffi::ib_qp_attr_mask_IB_QP_STATE as c_int;
            let reset = self.change(&mut attr, mask);
            self.started.set(reset.is_err());
        }
        modified
    }

    fn change(&self, attr: &mut ffi::ib_qp_attr, mask: c_int) -> Result {
        // SAFETY: The queue pair is valid by the invariant, the attributes are plain numbers.
        to_result(unsafe { ffi::ib_modify_qp(self.qp.0.as_ptr(), attr, mask) })
    }

    /// Posts one receive into the given pieces.
    ///
    /// # Safety
    ///
    /// The pieces are mapped for the device to write to, and neither unmapped nor used by
    /// any other code until the receive has completed or the queue pair is gone.
    unsafe fn post_pieces(&self, sges: &mut [Sge]) -> Result {
        let mut wr: ffi::ib_recv_wr = pin_init::zeroed();
        wr.__bindgen_anon_1.wr_cqe = receive_entry();
        wr.sg_list = sges.as_mut_ptr().cast();
        wr.num_sge = i32::try_from(sges.len()).map_err(|_| EINVAL)?;
        // SAFETY: The queue pair is valid by the invariant; the request and its list are read
        // during the call. The caller promises that the device may use the memory.
        to_result(unsafe { ffi::rust_ib_post_recv(self.qp.0.as_ptr(), &wr) })
    }

    /// Posts one request of the send queue with the given pieces.
    ///
    /// # Safety
    ///
    /// The pieces are mapped for the device to read, or to write for a Read, and neither unmapped
    /// nor used by any other code until the request has completed or the queue pair is gone; or they
    /// are under the key of a region. A region to register exists as long. Its memory
    /// stays mapped, and its pages pinned for such access, until the registration has ended: by an
    /// invalidation that has completed, or with the region, or with the queue pair.
    unsafe fn post(&self, work: Work<'_>, pieces: &mut [Sge]) -> Result {
        let mut head: ffi::ib_send_wr = pin_init::zeroed();
        head.__bindgen_anon_1.wr_cqe = send_entry();
        head.send_flags = ffi::ib_send_flags_IB_SEND_SIGNALED as c_int;
        head.num_sge = i32::try_from(pieces.len()).map_err(|_| EINVAL)?;
        head.sg_list = pieces.as_mut_ptr().cast();
        // SAFETY: The queue pair is valid by the invariant. The request and its list are read
        // during the call, and the request is of the type that its opcode says. The caller
        // promises that the device may use the memory.
        let submit = |request: *const ffi::ib_send_wr| unsafe {
            to_result(ffi::rust_ib_post_send(self.qp.0.as_ptr(), request))
        };
        let rdma = |mut wr: ffi::ib_send_wr, opcode, remote: Remote| {
            wr.opcode = opcode;
            let request = ffi::ib_rdma_wr {
                wr,
                remote_addr: remote.addr,
                rkey: remote.key,
            };
            submit((&raw const request).cast())
        };
        match work {
            Work::Send { solicited } => {
                head.opcode = ffi::ib_wr_opcode_IB_WR_SEND;
                if solicited {
                    head.send_flags |= ffi::ib_send_flags_IB_SEND_SOLICITED as c_int;
                }
                submit(&head)
            }
            Work::Write(to) => rdma(head, ffi::ib_wr_opcode_IB_WR_RDMA_WRITE, to),
            Work::Read(from) => rdma(head, ffi::ib_wr_opcode_IB_WR_RDMA_READ, from),
            Work::Register(mr, access) => {
                head.opcode = ffi::ib_wr_opcode_IB_WR_REG_MR;
                let request = ffi::ib_reg_wr {
                    wr: head,
                    mr: mr.as_ptr(),
                    key: mr.key(),
                    access: access.raw(),
                };
                submit((&raw const request).cast())
            }
            Work::Invalidate(key) => {
                head.opcode = ffi::ib_wr_opcode_IB_WR_LOCAL_INV;
                head.ex.invalidate_rkey = key;
                submit(&head)
            }
        }
    }

    /// The right to drain the queue pair later, without a reference to it.
    pub(crate) fn drain(&self) -> Drain {
        Drain(self.started.get().then_some(self.qp.0))
    }

    /// A drain has ended, and its owner posts no more: the queue pair is dropped without another.
    pub(crate) fn set_drained(&self) {
        self.started.set(false);
    }
}

/// A queue pair to be drained.
pub(crate) struct Drain(Option<NonNull<ffi::ib_qp>>);

impl Drain {
    /// Ends all transfers and waits until every completion was taken. `look` takes completions from
    /// both queues until these are empty and armed. It is called once, which is enough for a fast
    /// device; events announce later completions. May sleep. The caller holds no lock that a
    /// completion callback takes.
    ///
    /// # Safety
    ///
    /// The queue pair still exists.
    pub(crate) unsafe fn run(self, look: impl FnMut()) {
        /// # Safety
        ///
        /// `context` is an exclusive reference to an `F`.
        unsafe extern "C" fn look_cb<F: FnMut()>(context: *mut c_void) {
            // SAFETY: It is one, by the caller's promise.
            (unsafe { &mut *context.cast::<F>() })();
        }

        fn drain<F: FnMut()>(qp: NonNull<ffi::ib_qp>, mut look: F) {
            let context = (&raw mut look).cast();
            // SAFETY: The queue pair exists, by the promise to `run`; `Qp::new` has made room for
            // the markers. The context is what the callback expects, during the call.
            unsafe { ffi::rust_ib_drain(qp.as_ptr(), Some(look_cb::<F>), context) };
        }

        if let Some(qp) = self.0 {
            drain(qp, look);
        }
    }
}

impl<C, T, S, const SLOT: usize> Drop for Qp<C, T, S, SLOT> {
    fn drop(&mut self) {
        let (sent, received) = (&self.sent, &self.received);
        // SAFETY: The queue pair exists until this has returned.
        unsafe {
            self.drain().run(|| {
                sent.discard();
                received.discard();
            });
        };
    }
}

impl Drop for RawQp {
    fn drop(&mut self) {
        // SAFETY: Valid by the invariant of `Qp` and never used again.
        unsafe { ffi::rust_ib_destroy_qp(self.0.as_ptr()) };
    }
}
