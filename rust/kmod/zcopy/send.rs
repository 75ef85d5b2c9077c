// SPDX-License-Identifier: GPL-2.0

//! sendmsg(2) without a copy: Read ZCopy at the source.
//!
//! The pages of the writer are pinned, registered and offered to the peer, and the
//! writer sleeps until the peer has read them. A signal or a timeout takes the offer
//! back; the count that the program gets is exact. An obstacle (no region, memory that
//! cannot be pinned, a peer that does not read) is no error: the bytes are copied then.
//!
//! A peer that does not read declines the offer, and is sent Data until its buffers are full. As
//! TCP's, a writer does not wait for more than room in the send buffer: as soon as all that is left
//! of the call fits there, it is copied and the call returns.

use crate::{
    endpoint::Inner,
    engine::{
        conn::{
            Mode,
            Run, //
        },
        policy::{
            split,
            threshold, //
        },
    },
    ffi,
    net::msg::SendMsg,
    object::Sock,
    prelude::*,
    rdma::{
        domain::Tenant,
        kept::{
            self,
            Owner, //
        },
        mr::{
            self,
            Access, //
        },
        pages::{
            Purpose,
            UserPages, //
        },
        region::{
            self,
            Region, //
        },
    },
    sock::{
        call::Call,
        wait::WaitMode, //
    },
    zcopy::notice::Notice, //
};
use kernel::sync::Arc;

/// The next step of a send() that has offered memory.
enum Next {
    /// It offers more.
    Offer,
    /// It copies all that it has left.
    Buffer,
    /// The peer has no offer of it left.
    Done,
    /// It ends, because another thread has shut this half down.
    Shut,
}

