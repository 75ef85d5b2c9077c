// SPDX-License-Identifier: GPL-2.0

//! Paths between interfaces, address handles, and frames along a path.
//!
//! Contexts: any, except that [`send`] needs process context or a softirq, with interrupts enabled.

use crate::{
    ffi,
    port::{
        is_multicast,
        Port, //
    },
    prelude::*, //
};

/// A path: source and destination. Holds the entry of the GID table.
///
/// # Invariants
///
/// `0` was filled by `rlo_av_init` or `rlo_av_search`, and not put.
pub(crate) struct Av(pub(crate) ffi::rlo_av);

// SAFETY: The table's entries are counted, and may be used from any thread.
unsafe impl Send for Av {}
// SAFETY: No part of a path that others read changes.
unsafe impl Sync for Av {}

impl Av {
    /// # Safety
    ///
    /// `attr` is valid, and its GID's entry held by the caller meanwhile; the device is registered
    /// until the address is dropped.
    pub(crate) unsafe fn new(port: &Port, attr: *const ffi::rdma_ah_attr) -> Result<Self> {
        let mut av = ffi::rlo_av::default();
        // SAFETY: `attr` and its GID's entry are valid for the call, and the device's object until
        // the address is dropped, by the caller's promise.
        let made = unsafe { ffi::rlo_av_init(&mut av, port.object(), attr) };
        kernel::error::to_result(made)?;
        Ok(Self(av))
    }

    /// The path to the owner of a GID, from an InfiniBand port.
    ///
    /// # Safety
    ///
    /// The device is registered until the address is dropped.
    pub(crate) unsafe fn search(port: &Port, dgid: [u8; 16]) -> Self {
        let mut av = ffi::rlo_av::default();
        let dgid = ffi::ib_gid { raw: dgid };
        // SAFETY: The device's object is valid until the address is dropped, by the caller's
        // promise; the rest is ours.
        unsafe { ffi::rlo_av_search(&mut av, port.object(), &dgid) };
        Self(av)
    }

    pub(crate) fn is_infiniband(&self) -> bool {
        self.0.slid != 0
    }

    /// Whether it leads back to its own interface.
    pub(crate) fn is_own(&self) -> bool {
        if self.is_infiniband() {
            return self.0.slid == self.0.dlid;
        }
        self.0.smac == self.0.dmac
    }

    /// Whether it leads to a group.
    pub(crate) fn is_multicast(&self) -> bool {
        self.is_infiniband() && is_multicast(self.0.dlid)
    }

    /// Whether it leads to the subnet administrator.
    pub(crate) fn is_administrator(&self) -> bool {
        self.is_infiniband() && u32::from(self.0.dlid) == ffi::RLO_LID_SM
    }

    pub(crate) fn sgid(&self) -> [u8; 16] {
        // SAFETY: Every bit pattern is a GID.
        unsafe { self.0.sgid.raw }
    }

    pub(crate) fn dgid(&self) -> [u8; 16] {
        // SAFETY: Every bit pattern is a GID.
        unsafe { self.0.dgid.raw }
    }

    /// Whether frames along `other` come from this path's destination.
    pub(crate) fn is_reverse_of(&self, other: &Self) -> bool {
        if self.is_infiniband() {
            return self.0.slid == other.0.dlid && self.0.dlid == other.0.slid;
        }
        self.sgid() == other.dgid() && self.dgid() == other.sgid() && self.0.dmac == other.0.smac
    }
}

impl Drop for Av {
    fn drop(&mut self) {
        // SAFETY: It was filled by `rlo_av_init`, and is put once.
        unsafe { ffi::rlo_av_put(&mut self.0) }
    }
}

/// An address handle.
pub(crate) struct Ah {
    pub(crate) av: Av,
    /// The attributes that it was made of, without the entry of the GID.
    pub(crate) attr: ffi::rdma_ah_attr,
    pub(crate) pd: usize,
}

// SAFETY: The only pointer in `attr` is not there.
unsafe impl Send for Ah {}
// SAFETY: Nothing in it changes, and the only pointer in `attr` is not there.
unsafe impl Sync for Ah {}

/// Sends a frame with a payload that `fill` writes, or none if `fill` returns false. In process context
/// or a softirq, with interrupts enabled.
pub(crate) fn send(av: &Av, head: &ffi::rlo_frame, fill: impl FnOnce(&mut [u8]) -> bool) -> bool {
    let mut payload = core::ptr::null_mut();
    // SAFETY: All are valid, by the invariant of `Av`.
    let frame = unsafe { ffi::rlo_frame_new(&av.0, head, &mut payload) };
    if frame.is_null() {
        return false;
    }
    let bytes = if head.len == 0 {
        &mut []
    } else {
        // SAFETY: The frame has so many bytes there, which C has cleared, and no other code has the
        // frame.
        unsafe { core::slice::from_raw_parts_mut(payload.cast::<u8>(), head.len as usize) }
    };
    let good = fill(bytes);
    // SAFETY: The frame is ours, and goes, the one way or the other.
    unsafe {
        if good {
            ffi::rlo_frame_send(frame);
        } else {
            ffi::rlo_frame_drop(frame);
        }
    }
    good
}
