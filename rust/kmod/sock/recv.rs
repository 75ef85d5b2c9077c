// SPDX-License-Identifier: GPL-2.0

//! recvmsg(2): from private receive buffers to the program, and the start of zero copy.
//!
//! `lock_sock` makes readers take turns. The endpoint's lock is not held while
//! bytes are copied: a counted page keeps them.

use crate::{
    addr::Family,
    endpoint::Inner,
    ffi,
    net::{
        msg::RecvMsg,
        task::interruption, //
    },
    object::Sock,
    prelude::*,
    queue::Urgent,
    rdma::page::Page,
    sock::{
        call::Call,
        companion::MOVED,
        offload::Offload, //
    },
    zcopy::{
        ahead::Ahead,
        recv::Presence,
        room::Wish, //
    },
};
use kernel::error::to_result;

/// The bytes at the reader's position.
pub(super) enum Next {
    Bytes(Page, u32, u32),
    /// The urgent byte, which is not part of the stream.
    SkipUrgent,
    /// The mark: a read does not cross it.
    Mark,
    Nothing,
}

/// A recvmsg(2) that takes bytes of the stream.
struct Reading {
    /// The room of the program.
    len: usize,
    /// The call waits for so many bytes.
    target: usize,
    peek: bool,
    discard: bool,
    /// It may wait.
    blocking: bool,
    /// The rest of its time.
    timeo: isize,
    /// Bytes that it has.
    copied: usize,
    /// How far a peek has looked; a real read moves the queue instead.
    looked: u64,
}

/// The next step of such a call.
enum Step {
    /// It looks again, even if it has all bytes.
    Again,
    /// It looks again, unless it has all bytes.
    Next,
    End,
}

impl Step {
    fn is_last(&self, reading: &Reading) -> bool {
        match self {
            Step::Again => false,
            Step::Next => reading.copied >= reading.len,
            Step::End => true,
        }
    }
}

impl Reading {
    /// Whether the program sees the bytes and they are consumed.
    fn is_plain(&self) -> bool {
        !self.peek && !self.discard
    }

    fn add(&mut self, n: usize) {
        self.copied = self.copied.wrapping_add(n);
    }

    /// Room that is left.
    fn left(&self) -> usize {
        self.len.wrapping_sub(self.copied)
    }

    /// The call returns.
    fn end(&self, call: &Call<'_>) -> Result<i32> {
        let copied = i32::try_from(self.copied).map_err(|_| EINVAL)?;
        if let Ok(lock) = call.guard() {
            lock.move_peek_off(self.peek, copied);
        }
        Ok(copied)
    }

    fn has_enough(&self) -> bool {
        self.copied >= self.target
    }

    /// An error ends a call without bytes; one that has some returns their number.
    fn end_by(&self, e: Error) -> Result<Step> {
        if self.copied > 0 {
            Ok(Step::End)
        } else {
            Err(e)
        }
    }

    fn wish(&self) -> Wish {
        Wish {
            room: self.left(),
            blocking: self.blocking,
            plain: self.is_plain(),
            hungry: !self.has_enough() || self.copied == 0,
            missing: self.target.wrapping_sub(self.copied.min(self.target)),
        }
    }
}

impl Sock {
    /// recvmsg(2). Returns the bytes delivered.
    pub(crate) fn receive(&self, msg: &mut RecvMsg, len: usize, flags: u32) -> Result<i32> {
        if flags & ffi::MSG_ERRQUEUE != 0 {
            let v6 = self.look(|inner| inner.family) == Family::V6;
            // SAFETY: The message is ours for the call.
            to_result(unsafe { ffi::sdp_recv_notice(self.sk(), msg.as_ptr().cast(), v6) })?;
            return Ok(0);
        }
        let mut call = self.begin();
        if self.tcp_state() == ffi::TCP_LISTEN {
            return Err(ENOTCONN);
        }
        let as_message = self.look(|inner| inner.options.inq);
        let mut ahead = if flags & ffi::MSG_ZEROCOPY != 0 {
            self.ahead(msg)
        } else {
            None
        };
        let received = self.receive_locked(&mut call, msg, len, flags, ahead.as_mut())?;
        if let Some(ahead) = ahead.as_ref() {
            self.report_ahead(&mut call, msg, ahead)?;
        }
        drop(call);
        if as_message || msg.wants_inq() {
            msg.tell_inq(self.left_to_read(), as_message);
        }
        Ok(received)
    }