impl Sock {
    /// Sends the next piece of `msg` without a copy, and waits until it has left. Adds
    /// the number of bytes sent to `copied`. `Ok(false)` means that it must be copied.
    pub(crate) fn send_uncopied<'a>(
        &'a self,
        call: &mut Call<'a>,
        msg: &mut SendMsg,
        least: u32,
        timeo: &mut isize,
        copied: &mut usize,
    ) -> Result<bool> {
        let (_, len) = msg.segment();
        if !threshold::is_zcopy(len as u64, least) {
            return Ok(false);
        }
        let polls = call.polls();
        let rest = msg.source().len();
        let begun = self.look(|inner| {
            let may = !inner.turns.sending && inner.can_offer() && !inner.takes_rest(self, rest);
            if may {
                inner.turns.sending = true;
                inner.turns.dropped = 0;
                if let Some(engine) = inner.engine.as_mut().filter(|_| polls) {
                    engine.hold_offers(true);
                }
            }
            may
        });
        if !begun {
            return Ok(false);
        }
        let mut sent = 0usize;
        let end = msg.undoing(|msg| {
            let end = self.offer_all(call, msg, least, timeo, &mut sent);
            let dropped = self.drive(|inner| {
                inner.turns.sending = false;
                inner.wake().writable = true;
                core::mem::take(&mut inner.turns.dropped) as usize
            });
            let dropped = dropped.min(sent);
            sent = sent.saturating_sub(dropped);
            (end, dropped)
        });
        *copied = copied.saturating_add(sent);
        end.map(|()| sent > 0)
    }

    /// Offers piece after piece and waits until the peer has none left, or what is left can be
    /// copied. Adds the number of bytes offered to `sent`.
    fn offer_all<'a>(
        &'a self,
        call: &mut Call<'a>,
        msg: &mut SendMsg,
        least: u32,
        timeo: &mut isize,
        sent: &mut usize,
    ) -> Result {
        let mut refused = false;
        let disconnects = self.disconnects();
        let end = loop {
            let (_, left) = msg.segment();
            let more = !refused && threshold::is_zcopy(left as u64, least);
            let rest = msg.source().len();
            if more && self.look(|inner| inner.can_offer() && !inner.takes_rest(self, rest)) {
                match self.offer(msg, least, None) {
                    Ok(n) => *sent = sent.saturating_add(n),
                    Err(_) => refused = true,
                }
                continue;
            }
            let waited = self.wait_settled(call, timeo, WaitMode::Signals, || {
                // Another thread may shut down this half meanwhile.
                let shut = self.shutdown_bits() & ffi::SEND_SHUTDOWN != 0;
                self.look(|inner| inner.next(self, rest, more, shut))
            });
            let done = match waited {
                // The rest is not for another peer.
                Ok(_) if self.disconnects() != disconnects => Err(EPIPE),
                Ok(Next::Offer) => Ok(false),
                Ok(Next::Buffer) => self.buffer_offered(call, timeo),
                Ok(Next::Done) => Ok(true),
                Ok(Next::Shut) => Err(EPIPE),
                Err(e) => Err(e),
            };
            match done {
                Ok(false) => {}
                Ok(true) => break Ok(()),
                Err(e) => break Err(e),
            }
        };
        if let Err(reason) = end {
            self.count_cancel(reason);
            self.buffer_part(call)?;
            self.drive(|inner| inner.withdraw(self));
            self.await_release(call)?;
        }
        // The wait for the memory may have been the one in which the peer changed.
        end.and_then(|()| {
            let same = self.disconnects() == disconnects;
            same.then_some(()).ok_or(EPIPE)
        })
    }

    /// Waits until nothing uses the memory of the call. Nothing of it is left in the stream.
    fn await_release<'a>(&'a self, call: &mut Call<'a>) -> Result {
        self.await_unused(call, || {
            self.look(|inner| (inner.turns.source_pins == 0).then_some(()))
        })
    }

    /// Takes all offers back, and copies as much of what the call has offered as the send buffer has
    /// room for: so much of it counts as sent, as with TCP.
    fn buffer_part<'a>(&'a self, call: &mut Call<'a>) -> Result {
        let recalled = self.drive(|inner| {
            let useful = inner.offered_room(self) > 0;
            if let Some(engine) = inner.engine.as_mut().filter(|_| useful) {
                engine.recall();
            }
            useful
        });
        if !recalled {
            return Ok(());
        }
        self.await_unused(call, || {
            let lent = |inner: &mut Inner| {
                let link = inner.link.as_ref();
                link.is_some_and(|link| link.source.is_awaited_lent())
            };
            (!self.look(lent)).then_some(())
        })?;
        self.drive(|inner| inner.buffer_part(self));
        Ok(())
    }

    /// Copies all that the call has offered to the send buffer, and waits until its memory is
    /// free. `Ok(false)` means that it has waited a moment because there was no memory for that.
    fn buffer_offered<'a>(&'a self, call: &mut Call<'a>, timeo: &mut isize) -> Result<bool> {
        self.drive(|inner| inner.buffer_offered(self));
        if self.look(|inner| inner.offered_left() > 0) {
            self.wait_for_memory(call, timeo)?;
            return Ok(false);
        }
        self.await_release(call)?;
        Ok(true)
    }

    /// From which length on pieces of a send() of `len` bytes go without a copy; 0 for never.
    ///
    /// A peer that announces one advertisement has zero copy off, or waits for each of them, so
    /// it gets copies unless the program has set a threshold of its own.
    pub(crate) fn source_least(&self, len: usize) -> u32 {
        self.look(|inner| {
            let pipelined = inner.engine.as_ref().is_some_and(|e| e.peer().pipelined);
            let wanted = pipelined || inner.options.zcopy_source.is_some();
            if wanted && inner.link.as_ref().is_some_and(|link| link.is_zcopy()) {
                inner.source_threshold(self).least_of(len as u64)
            } else {
                0
            }
        })
    }

    /// Lends the next piece of `msg` to the peer; `asked` reports the end. Returns its length; 0
    /// means that it must be copied, `None` that it can be lent when an offer has ended.
    pub(crate) fn send_lent(&self, msg: &mut SendMsg, least: u32, asked: &Notice) -> Option<usize> {
        let (_, len) = msg.segment();
        if !threshold::is_zcopy(len as u64, least) {
            return Some(0);
        }
        if !self.look(|inner| inner.can_lend()) {
            return None;
        }
        Some(self.offer(msg, least, Some(asked)).unwrap_or(0))
    }

    /// Delivers a requested notice behind the notices of memory that is still lent.
    pub(crate) fn tell(&self, asked: KBox<Notice>) {
        let mut asked = Some(asked);
        self.look(|inner| {
            if let Some(link) = inner.link.as_mut() {
                asked = asked
                    .take()
                    .and_then(|asked| link.source.tell_behind(asked));
            }
        });
        // Delivered now if nothing is lent; without the endpoint's lock.
        drop(asked);
    }

    /// Offers the next piece; returns its length. `asked` reports the end of the offer,
    /// or the caller waits for it.
    fn offer(&self, msg: &mut SendMsg, least: u32, asked: Option<&Notice>) -> Result<usize> {
        let (addr, len) = msg.segment();
        let want = self.run_len(addr, len, least)?;
        let purpose = match asked {
            Some(_) => Purpose::Lend,
            None => Purpose::Read { stay: self.keeps() },
        };
        let pages = self.pin(addr, want, purpose)?;
        if !threshold::is_zcopy(pages.len() as u64, least) {
            self.count(|t| &t.pin_failures, 1);
            return Err(EFAULT);
        }
        let n = pages.len();
        let mut region = Some(self.region_of(pages, Access::RemoteRead)?);
        let mut notice = asked.map(Notice::part).transpose()?;
        let offered = self.drive(|inner| inner.offer(&mut region, &mut notice));
        // Dropped if they were not taken; not under the endpoint's lock.
        drop((region, notice));
        offered?;
        msg.source().advance(n);
        Ok(n)
    }

    /// Length of the next run of the `len` bytes at `addr`, as far as one region reaches.
    pub(super) fn run_len(&self, addr: usize, len: usize, least: u32) -> Result<usize> {
        let region_pages = self.look(|inner| inner.region_pages()).ok_or(EPIPE)?;
        let most = region::reach(addr, region_pages);
        let most = u32::try_from(most).unwrap_or(u32::MAX);
        Ok(split::next_run(len as u64, most, least) as usize)
    }

    /// Maps pinned pages for the device with a memory region, for `access`.
    ///
    /// The device's removal waits for the tenant, so it is looked up after the pages are
    /// pinned: a program can make that last.
    pub(super) fn region_of(&self, pages: Arc<UserPages>, access: Access) -> Result<Region> {
        let (tenant, owner) = self.look(|inner| inner.tenant()).ok_or(EPIPE)?;
        if let Some(region) = self.find_kept(owner, &pages, access) {
            return Ok(region);
        }
        let most = self.net().knobs().zcopy_regions;
        let (region, origin) = loop {
            match tenant.take_region(most) {
                Err(_) if self.evict(kept::evict_of_device(tenant.device())) => {}
                taken => break taken.inspect_err(|_| self.count(|t| &t.region_shortages, 1))?,
            }
        };
        match origin {
            mr::Origin::Reused => self.count(|t| &t.region_hits, 1),
            mr::Origin::Made => self.count(|t| &t.region_misses, 1),
        }
        Region::new(region, pages, access).inspect_err(|_| self.count(|t| &t.pin_failures, 1))
    }
}

