// SPDX-License-Identifier: GPL-2.0

//! sendmsg(2): BCopy, and the start of zero copy.
//!
//! Bytes are copied into page fragments of the socket without the endpoint's
//! lock, then handed over under it; one handover per fragment, which is up to
//! 32 KiB, or per chunk: see `chunks`.

use crate::{
    endpoint::Inner,
    engine::conn::Queue,
    ffi,
    net::msg::SendMsg,
    object::Sock,
    prelude::*,
    rdma::page::Page,
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

impl Sock {
    /// sendmsg(2). Returns the bytes taken over.
    pub(crate) fn send(&self, msg: &mut SendMsg, len: usize) -> Result<i32> {
        let flags = msg.flags();
        let mut copied = 0usize;
        let mut call = self.begin();
        self.catch_up();
        let result = self.send_locked(&mut call, msg, len, flags, &mut copied);
        drop(call);
        if copied > 0 {
            return i32::try_from(copied).map_err(|_| EINVAL);
        }
        match result {
            Ok(()) => Ok(0),
            Err(e) => Err(self.send_error(flags, e)),
        }
    }

    fn send_locked<'a>(
        &'a self,
        call: &mut Call<'a>,
        msg: &mut SendMsg,
        len: usize,
        flags: u32,
        copied: &mut usize,
    ) -> Result {
        msg.check_controls(self)?;
        let mut timeo = self.send_timeout(flags & ffi::MSG_DONTWAIT != 0);
        self.wait_connected(call, &mut timeo)?;
        if self.err() != 0 || self.shutdown_bits() & ffi::SEND_SHUTDOWN != 0 {
            return Err(EPIPE);
        }
        if let Some(mut borrowing) = self.borrowing(msg)? {
            let lending = Lending::Counted(&mut borrowing);
            let end = self.send_all(call, msg, len, flags, lending, &mut timeo, copied);
            self.report_borrowed(call, &borrowing);
            return end;
        }
        if flags & ffi::MSG_ZEROCOPY != 0 && len > 0 {
            let evict = || self.evict_for_user();
            let asked = Notice::asked(call.guard()?, msg, len, evict)?;
            if let Some(mut asked) = asked {
                let lent = Lending::Told(&mut asked);
                let end = self.send_all(call, msg, len, flags, lent, &mut timeo, copied);
                if *copied > 0 {
                    self.tell(asked);
                } else {
                    asked.abort();
                }
                return end;
            }
        }
        self.send_all(call, msg, len, flags, Lending::No, &mut timeo, copied)
    }

    /// Sends all of `msg`. If the memory may be lent for longer than the call, it does not
    /// wait for the peer: memory is lent while there is room for offers, and a notice
    /// records copies. `call` has `lock_sock`.
    #[expect(clippy::too_many_arguments, reason = "the state of one system call")]
    fn send_all<'a>(
        &'a self,
        call: &mut Call<'a>,
        msg: &mut SendMsg,
        len: usize,
        flags: u32,
        lending: Lending<'_>,
        timeo: &mut isize,
        copied: &mut usize,
    ) -> Result {
        // A call that may not wait never waits for the peer.
        let may_wait = flags & ffi::MSG_DONTWAIT == 0 && *timeo != 0;
        let plain = flags & ffi::MSG_OOB == 0 && (may_wait || lending.outlives_call());
        let least = match &lending {
            _ if !plain => 0,
            Lending::Counted(borrowing) => borrowing.least(),
            Lending::Told(_) | Lending::No => self.source_least(len),
        };
        let copies = least == 0 && matches!(lending, Lending::No);
        let mut cut = copies.then(|| self.begin_chunks(len, flags)).flatten();
        let end = self.send_pieces(
            call, msg, len, flags, least, lending, &mut cut, timeo, copied,
        );
        if end.is_err() {
            // The run loop was left out for pieces before this one that wait for more bytes.
            self.drive_if(|inner| {
                let engine = inner.engine.as_ref();
                ((), engine.is_some_and(|engine| engine.is_gathering()))
            });
        }
        self.end_chunks(cut, *copied == len);
        end
    }

    /// Sends all of `msg`: pieces from `least` bytes on without a copy, if that is not 0, and the
    /// others in chunks where `cut` says so.
    #[expect(clippy::too_many_arguments, reason = "the state of one system call")]
    fn send_pieces<'a>(
        &'a self,
        call: &mut Call<'a>,
        msg: &mut SendMsg,
        len: usize,
        flags: u32,
        least: u32,
        mut lending: Lending<'_>,
        cut: &mut Option<Cut>,
        timeo: &mut isize,
        copied: &mut usize,
    ) -> Result {
        let mut given = Given::none();
        while *copied < len {
            let before = *copied;
            let later =
                least > 0 && self.send_in_place(call, msg, least, &mut lending, timeo, copied)?;
            if *copied > before {
                continue;
            }
            let mut left = u32::try_from(len.wrapping_sub(*copied)).unwrap_or(u32::MAX);
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
                let lends = later || least > 0 && lending.has_room();
                self.wait_for_room(call, timeo, lends)?;
                // The rest may go without a copy by now.
                continue;
            };
            if let Lending::Told(asked) = &mut lending {
                asked.set_copied();
            }
            if let Some(cut) = cut {
                cut.on_copying();
            }
            // A write may overshoot the limit by one fragment, as in TCP.
            let filled = self.next_fragments(call.guard()?, msg, want, flags, &mut given);
            if filled.is_err() {
                self.look(|inner| inner.send.trim());
            }
            let (n, copied_to) = match filled {
                Ok(filled) => filled,
                Err(e) if e == ENOBUFS => {
                    // No page is free: wait for this socket's own pages.
                    self.wait_for_memory(call, timeo)?;
                    continue;
                }
                Err(e) => return Err(e),
            };
            let after = copied.wrapping_add(n as usize);
            let complete = cut.as_mut().is_some_and(|cut| cut.on_copied(n));
            let rest = after < len;
            let more = rest || flags & ffi::MSG_MORE != 0;
            let urgent = after == len && flags & ffi::MSG_OOB != 0;
            self.drive_if(|inner| {
                let queue = Queue { more, urgent };
                let taken = inner.take_over(n, copied_to, &mut given, queue, complete && rest);
                let gathers = taken.map(|gathers| gathers && rest);
                (gathers, gathers != Ok(true))
            })?;
            *copied = after;
            if let Some(cut) = cut {
                cut.on_posted(self);
            }
            if let Lending::Counted(borrowing) = &mut lending {
                borrowing.on_copied(n);
            }
        }
        Ok(())
    }

    /// Sends the next piece without a copy, if it can, and adds its length to `copied`. Returns whether
    /// it can be lent when an offer has ended. A piece that cannot be lent at all must not wait for
    /// that: it would not sleep.
    fn send_in_place<'a>(
        &'a self,
        call: &mut Call<'a>,
        msg: &mut SendMsg,
        least: u32,
        lending: &mut Lending<'_>,
        timeo: &mut isize,
        copied: &mut usize,
    ) -> Result<bool> {
        let lent = match lending {
            Lending::Told(asked) => self.send_lent(msg, least, asked),
            Lending::Counted(borrowing) => Some(self.send_borrowed(msg, borrowing)),
            Lending::No => {
                self.send_uncopied(call, msg, least, timeo, copied)?;
                Some(0)
            }
        };
        *copied = copied.saturating_add(lent.unwrap_or(0));
        Ok(lent.is_none())
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
