// SPDX-License-Identifier: GPL-2.0

//! The mode of the direction that we receive, and what may change it.
//!
//! We announce one advertisement, which excludes Pipelined mode, and never ask
//! the peer to leave Buffered mode; so what is left is the source's choice to
//! do without advertisements.
//!
//! protocol: modes, max-adverts

use crate::engine::{
    error::PeerError,
    wire::{
        mode::{Half, Mode, ModeChange},
        Mid,
    },
};

machine! {
    /// Mode of the half that we receive.
    pub(crate) enum ReceiveMode {
        /// Data, and one SrcAvail at a time. Where every connection begins.
        Combined,
        /// Data only.
        Buffered,
    }

    /// The source gives up advertisements.
    on_source_buffers: Combined => Buffered;
}

impl ReceiveMode {
    /// Whether the source may speak of SrcAvails.
    pub(crate) fn check_adverts(self, mid: Mid) -> Result<(), PeerError> {
        match self {
            ReceiveMode::Combined => Ok(()),
            //= spec: MODE-5
            ReceiveMode::Buffered => Err(PeerError::BufferedMode(mid)),
        }
    }

    /// The peer changes a mode.
    pub(crate) fn on_mode_change(&mut self, change: ModeChange) -> Result<(), PeerError> {
        match (change.half, change.mode) {
            //= spec: MODE-2
            (Half::Receive, Mode::Buffered) => self
                .on_source_buffers()
                .map_err(|_| PeerError::ModeTransition),
            (Half::Receive, Mode::Pipelined) => Err(PeerError::NotAnnounced(Mid::ModeChange)),
            // Our sending half is and stays Combined, and a receiving half
            // only returns to Combined from Pipelined.
            (Half::Receive, Mode::Combined)
            | (Half::Send, Mode::Buffered | Mode::Combined | Mode::Pipelined) => {
                Err(PeerError::ModeTransition)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::ReceiveMode;
    use crate::engine::{
        error::PeerError,
        wire::{
            mode::{Half, Mode, ModeChange},
            Mid,
        },
    };

    #[test]
    fn only_the_source_going_buffered_is_a_legal_change() {
        for mode in [Mode::Buffered, Mode::Combined, Mode::Pipelined] {
            for half in [Half::Receive, Half::Send] {
                for start in ReceiveMode::STATES {
                    let mut state = *start;
                    let result = state.on_mode_change(ModeChange { half, mode });
                    let expected = match (half, mode, start) {
                        (Half::Receive, Mode::Buffered, ReceiveMode::Combined) => Ok(()),
                        (Half::Receive, Mode::Pipelined, _) => {
                            Err(PeerError::NotAnnounced(Mid::ModeChange))
                        }
                        _ => Err(PeerError::ModeTransition),
                    };
                    assert_eq!(result, expected);
                    assert_eq!(state == *start, expected.is_err());
                }
            }
        }
        assert_eq!(ReceiveMode::MOVES.len(), 1);
    }
}
