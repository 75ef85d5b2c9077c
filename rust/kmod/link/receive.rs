// SPDX-License-Identifier: GPL-2.0

//! The buffers of a link: made, posted, filled.
//!
//! Contexts: under the endpoint's lock.

use crate::{
    account::Need,
    cm::{
        RX_INITIAL,
        RX_LEAST, //
    },
    engine::conn::Connection,
    ffi,
    link::{
        Callbacks,
        Link, //
    },
    prelude::*,
    verbs::buffer::RxBuffer, //
};
use kernel::time::{
    Delta,
    Instant, //
};

/// Time until a cgroup that had no room is asked again.
const TIGHT_MS: i64 = 100;

impl Link {
    /// A buffer of `size` bytes: a spare one, if it is of that size.
    fn rx_buffer(&mut self, size: usize, need: Need) -> Result<RxBuffer> {
        while let Some(buffer) = self.spare.pop() {
            if buffer.size() == size {
                return Ok(buffer);
            }
        }
        self.new_buffer(size, need)
    }

    fn new_buffer(&self, size: usize, need: Need) -> Result<RxBuffer> {
        // SAFETY: The socket is referenced by the origin. A buffer is dropped with the link,
        // before its lease, or loses its mapping when the link goes: `RecvQueue::unmap`.
        unsafe { RxBuffer::new(self.origin.sock.sk(), self.qp.device(), size, need) }
    }

    /// Makes spare buffers of `size` bytes: as many as keep a connection going
    /// when there is no memory for more, because they come back after use.
    /// Returns whether there was memory for them. May sleep.
    pub(crate) fn stock(&mut self, size: u16, count: u16) -> bool {
        if !self.leaves_room() {
            return false;
        }
        let made = (0..count).all(|_| {
            let buffer = self.new_buffer(size.into(), Need::Growth);
            buffer.is_ok_and(|buffer| self.spare.push(buffer, GFP_KERNEL).is_ok())
        });
        if !made {
            self.origin.sock.net().stats.rx_alloc_failures.inc();
        }
        made
    }

    /// Allocates memory for larger buffers if `engine` wants them larger than `size`,
    /// or has the engine decline them.
    pub(crate) fn grow(&mut self, engine: &mut Connection, size: u16) {
        let larger = engine.rcv_size();
        if larger > size && !self.stock(larger, RX_LEAST) {
            engine.keep_rcv_size();
        }
    }

    /// A replacement of `size` bytes for a buffer that does not come back. None if that
    /// would take the last memory of the socket's cgroup or of all sockets. May sleep.
    pub(crate) fn fresh_buffer(&mut self, size: u16) -> Option<RxBuffer> {
        if !self.leaves_room() {
            return None;
        }
        self.new_buffer(size.into(), Need::Growth).ok()
    }

    /// Whether `count` receive buffers can be allocated without taking the last memory
    /// of the socket's cgroup or of all sockets. May sleep.
    pub(crate) fn has_room(&mut self, count: u16) -> bool {
        count <= self.spares() || self.leaves_room()
    }

    fn leaves_room(&mut self) -> bool {
        if self.origin.sock.is_memory_tight() {
            return false;
        }
        if self
            .tight_until
            .is_some_and(|until| (until - Instant::now()).as_millis() > 0)
        {
            return false;
        }
        // SAFETY: The socket is referenced by the origin.
        let room = unsafe { ffi::sdp_leaves_room(self.origin.sock.sk()) };
        self.tight_until = (!room).then(|| Instant::now() + Delta::from_millis(TIGHT_MS));
        if !room {
            self.origin.sock.net().stats.rx_alloc_failures.inc();
        }
        room
    }

    /// Number of spare receive buffers.
    pub(crate) fn spares(&self) -> u16 {
        u16::try_from(self.spare.len()).unwrap_or(u16::MAX)
    }

    /// Posts the receive buffers that a connection begins with; ENOBUFS without memory
    /// for them.
    pub(crate) fn post_first(&mut self, engine: &mut Connection) -> Result {
        let posted = self.post_receives(RX_INITIAL, 0, engine.rcv_size());
        engine.on_receives_posted(posted);
        if posted < RX_INITIAL {
            return Err(ENOBUFS);
        }
        Ok(())
    }

    /// Posts up to `count` receive buffers of `size` bytes; the connection needs
    /// `least` of them to go on. Returns the number posted. Less than `count` means
    /// that memory ran out, or that the queue pair is broken.
    pub(crate) fn post_receives(&mut self, count: u16, least: u16, size: u16) -> u16 {
        let mut done = 0u16;
        while done < count {
            // Reserve the slot first, so that no buffer is lost if that fails.
            let room = self.posted.reserve(GFP_KERNEL);
            let need = if done < least {
                Need::Least
            } else {
                Need::Growth
            };
            let buffer = room.and_then(|()| self.rx_buffer(size.into(), need));
            let Ok(buffer) = buffer else {
                self.origin.sock.net().stats.rx_alloc_failures.inc();
                break;
            };
            let Some(mapping) = buffer.mapping() else {
                break;
            };
            mapping.sync_for_device(0, size.into());
            let addr = mapping.addr();
            // SAFETY: `size` bytes are mapped there. The buffer goes into `posted`, which
            // has room and gives it back when the receive has completed, and is dropped
            // behind the queue pair.
            let posted = unsafe { self.qp.post_receive::<Callbacks>(addr, size.into()) };
            if posted.is_err() {
                self.recycle(buffer);
                break;
            }
            // Room was reserved, so every posted buffer has its slot.
            let _ = self.posted.push(buffer, GFP_KERNEL);
            done = done.saturating_add(1);
        }
        done
    }

    /// The buffer of the receive that just completed with `len` bytes.
    pub(crate) fn take_received(&mut self, len: u32) -> Option<RxBuffer> {
        let buffer = self.posted.pop()?;
        if let Some(mapping) = buffer.mapping() {
            mapping.sync_for_cpu(usize::try_from(len).unwrap_or(0));
        }
        Some(buffer)
    }

    /// Makes a buffer a spare.
    pub(crate) fn recycle(&mut self, buffer: RxBuffer) {
        // If the push fails, the buffer is freed and allocated again later.
        let _ = self.spare.push(buffer, GFP_KERNEL);
    }
}
