// SPDX-License-Identifier: GPL-2.0

//! The calls of SDP_AHEAD: a recvmsg() that returns while RDMA Reads still write to whole pages of
//! the program; waiting for these.
//!
//! The call has started all Reads that the pages need, so the peer cannot take the bytes back: they
//! come, or the connection ends. Until then the promise has the turn to read, in place of a waiting
//! reader, so no call gets later bytes of the stream before these.
//!
//! The bytes belong to the pages that the program had during the call. A program that
//! exchanges, drops or moves these pages afterwards does so to received bytes, and nothing
//! is compared or copied at the end. How the program keeps itself from touching the pages
//! is its own matter.
//!
//! Contexts: process context, may sleep. Locks: the endpoint's; recvmsg() and close()
//! hold `lock_sock`.

use super::{
    is_least,
    promise::{
        Promise,
        Promiser, //
    },
    read_value,
    room::Wish,
};
use crate::{
    endpoint::Inner,
    engine::policy::threshold,
    ffi,
    link::READ_DEPTH,
    net::{
        account::Need,
        msg::RecvMsg,
        option::OptionValue, //
    },
    object::Sock,
    prelude::*,
    queue::RxBuffer,
    rdma::{
        mr::Access,
        pages::Purpose,
        region::{
            self,
            Region, //
        },
    },
    sock::{
        call::Call,
        wait::{
            jiffies,
            WaitMode,
            FOREVER, //
        },
    },
};
use kernel::{
    error::to_result,
    page::PAGE_SIZE,
    sync::Arc,
    transmute::FromBytes, //
};

// SAFETY: It consists of numbers, without a gap.
unsafe impl FromBytes for ffi::sdp_ahead {}

/// A recvmsg() that may receive ahead.
pub(crate) struct Ahead {
    promiser: Arc<Promiser>,
    /// The promised range.
    range: Option<ffi::sdp_borrow_range>,
}

/// The situation of a call: room for `len` bytes at `addr`. Reads can be started at once for `reach` bytes;
/// the peer has offered the `first` of these together.
#[derive(Clone, Copy)]
struct Prospect {
    addr: usize,
    len: usize,
    reach: usize,
    first: usize,
}

/// The next step of such a call.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    /// Bytes in front of the first whole page, which come to buffers of the kernel.
    Head(u32),
    /// Whole pages, and bytes behind them that come to a buffer of the kernel.
    Pages(usize, u32),
    /// It goes on as an ordinary one.
    Ordinary,
}

impl Prospect {
    /// The next step of a call that is ahead from `least` bytes on, and that returns only with
    /// `missing` more bytes.
    fn step(&self, least: u32, missing: usize) -> Step {
        let head = self.addr.wrapping_neg() % PAGE_SIZE;
        let there = self.len.min(self.reach).saturating_sub(head);
        let mut tail = there % PAGE_SIZE;
        let whole = there.saturating_sub(tail);
        if there.saturating_add(head) > self.first {
            tail = 0;
        }
        let all = head.saturating_add(whole).saturating_add(tail);
        if all < missing || !threshold::is_zcopy(whole as u64, least) {
            return Step::Ordinary;
        }
        match (u32::try_from(head), u32::try_from(tail)) {
            (Ok(0), Ok(tail)) => Step::Pages(whole, tail),
            (Ok(head), Ok(_)) => Step::Head(head),
            _ => Step::Ordinary,
        }
    }
}

impl Ahead {
    /// Whether bytes were promised; the call ends with them.
    pub(crate) fn is_made(&self) -> bool {
        self.range.is_some()
    }
}

impl Sock {
    /// The promiser of the calling program.
    fn promiser(&self) -> Option<Arc<Promiser>> {
        let promiser = self.look(|inner| inner.turns.promiser.clone());
        promiser.filter(|promiser| promiser.is_of_caller())
    }

    /// The address of the calling program's counter; 0 for none.
    pub(super) fn ahead_counter(&self) -> u64 {
        self.promiser().map_or(0, |promiser| promiser.address())
    }

    /// SDP_AHEAD.
    pub(crate) fn set_ahead(&self, value: OptionValue<'_>) -> Result {
        let asked: ffi::sdp_ahead = read_value(value)?;
        if asked.reserved != 0 || !is_least(asked.least) {
            return Err(EINVAL);
        }
        if self.tcp().is_some() {
            return Err(EOPNOTSUPP);
        }
        let promiser = if asked.counter == 0 || asked.least == 0 {
            None
        } else {
            Some(Promiser::new(&asked)?)
        };
        let _call = self.lock();
        let before = self.look(|inner| {
            // Its connection is made so that the peer can offer memory.
            inner.options.borrows |= asked.least > 0;
            core::mem::replace(&mut inner.turns.promiser, promiser)
        });
        drop(before);
        Ok(())
    }

