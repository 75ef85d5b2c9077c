// SPDX-License-Identifier: GPL-2.0

//! sendmsg(2) without a copy: Read ZCopy at the source.
//!
//! The pages of the writer are pinned, registered and offered to the peer, and the
//! writer sleeps until the peer has read them. A signal or a timeout withdraws the
//! offer; the count that the program gets is exact. An obstacle (no region, memory that
//! cannot be pinned, a peer that does not read) is no error: the bytes are copied then.

use crate::{
    endpoint::Inner,
    engine::{
        conn::{
            Mode,
            Run, //
        },
        policy::{
            split,
            threshold::{
                self,
                Threshold, //
            }, //
        },
    },
    net::msg::SendMsg,
    object::Sock,
    prelude::*,
    rdma::{
        domain::Tenant,
        kept::{
            self,
            Owner, //
        },
        mr,
        pages::{
            Purpose,
            UserPages, //
        },
        qp::Access,
        region::{
            self,
            Region, //
        },
    },
    sock::{
        call::Call,
        wait::{
            WaitMode,
            FOREVER, //
        },
    },
    zcopy::{
        notice::Notice,
        tuning::{
            Turn,
            ASKED_LEAST,
            LEAST, //
        }, //
    },
};
use kernel::sync::Arc;

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
        let begun = self.look(|inner| {
            let may = !inner.turns.sending && inner.can_offer();
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
                inner.turns.lent |= sent > 0;
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

    /// Offers piece after piece and waits until the peer has none left. Adds the number
    /// of bytes offered to `sent`.
    fn offer_all<'a>(
        &'a self,
        call: &mut Call<'a>,
        msg: &mut SendMsg,
        least: u32,
        timeo: &mut isize,
        sent: &mut usize,
    ) -> Result {
        let mut refused = false;
        let end = loop {
            let (_, left) = msg.segment();
            let more = !refused && threshold::is_zcopy(left as u64, least);
            if more && self.look(|inner| inner.can_offer()) {
                match self.offer(msg, least, None) {
                    Ok(n) => *sent = sent.saturating_add(n),
                    Err(_) => refused = true,
                }
                continue;
            }
            let waited = self.wait_settled(call, timeo, WaitMode::Signals, || {
                self.look(|inner| {
                    let idle = inner.turns.source_pins == 0;
                    (idle || more && inner.can_offer()).then_some(idle)
                })
            });
            match waited {
                Ok(true) if more && self.look(|inner| inner.can_offer()) => {}
                Ok(true) => break Ok(()),
                Ok(false) => {}
                Err(e) => break Err(e),
            }
        };
        if let Err(reason) = end {
            self.count_cancel(reason);
            self.drive(Inner::withdraw);
            // The wait is bounded: by the engine's timer for the answer, and by the
            // transport for requests in flight.
            let mut forever = FOREVER;
            self.wait_settled(call, &mut forever, WaitMode::Endless, || {
                self.look(|inner| (inner.turns.source_pins == 0).then_some(()))
            })?;
        }
        end
    }

    /// A send() of `len` bytes begins that may wait. Returns the length from which its pieces go
    /// without a copy, 0 for never, and the turn that `end_send_turn` takes.
    pub(crate) fn begin_send_turn(
        &self,
        msg: &mut SendMsg,
        len: usize,
        asked: bool,
    ) -> (u32, Option<Turn>) {
        match self.source_threshold() {
            Threshold::Off => (0, None),
            Threshold::From(least) => (least, None),
            Threshold::Auto if len < LEAST as usize => (0, None),
            Threshold::Auto if asked => {
                let may = self.look(|inner| inner.may_tune());
                (if may { ASKED_LEAST } else { 0 }, None)
            }
            Threshold::Auto => {
                let (_, segment) = msg.segment();
                let turn = (segment >= LEAST as usize)
                    .then(|| self.look(|inner| inner.begin_send(self, segment as u64, len as u64)));
                let turn = turn.flatten();
                (turn.as_ref().map_or(0, |turn| turn.least), turn)
            }
        }
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

    /// Delivers a requested notice behind those of memory that is still lent.
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
    fn withdraw(&mut self) {
        let (Some(link), Some(engine)) = (self.link.as_mut(), self.engine.as_mut()) else {
            return;
        };
        let oldest = link.source.oldest_awaited();
        if oldest.is_some_and(|id| engine.withdraw(id).is_err()) {
            // Not expected: nothing is queued behind a run that a call waits for.
            engine.abort();
        }
    }

    /// Invalidates the keys of runs that nothing needs any more, or caches their
    /// regions, and drops runs that have ended.
    pub(crate) fn tend_runs(&mut self, sock: &Sock) {
        let (Some(link), Some(engine)) = (self.link.as_mut(), self.engine.as_mut()) else {
            return;
        };
        while let Some(pages) = link.source.next_to_copy() {
            // Without memory for it the run goes on as it is.
            if self.send.copy_pinned(sock, &pages).is_ok() {
                link.source.on_copied(&pages);
            }
        }
        while let Some(useless) = link.take_useless() {
            match useless {
                Err(key) if link.revoke(key).is_err() => engine.handle_link_failed(),
                Err(_) => {}
                Ok(region) => link.keep(sock, region),
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
