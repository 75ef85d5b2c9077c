// SPDX-License-Identifier: GPL-2.0

//! The socket family: the beginning of a socket.
//!
//! Contexts: process context, may sleep, no lock held.

use crate::{
    addr,
    ffi,
    net::{
        family::{
            Creation,
            Family,
            Registration,
            Table, //
        },
        namespace::Namespace, //
    },
    object::{
        Sock,
        SockRef, //
    },
    prelude::*,
    sock::Calls, //
};
use kernel::sync::aref::ARef;

static FAMILY: Table<Calls> = Table::new(ffi::AF_INET_SDP as c_int, this_module());

/// From here on socket(27, ...) works.
pub(crate) fn register() -> Result<Registration> {
    FAMILY.register()
}

impl Family for Calls {
    fn create(
        net: &Namespace,
        socket: &mut Creation<'_>,
        protocol: c_int,
        kern: bool,
    ) -> Result<ARef<Sock>> {
        if protocol < 0 || protocol >= ffi::IPPROTO_MAX as c_int {
            return Err(EINVAL);
        }
        if socket.kind() != ffi::core::sock_type_SOCK_STREAM {
            return Err(ESOCKTNOSUPPORT);
        }
        if protocol != 0 && protocol != ffi::IPPROTO_TCP as c_int {
            return Err(EPROTONOSUPPORT);
        }
        if kern {
            // In-kernel users take every stream socket for a `tcp_sock` and
            // would write beyond ours.
            return Err(EAFNOSUPPORT);
        }
        Sock::create(net, Some(socket), None, addr::Family::V4).map(SockRef::into_aref)
    }
}
