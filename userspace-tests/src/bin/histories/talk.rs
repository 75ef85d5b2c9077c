// SPDX-License-Identifier: MIT
//! What an end does with its connection: it writes its stream and reads that of its peer.

use std::os::fd::RawFd;
use std::sync::atomic::{AtomicI32, Ordering};

use crate::addr::Addr;
use crate::board::EndState;
use crate::bytes::Stream;
use crate::errno::{checked_unit, Errno, Res};
use crate::plan::{End, Finish, Ground, Manner, Take};
use crate::receiving::Receiver;
use crate::sending::Sender;
use crate::sys;

/// How long notices may take after all is read, in simulated milliseconds.
const NOTICES_MS: u64 = 60_000;
/// The longest call of a writer that polls before.
const POLITE: usize = 8192;
/// Repetitions of a call that was refused memory.
pub const REFUSALS: u32 = 30;

/// Errors of a connection that something may end.
const POSSIBLE: &[i32] = &[
    libc::ECONNRESET,
    libc::EPIPE,
    libc::ETIMEDOUT,
    libc::ENOMEM,
    libc::ENOBUFS,
    // socket() without memory.
    libc::ENFILE,
    libc::EHOSTUNREACH,
    libc::ENETUNREACH,
    libc::ECONNREFUSED,
    libc::ENODEV,
    libc::EADDRNOTAVAIL,
    libc::ENETDOWN,
    libc::EHOSTDOWN,
    libc::ECONNABORTED,
    // The module is not loaded.
    libc::EAFNOSUPPORT,
    libc::EPROTONOSUPPORT,
];

/// An end with its connection.
#[derive(Clone, Copy)]
pub struct Talk<'a> {
    pub fd: RawFd,
    pub end: &'a End,
    pub own: Stream,
    pub theirs: Stream,
    pub state: &'a EndState,
    pub peer: &'a EndState,
    pub certain: bool,
    pub raced: bool,
    pub ground: Ground,
    pub is_client: bool,
    pub server: Addr,
    /// The offset at which this end stops reading until its peer has found room.
    pub silence: Option<u64>,
}

/// What to do after an error.
#[derive(PartialEq, Eq)]
enum After {
    Again,
    Stop,
}

impl<'a> Talk<'a> {
    /// Keeps the error; a fault if it cannot be.
    pub fn failed(&self, call: &str, error: Errno, place: &AtomicI32) {
        let _ = place.compare_exchange(0, error.0, Ordering::SeqCst, Ordering::SeqCst);
        if self.certain || !POSSIBLE.contains(&error.0) {
            self.state.fault(&format!("{call}: {error}"));
        }
    }

    /// Whether calls on the socket wait.
    fn waits(&self) -> bool {
        matches!(self.end.manner, Manner::Threads | Manner::Polite | Manner::Fork | Manner::Passed)
    }

