// SPDX-License-Identifier: GPL-2.0

//! Objects by number: queue pairs by QPN, regions by the upper 24 bits of a key.
//!
//! Lookups are made for every message, with interrupts disabled, so nothing under the lock takes
//! longer for a larger table: free numbers form a list, and the table grows by chunks.
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

/// Slots of a chunk; all chunks but the last are full.
const CHUNK: usize = 256;
/// The end of the list of free slots.
const NONE: u32 = u32::MAX;

enum Slot<T> {
    /// With the next free slot.
    Free(u32),
    /// The number is taken, and the object is being made.
    Reserved,
    Taken(Arc<T>),
}

struct Slots<T> {
    chunks: KVVec<KVVec<Slot<T>>>,
    len: usize,
    /// The first and the last free slot. Released numbers are appended, so that they are reused as
    /// late as possible, because peers may still use them.
    first: u32,
    last: u32,
    used: usize,
}

impl<T> Slots<T> {
    fn new() -> Self {
        Self {
            chunks: KVVec::new(),
            len: 0,
            first: NONE,
            last: NONE,
            used: 0,
        }
    }

    fn slot(&mut self, index: usize) -> Option<&mut Slot<T>> {
        self.chunks.get_mut(index / CHUNK)?.get_mut(index % CHUNK)
    }

    /// Takes the number that has been free for the longest time.
    fn take(&mut self) -> Option<usize> {
        let index = self.first as usize;
        let slot = self.slot(index)?;
        let &mut Slot::Free(next) = slot else {
            return None;
        };
        *slot = Slot::Reserved;
        self.first = next;
        if next == NONE {
            self.last = NONE;
        }
        self.used += 1;
        Some(index)
    }

    /// Frees a number; its object is returned.
    fn give(&mut self, index: usize) -> Option<Slot<T>> {
        let former = core::mem::replace(self.slot(index)?, Slot::Free(NONE));
        self.used -= 1;
        self.append(index as u32, index as u32);
        Some(former)
    }

    /// Appends free slots that are a list already.
    fn append(&mut self, first: u32, last: u32) {
        match self.slot(self.last as usize) {
            Some(slot) => *slot = Slot::Free(first),
            None => self.first = first,
        }
        self.last = last;
    }
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
            slots <- new_spinlock_irq!(Slots::new()),
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
        match &made {
            Ok(object) => {
                if let Some(slot) = inner.slot(index) {
                    *slot = Slot::Taken(object.clone());
                }
            }
            Err(_) => drop(inner.give(index)),
        }
        made
    }

    /// Reserves a free slot and returns its number.
    fn reserve(&self) -> Result<usize> {
        loop {
            let (len, chunks) = {
                let mut inner = self.slots.lock();
                // A quarter is kept free, so that numbers are not reused soon.
                if inner.used + inner.used / 4 < inner.len || inner.len >= self.limit {
                    return inner.take().ok_or(ENOMEM);
                }
                (inner.len, inner.chunks.len())
            };
            self.grow(len, chunks)?;
        }
    }

    /// Adds a chunk to a table of this length, unless another thread has done it.
    fn grow(&self, len: usize, chunks: usize) -> Result {
        let count = CHUNK.min(self.limit - len);
        let mut chunk = KVVec::with_capacity(count, GFP_KERNEL)?;
        for index in len..len + count {
            let next = if index + 1 < len + count {
                index as u32 + 1
            } else {
                NONE
            };
            chunk
                .push_within_capacity(Slot::Free(next))
                .map_err(|_| ENOMEM)?;
        }
        // The list of chunks is short: it has one element for `CHUNK` objects.
        let mut list = KVVec::with_capacity((chunks + 1).next_power_of_two(), GFP_KERNEL)?;
        let former = {
            let mut inner = self.slots.lock();
            if inner.len != len {
                return Ok(());
            }
            let former = if inner.chunks.len() < inner.chunks.capacity() {
                list
            } else {
                for known in inner.chunks.iter_mut() {
                    let _ = list.push_within_capacity(core::mem::replace(known, KVVec::new()));
                }
                core::mem::replace(&mut inner.chunks, list)
            };
            let _ = inner.chunks.push_within_capacity(chunk);
            inner.append(len as u32, (len + count - 1) as u32);
            inner.len += count;
            former
        };
        drop(former);
        Ok(())
    }

    /// The object with this number.
    pub(crate) fn get(&self, number: u32) -> Option<Arc<T>> {
        let index = number.checked_sub(self.first)? as usize;
        match self.slots.lock().slot(index)? {
            Slot::Taken(object) => Some(object.clone()),
            _ => None,
        }
    }

    /// Removes the object with this number.
    pub(crate) fn remove(&self, number: u32) -> Option<Arc<T>> {
        let index = number.checked_sub(self.first)? as usize;
        let mut inner = self.slots.lock();
        if !matches!(inner.slot(index)?, Slot::Taken(_)) {
            return None;
        }
        match inner.give(index)? {
            Slot::Taken(object) => Some(object),
            _ => None,
        }
    }

    /// Removes all objects and frees the memory. Sleeps.
    pub(crate) fn clear(&self) {
        let slots = core::mem::replace(&mut *self.slots.lock(), Slots::new());
        drop(slots);
    }
}
