// SPDX-License-Identifier: GPL-2.0

//! The buffers of a link: made, posted, filled.
//!
//! [`layout`](super::layout) says in which pieces a message comes.
//!
//! Contexts: under the endpoint's lock.

use crate::{
    engine::{
        conn::{
            Connection,
            Delivery, //
        },
        wire::{
            BSDH_LEN,
            HEADER_MAX, //
        },
    },
    ffi,
    link::{
        layout::{
            Layout,
            RECEIVE_SLOT, //
        },
        Link,
        RX_INITIAL,
        RX_LEAST, //
    },
    net::{
        account::{
            Charge,
            Need, //
        },
        sk::Sk, //
    },
    netns::NetState,
    prelude::*,
    queue::{
        Kind,
        RxBuffer,
        Segment,
        Sheet, //
    },
    rdma::{
        self,
        receive::{
            Buffers,
            BUFFERS, //
        },
    }, //
};
use kernel::{
    sync::Arc,
    time::{
        Delta,
        Instant, //
    }, //
};

/// Pages of small receive buffers of an unused connection.
const FIRST_PAGES: usize = 2;

/// Time until a cgroup that had no room is asked again.
const TIGHT_MS: i64 = 100;

/// A message that has arrived.
pub(crate) struct Received {
    slot: [u8; RECEIVE_SLOT],
    buffers: Buffers<Arc<Charge>>,
}

impl Received {
    /// The first bytes of the message, which has `len`. Those that it does not have are
    /// zeroes.
    pub(crate) fn head(&self, len: usize) -> [u8; HEADER_MAX] {
        let mut head = [0; HEADER_MAX];
        let (base, more) = head.split_at_mut(BSDH_LEN);
        base.copy_from_slice(self.slot.split_at(BSDH_LEN).0);
        let there = len.saturating_sub(BSDH_LEN).min(more.len());
        if let (Some(Some(buffer)), Some(more)) = (self.buffers.first(), more.get_mut(..there)) {
            buffer.memory.memory().read(0, more);
        }
        head
    }

    /// The buffers, of a message without payload.
    pub(crate) fn into_buffers(self) -> impl Iterator<Item = RxBuffer> {
        self.buffers.into_iter().flatten().map(RxBuffer::from)
    }