    /// SDP_AHEAD_WAIT.
    pub(crate) fn wait_ahead(&self, value: OptionValue<'_>) -> Result {
        let asked: ffi::sdp_borrow_wait = read_value(value)?;
        let promiser = self.promiser().ok_or(EINVAL)?;
        if !promiser.knows(asked.id) {
            return Err(EINVAL);
        }
        let mut timeo = match asked.timeout_ms {
            ffi::SDP_BORROW_FOREVER => FOREVER,
            ms => jiffies(ms),
        };
        self.wait_unlocked(&mut timeo, || promiser.outcome(asked.id))?
    }

    /// The means of a recvmsg() with MSG_ZEROCOPY to receive ahead, if the program has a counter and
    /// room for the report.
    pub(crate) fn ahead(&self, msg: &mut RecvMsg) -> Option<Ahead> {
        let promiser = self.promiser()?;
        // SAFETY: The message is the caller's.
        let room = unsafe { ffi::sdp_ahead_has_room(msg.as_ptr().cast()) };
        room.then_some(Ahead {
            promiser,
            range: None,
        })
    }

    /// Starts Reads into whole pages at the reader's position, if there are enough bytes for that.
    /// Returns the number of bytes that the program may be told of. `None`: the call goes on as an
    /// ordinary one; with 0 bytes in front of the pages were requested.
    pub(super) fn read_ahead<'a>(
        &'a self,
        call: &mut Call<'a>,
        msg: &mut RecvMsg,
        wish: &Wish,
        ahead: &mut Ahead,
    ) -> Option<usize> {
        let (addr, len) = msg.segment();
        let (prospect, region_pages) = self.look(|inner| {
            let engine = inner.engine.as_ref()?;
            if inner.turns.read.is_taken() || !inner.can_read_on() {
                return None;
            }
            let first = engine.next_remote().map_or(0, |remote| remote.len);
            let prospect = Prospect {
                addr,
                len: len.min(wish.room),
                reach: usize::try_from(engine.read_reach()).unwrap_or(usize::MAX),
                first: first as usize,
            };
            Some((prospect, inner.region_pages()?))
        })?;
        match prospect.step(ahead.promiser.least, wish.missing) {
            Step::Ordinary => None,
            Step::Head(head) => {
                self.drive(|inner| inner.fetch(self, true, head));
                Some(0)
            }
            // An obstacle is no error.
            Step::Pages(whole, tail) if whole <= region::reach(addr, region_pages) => {
                let least = wish.missing.saturating_sub(tail as usize);
                let range = self
                    .promise(&ahead.promiser, addr, whole, tail, least)
                    .ok()?;
                self.end_ahead(call, msg, ahead, range, tail)
            }
            Step::Pages(..) => {
                // One region takes a part of them.
                let whole = region::reach(addr, region_pages) & !(PAGE_SIZE - 1);
                let range = self
                    .promise(&ahead.promiser, addr, whole, 0, wish.missing)
                    .ok()?;
                self.end_ahead(call, msg, ahead, range, 0)
            }
        }
    }

    /// Promises up to `whole` bytes at `addr`, which are whole pages, and at least `least` ones. Then
    /// `tail` bytes behind all of them are requested.
    fn promise(
        &self,
        promiser: &Arc<Promiser>,
        addr: usize,
        whole: usize,
        tail: u32,
        least: usize,
    ) -> Result<ffi::sdp_borrow_range> {
        let pages = self.pin_alone(addr, whole, Purpose::Ahead)?;
        let n = pages.len();
        let short = n < least || tail > 0 && n < whole;
        if short || !threshold::is_zcopy(n as u64, promiser.least) {
            return Err(EFAULT);
        }
        let mut region = Some(self.region_of(pages, Access::LocalWrite)?);
        let mut promise = Some(Promise::new(promiser.clone())?);
        let begun = self.drive(|inner| inner.begin_promise(self, &mut region, tail, &mut promise));
        // Dropped if they were not taken; not under the endpoint's lock.
        drop((region, promise));
        Ok(ffi::sdp_borrow_range {
            start: addr as u64,
            len: u32::try_from(n).map_err(|_| EMSGSIZE)?,
            id: begun?,
        })
    }

    /// The pages of `range` were promised. Waits for the `tail` bytes behind them, which come first, and
    /// copies them. Returns the number of bytes.
    fn end_ahead<'a>(
        &'a self,
        call: &mut Call<'a>,
        msg: &mut RecvMsg,
        ahead: &mut Ahead,
        range: ffi::sdp_borrow_range,
        tail: u32,
    ) -> Option<usize> {
        let n = range.len as usize;
        if tail == 0 {
            ahead.range = Some(range);
            msg.dest().advance(n);
            return Some(n);
        }
        let mut forever = FOREVER;
        let came = self.wait_settled_for_peer(call, &mut forever, WaitMode::Kill, || {
            self.look(|inner| match inner.recv.peek(0) {
                None if inner.turns.read.is_promised() => None,
                found => Some(found),
            })
        });
        let killed = matches!(came, Err(e) if e == EINTR);
        let mut done = None;
        // Bytes of another connection are no tail.
        if let Ok(Some((page, offset, len))) = came {
            let len = len.min(tail) as usize;
            // SAFETY: The page is counted, and holds these bytes by the invariant of `RecvQueue`.
            let bytes = unsafe {
                let from = page.address().add(offset as usize);
                core::slice::from_raw_parts(from, len)
            };
            ahead.range = Some(range);
            msg.dest().advance(n);
            // Bytes that cannot be copied are left for the next call.
            let copied = msg.dest().copy_to_iter(bytes);
            self.consume(u32::try_from(copied).unwrap_or(0));
            done = Some(n.saturating_add(copied));
        }
        // Otherwise the program is killed, or the connection has broken before the program was told
        // of anything.
        self.drive(|inner| {
            if killed {
                // The bytes have lost their reader, and other users of the connection would miss them.
                inner.lose_bytes(self, inner.turns.read.generation());
            }
            inner.end_tail();
        });
        done
    }

    /// The end of the call: reports what it has promised. If the report cannot be written any more,
    /// the bytes are there when the call returns.
    pub(crate) fn report_ahead<'a>(
        &'a self,
        call: &mut Call<'a>,
        msg: &mut RecvMsg,
        ahead: &Ahead,
    ) -> Result {
        let Some(range) = ahead.range.as_ref() else {
            return Ok(());
        };
        // SAFETY: The message is the caller's.
        let told = to_result(unsafe { ffi::sdp_ahead_report(msg.as_ptr().cast(), range) });
        if told.is_err() {
            return self.await_promise(call, &ahead.promiser, range.id);
        }
        Ok(())
    }

    /// Waits for a promise as a blocking recv() waits for its Reads: as long as the transport
    /// allows, or until the program is killed.
    fn await_promise<'a>(
        &'a self,
        call: &mut Call<'a>,
        promiser: &Arc<Promiser>,
        id: u32,
    ) -> Result {
        let mut forever = FOREVER;
        self.wait_settled(call, &mut forever, WaitMode::Kill, || promiser.outcome(id))?
    }

    /// A program ends the connection by itself: bytes that it was promised come first. It may be a
    /// child of the one that has the memory.
    pub(crate) fn await_promises<'a>(&'a self, call: &mut Call<'a>) {
        let promiser = self.look(|inner| {
            let promise = inner.link.as_ref()?.sink.promise.as_ref();
            promise.map(|promise| promise.promiser().clone())
        });
        if let Some(promiser) = promiser.filter(|promiser| promiser.is_needed()) {
            // A failure is told by the counter.
            let _ = self.await_promise(call, &promiser, promiser.issued());
        }
    }

    /// The bytes of `promise` have come. Without the endpoint's lock.
    pub(crate) fn keep_promise(&self, promise: KBox<Promise>) {
        promise.keep();
        self.drive(|inner| inner.end_promise());
    }
}

