// SPDX-License-Identifier: GPL-2.0

//! The socket family: `net_proto_family`, and the beginning and the end of a socket.
//!
//! Contexts: process context, may sleep, no lock held.

use crate::{
    addr::Family,
    ffi,
    object::Sock,
    prelude::*,
    sock::operations, //
};
use core::cell::UnsafeCell;
use kernel::error::{
    from_result,
    to_result, //
};

struct FamilyOps(UnsafeCell<ffi::core::net_proto_family>);
// SAFETY: Handed to C, which only reads it.
unsafe impl Sync for FamilyOps {}

static FAMILY: FamilyOps = FamilyOps(UnsafeCell::new(ffi::core::net_proto_family {
    family: ffi::AF_INET_SDP as c_int,
    create: Some(create_cb),
    owner: this_module(),
}));

/// The registration of the family: from here on socket(27, ...) works.
pub(crate) struct Registration(());

impl Registration {
    pub(crate) fn new() -> Result<Self> {
        // SAFETY: The struct is static.
        to_result(unsafe { ffi::core::sock_register(FAMILY.0.get()) })?;
        Ok(Self(()))
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        // SAFETY: Registered by `new`.
        unsafe { ffi::core::sock_unregister(ffi::AF_INET_SDP as c_int) };
    }
}

/// # Safety
///
/// Called from C, with the arguments that the slot it stands in promises.
unsafe extern "C" fn create_cb(
    net: *mut ffi::core::net,
    socket: *mut ffi::core::socket,
    protocol: c_int,
    kern: c_int,
) -> c_int {
    from_result(|| {
        if protocol < 0 || protocol >= ffi::IPPROTO_MAX as c_int {
            return Err(EINVAL);
        }
        // SAFETY: The caller owns the fresh socket.
        let kind = unsafe { (*socket).type_ } as u32;
        if kind != ffi::core::sock_type_SOCK_STREAM {
            return Err(ESOCKTNOSUPPORT);
        }
        if protocol != 0 && protocol != ffi::IPPROTO_TCP as c_int {
            return Err(EPROTONOSUPPORT);
        }
        if kern != 0 {
            // In-kernel users take every stream socket for a `tcp_sock` and
            // would write beyond ours.
            return Err(EAFNOSUPPORT);
        }
        // SAFETY: The namespace is the caller's, and nobody else uses the socket yet. The
        // reference is given up to it, which `release_cb` ends.
        unsafe {
            let sock = Sock::create(net.cast(), socket, Family::V4)?;
            let _ = sock.into_owned();
            operations::adopt(socket);
        }
        Ok(0)
    })
}

/// # Safety
///
/// Called from C, with the arguments that the slot it stands in promises.
pub(super) unsafe extern "C" fn release_cb(socket: *mut ffi::core::socket) -> c_int {
    // SAFETY: The caller passes the socket for the last time.
    unsafe {
        let sk: *mut ffi::sock = (*socket).sk.cast();
        if sk.is_null() {
            return 0;
        }
        let sock = crate::object::SockRef::from_owned(core::ptr::NonNull::new_unchecked(sk.cast()));
        let companion = {
            // A worker may be about to fall back to it.
            let _call = sock.lock();
            ffi::sdp_companion_detach(sk)
        };
        sock.release();
        (*socket).sk = core::ptr::null_mut();
        if !companion.is_null() {
            ffi::sdp_companion_free(companion);
        }
    }
    0
}
