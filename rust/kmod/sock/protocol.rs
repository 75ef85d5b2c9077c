// SPDX-License-Identifier: GPL-2.0

//! `IPPROTO_SDP` under AF_INET and AF_INET6.
//!
//! The result is a socket of family 27 (`ffi/protocol.c` shows how) that may fall back
//! to TCP: the program that chose the protocol cannot know whether its peers have SDP.
//!
//! Contexts: process context, may sleep, no lock held.

use crate::{
    addr::Family,
    ffi,
    net::{
        family::Creation,
        namespace::Namespace,
        proto_ops::Operations, //
    },
    object::{
        Sock,
        SockRef, //
    },
    prelude::*,
    shell::Shell,
    sock::Calls, //
};
use core::ptr::NonNull;
use kernel::error::{
    from_result,
    to_result, //
};

/// The registration of what shells are made of.
pub(crate) struct Shells(());

impl Shells {
    pub(crate) fn new() -> Result<Self> {
        // SAFETY: Called once, before the protocol is registered.
        to_result(unsafe { ffi::sdp_shells_register() })?;
        Ok(Self(()))
    }
}

impl Drop for Shells {
    fn drop(&mut self) {
        // SAFETY: Registered by `new`, and no socket is left: each holds the module, and while
        // that is loaded nothing fails once sockets can be made.
        unsafe { ffi::sdp_shells_unregister() };
    }
}

/// The registration: from here on socket(AF_INET, SOCK_STREAM, 257) works.
pub(crate) struct Registration(());

impl Registration {
    pub(crate) fn new() -> Result<Self> {
        // SAFETY: The operations are static, the callbacks stay with the
        // module; shells can be made.
        to_result(unsafe {
            ffi::sdp_protocol_register(
                Calls::table().as_ptr().cast(),
                Some(make_cb),
                Some(unmake_cb),
            )
        })?;
        Ok(Self(()))
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        // SAFETY: Registered by `new`. No more sockets can be made when this returns.
        unsafe { ffi::sdp_protocol_unregister() };
    }
}

/// # Safety
///
/// Called from C: `socket` is being created, `shell` is its `struct sock` so far.
unsafe extern "C" fn make_cb(
    socket: *mut ffi::socket,
    shell: *mut ffi::sock,
    family: c_int,
) -> c_int {
    from_result(|| {
        let family = if family == ffi::AF_INET6 as c_int {
            Family::V6
        } else {
            Family::V4
        };
        let shell = NonNull::new(shell).ok_or(EINVAL)?;
        // SAFETY: The shell, which is `socket`'s so far, holds its namespace, and no other code
        // uses `socket` yet, by the caller's promise.
        let sock = unsafe {
            let net = Namespace::of_sock(shell.as_ptr());
            Sock::create(
                net,
                Some(&mut Creation::from_raw(socket.cast())),
                None,
                family,
            )
        }?;
        let v6only = sock.v6only_of_new(family);
        sock.look(|inner| inner.options.v6only = v6only);
        let open = {
            let _call = sock.lock();
            sock.set_transport(ffi::SDP_TRANSPORT_BOTH as i32)
        };
        if let Err(e) = open {
            sock.lock().orphan();
            return Err(e);
        }
        // SAFETY: The shell's reference goes over to the socket.
        let shell = unsafe { Shell::new(shell) };
        sock.look(|inner| inner.shell = Some(shell));
        let _ = sock.into_owned();
        // SAFETY: `socket` is being created, by the caller's promise.
        unsafe { Calls::table().adopt(socket.cast()) };
        Ok(0)
    })
}

/// # Safety
///
/// Called from C, with a socket that `make_cb` has made and no other code has seen.
unsafe extern "C" fn unmake_cb(sk: *mut ffi::sock) {
    // SAFETY: The socket is whole, and no code uses it, by the caller's promise; this is the
    // reference of the file that will not be.
    unsafe {
        let sock = SockRef::from_owned(NonNull::new_unchecked(sk.cast()));
        let companion = sock.detach_companion();
        // The caller is about to release it.
        core::mem::forget(sock.look(|inner| inner.shell.take()));
        sock.release();
        drop(companion);
    }
}
