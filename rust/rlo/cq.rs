// SPDX-License-Identifier: GPL-2.0

//! Completion queues.
//!
//! Contexts: everything except creation and `stop` works in any context. The lock of a queue is a
//! leaf. Handlers are called from a bell (`ffi/bell.c`), in hardirq context or at the end of a post
//! that was made without locks, because a poster may hold a lock that the handler takes.

use crate::{
    ffi,
    irq_lock::{
        new_spinlock_irq,
        SpinLockIrq, //
    },
    names::{
        event,
        status, //
    },
    prelude::*,
    task::{
        Run,
        Task, //
    },
};
use core::mem::offset_of;
use kernel::{
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc, //
    },
    types::Opaque, //
};

/// The completions that the consumer wants to be notified of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Armed {
    No,
    Solicited,
    Next,
}

/// The contents of a completion, in less than half of the size: most of the memory of an idle queue pair
/// is for completions that never come.
#[derive(Clone, Copy)]
struct Entry {
    id: u64,
    qp: *mut ffi::ib_qp,
    byte_len: u32,
    /// Immediate data, or a key.
    extra: u32,
    /// 24 bits, and above these the flags of `ib_wc`.
    origin: u32,
    /// The source's LID, or with `IB_WC_WITH_VLAN`, which InfiniBand has not, the VLAN.
    slid_or_vlan: u16,
    opcode: u8,
    /// The status, and above its bits the type of the network.
    status: u8,
}

/// Bits of a queue pair's number.
const NUMBER: u32 = 24;
/// Bits of a status.
const STATUS: u32 = 5;
/// The flag that stands for a port.
const PORT: u32 = 1 << 7;

fn has_vlan(wc_flags: i32) -> bool {
    wc_flags as u32 & ffi::ib_wc_flags_IB_WC_WITH_VLAN != 0
}

impl Entry {
    const NONE: Self = Self {
        id: 0,
        qp: core::ptr::null_mut(),
        byte_len: 0,
        extra: 0,
        origin: 0,
        slid_or_vlan: 0,
        opcode: 0,
        status: 0,
    };

    /// The fields of `wc` that this driver sets.
    fn new(wc: &ffi::ib_wc) -> Self {
        let port = if wc.port_num != 0 { PORT } else { 0 };
        let flags = (wc.wc_flags as u32 & (PORT - 1)) | port;
        Self {
            // SAFETY: All values of both variants are valid numbers of the same size.
            id: unsafe { wc.__bindgen_anon_1.wr_id },
            qp: wc.qp,
            byte_len: wc.byte_len,
            // SAFETY: All values of both variants are valid numbers of the same size.
            extra: unsafe { wc.ex.invalidate_rkey },
            origin: (wc.src_qp & ((1 << NUMBER) - 1)) | flags << NUMBER,
            slid_or_vlan: if has_vlan(wc.wc_flags) {
                wc.vlan_id
            } else {
                wc.slid as u16
            },
            opcode: wc.opcode as u8,
            status: wc.status as u8 | wc.network_hdr_type << STATUS,
        }
    }

    fn wc(&self) -> ffi::ib_wc {
        let flags = self.origin >> NUMBER;
        let mut wc = ffi::ib_wc {
            __bindgen_anon_1: ffi::ib_wc__bindgen_ty_1 { wr_id: self.id },
            status: u32::from(self.status) & ((1 << STATUS) - 1),
            opcode: self.opcode.into(),
            byte_len: self.byte_len,
            qp: self.qp,
            src_qp: self.origin & ((1 << NUMBER) - 1),
            wc_flags: (flags & (PORT - 1)) as i32,
            port_num: u32::from(flags & PORT != 0),
            network_hdr_type: self.status >> STATUS,
            ..Default::default()
        };
        wc.ex.invalidate_rkey = self.extra;
        if has_vlan(wc.wc_flags) {
            wc.vlan_id = self.slid_or_vlan;
        } else {
            wc.slid = self.slid_or_vlan.into();
        }
        wc
    }
}

// Every status and type fits, and every opcode and flag that the driver uses.
const _: () = {
    assert!(core::mem::size_of::<Entry>() == 32);
    assert!(ffi::ib_wc_status_IB_WC_GENERAL_ERR < 1 << STATUS);
    assert!(ffi::ib_wc_opcode_IB_WC_RECV_RDMA_WITH_IMM <= u8::MAX as u32);
    assert!(ffi::ib_wc_flags_IB_WC_WITH_NETWORK_HDR_TYPE < PORT);
};

/// A ring of completions; `Cq::len` are in use.
///
/// # Invariants
///
/// `head < entries.len()`.
struct Ring {
    entries: KVVec<Entry>,
    head: usize,
    armed: Armed,
    overrun: bool,
}

// SAFETY: The pointers in a completion are the consumer's, who may use them anywhere.
unsafe impl Send for Ring {}

/// A completion queue.
#[pin_data]
pub(crate) struct Cq {
    ib: *mut ffi::ib_cq,
    #[pin]
    ring: SpinLockIrq<Ring>,
    /// The completions in the ring, at most as many as it has entries. It changes under the ring's
    /// lock, and is read without it as well: a thread that polls an empty queue does not keep
    /// completions out.
    len: Atomic<usize>,
    #[pin]
    bell: Opaque<ffi::rlo_bell>,
    #[pin]
    task: Task<Cq>,
}

// SAFETY: `ib` is handed back to ib_core, which locks for itself.
unsafe impl Send for Cq {}
// SAFETY: The ring has a lock; C locks the bell and the task.
unsafe impl Sync for Cq {}

