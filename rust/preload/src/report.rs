// SPDX-License-Identifier: MIT

//! The line per socket that `sdp_run -d` shows: what was asked, what it became.
//!
//! It is put together on the stack and written to stderr in one call, because
//! `socket()` may run in a signal handler or in a child of vfork().

use crate::rule::TcpFamily;
use core::fmt::{self, Write};
use core::sync::atomic::{AtomicBool, Ordering};
use libc::c_int;

static ENABLED: AtomicBool = AtomicBool::new(false);

/// Turns reports on when the environment asks for them (`SDP_DEBUG`, non-empty).
pub(crate) fn enable_from_environment() {
    // SAFETY: the name is a C string; the value is only looked at before any
    // other code of the program can change the environment.
    let asked = unsafe {
        let value = libc::getenv(c"SDP_DEBUG".as_ptr());
        !value.is_null() && *value != 0
    };
    ENABLED.store(asked, Ordering::Relaxed);
}

/// What came of a `socket()` call that asked for TCP.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Outcome {
    /// An SDP socket.
    Sdp(c_int),
    /// The kernel refused an SDP socket with this errno.
    Refused(c_int),
    /// The kernel had no SDP a moment ago and was not asked again.
    Absent,
}

/// Reports one socket, if reports are wanted.
pub(crate) fn socket(family: TcpFamily, outcome: Outcome) {
    if !ENABLED.load(Ordering::Relaxed) {
        return;
    }
    let mut line = Line::new();
    // Writing to a `Line` cannot fail: what does not fit is cut off.
    let _ = write!(line, "libsdp: {} stream socket: ", family.name());
    let _ = match outcome {
        Outcome::Sdp(fd) => writeln!(line, "SDP (fd {fd})"),
        Outcome::Absent => writeln!(line, "TCP (this kernel has no SDP)"),
        Outcome::Refused(errno) => match explanation(errno) {
            Some(text) => writeln!(line, "TCP ({text})"),
            None => writeln!(line, "TCP (SDP refused, errno {errno})"),
        },
    };
    line.send();
}

/// The likely reasons, in words. strerror() may allocate, so it is not asked.
const fn explanation(errno: c_int) -> Option<&'static str> {
    Some(match errno {
        libc::EAFNOSUPPORT => "this kernel has no SDP",
        libc::EPERM | libc::EACCES => "no permission for SDP sockets",
        libc::EMFILE | libc::ENFILE => "no file descriptor left",
        libc::ENOBUFS | libc::ENOMEM => "no memory for an SDP socket",
        libc::ENOPROTOOPT => "the module cannot make IPv6 sockets",
        _ => return None,
    })
}

/// One line of text on the stack.
struct Line {
    bytes: [u8; 128],
    used: usize,
}

impl Line {
    const fn new() -> Self {
        Self {
            bytes: [0; 128],
            used: 0,
        }
    }

    fn send(&self) {
        let text = self.bytes.get(..self.used).unwrap_or_default();
        // SAFETY: `text` is valid for reads of its length. What write() returns
        // is of no use: there is no one left to tell.
        let _ = unsafe { libc::write(libc::STDERR_FILENO, text.as_ptr().cast(), text.len()) };
    }
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = self.bytes.iter_mut().skip(self.used);
        let copied = room
            .zip(text.bytes())
            .map(|(place, byte)| *place = byte)
            .count();
        self.used = self.used.saturating_add(copied);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_too_long_is_cut_off() {
        let mut line = Line::new();
        for _ in 0..100 {
            assert!(line.write_str("0123456789").is_ok());
        }
        assert_eq!(line.used, line.bytes.len());
        assert!(line.bytes.ends_with(b"01234567"));
    }
}
