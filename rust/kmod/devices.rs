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
    ffi,
    handle::SockRef,
    net::namespace::Namespace,
    prelude::*,
    rdma::{
        cm::{
            Listener,
            OnRequest, //
        },
        device::{
            Device,
            DeviceId, //
        },
        lease,
        noio::NoIo,
        route::SockAddr,
    }, //
};
use kernel::sync::{
    global_lock,
    Arc, //
};

/// A header and a message in two pieces.
const LEAST_SGES: u32 = 3;
/// The engine's least depth in both directions, and room to drain.
const LEAST_WORK_REQUESTS: u16 = 8;

/// A device that sockets use.
pub(crate) type Leasing = lease::Leasing<SockRef>;

/// The right of a socket to use a device.
pub(crate) type Lease = lease::Lease<SockRef>;

/// A port that is listened on, on one device.
struct Listen {
    port: u16,
    _listener: Listener,
}

impl Listen {
    fn new<R: OnRequest>(device: &Arc<Device>, port: u16) -> Result<Self> {
        let service = u64::from(ffi::SDP_SERVICE_ID_BASE).wrapping_add(port.into());
        Ok(Self {
            port,
            _listener: Listener::new::<R>(device, service)?,
        })
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
    /// Every device between `add` and `remove`.
    pub(crate) unsafe(uninit) static KNOWN: Mutex<KVec<Arc<Leasing>>> = KVec::new();
}

/// A listening port. Listening ends when the last one of the port is dropped. Dropping
/// sleeps, and no lock of a socket may be held.
pub(crate) struct Service {
    port: u16,
}

impl Service {
    /// Listens on `port`; requests go to `R`, the same for all ports.
    pub(crate) fn new<R: OnRequest>(port: u16) -> Result<Self> {
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
            let listen = Listen::new::<R>(&entry.device, port)
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

/// A device that has an address of `family` in the namespace, and that
/// address. Loopback connections use it.
pub(crate) fn local_address(net: &Namespace, family: u32) -> Result<SockAddr> {
    // Asked without a lock: a device answers slowly, and any user may ask.
    let mut devices: KVec<Arc<Leasing>> = KVec::new();
    {
        let _noio = NoIo::new();
        let known = KNOWN.lock();
        devices.reserve(known.len(), GFP_KERNEL)?;
        for device in known.iter() {
            devices
                .push_within_capacity(device.clone())
                .map_err(|_| ENOMEM)?;
        }
    }
    devices
        .iter()
        .find_map(|device| device.local_address(net, family))
        .ok_or(ENODEV)
}

/// Our state of a device, unless its removal has begun.
///
/// An identifier of rdma_cm can outlive our removal of its device, because rdma_cm
/// hears of it after us.
pub(crate) fn find(device: DeviceId) -> Option<Arc<Leasing>> {
    let known = KNOWN.lock();
    known.iter().find(|known| known.id() == device).cloned()
}

/// Takes the device off the list, so that no caller finds it any more.
fn forget(device: DeviceId) -> Option<Arc<Leasing>> {
    let mut known = KNOWN.lock();
    let at = known.iter().position(|known| known.id() == device)?;
    known.remove(at).ok()
}

/// A device has come. Requests of peers go to `R`; `tell` tells a socket that its device goes away.
pub(crate) fn add<R: OnRequest>(device: &Arc<Device>, tell: fn(&SockRef, DeviceId)) -> Result {
    let limits = device.limits();
    if limits.send_sges < LEAST_SGES || limits.work_requests < LEAST_WORK_REQUESTS {
        pr_warn!("a device can gather or queue too little and is not used\n");
        return Err(EOPNOTSUPP);
    }
    let id = device.id();
    let device = Leasing::new(device.clone())?;
    let mut listens = KVec::new();
    let mut registry = REGISTRY.lock();
    // First: requests come as soon as there are listening identifiers.
    let known = {
        // Handlers of requests look there.
        let _noio = NoIo::new();
        KNOWN.lock().push(device.clone(), GFP_KERNEL)
    };
    let added = (|| {
        known?;
        for (port, _) in registry.services.iter() {
            listens.push(Listen::new::<R>(&device, *port)?, GFP_KERNEL)?;
        }
        registry.entries.reserve(1, GFP_KERNEL)?;
        Ok(())
    })();
    if let Err(e) = added {
        drop(registry);
        drop(listens);
        forget(id);
        retire(&device, tell);
        return Err(e);
    }
    // Room was reserved.
    let _ = registry.entries.push(Entry { device, listens }, GFP_KERNEL);
    Ok(())
}

/// The device goes away; `tell` tells each socket that uses it.
pub(crate) fn remove(id: DeviceId, tell: fn(&SockRef, DeviceId)) {
    let Some(device) = forget(id) else {
        return;
    };
    let entry = {
        let mut registry = REGISTRY.lock();
        let at = registry.entries.iter().position(|e| e.device.id() == id);
        at.and_then(|at| registry.entries.remove(at).ok())
    };
    // No new connections, then none at all.
    drop(entry);
    retire(&device, tell);
}

/// Tells every connection of `device` that it goes away.
fn retire(device: &Leasing, tell: fn(&SockRef, DeviceId)) {
    let id = device.id();
    device.retire(|sock: &SockRef| tell(sock, id));
}

/// There are no devices any more. A static is never dropped, so its lists are freed here.
pub(crate) fn clear() {
    let mut registry = REGISTRY.lock();
    registry.entries = KVec::new();
    registry.services = KVec::new();
    *KNOWN.lock() = KVec::new();
}
