// SPDX-License-Identifier: GPL-2.0

//! Work requests of zero copy: registrations, invalidations, RDMA Reads.
//!
//! Contexts: under the endpoint's lock.

use crate::{
    engine::conn,
    link::{
        Link,
        Slot,
        CHORES, //
    },
    prelude::*,
    queue::RxBuffer,
    rdma::{
        lend::Lent,
        region::Region,
        send::Remote, //
    }, //
};

/// Requests of a registration: the last user of the region may not have invalidated it.
const REGISTER_REQUESTS: usize = 2;

/// The peer's memory that a Read reads.
fn from(remote: &conn::Remote) -> Remote {
    Remote {
        key: remote.r_key,
        addr: remote.va,
    }
}

impl Link {
    /// Whether the connection supports zero copy.
    pub(crate) fn is_zcopy(&self) -> bool {
        self.copied.is_none()
    }

    /// Whether there is room to register another region and to invalidate it later, if
    /// the peer gets its key.
    pub(crate) fn can_register(&self) -> bool {
        // One more, in case the last user of the region has not invalidated it.
        let open = self
            .source
            .unrevoked()
            .saturating_add(self.sink.unrevoked());
        let more = open.saturating_add(3);
        self.is_zcopy() && self.chores.saturating_add(more) <= CHORES.into()
    }

    /// Gives `region` to the queue pair; it comes back where it cannot be used there.
    pub(crate) fn lend(&mut self, region: Region) -> Result<Lent, Region> {
        self.qp.lend(region)
    }

    /// Takes a region back, if no request uses it any more. Otherwise the region goes with the
    /// queue pair.
    pub(crate) fn take_back(&mut self, lent: Lent) -> Option<Region> {
        self.qp.take_back(lent).ok()
    }

    /// Makes room for the requests of one registration, so that it does not fail for want of memory.
    /// May sleep.
    pub(crate) fn reserve_register(&mut self) -> Result {
        self.qp.reserve_sends(REGISTER_REQUESTS, 0)
    }

    /// The same for the end of one.
    pub(crate) fn reserve_revoke(&mut self) -> Result {
        self.qp.reserve_sends(1, 0)
    }

    /// The same for `count` Reads of the peer's offers, besides the requests of a registration. One
    /// of them may be into a buffer of the kernel.
    pub(crate) fn reserve_reads(&mut self, count: usize) -> Result {
        self.sink.reserve_for(count)?;
        self.qp.reserve_reads(count.saturating_add(1))
    }

    /// Registers a lent region.
    pub(crate) fn register(&mut self, lent: &Lent) -> Result {
        let posted = self.qp.register(lent, Slot::Register)?;
        self.chores = self.chores.saturating_add(posted);
        Ok(())
    }

    /// Ends the registration of `key`.
    pub(crate) fn revoke(&mut self, key: u32) -> Result {
        self.qp.revoke(key, Slot::Revoke(key))?;
        self.chores = self.chores.saturating_add(1);
        Ok(())
    }

    /// The registration of `key` has ended.
    pub(crate) fn on_revoked(&mut self, key: u32) {
        if let Some(lent) = self.source.on_revoked(key) {
            drop(self.take_back(lent));
        }
        self.sink.on_revoked(key);
    }

    /// The memory of the waiting reader, if nothing writes to it any more: neither the peer nor
    /// a Read.
    pub(crate) fn take_sink(&mut self) -> Option<Region> {
        match self.qp.take_back(self.sink.region.take()?) {
            Ok(region) => Some(region),
            Err(lent) => {
                self.sink.region = Some(lent);
                None
            }
        }
    }

    /// The key of a run that nothing needs any more, to be revoked, for which there is memory then.
    pub(crate) fn take_useless(&mut self) -> Result<Option<u32>> {
        let Some(run) = self.source.useless() else {
            return Ok(None);
        };
        self.qp.reserve_sends(1, 0)?;
        Ok(run.end())
    }

    /// How a Read is recorded, and one of its last byte behind it.
    fn reads_of(&self) -> (Slot, Option<Slot>) {
        if self.qp.device().cuts_reads_short() {
            (Slot::UnprovenRead, Some(Slot::Read))
        } else {
            (Slot::Read, None)
        }
    }

    /// Reads the peer's offer into the reader's memory.
    pub(crate) fn read_for_program(&mut self, remote: &conn::Remote) -> Result {
        self.sink.reserve()?;
        let (with, behind) = self.reads_of();
        let lent = self.sink.region.as_ref().ok_or(EINVAL)?;
        let into = (lent, self.sink.started);
        self.qp
            .read_lent(into, from(remote), remote.len, with, behind)?;
        self.sink.push(remote.len)?;
        self.sink.started = self.sink.started.saturating_add(remote.len);
        Ok(())
    }

    /// Reads the peer's offer into a buffer of the kernel.
    pub(crate) fn read_for_kernel(&mut self, remote: &conn::Remote, buffer: RxBuffer) -> Result {
        self.sink.reserve()?;
        let (with, behind) = self.reads_of();
        let buffer = buffer.into_receive().ok_or(EINVAL)?;
        self.qp
            .read_into(buffer, from(remote), remote.len, with, behind)?;
        self.sink.push(remote.len)
    }
}