impl Inner {
    /// Starts to read into all of `region`, which goes on without a reader, and the `tail` bytes behind
    /// it into a buffer of the kernel, which come first. Returns the number of the promise. Takes
    /// both on success.
    fn begin_promise(
        &mut self,
        sock: &Sock,
        region: &mut Option<Region>,
        tail: u32,
        promise: &mut Option<KBox<Promise>>,
    ) -> Result<u32> {
        let ready = !self.turns.read.is_taken() && self.can_read_on();
        let (Some(link), Some(engine)) = (self.link.as_mut(), self.engine.as_mut()) else {
            return Err(EPIPE);
        };
        let len = region.as_ref().map_or(0, |region| region.pages().len());
        if !ready || engine.read_reach() < len as u64 {
            return Err(EAGAIN);
        }
        let generation = link.generation();
        promise.as_ref().ok_or(EINVAL)?.can_begin(generation)?;
        let device = link.qp().device();
        let buffer = (tail > 0)
            .then(|| RxBuffer::new(sock, device, PAGE_SIZE, Need::Growth))
            .transpose()?;
        // All Reads begin at once, and one goes to the buffer.
        link.reserve_reads(usize::from(READ_DEPTH).saturating_add(1))?;
        self.recv.reserve()?;
        let lent = link.lend(region.take().ok_or(EINVAL)?).map_err(|given| {
            *region = Some(given);
            EAGAIN
        })?;
        let mut split = None;
        if buffer.is_some() {
            match engine.start_split_read(lent.len(), tail) {
                Ok(both) => split = Some(both),
                Err(_) => {
                    *region = link.take_back(lent);
                    return Err(EAGAIN);
                }
            }
        }
        let id = promise
            .as_mut()
            .map_or(0, |promise| promise.begin(generation));
        let mut posted = link.register(&lent);
        link.sink.begin(lent);
        link.sink.promise = promise.take();
        let turn = &mut self.turns.read;
        turn.pin();
        turn.take_for_promise(generation, split.is_some());
        if let (Some((front, rest)), Some(buffer)) = (split, buffer) {
            posted = posted
                .and_then(|()| link.read_for_kernel(&rest, buffer))
                .and_then(|()| link.read_for_program(&front));
        } else if posted.is_ok() {
            self.read_on(sock);
        }
        // With all of it started, a Read for each byte is on its way.
        let whole = self.link.as_ref().is_some_and(|link| link.sink.room() == 0);
        if let (false, Some(engine)) = (posted.is_ok() && whole, self.engine.as_mut()) {
            engine.handle_link_failed();
        }
        Ok(id)
    }
}

