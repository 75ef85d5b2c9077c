// SPDX-License-Identifier: GPL-2.0

//! Runs: stretches of a writer's memory that were offered to the peer.
//!
//! A run is over when its bytes have left the stream, its key was invalidated,
//! and no SEND gathers from it any more. Only then is its memory unpinned.
//!
//! Contexts and locks: under the endpoint's lock, in process context.

use crate::{
    engine::types::RunId,
    fifo::Fifo,
    verbs::{
        pages::UserPages,
        region::Region, //
    },
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// One run.
struct Run {
    id: RunId,
    pages: Arc<UserPages>,
    /// Bytes that are still in the send queue of the socket.
    left: u32,
    /// Bytes that SENDs in flight gather from it.
    flying: u32,
    /// `None` once the peer's key is worth nothing.
    region: Option<Region>,
    /// The engine needs the registration no longer.
    returned: bool,
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

    pub(crate) fn push(&mut self, id: RunId, len: u32, region: Region) -> Result {
        self.runs.push(
            Run {
                id,
                pages: region.pages().clone(),
                left: len,
                flying: 0,
                region: Some(region),
                returned: false,
            },
            GFP_KERNEL,
        )
    }

    pub(crate) fn len(&self) -> u32 {
        u32::try_from(self.runs.len()).unwrap_or(u32::MAX)
    }

    /// Runs whose key is still to be invalidated.
    pub(crate) fn unrevoked(&self) -> usize {
        (0..self.runs.len())
            .filter_map(|i| self.runs.get(i))
            .filter(|run| !run.returned)
            .count()
    }

    /// Bytes that have not left the stream.
    pub(crate) fn left(&self) -> u32 {
        (0..self.runs.len())
            .filter_map(|i| self.runs.get(i))
            .fold(0, |sum, run| sum.saturating_add(run.left))
    }

    fn find(&mut self, is_it: impl Fn(&Run) -> bool) -> Option<&mut Run> {
        let at = (0..self.runs.len()).find(|i| self.runs.get(*i).is_some_and(&is_it))?;
        self.runs.get_mut(at)
    }

    /// The oldest run of which bytes are in the stream.
    pub(crate) fn oldest(&self) -> Option<RunId> {
        (0..self.runs.len())
            .filter_map(|i| self.runs.get(i))
            .find(|run| run.left > 0)
            .map(|run| run.id)
    }

    /// The next `len` bytes have left the stream without a SEND.
    pub(crate) fn on_taken(&mut self, len: u32) {
        if let Some(run) = self.find(|run| run.left > 0) {
            run.left = run.left.saturating_sub(len);
        }
    }

    /// The next `len` bytes are on their way in a SEND.
    pub(crate) fn on_gathered(&mut self, len: u32) {
        if let Some(run) = self.find(|run| run.left > 0) {
            run.left = run.left.saturating_sub(len);
            run.flying = run.flying.saturating_add(len);
        }
    }

    /// A SEND of `len` bytes has completed.
    pub(crate) fn on_sent(&mut self, len: u32) {
        if let Some(run) = self.find(|run| run.flying > 0) {
            run.flying = run.flying.saturating_sub(len);
        }
    }

    /// What is left of the run is out of the stream. Returns where it lies.
    pub(crate) fn on_dropped(&mut self, id: RunId) -> Option<&Arc<UserPages>> {
        let run = self.find(|run| run.id == id)?;
        run.left = 0;
        Some(&run.pages)
    }

    /// The engine needs the registration no longer. Returns the key that is to
    /// be invalidated.
    pub(crate) fn on_returned(&mut self, id: RunId) -> Option<u32> {
        let run = self.find(|run| run.id == id)?;
        run.returned = true;
        run.region.as_ref().map(Region::key)
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

    /// Forgets the runs that are over; returns how many.
    pub(crate) fn reap(&mut self) -> u32 {
        let mut count = 0u32;
        while let Some(run) = self.runs.front_mut() {
            if !run.returned || run.region.is_some() || run.left > 0 || run.flying > 0 {
                break;
            }
            self.runs.pop();
            count = count.saturating_add(1);
        }
        count
    }
}