// SAFETY: The offset is the field's. `stop` stops the task, when no code adds completions.
unsafe impl Run for Cq {
    const TASK_OFFSET: usize = offset_of!(Cq, task);

    /// The only event of a queue apart from completions is an overrun.
    fn run(&self) {
        // SAFETY: `ib` lives until `stop`.
        unsafe { ffi::rlo_event_cq(self.ib, event::CQ_ERR) }
    }
}

impl Cq {
    pub(crate) fn new(ib: *mut ffi::ib_cq, entries: u32) -> Result<Arc<Self>> {
        let len = entries as usize;
        let ring = KVVec::from_elem(Entry::NONE, len, GFP_KERNEL)?;
        let owner = ib;
        Arc::pin_init(
            pin_init!(Self {
                ib,
                ring <- new_spinlock_irq!(Ring {
                    entries: ring,
                    head: 0,
                    armed: Armed::No,
                    overrun: false,
                }),
                len: Atomic::new(0),
                // SAFETY: `slot` is valid for writes and stays where it is; `owner` lives until `stop`.
                bell <- Opaque::ffi_init(|slot| unsafe { ffi::rlo_bell_init(slot, owner) }),
                task <- Task::new(),
            }),
            GFP_KERNEL,
        )
    }

    /// Adds a completion. Returns false if there was no room: then the completion is lost, and its
    /// queue pair fails.
    pub(crate) fn push(&self, entry: ffi::ib_wc, solicited: bool) -> bool {
        let mut ring = self.ring.lock();
        let (len, room) = (self.len.load(Relaxed), ring.entries.len());
        if len >= room {
            let first = !ring.overrun;
            ring.overrun = true;
            drop(ring);
            if first {
                self.task.kick();
            }
            return false;
        }
        let mut at = ring.head + len;
        if at >= room {
            at -= room;
        }
        let bad = entry.status != status::SUCCESS;
        if let Some(slot) = ring.entries.get_mut(at) {
            *slot = Entry::new(&entry);
        }
        self.len.store(len + 1, Relaxed);
        let ring_bell = match ring.armed {
            Armed::No => false,
            Armed::Next => true,
            Armed::Solicited => solicited || bad,
        };
        if ring_bell {
            ring.armed = Armed::No;
            // SAFETY: Initialised in `new`.
            unsafe { ffi::rlo_bell_ring(self.bell.get()) };
        }
        true
    }

    /// Takes the oldest completion.
    pub(crate) fn poll(&self, out: &mut [core::mem::MaybeUninit<ffi::ib_wc>]) -> usize {
        // A consumer that was told of a completion sees it: it was counted before the bell rang.
        if self.len.load(Relaxed) == 0 {
            return 0;
        }
        let mut ring = self.ring.lock();
        let len = self.len.load(Relaxed);
        let count = len.min(out.len());
        for slot in out.iter_mut().take(count) {
            let head = ring.head;
            if let Some(entry) = ring.entries.get(head) {
                slot.write(entry.wc());
            }
            ring.head = if head + 1 == ring.entries.len() {
                0
            } else {
                head + 1
            };
        }
        self.len.store(len - count, Relaxed);
        count
    }

    /// Requests one call of the handler. Returns true if there are completions that no call
    /// announced.
    pub(crate) fn arm(&self, flags: u32) -> bool {
        let mut ring = self.ring.lock();
        if flags & ffi::ib_cq_notify_flags_IB_CQ_NEXT_COMP != 0 {
            ring.armed = Armed::Next;
        } else if ring.armed == Armed::No {
            ring.armed = Armed::Solicited;
        }
        flags & ffi::ib_cq_notify_flags_IB_CQ_REPORT_MISSED_EVENTS != 0
            && self.len.load(Relaxed) > 0
    }

    /// Removes the completions of a queue pair that is destroyed or reset.
    pub(crate) fn purge(&self, qp: *mut ffi::ib_qp) {
        let mut guard = self.ring.lock();
        let ring = &mut *guard;
        let room = ring.entries.len();
        let wrapped = |at: usize| if at >= room { at - room } else { at };
        let mut kept = 0;
        for i in 0..self.len.load(Relaxed) {
            let from = wrapped(ring.head + i);
            let to = wrapped(ring.head + kept);
            let Some(&entry) = ring.entries.get(from) else {
                break;
            };
            if entry.qp == qp {
                continue;
            }
            if let Some(slot) = ring.entries.get_mut(to) {
                *slot = entry;
            }
            kept += 1;
        }
        self.len.store(kept, Relaxed);
    }

    /// Sleeps until the handler has run for all completions that were added. Its consumer may give up the
    /// queue once it has no queue pairs: ib_core then stops the handler's work before it calls `destroy_cq`,
    /// and a late call would queue it again.
    pub(crate) fn settle(&self) {
        // SAFETY: Initialised in `new`.
        unsafe { ffi::rlo_bell_sync(self.bell.get()) };
    }

    /// Sleeps until no handler runs. No more completions are added.
    pub(crate) fn stop(&self) {
        // The entries are freed here, which may sleep, and not with the last reference.
        let entries = {
            let mut ring = self.ring.lock();
            ring.armed = Armed::No;
            self.len.store(0, Relaxed);
            ring.head = 0;
            core::mem::replace(&mut ring.entries, KVVec::new())
        };
        drop(entries);
        self.settle();
        self.task.stop();
    }
}
