// SPDX-License-Identifier: GPL-2.0

//! `struct sock`: what the core knows of a socket.
//!
//! Contexts: any, unless a method says otherwise. Locks: each method says which one its
//! word needs.

use crate::{
    ffi,
    prelude::*, //
};
use core::ptr::NonNull;
use kernel::{
    error::to_result,
    sync::aref::{
        ARef,
        AlwaysRefCounted, //
    },
    types::Opaque, //
};

/// `struct sock` and the rest of an Internet socket.
///
/// # Invariants
///
/// It is the beginning of a [`Sock`](crate::object::Sock), and lies nowhere else.
#[repr(transparent)]
pub(crate) struct Sk(Opaque<ffi::sdp_inet>);

// SAFETY: It is only used through C calls. Of its words, those that are changed by
// more than a whole store are changed with a lock that all who do so hold: `lock_sock`
// for what system calls change (`sk_flags`, `sk_frag`), or before anybody else knows the
// socket; the endpoint's for `sk_shutdown`, C's own for wait queues and references.
unsafe impl Send for Sk {}
// SAFETY: The reason is that of `Send`: it speaks of any number of threads at a time.
unsafe impl Sync for Sk {}

// SAFETY: `sock_hold` and `sock_put` count references to the allocation.
unsafe impl AlwaysRefCounted for Sk {
    fn inc_ref(&self) {
        // SAFETY: `&self` implies a reference.
        unsafe { ffi::sdp_sock_hold(self.sk()) };
    }

    unsafe fn dec_ref(obj: NonNull<Self>) {
        // SAFETY: The caller gives up one reference.
        unsafe { ffi::sdp_sock_put(obj.as_ref().sk()) };
    }
}

/// A counted reference to a socket. Dropping the last one frees it, which may
/// sleep: drop outside of locks.
pub(crate) struct SkRef(ARef<Sk>);

impl core::ops::Deref for SkRef {
    type Target = Sk;

    fn deref(&self) -> &Sk {
        &self.0
    }
}

impl SkRef {
    /// A reference, unless the last one is already gone.
    ///
    /// # Safety
    ///
    /// The memory of `sk` has not been freed.
    pub(crate) unsafe fn try_get(sk: *const Sk) -> Option<Self> {
        let sk = NonNull::new(sk.cast_mut())?;
        // SAFETY: The counter is there, by the caller's promise. No Rust reference yet: the
        // socket may be on its way out.
        unsafe { ffi::sdp_sock_hold_unless_zero(sk.as_ptr().cast()) }.then(|| {
            // SAFETY: The reference was taken just above.
            Self(unsafe { ARef::from_raw(sk) })
        })
    }

    /// The reference as a pointer, still owned by the caller.
    pub(crate) fn into_owned(self) -> NonNull<Sk> {
        ARef::into_raw(self.0)
    }
}

impl Sk {
    pub(crate) fn sk(&self) -> *mut ffi::sock {
        self.0.get().cast()
    }

    pub(crate) fn err(&self) -> i32 {
        // SAFETY: A single word of a valid socket is read.
        unsafe { ffi::sdp_get_err(self.sk()) }
    }

    pub(crate) fn set_err(&self, errno: Error) {
        // SAFETY: A single word of a valid socket is written.
        unsafe { ffi::sdp_set_err(self.sk(), -errno.to_errno()) }
    }

    /// Takes the pending error: `Err` with it, or `Ok`.
    pub(crate) fn take_err(&self) -> Result {
        // SAFETY: A single word of a valid socket is exchanged.
        to_result(unsafe { ffi::sdp_sock_error(self.sk()) })
    }

    pub(crate) fn shutdown_bits(&self) -> u32 {
        // SAFETY: A single word of a valid socket is read.
        unsafe { ffi::sdp_get_shutdown(self.sk()) as u32 }
    }

    pub(crate) fn add_shutdown(&self, bits: u32) {
        // SAFETY: A single word of a valid socket is changed, with the endpoint's lock, which
        // all callers hold.
        unsafe { ffi::sdp_set_shutdown(self.sk(), bits as c_int) }
    }

    pub(crate) fn tcp_state(&self) -> u32 {
        // SAFETY: A single word of a valid socket is read.
        unsafe { ffi::sdp_get_state(self.sk()) as u32 }
    }

    pub(crate) fn set_tcp_state(&self, state: u32) {
        // SAFETY: A single word of a valid socket is written.
        unsafe { ffi::sdp_set_state(self.sk(), state as c_int) }
    }

    pub(crate) fn flag(&self, flag: u32) -> bool {
        // SAFETY: A single word of a valid socket is read.
        unsafe { ffi::sdp_sock_flag(self.sk(), flag) }
    }

    pub(crate) fn sndbuf(&self) -> u32 {
        // SAFETY: A single word of a valid socket is read.
        u32::try_from(unsafe { ffi::sdp_get_sndbuf(self.sk()) }).unwrap_or(0)
    }

    /// Makes the send buffer larger, unless the program has set its size.
    pub(crate) fn grow_sndbuf(&self, bytes: u32) {
        let bytes = c_int::try_from(bytes).unwrap_or(c_int::MAX);
        // SAFETY: `sk` is valid.
        unsafe { ffi::sdp_grow_sndbuf(self.sk(), bytes) };
    }

    /// Whether the program has set SO_RCVBUF.
    pub(crate) fn has_own_rcvbuf(&self) -> bool {
        // SAFETY: A single word of a valid socket is read.
        unsafe { ffi::sdp_has_own_rcvbuf(self.sk()) }
    }

    pub(crate) fn rcvbuf(&self) -> u32 {
        // SAFETY: A single word of a valid socket is read.
        u32::try_from(unsafe { ffi::sdp_get_rcvbuf(self.sk()) }).unwrap_or(0)
    }

    /// The VRF whose ports it uses, or 0.
    pub(crate) fn vrf(&self) -> i32 {
        // SAFETY: Single words of a valid socket are read.
        unsafe { ffi::sdp_sock_vrf(self.sk()) }
    }
}
