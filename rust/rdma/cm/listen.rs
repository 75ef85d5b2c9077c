// SPDX-License-Identifier: GPL-2.0

//! Service ids that are listened on, and the requests that come for them.
//!
//! C header: [`include/rdma/ib_cm.h`](srctree/include/rdma/ib_cm.h)

use super::{
    id::{
        Handler,
        Id, //
    },
    reads::PeerReads, //
};
use crate::{
    ffi,
    net::namespace::Held,
    prelude::*,
    rdma::{
        device::{
            Device,
            DeviceId, //
        },
        noio::NoIo,
        route::SockAddr,
    }, //
};
use core::{
    cell::Cell,
    ptr::NonNull, //
};
use kernel::sync::Arc;

/// Bytes of private data that a request has; ib_cm pads them.
const REQUEST_DATA: usize = ffi::ib_cm_data_size_IB_CM_REQ_PRIVATE_DATA_SIZE as usize;

/// The ways not to accept a request.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// REJ, by the consumer.
    Refuse,
    /// Nothing: the peer's ib_cm tries again.
    Drop,
}

/// Code that is told of requests.
pub(crate) trait OnRequest {
    /// A request has come. May sleep. `Ok` counts for nothing unless the request was
    /// accepted ([`Arrived::accept`]); then everything else does.
    fn on_request(request: &Arrived<'_>) -> Result<(), Refusal>;
}

/// A service id that is listened on, on one device. Dropping it waits for its handlers.
///
/// # Invariants
///
/// `id` is valid, and this alone destroys it.
pub(crate) struct Listener {
    id: NonNull<ffi::ib_cm_id>,
    /// The device of `id`.
    _device: Arc<Device>,
}

// SAFETY: CM identifiers may be used from any thread.
unsafe impl Send for Listener {}

impl Listener {
    /// Listens for requests for `service`, which go to `R`. May sleep.
    pub(crate) fn new<R: OnRequest>(device: &Arc<Device>, service: u64) -> Result<Self> {
        // SAFETY: The device is valid, and `_device` keeps it.
        let id = unsafe {
            ffi::ib_cm_insert_listen(device.as_ptr(), Some(request_cb::<R>), service.to_be())
        };
        let id = NonNull::new(kernel::error::from_err_ptr(id)?).ok_or(ENOMEM)?;
        // INVARIANT: just made.
        Ok(Self {
            id,
            _device: device.clone(),
        })
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // SAFETY: Valid by the invariant, and never used again.
        unsafe { ffi::ib_destroy_cm_id(self.id.as_ptr()) };
    }
}

/// A request that has come and was not answered.
///
/// # Invariants
///
/// ib_cm has called the handler of a listening identifier, which runs for `'a`, with `id`, an
/// identifier made for this request, and with `event`, which is a request.
pub(crate) struct Arrived<'a> {
    id: NonNull<ffi::ib_cm_id>,
    event: &'a ffi::ib_cm_event,
    /// The identifier has become the consumer's.
    accepted: Cell<bool>,
}

impl Arrived<'_> {
    fn parameters(&self) -> &ffi::ib_cm_req_event_param {
        // SAFETY: The event is a request by the invariant.
        unsafe { &self.event.param.req_rcvd }
    }

    /// The device where it came in.
    pub(crate) fn device(&self) -> DeviceId {
        // SAFETY: Valid by the invariant. ib_cm has set the word before it called the handler.
        DeviceId::of(unsafe { (*self.id.as_ptr()).device })
    }

    /// The service id that it is for.
    pub(crate) fn service(&self) -> u64 {
        // SAFETY: As in `device`.
        u64::from_be(unsafe { (*self.id.as_ptr()).service_id })
    }

    pub(crate) fn data(&self) -> &[u8; REQUEST_DATA] {
        // SAFETY: A request comes with all of the private data, and no code writes to it before
        // the handler returns, by the invariant.
        unsafe { &*self.event.private_data.cast() }
    }

    pub(crate) fn reads(&self) -> PeerReads {
        PeerReads {
            begins: self.parameters().responder_resources,
            answers: self.parameters().initiator_depth,
        }
    }

    /// The number of the peer's queue pair.
    pub(crate) fn queue_pair(&self) -> u32 {
        self.parameters().remote_qpn
    }

    /// The GID that the peer has as the end of its path to us: its own.
    pub(crate) fn peer_gid(&self) -> [u8; 16] {
        // SAFETY: A request has a path, and each view of a GID is plain bytes.
        unsafe { (*self.parameters().primary_path).dgid.raw }
    }

    /// Whether it came by RoCE, where a GID is an address.
    pub(crate) fn is_roce(&self) -> bool {
        // SAFETY: Identifier and event are valid and belong together, by the invariant.
        unsafe { ffi::rust_cm_req_is_roce(self.id.as_ptr(), self.event) }
    }

    /// The namespace where it came in, and the index of the interface. None where the device
    /// has no interface with the address `local`, or is not one of that namespace.
    pub(crate) fn namespace(&self, local: &SockAddr) -> Option<(Held, c_int)> {
        let mut interface = 0;
        // SAFETY: As in `is_roce`; the address is only read. The result has a reference.
        unsafe {
            let net =
                ffi::rust_cm_req_net(self.id.as_ptr(), self.event, local.as_ptr(), &mut interface);
            Some((Held::from_owned(NonNull::new(net)?), interface))
        }
    }

    /// Makes the identifier the consumer's, to reply with or to drop. Its events go to
    /// `H` with `context`. EINVAL if `device` is another one, or if it was accepted.
    pub(crate) fn accept<H: Handler>(&self, device: &Arc<Device>, context: usize) -> Result<Id> {
        if device.id() != self.device() || self.accepted.replace(true) {
            return Err(EINVAL);
        }
        // SAFETY: The handler runs, by the invariant, and returns 0 as `accepted` says.
        Ok(unsafe { Id::of_request::<H>(self.id, device, context) })
    }
}

/// # Safety
///
/// Called by ib_cm with an identifier that it has made for `event`.
unsafe extern "C" fn request_cb<R: OnRequest>(
    id: *mut ffi::ib_cm_id,
    event: *const ffi::ib_cm_event,
) -> c_int {
    let Some(id) = NonNull::new(id) else {
        return -(ffi::EINVAL as c_int);
    };
    // SAFETY: The event is valid for the call, by the caller's promise.
    let event = unsafe { &*event };
    if event.event != ffi::ib_cm_event_type_IB_CM_REQ_RECEIVED {
        // The peer requests a datagram service: ib_cm rejects it and destroys the identifier.
        return -(ffi::EINVAL as c_int);
    }
    // INVARIANT: by the caller's promise, and as seen just above.
    let request = Arrived {
        id,
        event,
        accepted: Cell::new(false),
    };
    // Storage over RDMA connects again by way of this workqueue.
    let _noio = NoIo::new();
    let outcome = R::on_request(&request);
    if request.accepted.get() {
        return 0;
    }
    match outcome {
        Err(Refusal::Drop) => -(ffi::ENOMEM as c_int),
        // ib_cm rejects with "consumer defined" for every error but the one above.
        Ok(()) | Err(Refusal::Refuse) => -(ffi::ECONNREFUSED as c_int),
    }
}
