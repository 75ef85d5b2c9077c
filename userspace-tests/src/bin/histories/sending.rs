// SPDX-License-Identifier: MIT
//! The ways to send a part of a stream.
//!
//! Memory is overwritten as soon as the kernel promises not to read it any more, so a byte that is
//! read too late is a wrong byte.

use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::ptr;
use std::sync::atomic::Ordering;

use io_uring::{cqueue, opcode, types, IoUring};
use libc::{c_int, iovec, MSG_NOSIGNAL};

use crate::board::EndState;
use crate::bytes::Stream;
use crate::errno::{checked, checked_int, Errno, Res};
use crate::plan::Way;
use crate::refusal;
use crate::sys;
use crate::talk::REFUSALS;

/// How long `poll()` waits for a notice, in simulated time.
const NOTICE_MS: i32 = 10_000;
const SCRIBBLE: u8 = 0xee;
/// The capacity of a pipe.
const PIPE: usize = 65536;
/// An urgent byte that is no part of the stream.
pub static URGENT: u8 = 0x77;
/// `SO_EE_ORIGIN_ZEROCOPY`
const ORIGIN_ZEROCOPY: u8 = 5;

/// Memory that is lent until its notice comes.
struct Lent {
    id: u64,
    memory: Vec<u8>,
}

/// The writing side of an end.
pub struct Sender<'a> {
    fd: RawFd,
    stream: Stream,
    state: &'a EndState,
    total: u64,
    /// Flags of `io_uring`, which waits although the socket does not.
    ring_flags: c_int,
    offset: u64,
    memory: Vec<u8>,
    /// The whole stream, for calls that send files.
    file: Option<OwnedFd>,
    pipe: Option<(OwnedFd, OwnedFd)>,
    /// Bytes in the pipe that the socket has not taken.
    piped: usize,
    ring: Option<IoUring>,
    /// Lent by `MSG_ZEROCOPY`, which numbers its calls.
    lent: Vec<Lent>,
    next_id: u32,
    /// Lent by `io_uring`.
    ring_lent: Vec<Lent>,
    ring_id: u64,
    urgent_is_sent: bool,
}

impl<'a> Sender<'a> {
    pub fn new(fd: RawFd, stream: Stream, state: &'a EndState, total: u64, waits: bool) -> Self {
        let ring_flags = MSG_NOSIGNAL | if waits { 0 } else { libc::MSG_DONTWAIT };
        Sender {
            fd,
            stream,
            state,
            total,
            ring_flags,
            offset: 0,
            memory: Vec::new(),
            file: None,
            pipe: None,
            piped: 0,
            ring: None,
            lent: Vec::new(),
            next_id: 0,
            ring_lent: Vec::new(),
            ring_id: 1,
            urgent_is_sent: false,
        }
    }

    /// Makes one call that sends up to `len` bytes; returns how many the socket has taken.
    pub fn step(&mut self, way: Way, len: usize) -> Res<usize> {
        let len = if self.piped > 0 { self.piped } else { len };
        self.state.attempted.fetch_max(self.offset + len as u64, Ordering::SeqCst);
        let sent = if self.piped > 0 { self.unpipe()? } else { self.call(way, len)? };
        self.offset += sent as u64;
        self.state.accepted.store(self.offset, Ordering::SeqCst);
        self.take_notices();
        Ok(sent)
    }

    fn call(&mut self, way: Way, len: usize) -> Res<usize> {
        match way {
            Way::Sendfile => {
                let mut at = self.offset as libc::off_t;
                let file = self.file()?;
                // SAFETY: the offset lives through the call.
                checked(unsafe { libc::sendfile(self.fd, file, &raw mut at, len) })
            }
            Way::Splice | Way::SpliceFile => {
                self.fill_pipe(way == Way::SpliceFile, len)?;
                self.unpipe()
            }
            // No more notices fit, or no more memory may be locked.
            Way::ZeroCopy => match self.lend(len) {
                Err(Errno(libc::ENOBUFS)) => self.call(Way::Send, len),
                other => other,
            },
            Way::UringZeroCopy => match self.lend_by_ring(len) {
                Err(Errno(libc::ENOBUFS | libc::ENOMEM)) => self.call(Way::Send, len),
                other => other,
            },
            Way::UrgentApart => {
                if !self.urgent_is_sent {
                    let flags = MSG_NOSIGNAL | libc::MSG_OOB;
                    // SAFETY: the byte lives through the call.
                    checked(unsafe { libc::send(self.fd, (&raw const URGENT).cast(), 1, flags) })?;
                    self.urgent_is_sent = true;
                }
                self.call(Way::Send, len)
            }
            _ => {
                let mut memory = std::mem::take(&mut self.memory);
                refusal::spare(|| memory.resize(memory.len().max(len), 0));
                self.stream.fill(self.offset, &mut memory[..len]);
                let sent = self.plain(way, &memory[..len]);
                memory[..len].fill(SCRIBBLE);
                self.memory = memory;
                sent
            }
        }
    }

