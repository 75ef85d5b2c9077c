// SPDX-License-Identifier: GPL-2.0

//! Memory that a side has advertised to its peer.

use crate::{
    fault::{ensure, Checked, Fault},
    frame::Span,
};
use sdp_engine::engine::types::{RunId, SinkId};

/// The purpose of the memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Use {
    /// Bytes of the send stream, and their number.
    Run(Option<RunId>),
    /// Room for bytes of the receive stream, and the bytes written there.
    Sink(Option<SinkId>, Vec<Span>),
}

/// One registration.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Region {
    pub(crate) key: u32,
    pub(crate) va: u64,
    pub(crate) len: u32,
    pub(crate) what: Use,
    /// The engine has not released it yet.
    pub(crate) lent: bool,
    /// The peer's accesses succeed.
    pub(crate) valid: bool,
}

impl Region {
    /// The offset at which an access begins.
    fn offset(&self, va: u64, len: u32) -> Option<u32> {
        let offset = u32::try_from(va.checked_sub(self.va)?).ok()?;
        (offset.checked_add(len)? <= self.len).then_some(offset)
    }
}

/// All registrations of a side; released ones are removed.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Memory {
    regions: Vec<Region>,
    next_key: u32,
}

impl Memory {
    /// The key and address of the next registration. Addresses are not aligned, and close to each
    /// other.
    pub(crate) fn next(&self) -> (u32, u64) {
        (self.next_key + 100, u64::from(self.next_key) * 7 + 3)
    }

    pub(crate) fn lend(&mut self, len: u32, what: Use) {
        let (key, va) = self.next();
        self.next_key += 1;
        self.regions.push(Region {
            key,
            va,
            len,
            what,
            lent: true,
            valid: true,
        });
    }

    /// Handles an access of the peer.
    pub(crate) fn access(&mut self, key: u32, va: u64, len: u32) -> Checked<(&mut Region, u32)> {
        let text = format!("{len} bytes at {va} with key {key}");
        let region = self.regions.iter_mut().find(|r| r.key == key && r.valid);
        let Some(region) = region else {
            return Err(Fault::new(format!("the peer accesses {text}: not lent")));
        };
        let Some(offset) = region.offset(va, len) else {
            return Err(Fault::new(format!(
                "the peer accesses {text}: outside of {region:?}"
            )));
        };
        Ok((region, offset))
    }

    /// The engine releases a registration. The peer may still access it if `stays`.
    fn give_back(&mut self, is_it: impl Fn(&Use) -> bool, stays: bool) -> Checked<Region> {
        let found = self.regions.iter().position(|r| r.lent && is_it(&r.what));
        let Some(region) = found.and_then(|index| self.regions.get_mut(index)) else {
            return Err(Fault::new("what was not lent is given back".to_owned()));
        };
        region.lent = false;
        region.valid &= stays;
        let copy = region.clone();
        self.regions.retain(|r| r.lent || r.valid);
        Ok(copy)
    }

    pub(crate) fn give_back_run(&mut self, run: RunId, stays: bool) -> Checked<Region> {
        self.give_back(|what| *what == Use::Run(Some(run)), stays)
    }

    pub(crate) fn give_back_sink(&mut self, sink: SinkId, stays: bool) -> Checked<Region> {
        let is_it = |what: &Use| matches!(what, Use::Sink(Some(id), _) if *id == sink);
        self.give_back(is_it, stays)
    }

    /// The queue pair is in the error state and drained.
    pub(crate) fn on_dead(&mut self) {
        for region in &mut self.regions {
            region.valid = false;
        }
        self.regions.retain(|r| r.lent);
    }

    pub(crate) fn check_returned(&self) -> Checked {
        ensure!(
            !self.regions.iter().any(|r| r.lent),
            "never given back: {:?}",
            self.regions
        );
        Ok(())
    }

    /// Whether any memory is advertised.
    pub(crate) fn is_lent(&self) -> bool {
        self.regions.iter().any(|r| r.lent)
    }
}
