// SPDX-License-Identifier: GPL-2.0

//! A device with one port, on one interface.
//!
//! Contexts: creation and removal sleep; lookups work in any.

use crate::{
    counters::Counters,
    faults::{
        Faults,
        Files, //
    },
    ffi,
    group::Groups,
    irq_lock::{
        new_spinlock_irq,
        SpinLockIrq, //
    },
    joint,
    joints::Joints,
    mr::Mr,
    prelude::*,
    qp::Qp,
    receive::MAX_PIECES,
    subnet::Administrator,
    table::Table,
    task,
    verbs, //
};
use core::ptr::NonNull;
use kernel::{
    error::{
        from_err_ptr,
        to_result, //
    },
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc,
        ArcBorrow, //
    },
};

/// Queue pair 1 receives the datagrams of connection managers.
pub(crate) const GSI: u32 = 1;
const FIRST_QPN: u32 = 0x11;
const FIRST_REGION: u32 = 2;
pub(crate) const MAX_REGIONS: u32 = 1 << 20;

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
    fn current() -> Self {
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
            max_inline: knobs.max_inline.min(crate::send::MAX_INLINE as u32),
            max_srq_wr: knobs.max_srq_wr.clamp(1, 1 << 16),
            srq: knobs.no_srq == 0,
            mem_mgt: knobs.no_mem_mgt == 0,
            inline_bytes: knobs.inline_bytes.min(1 << 22) as usize,
        }
    }
}

/// A bus device with a DMA mask, so that the DMA API checks addresses.
struct Bus(NonNull<ffi::device>);

// SAFETY: The driver core locks for itself.
unsafe impl Send for Bus {}
// SAFETY: The driver core locks for itself.
unsafe impl Sync for Bus {}

impl Drop for Bus {
    fn drop(&mut self) {
        // SAFETY: What `rlo_bus_create` gave.
        unsafe { ffi::rlo_bus_destroy(self.0.as_ptr()) }
    }
}

/// The Rust part of a device.
#[pin_data]
pub(crate) struct Device {
    object: *mut ffi::rlo_device_object,
    /// The port's address on InfiniBand; 0: the port is one of RoCE.
    pub(crate) lid: u16,
    gid: [u8; 16],
    /// The capabilities that users of the port have announced.
    pub(crate) port_caps: Atomic<u32>,
    /// Identifies the device in answers. It is random, and only peers that got an answer know it.
    pub(crate) token: u64,
    bus: *mut ffi::device,
    pub(crate) limits: Limits,
    pub(crate) counters: Counters,
    pub(crate) faults: Faults,
    /// The time at which the modelled link is free again.
    pub(crate) link_free: Atomic<u64>,
    #[pin]
    pub(crate) qps: Table<Qp>,
    #[pin]
    pub(crate) regions: Table<Mr>,
    #[pin]
    gsi: SpinLockIrq<Option<Arc<Qp>>>,
    #[pin]
    pub(crate) joints: Joints,
    #[pin]
    pub(crate) groups: Groups,
    #[pin]
    pub(crate) administrator: Administrator,
    #[pin]
    own: SpinLockIrq<Option<Own>>,
}

/// The parts that are freed with the device, although others may still have references to the rest.
struct Own {
    _files: Option<Files>,
    _bus: Option<Bus>,
}

// SAFETY: The pointers are used while the device is registered, and the objects there lock for
// themselves; the rest does not change, is atomic, or has a lock.
unsafe impl Send for Device {}
// SAFETY: The reason is that of `Send`: nothing here belongs to one thread.
unsafe impl Sync for Device {}

static BUS_NUMBER: Atomic<i32> = Atomic::new(0);

impl Device {
    /// `rdma link add`.
    ///
    /// # Safety
    ///
    /// `name` is a C string and `ndev` an interface, both valid for the call.
    pub(crate) unsafe fn create(
        root: *mut ffi::dentry,
        name: *const c_char,
        ndev: *mut ffi::net_device,
        infiniband: bool,
    ) -> Result {
        // SAFETY: `ndev` is valid.
        let object = unsafe { ffi::rlo_device_alloc(ndev, infiniband) };
        if object.is_null() {
            return Err(ENOMEM);
        }
        // SAFETY: `object` is new, and `name` valid.
        match unsafe { Self::start(root, object, name, ndev) } {
            Ok(()) => Ok(()),
            Err(error) => {
                // SAFETY: It is not registered, and Rust's part of it is gone, if there was one.
                unsafe { ffi::rlo_device_free(object) };
                Err(error)
            }
        }
    }

