// SPDX-License-Identifier: GPL-2.0

//! A first-in, first-out queue over one growing allocation.
//!
//! The kernel crate has no ring buffer. Contexts: as the allocation flags
//! given to [`Fifo::push`] say; everything else never allocates.

use crate::prelude::*;
use kernel::alloc::Flags;

/// The fewest elements that memory is allocated for.
const LEAST: usize = 4;

/// A queue of `T`.
///
/// # Invariants
///
/// `len <= slots.len()`, and exactly the `len` slots from `head` on (modulo
/// `slots.len()`) are `Some`.
pub(crate) struct Fifo<T> {
    slots: KVVec<Option<T>>,
    head: usize,
    len: usize,
}

impl<T> Fifo<T> {
    /// An empty queue, without memory.
    pub(crate) const fn new() -> Self {
        // INVARIANT: no slot, none in use.
        Self {
            slots: KVVec::new(),
            head: 0,
            len: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    fn at(&self, index: usize) -> usize {
        let i = self.head.wrapping_add(index);
        let cap = self.slots.len();
        if i >= cap {
            i.wrapping_sub(cap)
        } else {
            i
        }
    }

    /// Whether `count` more elements need no memory.
    pub(crate) fn has_room(&self, count: usize) -> bool {
        self.len.saturating_add(count) <= self.slots.len()
    }

    /// Makes room for one more element.
    pub(crate) fn reserve(&mut self, flags: Flags) -> Result {
        self.reserve_for(1, flags)
    }

    /// Makes room for `count` more elements.
    pub(crate) fn reserve_for(&mut self, count: usize, flags: Flags) -> Result {
        if self.has_room(count) {
            return Ok(());
        }
        let cap = self.slots.len().saturating_mul(2).max(LEAST);
        self.move_to(cap.max(self.len.saturating_add(count)), flags)
    }

    /// Moves the elements to an allocation for `cap` of them, or leaves them where they are. There
    /// are no more than that.
    fn move_to(&mut self, cap: usize, flags: Flags) -> Result {
        // A program or a peer may decide about the length, and the callers cope.
        let mut other = KVVec::with_capacity(cap, flags | __GFP_NOWARN)?;
        for i in 0..self.len {
            let at = self.at(i);
            // Within the capacity reserved above, so this never allocates.
            other.push(self.slots.get_mut(at).and_then(Option::take), flags)?;
        }
        while other.len() < cap {
            other.push(None, flags)?;
        }
        // INVARIANT: the elements were moved to the front, in order.
        self.slots = other;
        self.head = 0;
        Ok(())
    }

    /// Returns memory that only more elements would need, if there is memory to move
    /// these to. May sleep.
    pub(crate) fn shrink(&mut self) {
        if self.is_empty() {
            *self = Self::new();
            return;
        }
        let cap = self.len.next_power_of_two().max(LEAST);
        if cap < self.slots.len() {
            let _ = self.move_to(cap, GFP_KERNEL);
        }
    }

    /// Appends `value`; gives it back in the error case by dropping it.
    pub(crate) fn push(&mut self, value: T, flags: Flags) -> Result {
        self.reserve(flags)?;
        let at = self.at(self.len);
        if let Some(slot) = self.slots.get_mut(at) {
            *slot = Some(value);
            self.len = self.len.saturating_add(1);
        }
        Ok(())
    }

    /// Puts `value` before the oldest element; drops it in the error case.
    pub(crate) fn push_front(&mut self, value: T, flags: Flags) -> Result {
        self.reserve(flags)?;
        let last = self.slots.len().saturating_sub(1);
        let at = self.head.checked_sub(1).unwrap_or(last);
        if let Some(slot) = self.slots.get_mut(at) {
            *slot = Some(value);
            self.head = at;
            self.len = self.len.saturating_add(1);
        }
        Ok(())
    }

    /// Takes the oldest element.
    pub(crate) fn pop(&mut self) -> Option<T> {
        if self.len == 0 {
            return None;
        }
        let value = self.slots.get_mut(self.head).and_then(Option::take);
        self.head = self.at(1);
        self.len = self.len.saturating_sub(1);
        value
    }

    /// Takes the element `index` places behind the oldest.
    pub(crate) fn remove(&mut self, index: usize) -> Option<T> {
        if index >= self.len {
            return None;
        }
        // One place further at a time, it becomes the oldest.
        for i in (1..=index).rev() {
            let (a, b) = (self.at(i), self.at(i.wrapping_sub(1)));
            self.slots.swap(a, b);
        }
        self.pop()
    }

    /// The oldest element.
    pub(crate) fn front_mut(&mut self) -> Option<&mut T> {
        self.get_mut(0)
    }

    /// The newest element.
    pub(crate) fn back_mut(&mut self) -> Option<&mut T> {
        let last = self.len.checked_sub(1)?;
        self.get_mut(last)
    }

    /// The element `index` places behind the oldest.
    pub(crate) fn get(&self, index: usize) -> Option<&T> {
        if index >= self.len {
            return None;
        }
        self.slots.get(self.at(index)).and_then(Option::as_ref)
    }

    /// Exchanges two elements, given by their places behind the oldest.
    pub(crate) fn swap(&mut self, one: usize, other: usize) {
        if one < self.len && other < self.len {
            let (one, other) = (self.at(one), self.at(other));
            self.slots.swap(one, other);
        }
    }

    /// As `get`, to be changed.
    pub(crate) fn get_mut(&mut self, index: usize) -> Option<&mut T> {
        if index >= self.len {
            return None;
        }
        let at = self.at(index);
        self.slots.get_mut(at).and_then(Option::as_mut)
    }
}

#[kunit_tests(rust_fifo)]
mod tests {
    use super::*;

    /// A queue of the numbers of `range`, which does not begin at its first slot.
    fn turned(range: core::ops::Range<u32>) -> Result<Fifo<u32>> {
        let mut fifo = Fifo::new();
        for _ in 0..5 {
            fifo.push(u32::MAX, GFP_KERNEL)?;
            fifo.pop();
        }
        for n in range {
            fifo.push(n, GFP_KERNEL)?;
        }
        Ok(fifo)
    }

    fn rest(fifo: &mut Fifo<u32>) -> Result<KVec<u32>> {
        let mut all = KVec::new();
        while let Some(n) = fifo.pop() {
            all.push(n, GFP_KERNEL)?;
        }
        Ok(all)
    }

    #[test]
    fn order_survives_wrapping_and_growth() -> Result {
        for count in [0, 1, 7, 8, 9, 16, 17, 100] {
            let mut fifo = turned(0..count)?;
            assert_eq!(fifo.len(), count as usize);
            assert_eq!(fifo.is_empty(), count == 0);
            assert!(rest(&mut fifo)?.iter().copied().eq(0..count));
            assert!(fifo.is_empty());
        }
        Ok(())
    }

    #[test]
    fn an_empty_queue_returns_its_memory() -> Result {
        let mut fifo = turned(0..3)?;
        while fifo.pop().is_some() {}
        fifo.shrink();
        assert!(fifo.slots.capacity() == 0 && fifo.pop().is_none());
        fifo.push(7, GFP_KERNEL)?;
        assert_eq!(fifo.pop(), Some(7));
        Ok(())
    }

    #[test]
    fn a_queue_keeps_its_elements_when_it_returns_memory() -> Result {
        for (count, room) in [(1, 4), (4, 4), (5, 8), (8, 8), (9, 16)] {
            let mut fifo = turned(0..40)?;
            for _ in count..40 {
                fifo.pop();
            }
            fifo.shrink();
            assert_eq!((fifo.len(), fifo.slots.len()), (count as usize, room));
            fifo.push(40, GFP_KERNEL)?;
            assert!(rest(&mut fifo)?.iter().copied().eq(40 - count..41));
        }
        Ok(())
    }

    #[test]
    fn front_and_back_are_the_oldest_and_the_newest() -> Result {
        let mut fifo = turned(1..4)?;
        fifo.push_front(0, GFP_KERNEL)?;
        assert_eq!(fifo.front_mut().copied(), Some(0));
        assert_eq!(fifo.back_mut().copied(), Some(3));
        assert_eq!(fifo.get(2).copied(), Some(2));
        assert_eq!(fifo.get(4).copied(), None);
        assert!(rest(&mut fifo)?.iter().copied().eq(0..4));
        assert!(fifo.front_mut().is_none() && fifo.back_mut().is_none());
        Ok(())
    }

    #[test]
    fn push_front_of_a_full_queue_grows_it() -> Result {
        let mut fifo = turned(1..9)?;
        fifo.push_front(0, GFP_KERNEL)?;
        assert!(rest(&mut fifo)?.iter().copied().eq(0..9));
        Ok(())
    }

    #[test]
    fn remove_keeps_the_order_of_the_others() -> Result {
        for index in 0..8 {
            let mut fifo = turned(0..8)?;
            assert_eq!(fifo.remove(index as usize), Some(index));
            assert_eq!(fifo.remove(7), None);
            let others = (0..8).filter(|n| *n != index);
            assert!(rest(&mut fifo)?.iter().copied().eq(others));
        }
        Ok(())
    }

    #[test]
    fn swap_leaves_alone_what_is_not_there() -> Result {
        let mut fifo = turned(0..4)?;
        fifo.swap(1, 3);
        fifo.swap(0, 4);
        assert!(rest(&mut fifo)?.iter().copied().eq([0, 3, 2, 1]));
        Ok(())
    }
}
