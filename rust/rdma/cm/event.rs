// SPDX-License-Identifier: GPL-2.0

//! The events of a connection.
//!
//! C header: [`include/rdma/ib_cm.h`](srctree/include/rdma/ib_cm.h)

use super::reads::PeerReads;
use crate::ffi;
use core::marker::PhantomData;

/// Bytes of private data that a reply has; ib_cm pads them.
const REPLY_DATA: usize = ffi::ib_cm_data_size_IB_CM_REP_PRIVATE_DATA_SIZE as usize;

/// An event of a connection. Borrowed from ib_cm while its handler runs.
pub(crate) enum Event<'a> {
    /// REP: the peer has accepted.
    Reply {
        data: &'a [u8; REPLY_DATA],
        reads: PeerReads,
    },
    /// RTU, or the consumer knows that the peer has accepted.
    Established,
    /// REJ.
    Rejected(Reason),
    /// No answer to the request, or to the reply, has come.
    Unanswered,
    /// DREQ. It is answered when this is dropped.
    DisconnectRequested(DisconnectRequest<'a>),
    /// The answer to a DREQ has come, or none will, or the identifier's time has passed.
    Disconnected,
    /// Of no interest: the peer needs more time, or an alternative path.
    Other,
}

/// Why a peer has rejected.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reason {
    /// It has a connection with the same queue pair already.
    StaleConnection,
    /// Its consumer has not answered in time.
    Timeout,
    Other,
}

impl Reason {
    fn of(reason: ffi::ib_cm_rej_reason) -> Self {
        match reason {
            ffi::ib_cm_rej_reason_IB_CM_REJ_STALE_CONN => Self::StaleConnection,
            ffi::ib_cm_rej_reason_IB_CM_REJ_TIMEOUT => Self::Timeout,
            _ => Self::Other,
        }
    }
}

/// A DREQ that has not been answered.
///
/// # Invariants
///
/// `id` is valid for `'a`: its handler runs for the event, and destroying it waits for that.
pub(crate) struct DisconnectRequest<'a> {
    id: *mut ffi::ib_cm_id,
    _handler: PhantomData<&'a ()>,
}

impl Drop for DisconnectRequest<'_> {
    fn drop(&mut self) {
        // An error means that ib_cm is past it.
        // SAFETY: Valid by the invariant.
        unsafe { ffi::ib_send_cm_drep(self.id, core::ptr::null(), 0) };
    }
}

impl Event<'_> {
    /// The event of a handler.
    ///
    /// # Safety
    ///
    /// ib_cm has called a handler with `id` and `event`, and the result is dropped before the
    /// handler returns.
    pub(super) unsafe fn of(id: *mut ffi::ib_cm_id, event: *const ffi::ib_cm_event) -> Self {
        // SAFETY: The event is valid, by the caller's promise.
        let kind = unsafe { (*event).event };
        match kind {
            ffi::ib_cm_event_type_IB_CM_REP_RECEIVED => {
                // SAFETY: The event is a reply. It comes with all of the private data, to
                // which no code writes before the handler returns. ib_cm reports the Reads from
                // our side: we answer the ones that the peer begins.
                unsafe {
                    let reply = &raw const (*event).param.rep_rcvd;
                    Self::Reply {
                        data: &*(*event).private_data.cast(),
                        reads: PeerReads {
                            begins: (*reply).responder_resources,
                            answers: (*reply).initiator_depth,
                        },
                    }
                }
            }
            ffi::ib_cm_event_type_IB_CM_RTU_RECEIVED
            | ffi::ib_cm_event_type_IB_CM_USER_ESTABLISHED => Self::Established,
            ffi::ib_cm_event_type_IB_CM_REJ_RECEIVED => {
                // SAFETY: The event is a rejection.
                Self::Rejected(Reason::of(unsafe { (*event).param.rej_rcvd.reason }))
            }
            ffi::ib_cm_event_type_IB_CM_REQ_ERROR | ffi::ib_cm_event_type_IB_CM_REP_ERROR => {
                Self::Unanswered
            }
            ffi::ib_cm_event_type_IB_CM_DREQ_RECEIVED => {
                // INVARIANT: for a message that has come, destroying waits for the handler.
                Self::DisconnectRequested(DisconnectRequest {
                    id,
                    _handler: PhantomData,
                })
            }
            ffi::ib_cm_event_type_IB_CM_DREP_RECEIVED
            | ffi::ib_cm_event_type_IB_CM_DREQ_ERROR
            | ffi::ib_cm_event_type_IB_CM_TIMEWAIT_EXIT => Self::Disconnected,
            _ => Self::Other,
        }
    }

    /// Whether it is the last one that the peer can cause.
    pub(crate) fn is_last(&self) -> bool {
        matches!(
            self,
            Self::DisconnectRequested(_) | Self::Disconnected | Self::Rejected(_)
        )
    }
}