    /// # Safety
    ///
    /// As for `create`; `object` is new.
    unsafe fn start(
        root: *mut ffi::dentry,
        object: *mut ffi::rlo_device_object,
        name: *const c_char,
        ndev: *mut ffi::net_device,
    ) -> Result {
        // SAFETY: A plain number.
        let bits = unsafe { core::ptr::addr_of!(ffi::rlo_knobs.dma_bits).read_volatile() };
        let bus = if bits == 0 {
            None
        } else {
            let id = BUS_NUMBER.fetch_add(1, Relaxed);
            // SAFETY: No requirements.
            let dev = from_err_ptr(unsafe { ffi::rlo_bus_create(id, bits.clamp(24, 64)) })?;
            NonNull::new(dev).map(Bus)
        };
        let dma_device = bus
            .as_ref()
            .map_or(core::ptr::null_mut(), |bus| bus.0.as_ptr());
        let limits = Limits::current();
        let max_qp = limits.max_qp;
        let mut gid = ffi::ib_gid::default();
        // SAFETY: All are valid, and the object is nobody else's yet. Every bit pattern is a GID.
        let (lid, gid) = unsafe {
            ffi::rlo_guid(ndev, &mut (*object).ib.node_guid);
            ffi::rlo_port_gid(object, &mut gid);
            ((*object).lid, gid.raw)
        };
        let own = Arc::pin_init(
            pin_init!(Self {
                object,
                lid,
                gid,
                port_caps: Atomic::new(0),
                token: random(),
                bus: dma_device,
                limits,
                counters: Counters::default(),
                faults: Faults::new(),
                link_free: Atomic::new(0),
                qps <- Table::new(FIRST_QPN, max_qp),
                regions <- Table::new(FIRST_REGION, MAX_REGIONS),
                gsi <- new_spinlock_irq!(None),
                joints <- Joints::new(),
                groups <- Groups::new(),
                administrator <- Administrator::new(),
                own <- new_spinlock_irq!(None),
            }),
            GFP_KERNEL,
        )?;
        // SAFETY: `name` is a C string. The device has the files, which go before its memory does.
        let files = unsafe { Files::new(root, CStr::from_char_ptr(name), &own.faults) };
        *own.own.lock() = Some(Own {
            _files: Some(files),
            _bus: bus,
        });
        // SAFETY: The object is ours until it is registered; C keeps the pointer, and
        // `dealloc_driver` takes it back.
        unsafe {
            (*object).own = own.clone().into_raw().cast();
            verbs::describe(&mut (*object).ib, &own);
            ffi::rlo_device_list(object);
            let result = to_result(ffi::rlo_device_register(object, name, dma_device));
            if result.is_err() {
                // `rlo_device_free` has it called as well, but only after it has released the
                // interface that this needs.
                Self::unmake(object);
            }
            result
        }
    }

    /// The last step of a device's removal: no lookup finds it any more.
    ///
    /// # Safety
    ///
    /// `object` is valid and not registered, or not any more.
    pub(crate) unsafe fn unmake(object: *mut ffi::rlo_device_object) {
        // SAFETY: The object is valid, by the caller's promise. Nobody gets at Rust's part by the
        // list once it is off that, and the pointer is turned back into the Arc once.
        unsafe {
            if (*object).own.is_null() {
                return;
            }
            // Path queries that wait for an answer hold the device, and ask through its interface.
            Self::of(object.cast()).administrator.stop();
            ffi::rlo_device_unlist(object);
            let own: Arc<Self> = Arc::from_raw((*object).own.cast());
            (*object).own = core::ptr::null();
            let parts = own.own.lock().take();
            drop(parts);
            own.joints.clear();
            own.qps.clear();
            own.regions.clear();
        }
    }

    /// The device of an ib_core object.
    ///
    /// # Safety
    ///
    /// `ib` is one of ours, and stays.
    pub(crate) unsafe fn of<'a>(ib: *mut ffi::ib_device) -> ArcBorrow<'a, Self> {
        // SAFETY: `ib` is the first field of one of our objects, by the caller's promise; what
        // `own` points at is an Arc's until the device is unmade.
        unsafe { ArcBorrow::from_raw((*ib.cast::<ffi::rlo_device_object>()).own.cast()) }
    }

