// SPDX-License-Identifier: GPL-2.0

//! What was seen on the way, for people.

use crate::side::Side;

/// One thing that somebody could see.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Sight {
    /// A message or datagram left a side. The number tells equal ones apart.
    Left(Side, u64, String),
    /// It reached the other one.
    Reached(Side, u64, String),
    /// It got lost on the way.
    Lost(Side, u64, String),
    /// Something happened at one side.
    Note(Side, String),
}

/// Sights in order, or nothing if nobody looks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trace {
    pub(crate) sights: Option<Vec<Sight>>,
}

impl Trace {
    /// Something that was the cause of what was seen from there on.
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
