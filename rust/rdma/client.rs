// SPDX-License-Identifier: GPL-2.0

//! A client of ib_core: code that is told of devices as they come and go.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)
//!
//! Contexts: everything may sleep; ib_core calls a client for one device at a time. No locks.

use crate::{
    ffi,
    prelude::*,
    rdma::{
        device::{
            Device,
            DeviceId,
            Gone, //
        },
        translations, //
    },
};
use core::{
    cell::UnsafeCell,
    marker::PhantomData,
    ptr::NonNull, //
};
use kernel::{
    error::to_result,
    sync::{
        atomic::{
            Atomic,
            Full, //
        },
        Arc, //
    },
};

/// Code that uses devices.
pub(crate) trait Client: Sized + 'static {
    /// The place of this client, a static.
    fn slot() -> &'static Slot<Self>;

    /// A device has come. After an error it is not used, and nothing may refer to it.
    fn add(device: &Arc<Device>) -> Result;

    /// The device goes away. ib_core's removal goes on when the last reference to the
    /// device is gone, so this ends all use of it.
    fn remove(device: DeviceId);
}

/// The client as ib_core knows it. It has to be a static.
pub(crate) struct Slot<C> {
    client: UnsafeCell<ffi::ib_client>,
    registered: Atomic<i32>,
    _client: PhantomData<fn() -> C>,
}

// SAFETY: `client` is ib_core's, which serialises its use.
unsafe impl<C> Sync for Slot<C> {}

impl<C: Client> Slot<C> {
    /// A client of that name.
    pub(crate) const fn new(name: &'static CStr) -> Self {
        Self {
            client: UnsafeCell::new(ffi::ib_client {
                name: name.to_bytes_with_nul().as_ptr().cast(),
                add: Some(add_cb::<C>),
                remove: Some(remove_cb::<C>),
                ..pin_init::zeroed()
            }),
            registered: Atomic::new(0),
            _client: PhantomData,
        }
    }
}

/// The registration of a client. Its drop removes every device from the client.
pub(crate) struct Registration<C: Client>(PhantomData<fn() -> C>);

impl<C: Client> Registration<C> {
    /// Registers the client, to which ib_core adds every device that is there; EBUSY if it
    /// is registered.
    pub(crate) fn new() -> Result<Self> {
        let slot = C::slot();
        if slot.registered.xchg(1, Full) != 0 {
            return Err(EBUSY);
        }
        // SAFETY: The client is static, and not registered.
        let registered = to_result(unsafe { ffi::ib_register_client(slot.client.get()) });
        if let Err(e) = registered {
            slot.registered.xchg(0, Full);
            return Err(e);
        }
        Ok(Self(PhantomData))
    }
}

impl<C: Client> Drop for Registration<C> {
    fn drop(&mut self) {
        let slot = C::slot();
        // SAFETY: Registered by `new`; waits for `remove_cb` of every device.
        unsafe { ffi::ib_unregister_client(slot.client.get()) };
        slot.registered.xchg(0, Full);
    }
}

/// A device that the client has, as ib_core keeps it.
struct Added {
    device: Arc<Device>,
    gone: Arc<Gone>,
}

impl Added {
    /// Waits until there is no reference to the device any more.
    fn end(self) {
        self.device.close();
        // Memory in the cache is mapped for it.
        translations::clear();
        drop(self.device);
        self.gone.wait();
    }
}

/// # Safety
///
/// Called by ib_core with a device that is registered until `remove_cb` has returned.
unsafe extern "C" fn add_cb<C: Client>(ib: *mut ffi::ib_device) -> c_int {
    kernel::error::from_result(|| {
        let ib = NonNull::new(ib).ok_or(EINVAL)?;
        // SAFETY: The device is valid, by the caller's promise.
        if !unsafe { ffi::rust_ib_device_speaks_ib_cm(ib.as_ptr()) } {
            return Err(EOPNOTSUPP);
        }
        let place = KBox::<Added>::new_uninit(GFP_KERNEL)?;
        let gone = Gone::new()?;
        // SAFETY: ib_core keeps the device until `remove_cb` has returned, or this call where
        // it fails. Both wait in `Added::end` for the last reference.
        let device = unsafe { Device::new(ib, gone.clone()) }?;
        let added = C::add(&device);
        let ours = Added { device, gone };
        if let Err(e) = added {
            ours.end();
            return Err(e);
        }
        let data = KBox::into_raw(KBox::write(place, ours)).cast();
        // SAFETY: The client is being added to the device. `remove_cb` takes the box.
        unsafe { ffi::ib_set_client_data(ib.as_ptr(), C::slot().client.get(), data) };
        Ok(0)
    })
}

/// # Safety
///
/// Called by ib_core once for each device that `add_cb` has accepted, with its data.
unsafe extern "C" fn remove_cb<C: Client>(_ib: *mut ffi::ib_device, data: *mut c_void) {
    // SAFETY: By the caller's promise it is what `add_cb` has set.
    let ours = unsafe { KBox::from_raw(data.cast::<Added>()) };
    C::remove(ours.device.id());
    KBox::into_inner(ours).end();
}