    /// The device that receives the frames of an interface.
    pub(crate) fn on(dev: *mut ffi::net_device) -> Option<Arc<Self>> {
        Self::find(dev, |_| true)
    }

    /// The device that sent an answer with this token.
    pub(crate) fn with_token(token: u64) -> Option<Arc<Self>> {
        Self::find(core::ptr::null_mut(), |device| device.token == token)
    }

    fn find(dev: *mut ffi::net_device, wanted: impl Fn(&Self) -> bool) -> Option<Arc<Self>> {
        struct Search<F> {
            wanted: F,
            found: Option<Arc<Device>>,
        }
        /// # Safety
        ///
        /// `own` is what Rust has of a device, and `context` a `Search<F>`.
        unsafe extern "C" fn visit<F: Fn(&Device) -> bool>(
            own: *const c_void,
            context: *mut c_void,
        ) -> bool {
            // SAFETY: `context` is the search below, and `own` an Arc's, which the list holds.
            let (search, device) = unsafe {
                (
                    &mut *context.cast::<Search<F>>(),
                    ArcBorrow::<'_, Device>::from_raw(own.cast()),
                )
            };
            if (search.wanted)(&device) {
                search.found = Some(device.into());
                return true;
            }
            false
        }
        fn callback<F: Fn(&Device) -> bool>(
            _: &Search<F>,
        ) -> unsafe extern "C" fn(*const c_void, *mut c_void) -> bool {
            visit::<F>
        }
        let mut search = Search {
            wanted,
            found: None,
        };
        let callback = callback(&search);
        // SAFETY: The callback gets what it expects.
        unsafe {
            ffi::rlo_device_each(Some(callback), core::ptr::from_mut(&mut search).cast(), dev);
        }
        search.found
    }

    pub(crate) fn object(&self) -> *mut ffi::rlo_device_object {
        self.object
    }

    pub(crate) fn is_infiniband(&self) -> bool {
        self.lid != 0
    }

    pub(crate) fn change_port_caps(&self, set: u32, clear: u32) {
        let mut caps = self.port_caps.load(Relaxed);
        while let Err(other) = self.port_caps.cmpxchg(caps, (caps | set) & !clear, Relaxed) {
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
        (head.dlid == self.lid || joint::is_multicast(head.dlid))
            && head.slid != self.lid
            && u32::from(head.slid) != ffi::RLO_LID_SM
    }

    /// The largest datagram, as an MTU code of the standard.
    pub(crate) fn mtu(&self) -> u8 {
        let mut attr = ffi::ib_port_attr::default();
        // SAFETY: The object is there while somebody asks: the tasks of queue pairs, which are gone
        // before it is, and the administrator's, which `unmake` stops.
        match unsafe { ffi::rlo_port_state(self.object.cast(), &mut attr) } {
            0 => attr.active_mtu as u8,
            _ => ffi::ib_mtu_IB_MTU_256 as u8,
        }
    }

    /// The GID of a port of InfiniBand.
    pub(crate) fn gid(&self) -> [u8; 16] {
        self.gid
    }

    /// The kernel address of a device address.
    pub(crate) fn address(&self, address: u64, len: usize) -> Option<*mut u8> {
        if len == 0 {
            return None;
        }
        // SAFETY: The bus device is there until `unmake`. Copies for its
        // queue pairs and its regions ask this, and all of these are gone by then.
        let start = unsafe { ffi::rlo_address(self.bus, address, len) };
        (!start.is_null()).then_some(start.cast())
    }

    /// A queue pair by its number.
    pub(crate) fn qp(&self, number: u32) -> Option<Arc<Qp>> {
        if number == GSI {
            self.gsi.lock().clone()
        } else {
            self.qps.get(number)
        }
    }

    pub(crate) fn set_gsi(&self, qp: Option<Arc<Qp>>) -> Option<Arc<Qp>> {
        core::mem::replace(&mut *self.gsi.lock(), qp)
    }

    pub(crate) fn has_gsi(&self) -> bool {
        self.gsi.lock().is_some()
    }

    pub(crate) fn random(&self) -> u64 {
        random()
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

fn random() -> u64 {
    // SAFETY: No requirements.
    unsafe { ffi::rlo_random() }
}
