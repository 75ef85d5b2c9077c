// SPDX-License-Identifier: GPL-2.0

//! Ranges of pages in address spaces, which do not overlap, by address; and the order in which they were
//! used.
//!
//! Nothing here knows what belongs to a range.
//!
//! Contexts and locks: the owner of a table has one for it. Nothing sleeps.

use crate::prelude::*;
use kernel::rbtree::{
    RBTree,
    RBTreeNodeReservation, //
};

/// The name of a range: its address space, its purpose, and its last page. So the first range that is not
/// less than a page of the same space and purpose has the page, or none has.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) mm: usize,
    pub(super) write: bool,
    pub(super) last: usize,
}

impl Key {
    fn is_in_space_of(&self, other: &Self) -> bool {
        (self.mm, self.write) == (other.mm, other.write)
    }
}

pub(super) struct Span<E> {
    first: usize,
    /// The number of its last use.
    used: u64,
    entry: E,
}

/// Memory for a range.
pub(super) struct Room<E>(RBTreeNodeReservation<Key, Span<E>>);

impl<E> Room<E> {
    /// May sleep.
    pub(super) fn new() -> Result<Self> {
        Ok(Self(RBTreeNodeReservation::new(GFP_KERNEL_ACCOUNT)?))
    }
}

/// The content of a table at a page.
pub(super) enum Place<R> {
    /// A range with so many pages from there on, and what was asked of its entry.
    Taken(R, usize),
    /// So many pages without a range.
    Free(usize),
}

pub(super) struct Spans<E> {
    tree: RBTree<Key, Span<E>>,
    len: usize,
    uses: u64,
    /// The number of the last use before the last sweep.
    swept: u64,
}

