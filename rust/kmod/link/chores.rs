// SPDX-License-Identifier: GPL-2.0

//! Work requests of zero copy: registrations, invalidations, RDMA Reads.
//!
//! Contexts: under the endpoint's lock.

use crate::{
    engine::conn::Remote,
    ffi,
    link::{
        Link,
        Slot, //
    },
    prelude::*,
    verbs::{
        buffer::RxBuffer,
        region::Region, //
    },
    zcopy::sink::{
        Read,
        Target, //
    },
};

impl Link {
    /// Whether the connection supports zero copy.
    pub(crate) fn is_zcopy(&self) -> bool {
        self.chores_max > 0
    }

    /// Whether no registration and no invalidation is in flight.
    pub(crate) fn is_chore_idle(&self) -> bool {
        self.chores == 0
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
        self.chores.saturating_add(more) <= self.chores_max
    }

    /// Registers `region` under the key that `Pooled::begin` has given it; `stale` is
    /// the value that `begin` returned. A region that is registered already is used as
    /// it is.
    pub(crate) fn register(&mut self, region: &mut Region, stale: Option<u32>) -> Result {
        let access = region.access();
        let registered = region.is_registered();
        let pooled = region.pooled().ok_or(EINVAL)?;
        pooled.set_posted();
        if registered {
            region.sync_for_device();
            return Ok(());
        }
        if let Some(key) = stale {
            self.slots.reserve(GFP_KERNEL)?;
            self.qp.post_invalidate(key)?;
            self.note_chore(Slot::Register);
        }
        self.slots.reserve(GFP_KERNEL)?;
        // SAFETY: A region has its pages pinned and mapped for such access, and ends what
        // was posted for it, with its memory region, before it gives them up. The caller
        // keeps it in `source` or `sink` until its requests have completed, also where this
        // fails; these are dropped behind the queue pair.
        unsafe { self.qp.post_register(pooled.mr().ok_or(EINVAL)?, access) }?;
        self.note_chore(Slot::Register);
        region.set_registered(self.chores_begun);
        Ok(())
    }

    /// Ends the registration of `key`.
    pub(crate) fn revoke(&mut self, key: u32) -> Result {
        self.slots.reserve(GFP_KERNEL)?;
        self.qp.post_invalidate(key)?;
        self.note_chore(Slot::Revoke(key));
        Ok(())
    }

    /// Records a posted request; room was reserved.
    fn note_chore(&mut self, slot: Slot) {
        let _ = self.slots.push(slot, GFP_KERNEL);
        self.chores = self.chores.saturating_add(1);
        self.chores_begun = self.chores_begun.wrapping_add(1);
    }

    /// Number of registrations and invalidations that have completed; they complete in
    /// order.
    pub(crate) fn chores_done(&self) -> u64 {
        self.chores_begun.wrapping_sub(self.chores as u64)
    }

    /// Reads the peer's offer into the reader's memory.
    pub(crate) fn read_for_program(&mut self, remote: &Remote) -> Result {
        let region = self.sink.region.as_ref().ok_or(EINVAL)?;
        let into = ffi::ib_sge {
            addr: region.start().wrapping_add(self.sink.started.into()),
            length: remote.len,
            lkey: region.key(),
        };
        // SAFETY: The region is registered for our own requests to write to, and stays in
        // `sink` until all Reads have completed.
        unsafe { self.post_read(into, remote, Target::Program) }?;
        self.sink.started = self.sink.started.saturating_add(remote.len);
        Ok(())
    }

    /// Reads the peer's offer into a buffer of the kernel.
    pub(crate) fn read_for_kernel(&mut self, remote: &Remote, buffer: RxBuffer) -> Result {
        let into = ffi::ib_sge {
            addr: buffer.mapping().ok_or(EINVAL)?.addr(),
            length: remote.len,
            lkey: self.qp.domain().local_dma_lkey(),
        };
        if buffer.size() < remote.len as usize {
            return Err(EMSGSIZE);
        }
        // SAFETY: So many bytes are mapped there, and the buffer goes into `sink` with the
        // Read.
        unsafe { self.post_read(into, remote, Target::Kernel(buffer)) }
    }

    /// Reads the last byte of a Read once more, behind it: without the queue pair
    /// that does not succeed. It is one packet, of which no part can be missing,
    /// and its answer is no acknowledgement that could be late.
    fn post_proof(&mut self, into: ffi::ib_sge, remote: &Remote) -> Result {
        let before = u64::from(remote.len.saturating_sub(1));
        let into = ffi::ib_sge {
            addr: into.addr.wrapping_add(before),
            length: 1,
            lkey: into.lkey,
        };
        self.slots.reserve(GFP_KERNEL)?;
        // SAFETY: The byte is one of the Read before, whose memory stays until this one has
        // completed, too: `sink` loses the target with the second completion.
        unsafe {
            self.qp
                .post_read(into, remote.r_key, remote.va.wrapping_add(before))
        }?;
        self.slots.push(Slot::Read, GFP_KERNEL)
    }

    /// # Safety
    ///
    /// `into` is mapped for the device to write `remote.len` bytes to, and is kept by
    /// `target`, or by `sink` already, until the Read has completed.
    unsafe fn post_read(&mut self, into: ffi::ib_sge, remote: &Remote, target: Target) -> Result {
        self.slots.reserve(GFP_KERNEL)?;
        self.sink.reserve()?;
        // SAFETY: The memory stays as the caller promises: `sink` has room for the target, and
        // is dropped behind the queue pair.
        unsafe { self.qp.post_read(into, remote.r_key, remote.va) }?;
        let prove = self.qp.device().cuts_reads_short();
        let slot = if prove {
            Slot::UnprovenRead
        } else {
            Slot::Read
        };
        // Room was reserved.
        self.slots.push(slot, GFP_KERNEL)?;
        self.sink.push(Read {
            target,
            len: remote.len,
        })?;
        if prove {
            self.post_proof(into, remote)?;
        }
        Ok(())
    }
}
