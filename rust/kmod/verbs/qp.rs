// SPDX-License-Identifier: GPL-2.0

//! A reliable-connected queue pair with its completion queues.
//!
//! Contexts: creating and destroying sleep; posting does not. `cq` has those of
//! completions.

use crate::{
    ffi,
    prelude::*,
    verbs::{
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
        mr::Mr, //
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

/// RDMA Reads in flight on a queue pair.
#[derive(Clone, Copy)]
pub(crate) struct ReadDepths {
    /// Reads of the peer, which our device answers.
    pub(crate) answered: u8,
    /// Our own Reads.
    pub(crate) begun: u8,
}

impl ReadDepths {
    /// The limits of `device`, at most `most`.
    pub(crate) fn of_device(device: &Device, most: u8) -> Self {
        let depth = device.limits().reads.min(most);
        Self {
            answered: depth,
            begun: depth,
        }
    }

    /// The minimum of these and of the numbers that the peer begins and answers.
    pub(crate) fn meet(self, begins: u8, answers: u8) -> Self {
        Self {
            answered: self.answered.min(begins),
            begun: self.begun.min(answers),
        }
    }
}

/// The passive side's decisions about the transport.
pub(crate) struct Reply {
    /// Number of the first packet that we expect, 24 bits.
    pub(crate) starting_psn: u32,
    pub(crate) reads: ReadDepths,
    /// The traffic class of our packets; 0 means that of the peer's path.
    pub(crate) class: u8,
}

/// The access that a memory region permits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// The peer reads.
    RemoteRead,
    /// The peer writes.
    RemoteWrite,
    /// Our own requests write.
    LocalWrite,
}

/// The size of a queue pair.
pub(crate) struct Capacity {
    pub(crate) sends: u32,
    pub(crate) send_sges: u32,
    pub(crate) receives: u32,
    pub(crate) receive_sges: u32,
}

/// An RC queue pair and its completion queues.
///
/// # Invariants
///
/// `qp` and the queues are valid and belong to `domain`, whose device the owner keeps leased:
/// that is promised to [`Qp::new`].
///
/// The order of the fields is that of destruction: a completion queue counts its users.
pub(crate) struct Qp {
    qp: RawQp,
    sent: Cq,
    received: Cq,
    domain: Domain,
    /// The queue pair has left the RESET state, in which it neither needs to be drained
    /// nor can be.
    started: Cell<bool>,
}

/// A queue pair, destroyed when this is dropped.
struct RawQp(NonNull<ffi::ib_qp>);

// SAFETY: Verbs objects may be used from any thread, and `started` goes with the value.
unsafe impl Send for Qp {}

/// # Safety
///
/// Called from C, with the arguments that the slot it stands in promises.
unsafe extern "C" fn event_cb<C: Completions>(event: *mut ffi::ib_event, context: *mut c_void) {
    // SAFETY: ib_core passes a valid event.
    if unsafe { (*event).event } == ffi::ib_event_type_IB_EVENT_COMM_EST {
        // SAFETY: Drivers tell no event of a queue pair once `ib_destroy_qp()` has
        // returned, and it exists until then.
        unsafe { C::communicated(context) }
    }
}

impl Qp {
    /// Creates a queue pair whose completions go to `C` with `context`.
    ///
    /// # Safety
    ///
    /// Until the queue pair is dropped, `context` is what `C` takes it for, and the device
    /// of `domain` is leased. A queue pair that something was posted to is drained
    /// ([`Drain::run`]) before it is dropped.
    pub(crate) unsafe fn new<C: Completions>(
        domain: Domain,
        capacity: &Capacity,
        context: *mut c_void,
    ) -> Result<Self> {
        let device = domain.tenant().device().as_ptr();
        // One more of each than is ever posted: draining posts a marker.
        let sends = capacity.sends.saturating_add(1);
        let receives = capacity.receives.saturating_add(1);
        // Spreads connections over the completion vectors (and so over CPUs).
        // SAFETY: The device is leased, by the caller's promise; the number never changes.
        let vectors = unsafe { (*device).num_comp_vectors }.max(1);
        // SAFETY: Plain random number.
        let pick = (unsafe { ffi::sdp_random_u32() } >> 1) as i32;
        let vector = pick.checked_rem(vectors).unwrap_or(0);
        // SAFETY: The device is leased, and the context valid, by the caller's promise.
        let (sent, received) = unsafe {
            (
                Cq::new::<C>(Side::Sends, device, context, sends, vector)?,
                Cq::new::<C>(Side::Receives, device, context, receives, vector)?,
            )
        };

        let mut attr = ffi::ib_qp_init_attr {
            event_handler: Some(event_cb::<C>),
            qp_context: context,
            send_cq: sent.as_ptr(),
            recv_cq: received.as_ptr(),
            sq_sig_type: ffi::ib_sig_type_IB_SIGNAL_ALL_WR,
            qp_type: ffi::ib_qp_type_IB_QPT_RC,
            ..pin_init::zeroed()
        };
        attr.cap.max_send_wr = sends;
        attr.cap.max_recv_wr = receives;
        attr.cap.max_send_sge = capacity.send_sges;
        attr.cap.max_recv_sge = capacity.receive_sges;
        // SAFETY: The protection domain is valid by its type's invariant, and the queue is new.
        let qp = unsafe { ffi::sdp_ib_create_qp(domain.as_ptr(), &mut attr) };
        let qp = NonNull::new(kernel::error::from_err_ptr(qp)?).ok_or(ENOMEM)?;
        // INVARIANT: just created on the leased device.
        Ok(Self {
            qp: RawQp(qp),
            sent,
            received,
            domain,
            started: Cell::new(false),
        })
    }

    /// Takes the oldest completions of a side. After an event, call this until a batch is not
    /// full, and then [`arm`](Self::arm).
    pub(crate) fn poll(&mut self, side: Side) -> Batch {
        self.queue(side).poll()
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
    pub(crate) fn owns(&self, queue: &Borrowed) -> bool {
        queue.is(&self.sent) || queue.is(&self.received)
    }

    /// Starts the workers, whose part is [`Completions::work`].
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

    /// Moves to INIT on `port` with the partition key `pkey` (network order).
    /// From here on receives can be posted. May sleep.
    ///
    /// For the active side: the connection manager knows these attributes only after
    /// the request was sent, and the Hello in it has to state the posted buffers.
    pub(crate) fn initialise(&self, port: u32, pkey: u16) -> Result {
        let mut attr = KBox::new(pin_init::zeroed::<ffi::ib_qp_attr>(), GFP_KERNEL)?;
        let mut index = 0;
        // SAFETY: The device is leased by the invariant, the result ours.
        to_result(unsafe {
            ffi::ib_find_cached_pkey(self.device().as_ptr(), port, u16::from_be(pkey), &mut index)
        })?;
        attr.pkey_index = index;
        attr.port_num = port;
        self.begin(attr)
    }

    /// The same for the passive side: the port is that of the path in the request, as
    /// RTR will have it, and not the port where the request came in.
    ///
    /// # Safety
    ///
    /// `cm_id` is a valid connection identifier that has received a request.
    pub(crate) unsafe fn initialise_by_cm(&self, cm_id: *mut ffi::ib_cm_id) -> Result {
        let mut attr = KBox::new(pin_init::zeroed::<ffi::ib_qp_attr>(), GFP_KERNEL)?;
        attr.qp_state = ffi::ib_qp_state_IB_QPS_INIT;
        let mut mask = 0;
        // SAFETY: `cm_id` by the caller's promise, the rest is ours.
        to_result(unsafe { ffi::ib_cm_init_qp_attr(cm_id, &mut *attr, &mut mask) })?;
        self.begin(attr)
    }

    /// INIT with the port and the key index that `attr` has.
    fn begin(&self, mut attr: KBox<ffi::ib_qp_attr>) -> Result {
        attr.qp_state = ffi::ib_qp_state_IB_QPS_INIT;
        //= spec: KEEPALIVE-1
        // Reads and writes of the peer: keepalives are zero-length writes.
        attr.qp_access_flags = (ffi::ib_access_flags_IB_ACCESS_LOCAL_WRITE
            | ffi::ib_access_flags_IB_ACCESS_REMOTE_WRITE
            | ffi::ib_access_flags_IB_ACCESS_REMOTE_READ) as c_int;
        let mask = ffi::ib_qp_attr_mask_IB_QP_STATE
            | ffi::ib_qp_attr_mask_IB_QP_PKEY_INDEX
            | ffi::ib_qp_attr_mask_IB_QP_PORT
            | ffi::ib_qp_attr_mask_IB_QP_ACCESS_FLAGS;
        // SAFETY: The queue pair is valid by the invariant.
        to_result(unsafe { ffi::ib_modify_qp(self.qp.0.as_ptr(), &mut *attr, mask as c_int) })?;
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
    ///
    /// # Safety
    ///
    /// `cm_id` is a valid connection identifier of this connection.
    pub(crate) unsafe fn modify_by_cm(
        &self,
        cm_id: *mut ffi::ib_cm_id,
        state: ffi::ib_qp_state,
        most: ReadDepths,
        reply: Option<&Reply>,
    ) -> Result {
        let mut attr = KBox::new(pin_init::zeroed::<ffi::ib_qp_attr>(), GFP_KERNEL)?;
        attr.qp_state = state;
        let mut mask = 0;
        // SAFETY: `cm_id` by the caller's promise, the rest is ours.
        to_result(unsafe { ffi::ib_cm_init_qp_attr(cm_id, &mut *attr, &mut mask) })?;
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
        // SAFETY: The queue pair is valid by the invariant.
        let modified = unsafe { ffi::ib_modify_qp(self.qp.0.as_ptr(), &mut *attr, mask) };
        let modified = to_result(modified);
        if modified.is_err() {
            // The queue pair may be between two states now. rxe, without memory for the
            // Reads that it has to answer, has set the state but never looks at its
            // receive queue again, so draining would wait for ever.
            attr.qp_state = ffi::ib_qp_state_IB_QPS_RESET;
            let mask = ffi::ib_qp_attr_mask_IB_QP_STATE as c_int;
            // SAFETY: The queue pair is valid by the invariant.
            let reset = unsafe { ffi::ib_modify_qp(self.qp.0.as_ptr(), &mut *attr, mask) };
            self.started.set(reset != 0);
        }
        modified
    }

    /// Posts one receive into the given pieces.
    ///
    /// # Safety
    ///
    /// The pieces are mapped for the device to write to, and neither unmapped nor used by
    /// anybody else until the receive has completed or the queue pair is gone.
    pub(crate) unsafe fn post_receive(&self, sges: &mut [ffi::ib_sge]) -> Result {
        let mut wr: ffi::ib_recv_wr = pin_init::zeroed();
        wr.__bindgen_anon_1.wr_cqe = receive_entry();
        wr.sg_list = sges.as_mut_ptr();
        wr.num_sge = i32::try_from(sges.len()).map_err(|_| EINVAL)?;
        // SAFETY: The queue pair is valid by the invariant; the request and its list are read
        // during the call. What the device does with the memory is the caller's promise.
        to_result(unsafe { ffi::sdp_ib_post_recv(self.qp.0.as_ptr(), &wr) })
    }

    /// Posts one SEND of the given pieces.
    ///
    /// # Safety
    ///
    /// The pieces are mapped for the device to read, and neither unmapped nor freed until
    /// the SEND has completed or the queue pair is gone.
    pub(crate) unsafe fn post_send(&self, sges: &mut [ffi::ib_sge], solicited: bool) -> Result {
        let mut wr: ffi::ib_send_wr = pin_init::zeroed();
        wr.__bindgen_anon_1.wr_cqe = send_entry();
        wr.num_sge = i32::try_from(sges.len()).map_err(|_| EINVAL)?;
        wr.sg_list = sges.as_mut_ptr();
        wr.opcode = ffi::ib_wr_opcode_IB_WR_SEND;
        wr.send_flags = ffi::ib_send_flags_IB_SEND_SIGNALED as c_int;
        if solicited {
            wr.send_flags |= ffi::ib_send_flags_IB_SEND_SOLICITED as c_int;
        }
        // SAFETY: The queue pair is valid by the invariant; the request and its list are read
        // during the call. What the device does with the memory is the caller's promise.
        to_result(unsafe { ffi::sdp_ib_post_send(self.qp.0.as_ptr(), &wr) })
    }

    /// Posts an RDMA Write of zero bytes: the peer's transport acknowledges it, the
    /// peer's program never sees it.
    pub(crate) fn post_probe(&self) -> Result {
        let mut wr: ffi::ib_rdma_wr = pin_init::zeroed();
        wr.wr.__bindgen_anon_1.wr_cqe = send_entry();
        wr.wr.opcode = ffi::ib_wr_opcode_IB_WR_RDMA_WRITE;
        wr.wr.send_flags = ffi::ib_send_flags_IB_SEND_SIGNALED as c_int;
        // SAFETY: The queue pair is valid by the invariant; the request, which is read during
        // the call, is one of RDMA as its opcode says, and names no memory.
        to_result(unsafe { ffi::sdp_ib_post_send(self.qp.0.as_ptr(), &wr.wr) })
    }

    /// Registers what was put into `mr` under its key of now, for the peer to
    /// read or to write, or for our own Reads to write to.
    ///
    /// # Safety
    ///
    /// What was put into `mr` stays mapped, and its pages pinned for such access, until the
    /// registration has ended: by an invalidation that has completed, or with `mr`, or with
    /// the queue pair. `mr` lives as long as the request is under way.
    pub(crate) unsafe fn post_register(&self, mr: &Mr, access: Access) -> Result {
        let mut wr: ffi::ib_reg_wr = pin_init::zeroed();
        wr.wr.__bindgen_anon_1.wr_cqe = send_entry();
        wr.wr.opcode = ffi::ib_wr_opcode_IB_WR_REG_MR;
        wr.wr.send_flags = ffi::ib_send_flags_IB_SEND_SIGNALED as c_int;
        wr.mr = mr.as_ptr();
        wr.key = mr.key();
        wr.access = match access {
            Access::RemoteRead => ffi::ib_access_flags_IB_ACCESS_REMOTE_READ,
            // Remote write access requires local write access.
            Access::RemoteWrite => {
                ffi::ib_access_flags_IB_ACCESS_REMOTE_WRITE
                    | ffi::ib_access_flags_IB_ACCESS_LOCAL_WRITE
            }
            Access::LocalWrite => ffi::ib_access_flags_IB_ACCESS_LOCAL_WRITE,
        } as c_int;
        // SAFETY: The queue pair is valid by the invariant; the request, which is read during
        // the call, is a registration as its opcode says. What becomes of the memory is the
        // caller's promise.
        to_result(unsafe { ffi::sdp_ib_post_send(self.qp.0.as_ptr(), &wr.wr) })
    }

    /// Ends the registration with this key. With another one the request fails, and the queue
    /// pair with it.
    pub(crate) fn post_invalidate(&self, key: u32) -> Result {
        let mut wr: ffi::ib_send_wr = pin_init::zeroed();
        wr.__bindgen_anon_1.wr_cqe = send_entry();
        wr.opcode = ffi::ib_wr_opcode_IB_WR_LOCAL_INV;
        wr.send_flags = ffi::ib_send_flags_IB_SEND_SIGNALED as c_int;
        wr.ex.invalidate_rkey = key;
        // SAFETY: The queue pair is valid by the invariant; the request is read during the
        // call, and takes access to memory away, never gives it.
        to_result(unsafe { ffi::sdp_ib_post_send(self.qp.0.as_ptr(), &wr) })
    }

    /// Posts one RDMA Read of the peer's memory into the one piece `into`.
    ///
    /// # Safety
    ///
    /// `into` is mapped for the device to write to, and neither unmapped nor used by anybody
    /// else until the Read has completed or the queue pair is gone.
    pub(crate) unsafe fn post_read(
        &self,
        mut into: ffi::ib_sge,
        remote_key: u32,
        remote_addr: u64,
    ) -> Result {
        let mut wr: ffi::ib_rdma_wr = pin_init::zeroed();
        wr.wr.__bindgen_anon_1.wr_cqe = send_entry();
        wr.wr.opcode = ffi::ib_wr_opcode_IB_WR_RDMA_READ;
        wr.wr.send_flags = ffi::ib_send_flags_IB_SEND_SIGNALED as c_int;
        wr.wr.num_sge = 1;
        wr.wr.sg_list = &mut into;
        wr.remote_addr = remote_addr;
        wr.rkey = remote_key;
        // SAFETY: The queue pair is valid by the invariant; the request, which is read during
        // the call, is one of RDMA as its opcode says. What the device does with the memory
        // is the caller's promise.
        to_result(unsafe { ffi::sdp_ib_post_send(self.qp.0.as_ptr(), &wr.wr) })
    }

    /// Posts one RDMA Write of the given pieces into the peer's memory.
    ///
    /// # Safety
    ///
    /// The pieces are mapped for the device to read, and neither unmapped nor freed until
    /// the Write has completed or the queue pair is gone.
    pub(crate) unsafe fn post_write(
        &self,
        from: &mut [ffi::ib_sge],
        remote_key: u32,
        remote_addr: u64,
    ) -> Result {
        let mut wr: ffi::ib_rdma_wr = pin_init::zeroed();
        wr.wr.__bindgen_anon_1.wr_cqe = send_entry();
        wr.wr.opcode = ffi::ib_wr_opcode_IB_WR_RDMA_WRITE;
        wr.wr.send_flags = ffi::ib_send_flags_IB_SEND_SIGNALED as c_int;
        wr.wr.num_sge = i32::try_from(from.len()).map_err(|_| EINVAL)?;
        wr.wr.sg_list = from.as_mut_ptr();
        wr.remote_addr = remote_addr;
        wr.rkey = remote_key;
        // SAFETY: The queue pair is valid by the invariant; the request, which is read during
        // the call, is one of RDMA as its opcode says. What the device does with the memory
        // is the caller's promise.
        to_result(unsafe { ffi::sdp_ib_post_send(self.qp.0.as_ptr(), &wr.wr) })
    }

    /// The right to drain the queue pair later, without a reference to it.
    pub(crate) fn drain(&self) -> Drain {
        Drain(self.started.get().then_some(self.qp.0))
    }
}

/// A queue pair to be drained.
pub(crate) struct Drain(Option<NonNull<ffi::ib_qp>>);

impl Drain {
    /// Ends all transfers and waits until every completion was delivered. May
    /// sleep; no lock that a completion callback takes may be held.
    ///
    /// # Safety
    ///
    /// The queue pair still exists.
    pub(crate) unsafe fn run(self) {
        if let Some(qp) = self.0 {
            // SAFETY: The queue pair exists, by the caller's promise; `Qp::new` has made room
            // for the markers.
            unsafe { ffi::ib_drain_qp(qp.as_ptr()) };
        }
    }
}

impl Drop for RawQp {
    fn drop(&mut self) {
        // SAFETY: Valid by the invariant of `Qp` and never used again.
        unsafe { ffi::sdp_ib_destroy_qp(self.0.as_ptr()) };
    }
}
