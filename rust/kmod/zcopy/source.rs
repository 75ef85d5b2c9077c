// SPDX-License-Identifier: GPL-2.0

//! Runs: ranges of a writer's memory that were offered to the peer.
//!
//! A run ends when its bytes have left the stream, no SEND and no Write gathers from it
//! any more, and its key has been invalidated. Only then is its memory unpinned. Until
//! then bytes that the peer does not read itself are gathered through the registration.
//!
//! Either the call that has offered a run waits for its end, or the memory is lent and
//! a notice reports the end. A borrowed run may be cut short: what the peer has not read
//! is then copied, and sent from the copy.
//!
//! Contexts and locks: under the endpoint's lock, in process context.

use crate::{
    engine::types::RunId,
    fifo::Fifo,
    prelude::*,
    rdma::{
        lend::Lent,
        pages::UserPages, //
    },
    zcopy::{
        lender::{
            Lender,
            LoanId, //
        },
        notice::{
            Notice,
            Notices, //
        },
    },
};
use kernel::sync::Arc;

/// One run.
pub(crate) struct Run {
    id: RunId,
    pages: Arc<UserPages>,
    len: u32,
    /// Bytes that are still in the send queue of the socket.
    left: u32,
    /// Bytes that SENDs and Writes in flight gather from it.
    flying: u32,
    /// `None` after the peer's key was invalidated.
    region: Option<Lent>,
    /// The peer no longer needs the registration.
    returned: bool,
    /// The key is being invalidated, or goes with the queue pair.
    ending: bool,
    /// A call waits for the end.
    awaited: bool,
    /// The memory is borrowed.
    loan: Option<LoanId>,
    /// The rest is to be copied: the program wants the memory back, or need not wait.
    cut: bool,
    /// Notices to deliver at the end, when the memory is unpinned.
    notices: Notices,
}

impl Run {
    /// Whether it has bytes left that the peer cannot read any more.
    fn is_plain(&self) -> bool {
        self.returned && !self.ending && self.left > 0
    }

    /// Whether nothing uses its memory any more.
    fn is_over(&self) -> bool {
        self.returned && self.region.is_none() && self.left == 0 && self.flying == 0
    }

    /// Whether nothing needs its registration any more, which is to be ended.
    fn is_useless(&self) -> bool {
        self.returned && !self.ending && self.left == 0 && self.flying == 0
    }

    /// Ends the registration: returns its key, to be invalidated.
    pub(crate) fn end(&mut self) -> Option<u32> {
        self.ending = true;
        self.region.as_ref().map(Lent::key)
    }
}

/// A run that has ended.
pub(crate) struct Over {
    /// A call waits for it.
    pub(crate) awaited: bool,
    pub(crate) notices: Notices,
}

/// The runs of a connection, oldest first.
pub(crate) struct Source {
    runs: Fifo<Run>,
}

impl Source {
    pub(crate) const fn new() -> Self {
        Self { runs: Fifo::new() }
    }

    /// Whether no memory is offered, nor was and is still needed.
    pub(crate) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Makes room for one more, so that `push` can't fail.
    pub(crate) fn reserve(&mut self) -> Result {
        self.runs.reserve(GFP_KERNEL)
    }

    /// Adds a run. Its end is reported to `notice` if no call waits for it.
    pub(crate) fn push(
        &mut self,
        id: RunId,
        pages: Arc<UserPages>,
        region: Lent,
        notice: Option<KBox<Notice>>,
    ) -> Result {
        let len = region.len();
        let awaited = notice.is_none();
        let loan = notice.as_ref().and_then(|notice| notice.loan_id());
        let mut notices = Notices::default();
        if let Some(notice) = notice {
            notices.push(notice);
        }
        self.runs.push(
            Run {
                id,
                pages,
                len,
                left: len,
                flying: 0,
                region: Some(region),
                returned: false,
                ending: false,
                awaited,
                loan,
                cut: false,
                notices,
            },
            GFP_KERNEL,
        )
    }

