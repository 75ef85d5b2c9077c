// SPDX-License-Identifier: GPL-2.0

//! splice(2) from a socket into a pipe.
//!
//! The rest of a received message moves with its page, and a fresh buffer replaces it
//! before the page is given away. So no page in a pipe is ever posted again, and a pipe
//! that nobody reads holds no credits. Bytes are copied if only a part is wanted, if
//! there are few, or if there is no memory for another buffer.
//!
//! Contexts: process context, with the pipe locked, as for every socket: meanwhile
//! nobody else adds to it or takes from it. Otherwise as recvmsg(2).

use crate::{
    endpoint::Inner,
    ffi,
    object::Sock,
    prelude::*,
    queue::Frag,
    sock::recv::Next,
    verbs::buffer::Page,
    zcopy::recv::Presence, //
};
use kernel::page::PAGE_SIZE;

/// Shorter ranges are copied: a page of copies holds as much, from several messages,
/// while a receive buffer takes up to 32 KiB.
const GIVE_LEAST: usize = PAGE_SIZE;

/// The end of a locked pipe that has readers.
///
/// # Invariants
///
/// `pipe` is locked as long as this exists. If `copying`, its newest buffer was
/// added by [`PipeEnd::copy`].
struct PipeEnd {
    pipe: *mut ffi::pipe_inode_info,
    copying: bool,
}

impl PipeEnd {
    fn has_room(&self) -> bool {
        // SAFETY: The pipe is locked.
        unsafe { ffi::sdp_pipe_has_room(self.pipe) }
    }

    /// Adds bytes with their page. There is room.
    fn give(&mut self, frag: Frag) {
        let page = frag.page.into_raw();
        // SAFETY: The pipe is locked and has room; the reference goes with the page.
        unsafe { ffi::sdp_pipe_give(self.pipe, page, frag.offset, frag.len) };
        self.copying = false;
    }

    /// Adds a copy of up to `len` bytes of `page`. Returns how many; 0 if there is
    /// no room.
    fn copy(&mut self, page: &Page, offset: u32, len: usize) -> Result<usize> {
        // SAFETY: The pipe is locked; the page holds these bytes.
        let n = unsafe {
            let from = page.address().add(offset as usize);
            ffi::sdp_pipe_copy(self.pipe, from.cast(), len, self.copying)
        };
        let n = usize::try_from(n).map_err(|_| ENOMEM)?;
        // INVARIANT: It was added by this call, if there were bytes to add.
        self.copying |= n > 0;
        Ok(n)
    }
}

impl Sock {
    /// splice(2) into `pipe`. Returns the bytes moved.
    ///
    /// # Safety
    ///
    /// `pipe` is locked, and has readers.
    pub(crate) unsafe fn splice(
        &self,
        pipe: *mut ffi::core::pipe_inode_info,
        len: usize,
        nonblock: bool,
    ) -> Result<usize> {
        let mut call = self.begin();
        if self.tcp_state() == ffi::TCP_LISTEN {
            return Err(ENOTCONN);
        }
        let mut timeo = self.receive_timeout(nonblock);
        let blocking = timeo != 0;
        let mut presence = Presence::new(self);
        // INVARIANT: By the caller's promise.
        let mut end = PipeEnd {
            pipe: pipe.cast(),
            copying: false,
        };
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
        end: &mut PipeEnd,
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
                end.give(frag);
                return Ok(want);
            }
        }
        let n = end.copy(page, offset, want)?;
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
            engine.on_buffer_consumed();
            if engine.spares_wanted() > link.spares() {
                link.recycle(fresh);
            }
        }
        let segment = self.recv.take_front()?;
        // Unmapped under the lock: the device may go as soon as the link has gone.
        Some(Frag {
            page: segment.buffer.into_page(),
            offset: segment.offset,
            len: segment.len,
            extra: 0,
        })
    }
}
