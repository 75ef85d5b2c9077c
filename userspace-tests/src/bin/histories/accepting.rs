// SPDX-License-Identifier: MIT
//! The server's side of a connection until it is accepted.

use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::Ordering;

use crate::board::OVER;
use crate::end::{set_nonblocking, Task};
use crate::errno::{checked_int, checked_unit, Errno, Res};
use crate::sys;
use crate::talk::{set, Talk};

/// How long a server waits before it looks whether its client is still there, in simulated time.
const ACCEPT_MS: i32 = 700;
/// A client that has been there for so long is late.
const LATE_US: u64 = 300_000;

impl Task<'_> {
    fn listener(&self, talk: &Talk) -> Res<OwnedFd> {
        let socket = self.socket(talk)?;
        let (fd, name) = (socket.as_raw_fd(), self.server_name());
        set(fd, libc::SOL_SOCKET, libc::SO_REUSEADDR, &1_i32)?;
        if self.conversation.listeners > 1 {
            set(fd, libc::SOL_SOCKET, libc::SO_REUSEPORT, &1_i32)?;
        }
        // SAFETY: the name lives through the call.
        checked_unit(unsafe { libc::bind(fd, name.as_ptr(), name.len() as libc::socklen_t) })?;
        // SAFETY: takes integers only.
        checked_unit(unsafe { libc::listen(fd, 1 + self.number as i32) })?;
        Ok(socket)
    }

    pub fn accept(&self, talk: &Talk) -> Option<OwnedFd> {
        let listeners: Res<Vec<_>> =
            (0..self.conversation.listeners).map(|_| self.listener(talk)).collect();
        let listeners = listeners
            .inspect_err(|&error| talk.failed("listen", error, &self.state.connect_error))
            .ok()?;
        self.state.listening.store(true, Ordering::SeqCst);
        Self::refuse(talk);
        loop {
            // A client that is over before the last look will not come any more.
            let over = self.peer.phase.load(Ordering::SeqCst) == OVER;
            match self.next(&listeners, talk.end.eager) {
                Ok(Some(socket)) => return Some(socket),
                Ok(None) if over => {
                    if self.conversation.certain {
                        self.state.fault("nothing to accept");
                    }
                    return None;
                }
                Ok(None) | Err(Errno(libc::EINTR)) => {}
                Err(Errno(libc::ENOMEM | libc::ENOBUFS | libc::ECONNABORTED | libc::ENFILE))
                    if !self.conversation.certain =>
                {
                    sys::sleep_us(1000);
                    if over {
                        return None;
                    }
                }
                Err(error) => {
                    talk.failed("accept", error, &self.state.connect_error);
                    return None;
                }
            }
        }
    }

    /// The listener that has a connection; `None` if none has one for a while.
    fn await_client(&self, listeners: &[OwnedFd]) -> Res<Option<RawFd>> {
        let all: Vec<_> = listeners.iter().map(AsRawFd::as_raw_fd).collect();
        if let Some(fd) = sys::poll_all(&all, ACCEPT_MS)? {
            return Ok(Some(fd));
        }
        let late = sys::poll_all(&all, 0)?;
        let connected_us = self.peer.connected_us.load(Ordering::SeqCst);
        // It may have come just now.
        let waited_us = sys::now_us() - connected_us;
        if late.is_some() && connected_us != 0 && waited_us > LATE_US {
            self.state.fault("a client has come, and poll() of its listener was not woken");
        }
        Ok(late)
    }

    /// The next connection; `None` if there is none for a while.
    fn next(&self, listeners: &[OwnedFd], eager: bool) -> Res<Option<OwnedFd>> {
        let Some(fd) = self.await_client(listeners)? else { return Ok(None) };
        if eager {
            set_nonblocking(fd, true)?;
        }
        let flags = libc::SOCK_CLOEXEC | if eager { libc::SOCK_NONBLOCK } else { 0 };
        // SAFETY: the kernel writes no name.
        let taken = unsafe { libc::accept4(fd, std::ptr::null_mut(), std::ptr::null_mut(), flags) };
        match sys::owned(taken) {
            Err(Errno(libc::EAGAIN)) => Ok(None),
            Err(error) => Err(error),
            Ok(socket) => {
                if is_nonblocking(socket.as_raw_fd())? != eager {
                    self.state.fault("accept4() does not give the flags that it was given");
                }
                set_nonblocking(socket.as_raw_fd(), false)?;
                Ok(Some(socket))
            }
        }
    }
}

fn is_nonblocking(fd: RawFd) -> Res<bool> {
    // SAFETY: takes integers only.
    checked_int(unsafe { libc::fcntl(fd, libc::F_GETFL, 0) })
        .map(|flags| flags & libc::O_NONBLOCK != 0)
}