    /// Gives `take` the payload of the message: what lies in the buffers, and a copy of what lies
    /// behind; with each segment, whether it is the end. Returns a buffer that the message did not
    /// need. May sleep.
    pub(crate) fn take_payload(
        &mut self,
        sk: &Sk,
        delivery: &Delivery,
        mut take: impl FnMut(Segment, bool) -> Result,
    ) -> Result<Option<RxBuffer>> {
        let mut offset = usize::from(delivery.payload_offset)
            .checked_sub(BSDH_LEN)
            .ok_or(EINVAL)?;
        let mut left = delivery.payload_len as usize;
        let mut free = None;
        let mut buffers = self.buffers.iter_mut().filter_map(Option::take).peekable();
        while let Some(buffer) = buffers.next() {
            let buffer = RxBuffer::from(buffer);
            let there = buffer.size().saturating_sub(offset).min(left);
            if there == 0 {
                free = Some(buffer);
                continue;
            }
            left = left.wrapping_sub(there);
            // A message is read with its last buffer.
            let kind = if left == 0 || buffers.peek().is_none() {
                Kind::Last
            } else {
                Kind::Piece
            };
            let segment = Segment {
                buffer,
                offset: offset as u32,
                len: there as u32,
                kind,
            };
            take(segment, left == 0)?;
            offset = 0;
        }
        if left == delivery.payload_len as usize {
            return Err(EINVAL);
        }
        match self.slot.get(BSDH_LEN..BSDH_LEN.wrapping_add(left)) {
            Some([]) => {}
            Some(bytes) => {
                let segment = Segment {
                    buffer: RxBuffer::copy_of(sk, bytes, Need::Least)?,
                    offset: 0,
                    len: left as u32,
                    kind: Kind::Aside,
                };
                take(segment, true)?;
            }
            None => return Err(EINVAL),
        }
        Ok(free)
    }
}

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

    /// The buffers of a receive, spare ones first. Those that are there come back as spares where
    /// memory for another one is lacking.
    fn rx_buffers(&mut self, layout: Layout, need: Need) -> Result<Buffers<Arc<Charge>>> {
        let mut buffers = [const { None }; BUFFERS];
        for at in 0..layout.count {
            let buffer = self.rx_buffer(layout.buffer, need);
            match buffer.and_then(|buffer| buffer.into_receive().ok_or(EINVAL)) {
                Ok(buffer) => {
                    if let Some(place) = buffers.get_mut(at) {
                        *place = Some(buffer);
                    }
                }
                Err(e) => {
                    self.recycle_all(buffers.into_iter().flatten().map(RxBuffer::from));
                    return Err(e);
                }
            }
        }
        Ok(buffers)
    }

    fn new_buffer(&mut self, size: usize, need: Need) -> Result<RxBuffer> {
        let (sock, device) = (self.origin.sock.as_sk(), self.qp.device());
        RxBuffer::of_sheet(&mut self.sheet, sock, device, size, need)
    }

    /// Makes spare buffers for messages of `size` bytes: as many as keep a connection going
    /// when there is no memory for more, because they come back after use.
    /// Returns whether there was memory for them. May sleep.
    pub(crate) fn stock(&mut self, size: u32, count: u16) -> bool {
        if !self.leaves_room() {
            return false;
        }
        let layout = Layout::new(size);
        self.posting = layout;
        let made = (0..usize::from(count).saturating_mul(layout.count)).all(|_| {
            let buffer = self.new_buffer(layout.buffer, Need::Growth);
            buffer.is_ok_and(|buffer| self.spare.push(buffer, GFP_KERNEL).is_ok())
        });
        if !made {
            self.count_failure();
        }
        made
    }

    /// Allocates memory for larger buffers if `engine` wants them larger than `size`,
    /// or has the engine decline them.
    pub(crate) fn grow(&mut self, engine: &mut Connection, size: u32) {
        let larger = engine.rcv_size();
        if larger > size && !self.stock(larger, RX_LEAST) {
            engine.keep_rcv_size();
        }
    }

    /// A replacement, for messages of `size` bytes, for a buffer that does not come back.
    /// None if that would take the last memory of the socket's cgroup or of all sockets.
    /// May sleep.
    pub(crate) fn fresh_buffer(&mut self, size: u32) -> Option<RxBuffer> {
        if !self.leaves_room() {
            return None;
        }
        self.new_buffer(Layout::new(size).buffer, Need::Growth).ok()
    }

    /// Whether `count` receive buffers can be allocated without taking the last memory
    /// of the socket's cgroup or of all sockets. May sleep.
    pub(crate) fn has_room(&mut self, count: u16) -> bool {
        count <= self.spares() || self.leaves_room()
    }

    /// There was no memory for a receive buffer.
    fn count_failure(&self) {
        let state = NetState::of_sk(self.origin.sock.as_sk());
        state.stats.rx_alloc_failures.inc();
    }

    fn leaves_room(&mut self) -> bool {
        if self.origin.sock.as_sk().is_memory_tight() {
            return false;
        }
        if self
            .tight_until
            .is_some_and(|until| (until - Instant::now()).as_millis() > 0)
        {
            return false;
        }
        // SAFETY: The socket is referenced by the origin.
        let room = unsafe { ffi::sdp_leaves_room(self.origin.sock.as_sk().sk()) };
        self.tight_until = (!room).then(|| Instant::now() + Delta::from_millis(TIGHT_MS));
        if !room {
            self.count_failure();
        }
        room
    }

    /// Number of receives that the spare buffers are enough for.
    pub(crate) fn spares(&self) -> u16 {
        let receives = self.spare.len().checked_div(self.posting.count);
        u16::try_from(receives.unwrap_or(0)).unwrap_or(u16::MAX)
    }

    pub(crate) fn has_spare_buffers(&self) -> bool {
        !self.spare.is_empty()
    }

    /// How many receive buffers a connection begins with. Of small ones there are as many as
    /// fill [`FIRST_PAGES`]: with the fewest the peer could send one of their size, and then
    /// it would have to wait.
    fn first_count(&self, size: u32) -> u16 {
        let in_page = RxBuffer::in_page(Layout::new(size).buffer);
        let small = if in_page > 1 {
            in_page.saturating_mul(FIRST_PAGES)
        } else {
            0
        };
        let small = u16::try_from(small).unwrap_or(u16::MAX);
        small.min(self.rx_depth).max(RX_INITIAL)
    }

    /// Posts the receive buffers that a connection begins with; ENOBUFS without memory
    /// for them.
    pub(crate) fn post_first(&mut self, engine: &mut Connection) -> Result {
        let size = engine.rcv_size();
        let posted = self.post_receives(self.first_count(size), 0, size);
        engine.on_receives_posted(posted);
        if posted < RX_INITIAL {
            return Err(ENOBUFS);
        }
        Ok(())
    }

    /// Posts up to `count` receives for messages of up to `size` bytes; the connection
    /// needs `least` of them to go on. Returns the number posted. Less than `count` means
    /// that memory ran out, or that the queue pair is broken.
    pub(crate) fn post_receives(&mut self, count: u16, least: u16, size: u32) -> u16 {
        let layout = Layout::new(size);
        self.posting = layout;
        let mut done = 0u16;
        while done < count {
            // Reserve the slot first, so that no buffer is lost if that fails.
            let room = self.qp.reserve_receive();
            let need = if done < least {
                Need::Least
            } else {
                Need::Growth
            };
            let buffers = room.and_then(|()| self.rx_buffers(layout, need));
            let Ok(buffers) = buffers else {
                self.count_failure();
                break;
            };
            if let Err(buffers) = self.qp.post_receive(buffers, BSDH_LEN, layout.tail) {
                self.recycle_all(buffers.into_iter().flatten().map(RxBuffer::from));
                break;
            }
            done = done.saturating_add(1);
        }
        done
    }

    /// The message of a receive that has completed. It is large, so it stays where it is put.
    #[inline(never)]
    pub(crate) fn take_received(&mut self, received: rdma::cq::Received) -> Option<Received> {
        let len = received.done.byte_len as usize;
        let (slot, buffers) = self.qp.take_received(received)?;
        let mut left = len.saturating_sub(BSDH_LEN);
        for buffer in buffers.iter().flatten() {
            let there = left.min(buffer.memory.size());
            buffer.memory.sync_for_cpu(0, there);
            left = left.wrapping_sub(there);
        }
        Some(Received { slot, buffers })
    }

    /// Frees what only further messages would need. Buffers for messages of `size` bytes
    /// that replace smaller ones stay, because the peer has been promised them.
    pub(crate) fn shrink(&mut self, size: u32) {
        let size = Layout::new(size).size();
        let first = self.qp.oldest_receive();
        let grown = first.is_none_or(|first| first >= size);
        while grown && self.spare.pop().is_some() {}
        self.spare.shrink();
        self.sheet = Sheet::default();
        self.qp.shrink_receives();
        self.qp.shrink_sends();
    }

    /// Makes a buffer a spare. One of another size than the buffers posted now is freed: the
    /// large ones of a stream go with the messages that use them up.
    pub(crate) fn recycle(&mut self, buffer: RxBuffer) {
        if self.posting.count > 0 && buffer.size() != self.posting.buffer {
            return;
        }
        // If the push fails, the buffer is freed and allocated again later.
        let _ = self.spare.push(buffer, GFP_KERNEL);
    }

    /// As [`recycle`](Self::recycle), of each.
    pub(crate) fn recycle_all(&mut self, buffers: impl Iterator<Item = RxBuffer>) {
        for buffer in buffers {
            self.recycle(buffer);
        }
    }

    /// As [`recycle`](Self::recycle), if there are fewer spares than `wanted`: a buffer that a
    /// smaller window does not need is freed.
    pub(crate) fn recycle_if_wanted(&mut self, buffer: RxBuffer, wanted: u16) {
        if self.spares() < wanted {
            self.recycle(buffer);
        }
    }
}
