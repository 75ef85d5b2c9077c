// SPDX-License-Identifier: GPL-2.0

//! The protocol of our sockets: from where the core allocates them, and what it asks of any of
//! them.
//!
//! Contexts: process context, may sleep.

use crate::{
    ffi,
    net::proto::{
        Protocol,
        Table, //
    },
    object::{
        Body,
        Sock, //
    },
    prelude::*, //
};
use kernel::error::to_result;

static PROTO: Table<Body> = Table::new(b"SDP", this_module());

/// The registration of the protocol.
pub(crate) type Registration = crate::net::proto::Registration<Body>;

impl Protocol for Body {
    const FAMILY: c_int = ffi::AF_INET_SDP as c_int;

    fn table() -> &'static Table<Self> {
        &PROTO
    }

    fn ioctl(sock: &Sock, command: u32) -> Result<c_int> {
        if sock.tcp_after_connect().is_none() {
            return sock.ioctl(command);
        }
        let mut result = 0;
        // SAFETY: A socket that passes its calls to its companion.
        to_result(unsafe { ffi::sdp_companion_ioctl(sock.sk(), command as c_int, &mut result) })?;
        Ok(result)
    }

    fn keepalive_switched(sock: &Sock) {
        sock.keepalive_switched();
    }

    fn room_set(sock: &Sock) {
        // A writer that waits for a peer which does not read may copy its rest now.
        sock.settled().wake();
    }

    fn end(sock: &Sock) {
        sock.net().delist(sock);
        sock.forget_stored();
    }
}