    /// All runs, the oldest first.
    fn in_order(&self) -> impl Iterator<Item = &Run> {
        (0..self.runs.len()).filter_map(|i| self.runs.get(i))
    }

    fn awaited(&self) -> impl Iterator<Item = &Run> {
        self.in_order().filter(|run| run.awaited)
    }

    /// Number of runs that a call waits for.
    pub(crate) fn awaited_len(&self) -> u32 {
        u32::try_from(self.awaited().count()).unwrap_or(u32::MAX)
    }

    /// Appends `notice` to the notices of the youngest lent run; returns it if there is none.
    pub(crate) fn tell_behind(&mut self, notice: KBox<Notice>) -> Option<KBox<Notice>> {
        match self.runs.back_mut().filter(|run| !run.awaited) {
            Some(run) => {
                run.notices.push(notice);
                None
            }
            None => Some(notice),
        }
    }

    /// Number of borrowed runs.
    pub(crate) fn loans(&self) -> usize {
        self.in_order().filter(|run| run.loan.is_some()).count()
    }

    /// The program wants the runs of `lender` up to number `last` back. Lent runs in front of them have to
    /// end before.
    pub(crate) fn cut(&mut self, lender: &Arc<Lender>, last: u32) {
        let mut wanted = false;
        for i in (0..self.runs.len()).rev() {
            if let Some(run) = self.runs.get_mut(i) {
                wanted |= run.loan.is_some_and(|loan| loan.is_up_to(lender, last));
                run.cut |= wanted && !run.awaited;
            }
        }
    }

    /// The rest of the runs that a call waits for is to be copied, so that the call can return.
    pub(crate) fn cut_awaited(&mut self) {
        for i in 0..self.runs.len() {
            if let Some(run) = self.runs.get_mut(i) {
                run.cut |= run.awaited;
            }
        }
    }

    /// A call that waits for runs goes on to wait for their readers.
    fn leave_awaited(&mut self) {
        for i in 0..self.runs.len() {
            if let Some(run) = self.runs.get_mut(i) {
                run.cut &= !run.awaited;
            }
        }
    }

    /// The pages of a run to copy the rest of, and the length of that: a run that is cut and that
    /// the peer cannot read any more. Runs that a call waits for are copied in their order, because the
    /// call takes the rest out of the stream, which nothing may be behind then.
    pub(crate) fn next_to_copy(&self) -> Option<(Arc<UserPages>, u32)> {
        let oldest = self.oldest_awaited();
        let run = self
            .in_order()
            .filter(|run| !run.awaited || Some(run.id) == oldest)
            .find(|run| run.cut && run.is_plain())?;
        Some((run.pages.clone(), run.left))
    }

    /// There is no memory to copy `pages`. Runs that are lent stay to be copied.
    pub(crate) fn on_not_copied(&mut self, pages: &Arc<UserPages>) -> bool {
        let is_it = |run: &Run| run.left > 0 && Arc::ptr_eq(&run.pages, pages);
        let awaited = self.find(is_it).is_none_or(|run| run.awaited);
        if awaited {
            self.leave_awaited();
        }
        !awaited
    }

    /// The same of the oldest run that a call waits for.
    pub(crate) fn awaited_rest(&self) -> Option<(Arc<UserPages>, u32)> {
        let run = self.awaited().find(|run| run.left > 0)?;
        run.is_plain().then(|| (run.pages.clone(), run.left))
    }

    /// Whether the peer may read bytes that a call waits for.
    pub(crate) fn is_awaited_lent(&self) -> bool {
        self.awaited().any(|run| run.left > 0 && !run.returned)
    }

    /// The next `len` bytes of the run in `pages` were copied; the stream has them elsewhere.
    pub(crate) fn on_copied(&mut self, pages: &Arc<UserPages>, len: u32) -> Option<RunId> {
        let run = self.find(|run| run.left > 0 && Arc::ptr_eq(&run.pages, pages))?;
        run.left = run.left.saturating_sub(len);
        Some(run.id)
    }

