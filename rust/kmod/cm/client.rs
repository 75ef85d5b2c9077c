// SPDX-License-Identifier: GPL-2.0

//! Devices that come and go, as ib_core reports them.
//!
//! Contexts: may sleep. Locks: the locks of `devices`.

use crate::{
    cm::passive::Requests,
    devices,
    object::SockRef,
    prelude::*,
    rdma::{
        client::{
            self,
            Client,
            Slot, //
        },
        device::{
            Device,
            DeviceId, //
        },
    }, //
};
use kernel::sync::Arc;

/// The events of devices that ib_core reports.
struct Devices;

static CLIENT: Slot<Devices> = Slot::new(c"sdp");

impl Client for Devices {
    fn slot() -> &'static Slot<Self> {
        &CLIENT
    }

    fn add(device: &Arc<Device>) -> Result {
        devices::add::<Requests>(device, on_removed)
    }

    fn remove(id: DeviceId) {
        devices::remove(id, on_removed);
    }
}

/// The device `id`, which `sock` has a lease of, goes away.
fn on_removed(sock: &SockRef, id: DeviceId) {
    sock.drive(|inner| inner.on_device_removed(sock, id));
}

/// The registration with ib_core.
pub(crate) struct Registration {
    client: Option<client::Registration<Devices>>,
}

impl Registration {
    pub(crate) fn new() -> Result<Self> {
        let client = client::Registration::new()?;
        Ok(Self {
            client: Some(client),
        })
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        // Waits until every device is removed.
        self.client = None;
        devices::clear();
    }
}
