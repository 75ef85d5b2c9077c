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
            threshold, //
        },
    },
    ffi,
    object::Sock,
    prelude::*,
    sock::{
        call::Call,
        wait::{
            WaitMode,
            FOREVER, //
        },
    },
    verbs::{
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
    zcopy::{
        notice::Notice,
        source::Useless, //
    },
};
use kernel::sync::Arc;

/// The address of a message's bytes in the program's memory, and the number of bytes
/// there; 0 if they are not in a program's memory.
///
/// # Safety
///
/// `msg` is the caller's message.
pub(super) unsafe fn segment(msg: *mut ffi::core::msghdr) -> (usize, usize) {
    let mut addr = 0;
    // SAFETY: The caller has promised the message.
    let len = unsafe {
        let iter = &raw const (*msg).msg_iter;
        ffi::sdp_iter_user_segment(iter.cast(), &mut addr)
    };
    (addr, len)
}

impl Sock {
    /// Sends the next piece of `msg` without a copy, and waits until it has left. Adds
    /// the number of bytes sent to `copied`. `Ok(false)` means that it must be copied.
    ///
    /// # Safety
    ///
    /// `msg` is the caller's message, and it has time to wait.
    pub(crate) unsafe fn send_uncopied<'a>(
        &'a self,
        call: &mut Call<'a>,
        msg: *mut ffi::core::msghdr,
        least: u32,
        timeo: &mut isize,
        copied: &mut usize,
    ) -> Result<bool> {
        // SAFETY: The caller has promised the message.
        let (_, len) = unsafe { segment(msg) };
        if !threshold::is_zcopy(len as u64, least) {
            return Ok(false);
        }
        let begun = self.look(|inner| {
            let may = !inner.turns.sending && inner.can_offer();
            if may {
                inner.turns.sending = true;
                inner.turns.dropped = 0;
            }
            may
        });
        if !begun {
            return Ok(false);
        }
        let mut sent = 0usize;
        // SAFETY: The caller has promised the message, and time to wait.
        let end = unsafe { self.offer_all(call, msg, least, timeo, &mut sent) };
        let dropped = self.drive(|inner| {
            inner.turns.sending = false;
            inner.wake().writable = true;
            core::mem::take(&mut inner.turns.dropped) as usize
        });
        let dropped = dropped.min(sent);
        // SAFETY: The message is the caller's, and was advanced by no less than this.
        unsafe { ffi::core::iov_iter_revert((&raw mut (*msg).msg_iter).cast(), dropped) };
        let sent = sent.saturating_sub(dropped);
        *copied = copied.saturating_add(sent);
        end.map(|()| sent > 0)
    }

    /// Offers piece after piece and waits until the peer has none left. Adds the number
    /// of bytes offered to `sent`.
    ///
    /// # Safety
    ///
    /// `msg` is the caller's message, and it has time to wait.
    unsafe fn offer_all<'a>(
        &'a self,
        call: &mut Call<'a>,
        msg: *mut ffi::core::msghdr,
        least: u32,
        timeo: &mut isize,
        sent: &mut usize,
    ) -> Result {
        let mut refused = false;
        let end = loop {
            // SAFETY: The caller has promised the message.
            let (_, left) = unsafe { segment(msg) };
            let more = !refused && threshold::is_zcopy(left as u64, least);
            if more && self.look(|inner| inner.can_offer()) {
                // SAFETY: The caller has promised the message; the wait below is for the offer's end.
                match unsafe { self.offer(msg, least, None) } {
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

    /// Lends the next piece of `msg` to the peer, if an offer is possible now; `asked`
    /// reports the end. Returns its length; 0 means that it must be copied.
    ///
    /// # Safety
    ///
    /// `msg` is the caller's message.
    pub(crate) unsafe fn send_lent(
        &self,
        msg: *mut ffi::core::msghdr,
        least: u32,
        asked: &Notice,
    ) -> usize {
        // SAFETY: The caller has promised the message.
        let (_, len) = unsafe { segment(msg) };
        if !threshold::is_zcopy(len as u64, least) || !self.look(|inner| inner.can_lend()) {
            return 0;
        }
        // SAFETY: The message is the caller's, and `asked` is told of the end of the offer.
        unsafe { self.offer(msg, least, Some(asked)) }.unwrap_or(0)
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
    ///
    /// # Safety
    ///
    /// `msg` is the caller's message.
    unsafe fn offer(
        &self,
        msg: *mut ffi::core::msghdr,
        least: u32,
        asked: Option<&Notice>,
    ) -> Result<usize> {
        // SAFETY: The caller has promised the message.
        let (addr, len) = unsafe { segment(msg) };
        let (tenant, owner) = self.look(|inner| inner.tenant()).ok_or(EPIPE)?;
        let most = region::reach(addr, tenant.device().region_pages());
        let most = u32::try_from(most).unwrap_or(u32::MAX);
        let want = split::next_run(len as u64, most, least) as usize;
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
        let mut region = Some(self.region_of(&tenant, owner, pages, Access::RemoteRead)?);
        let mut notice = asked.map(Notice::part).transpose()?;
        let offered = self.drive(|inner| inner.offer(&mut region, &mut notice));
        // Dropped if they were not taken; not under the endpoint's lock.
        drop((region, notice));
        offered?;
        // SAFETY: The message is the caller's, and its segment has this many bytes.
        unsafe { ffi::core::iov_iter_advance((&raw mut (*msg).msg_iter).cast(), n) };
        Ok(n)
    }

    /// Maps pinned pages for the device with a memory region, for `access`.
    pub(super) fn region_of(
        &self,
        tenant: &Tenant,
        owner: Owner,
        pages: Arc<UserPages>,
        access: Access,
    ) -> Result<Region> {
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
    pub(super) fn tenant(&self) -> Option<(Tenant, Owner)> {
        let link = self.link.as_ref()?;
        Some((link.qp().domain().tenant().clone(), link.keeper.owner()))
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
    fn offer(&mut self, region: &mut Option<Region>, notice: &mut Option<KBox<Notice>>) -> Result {
        let (Some(link), Some(engine)) = (self.link.as_mut(), self.engine.as_mut()) else {
            return Err(EPIPE);
        };
        let mut given = region.take().ok_or(EINVAL)?;
        if !link.can_register() || !given.is_of(link.qp().domain().tenant()) {
            *region = Some(given);
            return Err(EAGAIN);
        }
        self.send.reserve()?;
        link.source.reserve()?;
        let stale = given.begin();
        let pages = given.pages().clone();
        let len = u32::try_from(pages.len()).map_err(|_| EMSGSIZE)?;
        let run = Run {
            len,
            r_key: given.key(),
            va: given.start(),
            inline: 0,
        };
        if engine.peer().pipelined && engine.send_mode() == Mode::Combined {
            // In Pipelined mode no bytes are inline, and several runs are offered at a
            // time. Refused, the run is offered in Combined mode.
            let _ = engine.request_pipelined();
        }
        let Ok(id) = engine.queue_run(run) else {
            *region = Some(given);
            return Err(EAGAIN);
        };
        // Ahead of the offer, which leaves when the engine is asked next.
        let posted = link.register(&mut given, stale);
        if posted.is_err() {
            engine.handle_link_failed();
        }
        // Room was reserved for both.
        self.send.push_pinned(pages, len)?;
        let awaited = u32::from(notice.is_none());
        link.source.push(id, len, given, notice.take())?;
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
        let done = link.chores_done();
        while let Some(useless) = link.source.take_useless(done) {
            match useless {
                Useless::Key(key) if link.revoke(key).is_err() => engine.handle_link_failed(),
                Useless::Key(_) => {}
                Useless::Region(region) => link.keep(sock, region),
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
