// SPDX-License-Identifier: GPL-2.0

//! A resolution in progress, as an endpoint has it. [`super::resolve`] starts it and hears of it.

use crate::{
    handle::Origin,
    rdma::route, //
};

/// The context of a resolution in progress.
pub(crate) struct Attempt {
    pub(super) origin: Origin,
    pub(super) tries: u32,
    /// The address being resolved is the next hop, not the peer.
    pub(super) through: bool,
}

/// A resolution in progress. Dropping it waits for a running handler, so a caller holds no
/// lock that handlers take.
pub(crate) type Resolver = route::Resolver<Attempt>;
