// SPDX-License-Identifier: MIT

//! Descriptors that system calls answer with.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

/// The new descriptor that is the answer of a system call, or what errno says.
///
/// # Safety
///
/// The call has just been made, and answers with a descriptor that is the caller's.
pub(crate) unsafe fn given(answer: libc::c_long) -> io::Result<OwnedFd> {
    match i32::try_from(answer) {
        // SAFETY: By the caller's promise.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(io::Error::last_os_error()),
    }
}
