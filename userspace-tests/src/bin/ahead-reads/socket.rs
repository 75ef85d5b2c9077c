// SPDX-License-Identifier: MIT
//! Calls on the socket while bytes are still coming.

use libc::{c_int, pollfd};

use crate::memory::{Memory, LEN};
use crate::{Ahead, Way};

pub const WAYS: &[Way] = &[
    // The bytes behind come after them.
    Way::new("recv", |ahead| {
        // The runner sends one more byte.
        let mut byte = 0u8;
        // SAFETY: room for one byte.
        let n = unsafe { libc::recv(ahead.sock, (&raw mut byte).cast(), 1, 0) };
        assert_eq!(n, 1, "{}", std::io::Error::last_os_error());
        assert_eq!(byte, Memory::drawn(LEN), "the next one");
        ahead.memory.has_come(0..ahead.len);
    }),
    Way::new("recv_without_waiting", |ahead| {
        assert_eq!(readable(ahead), 0, "poll");
        assert_eq!(peeked(ahead, libc::MSG_DONTWAIT), Err(libc::EAGAIN));
        assert_eq!(queued(ahead), 0, "SIOCINQ");
        ahead.memory.has_come(0..ahead.len);
        assert_eq!(peeked(ahead, 0), Ok(Memory::drawn(LEN)), "the next one");
        assert_ne!(readable(ahead), 0, "poll");
    }),
    Way::new("send", |ahead| {
        // SAFETY: three bytes.
        let n = unsafe { libc::send(ahead.sock, c"abc".as_ptr().cast(), 3, 0) };
        assert_eq!(n, 3);
        ahead.memory.has_come(0..ahead.len);
    }),
    // Until the connection has broken.
    Way::new("load_late", |ahead| {
        while crate::is_coming(ahead.sock) {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        crate::say("broken");
        ahead.memory.has_come(0..ahead.len);
    }),
    Way::new("shutdown", |ahead| {
        // SAFETY: it takes numbers.
        assert_eq!(unsafe { libc::shutdown(ahead.sock, libc::SHUT_RDWR) }, 0);
        ahead.memory.has_come(0..ahead.len);
    }),
];

fn readable(ahead: &Ahead) -> c_int {
    let mut poll = pollfd { fd: ahead.sock, events: libc::POLLIN, revents: 0 };
    // SAFETY: one element.
    let n = unsafe { libc::poll(&raw mut poll, 1, 0) };
    assert!(n >= 0, "poll");
    n
}

fn queued(ahead: &Ahead) -> c_int {
    let mut n: c_int = -1;
    // SAFETY: room for the number.
    assert_eq!(unsafe { libc::ioctl(ahead.sock, libc::FIONREAD, &raw mut n) }, 0);
    n
}

fn peeked(ahead: &Ahead, flags: c_int) -> Result<u8, c_int> {
    let mut byte = 0u8;
    let flags = flags | libc::MSG_PEEK;
    // SAFETY: room for one byte.
    match unsafe { libc::recv(ahead.sock, (&raw mut byte).cast(), 1, flags) } {
        1 => Ok(byte),
        n => {
            assert_eq!(n, -1, "an end");
            Err(std::io::Error::last_os_error().raw_os_error().unwrap_or(0))
        }
    }
}
