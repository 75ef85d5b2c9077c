// SPDX-License-Identifier: GPL-2.0

//! sendmsg(2): BCopy, and the start of zero copy.
//!
//! Bytes are copied into page fragments of the socket without the endpoint's
//! lock, then handed over under it; one handover per fragment, which is up to
//! 32 KiB, or per chunk: see `chunks`.

use crate::{
    endpoint::Inner,
    engine::{
        conn::Queue,
        policy::copying::{
            Cause,
            Causes, //
        }, //
    },
    ffi,
    net::msg::SendMsg,
    object::Sock,
    prelude::*,
    rdma::{
        page::Page,
        translations::evict_of_user, //
    },
    sock::{
        call::Call,
        chunks::Cut,
        fragment::{
            Given,
            Wanted, //
        }, //
    },
    zcopy::{
        borrow::Lending,
        notice::Notice, //
    },
};
use kernel::page::PAGE_SIZE;

/// Maximum number of bytes taken over at a time.
const FRAGMENT_MAX: u32 = (PAGE_SIZE << 3) as u32;

impl Inner {
    /// The part of `left` bytes that can be taken over now; none if the writer has to
    /// wait. `chunk`: more of the write follows.
    fn room_for(&mut self, sock: &Sock, left: u32, chunk: bool) -> Option<Wanted> {
        if self.send_room(sock) == 0 {
            if self.charged() >= sock.sndbuf() {
                self.send.set_full();
            }
            return None;
        }
        // A page that splice() gives counts as a whole page.
        let most = left.clamp(PAGE_SIZE as u32, FRAGMENT_MAX);
        let Ok(provided) = self.send.provide(sock, most) else {
            sock.net().stats.memory_waits.inc();
            return None;
        };
        let len = provided.min(left);
        Some(Wanted {
            len: len as usize,
            alone: !chunk && self.send.charged() == 0,
        })
    }

    /// Takes over `n` bytes of a write, which were copied to a page, or are in the pages of `given`. With
    /// `ends_chunk` they may leave although more follows. Returns whether they wait for that.
    fn take_over(
        &mut self,
        n: u32,
        copied_to: Option<(Page, u32)>,
        given: &mut Given,
        queue: Queue,
        ends_chunk: bool,
    ) -> Result<bool> {
        let engine = self.engine.as_mut().ok_or(EPIPE)?;
        if engine.send_closed() || engine.ended().is_some() {
            return Err(EPIPE);
        }
        self.send.reserve(given.len().max(1))?;
        engine.queue(n, queue).map_err(|_| EPIPE)?;
        if ends_chunk {
            engine.release_chunk();
        }
        if let Some((page, offset)) = copied_to {
            self.send.push(page, offset, n, false)?;
        }
        for (page, offset, n) in given.take() {
            self.send.push(page, offset, n, true)?;
        }
        self.send.trim();
        Ok(engine.is_gathering())
    }
}

/// One sendmsg(2).
struct Write<'a> {
    msg: &'a mut SendMsg,
    len: usize,
    flags: u32,
    /// Time that the call may still sleep, in jiffies.
    timeo: isize,
    /// Bytes that were taken over.
    copied: usize,
}

impl Write<'_> {
    fn left(&self) -> u32 {
        u32::try_from(self.len.wrapping_sub(self.copied)).unwrap_or(u32::MAX)
    }

    fn has(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }
}

impl Sock {
    /// sendmsg(2). Returns the bytes taken over.
    pub(crate) fn send(&self, msg: &mut SendMsg, len: usize) -> Result<i32> {
        let flags = msg.flags();
        let mut write = Write {
            msg,
            len,
            flags,
            timeo: 0,
            copied: 0,
        };
        let mut call = self.begin();
        self.catch_up();
        let result = self.send_locked(&mut call, &mut write);
        drop(call);
        if write.copied > 0 {
            return i32::try_from(write.copied).map_err(|_| EINVAL);
        }
        match result {
            Ok(()) => Ok(0),
            Err(e) => Err(self.send_error(flags, e)),
        }
    }

