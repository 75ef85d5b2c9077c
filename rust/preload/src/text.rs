// SPDX-License-Identifier: MIT

//! A line of text on the stack. The library builds its messages without allocating, because socket
//! calls may be made in a signal handler or in a child of vfork().

use core::fmt::{self, Write};

/// Room for the longest name of a program, the longest message and a line's end.
const ROOM: usize = 700;

/// A line; text that does not fit is cut off.
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

    /// Ends the line; if it is full, the end replaces its last byte.
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

/// The end of a path, with dots for the rest, so that the text after it fits into the line.
pub(crate) struct Tail<'a>(pub(crate) &'a str);

impl fmt::Display for Tail<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const LONGEST: usize = ROOM / 4;

        if self.0.len() <= LONGEST {
            return f.write_str(self.0);
        }
        let first = self.0.len().saturating_sub(LONGEST);
        let end = (first..self.0.len()).find_map(|first| self.0.get(first..));
        write!(f, "...{}", end.unwrap_or_default())
    }
}

/// The description of an errno. strerror() is not used, because it may allocate.
pub(crate) struct Errno(pub(crate) i32);

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self.0 {
            libc::EAFNOSUPPORT => "this kernel has no SDP",
            libc::EPERM | libc::EACCES => "no permission for SDP sockets",
            libc::EMFILE | libc::ENFILE => "no file descriptor left",
            libc::ENOBUFS | libc::ENOMEM => "no memory for SDP",
            libc::ENOPROTOOPT => "the kernel's SDP module is too old",
            // The kernel's reason for a socket that an option has made a TCP socket.
            libc::EOPNOTSUPP => "the program has set an option that SDP has not",
            libc::ENOENT | libc::ENODEV => "no RDMA device has the address",
            // From connect(). bind() returns it only for an address that TCP alone may have.
            libc::EADDRNOTAVAIL => "SDP has no port left, or the address is not this host's",
            libc::EADDRINUSE => "the port is taken in SDP",
            libc::ECONNREFUSED => "no listener with SDP there",
            libc::ENETUNREACH => "no RDMA device leads there",
            libc::EHOSTUNREACH => "the host's address does not resolve over RDMA",
            libc::ETIMEDOUT => "the host does not answer over SDP",
            libc::ENETDOWN => "the network of the RDMA device is down",
            libc::ECONNRESET => "the SDP connection was reset before it was made",
            libc::EPROTO => "the host does not speak SDP as it should",
            libc::EIO => "the RDMA device failed",
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
    fn of_a_path_too_long_the_end_is_left() {
        assert_eq!(Tail("/etc/libsdp.conf").to_string(), "/etc/libsdp.conf");
        for filler in ["a", "\u{e4}", "\u{20ac}", "\u{1f600}"] {
            let path = format!("/{}/libsdp.conf", filler.repeat(400));
            let shown = Tail(&path).to_string();
            assert!(shown.starts_with("...") && shown.ends_with("/libsdp.conf"));
            assert!((ROOM / 4 - 3..=ROOM / 4 + 3).contains(&shown.len()));
        }
    }

    #[test]
    fn every_reason_for_which_a_connect_becomes_tcps_has_words() {
        // The errors listed in docs/socket-behaviour.md.
        for errno in [
            libc::ECONNREFUSED,
            libc::ECONNRESET,
            libc::ETIMEDOUT,
            libc::EHOSTUNREACH,
            libc::ENETUNREACH,
            libc::ENETDOWN,
            libc::ENODEV,
            libc::ENOMEM,
            libc::ENOBUFS,
            libc::EPROTO,
            libc::EIO,
            libc::EADDRNOTAVAIL,
        ] {
            assert!(!Errno(errno).to_string().starts_with("errno"), "{errno}");
        }
        assert!(Errno(libc::EADDRNOTAVAIL).to_string().contains("no port"));
    }

    #[test]
    fn reasons_have_words_and_the_rest_a_number() {
        assert_eq!(
            Errno(libc::ECONNREFUSED).to_string(),
            "no listener with SDP there"
        );
        assert_eq!(Errno(libc::EXDEV).to_string(), "errno 18");
    }
}
