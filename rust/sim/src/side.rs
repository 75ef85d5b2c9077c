// SPDX-License-Identifier: GPL-2.0

//! The two ends of a connection.

/// One of the two peers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum Side {
    /// The active side, which sends the Hello.
    A,
    /// The passive side.
    B,
}

impl Side {
    /// Both, the active one first.
    pub const BOTH: [Side; 2] = [Side::A, Side::B];

    /// The other end.
    #[must_use]
    pub fn other(self) -> Side {
        match self {
            Side::A => Side::B,
            Side::B => Side::A,
        }
    }
}
