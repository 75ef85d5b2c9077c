// SPDX-License-Identifier: GPL-2.0

//! Network namespaces as they come and go: the state of each, its knobs and its files.
//!
//! Contexts: may sleep. No locks.

use crate::{
    ffi,
    netns::{
        peers,
        slot,
        NetState,
        ID, //
    },
    prelude::*,
    proc, //
};
use core::{
    cell::UnsafeCell,
    ptr::NonNull, //
};
use kernel::error::to_result;

/// # Safety
///
/// Called from C, with the arguments that the slot it stands in promises.
unsafe extern "C" fn init_cb(net: *mut ffi::core::net) -> c_int {
    let net: *mut ffi::net = net.cast();
    kernel::error::from_result(|| {
        let net = NonNull::new(net).ok_or(EINVAL)?;
        let state = KBox::pin_init(NetState::new(net), GFP_KERNEL)?;
        // SAFETY: `knobs` stays in place inside the pinned box until exit, and so does the place
        // of the header.
        to_result(unsafe {
            ffi::sdp_sysctl_register(
                net.as_ptr(),
                state.knobs.get(),
                Some(peers::check_cb),
                state.sysctl.get(),
            )
        })?;
        // SAFETY: No other code knows the state yet. The slot is ours; filled before the files can
        // be opened.
        unsafe {
            *slot(net.as_ptr()) = KBox::into_raw(Pin::into_inner_unchecked(state));
        }
        // SAFETY: `net` is alive, the callbacks have the signature asked for.
        let created = to_result(unsafe {
            ffi::sdp_proc_create(
                net.as_ptr(),
                Some(proc::socket_after_cb),
                Some(proc::socket_cb),
                Some(proc::stats_cb),
                Some(proc::peers_cb),
            )
        });
        if let Err(e) = created {
            // SAFETY: Undoes the lines above, in reverse.
            unsafe { release(net.as_ptr()) };
            return Err(e);
        }
        Ok(0)
    })
}

/// # Safety
///
/// Called from C, with the arguments that the slot it stands in promises.
unsafe extern "C" fn exit_cb(net: *mut ffi::core::net) {
    let net: *mut ffi::net = net.cast();
    // SAFETY: `init_cb` succeeded for this namespace, and its last socket is
    // gone, because sockets hold their namespace.
    unsafe {
        ffi::sdp_proc_remove(net);
        release(net);
    }
}

/// # Safety
///
/// The slot of `net` is filled and no code uses the state any more.
unsafe fn release(net: *mut ffi::net) {
    // SAFETY: The slot has what `init_cb` allocated, and no code uses it, by the caller's
    // promise. Sysctl writes to the knobs no more when the table is gone.
    unsafe {
        let state = KBox::from_raw(*slot(net));
        ffi::sdp_sysctl_unregister(*state.sysctl.get());
        drop(state);
    }
}

struct Operations(UnsafeCell<ffi::pernet_operations>);
// SAFETY: Handed to C, which serialises its use.
unsafe impl Sync for Operations {}
static OPERATIONS: Operations = Operations(UnsafeCell::new(ffi::pernet_operations {
    init: Some(init_cb),
    exit: Some(exit_cb),
    id: ID.0.get(),
    size: core::mem::size_of::<*mut NetState>(),
    ..pin_init::zeroed()
}));

/// The registration of the per-namespace state.
pub(crate) struct Registration(());

impl Registration {
    pub(crate) fn new() -> Result<Self> {
        // SAFETY: The operations are static.
        to_result(unsafe { ffi::register_pernet_subsys(OPERATIONS.0.get()) })?;
        Ok(Self(()))
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        // SAFETY: Registered by `new`.
        unsafe { ffi::unregister_pernet_subsys(OPERATIONS.0.get()) };
    }
}
