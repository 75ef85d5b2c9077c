// SPDX-License-Identifier: GPL-2.0

//! What tests and simulations look at or do, and no shell.

#[allow(unused_imports, reason = "for tests and simulations")]
pub mod machines {
    //! The state machines; their tables are a document.

    pub use crate::engine::{
        conn::{close::DisConn, resize::Ask, state::State},
        flow::mode::HalfMode,
        zcopy::{
            cancel::Cancel, held::Hold, offers::OfferState, run::RunState, targets::TargetState,
        },
    };
}

use super::Connection;
use crate::engine::{error::Refused, timer::Timer};

#[allow(dead_code, reason = "for tests and simulations")]
impl Connection {
    /// All timers that are wanted.
    pub fn timers(&self) -> impl Iterator<Item = Timer> + '_ {
        Timer::ALL
            .into_iter()
            .filter(|timer| self.wants(*timer).is_some())
    }

    /// Receive buffers with payload that the application has not read.
    pub fn held(&self) -> u16 {
        self.window.held()
    }

    /// The most credits that the peer can have.
    pub fn granted(&self) -> u16 {
        self.window.granted()
    }

    /// Asks the peer for receive buffers with room for `payload` bytes behind the
    /// header, which the engine does by itself when many bytes wait. The answer may
    /// be that nothing changes.
    pub fn ask_rcv_size(&mut self, payload: u32) -> Result<(), Refused> {
        if self.close.has_failed() || self.is_over() {
            return Err(Refused::Ended);
        }
        self.resize.want(payload).map_err(|_| Refused::Busy)
    }

    /// The invariants between any two calls.
    pub fn is_sound(&self) -> bool {
        !self.refused
            && self.window.is_sound()
            && self.slots.is_sound()
            && self.stream.is_sound()
            && self.runs.is_sound(self.stream.unsent())
            && self.held.is_sound()
            && self.offers.is_sound()
            && self.window.is_frozen() == (self.held.is_cancelled() && self.held.reads() > 0)
    }
}
