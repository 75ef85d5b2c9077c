// SPDX-License-Identifier: GPL-2.0

//! How long a SrcAvail waits for a reader that is not there.
//!
//! A reader between two calls comes back at once, and a short wait saves the copies. A reader that
//! pauses between its reads lets the writer wait for nearly as long as it pauses, each time, while
//! copies would fill the buffers meanwhile. So the engine looks a few times whether the reader has
//! come, and fewer times for a reader that has been late.

use super::patience::DECLINE_MS;

/// Looks in vain until a SrcAvail is declined, if the reader has not been late.
const LOOKS: u8 = 4;

/// Time between two looks.
pub const LOOK_MS: u32 = DECLINE_MS >> 2;

/// Reads of a reader that is there in time, in a row, for each that it was late.
const PROMPT: u8 = 16;

/// The reader's recent absences.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Absence {
    /// Looks in vain since the SrcAvail came, or the reader has left.
    looks: u8,
    /// Looks until it is declined.
    most: u8,
    /// Reads in time since the reader was late.
    prompt: u8,
}

impl Absence {
    /// Nothing is known of the reader.
    pub(crate) const fn new() -> Self {
        Self {
            looks: 0,
            most: LOOKS,
            prompt: 0,
        }
    }

    /// A SrcAvail has come, and there was none.
    pub(crate) fn on_offered(&mut self) {
        self.looks = 0;
    }

    /// The reader reads.
    pub(crate) fn on_reader(&mut self) {
        if core::mem::take(&mut self.looks) > 0 {
            self.on_late();
            return;
        }
        self.prompt = self.prompt.saturating_add(1);
        if self.prompt >= PROMPT {
            self.prompt = 0;
            self.most = self.most.saturating_mul(2).min(LOOKS);
        }
    }

    /// There is no reader after another [`LOOK_MS`]. Returns whether to wait no longer.
    pub(crate) fn look(&mut self) -> bool {
        self.looks = self.looks.saturating_add(1);
        let over = self.looks >= self.most;
        if over {
            self.looks = 0;
            self.on_late();
        }
        over
    }

    fn on_late(&mut self) {
        self.prompt = 0;
        self.most = (self.most >> 1).max(1);
    }
}

#[cfg(test)]
mod tests {
    use super::{Absence, DECLINE_MS, LOOKS, LOOK_MS, PROMPT};

    /// Looks until a SrcAvail is declined.
    fn looks(absence: &mut Absence) -> u8 {
        absence.on_offered();
        (1..).find(|_| absence.look()).unwrap()
    }

    #[test]
    fn a_reader_that_does_not_come_is_waited_for_less() {
        let mut absence = Absence::new();
        assert_eq!([(); 4].map(|()| looks(&mut absence)), [LOOKS, 2, 1, 1]);
        assert_eq!(LOOK_MS * u32::from(LOOKS), DECLINE_MS);
    }

    #[test]
    fn so_is_one_that_comes_late() {
        let mut absence = Absence::new();
        for _ in 0..2 {
            assert!(!absence.look());
            absence.on_reader();
        }
        assert!(absence.look());
    }

    #[test]
    fn one_that_is_there_in_time_is_waited_for_again() {
        let mut absence = Absence::new();
        while looks(&mut absence) > 1 {}
        for most in [1, 2, LOOKS, LOOKS] {
            let mut again = absence;
            assert_eq!(looks(&mut again), most);
            for _ in 0..PROMPT {
                absence.on_reader();
            }
        }
        // Not by a few reads between two absences.
        for _ in 0..10 {
            (1..PROMPT).for_each(|_| absence.on_reader());
            absence.look();
            absence.on_reader();
        }
        assert_eq!(looks(&mut absence), 1);
    }

    #[test]
    fn looks_count_from_the_first_offer() {
        let mut absence = Absence::new();
        for _ in 0..20 {
            absence.on_offered();
            assert!(!absence.look());
        }
    }
}