    pub fn sender(&self) -> Sender<'a> {
        Sender::new(self.fd, self.own, self.state, self.end.total(), self.waits())
    }

    pub fn receiver(&self) -> Receiver<'a> {
        Receiver::new(self.fd, self.theirs, self.state, self.peer, self.waits(), self.end.urgent)
    }

    fn after(&self, error: Errno, refusals: &mut u32) -> After {
        match error.0 {
            libc::EINTR => After::Again,
            libc::ENOMEM | libc::ENOBUFS if !self.certain && *refusals < REFUSALS => {
                *refusals += 1;
                sys::sleep_us(1000);
                After::Again
            }
            _ => After::Stop,
        }
    }

    /// Writes all, waiting in each call, and closes the direction.
    pub fn write_all(&self) {
        let mut sender = self.sender();
        let mut refusals = 0;
        for (number, piece) in self.end.sends.iter().enumerate() {
            self.find_room(number);
            self.ask(number);
            sys::sleep_us(u64::from(piece.pause_us));
            let mut left = piece.len;
            while left > 0 {
                let polite = self.end.manner == Manner::Polite;
                let len = if polite { left.min(POLITE) } else { left };
                let polled = if polite { sys::poll(self.fd, libc::POLLOUT, -1) } else { Ok(0) };
                match polled.and_then(|_| sender.step(piece.way, len)) {
                    Ok(count) => {
                        left -= count.min(left);
                        self.moved(piece);
                    }
                    Err(error) if self.after(error, &mut refusals) == After::Again => {}
                    Err(error) => {
                        self.failed(
                            &format!("{:?} of {left}", piece.way),
                            error,
                            &self.state.send_error,
                        );
                        return;
                    }
                }
            }
        }
        self.find_room(self.end.sends.len());
        self.finish_writing();
        self.settle(&mut sender);
        self.moved(&"the return of lent memory");
    }

    pub fn finish_writing(&self) {
        self.state.shut.store(true, Ordering::SeqCst);
        match shutdown(self.fd, libc::SHUT_WR) {
            Ok(()) => self.state.wrote_all.store(true, Ordering::SeqCst),
            Err(Errno(libc::ENOTCONN)) if !self.certain => {}
            Err(error) => self.failed("shutdown", error, &self.state.send_error),
        }
    }

    /// All memory that was lent must come back, whatever has happened. TCP keeps it for as long as it
    /// sends to a peer that is gone.
    pub fn settle(&self, sender: &mut Sender) {
        if !sender.settle(NOTICES_MS) && !self.is_over_tcp() {
            let lent = sender.lent();
            self.state.fault(&format!("memory that was lent has not come back: {lent}"));
        }
    }

    /// Reads until the stream ends, waiting in each call.
    pub fn read_all(&self) {
        let mut receiver = self.receiver();
        let mut refusals = 0;
        for take in self.end.takes.iter().cycle() {
            if self.is_time_to_end(receiver.offset()) {
                return;
            }
            sys::sleep_us(u64::from(take.pause_us));
            let result = self.take(&mut receiver, take);
            if result.is_ok() {
                self.moved(take);
            }
            match result {
                Ok(0) => {
                    self.ended(receiver.offset());
                    return;
                }
                Ok(_) => {}
                Err(error) if self.after(error, &mut refusals) == After::Again => {}
                Err(error) => {
                    self.failed(&format!("{:?}", take.way), error, &self.state.receive_error);
                    return;
                }
            }
        }
    }

    /// A call that receives, with no more room than is left before an early end.
    pub fn take(&self, receiver: &mut Receiver, take: &Take) -> Res<usize> {
        let mut take = *take;
        if let Some(after) = self.early() {
            take.len = take.len.min((after - receiver.offset()) as usize);
        }
        if let Some(silence) = self.silence {
            self.be_silent(receiver.offset() == silence);
            let rest = silence.saturating_sub(receiver.offset()) as usize;
            if rest > 0 {
                take.len = take.len.min(rest);
            }
        }
        receiver.step(&take)
    }

    fn early(&self) -> Option<u64> {
        match self.end.finish {
            Finish::Orderly => None,
            Finish::Exit(after) | Finish::Reset(after) | Finish::ShutBoth(after) => Some(after),
        }
    }

    /// Ends the end, if it has received as many bytes as planned. Returns true if it must not read on.
    pub fn is_time_to_end(&self, offset: u64) -> bool {
        if self.early().is_none_or(|after| offset < after) {
            return false;
        }
        match self.end.finish {
            Finish::Orderly => false,
            Finish::Exit(_) => sys::exit(0),
            Finish::Reset(_) => {
                let linger = libc::linger { l_onoff: 1, l_linger: 0 };
                let _ = set(self.fd, libc::SOL_SOCKET, libc::SO_LINGER, &linger);
                sys::exit(0)
            }
            Finish::ShutBoth(_) => {
                self.state.shut.store(true, Ordering::SeqCst);
                match shutdown(self.fd, libc::SHUT_RDWR) {
                    Ok(()) | Err(Errno(libc::ENOTCONN)) => {}
                    Err(error) => self.failed("shutdown of both", error, &self.state.send_error),
                }
                true
            }
        }
    }

    /// The stream of the peer has ended: nothing that it has sent may be missing. The judge looks at
    /// conversations that something may end, because only then it is known whether this end got an error.
    pub fn ended(&self, offset: u64) {
        self.state.read_all.store(true, Ordering::SeqCst);
        if self.certain && !self.peer.shut.load(Ordering::SeqCst) {
            self.state.fault(&format!("the stream ended at {offset}, before the peer closed it"));
        }
    }
}

fn shutdown(fd: RawFd, how: i32) -> Res<()> {
    // SAFETY: takes integers only.
    checked_unit(unsafe { libc::shutdown(fd, how) })
}

pub fn set<T>(fd: RawFd, level: i32, name: i32, value: &T) -> Res<()> {
    let len = size_of::<T>() as libc::socklen_t;
    // SAFETY: the value lives through the call.
    checked_unit(unsafe { libc::setsockopt(fd, level, name, (&raw const *value).cast(), len) })
}
