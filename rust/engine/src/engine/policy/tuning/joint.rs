// SPDX-License-Identifier: GPL-2.0

//! A try that the connections of a device make together.
//!
//! Connections that copy share the processors. One that lends meanwhile waits behind them each
//! time it wakes up, so lending looks slow to it, and would be fast if all did it. And one that
//! copies while the others lend has the processors for itself. So the connection that begins a
//! try invites the others, and those take part that could soon pay a try of their own.

use super::Way;

/// An invitation, or the end of one. It travels between connections as a number.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Joint(u32);

/// The way that is tried; of one that has ended: whether it is the better one.
const LEND: u32 = 1;
const CHANGED: u32 = 1;
const CLASS_SHIFT: u32 = 1;
/// Classes count from one here: 0 is no invitation.
const CLASS_MASK: u32 = 0xf;
/// Invitations are numbered.
const NUMBER: u32 = 1 << 5;

impl Joint {
    /// No invitation.
    pub const NONE: Self = Self(0);

    /// What [`Self::number`] was of.
    pub const fn from_number(number: u32) -> Self {
        Self(number)
    }

    /// For [`Self::from_number`].
    pub const fn number(self) -> u32 {
        self.0
    }

    const fn base(self) -> u32 {
        self.0 & !(NUMBER - 1)
    }

    const fn kind(self) -> u32 {
        self.0 & (NUMBER - 1)
    }

    /// An invitation to try `way` for `class`, another one than `self`.
    pub(super) fn next(self, class: u8, way: Way) -> Self {
        Self(self.base().wrapping_add(NUMBER) | kind(class, way))
    }

    /// Whether it is one to try `way` for `class`.
    pub(super) fn is_for(self, class: u8, way: Way) -> bool {
        self.kind() == kind(class, way)
    }

    /// Its end: the connection that began the try has `changed` its way, or not.
    pub(super) const fn over(self, changed: bool) -> Self {
        Self(if changed {
            self.base() | CHANGED
        } else {
            self.base()
        })
    }

    /// Whether it says that the try of `invitation` has changed the way.
    pub(super) fn says_change_of(self, invitation: Self) -> bool {
        self == invitation.over(true)
    }
}

fn kind(class: u8, way: Way) -> u32 {
    let class = u32::from(class).wrapping_add(1) & CLASS_MASK;
    let way = match way {
        Way::Copy => 0,
        Way::Lend => LEND,
    };
    (class << CLASS_SHIFT) | way
}
