// SPDX-License-Identifier: GPL-2.0

//! The memory of a waiting reader, for Reads or for an offer to the peer. It is pinned
//! at the start of the reader's turn and returned at its end, wherever the program has
//! its memory then. The values that its users share are here as well.

use crate::{
    net::{
        account::Need,
        msg::RecvMsg,
        task::is_killed, //
    },
    object::Sock,
    prelude::*,
    queue::{
        Kind,
        RxBuffer,
        Segment, //
    },
    rdma::{
        mr::Access,
        pages::{
            Delivered,
            Purpose,
            UserPages, //
        },
        region::{
            self,
            Region, //
        },
    },
    zcopy::reads::FETCH_LEN, //
};
use kernel::sync::Arc;

/// The kind of read.
pub(crate) struct Wish {
    /// Room that is left.
    pub(crate) room: usize,
    /// The call may block.
    pub(crate) blocking: bool,
    /// It consumes the bytes and wants to see them (neither peek nor MSG_TRUNC).
    pub(crate) plain: bool,
    /// It does not have enough bytes yet.
    pub(crate) hungry: bool,
    /// So many bytes are missing until it has enough.
    pub(crate) missing: usize,
}

impl Sock {
    /// Pins `len` bytes of the memory from `addr` on, which has `room`, as far as one region reaches, and
    /// maps them for the device with `access`.
    pub(super) fn pin_room(
        &self,
        region_pages: u32,
        addr: usize,
        (len, room): (usize, usize),
        access: Access,
    ) -> Result<(Region, Arc<UserPages>)> {
        let reach = region::reach(addr, region_pages);
        let pages = self.pin(addr, (len.min(reach), room.min(reach)), 0, Purpose::Write)?;
        let region = self.region_of(pages.clone(), access)?;
        Ok((region, pages))
    }

    /// Ends the turn to read with the result `end`, and advances `msg` behind the bytes
    /// received.
    pub(super) fn end_reading(&self, msg: &mut RecvMsg, end: Result<usize>) -> Result<usize> {
        self.drive(|inner| {
            inner.turns.read.give_back();
            inner.wake().readable = true;
        });
        let n = end?;
        msg.dest().advance(n);
        Ok(n)
    }

    /// Delivers the received bytes of `pages` to the memory that the program has now.
    /// Returns their number.
    pub(super) fn deliver_filled(&self, pages: &Arc<UserPages>) -> Result<usize> {
        let (filled, generation) = self.look(|inner| {
            let turn = &inner.turns.read;
            (turn.filled(), turn.generation())
        });
        let filled = filled as usize;
        if is_killed() {
            // Other programs with the socket get them.
            self.put_back(pages, 0, filled, generation);
            return Err(EINTR);
        }
        let delivered = self.deliver(pages, filled, generation);
        if delivered.len == 0 && filled > 0 && !delivered.tangled {
            return Err(EFAULT);
        }
        Ok(delivered.len)
    }

    /// Delivers the first `filled` bytes of `pages`, which no other read has, to the memory that
    /// the program has now. The others are queued again: the reader takes them from there, if the
    /// socket still has the connection with this `generation`.
    pub(crate) fn deliver(&self, pages: &UserPages, filled: usize, generation: u64) -> Delivered {
        let delivered = pages.deliver(filled);
        let left = filled.saturating_sub(delivered.len);
        let changed = delivered.copied.saturating_add(left);
        let changed = u32::try_from(changed).unwrap_or(u32::MAX);
        self.count(|t| &t.changed_bytes, changed);
        if left > 0 {
            self.put_back(pages, delivered.len, filled, generation);
        }
        delivered
    }

    /// Queues the bytes from `from` to `to`, to be read and copied: the program no
    /// longer has memory for them, or they are in pages that are the target of other
    /// bytes.
    fn put_back(&self, pages: &UserPages, from: usize, to: usize, generation: u64) {
        let mut end = to;
        while end > from {
            let start = end.saturating_sub(FETCH_LEN as usize).max(from);
            let buffer = RxBuffer::without_device(self, FETCH_LEN as usize, Need::Least);
            let kept = buffer.and_then(|buffer| {
                pages.copy_to(start, end.saturating_sub(start), buffer.part().page())?;
                self.look(|inner| {
                    if inner.generation() != generation {
                        return Err(EPIPE);
                    }
                    inner.recv.put_back(Segment {
                        buffer,
                        offset: 0,
                        len: end.saturating_sub(start) as u32,
                        kind: Kind::Aside,
                    })
                })
            });
            if kept.is_err() {
                // A connection that has lost bytes must not go on.
                self.drive(|inner| inner.lose_bytes(self, generation));
                return;
            }
            end = start;
        }
    }
}
