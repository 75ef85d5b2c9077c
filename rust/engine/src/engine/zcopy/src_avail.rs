// SPDX-License-Identifier: GPL-2.0

//! A SrcAvail of the peer, which this side declines.
//!
//! Its inline bytes are stream bytes like any others. For the rest we ask by
//! SendSm, and the source sends it as Data, which no sink may refuse to take.
//!
//! protocol: src-avail

use crate::engine::{
    error::PeerError,
    wire::{avail::SrcAvail, Mid},
};

/// The advertisement that the peer has outstanding.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Declined {
    /// A SrcAvail has come, and SendSm has not gone.
    held: bool,
}

impl Declined {
    /// Whether SendSm is owed.
    pub(crate) fn wants_send_sm(&self) -> bool {
        self.held
    }

    pub(crate) fn on_send_sm(&mut self) {
        self.held = false;
    }

    /// While one is outstanding its source may send no stream bytes, no second
    /// one, and not the end of the stream.
    pub(crate) fn check_none(&self, mid: Mid) -> Result<(), PeerError> {
        //= spec: DATA-2, ADVERT-2
        if self.held {
            return Err(PeerError::SrcAvailOutstanding(mid));
        }
        Ok(())
    }

    /// In Combined mode some bytes are inline, but not all.
    pub(crate) fn check_inline(advert: SrcAvail, payload_len: u32) -> Result<(), PeerError> {
        //= spec: SRC-2
        if payload_len == 0 || payload_len >= advert.len {
            return Err(PeerError::SrcAvailInline);
        }
        Ok(())
    }

    pub(crate) fn on_src_avail(&mut self) {
        self.held = true;
    }

    // A SrcAvailCancel changes nothing here: either SendSm is still owed, and
    // one answers both, or it has gone and nothing is held.
}
