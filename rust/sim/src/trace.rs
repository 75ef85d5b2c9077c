// SPDX-License-Identifier: GPL-2.0

//! Observed events, for people.

use crate::side::Side;

/// One observable event.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Sight {
    /// A message or datagram left a side. The number distinguishes equal ones.
    Left(Side, u64, String),
    /// It arrived at the other side.
    Reached(Side, u64, String),
    /// It was lost.
    Lost(Side, u64, String),
    /// Something happened at one side.
    Note(Side, String),
}

/// Events in order; empty without an observer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trace {
    pub(crate) sights: Option<Vec<Sight>>,
}

impl Trace {
    /// Inserts the cause of the events that follow.
    pub(crate) fn insert(&mut self, place: usize, sight: Sight) {
        if let Some(sights) = &mut self.sights {
            sights.insert(place.min(sights.len()), sight);
        }
    }

    pub(crate) fn see(&mut self, sight: impl FnOnce() -> Sight) {
        if let Some(sights) = &mut self.sights {
            sights.push(sight());
        }
    }
}
