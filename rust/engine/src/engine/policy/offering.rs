// SPDX-License-Identifier: GPL-2.0

//! Whether memory is offered to the peer: a reader's to be written, a writer's to
//! be read.
//!
//! A reader's offer costs a registration, and is wasted when the next bytes come as
//! one message of Data. A writer's costs a round trip, and is wasted when the peer
//! asks for Data instead. A peer that writes little at a time, or that never reads,
//! is therefore offered less and less, and all again as soon as it has put an offer
//! to use.

/// Most opportunities that are passed by between two offers.
const PAUSE_MAX: u8 = 64;

/// The results of recent offers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Habit {
    /// Opportunities to pass by before the next offer.
    pause: u8,
    /// The same, after the last offer that was wasted.
    last_pause: u8,
}

impl Habit {
    /// Nothing is known of the peer.
    pub const fn new() -> Self {
        Self {
            pause: 0,
            last_pause: 0,
        }
    }

    /// There is an opportunity: whether to take it.
    pub fn wants(&mut self) -> bool {
        match self.pause.checked_sub(1) {
            Some(left) => {
                self.pause = left;
                false
            }
            None => true,
        }
    }

    /// The peer has written into an offer, or read from it.
    pub fn on_used(&mut self) {
        *self = Self::new();
    }

    /// An offer was of no use.
    pub fn on_wasted(&mut self) {
        self.last_pause = self
            .last_pause
            .saturating_mul(2)
            .saturating_add(1)
            .min(PAUSE_MAX);
        self.pause = self.last_pause;
    }
}

#[cfg(test)]
mod tests {
    use super::{Habit, PAUSE_MAX};

    /// Opportunities passed by before the next offer.
    fn pause(habit: &mut Habit) -> u32 {
        let mut passed = 0;
        while !habit.wants() {
            passed += 1;
        }
        passed
    }

    #[test]
    fn offers_that_are_wasted_become_rare() {
        let mut habit = Habit::new();
        assert_eq!(pause(&mut habit), 0);
        let mut pauses = [0; 9];
        for passed in &mut pauses {
            habit.on_wasted();
            *passed = pause(&mut habit);
        }
        let most = u32::from(PAUSE_MAX);
        assert_eq!(pauses, [1, 3, 7, 15, 31, 63, most, most, most]);
    }

    #[test]
    fn one_that_is_used_makes_them_frequent_again() {
        let mut habit = Habit::new();
        for _ in 0..5 {
            habit.on_wasted();
        }
        habit.on_used();
        assert_eq!(pause(&mut habit), 0);
        habit.on_wasted();
        assert_eq!(pause(&mut habit), 1);
    }
}