    fn plain(&mut self, way: Way, data: &[u8]) -> Res<usize> {
        let base = data.as_ptr();
        let len = data.len();
        let fd = self.fd;
        match way {
            // SAFETY: the memory lives through the call, here and below.
            Way::Write => checked(unsafe { libc::write(fd, base.cast(), len) }),
            Way::More => {
                let flags = MSG_NOSIGNAL | libc::MSG_MORE;
                // SAFETY: as above.
                checked(unsafe { libc::send(fd, base.cast(), len, flags) })
            }
            Way::Urgent => {
                let flags = MSG_NOSIGNAL | libc::MSG_OOB;
                // SAFETY: as above.
                checked(unsafe { libc::send(fd, base.cast(), len, flags) })
            }
            Way::Writev => {
                let parts = parts(data);
                // SAFETY: as above.
                checked(unsafe { libc::writev(fd, parts.as_ptr(), parts.len() as c_int) })
            }
            Way::Sendmsg => {
                let mut parts = parts(data);
                let header = header(&mut parts);
                // SAFETY: as above.
                checked(unsafe { libc::sendmsg(fd, &raw const header, MSG_NOSIGNAL) })
            }
            Way::Sendmmsg => send_many(fd, data),
            Way::Uring => self.by_ring(data),
            // SAFETY: as above.
            _ => checked(unsafe { libc::send(fd, base.cast(), len, MSG_NOSIGNAL) }),
        }
    }

    fn file(&mut self) -> Res<RawFd> {
        if self.file.is_none() {
            let (total, stream) = (self.total, self.stream);
            self.file = Some(refusal::spare(|| {
                let mut bytes = vec![0; total as usize];
                stream.fill(0, &mut bytes);
                // SAFETY: the name and the bytes live through the calls.
                let made = unsafe { libc::memfd_create(c"stream".as_ptr(), libc::MFD_CLOEXEC) };
                let file = sys::owned(made)?;
                let fd = file.as_raw_fd();
                // SAFETY: as above.
                checked(unsafe { libc::write(fd, bytes.as_ptr().cast(), bytes.len()) })?;
                Ok(file)
            })?);
        }
        Ok(self.file.as_ref().map_or(-1, AsRawFd::as_raw_fd))
    }

    fn pipe(&mut self) -> Res<(RawFd, RawFd)> {
        if self.pipe.is_none() {
            self.pipe = Some(sys::pipe()?);
        }
        Ok(self
            .pipe
            .as_ref()
            .map_or((-1, -1), |(read, write)| (read.as_raw_fd(), write.as_raw_fd())))
    }

    /// Fills the empty pipe, by a copy or with pages of the file.
    fn fill_pipe(&mut self, by_page: bool, len: usize) -> Res<()> {
        let len = len.min(PIPE);
        let (_, write) = self.pipe()?;
        self.piped = if by_page {
            let mut at = self.offset as libc::loff_t;
            let file = self.file()?;
            // SAFETY: the offset lives through the call. A pipe that is full would block.
            let flags = libc::SPLICE_F_NONBLOCK;
            checked(unsafe { libc::splice(file, &raw mut at, write, ptr::null_mut(), len, flags) })?
        } else {
            let mut bytes = refusal::spare(|| vec![0; len]);
            self.stream.fill(self.offset, &mut bytes);
            // SAFETY: the bytes live through the call; the pipe is empty and has room for them.
            checked(unsafe { libc::write(write, bytes.as_ptr().cast(), len) })?
        };
        Ok(())
    }

    /// Moves bytes from the pipe to the socket.
    fn unpipe(&mut self) -> Res<usize> {
        let (read, _) = self.pipe()?;
        // SAFETY: no pointer but null ones.
        let sent = checked(unsafe {
            libc::splice(
                read,
                ptr::null_mut(),
                self.fd,
                ptr::null_mut(),
                self.piped,
                libc::SPLICE_F_MOVE,
            )
        })?;
        self.piped -= sent;
        Ok(sent)
    }

    fn fresh(&self, len: usize) -> Vec<u8> {
        let mut memory = refusal::spare(|| vec![0; len]);
        self.stream.fill(self.offset, &mut memory);
        memory
    }

