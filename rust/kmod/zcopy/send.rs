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
    engine::policy::{
        copying::{
            self,
            Cause, //
        },
        split,
        threshold, //
    },
    errno,
    ffi,
    net::msg::SendMsg,
    object::Sock,
    prelude::*,
    rdma::{
        mr::Access,
        pages::{
            Purpose,
            UserPages, //
        },
        pool::Origin,
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

/// Whether the next piece of `msg` is long enough to go without a copy; if not, why it is copied. Only memory of a
/// program can be pinned.
fn is_zcopy(msg: &SendMsg, least: u32) -> Result<(), Cause> {
    match msg.segment().1 as u64 {
        0 => Err(Cause::Memory),
        len if threshold::is_zcopy(len, least) => Ok(()),
        _ => Err(Cause::Short),
    }
}

impl Sock {
    /// Sends the next piece of `msg` without a copy, and waits until it has left. Adds
    /// the number of bytes sent to `copied`. If there are none, returns why it must be copied.
    pub(crate) fn send_uncopied<'a>(
        &'a self,
        call: &mut Call<'a>,
        msg: &mut SendMsg,
        least: u32,
        timeo: &mut isize,
        copied: &mut usize,
    ) -> Result<Option<Cause>> {
        if let Err(cause) = is_zcopy(msg, least) {
            return Ok(Some(cause));
        }
        let polls = call.polls();
        let rest = msg.source().len();
        let begun = self.look(|inner| {
            let may = inner.can_lend() && !inner.takes_rest(self, rest);
            if may {
                inner.turns.write.take();
                if let Some(engine) = inner.engine.as_mut().filter(|_| polls) {
                    engine.hold_offers(true);
                }
            }
            may
        });
        if !begun {
            return Ok(Some(Cause::Busy));
        }
        let mut sent = 0usize;
        let end = msg.undoing(|msg| {
            let end = self.offer_all(call, msg, least, timeo, &mut sent);
            let dropped = self.drive(|inner| {
                inner.wake().writable = true;
                inner.turns.write.give_back()
            });
            let dropped = dropped.min(sent);
            sent = sent.saturating_sub(dropped);
            (end, dropped)
        });
        *copied = copied.saturating_add(sent);
        end.map(|refused| (sent == 0).then(|| refused.unwrap_or(Cause::Busy)))
    }

    /// Offers piece after piece and waits until the peer has none left, or what is left can be
    /// copied. Adds the number of bytes offered to `sent`. Returns why others could not be.
    fn offer_all<'a>(
        &'a self,
        call: &mut Call<'a>,
        msg: &mut SendMsg,
        least: u32,
        timeo: &mut isize,
        sent: &mut usize,
    ) -> Result<Option<Cause>> {
        let mut refused = None;
        let end = loop {
            let (_, left) = msg.segment();
            let more = refused.is_none() && threshold::is_zcopy(left as u64, least);
            let rest = msg.source().len();
            if more && self.look(|inner| inner.can_offer() && !inner.takes_rest(self, rest)) {
                match self.offer(msg, least, None) {
                    Ok(n) => *sent = sent.saturating_add(n),
                    Err(e) => refused = Some(errno::cause(e)),
                }
                continue;
            }
            let waited = self.wait_settled_for_peer(call, timeo, WaitMode::Signals, || {
                // Another thread may shut down this half meanwhile.
                let shut = self.shutdown_bits() & ffi::SEND_SHUTDOWN != 0;
                self.look(|inner| inner.next(self, rest, more, shut))
            });
            let done = match waited {
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
        end.and_then(|()| call.own_peer().check()).map(|()| refused)
    }

    /// Waits until nothing uses the memory of the call. Nothing of it is left in the stream.
    fn await_release<'a>(&'a self, call: &mut Call<'a>) -> Result {
        self.await_unused(call, || {
            self.look(|inner| (!inner.turns.write.is_pinned()).then_some(()))
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

    /// From which length on pieces of a send() of `len` bytes, which `waits` or has lent them, go
    /// without a copy; or why they do not.
    pub(crate) fn source_least(
        &self,
        msg: &SendMsg,
        len: usize,
        waits: bool,
    ) -> Result<u32, Cause> {
        let len = len as u64;
        if copying::is_always(len) {
            return Err(Cause::Short);
        }
        let first = msg.segment().1 as u64;
        self.look(|inner| {
            let threshold = inner.source_threshold(self);
            copying::least(inner.copies_all(self), threshold, len, first, waits)
        })
    }

    /// Lends the next piece of `msg` to the peer; `asked` reports the end. Returns its length, or why
    /// it must be copied; `None` means that it can be lent when an offer has ended.
    pub(crate) fn send_lent(
        &self,
        msg: &mut SendMsg,
        least: u32,
        asked: &Notice,
    ) -> Option<Result<usize, Cause>> {
        if let Err(cause) = is_zcopy(msg, least) {
            return Some(Err(cause));
        }
        if !self.look(|inner| inner.can_lend()) {
            return None;
        }
        Some(self.offer(msg, least, Some(asked)).map_err(errno::cause))
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
        if !threshold::is_zcopy(want as u64, least) {
            // No region is as long.
            return Err(EMSGSIZE);
        }
        let purpose = match asked {
            Some(_) => Purpose::Lend,
            None => Purpose::Read,
        };
        let pages = self.pin(addr, (want, want), least, purpose)?;
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
        let tenant = self.look(|inner| inner.tenant()).ok_or(EPIPE)?;
        let taken = tenant.take_region(self.net().knobs().zcopy_regions);
        let (region, origin) = taken.inspect_err(|_| self.count(|t| &t.region_shortages, 1))?;
        match origin {
            Origin::Reused => self.count(|t| &t.region_hits, 1),
            Origin::Made => self.count(|t| &t.region_misses, 1),
        }
        Region::new(region, pages, access).inspect_err(|_| self.count(|t| &t.pin_failures, 1))
    }
}

impl Inner {
    /// The next step of the current send(); `None`: it sleeps. It has `rest` bytes that it has not
    /// offered, and may offer `more` of them.
    fn next(&mut self, sock: &Sock, rest: usize, more: bool, shut: bool) -> Option<Next> {
        let idle = !self.turns.write.is_pinned();
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
}
