// SPDX-License-Identifier: GPL-2.0

//! The devices of the system and the service ids listened on.
//!
//! The CM listens per device. So every listening port has one listening identifier on
//! each device, including devices that come later.
//!
//! Contexts: may sleep. Locks: `REGISTRY`, taken with at most `lock_sock` held:
//! destroying a listening identifier waits for its handler, which takes the locks of
//! sockets. `KNOWN`, for a moment and innermost, so that handlers of connection
//! management can look a device up.

use crate::{
    cm,
    ffi,
    object::SockRef,
    prelude::*,
    verbs::{
        device::Device,
        lease, //
    }, //
};
use core::{
    cell::UnsafeCell,
    ptr::NonNull, //
};
use kernel::{
    error::to_result,
    sync::{
        global_lock,
        Arc, //
    },
};

/// A header and a message in two pieces.
const LEAST_SGES: u32 = 3;
/// The engine's least depth in both directions, and room to drain.
const LEAST_WORK_REQUESTS: u32 = 8;

/// A device that sockets use.
pub(crate) type Leasing = lease::Leasing<SockRef>;

/// The right of a socket to use a device.
pub(crate) type Lease = lease::Lease<SockRef>;

/// A listening CM identifier.
struct Listen {
    port: u16,
    id: NonNull<ffi::ib_cm_id>,
}

// SAFETY: CM identifiers may be used from any thread.
unsafe impl Send for Listen {}

impl Listen {
    /// # Safety
    ///
    /// The device is in the registry, or being added to it, and drops what listens on it
    /// before its removal is over.
    unsafe fn new(device: &Device, port: u16) -> Result<Self> {
        let service = u64::from(ffi::SDP_SERVICE_ID_BASE).wrapping_add(port.into());
        // SAFETY: The device is registered, by the caller's promise.
        let id = unsafe {
            ffi::ib_cm_insert_listen(device.as_ptr(), Some(cm::request_cb), service.to_be())
        };
        let id = NonNull::new(kernel::error::from_err_ptr(id)?).ok_or(ENOMEM)?;
        Ok(Self { port, id })
    }
}

impl Drop for Listen {
    fn drop(&mut self) {
        // SAFETY: Made by `new`, destroyed once, and before the device is gone, as is promised
        // to `new`. Waits for handlers.
        unsafe { ffi::ib_destroy_cm_id(self.id.as_ptr()) };
    }
}

struct Entry {
    device: Arc<Leasing>,
    listens: KVec<Listen>,
}

pub(crate) struct Registry {
    entries: KVec<Entry>,
    /// Ports listened on in any namespace, with the number of listeners.
    services: KVec<(u16, u32)>,
}

global_lock! {
    // SAFETY: Initialised in the module's init, before the first use.
    pub(crate) unsafe(uninit) static REGISTRY: Mutex<Registry> = Registry {
        entries: KVec::new(),
        services: KVec::new(),
    };
}

global_lock! {
    // SAFETY: Initialised in the module's init, before the first use.
    /// Every device between `add_cb` and `remove_cb`.
    pub(crate) unsafe(uninit) static KNOWN: Mutex<KVec<Arc<Leasing>>> = KVec::new();
}

/// A listening port. Listening ends when the last one of the port is dropped. Dropping
/// sleeps, and no lock of a socket may be held.
pub(crate) struct Service {
    port: u16,
}

impl Service {
    pub(crate) fn new(port: u16) -> Result<Self> {
        let mut registry = REGISTRY.lock();
        let registry = &mut *registry;
        if let Some((_, count)) = registry.services.iter_mut().find(|(p, _)| *p == port) {
            *count = count.saturating_add(1);
            return Ok(Self { port });
        }
        registry.services.push((port, 1), GFP_KERNEL)?;
        // From here on dropping `service` would clean up, but not under the
        // lock held here.
        let mut failed = None;
        for entry in registry.entries.iter_mut() {
            // SAFETY: The device is in the registry, with whose entry this goes.
            let listen = unsafe { Listen::new(&entry.device, port) }
                .and_then(|listen| Ok(entry.listens.push(listen, GFP_KERNEL)?));
            if let Err(e) = listen {
                failed = Some(e);
                break;
            }
        }
        match failed {
            None => Ok(Self { port }),
            Some(e) => {
                registry.forget(port);
                Err(e)
            }
        }
    }
}

impl Registry {
    fn forget(&mut self, port: u16) {
        self.services.retain(|(p, _)| *p != port);
        for entry in self.entries.iter_mut() {
            entry.listens.retain(|listen| listen.port != port);
        }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let mut registry = REGISTRY.lock();
        let mut last = false;
        if let Some((_, count)) = registry.services.iter_mut().find(|(p, _)| *p == self.port) {
            *count = count.saturating_sub(1);
            last = *count == 0;
        }
        if last {
            registry.forget(self.port);
        }
    }
}

