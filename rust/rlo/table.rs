// SPDX-License-Identifier: GPL-2.0

//! Objects by number: queue pairs by QPN, regions by the upper 24 bits of a key.
//!
//! Contexts: lookups work in any context; insertion and removal sleep.

use crate::{
    irq_lock::{
        new_spinlock_irq,
        SpinLockIrq, //
    },
    prelude::*, //
};
use kernel::sync::Arc;

enum Slot<T> {
    Free,
    /// The number is taken, and the object is being made.
    Reserved,
    Taken(Arc<T>),
}

struct Slots<T> {
    slots: KVVec<Slot<T>>,
    /// The start of the search for a free number. Released numbers are reused as late as possible,
    /// because peers may still use them.
    next: usize,
    used: usize,
}

/// Objects with numbers from `first` on.
#[pin_data]
pub(crate) struct Table<T> {
    #[pin]
    slots: SpinLockIrq<Slots<T>>,
    first: u32,
    limit: usize,
}

impl<T: 'static> Table<T> {
    /// At most `limit` objects at a time, with numbers from `first` on.
    pub(crate) fn new(first: u32, limit: u32) -> impl PinInit<Self> {
        pin_init!(Self {
            slots <- new_spinlock_irq!(Slots {
                slots: KVVec::new(),
                next: 0,
                used: 0,
            }),
            first,
            limit: limit as usize,
        })
    }

    /// Reserves a number and inserts the object that `make` returns for it.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if all numbers are in use or there is no memory; errors of `make`.
    pub(crate) fn enter(&self, make: impl FnOnce(u32) -> Result<Arc<T>>) -> Result<Arc<T>> {
        let index = self.reserve()?;
        let made = make(self.first.wrapping_add(index as u32));
        let mut inner = self.slots.lock();
        if let Some(slot) = inner.slots.get_mut(index) {
            *slot = match &made {
                Ok(object) => Slot::Taken(object.clone()),
                Err(_) => Slot::Free,
            };
        }
        if made.is_err() {
            inner.used -= 1;
        }
        made
    }

    /// Reserves a free slot and returns its number.
    fn reserve(&self) -> Result<usize> {
        loop {
            let len = {
                let mut inner = self.slots.lock();
                let len = inner.slots.len();
                if inner.used >= self.limit {
                    return Err(ENOMEM);
                }
                // A quarter is kept free, so that numbers are not reused soon.
                if inner.used + inner.used / 4 < len || len >= self.limit {
                    let start = inner.next;
                    for step in 0..len {
                        let index = (start + step) % len;
                        if let Some(slot @ Slot::Free) = inner.slots.get_mut(index) {
                            *slot = Slot::Reserved;
                            inner.next = (index + 1) % len;
                            inner.used += 1;
                            return Ok(index);
                        }
                    }
                }
                if len >= self.limit {
                    return Err(ENOMEM);
                }
                len
            };
            let wanted = (len * 2).clamp(64, self.limit.max(64));
            let mut grown = KVVec::with_capacity(wanted, GFP_KERNEL)?;
            let old = {
                let mut inner = self.slots.lock();
                if inner.slots.len() != len {
                    continue;
                }
                for slot in inner.slots.iter_mut() {
                    let _ = grown.push_within_capacity(core::mem::replace(slot, Slot::Free));
                }
                while grown.len() < wanted {
                    let _ = grown.push_within_capacity(Slot::Free);
                }
                inner.next = len;
                core::mem::replace(&mut inner.slots, grown)
            };
            drop(old);
        }
    }

    /// The object with this number.
    pub(crate) fn get(&self, number: u32) -> Option<Arc<T>> {
        let index = number.checked_sub(self.first)? as usize;
        match self.slots.lock().slots.get(index)? {
            Slot::Taken(object) => Some(object.clone()),
            _ => None,
        }
    }

    /// Removes the object with this number.
    pub(crate) fn remove(&self, number: u32) -> Option<Arc<T>> {
        let index = number.checked_sub(self.first)? as usize;
        let mut inner = self.slots.lock();
        let slot = inner.slots.get_mut(index)?;
        match core::mem::replace(slot, Slot::Free) {
            Slot::Taken(object) => {
                inner.used -= 1;
                Some(object)
            }
            other => {
                *slot = other;
                None
            }
        }
    }

    /// Removes all objects and frees the memory. Sleeps.
    pub(crate) fn clear(&self) {
        let slots = {
            let mut inner = self.slots.lock();
            inner.used = 0;
            inner.next = 0;
            core::mem::replace(&mut inner.slots, KVVec::new())
        };
        drop(slots);
    }
}
