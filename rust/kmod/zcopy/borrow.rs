// SPDX-License-Identifier: GPL-2.0

//! The system calls of SDP_BORROW. A sendmsg() lends whole pages of the program and returns;
//! SDP_BORROW_WAIT waits until they are the program's again, SDP_BORROW_CANCEL takes them back.
//!
//! Bytes in front of the first whole page and behind the last one are copied, and so is
//! everything that cannot be lent now. The program must not change lent pages. It may protect
//! them, and a thread that writes to them then sleeps until they are returned. That thread may be
//! in a recv(), with `lock_sock`. So waiting and taking back need no `lock_sock`.
//!
//! Contexts: process context, may sleep. Locks: the endpoint's; sendmsg() and close()
//! hold `lock_sock`.

use crate::{
    endpoint::Inner,
    engine::policy::{
        copying::Cause,
        threshold, //
    },
    errno, ffi,
    net::{
        msg::SendMsg,
        option::OptionValue, //
    },
    object::Sock,
    prelude::*,
    rdma::{
        mr::Access,
        pages::Purpose,
        region::Region, //
    },
    sock::{
        call::Call,
        wait::{
            jiffies,
            FOREVER, //
        },
    },
    zcopy::{
        is_least,
        lender::{
            Lender,
            Loan, //
        },
        notice::Notice,
        read_value, //
    },
};
use kernel::{
    error::to_result,
    page::PAGE_SIZE,
    sync::Arc,
    transmute::FromBytes, //
};

/// Maximum number of stretches of one call; the rest is copied.
const RANGES: usize = 16;

/// Time that close() gives the peer to read what is lent.
const LINGER_MS: u32 = 1000;

/// Time for the answer to a cancel, and for what is in flight. The engine's own limit for
/// the answer is shorter.
const RETURN_MS: u32 = 10_000;

/// The way in which a sendmsg() lends memory.
pub(crate) enum Lending<'a> {
    /// It waits for the peer, if it may.
    No,
    /// A notice reports the end.
    Told(&'a mut Notice),
    /// A counter does.
    Counted(&'a mut Borrowing),
}

impl Lending<'_> {
    /// Whether the call returns before the peer has read.
    pub(crate) fn outlives_call(&self) -> bool {
        !matches!(self, Lending::No)
    }

    /// Whether more memory can be borrowed.
    pub(crate) fn has_room(&self) -> bool {
        match self {
            Lending::No | Lending::Told(_) => false,
            Lending::Counted(borrowing) => borrowing.has_room(),
        }
    }
}

/// A sendmsg() with SDP_BORROW.
pub(crate) struct Borrowing {
    lender: Arc<Lender>,
    /// The address of the program's report.
    at: u64,
    report: ffi::sdp_borrowed,
    ranges: [ffi::sdp_borrow_range; RANGES],
    used: usize,
    /// Number of ranges that the program has room for.
    room: usize,
    /// Bytes to copy before anything is lent again, and why.
    copy: usize,
    cause: Cause,
}

impl Borrowing {
    pub(crate) fn least(&self) -> u32 {
        self.lender.least
    }

    /// The bytes among the next `left` ones that are to be copied together.
    pub(crate) fn to_copy(&self, left: u32) -> u32 {
        let copy = u32::try_from(self.copy).unwrap_or(u32::MAX);
        if copy == 0 {
            left
        } else {
            left.min(copy)
        }
    }

    /// `n` bytes were copied.
    pub(crate) fn on_copied(&mut self, n: u32) {
        self.copy = self.copy.saturating_sub(n as usize);
    }

    /// Whether the next bytes may be lent, as far as the window goes.
    fn has_room(&self) -> bool {
        self.copy == 0 && threshold::is_zcopy(self.window() as u64, self.least())
    }

    /// Bytes of whole pages that the window has room for.
    fn window(&self) -> usize {
        self.lender.room() as usize & !(PAGE_SIZE - 1)
    }

