// SPDX-License-Identifier: GPL-2.0

//! What the engine may want to be woken for. The shell owns the clock.

/// The one timer a connection wants, see
/// [`Connection::timer`](super::conn::Connection::timer).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Timer {
    /// When to send what a cork or a promise of more bytes holds back.
    Cork,
    /// When to give up waiting for the peer to take part in the close.
    PeerClose,
    /// When to grant again the credits which the peer spent on granting some
    /// to us.
    CreditUpdate,
}

impl Timer {
    /// How long to wait, in milliseconds.
    pub const fn millis(self) -> u32 {
        match self {
            // TCP's ceiling for corked data.
            Timer::Cork => 200,
            // protocol: close-timers
            Timer::PeerClose => 60_000,
            // Both windows are shut when this runs, so nothing is waiting for
            // it except a peer's wish to close or to answer.
            Timer::CreditUpdate => 1_000,
        }
    }
}
