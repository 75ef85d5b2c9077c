// SPDX-License-Identifier: MIT

//! A line of text on the stack: what this library says is put together without
//! allocating, because socket calls may be made in a signal handler or in a
//! child of vfork().

use core::fmt::{self, Write};

/// Room for the longest message and a line's end.
const ROOM: usize = 400;

/// A line; what does not fit is cut off.
pub(crate) struct Line {
    bytes: [u8; ROOM],
    used: usize,
}

impl Line {
    pub(crate) const fn new() -> Self {
        Self {
            bytes: [0; ROOM],
            used: 0,
        }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.used).unwrap_or_default()
    }

    /// Ends the line, in the place of its last byte if need be.
    pub(crate) fn end(&mut self) {
        let last = ROOM.saturating_sub(1);
        self.used = self.used.min(last);
        let _ = self.write_str("\n");
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

/// An errno in words. strerror() may allocate, so it is not asked.
pub(crate) struct Errno(pub(crate) i32);

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self.0 {
            libc::EAFNOSUPPORT => "this kernel has no SDP",
            libc::EPERM | libc::EACCES => "no permission for SDP sockets",
            libc::EMFILE | libc::ENFILE => "no file descriptor left",
            libc::ENOBUFS | libc::ENOMEM => "no memory for SDP",
            libc::ENOPROTOOPT => "the kernel's SDP module is too old",
            libc::ENOENT | libc::ENODEV => "no RDMA device has the address",
            libc::EADDRNOTAVAIL => "the address is not SDP's",
            libc::EADDRINUSE => "the port is taken in SDP",
            libc::ECONNREFUSED => "nobody listens with SDP there",
            libc::ENETUNREACH => "no RDMA device leads there",
            libc::EHOSTUNREACH => "the host's address does not resolve over RDMA",
            libc::ETIMEDOUT => "the host does not answer over SDP",
            errno => return write!(f, "errno {errno}"),
        };
        f.write_str(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_too_long_is_cut_off_and_still_ends() {
        let mut line = Line::new();
        for _ in 0..100 {
            assert!(line.write_str("0123456789").is_ok());
        }
        assert_eq!(line.bytes().len(), ROOM);
        line.end();
        assert!(line.bytes().ends_with(b"8\n"));
    }

    #[test]
    fn reasons_have_words_and_the_rest_a_number() {
        assert_eq!(
            Errno(libc::ECONNREFUSED).to_string(),
            "nobody listens with SDP there"
        );
        assert_eq!(Errno(libc::EXDEV).to_string(), "errno 18");
    }
}
