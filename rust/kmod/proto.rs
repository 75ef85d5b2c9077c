// SPDX-License-Identifier: GPL-2.0

//! `struct proto`: from where the core allocates sockets, and what it asks of any of
//! them.
//!
//! The callbacks only convert and call a method of [`Sock`]. Contexts: process
//! context, may sleep. `keepalive` comes with `lock_sock` held.

use crate::{
    ffi,
    object::Sock,
    prelude::*, //
};
use core::cell::UnsafeCell;
use kernel::error::{
    from_result,
    to_result, //
};

struct Proto(UnsafeCell<ffi::proto>);
// SAFETY: Handed to C, which writes to it when it is registered and unregistered, and
// otherwise with locks of its own; Rust never looks at it.
unsafe impl Sync for Proto {}

const fn name(text: &[u8]) -> [c_char; 32] {
    let mut name = [0 as c_char; 32];
    let mut i = 0;
    while i < text.len() && i < 31 {
        name[i] = text[i] as c_char;
        i += 1;
    }
    name
}

static PROTO: Proto = Proto(UnsafeCell::new(ffi::proto {
    name: name(b"SDP"),
    owner: this_module().cast(),
    obj_size: core::mem::size_of::<Sock>() as c_uint,
    keepalive: Some(keepalive_cb),
    ioctl: Some(ioctl_cb),
    ..pin_init::zeroed()
}));

pub(crate) fn proto() -> *mut ffi::proto {
    PROTO.0.get()
}

/// The registration of the protocol: its slab, its line in /proc/net/protocols.
pub(crate) struct Registration(());

impl Registration {
    pub(crate) fn new() -> Result<Self> {
        // SAFETY: The struct is static, and nobody has it yet.
        unsafe { ffi::sdp_memory_init(proto()) };
        // SAFETY: The struct is static.
        to_result(unsafe { ffi::proto_register(proto(), 1) })?;
        Ok(Self(()))
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        // SAFETY: Registered by `new`, and no socket is left: each holds the
        // module, and while that is loaded nothing fails once sockets can be made.
        unsafe {
            ffi::proto_unregister(proto());
            ffi::sdp_memory_exit();
        }
    }
}

/// # Safety
///
/// Called from C, with the arguments that the slot it stands in promises.
unsafe extern "C" fn ioctl_cb(sk: *mut ffi::sock, command: c_int, result: *mut c_int) -> c_int {
    from_result(|| {
        // SAFETY: A live socket of ours and a place for the answer.
        unsafe {
            let sock = Sock::from_sk(sk);
            if sock.tcp_after_connect().is_some() {
                return Ok(ffi::sdp_companion_ioctl(sk, command, result));
            }
            *result = sock.ioctl(command as u32)?;
        }
        Ok(0)
    })
}

/// # Safety
///
/// Called from C, with the arguments that the slot it stands in promises.
unsafe extern "C" fn keepalive_cb(sk: *mut ffi::sock, _on: c_int) {
    // SAFETY: Called by `sock_setsockopt` for a socket of ours.
    unsafe { Sock::from_sk(sk) }.keepalive_switched();
}