    /// The pages to lend next: address and length; or why bytes must be copied before.
    fn next_stretch(&mut self, addr: usize, len: usize) -> Result<(usize, usize), Cause> {
        if self.copy > 0 {
            return Err(self.cause);
        }
        let head = addr.wrapping_neg() % PAGE_SIZE;
        let whole = len.saturating_sub(head) & !(PAGE_SIZE - 1);
        if self.used >= self.room {
            (self.copy, self.cause) = (usize::MAX, Cause::Limit);
            return Err(self.cause);
        }
        self.cause = Cause::Short;
        if !threshold::is_zcopy(whole as u64, self.least()) {
            self.copy = if len == 0 { usize::MAX } else { len };
            return Err(self.cause);
        }
        if head > 0 {
            self.copy = head;
            return Err(self.cause);
        }
        // With a full window, what SO_SNDBUF has room for is copied.
        self.has_room()
            .then(|| (addr, whole.min(self.window())))
            .ok_or(Cause::Busy)
    }

    fn note(&mut self, start: usize, len: usize, id: u32) {
        if let Some(range) = self.ranges.get_mut(self.used) {
            range.start = start as u64;
            range.len = u32::try_from(len).unwrap_or(u32::MAX);
            range.id = id;
            self.used = self.used.saturating_add(1);
        }
    }

    /// Writes the report to the program.
    fn write(&self) -> Result {
        let size = core::mem::size_of::<ffi::sdp_borrow_range>();
        let before = u64::from(self.report.count).saturating_mul(size as u64);
        let to = self.report.ranges.wrapping_add(before);
        let report = ffi::sdp_borrowed {
            counter: self.lender.address(),
            count: self
                .report
                .count
                .saturating_add(u32::try_from(self.used).unwrap_or(0)),
            ..self.report
        };
        // SAFETY: The callees check the user's addresses, and the array has `used` elements.
        let left = unsafe {
            ffi::sdp_copy_to_user(
                to as *mut c_void,
                self.ranges.as_ptr().cast(),
                self.used.min(RANGES).saturating_mul(size),
            ) | ffi::sdp_copy_to_user(
                self.at as *mut c_void,
                (&raw const report).cast(),
                core::mem::size_of::<ffi::sdp_borrowed>(),
            )
        };
        if left == 0 {
            Ok(())
        } else {
            Err(EFAULT)
        }
    }
}

// SAFETY: It consists of numbers, without a gap.
unsafe impl FromBytes for ffi::sdp_borrow {}
// SAFETY: It consists of numbers, without a gap.
unsafe impl FromBytes for ffi::sdp_borrow_wait {}

impl Sock {
    /// The lender of the calling program.
    fn lender(&self) -> Option<Arc<Lender>> {
        let lender = self.look(|inner| inner.turns.lender.clone());
        lender.filter(|lender| lender.is_of_caller())
    }

    /// SDP_BORROW.
    pub(crate) fn set_borrow(&self, value: OptionValue<'_>) -> Result {
        let asked: ffi::sdp_borrow = read_value(value)?;
        let odd = asked.reserved != 0 || asked.flags & !ffi::SDP_BORROW_NO_LINGER != 0;
        let idle = asked.counter == 0 && asked.eventfd != -1;
        if odd || idle || !is_least(asked.least) {
            return Err(EINVAL);
        }
        if self.tcp().is_some() {
            return Err(EOPNOTSUPP);
        }
        let lender = if asked.counter == 0 || asked.least == 0 {
            None
        } else {
            Some(Lender::new(&asked)?)
        };
        let _call = self.lock();
        let before = self.look(|inner| {
            inner.options.borrows = asked.least > 0;
            core::mem::replace(&mut inner.turns.lender, lender)
        });
        drop(before);
        Ok(())
    }

    /// SDP_BORROW_INFO.
    pub(crate) fn borrow_info(&self) -> ffi::sdp_borrow_info {
        let mut info: ffi::sdp_borrow_info = pin_init::zeroed();
        if let Some(lender) = self.lender() {
            lender.describe(&mut info);
        }
        info.ahead = self.ahead_counter();
        info.adverts = self.look(|inner| match (inner.link.as_ref(), inner.engine.as_ref()) {
            (Some(link), Some(engine)) if link.is_zcopy() => engine.peer().max_adverts.into(),
            _ => 0,
        });
        info
    }

