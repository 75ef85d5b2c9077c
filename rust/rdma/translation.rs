// SPDX-License-Identifier: GPL-2.0

//! Pages of a program that are pinned for more than one use: with the watch that tells whether they are
//! still the program's, and the last device's mapping.
//!
//! Contexts: process context, may sleep. Locks: `mapped`, innermost.

use crate::{
    prelude::*,
    rdma::{
        device::{
            Device,
            DeviceId, //
        },
        interval::{
            Interval,
            Watch, //
        },
        mapped::Mapped,
        mapping::Direction,
        pins::Pins,
        spans::Key, //
    },
};
use kernel::{
    new_mutex,
    page::PAGE_SIZE,
    sync::{
        Arc,
        Mutex, //
    },
};

/// The mapping of all pages for a device.
enum Slot {
    Empty,
    Kept(Arc<Mapped>),
    /// It is of no use on this device, because bytes have to be handed over at each use.
    Synced(DeviceId),
}

/// See the module. The order of the fields is the order of destruction.
///
/// # Invariants
///
/// `pins` has the pages from `first` on, at least one, and they were pinned after the watch began.
#[pin_data]
pub(super) struct Translation {
    #[pin]
    mapped: Mutex<Slot>,
    pins: Pins,
    first: usize,
    watch: Watch,
}

impl Translation {
    /// Pages that were pinned after `watch` began, from the page `first` on.
    pub(super) fn new(pins: Pins, first: usize, watch: Watch) -> Result<Arc<Self>> {
        Arc::pin_init(
            // INVARIANT: by the caller.
            pin_init!(Self {
                mapped <- new_mutex!(Slot::Empty, "rdma_translation"),
                pins,
                first,
                watch,
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    pub(super) fn pins(&self) -> &Pins {
        &self.pins
    }

    /// The first page, by its address.
    pub(super) fn first_page(&self) -> usize {
        self.first
    }

    pub(super) fn interval(&self) -> &Arc<Interval> {
        self.watch.interval()
    }

    pub(super) fn key(&self) -> Key {
        self.interval().key()
    }

    /// Whether the program may have other pages by now.
    pub(super) fn is_stale(&self) -> bool {
        self.interval().is_stale()
    }

    /// The mapping of all pages for `device`, which stays; none where bytes have to be handed over at
    /// each use.
    pub(super) fn mapped(&self, device: &Arc<Device>) -> Option<Arc<Mapped>> {
        let mut slot = self.mapped.lock();
        match &*slot {
            Slot::Kept(mapped) if mapped.is_for(device) => return Some(mapped.clone()),
            Slot::Synced(id) if *id == device.id() => return None,
            _ => {}
        }
        let direction = if self.pins.is_for_writing() {
            Direction::FromDevice
        } else {
            Direction::ToDevice
        };
        let pages = self.pins.as_slice();
        let len = pages.len().saturating_mul(PAGE_SIZE);
        // SAFETY: The pages are whole ones. They are pinned as long as this value, which has the mapping,
        // and so has every user of that.
        let mapped = unsafe { Mapped::new(device, pages, 0, len, direction) }.ok()?;
        if mapped.needs_sync() {
            *slot = Slot::Synced(device.id());
            return None;
        }
        let mapped = Arc::new(mapped, GFP_KERNEL).ok()?;
        *slot = Slot::Kept(mapped.clone());
        drop(slot);
        // It would hold a device that goes: a removal that has begun may have passed this value.
        if device.is_closing() {
            self.unmap();
        }
        Some(mapped)
    }

    /// Gives the mapping up.
    fn unmap(&self) {
        let before = core::mem::replace(&mut *self.mapped.lock(), Slot::Empty);
        drop(before);
    }
}
