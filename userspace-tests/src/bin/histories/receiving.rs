// SPDX-License-Identifier: MIT
//! The ways to receive, and the comparison of each byte.
//!
//! The room behind the allowed length, and rooms of calls that have returned, must stay as they are.

use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::ptr;
use std::sync::atomic::Ordering;

use io_uring::{opcode, types, IoUring};
use libc::{c_int, iovec};

use crate::board::EndState;
use crate::bytes::Stream;
use crate::errno::{checked, Errno, Res};
use crate::plan::{Get, Take, Urgent};
use crate::refusal;
use crate::sending::URGENT;
use crate::sys;
use crate::talk::set;

const QUIET: u8 = 0x5a;
/// Bytes behind a room that no call may write.
const MARGIN: usize = 64;

/// The reading side of an end.
pub struct Receiver<'a> {
    fd: RawFd,
    stream: Stream,
    state: &'a EndState,
    peer: &'a EndState,
    /// Flags of `io_uring`, which waits although the socket does not.
    ring_flags: c_int,
    offset: u64,
    /// They take turns, so that a late write to the one of the last call is seen.
    rooms: [Vec<u8>; 2],
    turn: usize,
    pipe: Option<(OwnedFd, OwnedFd)>,
    ring: Option<IoUring>,
    urgent: Urgent,
    has_urgent: bool,
}

impl<'a> Receiver<'a> {
    pub fn new(
        fd: RawFd,
        stream: Stream,
        state: &'a EndState,
        peer: &'a EndState,
        waits: bool,
        urgent: Urgent,
    ) -> Self {
        let ring_flags = if waits { 0 } else { libc::MSG_DONTWAIT };
        let rooms = [Vec::new(), Vec::new()];
        Receiver {
            fd,
            stream,
            state,
            peer,
            ring_flags,
            offset: 0,
            rooms,
            turn: 0,
            pipe: None,
            ring: None,
            urgent,
            has_urgent: false,
        }
    }

    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Makes one call; returns the number of bytes, 0 at the end of the stream.
    pub fn step(&mut self, take: &Take) -> Res<usize> {
        if self.urgent != Urgent::None {
            self.look_for_urgent();
        }
        self.turn = 1 - self.turn;
        let mut room = std::mem::take(&mut self.rooms[self.turn]);
        self.still_quiet(&room, 0, "a room whose call has returned");
        refusal::spare(|| room.resize(room.len().max(take.len + MARGIN), QUIET));
        let result = self.call(take.way, &mut room[..take.len]);
        self.still_quiet(&room, take.len, "behind the room");
        if let Ok(count) = result {
            self.compare(&room[..count], &format!("{:?}", take.way));
            self.offset += count as u64;
            self.state.received.store(self.offset, Ordering::SeqCst);
        }
        room.fill(QUIET);
        self.rooms[self.turn] = room;
        result
    }

    /// Receives the urgent byte, if it is there.
    fn look_for_urgent(&mut self) {
        let mut byte = 0_u8;
        let flags = libc::MSG_OOB | libc::MSG_DONTWAIT;
        // SAFETY: the byte lives through the call.
        if unsafe { libc::recv(self.fd, (&raw mut byte).cast(), 1, flags) } != 1 {
            return;
        }
        if self.urgent != Urgent::Apart || self.has_urgent || byte != URGENT {
            self.state.fault(&format!("a wrong urgent byte, {byte:#x}"));
        }
        self.has_urgent = true;
    }

    fn still_quiet(&self, room: &[u8], from: usize, place: &str) {
        if let Some(at) = room[from..].iter().position(|&byte| byte != QUIET) {
            self.state.fault(&format!("{place} was written to, at {}", from + at));
        }
    }

    fn compare(&self, data: &[u8], way: &str) {
        self.compare_at(self.offset, data, way);
    }

    fn compare_at(&self, offset: u64, data: &[u8], way: &str) {
        if let Some(at) = self.stream.difference(offset, data) {
            let mut right = [0; 8];
            self.stream.fill(offset + at as u64, &mut right);
            let end = data.len().min(at + 8);
            self.state.fault(&format!(
                "{way} of {} at offset {}: wrong from byte {at} on: {:02x?} instead of {right:02x?}",
                data.len(),
                offset,
                &data[at..end],
            ));
        }
        let most = self.peer.attempted.load(Ordering::SeqCst);
        let have = offset + data.len() as u64;
        if have > most {
            self.state.fault(&format!("{have} bytes received, {most} sent"));
        }
    }

