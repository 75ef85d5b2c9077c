// SPDX-License-Identifier: GPL-2.0

//! A CM identifier of a connection, and its ticket.

use crate::{
    cm::ticket::Ticket,
    rdma::cm::Id, //
};
use core::ops::Deref;

/// A CM identifier of ours. Dropping it waits for a running handler, except a handler for an
/// unanswered message.
///
/// Field order is destruction order: events may come as long as there is an identifier.
pub(crate) struct CmId {
    id: Id,
    ticket: Ticket,
}

impl CmId {
    /// `ticket` is the context of `id`.
    pub(crate) fn new(id: Id, ticket: Ticket) -> Self {
        Self { id, ticket }
    }

    /// Whether the peer needs no further message.
    pub(crate) fn is_parted(&self) -> bool {
        self.ticket.is_parted()
    }
}

impl Deref for CmId {
    type Target = Id;

    fn deref(&self) -> &Id {
        &self.id
    }
}