impl<E> Spans<E> {
    pub(super) fn new() -> Self {
        Self {
            tree: RBTree::new(),
            len: 0,
            uses: 0,
            swept: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    fn next_use(&mut self) -> u64 {
        self.uses = self.uses.wrapping_add(1);
        self.uses
    }

    /// The content at the page of `key`. A range there is used now; `ask` asks its entry.
    pub(super) fn find<R>(&mut self, key: &Key, ask: impl FnOnce(&mut E) -> R) -> Place<R> {
        let now = self.next_use();
        let Some(mut found) = self.tree.cursor_lower_bound_mut(key) else {
            return Place::Free(usize::MAX);
        };
        let (at, span) = found.current_mut();
        if !at.is_in_space_of(key) {
            return Place::Free(usize::MAX);
        }
        if span.first > key.last {
            return Place::Free(span.first.wrapping_sub(key.last));
        }
        span.used = now;
        let left = at.last.wrapping_sub(key.last).saturating_add(1);
        Place::Taken(ask(&mut span.entry), left)
    }

    /// Enters the pages from `first` to the page of `key`; gives `entry` back where there is a range.
    pub(super) fn insert(
        &mut self,
        room: Room<E>,
        key: Key,
        first: usize,
        entry: E,
    ) -> Result<(), E> {
        let from = Key { last: first, ..key };
        let next = self.tree.cursor_lower_bound(&from);
        let taken = next.is_some_and(|next| {
            let (at, span) = next.current();
            at.is_in_space_of(&key) && span.first <= key.last
        });
        if taken {
            return Err(entry);
        }
        let used = self.next_use();
        let span = Span { first, used, entry };
        self.tree.insert(room.0.into_node(key, span));
        self.len = self.len.saturating_add(1);
        Ok(())
    }

    /// Takes out the range of `key`, if its entry is the one that is meant.
    pub(super) fn take(&mut self, key: &Key, is_it: impl FnOnce(&E) -> bool) -> Option<E> {
        if !is_it(&self.tree.get(key)?.entry) {
            return None;
        }
        let span = self.tree.remove(key)?;
        self.len = self.len.saturating_sub(1);
        Some(span.entry)
    }

    /// The least recently used of the entries for which `is_it` holds.
    pub(super) fn oldest(&mut self, is_it: impl Fn(&E) -> bool) -> Option<(Key, &mut E)> {
        let all = self.tree.iter().filter(|(_, span)| is_it(&span.entry));
        let (key, _) = all.min_by_key(|(_, span)| span.used)?;
        let key = *key;
        let span = self.tree.get_mut(&key)?;
        Some((key, &mut span.entry))
    }

    /// Takes out a range with pages from `first` to the page of `key`.
    pub(super) fn take_within(&mut self, key: &Key, first: usize) -> Option<E> {
        let from = Key {
            last: first,
            ..*key
        };
        let next = self.tree.cursor_lower_bound(&from)?;
        let (at, span) = next.current();
        if !at.is_in_space_of(key) || span.first > key.last {
            return None;
        }
        let at = *at;
        self.take(&at, |_| true)
    }

    /// Takes out any range.
    pub(super) fn take_any(&mut self) -> Option<E> {
        let (key, _) = self.tree.iter().next()?;
        let key = *key;
        self.take(&key, |_| true)
    }

    /// Takes out the next range behind `after` that was not used since the last sweep.
    pub(super) fn take_idle(&mut self, after: Option<Key>) -> Option<(Key, E)> {
        let swept = self.swept;
        let mut next = match after {
            Some(key) => self.tree.cursor_lower_bound_mut(&key),
            None => self.tree.cursor_front_mut(),
        };
        let key = loop {
            let cursor = next?;
            let (key, span) = cursor.current();
            if span.used <= swept {
                break *key;
            }
            next = cursor.move_next();
        };
        Some((key, self.take(&key, |_| true)?))
    }

    /// A sweep has ended: what is used from here on is not idle in the next one.
    pub(super) fn end_sweep(&mut self) {
        self.swept = self.uses;
    }
}

#[kunit_tests(rdma_spans)]
mod tests {
    use super::*;

    fn key(mm: usize, last: usize) -> Key {
        Key {
            mm,
            write: false,
            last,
        }
    }

    /// Enters pages of the space `mm`, with their first one as the entry.
    fn enter(spans: &mut Spans<usize>, mm: usize, first: usize, last: usize) -> bool {
        let room = Room::new();
        room.is_ok_and(|room| spans.insert(room, key(mm, last), first, first).is_ok())
    }

    fn at(spans: &mut Spans<usize>, mm: usize, page: usize) -> (Option<usize>, usize) {
        match spans.find(&key(mm, page), |entry| *entry) {
            Place::Taken(entry, left) => (Some(entry), left),
            Place::Free(left) => (None, left),
        }
    }

    #[test]
    fn a_page_is_found_in_its_range_alone() {
        let mut spans = Spans::new();
        assert!(enter(&mut spans, 1, 10, 19) && enter(&mut spans, 1, 30, 39));
        assert!(enter(&mut spans, 2, 0, 99));
        assert!(at(&mut spans, 1, 10) == (Some(10), 10));
        assert!(at(&mut spans, 1, 19) == (Some(10), 1));
        assert!(at(&mut spans, 1, 20) == (None, 10));
        assert!(at(&mut spans, 1, 9) == (None, 1));
        assert!(at(&mut spans, 1, 40) == (None, usize::MAX));
        assert!(at(&mut spans, 2, 40) == (Some(0), 60));
        assert!(at(&mut spans, 3, 0) == (None, usize::MAX));
        let write = Key {
            write: true,
            ..key(1, 15)
        };
        assert!(matches!(
            spans.find(&write, |_| ()),
            Place::Free(usize::MAX)
        ));
    }

    #[test]
    fn ranges_do_not_overlap() {
        let mut spans = Spans::new();
        assert!(enter(&mut spans, 1, 10, 19));
        for (first, last) in [(0, 10), (19, 30), (12, 13), (0, 30), (10, 19)] {
            assert!(!enter(&mut spans, 1, first, last));
        }
        assert!(enter(&mut spans, 1, 0, 9) && enter(&mut spans, 1, 20, 30));
        assert!(spans.len() == 3);
    }

    #[test]
    fn ranges_within_others_are_taken_out() {
        let mut spans = Spans::new();
        assert!(enter(&mut spans, 1, 0, 9) && enter(&mut spans, 1, 10, 19));
        assert!(enter(&mut spans, 1, 20, 29) && enter(&mut spans, 2, 10, 19));
        assert!(spans.take_within(&key(1, 20), 19) == Some(10));
        assert!(spans.take_within(&key(1, 20), 19) == Some(20));
        assert!(spans.take_within(&key(1, 20), 19).is_none());
        assert!(spans.len() == 2);
    }

    #[test]
    fn what_is_not_used_between_two_sweeps_is_idle() {
        let mut spans = Spans::new();
        assert!(enter(&mut spans, 1, 0, 9) && enter(&mut spans, 1, 10, 19));
        assert!(spans.take_idle(None).is_none());
        spans.end_sweep();
        assert!(at(&mut spans, 1, 10).0.is_some());
        let (idle, entry) = spans.take_idle(None).unwrap_or((key(0, 0), 7));
        assert!(entry == 0 && spans.take_idle(Some(idle)).is_none());
        spans.end_sweep();
        assert!(spans.take_idle(None).is_some_and(|(_, entry)| entry == 10));
    }

    #[test]
    fn the_least_recently_used_is_the_oldest() {
        let mut spans = Spans::new();
        assert!(enter(&mut spans, 1, 0, 9) && enter(&mut spans, 1, 10, 19));
        assert!(at(&mut spans, 1, 0).0.is_some());
        assert!(spans
            .oldest(|_| true)
            .is_some_and(|(_, entry)| *entry == 10));
        assert!(spans
            .oldest(|entry| *entry != 10)
            .is_some_and(|(_, entry)| *entry == 0));
        assert!(spans.take(&key(1, 19), |entry| *entry == 0).is_none());
        assert!(spans.take(&key(1, 19), |entry| *entry == 10).is_some());
        assert!(spans.take_any() == Some(0) && spans.take_any().is_none());
    }
}
