// SPDX-License-Identifier: MIT
//! An end of one thread, whose socket does not block.

use std::fmt::Debug;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::AtomicI32;

use crate::errno::{checked_int, checked_unit, Errno, Res};
use crate::plan::{Get, Manner, Take};
use crate::receiving::Receiver;
use crate::sending::Sender;
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

/// What came of one look at a direction.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    /// It has to wait for an event.
    Waits,
    /// Bytes have moved, or the call may be repeated.
    Moves,
    /// The direction has ended.
    Over,
}

/// What is left of the piece that is being written.
#[derive(Default)]
struct Writing {
    /// The number of the next piece.
    next: usize,
    left: usize,
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
    let mut piece = Writing::default();
    let (mut writing, mut reading) = (half != Half::Read, half != Half::Write);
    let mut takes = talk.end.takes.iter().cycle();
    let mut vain = 0;
    while writing || reading {
        let mut busy = false;
        if writing {
            let step = write(talk, &mut sender, &mut piece);
            busy = step != Step::Waits;
            writing = step != Step::Over;
        }
        if reading {
            let Some(take) = takes.next() else { break };
            let step = read(talk, &mut receiver, *take);
            busy |= step != Step::Waits;
            reading = step != Step::Over;
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

/// Writes some of the piece, or begins the next one.
fn write(talk: &Talk, sender: &mut Sender<'_>, piece: &mut Writing) -> Step {
    if piece.left == 0 {
        talk.find_room(piece.next);
        let Some(next) = talk.end.sends.get(piece.next) else {
            talk.finish_writing();
            return Step::Over;
        };
        talk.ask(piece.next);
        sys::sleep_us(u64::from(next.pause_us));
        piece.left = next.len;
        piece.next += 1;
    }
    let send = &talk.end.sends[piece.next - 1];
    match sender.step(send.way, piece.left) {
        Ok(count) => {
            talk.moved(send);
            piece.left -= count.min(piece.left);
            Step::Moves
        }
        Err(error) => refused(talk, error, &send.way, &talk.state.send_error),
    }
}

/// Reads once.
fn read(talk: &Talk, receiver: &mut Receiver<'_>, mut take: Take) -> Step {
    if talk.is_time_to_end(receiver.offset()) {
        return Step::Over;
    }
    if take.way == Get::DontWait {
        take.way = Get::Recv;
    }
    let result = talk.take(receiver, &take);
    if result.is_ok() {
        talk.moved(&take);
    }
    match result {
        Ok(0) => {
            talk.ended(receiver.offset());
            Step::Over
        }
        Ok(_) => Step::Moves,
        Err(error) => refused(talk, error, &take.way, &talk.state.receive_error),
    }
}

/// A call of this way has failed.
fn refused(talk: &Talk, error: Errno, way: &impl Debug, place: &AtomicI32) -> Step {
    if error == Errno(libc::EAGAIN) {
        return Step::Waits;
    }
    if is_passing(talk, error) {
        return Step::Moves;
    }
    talk.failed(&format!("{way:?} without waiting"), error, place);
    Step::Over
}

/// Whether the call may be repeated at once.
fn is_passing(talk: &Talk, error: Errno) -> bool {
    let refused = matches!(error.0, libc::ENOMEM | libc::ENOBUFS) && !talk.certain;
    if refused {
        sys::sleep_us(1000);
    }
    refused && talk.end.refused || error == Errno(libc::EINTR)
}