    /// As `tcp_inq_hint`: at the end of the stream there is one more thing to
    /// read.
    fn left_to_read(&self) -> i32 {
        let (left, done) = self.look(|inner| (inner.left(), inner.peer_done));
        if left == 0 && done {
            return 1;
        }
        i32::try_from(left).unwrap_or(i32::MAX)
    }

    fn receive_locked<'a>(
        &'a self,
        call: &mut Call<'a>,
        msg: &mut RecvMsg,
        len: usize,
        flags: u32,
        mut ahead: Option<&mut Ahead>,
    ) -> Result<i32> {
        if flags & ffi::MSG_OOB != 0 {
            return self.receive_urgent(msg, len, flags);
        }
        let mut reading = self.reading(len, flags);
        let mut presence = Presence::new(self);
        let mut offload = Offload::new(reading.is_plain());
        // At least once: a read of length 0 waits for data as well.
        loop {
            // The option may change while this call sleeps. If the urgent byte is not
            // part of the stream, a completion may skip it, so this call must not copy
            // it.
            let inline = self.flag(ffi::sock_flags_SOCK_URGINLINE);
            if reading.copied == 0 && offload.is_empty() {
                self.stop_at_mark(&reading)?;
            }
            let begun = reading.copied.wrapping_add(offload.len());
            let room = len.wrapping_sub(begun);
            let (next, remote, queued) = self.look(|inner| {
                let at = reading.looked.wrapping_add(offload.ahead());
                let next = inner.next_bytes(at, begun > 0, inline);
                (next, inner.may_read_remote(self, room), inner.recv.len())
            });
            let step = match next {
                Next::Bytes(page, offset, avail) if offload.is_for(queued, room) => {
                    let bytes = (page, offset, avail);
                    self.offload(&mut offload, msg, bytes, queued, room);
                    Step::Next
                }
                // The next bytes come later, or in another way.
                _ if !offload.is_empty() => {
                    reading.add(self.settle_offload(&mut offload, msg));
                    Step::Next
                }
                Next::Bytes(page, offset, avail) => {
                    let n = (avail as usize).min(room);
                    self.copy_bytes(&mut reading, msg, &page, offset, n)?
                }
                Next::SkipUrgent => self.skip_urgent(&mut reading),
                Next::Mark => Step::End,
                Next::Nothing => {
                    if remote && reading.blocking {
                        presence.begin();
                    }
                    self.await_bytes(call, &mut reading, msg, remote, ahead.as_deref_mut())?
                }
            };
            if step.is_last(&reading) {
                break;
            }
        }
        reading.end(call)
    }

    /// The urgent byte is not part of the stream.
    fn skip_urgent(&self, reading: &mut Reading) -> Step {
        if reading.peek {
            reading.looked = reading.looked.wrapping_add(1);
        } else {
            self.drive(|inner| inner.skip_urgent());
        }
        Step::Again
    }

    /// A recvmsg(2) of `len` bytes that begins.
    fn reading(&self, len: usize, flags: u32) -> Reading {
        let timeo = self.receive_timeout(flags & ffi::MSG_DONTWAIT != 0);
        let limit = i32::try_from(len).unwrap_or(i32::MAX);
        let target = self.low_water_mark(flags & ffi::MSG_WAITALL != 0, limit);
        let peek = flags & ffi::MSG_PEEK != 0;
        Reading {
            len,
            target: usize::try_from(target).unwrap_or(1),
            peek,
            discard: flags & ffi::MSG_TRUNC != 0,
            blocking: timeo != 0,
            timeo,
            copied: 0,
            looked: if peek { self.peek_offset() } else { 0 },
        }
    }

    /// Ends a call that has no bytes, stands before the urgent byte and has a signal: a handler that
    /// is told of the urgent byte must be able to read it before this call skips it.
    fn stop_at_mark(&self, reading: &Reading) -> Result {
        let Some(end) = interruption(reading.timeo) else {
            return Ok(());
        };
        if self.look(|inner| inner.recv.to_mark(reading.looked) == Some(0)) {
            return Err(if reading.timeo == 0 { EAGAIN } else { end });
        }
        Ok(())
    }

    /// Copies `n` bytes of `page`, the next to be read.
    fn copy_bytes(
        &self,
        reading: &mut Reading,
        msg: &mut RecvMsg,
        page: &Page,
        offset: u32,
        n: usize,
    ) -> Result<Step> {
        let done = if reading.discard {
            n
        } else {
            // SAFETY: The page is counted, and holds these bytes by the invariant of
            // `RecvQueue`.
            let bytes = unsafe {
                let from = page.address().add(offset as usize);
                core::slice::from_raw_parts(from, n)
            };
            msg.dest().copy_to_iter(bytes)
        };
        reading.add(done);
        let mut more = true;
        if reading.peek {
            reading.looked = reading.looked.wrapping_add(done as u64);
        } else if done > 0 {
            more = self.consume_of(done as u32, reading.blocking, reading.left());
        }
        if done < n {
            return reading.end_by(EFAULT);
        }
        Ok(if !more && reading.has_enough() {
            Step::End
        } else {
            Step::Next
        })
    }

    /// No bytes are queued: has them come straight from the peer's memory or to the reader's, if
    /// there are any `remote` ones, or waits.
    fn await_bytes<'a>(
        &'a self,
        call: &mut Call<'a>,
        reading: &mut Reading,
        msg: &mut RecvMsg,
        remote: bool,
        mut ahead: Option<&mut Ahead>,
    ) -> Result<Step> {
        let read = if remote {
            let wish = reading.wish();
            self.receive_remote(call, msg, &wish, ahead.as_deref_mut(), &mut reading.timeo)
        } else {
            Ok(0)
        };
        if let Err(e) = call.own_peer().check() {
            // The next bytes belong to another connection.
            reading.add(read.unwrap_or(0));
            return reading.end_by(e);
        }
        match read {
            Ok(0) => {}
            Ok(n) => {
                reading.add(n);
                let made = ahead.is_some_and(|ahead| ahead.is_made());
                return Ok(if made { Step::End } else { Step::Next });
            }
            Err(e) => return reading.end_by(e),
        }
        if reading.has_enough() {
            return Ok(Step::End);
        }
        let partial = reading.copied > 0;
        match self.wait_for_data(call, &mut reading.timeo, partial, reading.looked) {
            Ok(true) => Ok(Step::Again),
            Ok(false) => Ok(Step::End),
            Err(e) => reading.end_by(e),
        }
    }

    /// The offset at which a peek begins (SO_PEEK_OFF).
    fn peek_offset(&self) -> u64 {
        let offset = self.peek_off();
        u64::try_from(offset).unwrap_or(0)
    }

    /// As `consume`. Returns whether a reader with `room` for more looks again: one that may not
    /// block has no use for what the peer offers.
    fn consume_of(&self, n: u32, blocking: bool, room: usize) -> bool {
        self.drive_if(|inner| {
            let due = inner.consume(n);
            let more = !inner.recv.is_empty() || blocking && inner.may_read_remote(self, room);
            (more, due)
        })
    }

    /// Waits for more than `ahead` bytes. `Ok(false)` means that there will be none, or
    /// none until a call reads, which a peek does not.
    pub(super) fn wait_for_data<'a>(
        &'a self,
        call: &mut Call<'a>,
        timeo: &mut isize,
        partial: bool,
        ahead: u64,
    ) -> Result<bool> {
        let mut waited = false;
        let blocking = *timeo != 0;
        let net = self.net();
        let look = || {
            // Checked first: the end is flagged after the last bytes are queued, so no
            // bytes can come once the flag was seen.
            let shut = self.shutdown_bits() & ffi::RCV_SHUTDOWN != 0;
            let closed = self.tcp_state() == ffi::TCP_CLOSE;
            let failed = self.err() != 0;
            let (more, done) =
                self.look(|inner| (inner.has_more(ahead, blocking), inner.peer_done));
            if more {
                return Some(Ok(true));
            }
            if self.tcp().is_some() {
                return Some(Err(MOVED));
            }
            if done || partial && ahead > 0 && self.look(|inner| inner.is_full()) {
                return Some(Ok(false));
            }
            if failed {
                // After a partial read the error stays for the next call.
                return Some(if partial {
                    Ok(false)
                } else {
                    self.take_err().map(|()| false)
                });
            }
            if shut {
                return Some(Ok(false));
            }
            if closed {
                return Some(if partial { Ok(false) } else { Err(ENOTCONN) });
            }
            if !core::mem::replace(&mut waited, true) {
                net.stats.receive_waits.inc();
            }
            None
        };
        self.wait_for_peer(call, timeo, look)?
    }

    /// MSG_OOB, as `tcp_recv_urg`.
    fn receive_urgent(&self, msg: &mut RecvMsg, len: usize, flags: u32) -> Result<i32> {
        let inline = self.flag(ffi::sock_flags_SOCK_URGINLINE);
        let (urgent, done) = self.look(|inner| (inner.recv.urgent(), inner.peer_done));
        if inline || matches!(urgent, Urgent::None | Urgent::Read) {
            return Err(EINVAL);
        }
        if self.tcp_state() == ffi::TCP_CLOSE && !done {
            return Err(ENOTCONN);
        }
        let Urgent::Byte(byte) = urgent else {
            let over =
                self.tcp_state() == ffi::TCP_CLOSE || self.shutdown_bits() & ffi::RCV_SHUTDOWN != 0;
            return if over { Ok(0) } else { Err(EAGAIN) };
        };
        if flags & ffi::MSG_PEEK == 0 {
            self.look(|inner| inner.recv.set_urgent_read());
        }
        msg.add_flags(ffi::MSG_OOB);
        if len == 0 {
            msg.add_flags(ffi::MSG_TRUNC);
            return Ok(0);
        }
        if flags & ffi::MSG_TRUNC == 0 && msg.dest().copy_to_iter(&[byte]) != 1 {
            return Err(EFAULT);
        }
        Ok(1)
    }
}

impl Inner {
    /// Whether there are more than `ahead` bytes, or, for a `blocking` call, bytes to
    /// read from the peer.
    fn has_more(&self, ahead: u64, blocking: bool) -> bool {
        if self.turns.read.is_taken() {
            return false;
        }
        let idle = self.link.as_ref().is_some_and(|link| link.sink.is_idle());
        self.recv.len() > ahead || blocking && idle && self.remote_len() > 0
    }

    /// The bytes `ahead` bytes after the reader.
    pub(super) fn next_bytes(&mut self, ahead: u64, started: bool, inline: bool) -> Next {
        if self.turns.read.is_taken() {
            // It belongs behind the bytes that another reader waits for.
            return Next::Nothing;
        }
        let mut limit = u32::MAX;
        if let Some(to_mark) = self.recv.to_mark(ahead) {
            match u32::try_from(to_mark) {
                Ok(0) if started => return Next::Mark,
                Ok(0) if !inline => return Next::SkipUrgent,
                Ok(0) | Err(_) => {}
                Ok(n) => limit = n,
            }
        }
        match self.recv.peek(ahead) {
            Some((page, offset, len)) => Next::Bytes(page, offset, len.min(limit)),
            None => Next::Nothing,
        }
    }
}