    /// SDP_BORROW_WAIT, and with `cancel` SDP_BORROW_CANCEL.
    pub(crate) fn wait_borrowed(&self, value: OptionValue<'_>, cancel: bool) -> Result {
        let asked: ffi::sdp_borrow_wait = read_value(value)?;
        let lender = self.lender().ok_or(EINVAL)?;
        if !lender.knows(asked.id) {
            return Err(EINVAL);
        }
        if cancel && !lender.has_ended(asked.id) {
            self.drive(|inner| inner.cut(self, &lender, asked.id));
        }
        let mut timeo = match asked.timeout_ms {
            ffi::SDP_BORROW_FOREVER => FOREVER,
            ms => jiffies(ms),
        };
        self.wait_unlocked(&mut timeo, || lender.has_ended(asked.id).then_some(()))
    }

    /// The request in the control message of a sendmsg(), if there is one and the
    /// program has a counter.
    pub(crate) fn borrowing(&self, msg: &mut SendMsg) -> Result<Option<KBox<Borrowing>>> {
        let mut at = 0u64;
        // SAFETY: The message is the caller's; the core has copied its control messages to the
        // kernel.
        match unsafe { ffi::sdp_borrow_asked(msg.as_ptr().cast(), &mut at) } {
            0 => return Ok(None),
            asked => to_result(asked.min(0))?,
        }
        let mut report: ffi::sdp_borrowed = pin_init::zeroed();
        // SAFETY: The callee checks the user's address; the report consists of numbers.
        let left = unsafe {
            ffi::sdp_copy_from_user(
                (&raw mut report).cast(),
                at as *const c_void,
                core::mem::size_of::<ffi::sdp_borrowed>(),
            )
        };
        if left != 0 {
            return Err(EFAULT);
        }
        let room = report.room.checked_sub(report.count).ok_or(EINVAL)?;
        if msg.flags() & ffi::MSG_ZEROCOPY != 0 {
            return Err(EINVAL);
        }
        let Some(lender) = self.lender() else {
            return Ok(None);
        };
        let borrowing = KBox::new(
            Borrowing {
                lender,
                at,
                report,
                ranges: [pin_init::zeroed(); RANGES],
                used: 0,
                room: RANGES.min(room as usize),
                copy: 0,
                cause: Cause::Short,
            },
            GFP_KERNEL,
        )?;
        // A report that cannot be written is an error before anything is lent.
        borrowing.write()?;
        Ok(Some(borrowing))
    }

