// SPDX-License-Identifier: GPL-2.0

//! The runs of a writer, from the offer to the end: what the engine and completions change.
//!
//! Locks: under the endpoint's lock.

use crate::{
    endpoint::Inner,
    engine::{
        conn::{
            Mode,
            Run, //
        },
        policy::copying::Cause, //
    },
    object::Sock,
    prelude::*,
    rdma::{
        domain::Tenant,
        pages::UserPages,
        region::Region, //
    },
    zcopy::notice::Notice, //
};
use kernel::sync::Arc;

impl Inner {
    /// The owner of the connection's regions.
    pub(super) fn tenant(&self) -> Option<Tenant> {
        Some(self.link.as_ref()?.qp().domain().tenant().clone())
    }

    /// Maximum number of pages of one region on the connection's device.
    pub(super) fn region_pages(&self) -> Option<u32> {
        Some(self.link.as_ref()?.qp().device().region_pages())
    }

    /// Whether a run can be offered now.
    pub(super) fn can_offer(&self) -> bool {
        match (self.link.as_ref(), self.engine.as_ref()) {
            (Some(link), Some(engine)) => link.can_register() && engine.run_room() > 0,
            _ => false,
        }
    }

    /// Whether memory can be lent now.
    pub(crate) fn can_lend(&self) -> bool {
        !self.turns.write.is_taken() && self.can_offer()
    }

    /// Bytes that the current send() has offered and that have not left.
    pub(super) fn offered_left(&self) -> u32 {
        let link = self.link.as_ref();
        link.map_or(0, |link| link.source.awaited_left())
    }

    /// Whether the current send(), which has `rest` bytes that it has not offered, is to copy all
    /// that it has left: the peer does not take it, and SO_SNDBUF has room for it.
    pub(super) fn takes_rest(&mut self, sock: &Sock, rest: usize) -> bool {
        self.turns.write.set_rest(rest);
        self.is_rest_taken(sock)
    }

    fn is_rest_taken(&self, sock: &Sock) -> bool {
        if !self.engine.as_ref().is_some_and(|e| e.awaits_buffers()) {
            return false;
        }
        let rest = self.turns.write.rest();
        let left = rest.saturating_add(self.offered_left() as usize);
        left <= self.offered_room(sock) as usize
    }

    /// Room in SO_SNDBUF for bytes that the current send() has offered.
    pub(super) fn offered_room(&self, sock: &Sock) -> u32 {
        let others = self.charged().saturating_sub(self.offered_left());
        sock.sndbuf().saturating_sub(others)
    }

    /// Wakes a send() that sleeps until the peer has read what it has offered, if it can copy that
    /// now.
    pub(crate) fn settle_offered(&mut self, sock: &Sock) {
        if self.turns.write.is_taken() && self.is_rest_taken(sock) && self.offered_left() > 0 {
            self.wake().settled = true;
        }
    }

    /// Copies as much of what the current send() has offered, and the peer can't read any more, as
    /// SO_SNDBUF has room for.
    pub(super) fn buffer_part(&mut self, sock: &Sock) {
        let mut room = self.offered_room(sock);
        while room > 0 {
            let link = self.link.as_ref();
            let Some((pages, left)) = link.and_then(|link| link.source.awaited_rest()) else {
                break;
            };
            let len = left.min(room);
            if self.copy_run(sock, &pages, len).is_err() {
                break;
            }
            room = room.saturating_sub(len);
        }
        self.tend_runs(sock);
    }

    /// Copies the next `len` bytes of the run in `pages` to the send buffer.
    fn copy_run(&mut self, sock: &Sock, pages: &Arc<UserPages>, len: u32) -> Result {
        let (Some(link), Some(engine)) = (self.link.as_mut(), self.engine.as_mut()) else {
            return Err(EPIPE);
        };
        self.send.copy_pinned(sock, pages, len)?;
        sock.count_copied(Cause::Busy, len);
        let run = link.source.on_copied(pages, len);
        if run.is_some_and(|run| engine.on_copied(run, len).is_err()) {
            // Not expected: the run was returned, and both count alike.
            self.break_off(sock);
        }
        Ok(())
    }

