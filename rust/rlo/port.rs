// SPDX-License-Identifier: GPL-2.0

//! The port of a device: its limits, counters, addresses and memory, and the link that it models.
//!
//! Contexts: any, except creation.

use crate::{
    bus::Addresses,
    counters::Counters,
    faults::Faults,
    ffi,
    mr::Mr,
    prelude::*,
    receive::MAX_PIECES,
    table::Table,
    task, //
};
use kernel::sync::atomic::{
    Atomic,
    Relaxed, //
};

/// Queue pair 1 receives the datagrams of connection managers, with this qkey.
pub(crate) const GSI: u32 = 1;
pub(crate) const GSI_QKEY: u32 = 0x8001_0000;
const FIRST_REGION: u32 = 2;
pub(crate) const MAX_REGIONS: u32 = 1 << 20;

/// Maximum number of bytes of inline data.
pub(crate) const MAX_INLINE: usize = 256;

/// The limits of a device. They are read from the module's parameters when the device is made.
pub(crate) struct Limits {
    pub(crate) dma_lkey: bool,
    pub(crate) max_qp: u32,
    pub(crate) max_qp_wr: u32,
    pub(crate) max_sge: u32,
    pub(crate) max_sge_rd: u32,
    pub(crate) max_rd_atomic: u32,
    pub(crate) max_cqe: u32,
    pub(crate) max_mr_pages: u32,
    pub(crate) max_inline: u32,
    pub(crate) max_srq_wr: u32,
    pub(crate) srq: bool,
    pub(crate) mem_mgt: bool,
    pub(crate) inline_bytes: usize,
}

impl Limits {
    pub(crate) fn current() -> Self {
        // SAFETY: Numbers that an administrator may change at any time; any value is valid.
        let knobs = unsafe { core::ptr::addr_of!(ffi::rlo_knobs).read_volatile() };
        Self {
            dma_lkey: knobs.no_dma_lkey == 0,
            max_qp: knobs.max_qp.clamp(2, 1 << 23),
            max_qp_wr: knobs.max_qp_wr.clamp(1, 1 << 16),
            max_sge: knobs.max_sge.clamp(2, MAX_PIECES as u32),
            max_sge_rd: knobs.max_sge_rd.clamp(1, MAX_PIECES as u32),
            max_rd_atomic: knobs.max_rd_atomic.min(255),
            max_cqe: knobs.max_cqe.clamp(640, 1 << 20),
            max_mr_pages: knobs.max_mr_pages.clamp(1, 4096),
            max_inline: knobs.max_inline.min(MAX_INLINE as u32),
            max_srq_wr: knobs.max_srq_wr.clamp(1, 1 << 16),
            srq: knobs.no_srq == 0,
            mem_mgt: knobs.no_mem_mgt == 0,
            inline_bytes: knobs.inline_bytes.min(1 << 22) as usize,
        }
    }
}

/// A port, with everything that does not name queue pairs or peers.
#[pin_data]
pub(crate) struct Port {
    object: *mut ffi::rlo_device_object,
    /// Its address on InfiniBand; 0: the port is one of RoCE.
    pub(crate) lid: u16,
    gid: [u8; 16],
    /// The capabilities that its users have announced.
    caps: Atomic<u32>,
    /// Identifies the device in answers. It is random, and only peers that got an answer know it.
    pub(crate) token: u64,
    pub(crate) addresses: Addresses,
    pub(crate) limits: Limits,
    pub(crate) counters: Counters,
    pub(crate) faults: Faults,
    /// The time at which the modelled link is free again.
    link_free: Atomic<u64>,
    #[pin]
    pub(crate) regions: Table<Mr>,
}

// SAFETY: The pointer is used while the device is registered, and the object there locks for
// itself; the rest does not change, is atomic, or has a lock.
unsafe impl Send for Port {}
// SAFETY: Nothing here belongs to one thread.
unsafe impl Sync for Port {}

impl Port {
    /// # Safety
    ///
    /// `object` is valid until the port is gone, and no other code has it yet.
    pub(crate) unsafe fn new(
        object: *mut ffi::rlo_device_object,
        ndev: *mut ffi::net_device,
        addresses: Addresses,
        limits: Limits,
    ) -> impl PinInit<Self> {
        let mut gid = ffi::ib_gid::default();
        // SAFETY: All are valid, and no other code has the object yet, by the caller's promise. Every
        // bit pattern is a GID.
        let (lid, gid) = unsafe {
            ffi::rlo_guid(ndev, &mut (*object).ib.node_guid);
            ffi::rlo_port_gid(object, &mut gid);
            ((*object).lid, gid.raw)
        };
        pin_init!(Self {
            object,
            lid,
            gid,
            caps: Atomic::new(0),
            token: random(),
            addresses,
            limits,
            counters: Counters::default(),
            faults: Faults::new(),
            link_free: Atomic::new(0),
            regions <- Table::new(FIRST_REGION, MAX_REGIONS),
        })
    }

