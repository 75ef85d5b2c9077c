// SPDX-License-Identifier: GPL-2.0

//! The identifier of a connection.
//!
//! C header: [`include/rdma/ib_cm.h`](srctree/include/rdma/ib_cm.h)

use super::{
    event::Event,
    reads::ReadDepths, //
};
use crate::{
    calls::calls,
    ffi,
    prelude::*,
    rdma::{
        device::Device,
        noio::{
            NoIo,
            Reserves, //
        },
        route::Path, //
    }, //
};
use core::ptr::NonNull;
use kernel::{
    error::to_result,
    sync::Arc, //
};

/// Code that is told of the events of connections.
pub(crate) trait Handler {
    /// An event of the identifier that was given the number `context`. May sleep. The
    /// identifier may have been dropped by now, or be about to be.
    fn on_event(context: usize, event: Event<'_>);
}

/// A connection, as ib_cm knows it. Dropping it tells the peer what ib_cm still can: a REJ or
/// a DREQ.
///
/// # Invariants
///
/// `id` is valid, this alone destroys it, and its handler is `event_cb`.
pub(crate) struct Id {
    id: NonNull<ffi::ib_cm_id>,
    /// The device of `id`.
    _device: Arc<Device>,
}

// SAFETY: CM identifiers may be used from any thread.
unsafe impl Send for Id {}
// SAFETY: ib_cm has a lock for each identifier.
unsafe impl Sync for Id {}

/// Waits of a request: 4.096 us << 18 each, about one second.
const RESPONSE_TIMEOUT: u8 = 18;

/// The contents of a request.
pub(crate) struct RequestParameters<'a> {
    pub(crate) service: u64,
    /// Number of our first packet, 24 bits.
    pub(crate) starting_psn: u32,
    pub(crate) reads: ReadDepths,
    /// Transport retries; 7 is endless for receiver-not-ready.
    pub(crate) retries: u8,
    pub(crate) rnr_retries: u8,
    /// Number of times that the request is sent, a second apart.
    pub(crate) tries: u8,
    pub(crate) data: &'a [u8],
}

/// The contents of a reply.
pub(crate) struct ReplyParameters<'a> {
    /// Number of our first packet, 24 bits.
    pub(crate) starting_psn: u32,
    pub(crate) reads: ReadDepths,
    pub(crate) rnr_retries: u8,
    pub(crate) data: &'a [u8],
}

/// # Safety
///
/// Called by ib_cm with the identifier and the event that it has.
pub(super) unsafe extern "C" fn event_cb<H: Handler>(
    id: *mut ffi::ib_cm_id,
    event: *const ffi::ib_cm_event,
) -> c_int {
    // SAFETY: The event is valid for the call. The identifier is valid, because ib_cm holds it for
    // the handler. The exception is a message that has no answer: ib_cm has given its reference up
    // by then, so the identifier may be freed, by RCU, if it is destroyed at the same time. That is
    // a fault of ib_core, and no caller is safe from it. So the context is read first, and a number
    // that finds nothing makes the rest harmless.
    let (context, event) = unsafe { ((*id).context.addr(), Event::of(id, event)) };
    // Storage over RDMA connects again by way of this workqueue.
    let _noio = NoIo::new();
    H::on_event(context, event);
    0
}

impl Id {
    /// A new identifier; its events come with `context`. May sleep.
    pub(crate) fn new<H: Handler>(device: &Arc<Device>, context: usize) -> Result<Self> {
        let context = core::ptr::without_provenance_mut(context);
        // SAFETY: The device is valid, and `_device` keeps it. The context is a number.
        let id = unsafe { ffi::ib_create_cm_id(device.as_ptr(), Some(event_cb::<H>), context) };
        let id = NonNull::new(kernel::error::from_err_ptr(id)?).ok_or(ENOMEM)?;
        // INVARIANT: just made.
        Ok(Self {
            id,
            _device: device.clone(),
        })
    }

    /// Takes over the identifier of a request.
    ///
    /// # Safety
    ///
    /// The handler of `id`, which is on `device`, runs for the request, and will return 0.
    pub(super) unsafe fn of_request<H: Handler>(
        id: NonNull<ffi::ib_cm_id>,
        device: &Arc<Device>,
        context: usize,
    ) -> Self {
        // SAFETY: The identifier is new, by the caller's promise: ib_cm calls its handler for
        // nothing else before this one returns.
        unsafe {
            (*id.as_ptr()).context = core::ptr::without_provenance_mut(context);
            (*id.as_ptr()).cm_handler = Some(event_cb::<H>);
        }
        // INVARIANT: it is the consumer's, as the handler returns 0.
        Self {
            id,
            _device: device.clone(),
        }
    }

    pub(in crate::rdma) fn as_ptr(&self) -> *mut ffi::ib_cm_id {
        self.id.as_ptr()
    }

