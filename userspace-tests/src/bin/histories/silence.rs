// SPDX-License-Identifier: MIT
//! Room beside a silent peer.
//!
//! Each message of the peer wakes all waiters of a socket, so one that waits for room seldom depends on its own
//! wake-up. It does while its peer neither reads nor sends.

use std::sync::atomic::Ordering;

use crate::board::OVER;
use crate::sys;
use crate::talk::{set, Talk};

/// Bytes of a small send buffer.
const NARROW: i32 = 4096;
/// In simulated time. The sending device needs nobody to make room.
const LIMIT_MS: i32 = 20_000;

impl Talk<'_> {
    /// Called before the piece with this number, and behind the last one: behind an unread piece there has to be
    /// room again.
    pub fn find_room(&self, number: usize) {
        let unread = &self.end.unread;
        if self.end.narrow && number == unread.start {
            if let Err(error) = set(self.fd, libc::SOL_SOCKET, libc::SO_SNDBUF, &NARROW) {
                self.state.fault(&format!("SO_SNDBUF: {error}"));
            }
        }
        if !(unread.start < number && number <= unread.end) {
            return;
        }
        loop {
            match sys::poll(self.fd, libc::POLLOUT, LIMIT_MS) {
                Ok(0) => self.state.fault("no room beside a silent peer"),
                Ok(_) => self.moved(&"a wait for room beside a silent peer"),
                Err(crate::errno::Errno(libc::EINTR)) => continue,
                Err(error) => self.state.fault(&format!("poll: {error}")),
            }
            break;
        }
        if number == unread.end {
            self.state.has_room.store(true, Ordering::SeqCst);
        }
    }

    /// Called before each call that receives; `begins`: all bytes before the unread pieces are read.
    pub fn be_silent(&self, begins: bool) {
        let goes_on = || {
            self.peer.has_room.load(Ordering::SeqCst)
                || self.peer.shut.load(Ordering::SeqCst)
                || self.peer.phase.load(Ordering::SeqCst) == OVER
        };
        while begins && !goes_on() {
            sys::sleep_us(2000);
        }
    }
}
