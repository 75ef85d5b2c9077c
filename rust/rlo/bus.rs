// SPDX-License-Identifier: GPL-2.0

//! Device addresses: the bus device that checks them, and the memory at them.
//!
//! Contexts: creation sleeps; the rest works in any.

use crate::{
    ffi,
    prelude::*, //
};
use core::ptr::NonNull;
use kernel::{
    error::from_err_ptr,
    sync::atomic::{
        Atomic,
        Relaxed, //
    }, //
};

static NUMBER: Atomic<i32> = Atomic::new(0);

/// A bus device with a DMA mask, so that the DMA API checks addresses.
pub(crate) struct Bus(NonNull<ffi::device>);

// SAFETY: The driver core locks for itself.
unsafe impl Send for Bus {}
// SAFETY: The driver core locks for itself.
unsafe impl Sync for Bus {}

impl Drop for Bus {
    fn drop(&mut self) {
        // SAFETY: The pointer is from `rlo_bus_create`.
        unsafe { ffi::rlo_bus_destroy(self.0.as_ptr()) }
    }
}

impl Bus {
    /// One for addresses of as many bits as the module's parameter says; None if it says 0.
    pub(crate) fn create() -> Result<Option<Self>> {
        // SAFETY: A plain number.
        let bits = unsafe { core::ptr::addr_of!(ffi::rlo_knobs.dma_bits).read_volatile() };
        if bits == 0 {
            return Ok(None);
        }
        let id = NUMBER.fetch_add(1, Relaxed);
        // SAFETY: No requirements.
        let dev = from_err_ptr(unsafe { ffi::rlo_bus_create(id, bits.clamp(24, 64)) })?;
        Ok(NonNull::new(dev).map(Self))
    }
}

/// The addresses of a device, with or without a bus device.
///
/// # Invariants
///
/// The bus device is there as long as there are callers.
#[derive(Clone, Copy)]
pub(crate) struct Addresses(*mut ffi::device);

// SAFETY: The driver core locks for itself.
unsafe impl Send for Addresses {}
// SAFETY: The driver core locks for itself.
unsafe impl Sync for Addresses {}

impl Addresses {
    /// # Safety
    ///
    /// `bus` is there as long as there are callers.
    pub(crate) unsafe fn new(bus: Option<&Bus>) -> Self {
        // INVARIANT: by the caller's promise.
        Self(bus.map_or(core::ptr::null_mut(), |bus| bus.0.as_ptr()))
    }

    /// The bus device, or null.
    pub(crate) fn bus(&self) -> *mut ffi::device {
        self.0
    }

    /// The kernel address of a device address.
    pub(crate) fn start(&self, address: u64, len: usize) -> Option<*mut u8> {
        if len == 0 {
            return None;
        }
        // SAFETY: The bus device is there, by the type invariant.
        let start = unsafe { ffi::rlo_address(self.0, address, len) };
        (!start.is_null()).then_some(start.cast())
    }

    /// The same for an address that a peer chose.
    pub(crate) fn peers_start(&self, address: u64, len: usize) -> Option<*mut u8> {
        let start = self.start(address, len)?;
        // SAFETY: The bus device is there, by the type invariant.
        unsafe { ffi::rlo_pages_exist(self.0, address, len) }.then_some(start)
    }
}
