// SPDX-License-Identifier: MIT
//! Waiting for events: poll, ppoll, select and epoll, with their events shown by name.

use std::os::fd::RawFd;
use std::ptr;

use libc::{c_int, c_short};

use crate::errno::{checked_int, checked_unit, Res};
use crate::sock::Sock;

/// A set of poll events, shown as names joined by `|`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Events(pub c_int);

const NAMES: &[(c_int, &str)] = &[
    (libc::POLLIN as c_int, "IN"),
    (libc::POLLPRI as c_int, "PRI"),
    (libc::POLLOUT as c_int, "OUT"),
    (libc::POLLERR as c_int, "ERR"),
    (libc::POLLHUP as c_int, "HUP"),
    (libc::POLLNVAL as c_int, "NVAL"),
    (libc::POLLRDNORM as c_int, "RDNORM"),
    (libc::POLLRDBAND as c_int, "RDBAND"),
    (libc::POLLWRNORM as c_int, "WRNORM"),
    (libc::POLLWRBAND as c_int, "WRBAND"),
    (libc::POLLRDHUP as c_int, "RDHUP"),
];

impl std::fmt::Display for Events {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut rest = self.0;
        let mut names = Vec::new();
        for (bit, name) in NAMES {
            if rest & bit != 0 {
                names.push((*name).to_string());
                rest &= !bit;
            }
        }
        if rest != 0 {
            names.push(format!("{rest:#x}"));
        }
        f.write_str(if names.is_empty() { "none" } else { "" })?;
        f.write_str(&names.join("|"))
    }
}

impl std::fmt::Debug for Events {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

impl Sock {
    /// One descriptor through `poll`; no event within the limit gives the empty set.
    pub fn poll(&self, events: c_short, millis: c_int) -> Res<Events> {
        poll_many(&[(self.fd(), events)], millis).map(|returned| returned[0])
    }
}

pub fn poll_many(wanted: &[(RawFd, c_short)], millis: c_int) -> Res<Vec<Events>> {
    let mut fds = pollfds(wanted);
    // SAFETY: the array lives through the call and its length is passed.
    checked_int(unsafe { libc::poll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, millis) })?;
    Ok(returned(&fds))
}

/// `ppoll` without a limit and with `mask` as the signal mask during the wait.
pub fn ppoll(wanted: &[(RawFd, c_short)], mask: &libc::sigset_t) -> Res<Vec<Events>> {
    let mut fds = pollfds(wanted);
    // SAFETY: as in `poll_many`.
    checked_int(unsafe {
        libc::ppoll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, ptr::null(), mask)
    })?;
    Ok(returned(&fds))
}

fn pollfds(wanted: &[(RawFd, c_short)]) -> Vec<libc::pollfd> {
    wanted.iter().map(|&(fd, events)| libc::pollfd { fd, events, revents: 0 }).collect()
}

fn returned(fds: &[libc::pollfd]) -> Vec<Events> {
    fds.iter().map(|fd| Events(c_int::from(fd.revents))).collect()
}

/// The three answers of `select` for one descriptor: readable, writable, exceptional.
pub fn select(fd: RawFd, millis: i64) -> Res<(bool, bool, bool)> {
    // SAFETY: all zeroes is an empty set.
    let mut sets: [libc::fd_set; 3] = unsafe { std::mem::zeroed() };
    for set in &mut sets {
        // SAFETY: a case opens far fewer descriptors than FD_SETSIZE.
        unsafe { libc::FD_SET(fd, set) };
    }
    let mut limit = libc::timeval { tv_sec: millis / 1000, tv_usec: millis % 1000 * 1000 };
    let [read, write, except] = &mut sets;
    // SAFETY: the sets and the limit live through the call.
    checked_int(unsafe { libc::select(fd + 1, read, write, except, &raw mut limit) })?;
    // SAFETY: see FD_SET above.
    let has = |set: &libc::fd_set| unsafe { libc::FD_ISSET(fd, set) };
    Ok((has(&sets[0]), has(&sets[1]), has(&sets[2])))
}

/// One epoll instance; `watch` uses the descriptor as the key.
pub struct Epoll(Sock);

impl Epoll {
    pub fn new() -> Res<Self> {
        // SAFETY: takes an integer only.
        checked_int(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })
            .map(|fd| Epoll(Sock::from_fd(fd)))
    }

    pub fn fd(&self) -> RawFd {
        self.0.fd()
    }

    fn control(&self, operation: c_int, fd: RawFd, events: c_int) -> Res<()> {
        let mut event = libc::epoll_event { events: events as u32, u64: fd as u64 };
        // SAFETY: the event lives through the call.
        checked_unit(unsafe { libc::epoll_ctl(self.fd(), operation, fd, &raw mut event) })
    }

    pub fn watch(&self, sock: &Sock, events: c_int) -> Res<()> {
        self.control(libc::EPOLL_CTL_ADD, sock.fd(), events)
    }

    pub fn rewatch(&self, sock: &Sock, events: c_int) -> Res<()> {
        self.control(libc::EPOLL_CTL_MOD, sock.fd(), events)
    }

    pub fn forget(&self, sock: &Sock) -> Res<()> {
        self.control(libc::EPOLL_CTL_DEL, sock.fd(), 0)
    }

    /// The events that came up within the limit, in the kernel's order.
    pub fn wait(&self, millis: c_int) -> Res<Vec<(RawFd, Events)>> {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; 64];
        // SAFETY: the array lives through the call and its length is passed.
        let count = checked_int(unsafe {
            libc::epoll_wait(self.fd(), events.as_mut_ptr(), events.len() as c_int, millis)
        })?;
        Ok(events[..count as usize]
            .iter()
            .map(|event| (event.u64 as RawFd, Events(event.events as c_int)))
            .collect())
    }

    /// The events of the only watched descriptor; none within the limit gives the empty set.
    pub fn wait_one(&self, millis: c_int) -> Res<Events> {
        Ok(self.wait(millis)?.first().map_or(Events(0), |&(_, events)| events))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_shown_by_name_and_unknown_bits_by_number() {
        assert_eq!(Events(0).to_string(), "none");
        let both = libc::POLLIN as c_int | libc::POLLRDHUP as c_int;
        assert_eq!(Events(both).to_string(), "IN|RDHUP");
        assert_eq!(Events(0x4000_0000).to_string(), "0x40000000");
    }
}