    /// Sends a request (REQ) for a connection of the queue pair with the number `qp`, along `path`.
    pub(crate) fn request(
        &self,
        qp: u32,
        path: &Path<'_>,
        parameters: &RequestParameters<'_>,
    ) -> Result {
        let mut raw = ffi::ib_cm_req_param {
            primary_path: path.record(),
            ppath_sgid_attr: path.source(),
            service_id: parameters.service.to_be(),
            qp_num: qp,
            qp_type: ffi::ib_qp_type_IB_QPT_RC,
            starting_psn: parameters.starting_psn,
            private_data: parameters.data.as_ptr().cast(),
            private_data_len: u8::try_from(parameters.data.len()).map_err(|_| EMSGSIZE)?,
            responder_resources: parameters.reads.answered,
            initiator_depth: parameters.reads.begun,
            remote_cm_response_timeout: RESPONSE_TIMEOUT,
            local_cm_response_timeout: RESPONSE_TIMEOUT,
            flow_control: 0,
            retry_count: parameters.retries,
            rnr_retry_count: parameters.rnr_retries,
            max_cm_retries: parameters.tries,
            ..pin_init::zeroed()
        };
        // SAFETY: The identifier is valid by the invariant, the parameters are read during the
        // call, and so is the path, which is one of the same host.
        to_result(unsafe { ffi::ib_send_cm_req(self.id.as_ptr(), &mut raw) })
    }

    /// Accepts a request with the queue pair of the number `qp` (REP).
    pub(crate) fn reply(&self, qp: u32, parameters: &ReplyParameters<'_>) -> Result {
        let mut raw = ffi::ib_cm_rep_param {
            qp_num: qp,
            starting_psn: parameters.starting_psn,
            private_data: parameters.data.as_ptr().cast(),
            private_data_len: u8::try_from(parameters.data.len()).map_err(|_| EMSGSIZE)?,
            responder_resources: parameters.reads.answered,
            initiator_depth: parameters.reads.begun,
            rnr_retry_count: parameters.rnr_retries,
            ..pin_init::zeroed()
        };
        // SAFETY: The identifier is valid by the invariant, the parameters are read during the
        // call.
        to_result(unsafe { ffi::ib_send_cm_rep(self.id.as_ptr(), &mut raw) })
    }

    /// Confirms a reply (RTU).
    pub(crate) fn confirm(&self) -> Result {
        to_result(self.send_rtu())
    }

    /// Refuses a request or a reply for a reason of the consumer's (REJ).
    pub(crate) fn reject(&self) -> Result {
        to_result(self.send_rej(ffi::ib_cm_rej_reason_IB_CM_REJ_CONSUMER_DEFINED))
    }

    /// Forgets a request as if it had not come: the next repetition is a new one. The reason is one
    /// of the connecting side, so the peer's ib_cm takes the message for one of a connection that
    /// it does not have. There is no way without a message.
    pub(crate) fn forget(&self) -> Result {
        to_result(self.send_rej(ffi::ib_cm_rej_reason_IB_CM_REJ_TIMEOUT))
    }

    /// Ends the connection (DREQ). ib_cm repeats it until it is answered, but where it has no memory
    /// for the message, it takes the connection for ended and never sends one. So it may use the
    /// last memory.
    pub(crate) fn disconnect(&self) -> Result {
        let _reserves = Reserves::new();
        to_result(self.send_dreq())
    }

    /// Asks the peer of a request for patience, if it repeats the request (MRA).
    pub(crate) fn ask_for_patience(&self) -> Result {
        to_result(self.prepare_mra())
    }

    /// Tells ib_cm that a message has come, so the peer has the reply, although no RTU has come.
    pub(crate) fn notify_established(&self) -> Result {
        to_result(self.notify(ffi::ib_event_type_IB_EVENT_COMM_EST))
    }
}

// SAFETY: The identifier is valid by the invariant. Each function takes its lock, and gives EINVAL
// in a state in which the message cannot be sent. No private data is given.
calls! { unsafe {
    impl Id, |me| me.id.as_ptr();
    fn send_rtu() -> c_int = ib_send_cm_rtu(data: core::ptr::null(), len: 0);
    fn send_rej(reason: ffi::ib_cm_rej_reason) -> c_int = ib_send_cm_rej(
        reason: reason, more: core::ptr::null_mut(), more_len: 0, data: core::ptr::null(), len: 0
    );
    fn send_dreq() -> c_int = ib_send_cm_dreq(data: core::ptr::null(), len: 0);
    fn prepare_mra() -> c_int = ib_prepare_cm_mra;
    fn notify(event: ffi::ib_event_type) -> c_int = ib_cm_notify;
}}

impl Drop for Id {
    fn drop(&mut self) {
        // SAFETY: Valid by the invariant, and never used again.
        unsafe { ffi::ib_destroy_cm_id(self.id.as_ptr()) };
    }
}