    /// Number of runs with a key that must still be invalidated.
    pub(crate) fn unrevoked(&self) -> usize {
        self.in_order().filter(|run| !run.ending).count()
    }

    /// Bytes that have not left the stream, of runs that a call waits for.
    pub(crate) fn awaited_left(&self) -> u32 {
        self.awaited()
            .fold(0, |sum, run| sum.saturating_add(run.left))
    }

    fn find(&mut self, is_it: impl Fn(&Run) -> bool) -> Option<&mut Run> {
        let at = (0..self.runs.len()).find(|i| self.runs.get(*i).is_some_and(&is_it))?;
        self.runs.get_mut(at)
    }

    /// The oldest run with bytes in the stream that a call waits for.
    pub(crate) fn oldest_awaited(&self) -> Option<RunId> {
        self.awaited().find(|run| run.left > 0).map(|run| run.id)
    }

    /// The next `len` bytes have left the stream without a SEND.
    pub(crate) fn on_taken(&mut self, len: u32) {
        if let Some(run) = self.find(|run| run.left > 0) {
            run.left = run.left.saturating_sub(len);
        }
    }

    /// The region of the next bytes in a run, and where they begin there.
    pub(crate) fn place(&self) -> Option<(&Lent, u32)> {
        let run = self.in_order().find(|run| run.left > 0)?;
        let region = run.region.as_ref()?;
        Some((region, run.len.saturating_sub(run.left)))
    }

    /// The next `len` bytes are in flight in a SEND or a Write.
    pub(crate) fn on_gathered(&mut self, len: u32) {
        if let Some(run) = self.find(|run| run.left > 0) {
            run.left = run.left.saturating_sub(len);
            run.flying = run.flying.saturating_add(len);
        }
    }

    /// A SEND or a Write of `len` bytes has completed.
    pub(crate) fn on_sent(&mut self, len: u32) {
        if let Some(run) = self.find(|run| run.flying > 0) {
            run.flying = run.flying.saturating_sub(len);
        }
    }

    /// The rest of the run has been taken out of the stream. Returns its pages.
    pub(crate) fn on_dropped(&mut self, id: RunId) -> Option<&Arc<UserPages>> {
        let run = self.find(|run| run.id == id)?;
        run.left = 0;
        Some(&run.pages)
    }

    /// The peer no longer needs the registration; with `over` it ends with the queue
    /// pair.
    pub(crate) fn on_returned(&mut self, id: RunId, over: bool) {
        if let Some(run) = self.find(|run| run.id == id) {
            run.returned = true;
            run.ending |= over;
        }
    }

    /// A run with a registration that nothing needs any more.
    pub(crate) fn useless(&mut self) -> Option<&mut Run> {
        self.find(Run::is_useless)
    }

    /// The invalidation of `key` has completed. Returns the region of its run.
    pub(crate) fn on_revoked(&mut self, key: u32) -> Option<Lent> {
        let is_it = |run: &Run| run.region.as_ref().is_some_and(|r| r.key() == key);
        self.find(is_it)?.region.take()
    }

    /// Drops a run that has ended. Runs that are lent end in their order, as their notices tell it. A
    /// call waits for its own runs alone.
    pub(crate) fn reap(&mut self) -> Option<Over> {
        let mut behind_lent = false;
        let at = self.in_order().position(|run| {
            let in_turn = run.awaited || !behind_lent;
            behind_lent |= !run.awaited;
            in_turn && run.is_over()
        })?;
        let Run {
            pages,
            awaited,
            mut notices,
            ..
        } = self.runs.remove(at)?;
        // Before the program is told that it has its memory back.
        drop(pages);
        notices.count();
        Some(Over { awaited, notices })
    }
}
