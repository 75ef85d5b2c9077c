// SPDX-License-Identifier: GPL-2.0

//! A short queue that lives in place.

/// There is no room, and nothing has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Full;

/// Up to `N` items, oldest first, without gaps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fifo<T, const N: usize> {
    items: [Option<T>; N],
}

impl<T: Copy, const N: usize> Fifo<T, N> {
    pub(crate) fn new() -> Self {
        Self { items: [None; N] }
    }

    pub(crate) fn len(&self) -> u8 {
        self.count(|_| true)
    }

    /// How many items pass.
    pub(crate) fn count(&self, pass: impl Fn(&T) -> bool) -> u8 {
        let mut count = 0u8;
        for item in self.iter() {
            if pass(item) {
                count = count.saturating_add(1);
            }
        }
        count
    }

    /// The sum of a length over all items.
    pub(crate) fn sum(&self, len: impl Fn(&T) -> u32) -> u64 {
        let mut sum = 0u64;
        for item in self.iter() {
            sum = sum.saturating_add(len(item).into());
        }
        sum
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.first().is_none()
    }

    /// How many more items fit.
    pub(crate) fn room(&self) -> u8 {
        u8::try_from(N)
            .unwrap_or(u8::MAX)
            .saturating_sub(self.len())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.items.iter().map_while(Option::as_ref)
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.items.iter_mut().map_while(Option::as_mut)
    }

    pub(crate) fn first(&self) -> Option<&T> {
        self.items.first()?.as_ref()
    }

    pub(crate) fn first_mut(&mut self) -> Option<&mut T> {
        self.items.first_mut()?.as_mut()
    }

    /// Puts an item last.
    pub(crate) fn push(&mut self, item: T) -> Result<(), Full> {
        match self.items.iter_mut().find(|slot| slot.is_none()) {
            Some(slot) => {
                *slot = Some(item);
                Ok(())
            }
            None => Err(Full),
        }
    }

    /// Takes the oldest item out.
    pub(crate) fn pop(&mut self) -> Option<T> {
        let first = self.first().copied();
        let mut rank = 0u8;
        self.retain(|_| {
            rank = rank.saturating_add(1);
            rank > 1
        });
        first
    }

    /// Takes out the elements that do not pass; the others keep their order.
    pub(crate) fn retain(&mut self, mut pass: impl FnMut(&T) -> bool) {
        let mut kept = [None; N];
        let mut places = kept.iter_mut();
        for item in self.items.iter().flatten() {
            if pass(item) {
                if let Some(place) = places.next() {
                    *place = Some(*item);
                }
            }
        }
        self.items = kept;
    }

    pub(crate) fn clear(&mut self) {
        self.items = [None; N];
    }
}

#[cfg(test)]
mod tests {
    use super::{Fifo, Full};
    use std::{vec, vec::Vec};

    fn items(fifo: &Fifo<u8, 3>) -> Vec<u8> {
        fifo.iter().copied().collect()
    }

    #[test]
    fn items_come_out_as_they_went_in() {
        let mut fifo = Fifo::<u8, 3>::new();
        assert!(fifo.is_empty());
        assert_eq!(fifo.pop(), None);
        for n in 1..=3 {
            assert_eq!(fifo.room(), 4 - n);
            fifo.push(n).unwrap();
        }
        assert_eq!(fifo.push(4), Err(Full));
        assert_eq!(items(&fifo), [1, 2, 3]);
        assert_eq!(fifo.pop(), Some(1));
        fifo.push(4).unwrap();
        assert_eq!(items(&fifo), [2, 3, 4]);
        *fifo.first_mut().unwrap() = 9;
        assert_eq!(fifo.first(), Some(&9));
        fifo.retain(|n| *n != 3);
        assert_eq!(items(&fifo), vec![9, 4]);
        assert_eq!((fifo.len(), fifo.room()), (2, 1));
        assert_eq!((fifo.count(|n| *n > 4), fifo.sum(|n| (*n).into())), (1, 13));
        fifo.clear();
        assert!(fifo.is_empty());
    }
}