    /// The end of the call: reports what it has lent. If the report cannot be written any
    /// more, the program gets the memory back before the call returns.
    pub(crate) fn report_borrowed<'a>(&'a self, call: &mut Call<'a>, borrowing: &Borrowing) {
        let last = borrowing.used.checked_sub(1);
        let Some(last) = last.and_then(|at| borrowing.ranges.get(at)) else {
            return;
        };
        if borrowing.write().is_err() {
            self.take_back(call, &borrowing.lender, last.id);
        }
    }

    /// From which length on pieces of a send() by SDP_BORROW are lent; or why they are not.
    pub(crate) fn borrow_least(&self, borrowing: &Borrowing) -> Result<u32, Cause> {
        let never = self.look(|inner| inner.link.as_ref().and_then(|link| link.copied));
        never.map_or(Ok(borrowing.least()), Err)
    }

    /// Lends the next pages of `msg`, if an offer is possible now. Returns their length, or why
    /// the bytes up to [`Borrowing::to_copy`] must be copied.
    pub(crate) fn send_borrowed(
        &self,
        msg: &mut SendMsg,
        borrowing: &mut Borrowing,
    ) -> Result<usize, Cause> {
        let (addr, len) = msg.segment();
        let (addr, len) = borrowing.next_stretch(addr, len)?;
        if !self.look(|inner| inner.can_lend()) {
            return Err(Cause::Busy);
        }
        match self.borrow(borrowing, addr, len) {
            Ok(n) => {
                msg.source().advance(n);
                Ok(n)
            }
            // An obstacle is no error.
            Err(e) => {
                let cause = errno::cause(e);
                (borrowing.copy, borrowing.cause) = (len, cause);
                Err(cause)
            }
        }
    }

    /// Lends up to `len` bytes at `addr`, which are whole pages.
    fn borrow(&self, borrowing: &mut Borrowing, addr: usize, len: usize) -> Result<usize> {
        let least = borrowing.least();
        let want = self.run_len(addr, len, least)? & !(PAGE_SIZE - 1);
        let pages = self.pin_alone(addr, want, Purpose::Borrow)?;
        let n = pages.len();
        if !threshold::is_zcopy(n as u64, least) {
            return Err(EFAULT);
        }
        let mut region = Some(self.region_of(pages, Access::RemoteRead)?);
        let loan = Loan::new(
            borrowing.lender.clone(),
            u32::try_from(n).map_err(|_| EMSGSIZE)?,
        );
        let mut notice = Some(Notice::of_loan(loan)?);
        let lent = self.drive(|inner| inner.lend_counted(&mut region, &mut notice));
        // Dropped if they were not taken; not under the endpoint's lock.
        drop((region, notice));
        borrowing.note(addr, n, lent?);
        Ok(n)
    }

    /// The last close(): what is lent has ended when it returns, if the program asks for
    /// that. The wait is bounded.
    pub(crate) fn linger_for_loans<'a>(&'a self, call: &mut Call<'a>) {
        let Some(lender) = self.lender().filter(|lender| lender.lingers) else {
            return;
        };
        let last = lender.issued();
        if lender.has_ended(last) {
            return;
        }
        let ended = || lender.has_ended(last).then_some(());
        if self.wait_settled_within(call, LINGER_MS, ended).is_err() {
            self.take_back(call, &lender, last);
        }
    }

    /// The last close(): no program can lend or receive ahead on the socket any more. The counters
    /// are done when the last run and the last promise have ended.
    pub(crate) fn lend_no_more(&self) {
        let turns = self.look(|inner| (inner.turns.lender.take(), inner.turns.promiser.take()));
        drop(turns);
    }

    /// Takes back the runs up to number `last`, and waits for their end; a connection
    /// that does not return them is aborted.
    fn take_back<'a>(&'a self, call: &mut Call<'a>, lender: &Arc<Lender>, last: u32) {
        self.drive(|inner| inner.cut(self, lender, last));
        let ended = || lender.has_ended(last).then_some(());
        // An endless wait does not fail.
        let _ = self.wait_or_break_off(call, RETURN_MS, ended);
    }
}

impl Inner {
    /// Offers `region`; the loan of `notice` counts. Returns the number of the run. Takes
    /// both on success.
    fn lend_counted(
        &mut self,
        region: &mut Option<Region>,
        notice: &mut Option<KBox<Notice>>,
    ) -> Result<u32> {
        if !self.can_lend() {
            return Err(EAGAIN);
        }
        let generation = self
            .link
            .as_ref()
            .map(|link| link.generation())
            .ok_or(EPIPE)?;
        let loan = notice
            .as_mut()
            .and_then(|notice| notice.loan())
            .ok_or(EINVAL)?;
        let id = loan.begin(generation)?;
        let offered = self.offer(region, notice);
        if let Some(loan) = notice.as_mut().and_then(|notice| notice.loan()) {
            loan.undo();
        }
        offered.map(|()| id)
    }

    /// The program wants the runs of `lender` up to number `last` back: the peer is asked
    /// for them, and what it has not read is copied.
    fn cut(&mut self, sock: &Sock, lender: &Arc<Lender>, last: u32) {
        let (Some(link), Some(engine)) = (self.link.as_mut(), self.engine.as_mut()) else {
            return;
        };
        link.source.cut(lender, last);
        engine.recall();
        self.tend_runs(sock);
    }
}
