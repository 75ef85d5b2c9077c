// SPDX-License-Identifier: GPL-2.0

//! A device with one port, on one interface.
//!
//! Contexts: creation and removal sleep; lookups work in any.

use crate::{
    bus::{
        Addresses,
        Bus, //
    },
    faults::Files,
    ffi,
    group::Groups,
    irq_lock::{
        new_spinlock_irq,
        SpinLockIrq, //
    },
    joint::Node,
    joints::Joints,
    port::{
        Limits,
        Port,
        GSI, //
    },
    prelude::*,
    subnet::{
        Administrator,
        Client, //
    },
    table::Table, //
};
use kernel::{
    error::to_result,
    sync::{
        rcu,
        Arc,
        ArcBorrow, //
    },
};

const FIRST_QPN: u32 = 0x11;

/// The queue pairs of a device, as the device knows them.
pub(crate) trait QueuePair: Sized + Send + Sync + 'static {
    /// A datagram has come for one of them.
    fn on_datagram(device: &Arc<Device<Self>>, head: &ffi::rlo_frame, payload: &[u8]);
}

/// The Rust part of a device.
#[pin_data]
pub(crate) struct Device<Q: QueuePair> {
    #[pin]
    pub(crate) port: Port,
    #[pin]
    pub(crate) qps: Table<Q>,
    #[pin]
    gsi: SpinLockIrq<Option<Arc<Q>>>,
    #[pin]
    pub(crate) joints: Joints<Device<Q>>,
    #[pin]
    pub(crate) groups: Groups,
    #[pin]
    pub(crate) administrator: Administrator<Device<Q>>,
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
unsafe impl<Q: QueuePair> Send for Device<Q> {}
// SAFETY: Nothing here belongs to one thread.
unsafe impl<Q: QueuePair> Sync for Device<Q> {}

impl<Q: QueuePair> Node for Device<Q> {
    fn port(&self) -> &Port {
        &self.port
    }

    fn is_open(&self) -> bool {
        self.joints.is_open()
    }

    fn on_unused(&self) {
        self.joints.on_unused();
    }
}

impl<Q: QueuePair> Client for Device<Q> {
    fn joints(&self) -> &Joints<Self> {
        &self.joints
    }

    fn on_answer(this: &Arc<Self>, head: &ffi::rlo_frame, payload: &[u8]) {
        Q::on_datagram(this, head, payload);
    }
}

impl<Q: QueuePair> Device<Q> {
    /// `rdma link add`. `describe` fills in the operations.
    ///
    /// # Safety
    ///
    /// `name` is a C string and `ndev` an interface, both valid for the call.
    pub(crate) unsafe fn create(
        root: *mut ffi::dentry,
        name: *const c_char,
        ndev: *mut ffi::net_device,
        infiniband: bool,
        describe: impl FnOnce(&mut ffi::ib_device, &Self),
    ) -> Result {
        // SAFETY: `ndev` is valid.
        let object = unsafe { ffi::rlo_device_alloc(ndev, infiniband) };
        if object.is_null() {
            return Err(ENOMEM);
        }
        // SAFETY: `object` is new, and `name` valid.
        match unsafe { Self::start(root, object, name, ndev, describe) } {
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
        describe: impl FnOnce(&mut ffi::ib_device, &Self),
    ) -> Result {
        let bus = Bus::create()?;
        // SAFETY: `unmake` drops the bus device, when queue pairs and regions are gone: no other code
        // asks for addresses.
        let addresses = unsafe { Addresses::new(bus.as_ref()) };
        let limits = Limits::current();
        let max_qp = limits.max_qp;
        // SAFETY: The object is valid until `unmake`, which comes before the memory of the device
        // goes, and it is new.
        let port = unsafe { Port::new(object, ndev, addresses, limits) };
        let own = Arc::pin_init(
            pin_init!(Self {
                port <- port,
                qps <- Table::new(FIRST_QPN, max_qp),
                gsi <- new_spinlock_irq!(None),
                joints <- Joints::new(),
                groups <- Groups::new(),
                administrator <- Administrator::new(),
                own <- new_spinlock_irq!(None),
            }),
            GFP_KERNEL,
        )?;
        // SAFETY: `name` is a C string. The device has the files, which go before its memory does.
        let files = unsafe { Files::new(root, CStr::from_char_ptr(name), &own.port.faults) };
        *own.own.lock() = Some(Own {
            _files: Some(files),
            _bus: bus,
        });
        // SAFETY: The object is ours until it is registered; C keeps the pointer, and
        // `dealloc_driver` takes it back.
        unsafe {
            (*object).own = own.clone().into_raw().cast();
            describe(&mut (*object).ib, &own);
            ffi::rlo_device_list(object, own.port.token);
            let result = to_result(ffi::rlo_device_register(object, name, addresses.bus()));
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
        // SAFETY: The object is valid, by the caller's promise. No lookup finds Rust's part
        // once it is unlisted, and the pointer is turned back into the Arc once.
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
            own.port.regions.clear();
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

    /// The device that sent an answer with this token.
    pub(crate) fn with_token(token: u64) -> Option<Arc<Self>> {
        let _guard = rcu::read_lock();
        // SAFETY: Under RCU.
        let own = unsafe { ffi::rlo_device_with_token(token) };
        if own.is_null() {
            return None;
        }
        // SAFETY: It is an Arc's, which is dropped only after a grace period that begins when no
        // lookup finds the device any more.
        Some(unsafe { ArcBorrow::<'_, Self>::from_raw(own.cast()) }.into())
    }

    /// A queue pair by its number.
    pub(crate) fn qp(&self, number: u32) -> Option<Arc<Q>> {
        if number == GSI {
            self.gsi.lock().clone()
        } else {
            self.qps.get(number)
        }
    }

    pub(crate) fn set_gsi(&self, qp: Option<Arc<Q>>) -> Option<Arc<Q>> {
        core::mem::replace(&mut *self.gsi.lock(), qp)
    }

    pub(crate) fn has_gsi(&self) -> bool {
        self.gsi.lock().is_some()
    }
}
