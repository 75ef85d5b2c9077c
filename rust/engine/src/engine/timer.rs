// SPDX-License-Identifier: GPL-2.0

//! What the engine may want to be woken for. The shell owns the clock.

use crate::engine::policy::patience;

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
    /// When to ask for Data instead of a SrcAvail that nobody reads.
    Decline,
    /// When to take back an advertisement that nobody reads.
    Recall,
    /// When to look whether the peer has answered a cancel. A few times in
    /// vain end the connection.
    CancelAnswer,
}

impl Timer {
    /// How long to wait, in milliseconds.
    pub const fn millis(self) -> u32 {
        match self {
            // TCP's ceiling for corked data.
            Timer::Cork => 200,
            // rules: CLOSE
            Timer::PeerClose => 60_000,
            // Both windows are shut when this runs, so nothing is waiting for
            // it except a peer's wish to close or to answer.
            Timer::CreditUpdate => 1_000,
            Timer::Decline => patience::DECLINE_MS,
            Timer::Recall => patience::RECALL_MS,
            Timer::CancelAnswer => patience::ANSWER_MS,
        }
    }
}
