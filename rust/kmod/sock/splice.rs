// SPDX-License-Identifier: GPL-2.0

//! splice(2) from a socket into a pipe.
//!
//! The rest of a received message moves with its page, and a fresh buffer replaces it
//! before the page is given away. So no page in a pipe is ever posted again, and a pipe
//! that no program reads holds no credits. Bytes are copied if only a part is wanted, if
//! there are few, or if there is no memory for another buffer.
//!
//! Contexts: process context, with the pipe locked, as for every socket: meanwhile
//! no other task adds to it or takes from it. Otherwise as recvmsg(2).

use crate::{
    endpoint::Inner,
    ffi,
    net::splice::{
        PipeEnd,
        Splice, //
    },
    object::Sock,
    prelude::*,
    queue::Frag,
    rdma::page::Page,
    sock::recv::Next,
    zcopy::recv::Presence, //
};
use kernel::page::PAGE_SIZE;

/// Shorter ranges are copied: a page of copies holds as much, from several messages,
/// while a receive buffer takes up to 32 KiB.
const GIVE_LEAST: usize = PAGE_SIZE;

impl Sock {
    /// splice(2) into a pipe. Returns the bytes moved.
    pub(crate) fn splice(&self, splice: &mut Splice<'_>) -> Result<usize> {
        let mut call = self.begin();
        if self.tcp_state() == ffi::TCP_LISTEN {
            return Err(ENOTCONN);
        }
        let mut timeo = self.receive_timeout(splice.is_nonblocking());
        let blocking = timeo != 0;
        let mut presence = Presence::new(self);
        let len = splice.len();
        let mut end = splice.pipe();
        let mut moved = 0usize;
        while moved < len {
            // The option may change while this call sleeps, as in recvmsg(2).
            let inline = self.flag(ffi::sock_flags_SOCK_URGINLINE);
            match self.look(|inner| inner.next_bytes(0, moved > 0, inline)) {
                Next::Bytes(page, offset, there) => {
                    let want = (there as usize).min(len.wrapping_sub(moved));
                    match self.move_bytes(&mut end, &page, offset, want) {
                        Ok(0) if moved == 0 => return Err(EAGAIN),
                        Ok(0) => break,
                        Ok(n) => moved = moved.wrapping_add(n),
                        Err(_) if moved > 0 => break,
                        Err(e) => return Err(e),
                    }
                }
                Next::SkipUrgent => self.drive(|inner| inner.skip_urgent()),
                Next::Mark => break,
                Next::Nothing if moved > 0 => break,
                Next::Nothing => {
                    if blocking {
                        presence.begin();
                    }
                    self.fetch_remote(blocking);
                    if !self.wait_for_data(&mut call, &mut timeo, false, 0)? {
                        break;
                    }
                }
            }
        }
        Ok(moved)
    }

    /// Moves up to `want` bytes, the next to be read, which are in `page`. Returns
    /// their number; 0 if the pipe is full.
    fn move_bytes(
        &self,
        end: &mut PipeEnd<'_>,
        page: &Page,
        offset: u32,
        want: usize,
    ) -> Result<usize> {
        if want >= GIVE_LEAST {
            if !end.has_room() {
                return Ok(0);
            }
            if let Some(frag) = self.drive(|inner| inner.take_whole(want as u32)) {
                self.net().stats.given_bytes.add(frag.len);
                let page = frag.page.into_raw();
                // SAFETY: The reference is ours, and goes over, because there is room. The page
                // holds the bytes, and was taken from the link.
                unsafe { end.give(page, frag.offset, frag.len) }?;
                return Ok(want);
            }
        }
        // SAFETY: The page holds these bytes, by the invariant of `RecvQueue`.
        let bytes = unsafe {
            let from = page.address().add(offset as usize);
            core::slice::from_raw_parts(from, want)
        };
        let n = end.copy(bytes)?;
        if n > 0 {
            self.consume(n as u32);
        }
        Ok(n)
    }
}

impl Inner {
    /// Takes the next `len` bytes out of the queue with their page, if they are all
    /// that is left in it, and if the link has a fresh buffer as a replacement.
    fn take_whole(&mut self, len: u32) -> Option<Frag> {
        let front = self.recv.front()?;
        if front.len != len {
            return None;
        }
        if let (Some(link), Some(engine), true) =
            (self.link.as_mut(), self.engine.as_mut(), front.is_of_link())
        {
            let fresh = link.fresh_buffer(engine.rcv_size())?;
            if front.ends_message() {
                engine.on_buffer_consumed();
            }
            link.recycle_if_wanted(fresh, engine.spares_wanted());
        }
        let segment = self.recv.take_front()?;
        // Unmapped under the lock: the device may go as soon as the link has gone.
        let part = segment.buffer.into_part();
        let start = u32::try_from(part.start()).ok()?;
        Some(Frag {
            offset: start.saturating_add(segment.offset),
            page: part.into_page(),
            len: segment.len,
            extra: 0,
        })
    }
}