    fn send_locked<'a>(&'a self, call: &mut Call<'a>, write: &mut Write<'_>) -> Result {
        write.msg.check_controls(self)?;
        write.timeo = self.send_timeout(write.has(ffi::MSG_DONTWAIT));
        self.wait_connected(call, &mut write.timeo)?;
        if self.err() != 0 || self.shutdown_bits() & ffi::SEND_SHUTDOWN != 0 {
            return Err(EPIPE);
        }
        if let Some(mut borrowing) = self.borrowing(write.msg)? {
            let end = self.send_all(call, write, Lending::Counted(&mut borrowing));
            self.report_borrowed(call, &borrowing);
            return end;
        }
        if write.has(ffi::MSG_ZEROCOPY) && write.len > 0 {
            let asked = Notice::asked(call.guard()?, write.msg, write.len, evict_of_user)?;
            if let Some(mut asked) = asked {
                let end = self.send_all(call, write, Lending::Told(&mut asked));
                if write.copied > 0 {
                    self.tell(asked);
                } else {
                    asked.abort();
                }
                return end;
            }
        }
        self.send_all(call, write, Lending::No)
    }

    /// Sends all of it. If the memory may be lent for longer than the call, it does not
    /// wait for the peer: memory is lent while there is room for offers, and a notice
    /// records copies. `call` has `lock_sock`.
    fn send_all<'a>(
        &'a self,
        call: &mut Call<'a>,
        write: &mut Write<'_>,
        lending: Lending<'_>,
    ) -> Result {
        // A call that may not wait never waits for the peer.
        let may_wait = !write.has(ffi::MSG_DONTWAIT) && write.timeo != 0;
        let waits = may_wait || lending.outlives_call();
        let least = match &lending {
            _ if write.has(ffi::MSG_OOB | ffi::MSG_SPLICE_PAGES) => Err(Cause::Short),
            Lending::Counted(borrowing) => self.borrow_least(borrowing),
            Lending::Told(_) | Lending::No => self.source_least(write.msg, write.len, waits),
        };
        let copies = least.is_err() && matches!(lending, Lending::No);
        let mut cut = copies
            .then(|| self.begin_chunks(write.len, write.flags))
            .flatten();
        let end = self.send_pieces(call, write, least, lending, &mut cut);
        if end.is_err() {
            // The run loop was left out for pieces before this one that wait for more bytes.
            self.drive_if(|inner| {
                let engine = inner.engine.as_ref();
                ((), engine.is_some_and(|engine| engine.is_gathering()))
            });
        }
        self.end_chunks(cut, write.copied == write.len);
        end
    }

    /// Sends all of it: pieces from `least` bytes on without a copy, unless that is a cause to copy,
    /// and the others in chunks where `cut` says so.
    fn send_pieces<'a>(
        &'a self,
        call: &mut Call<'a>,
        write: &mut Write<'_>,
        least: Result<u32, Cause>,
        mut lending: Lending<'_>,
        cut: &mut Option<Cut>,
    ) -> Result {
        let mut given = Given::none();
        let mut causes = Causes::default();
        while write.copied < write.len {
            let copied = match least {
                Err(cause) => Some((cause, false)),
                Ok(least) => {
                    let refused = self.send_in_place(call, write, least, &mut lending)?;
                    refused.map(|(cause, later)| {
                        let left = write.len.saturating_sub(write.copied) as u64;
                        (causes.of(cause, left, write.msg.segment().1 as u64), later)
                    })
                }
            };
            let Some((cause, later)) = copied else {
                causes.lent();
                continue;
            };
            let mut left = write.left();
            if let Lending::Counted(borrowing) = &lending {
                left = borrowing.to_copy(left);
            }
            if let Some(cut) = cut {
                left = cut.next(left);
            }
            let chunk = cut.is_some();
            let Some(want) = self.look(|inner| inner.room_for(self, left, chunk)) else {
                self.net().stats.send_waits.inc();
                if let Some(cut) = cut {
                    cut.on_wait();
                }
                let lends = later || least.is_ok() && lending.has_room();
                self.wait_for_room(call, &mut write.timeo, lends)?;
                // The rest may go without a copy by now.
                continue;
            };
            let before = write.copied;
            self.send_copy(call, write, want, &mut given, &mut lending, cut)?;
            self.count_copied(cause, write.copied.saturating_sub(before) as u32);
        }
        Ok(())
    }

    /// Copies and sends the next piece, for which there is room. Without memory it waits a moment, and sends
    /// nothing.
    fn send_copy<'a>(
        &'a self,
        call: &mut Call<'a>,
        write: &mut Write<'_>,
        want: Wanted,
        given: &mut Given,
        lending: &mut Lending<'_>,
        cut: &mut Option<Cut>,
    ) -> Result {
        if let Lending::Told(asked) = lending {
            asked.set_copied();
        }
        if let Some(cut) = cut {
            cut.on_copying();
        }
        // A write may overshoot the limit by one fragment, as in TCP.
        let filled = self.next_fragments(call.guard()?, write.msg, want, write.flags, given);
        if filled.is_err() {
            self.look(|inner| inner.send.trim());
        }
        let (n, copied_to) = match filled {
            Ok(filled) => filled,
            // No page is free: wait for this socket's own pages.
            Err(e) if e == ENOBUFS => return self.wait_for_memory(call, &mut write.timeo),
            Err(e) => return Err(e),
        };
        let after = write.copied.wrapping_add(n as usize);
        let complete = cut.as_mut().is_some_and(|cut| cut.on_copied(n));
        let rest = after < write.len;
        let more = rest || write.has(ffi::MSG_MORE);
        let urgent = after == write.len && write.has(ffi::MSG_OOB);
        self.drive_if(|inner| {
            let queue = Queue { more, urgent };
            let taken = inner.take_over(n, copied_to, given, queue, complete && rest);
            let gathers = taken.map(|gathers| gathers && rest);
            (gathers, gathers != Ok(true))
        })?;
        write.copied = after;
        if let Some(cut) = cut {
            cut.on_posted(self);
        }
        if let Lending::Counted(borrowing) = lending {
            borrowing.on_copied(n);
        }
        Ok(())
    }

    /// Sends the next piece without a copy, if it can. If not, returns why it is copied, and whether
    /// it can be lent when an offer has ended. A piece that cannot be lent at all must not wait for
    /// that: it would not sleep.
    fn send_in_place<'a>(
        &'a self,
        call: &mut Call<'a>,
        write: &mut Write<'_>,
        least: u32,
        lending: &mut Lending<'_>,
    ) -> Result<Option<(Cause, bool)>> {
        let lent = match lending {
            Lending::Told(asked) => self.send_lent(write.msg, least, asked),
            Lending::Counted(borrowing) => Some(self.send_borrowed(write.msg, borrowing)),
            Lending::No => {
                let Write {
                    msg, timeo, copied, ..
                } = write;
                let cause = self.send_uncopied(call, msg, least, timeo, copied)?;
                return Ok(cause.map(|cause| (cause, false)));
            }
        };
        Ok(match lent {
            Some(Ok(n)) => {
                write.copied = write.copied.saturating_add(n);
                None
            }
            Some(Err(cause)) => Some((cause, false)),
            None => Some((Cause::Busy, true)),
        })
    }

    /// sendfile() or splice() has reached the end of its file after it had announced
    /// more. Takes `lock_sock`.
    pub(crate) fn splice_ends(&self) {
        let _call = self.lock();
        self.drive(|inner| {
            if let Some(engine) = inner.engine.as_mut() {
                engine.withdraw_more();
            }
        });
    }

    /// Waits until a third of the send buffer is free again, so that a writer is not
    /// woken for every message. A writer that `lends` waits until the peer has read an
    /// offer.
    fn wait_for_room<'a>(&'a self, call: &mut Call<'a>, timeo: &mut isize, lends: bool) -> Result {
        // Corked bytes must go, because they would never make room.
        self.drive(|inner| {
            if let Some(engine) = inner.engine.as_mut() {
                engine.push();
            }
        });
        self.wait_for_peer(call, timeo, || {
            if self.err() != 0 || self.shutdown_bits() & ffi::SEND_SHUTDOWN != 0 {
                return Some(Err(EPIPE));
            }
            self.note_no_space();
            let ready = self.look(|inner| {
                let room = inner.send_room(self) > self.sndbuf() / 3;
                room || lends && inner.can_lend()
            });
            ready.then_some(Ok(()))
        })?
    }
}
