// SPDX-License-Identifier: MIT
//! The channel between the two roles of a case: one role names a point, and the other expects it.
//!
//! It replaces every sleep. An unexpected message, or the end of the peer, ends the case at once,
//! so that the roles do not wait for each other.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

pub struct Control(OwnedFd);

/// Two ends of a local channel that preserves message boundaries.
pub fn channel() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut fds = [0; 2];
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
    // SAFETY: the kernel writes two descriptors into the array; both are fresh and owned here.
    unsafe {
        if libc::socketpair(libc::AF_UNIX, kind, 0, fds.as_mut_ptr()) != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok((OwnedFd::from_raw_fd(fds[0]), OwnedFd::from_raw_fd(fds[1])))
    }
}

/// Sends one message; false if the other end is closed.
pub fn put(fd: RawFd, text: &str) -> bool {
    loop {
        // SAFETY: the buffer lives through the call.
        let sent = unsafe { libc::send(fd, text.as_ptr().cast(), text.len(), libc::MSG_NOSIGNAL) };
        if sent >= 0 {
            return true;
        }
        if io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
            return false;
        }
    }
}

/// Receives one message; `None` if the other end is closed.
pub fn take(fd: &OwnedFd) -> Option<String> {
    let mut room = vec![0_u8; 65536];
    loop {
        // SAFETY: the buffer lives through the call.
        let taken = unsafe { libc::recv(fd.as_raw_fd(), room.as_mut_ptr().cast(), room.len(), 0) };
        if taken > 0 {
            room.truncate(taken as usize);
            return Some(String::from_utf8_lossy(&room).into_owned());
        }
        if taken == 0 || io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
            return None;
        }
    }
}

impl Control {
    pub fn new(fd: OwnedFd) -> Self {
        Control(fd)
    }

    pub fn fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    pub fn say(&self, point: &str, value: &str) {
        put(self.fd(), &format!("{point}\n{value}"));
    }

    /// The value sent with `point`.
    #[track_caller]
    pub fn expect(&self, point: &str) -> String {
        let Some(message) = take(&self.0) else {
            panic!("the peer ended while \"{point}\" was expected");
        };
        let (said, value) = message.split_once('\n').unwrap_or((&message, ""));
        assert!(said == point, "the peer said \"{said}\" where \"{point}\" was expected");
        value.to_string()
    }
}
