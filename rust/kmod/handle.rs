// SPDX-License-Identifier: GPL-2.0

//! A counted reference to a socket, for the parts of a connection that only hold one, and the
//! number of a connection attempt with it.
//!
//! A socket contains these parts, so they stand below it. `object` says what a reference leads to.
//!
//! Contexts: any, except that the last reference is dropped outside of locks.

use crate::net::sk::{
    Sk,
    SkRef, //
};

/// A counted reference to a socket. Dropping the last one frees it, which may
/// sleep: drop outside of locks.
#[derive(Clone)]
pub(crate) struct SockRef(SkRef);

impl SockRef {
    /// The `struct sock` that the socket begins with.
    pub(crate) fn as_sk(&self) -> &Sk {
        &self.0
    }

    /// The same reference, as the libraries know it.
    pub(crate) fn into_sk(self) -> SkRef {
        self.0
    }
}

impl From<SkRef> for SockRef {
    fn from(sk: SkRef) -> Self {
        Self(sk)
    }
}

/// The connection attempt to which a callback belongs.
///
/// Callbacks of a retired link still arrive, so each carries the generation of its
/// link.
pub(crate) struct Origin {
    pub(crate) sock: SockRef,
    pub(crate) generation: u64,
}
