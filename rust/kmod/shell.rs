// SPDX-License-Identifier: GPL-2.0

//! What the Internet families made before an `IPPROTO_SDP` socket of ours took its place.
//!
//! Contexts: any that may sleep. No locks.

use crate::ffi;
use core::ptr::NonNull;

/// The `struct sock` that the Internet families made first.
///
/// # Invariants
///
/// It is valid, and this is its one reference.
pub(crate) struct Shell(NonNull<ffi::sock>);

// SAFETY: The only operation on it is its release, which any thread may do.
unsafe impl Send for Shell {}

impl Shell {
    /// # Safety
    ///
    /// `shell` is valid, and the caller gives up its one reference.
    pub(crate) unsafe fn new(shell: NonNull<ffi::sock>) -> Self {
        // INVARIANT: By the caller's promise.
        Self(shell)
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        // SAFETY: It is valid, and its one reference ours, by the invariant.
        unsafe { ffi::sdp_shell_free(self.0.as_ptr()) };
    }
}
