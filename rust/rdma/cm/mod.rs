// SPDX-License-Identifier: GPL-2.0

//! The InfiniBand connection manager (ib_cm).
//!
//! C header: [`include/rdma/ib_cm.h`](srctree/include/rdma/ib_cm.h)
//!
//! A [`Listener`] is told of each request for its service id as an [`Arrived`], which becomes an
//! identifier ([`Id`]) or is refused. The other side makes an [`Id`] and sends a request. From
//! then on both are told of [`Event`]s.
//!
//! An identifier has a number as its context, not a pointer, and events come with that number:
//! if a message was never answered, ib_cm drops its reference to the identifier before it
//! tells of that (`cm_process_send_error`). So destroying the identifier does not wait for that
//! event, and the target of a pointer might have been freed.
//!
//! Contexts: events and requests come in workqueues of ib_cm, and their handlers may sleep.
//! Destroying an identifier waits for its handler, except the one above; so it is not done by
//! the handler, nor with a lock that the handler takes.

mod event;
mod id;
mod listen;
mod reads;

pub(crate) use event::{
    Event,
    Reason, //
};
pub(crate) use id::{
    Handler,
    Id,
    ReplyParameters,
    RequestParameters, //
};
pub(crate) use listen::{
    Arrived,
    Listener,
    OnRequest,
    Refusal, //
};
pub(crate) use reads::{
    PeerReads,
    ReadDepths, //
};