    pub(crate) fn object(&self) -> *mut ffi::rlo_device_object {
        self.object
    }

    pub(crate) fn is_infiniband(&self) -> bool {
        self.lid != 0
    }

    pub(crate) fn change_caps(&self, set: u32, clear: u32) {
        let mut caps = self.caps.load(Relaxed);
        while let Err(other) = self.caps.cmpxchg(caps, (caps | set) & !clear, Relaxed) {
            caps = other;
        }
    }

    /// Whether a frame is for this port. On RoCE its hardware address already says so.
    pub(crate) fn is_meant(&self, head: &ffi::rlo_frame) -> bool {
        if !self.is_infiniband() {
            return true;
        }
        match head.dlid {
            // SAFETY: Every bit pattern is a GID.
            0 => unsafe { head.dgid.raw == self.gid },
            lid => lid == self.lid,
        }
    }

    /// Whether a datagram from the wire is for this port. A group's datagram may return to its
    /// sender, which has already received it. Datagrams of administrators never come from the wire.
    pub(crate) fn is_meant_as_datagram(&self, head: &ffi::rlo_frame) -> bool {
        if !self.is_infiniband() {
            return true;
        }
        (head.dlid == self.lid || is_multicast(head.dlid))
            && head.slid != self.lid
            && u32::from(head.slid) != ffi::RLO_LID_SM
    }

    /// The largest datagram of a port of InfiniBand, as an MTU code of the standard.
    pub(crate) fn mtu(&self) -> u8 {
        let mut attr = ffi::ib_port_attr::default();
        // SAFETY: The object is there while these callers ask: the tasks of queue pairs, which are gone
        // before it is, and the administrator's, which `unmake` stops.
        unsafe { ffi::rlo_port_state(self.object.cast(), &mut attr) };
        attr.active_mtu as u8
    }

    /// The GID of a port of InfiniBand.
    pub(crate) fn gid(&self) -> [u8; 16] {
        self.gid
    }

    pub(crate) fn caps(&self) -> u32 {
        self.caps.load(Relaxed)
    }

    pub(crate) fn is_silent(&self) -> bool {
        self.faults.silent.load(Relaxed) != 0
    }

    /// Whether completions are delayed, by a fault or by the modelled link.
    pub(crate) fn is_modelled(&self) -> bool {
        self.faults.rate_mbps.load(Relaxed) != 0
            || self.faults.latency_us.load(Relaxed) != 0
            || self.is_held()
    }

    pub(crate) fn is_held(&self) -> bool {
        self.faults.hold.load(Relaxed) != 0
    }

    /// On the modelled link: the arrival time of a message of so many bytes that is sent now, and
    /// the time at which its acknowledgement is back. All queue pairs of the device share one link.
    pub(crate) fn transit(&self, bytes: u64) -> (u64, u64) {
        let latency = u64::from(self.faults.latency_us.load(Relaxed)) * 1000;
        let rate = u64::from(self.faults.rate_mbps.load(Relaxed));
        let now = task::now();
        let mut left = now;
        if rate > 0 {
            // Overhead on RoCE: 58 bytes for each packet of 4 KiB.
            let wire = bytes + 58 * bytes.div_ceil(4096).max(1);
            let time = wire * 8 * 1000 / rate;
            let mut free = self.link_free.load(Relaxed);
            loop {
                left = free.max(now) + time;
                match self.link_free.cmpxchg(free, left, Relaxed) {
                    Ok(_) => break,
                    Err(other) => free = other,
                }
            }
        }
        (left + latency, left + 2 * latency)
    }
}

/// Whether a LID is a group's.
pub(crate) fn is_multicast(lid: u16) -> bool {
    (ffi::RLO_LID_MULTICAST..ffi::RLO_LID_PERMISSIVE).contains(&u32::from(lid))
}

pub(crate) fn random() -> u64 {
    // SAFETY: No requirements.
    unsafe { ffi::rlo_random() }
}
