// SPDX-License-Identifier: MIT

//! Descriptors that system calls return.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

/// The new descriptor that a system call returned, or the error of errno.
///
/// # Safety
///
/// The call has just been made, and returns a descriptor that the caller owns.
pub(crate) unsafe fn given(answer: libc::c_long) -> io::Result<OwnedFd> {
    match i32::try_from(answer) {
        // SAFETY: The caller promises that the call returned a descriptor of its own.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(io::Error::last_os_error()),
    }
}