/// A device that has an address of `family` in the namespace of `net`, and that
/// address. Loopback connections use it.
///
/// # Safety
///
/// `net` is alive.
pub(crate) unsafe fn local_address(
    net: *mut ffi::net,
    family: u32,
) -> Result<ffi::__kernel_sockaddr_storage> {
    let registry = REGISTRY.lock();
    let mut address: ffi::__kernel_sockaddr_storage = pin_init::zeroed();
    for entry in registry.entries.iter() {
        // SAFETY: A device is valid while it is in the registry, which is locked; `net` is
        // alive, by the caller's promise.
        let found = unsafe {
            ffi::sdp_device_local_address(
                entry.device.as_ptr(),
                net,
                family as c_int,
                (&raw mut address).cast(),
            )
        };
        if found == 0 {
            return Ok(address);
        }
    }
    Err(ENODEV)
}

/// Our state of a device, unless its removal has begun.
///
/// An identifier of rdma_cm can outlive our removal of its device, because rdma_cm
/// hears of it after us. ib_core's client data must not be read then: it would point at
/// freed memory.
pub(crate) fn find(ib: *mut ffi::ib_device) -> Option<Arc<Leasing>> {
    let known = KNOWN.lock();
    known.iter().find(|device| device.as_ptr() == ib).cloned()
}

/// Takes the device off the list, so that nobody finds it any more.
fn forget(ib: *mut ffi::ib_device) -> Option<Arc<Leasing>> {
    let mut known = KNOWN.lock();
    let at = known.iter().position(|device| device.as_ptr() == ib)?;
    known.remove(at).ok()
}

/// # Safety
///
/// Called from C, with the arguments that the slot it stands in promises.
unsafe extern "C" fn add_cb(ib: *mut ffi::ib_device) -> c_int {
    kernel::error::from_result(|| {
        // SAFETY: ib_core passes a registered device.
        if !unsafe { ffi::sdp_ib_device_speaks_ib_cm(ib) } {
            return Err(EOPNOTSUPP);
        }
        // SAFETY: ib_core passes a registered device, whose attributes do not change.
        let (sges, requests) = unsafe { ((*ib).attrs.max_send_sge, (*ib).attrs.max_qp_wr) };
        if from_attribute(sges) < LEAST_SGES || from_attribute(requests) < LEAST_WORK_REQUESTS {
            pr_warn!("a device can gather or queue too little and is not used\n");
            return Err(EOPNOTSUPP);
        }
        // SAFETY: `ib_client.add` is called with it.
        let device = unsafe { Device::new(NonNull::new(ib).ok_or(EINVAL)?) }?;
        let device = Leasing::new(device)?;
        let mut listens = KVec::new();
        let mut registry = REGISTRY.lock();
        // First: requests come as soon as there are listening identifiers.
        let known = KNOWN.lock().push(device.clone(), GFP_KERNEL);
        let added = (|| {
            known?;
            for (port, _) in registry.services.iter() {
                // SAFETY: The device is being added; this gets into its entry, or is dropped
                // below.
                let listen = unsafe { Listen::new(&device, *port) }?;
                listens.push(listen, GFP_KERNEL)?;
            }
            registry.entries.reserve(1, GFP_KERNEL)?;
            Ok(())
        })();
        if let Err(e) = added {
            drop(registry);
            drop(listens);
            forget(ib);
            device.retire(|sock: &SockRef| sock.drive(|inner| inner.on_device_removed(sock, ib)));
            return Err(e);
        }
        // Room was reserved.
        let _ = registry.entries.push(Entry { device, listens }, GFP_KERNEL);
        Ok(0)
    })
}

/// # Safety
///
/// Called from C, with the arguments that the slot it stands in promises.
unsafe extern "C" fn remove_cb(ib: *mut ffi::ib_device, _data: *mut c_void) {
    let Some(device) = forget(ib) else {
        return;
    };
    let entry = {
        let mut registry = REGISTRY.lock();
        let at = registry
            .entries
            .iter()
            .position(|e| e.device.as_ptr() == ib);
        at.and_then(|at| registry.entries.remove(at).ok())
    };
    // No new connections, then none at all.
    drop(entry);
    device.retire(|sock: &SockRef| sock.drive(|inner| inner.on_device_removed(sock, ib)));
}

struct Client(UnsafeCell<ffi::ib_client>);
// SAFETY: Handed to ib_core, which serialises its use.
unsafe impl Sync for Client {}
static CLIENT: Client = Client(UnsafeCell::new(ffi::ib_client {
    name: c"sdp".to_bytes_with_nul().as_ptr().cast(),
    add: Some(add_cb),
    remove: Some(remove_cb),
    ..pin_init::zeroed()
}));

/// The registration with ib_core.
pub(crate) struct Registration(());

impl Registration {
    pub(crate) fn new() -> Result<Self> {
        // SAFETY: The client is static.
        to_result(unsafe { ffi::ib_register_client(CLIENT.0.get()) })?;
        Ok(Self(()))
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        // SAFETY: Registered by `new`; waits for `remove_cb` of every device.
        unsafe { ffi::ib_unregister_client(CLIENT.0.get()) };
        // A static is never dropped, so its lists are freed here.
        let mut registry = REGISTRY.lock();
        registry.entries = KVec::new();
        registry.services = KVec::new();
        *KNOWN.lock() = KVec::new();
    }
}