    fn call(&mut self, way: Get, room: &mut [u8]) -> Res<usize> {
        let fd = self.fd;
        let base = room.as_mut_ptr();
        let len = room.len();
        // SAFETY: the room lives through the call.
        let recv = |flags: c_int| checked(unsafe { libc::recv(fd, base.cast(), len, flags) });
        match way {
            // SAFETY: as above.
            Get::Read => checked(unsafe { libc::read(fd, base.cast(), len) }),
            Get::Recv => recv(0),
            Get::WaitAll => recv(libc::MSG_WAITALL),
            Get::Readv => {
                let parts = parts(room);
                // SAFETY: as above.
                checked(unsafe { libc::readv(fd, parts.as_ptr(), parts.len() as c_int) })
            }
            Get::Recvmsg => {
                let mut parts = parts(room);
                // SAFETY: zeros are a header; the parts live through the call.
                unsafe {
                    let mut header: libc::msghdr = std::mem::zeroed();
                    header.msg_iov = parts.as_mut_ptr();
                    header.msg_iovlen = parts.len();
                    checked(libc::recvmsg(fd, &raw mut header, 0))
                }
            }
            Get::Peek => {
                let seen = recv(libc::MSG_PEEK)?;
                self.compare(&room[..seen], "a peek");
                room[..seen].fill(QUIET);
                if seen == 0 {
                    return Ok(0);
                }
                // SAFETY: as above.
                checked(unsafe { libc::recv(fd, base.cast(), seen, 0) })
            }
            Get::PeekOn => self.peek_on(room),
            Get::DontWait => {
                sys::poll(fd, libc::POLLIN, -1)?;
                match recv(libc::MSG_DONTWAIT) {
                    Err(Errno(libc::EAGAIN)) => recv(0),
                    other => other,
                }
            }
            Get::Splice => self.splice(room),
            Get::Uring => self.by_ring(room),
        }
    }

    /// Looks at some bytes, then at those behind them, and receives both.
    fn peek_on(&mut self, room: &mut [u8]) -> Res<usize> {
        let fd = self.fd;
        let peek = |room: &mut [u8], flags: c_int| {
            let (base, flags) = (room.as_mut_ptr(), flags | libc::MSG_PEEK);
            // SAFETY: the room lives through the call.
            checked(unsafe { libc::recv(fd, base.cast(), room.len(), flags) })
        };
        set(fd, libc::SOL_SOCKET, libc::SO_PEEK_OFF, &0_i32)?;
        let half = room.len() / 2;
        let seen = peek(&mut room[..half], 0).and_then(|first| {
            self.compare(&room[..first], "a peek from 0 on");
            let second = match peek(&mut room[first..], libc::MSG_DONTWAIT) {
                Err(Errno(libc::EAGAIN)) => 0,
                other => other?,
            };
            let behind = self.offset + first as u64;
            self.compare_at(behind, &room[first..first + second], "a peek from there on");
            Ok(first + second)
        });
        room.fill(QUIET);
        set(fd, libc::SOL_SOCKET, libc::SO_PEEK_OFF, &-1_i32)?;
        let seen = seen?;
        // SAFETY: as above.
        checked(unsafe { libc::recv(fd, room.as_mut_ptr().cast(), seen, 0) })
    }

    /// Moves bytes into a pipe, and reads them there.
    fn splice(&mut self, room: &mut [u8]) -> Res<usize> {
        if self.pipe.is_none() {
            self.pipe = Some(sys::pipe()?);
        }
        let Some((read, write)) = &self.pipe else { return Ok(0) };
        let (null, into) = (ptr::null_mut(), write.as_raw_fd());
        // SAFETY: no pointer but null ones.
        let moved = checked(unsafe { libc::splice(self.fd, null, into, null, room.len(), 0) })?;
        let mut have = 0;
        while have < moved {
            let rest = &mut room[have..moved];
            // SAFETY: the room lives through the call.
            let taken =
                unsafe { libc::read(read.as_raw_fd(), rest.as_mut_ptr().cast(), rest.len()) };
            match checked(taken) {
                Ok(count) => have += count,
                Err(Errno(libc::EINTR)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(moved)
    }

    fn by_ring(&mut self, room: &mut [u8]) -> Res<usize> {
        let failed = |error: std::io::Error| Errno(error.raw_os_error().unwrap_or(libc::EIO));
        if self.ring.is_none() {
            self.ring = Some(IoUring::new(8).map_err(failed)?);
        }
        let Some(ring) = &mut self.ring else { return Ok(0) };
        let entry = opcode::Recv::new(types::Fd(self.fd), room.as_mut_ptr(), room.len() as u32)
            .flags(self.ring_flags)
            .build();
        // SAFETY: the room lives until the entry has completed.
        unsafe { ring.submission().push(&entry) }.map_err(|_| Errno(libc::EBUSY))?;
        loop {
            match ring.submit_and_wait(1).map_err(failed) {
                Ok(_) | Err(Errno(libc::EINTR)) => {}
                Err(error) => return Err(error),
            }
            if let Some(done) = ring.completion().next() {
                return if done.result() < 0 {
                    Err(Errno(-done.result()))
                } else {
                    Ok(done.result() as usize)
                };
            }
        }
    }
}

impl Drop for Receiver<'_> {
    fn drop(&mut self) {
        for room in &self.rooms {
            self.still_quiet(room, 0, "a room whose call has returned, at the end,");
        }
    }
}

/// Cuts into pieces of many lengths.
fn parts(room: &mut [u8]) -> Vec<iovec> {
    let mut parts = Vec::new();
    let mut at = 0;
    let mut len = 5;
    while at < room.len() {
        let now = if parts.len() > 6 { room.len() - at } else { len.min(room.len() - at) };
        parts.push(iovec { iov_base: room[at..].as_mut_ptr().cast(), iov_len: now });
        at += now;
        len *= 9;
    }
    parts
}