    fn lend(&mut self, len: usize) -> Res<usize> {
        let memory = self.fresh(len);
        let flags = MSG_NOSIGNAL | libc::MSG_ZEROCOPY;
        // SAFETY: the memory stays as it is until its notice has come, or the process ends.
        let sent = checked(unsafe { libc::send(self.fd, memory.as_ptr().cast(), len, flags) })?;
        self.lent.push(Lent { id: u64::from(self.next_id), memory });
        self.next_id = self.next_id.wrapping_add(1);
        Ok(sent)
    }

    fn ring(&mut self) -> Res<&mut IoUring> {
        if self.ring.is_none() {
            let failed = |error: std::io::Error| Errno(error.raw_os_error().unwrap_or(libc::EIO));
            self.ring = Some(IoUring::new(8).map_err(failed)?);
        }
        self.ring.as_mut().ok_or(Errno(libc::EIO))
    }

    fn by_ring(&mut self, data: &[u8]) -> Res<usize> {
        let entry = opcode::Send::new(types::Fd(self.fd), data.as_ptr(), data.len() as u32)
            .flags(self.ring_flags)
            .build()
            .user_data(0);
        self.submit(&entry, 0)
    }

    fn lend_by_ring(&mut self, len: usize) -> Res<usize> {
        // An entry that no ring takes has no notice.
        self.ring()?;
        let memory = self.fresh(len);
        let id = self.ring_id;
        self.ring_id += 1;
        let entry = opcode::SendZc::new(types::Fd(self.fd), memory.as_ptr(), len as u32)
            .flags(self.ring_flags)
            .build()
            .user_data(id);
        self.ring_lent.push(Lent { id, memory });
        self.submit(&entry, id)
    }

    /// Submits an entry and waits for its result; notices of others may come before it.
    fn submit(&mut self, entry: &io_uring::squeue::Entry, id: u64) -> Res<usize> {
        let ring = self.ring()?;
        // SAFETY: the memory of the entry lives until its result, or until its notice.
        unsafe { ring.submission().push(entry) }.map_err(|_| Errno(libc::EBUSY))?;
        let mut refusals = 0;
        loop {
            let waited = self.ring()?.submit_and_wait(1);
            if let Err(error) = waited {
                match error.raw_os_error().unwrap_or(libc::EIO) {
                    libc::EINTR => {}
                    // The kernel had no memory for the entry, which stays in the ring.
                    libc::EAGAIN | libc::ENOMEM if refusals < REFUSALS => {
                        refusals += 1;
                        sys::sleep_us(1000);
                    }
                    error => return Err(Errno(error)),
                }
            }
            if let Some(result) = self.look_at_ring(id) {
                return if result < 0 { Err(Errno(-result)) } else { Ok(result as usize) };
            }
        }
    }

    /// Takes all completions; returns the result of the entry `id`.
    fn look_at_ring(&mut self, id: u64) -> Option<i32> {
        let mut result = None;
        loop {
            result = self.look_at_queue(id).or(result);
            let ring = self.ring.as_mut()?;
            // The kernel keeps the completions for which the queue had no room, and moves them to it
            // only in a call.
            if !ring.submission().cq_overflow() || ring.submit().is_err() {
                return result;
            }
        }
    }

    /// Takes all that is in the completion queue; returns the result of the entry `id`.
    fn look_at_queue(&mut self, id: u64) -> Option<i32> {
        let ring = self.ring.as_mut()?;
        let found: Vec<_> =
            ring.completion().map(|one| (one.user_data(), one.result(), one.flags())).collect();
        let mut result = None;
        for (name, value, flags) in found {
            let notice = cqueue::notif(flags);
            if notice || (name != 0 && !cqueue::more(flags)) {
                give_back(&mut self.ring_lent, name, name);
            }
            if !notice && name == id {
                result = Some(value);
            }
        }
        result
    }

    /// Takes the notices that have come, and overwrites the memory they give back.
    pub fn take_notices(&mut self) {
        self.look_at_ring(u64::MAX);
        while !self.lent.is_empty() {
            match notice(self.fd) {
                Ok(Some((low, high))) => {
                    let given = give_back(&mut self.lent, u64::from(low), u64::from(high));
                    if given != (high - low + 1) as usize {
                        self.state
                            .fault(&format!("a notice for {low} to {high} gives {given} back"));
                    }
                }
                Ok(None) => {}
                Err(_) => return,
            }
        }
    }

