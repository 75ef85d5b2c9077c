// SPDX-License-Identifier: GPL-2.0

//! Runs: ranges of a writer's memory that were offered to the peer.
//!
//! A run ends when its bytes have left the stream, no SEND and no Write gathers from it
//! any more, and its key has been invalidated. Only then is its memory unpinned. Until
//! then bytes that the peer does not read itself are gathered through the registration.
//!
//! Either the call that has offered a run waits for its end, or the memory is lent and
//! a notice reports the end.
//!
//! Contexts and locks: under the endpoint's lock, in process context.

use crate::{
    engine::types::RunId,
    fifo::Fifo,
    prelude::*,
    verbs::{
        pages::UserPages,
        region::Region, //
    },
    zcopy::notice::{
        Notice,
        Notices, //
    },
};
use kernel::sync::Arc;

/// One run.
struct Run {
    id: RunId,
    pages: Arc<UserPages>,
    len: u32,
    /// Bytes that are still in the send queue of the socket.
    left: u32,
    /// Bytes that SENDs and Writes in flight gather from it.
    flying: u32,
    /// `None` after the peer's key was invalidated.
    region: Option<Region>,
    /// The peer no longer needs the registration.
    returned: bool,
    /// The key is being invalidated, or goes with the queue pair.
    ending: bool,
    /// A call waits for the end.
    awaited: bool,
    /// Notices to deliver at the end. The last field, so that everything else is
    /// dropped before.
    notices: Notices,
}

/// A run that has ended.
pub(crate) struct Over {
    /// A call waits for it.
    pub(crate) awaited: bool,
    pub(crate) notices: Notices,
}

/// The rest of a run that nothing needs any more.
pub(crate) enum Useless {
    /// A key to invalidate now.
    Key(u32),
    /// A region to cache for the next call.
    Region(Region),
}

/// The runs of a connection, oldest first.
pub(crate) struct Source {
    runs: Fifo<Run>,
}

impl Source {
    pub(crate) const fn new() -> Self {
        Self { runs: Fifo::new() }
    }

    /// Makes room for one more, so that `push` can't fail.
    pub(crate) fn reserve(&mut self) -> Result {
        self.runs.reserve(GFP_KERNEL)
    }

    /// Adds a run. Its end is reported to `notice` if no call waits for it.
    pub(crate) fn push(
        &mut self,
        id: RunId,
        len: u32,
        region: Region,
        notice: Option<KBox<Notice>>,
    ) -> Result {
        let awaited = notice.is_none();
        let mut notices = Notices::default();
        if let Some(notice) = notice {
            notices.push(notice);
        }
        self.runs.push(
            Run {
                id,
                pages: region.pages().clone(),
                len,
                left: len,
                flying: 0,
                region: Some(region),
                returned: false,
                ending: false,
                awaited,
                notices,
            },
            GFP_KERNEL,
        )
    }

    fn awaited(&self) -> impl Iterator<Item = &Run> {
        (0..self.runs.len())
            .filter_map(|i| self.runs.get(i))
            .filter(|run| run.awaited)
    }

    /// Number of runs that a call waits for.
    pub(crate) fn awaited_len(&self) -> u32 {
        u32::try_from(self.awaited().count()).unwrap_or(u32::MAX)
    }

    /// Appends `notice` to those of the youngest lent run; returns it if there is none.
    pub(crate) fn tell_behind(&mut self, notice: KBox<Notice>) -> Option<KBox<Notice>> {
        match self.runs.back_mut().filter(|run| !run.awaited) {
            Some(run) => {
                run.notices.push(notice);
                None
            }
            None => Some(notice),
        }
    }

    /// Number of runs whose key must still be invalidated.
    pub(crate) fn unrevoked(&self) -> usize {
        (0..self.runs.len())
            .filter_map(|i| self.runs.get(i))
            .filter(|run| !run.ending)
            .count()
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

    /// Local key and address of the next bytes in a run.
    pub(crate) fn place(&self) -> Option<(u32, u64)> {
        let run = (0..self.runs.len())
            .filter_map(|i| self.runs.get(i))
            .find(|run| run.left > 0)?;
        let region = run.region.as_ref()?;
        let at = u64::from(run.len.saturating_sub(run.left));
        Some((region.key(), region.start().wrapping_add(at)))
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

    /// The key or region of a run that nothing needs any more. Registrations up to
    /// number `done` have been carried out.
    pub(crate) fn take_useless(&mut self, done: u64) -> Option<Useless> {
        let run =
            self.find(|run| run.returned && !run.ending && run.left == 0 && run.flying == 0)?;
        run.ending = true;
        match run.region.take_if(|region| region.can_stay(done)) {
            Some(region) => Some(Useless::Region(region)),
            None => run.region.as_ref().map(|r| Useless::Key(r.key())),
        }
    }

    /// The invalidation of `key` has completed.
    pub(crate) fn on_revoked(&mut self, key: u32) {
        let is_it = |run: &Run| run.region.as_ref().is_some_and(|r| r.key() == key);
        if let Some(run) = self.find(is_it) {
            if let Some(region) = run.region.as_mut() {
                region.set_settled(false);
            }
            run.region = None;
        }
    }

    /// Drops the oldest run, if it has ended.
    pub(crate) fn reap(&mut self) -> Option<Over> {
        let run = self.runs.front_mut()?;
        if !run.returned || run.region.is_some() || run.left > 0 || run.flying > 0 {
            return None;
        }
        let run = self.runs.pop()?;
        Some(Over {
            awaited: run.awaited,
            notices: run.notices,
        })
    }
}
