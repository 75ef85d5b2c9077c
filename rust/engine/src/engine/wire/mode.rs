// SPDX-License-Identifier: GPL-2.0

//! The extended header of ModeChange.
//!
//! rules: HDR, MODE

/// How the bytes of one direction travel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// Data only.
    Buffered,
    /// Data, and one SrcAvail at a time.
    Combined,
    /// Advertisements from both ends.
    Pipelined,
}

/// Which half of the *receiver's* connection a ModeChange is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Half {
    /// The direction that the receiver of the message receives.
    Receive,
    /// The direction that the receiver of the message sends.
    Send,
}

/// The content of a ModeChange.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ModeChange {
    /// The half concerned.
    pub half: Half,
    /// Its new mode.
    pub mode: Mode,
}

impl ModeChange {
    /// None: a reserved bit is set or the mode has no meaning.
    pub(super) fn from_wire(word: [u8; 4]) -> Option<Self> {
        let [first, reserved @ ..] = word;
        //= spec: HDR-8
        if first & 0x0f != 0 || reserved != [0; 3] {
            return None;
        }
        let half = if first & 0x80 == 0 {
            Half::Receive
        } else {
            Half::Send
        };
        let mode = match (first >> 4) & 7 {
            0 => Mode::Buffered,
            1 => Mode::Combined,
            2 => Mode::Pipelined,
            _ => return None,
        };
        Some(Self { half, mode })
    }

    pub(super) fn to_wire(self) -> [u8; 4] {
        let half = match self.half {
            Half::Receive => 0x00,
            Half::Send => 0x80,
        };
        let mode = match self.mode {
            Mode::Buffered => 0x00,
            Mode::Combined => 0x10,
            Mode::Pipelined => 0x20,
        };
        [half | mode, 0, 0, 0]
    }
}

#[cfg(test)]
mod tests {
    use super::ModeChange;

    //= test: HDR-8
    #[test]
    fn exactly_six_words_mean_a_mode_change() {
        let mut legal = 0;
        for first in 0..=u8::MAX {
            if let Some(change) = ModeChange::from_wire([first, 0, 0, 0]) {
                assert_eq!(change.to_wire(), [first, 0, 0, 0]);
                legal += 1;
            }
        }
        assert_eq!(legal, 6);
        assert_eq!(ModeChange::from_wire([0x10, 0, 0, 1]), None);
    }
}