impl Inner {
    /// The owner of the connection's regions, and of its cached regions.
    fn tenant(&self) -> Option<(Tenant, Owner)> {
        let link = self.link.as_ref()?;
        Some((link.qp().domain().tenant().clone(), link.keeper.owner()))
    }

    /// Maximum number of pages of one region on the connection's device.
    pub(super) fn region_pages(&self) -> Option<u32> {
        Some(self.link.as_ref()?.qp().device().region_pages())
    }

    /// Whether a run can be offered now.
    fn can_offer(&self) -> bool {
        match (self.link.as_ref(), self.engine.as_ref()) {
            (Some(link), Some(engine)) => link.can_register() && engine.run_room() > 0,
            _ => false,
        }
    }

    /// Whether memory can be lent now.
    pub(crate) fn can_lend(&self) -> bool {
        !self.turns.sending && self.can_offer()
    }

    /// Bytes that the current send() has offered and that have not left.
    fn offered_left(&self) -> u32 {
        let link = self.link.as_ref();
        link.map_or(0, |link| link.source.awaited_left())
    }

    /// Whether the current send(), which has `rest` bytes that it has not offered, is to copy all
    /// that it has left: the peer does not take it, and SO_SNDBUF has room for it.
    fn takes_rest(&mut self, sock: &Sock, rest: usize) -> bool {
        self.turns.rest = rest;
        self.is_taken(sock)
    }