    /// Waits for a notice. A notice that is there has to end the wait.
    fn await_notice(&mut self) {
        if let Ok(0) = sys::poll(self.fd, 0, NOTICE_MS) {
            let before = self.lent.len();
            self.take_notices();
            if self.lent.len() < before {
                self.state.fault("a notice has come, and poll() was not woken");
            }
        }
    }

    /// What is still lent, and what the kernel says of notices that it had no memory for.
    pub fn lent(&mut self) -> String {
        let overflow = self.ring.as_mut().map_or(0, |ring| ring.completion().overflow());
        format!(
            "MSG_ZEROCOPY {:?}, io_uring {:?}, completions lost {overflow}",
            self.lent.iter().map(|one| (one.id, one.memory.len())).collect::<Vec<_>>(),
            self.ring_lent.iter().map(|one| (one.id, one.memory.len())).collect::<Vec<_>>(),
        )
    }

    /// Waits until all memory is given back. Returns false if it was not in so many milliseconds.
    pub fn settle(&mut self, limit_ms: u64) -> bool {
        let end = sys::now_us() + limit_ms * 1000;
        let mut pause_us = 200;
        loop {
            self.take_notices();
            if self.lent.is_empty() && self.ring_lent.is_empty() {
                return true;
            }
            if sys::now_us() > end {
                return false;
            }
            if self.ring_lent.is_empty() {
                self.await_notice();
            }
            sys::sleep_us(pause_us);
            pause_us = (pause_us * 2).min(50_000);
        }
    }
}

impl Drop for Sender<'_> {
    fn drop(&mut self) {
        // The kernel may read lent memory as long as the connection is there.
        std::mem::forget(std::mem::take(&mut self.lent));
        std::mem::forget(std::mem::take(&mut self.ring_lent));
    }
}

fn give_back(lent: &mut Vec<Lent>, low: u64, high: u64) -> usize {
    let before = lent.len();
    lent.retain_mut(|one| {
        let given = (low..=high).contains(&one.id);
        if given {
            one.memory.fill(SCRIBBLE);
        }
        !given
    });
    before - lent.len()
}

/// A notice of the error queue; `None` if it is another message.
fn notice(fd: RawFd) -> Res<Option<(u32, u32)>> {
    let mut control = [0_u64; 16];
    // SAFETY: zeros are a header; it and the control buffer live through the call.
    unsafe {
        let mut header: libc::msghdr = std::mem::zeroed();
        header.msg_control = control.as_mut_ptr().cast();
        header.msg_controllen = size_of_val(&control);
        checked(libc::recvmsg(fd, &raw mut header, libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT))?;
        let message = libc::CMSG_FIRSTHDR(&raw const header);
        if message.is_null() {
            return Ok(None);
        }
        let error = libc::CMSG_DATA(message).cast::<libc::sock_extended_err>().read_unaligned();
        Ok((error.ee_origin == ORIGIN_ZEROCOPY).then_some((error.ee_info, error.ee_data)))
    }
}

/// Cuts into pieces of many lengths.
fn parts(data: &[u8]) -> Vec<iovec> {
    let mut parts = Vec::new();
    let mut rest = data;
    let mut len = 1;
    while !rest.is_empty() {
        let now = if parts.len() > 8 { rest.len() } else { rest.len().min(len) };
        parts.push(iovec { iov_base: rest.as_ptr().cast_mut().cast(), iov_len: now });
        rest = &rest[now..];
        len = len * 7 + 3;
    }
    parts
}

fn header(parts: &mut [iovec]) -> libc::msghdr {
    // SAFETY: zeros are an empty header.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = parts.as_mut_ptr();
    header.msg_iovlen = parts.len();
    header
}

fn send_many(fd: RawFd, data: &[u8]) -> Res<usize> {
    let mut parts = parts(data);
    let mut headers: Vec<_> = parts
        .chunks_mut(1)
        .map(|part| libc::mmsghdr { msg_hdr: header(part), msg_len: 0 })
        .collect();
    let count = headers.len() as libc::c_uint;
    // SAFETY: headers and parts live through the call.
    let sent =
        checked_int(unsafe { libc::sendmmsg(fd, headers.as_mut_ptr(), count, MSG_NOSIGNAL) })?;
    let mut bytes = 0;
    for (header, part) in headers.iter().zip(&parts).take(sent as usize) {
        bytes += header.msg_len as usize;
        // A message that was cut short is the last one; the kernel may go on after it, which would
        // lose a part of the stream.
        if (header.msg_len as usize) < part.iov_len {
            break;
        }
    }
    Ok(bytes)
}
