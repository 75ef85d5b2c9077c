// SPDX-License-Identifier: MIT
//! An end of one thread, whose socket does not block.

use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use crate::errno::{checked_int, checked_unit, Errno, Res};
use crate::plan::{Get, Manner};
use crate::sys;
use crate::talk::Talk;

/// Calls in a row that find nothing although an event was reported.
const VAIN: u32 = 2000;

/// Waits for events of the socket.
enum Waiter {
    Poll(RawFd),
    Epoll { epoll: OwnedFd, fd: RawFd, edge: bool },
}

impl Waiter {
    fn new(fd: RawFd, manner: Manner, half: Half) -> Res<Self> {
        if matches!(manner, Manner::Poll | Manner::Apart) {
            return Ok(Waiter::Poll(fd));
        }
        // SAFETY: takes an integer only.
        let epoll = sys::owned(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
        let edge = manner != Manner::Epoll;
        let waiter = Waiter::Epoll { epoll, fd, edge };
        let (read, write) = (libc::EPOLLIN | libc::EPOLLRDHUP, libc::EPOLLOUT);
        let edges = libc::EPOLLET
            | match half {
                Half::Both => read | write,
                Half::Read => read,
                Half::Write => write,
            };
        waiter.control(libc::EPOLL_CTL_ADD, if edge { edges } else { 0 })?;
        Ok(waiter)
    }

    fn control(&self, operation: i32, events: i32) -> Res<()> {
        let Waiter::Epoll { epoll, fd, .. } = self else { return Ok(()) };
        let mut event = libc::epoll_event { events: events as u32, u64: 0 };
        // SAFETY: the event lives through the call.
        checked_unit(unsafe { libc::epoll_ctl(epoll.as_raw_fd(), operation, *fd, &raw mut event) })
    }

    /// Waits until the socket is readable, or writable if that is wanted. Returns what it is.
    fn wait(&self, write: bool, read: bool) -> Res<i32> {
        let mut events = 0;
        if write {
            events |= libc::POLLOUT;
        }
        if read {
            events |= libc::POLLIN;
        }
        match self {
            Waiter::Poll(fd) => sys::poll(*fd, events, -1).map(i32::from),
            Waiter::Epoll { epoll, edge, .. } => {
                if !edge {
                    // The bits of poll and epoll are the same.
                    self.control(libc::EPOLL_CTL_MOD, i32::from(events))?;
                }
                let mut event = libc::epoll_event { events: 0, u64: 0 };
                // SAFETY: the event lives through the call.
                let waited = unsafe { libc::epoll_wait(epoll.as_raw_fd(), &raw mut event, 1, -1) };
                checked_int(waited).map(|_| event.events as i32)
            }
        }
    }
}

/// The directions that a loop concerns itself with.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Half {
    Both,
    Read,
    Write,
}

/// Writes and reads both streams.
pub fn run(talk: &Talk, manner: Manner) {
    run_half(talk, manner, Half::Both);
}

/// The same with some of them.
pub fn run_half(talk: &Talk, manner: Manner, half: Half) {
    if let Err(error) = converse(talk, manner, half) {
        talk.state.fault(&format!("the event loop: {error}"));
    }
}

fn converse(talk: &Talk, manner: Manner, half: Half) -> Res<()> {
    let waiter = loop {
        match Waiter::new(talk.fd, manner, half) {
            Err(error) if is_passing(talk, error) => {}
            made => break made?,
        }
    };
    let mut sender = talk.sender();
    let mut receiver = talk.receiver();
    let (mut piece, mut left) = (0, 0);
    let (mut writing, mut reading) = (half != Half::Read, half != Half::Write);
    let mut takes = talk.end.takes.iter().cycle();
    let mut vain = 0;
    while writing || reading {
        let mut busy = false;
        if writing {
            if left == 0 {
                talk.find_room(piece);
                if let Some(next) = talk.end.sends.get(piece) {
                    talk.ask(piece);
                    sys::sleep_us(u64::from(next.pause_us));
                    left = next.len;
                    piece += 1;
                } else {
                    talk.finish_writing();
                    writing = false;
                    continue;
                }
            }
            let way = talk.end.sends[piece - 1].way;
            match sender.step(way, left) {
                Ok(count) => {
                    talk.moved(&talk.end.sends[piece - 1]);
                    left -= count.min(left);
                    busy = true;
                }
                Err(Errno(libc::EAGAIN)) => {}
                Err(error) if is_passing(talk, error) => busy = true,
                Err(error) => {
                    talk.failed(&format!("{way:?} without waiting"), error, &talk.state.send_error);
                    writing = false;
                    busy = true;
                }
            }
        }
        if reading {
            if talk.is_time_to_end(receiver.offset()) {
                reading = false;
                continue;
            }
            let Some(take) = takes.next() else { break };
            let mut take = *take;
            if take.way == Get::DontWait {
                take.way = Get::Recv;
            }
            let result = talk.take(&mut receiver, &take);
            if result.is_ok() {
                talk.moved(&take);
            }
            match result {
                Ok(0) => {
                    talk.ended(receiver.offset());
                    reading = false;
                    busy = true;
                }
                Ok(_) => busy = true,
                Err(Errno(libc::EAGAIN)) => {}
                Err(error) if is_passing(talk, error) => busy = true,
                Err(error) => {
                    talk.failed(
                        &format!("{:?} without waiting", take.way),
                        error,
                        &talk.state.receive_error,
                    );
                    reading = false;
                    busy = true;
                }
            }
        }
        vain = if busy { 0 } else { vain + 1 };
        if vain > VAIN {
            talk.state.fault("events are reported, but calls find none");
            break;
        }
        if !busy {
            // Notices are events, too.
            sender.take_notices();
            match waiter.wait(writing, reading) {
                // The other thread takes notices when it looks.
                Ok(libc::EPOLLERR) if half == Half::Read => {
                    sys::sleep_us(1000);
                    vain = 0;
                }
                Ok(_) => {}
                Err(error) if is_passing(talk, error) => {}
                Err(error) => return Err(error),
            }
        }
    }
    if half != Half::Read {
        talk.settle(&mut sender);
        talk.moved(&"the return of lent memory");
    }
    Ok(())
}

/// Whether the call may be repeated at once.
fn is_passing(talk: &Talk, error: Errno) -> bool {
    let refused = matches!(error.0, libc::ENOMEM | libc::ENOBUFS) && !talk.certain;
    if refused {
        sys::sleep_us(1000);
    }
    refused && talk.end.refused || error == Errno(libc::EINTR)
}