    fn is_taken(&self, sock: &Sock) -> bool {
        if !self.engine.as_ref().is_some_and(|e| e.awaits_buffers()) {
            return false;
        }
        let left = self.turns.rest.saturating_add(self.offered_left() as usize);
        left <= self.offered_room(sock) as usize
    }

    /// Room in SO_SNDBUF for bytes that the current send() has offered.
    fn offered_room(&self, sock: &Sock) -> u32 {
        let others = self.charged().saturating_sub(self.offered_left());
        sock.sndbuf().saturating_sub(others)
    }

    /// Wakes a send() that sleeps until the peer has read what it has offered, if it can copy that
    /// now.
    pub(crate) fn settle_offered(&mut self, sock: &Sock) {
        if self.turns.sending && self.is_taken(sock) && self.offered_left() > 0 {
            self.wake().settled = true;
        }
    }

    /// The next step of the current send(); `None`: it sleeps. It has `rest` bytes that it has not
    /// offered, and may offer `more` of them.
    fn next(&mut self, sock: &Sock, rest: usize, more: bool, shut: bool) -> Option<Next> {
        let idle = self.turns.source_pins == 0;
        let copies = self.takes_rest(sock, rest);
        if copies && self.offered_left() > 0 {
            return Some(Next::Buffer);
        }
        if more && !copies && self.can_offer() {
            return Some(Next::Offer);
        }
        match (idle, shut) {
            (true, _) => Some(Next::Done),
            (false, true) => Some(Next::Shut),
            (false, false) => None,
        }
    }

    /// Copies as much of what the current send() has offered, and the peer can't read any more, as
    /// SO_SNDBUF has room for.
    fn buffer_part(&mut self, sock: &Sock) {
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
        let run = link.source.on_copied(pages, len);
        if run.is_some_and(|run| engine.on_copied(run, len).is_err()) {
            // Not expected: the run was returned, and both count alike.
            self.break_off(sock);
        }
        Ok(())
    }

    /// Has everything copied that a call waits for and that the peer has no offer of.
    fn buffer_offered(&mut self, sock: &Sock) {
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
        self.turns.source_pins = self.turns.source_pins.saturating_add(awaited);
        Ok(())
    }

    /// Takes the bytes that have not left out of the stream again.
    fn withdraw(&mut self, sock: &Sock) {
        let (Some(link), Some(engine)) = (self.link.as_mut(), self.engine.as_mut()) else {
            return;
        };
        let oldest = link.source.oldest_awaited();
        if oldest.is_some_and(|id| engine.withdraw(id).is_err()) {
            // Not expected: nothing is queued behind a run that a call waits for.
            self.break_off(sock);
        }
    }

    /// Invalidates the keys of runs that nothing needs any more, or caches their
    /// regions, and drops runs that have ended.
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
        while link.source.has_useless() {
            if link.reserve_revoke().is_err() {
                sock.refill_soon();
                break;
            }
            match link.take_useless() {
                Some(Err(key)) if link.revoke(key).is_err() => engine.handle_link_failed(),
                Some(Err(_)) => {}
                Some(Ok(region)) => link.keep(sock, region),
                None => break,
            }
        }
        while let Some(over) = self.link.as_mut().and_then(|link| link.source.reap()) {
            let awaited = over.awaited.into();
            self.turns.source_pins = self.turns.source_pins.saturating_sub(awaited);
            let wake = self.wake();
            wake.settled = true;
            wake.writable = true;
            wake.notices.append(over.notices);
        }
    }
}
