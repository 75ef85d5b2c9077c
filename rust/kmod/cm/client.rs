// SPDX-License-Identifier: GPL-2.0

//! Devices that come and go, as ib_core reports them.
//!
//! Contexts: may sleep. Locks: the locks of `devices`; sockets are told without them.

use crate::{
    alarm::Alarm,
    cm::passive::Requests,
    devices,
    endpoint::{
        Inner,
        Phase, //
    },
    object::{
        Sock,
        SockRef, //
    },
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

impl Inner {
    /// The device of the link is being removed.
    fn on_device_removed(&mut self, sock: &Sock, device: DeviceId) {
        // For unanswered DREQs of earlier connections.
        sock.set_alarm(Alarm::Parting, 0);
        let on_it = self
            .link
            .as_ref()
            .is_some_and(|link| link.qp().device().id() == device);
        if self.arrival.has_request() {
            // A request that waits holds the device.
            sock.set_alarm(Alarm::Engine, 0);
        }
        if !on_it {
            return;
        }
        sock.net().stats.device_removals.inc();
        if self.phase == Phase::Connecting {
            return self.fail_connect(sock, ENETUNREACH);
        }
        if let Some(engine) = self.engine.as_mut() {
            engine.handle_link_failed();
        }
        self.settle(sock);
        if self.link.is_some() {
            self.finish(sock);
        }
    }
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