#[kunit_tests(sdp_ahead)]
mod tests {
    use super::*;

    const LEAST: u32 = 8 << 10;

    fn prospect(addr: usize, len: usize, reach: usize) -> Prospect {
        Prospect {
            addr,
            len,
            reach,
            first: reach,
        }
    }

    #[test]
    fn whole_pages_are_taken_of_the_offer_and_the_room() {
        let page = PAGE_SIZE;
        let step = |len, reach| prospect(16 * page, len, reach).step(LEAST, 1);
        assert!(step(10 * page, 20 * page) == Step::Pages(10 * page, 0));
        assert!(step(10 * page, 5 * page) == Step::Pages(5 * page, 0));
        assert!(step(10 * page + 7, 20 * page) == Step::Pages(10 * page, 7));
        assert!(step(10 * page, 5 * page + 9) == Step::Pages(5 * page, 9));
        assert!(step(page, page) == Step::Ordinary);
        assert!(step(10 * page, 0) == Step::Ordinary);
    }

    #[test]
    fn a_head_comes_first_if_pages_follow() {
        let page = PAGE_SIZE;
        let step = |len, reach| prospect(16 * page - 100, len, reach).step(LEAST, 1);
        assert!(step(10 * page, 20 * page) == Step::Head(100));
        assert!(step(2 * page + 100, 20 * page) == Step::Head(100));
        assert!(step(2 * page + 99, 20 * page) == Step::Ordinary);
        assert!(step(10 * page, 2 * page + 99) == Step::Ordinary);
        assert!(step(50, 20 * page) == Step::Ordinary);
    }

    #[test]
    fn a_tail_is_of_the_same_offer() {
        let page = PAGE_SIZE;
        let mut found = prospect(16 * page, 10 * page + 7, 20 * page);
        found.first = 10 * page + 6;
        assert!(found.step(LEAST, 1) == Step::Pages(10 * page, 0));
        found.first = 10 * page + 7;
        assert!(found.step(LEAST, 1) == Step::Pages(10 * page, 7));
    }

    #[test]
    fn a_call_that_needs_more_is_an_ordinary_one() {
        let page = PAGE_SIZE;
        let found = prospect(16 * page, 10 * page + 7, 10 * page + 7);
        assert!(found.step(LEAST, 10 * page + 7) == Step::Pages(10 * page, 7));
        assert!(found.step(LEAST, 10 * page + 8) == Step::Ordinary);
    }
}