    /// Has everything copied that a call waits for and that the peer has no offer of.
    pub(super) fn buffer_offered(&mut self, sock: &Sock) {
        if let (Some(link), Some(engine)) = (self.link.as_mut(), self.engine.as_mut()) {
            link.source.cut_awaited();
            engine.copy_queued();
            self.tend_runs(sock);
        }
    }

    /// Offers `region` to the peer; `notice` reports the end, or a call waits for it.
    /// Takes both on success.
    pub(super) fn offer(
        &mut self,
        region: &mut Option<Region>,
        notice: &mut Option<KBox<Notice>>,
    ) -> Result {
        let (Some(link), Some(engine)) = (self.link.as_mut(), self.engine.as_mut()) else {
            return Err(EPIPE);
        };
        if !link.can_register() {
            return Err(EAGAIN);
        }
        self.send.reserve(1)?;
        link.source.reserve()?;
        link.reserve_register()?;
        let given = region.take().ok_or(EINVAL)?;
        let pages = given.pages().clone();
        let lent = link.lend(given).map_err(|given| {
            *region = Some(given);
            EAGAIN
        })?;
        let run = Run {
            len: lent.len(),
            r_key: lent.key(),
            va: lent.start(),
            inline: 0,
        };
        if engine.peer().pipelined && engine.send_mode() == Mode::Combined {
            // In Pipelined mode no bytes are inline, and several runs are offered at a
            // time. Refused, the run is offered in Combined mode.
            let _ = engine.request_pipelined();
        }
        let Ok(id) = engine.queue_run(run) else {
            *region = link.take_back(lent);
            return Err(EAGAIN);
        };
        // Ahead of the offer, which leaves when the engine is asked next.
        if link.register(&lent).is_err() {
            engine.handle_link_failed();
        }
        // Room was reserved for both.
        self.send.push_pinned(pages.clone(), lent.len())?;
        let awaited = u32::from(notice.is_none());
        link.source.push(id, pages, lent, notice.take())?;
        self.turns.write.pin(awaited);
        Ok(())
    }

    /// Takes the bytes that have not left out of the stream again.
    pub(super) fn withdraw(&mut self, sock: &Sock) {
        let (Some(link), Some(engine)) = (self.link.as_mut(), self.engine.as_mut()) else {
            return;
        };
        let oldest = link.source.oldest_awaited();
        if oldest.is_some_and(|id| engine.withdraw(id).is_err()) {
            // Not expected: nothing is queued behind a run that a call waits for.
            self.break_off(sock);
        }
    }

    /// Invalidates the keys of runs that nothing needs any more, and drops runs that have ended.
    pub(crate) fn tend_runs(&mut self, sock: &Sock) {
        let next = |inner: &Self| {
            let fails = inner
                .engine
                .as_ref()
                .is_some_and(|engine| engine.is_failing());
            let link = inner.link.as_ref().filter(|_| !fails);
            link?.source.next_to_copy()
        };
        while let Some((pages, left)) = next(self) {
            if self.copy_run(sock, &pages, left).is_err() {
                // There is no memory for it.
                let link = self.link.as_mut();
                if link.is_some_and(|link| link.source.on_not_copied(&pages)) {
                    sock.refill_soon();
                }
                break;
            }
        }
        let (Some(link), Some(engine)) = (self.link.as_mut(), self.engine.as_mut()) else {
            return;
        };
        loop {
            match link.take_useless() {
                Ok(Some(key)) => {
                    if link.revoke(key).is_err() {
                        engine.handle_link_failed();
                    }
                }
                Ok(None) => break,
                Err(_) => {
                    sock.refill_soon();
                    break;
                }
            }
        }
        while let Some(over) = self.link.as_mut().and_then(|link| link.source.reap()) {
            self.turns.write.unpin(over.awaited.into());
            let wake = self.wake();
            wake.settled = true;
            wake.writable = true;
            wake.notices.append(over.notices);
        }
    }
}
