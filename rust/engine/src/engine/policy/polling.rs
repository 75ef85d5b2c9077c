// SPDX-License-Identifier: GPL-2.0

//! How long a thread that has to wait looks for messages before it sleeps.
//!
//! A sleep costs a wake-up: an interrupt, a switch, and the time until the thread runs. The
//! processor pays for the switch away as well, so a wait that is up to twice as long is
//! polled: its thread needs at most twice the time that the better choice would have
//! needed. It does not poll at all if waits have lately been longer. Nothing here depends
//! on the speed of a machine: both times are measured.

/// A new value counts for `1 / 8`.
const SHIFT: u32 = 3;

/// No sleep costs more; longer times belong to a thread that found no processor.
pub const LONGEST_US: u32 = 1000;

/// The times of one connection, each multiplied by 8, in microseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Polling {
    /// From an event to the thread that it wakes; 0 before the first.
    wake: u32,
    /// From the begin of a wait to the event that ends it.
    wait: u32,
}

impl Polling {
    /// Nothing has been measured.
    pub const fn new() -> Self {
        Self { wake: 0, wait: 0 }
    }

    /// Microseconds for which the next wait polls.
    pub fn budget_us(&self) -> u32 {
        let most = self.wake.saturating_mul(2);
        if self.wait > most {
            return 0;
        }
        (most >> SHIFT).min(LONGEST_US)
    }

    /// A thread ran `us` microseconds after the event that woke it.
    pub fn on_woken(&mut self, us: u32) {
        let us = if us == 0 { 1 } else { us.min(LONGEST_US) };
        if self.wake == 0 {
            self.wake = us << SHIFT;
        } else {
            self.wake = mix(self.wake, us);
        }
    }

    /// A wait would have taken `us` microseconds if the thread had polled all the time.
    pub fn on_waited(&mut self, us: u32) {
        // A long one counts as four wake-ups, so that a change is soon noticed.
        let most = (self.wake >> SHIFT).saturating_mul(4);
        self.wait = mix(self.wait, us.min(most));
    }
}

fn mix(smoothed: u32, us: u32) -> u32 {
    smoothed
        .saturating_sub(smoothed >> SHIFT)
        .saturating_add(us)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn woken_in(us: u32) -> Polling {
        let mut polling = Polling::new();
        polling.on_woken(us);
        polling
    }

    #[test]
    fn the_first_wait_sleeps() {
        assert_eq!(Polling::new().budget_us(), 0);
    }

    #[test]
    fn short_waits_are_polled_for_the_time_of_two_wake_ups() {
        let mut polling = woken_in(20);
        for us in [10, 39] {
            for _ in 0..100 {
                polling.on_waited(us);
                assert_eq!(polling.budget_us(), 40);
            }
        }
        for _ in 0..100 {
            polling.on_waited(42);
        }
        assert_eq!(polling.budget_us(), 0);
    }

    #[test]
    fn long_waits_end_the_polling_and_short_ones_begin_it_again() {
        let mut polling = woken_in(20);
        let slept = (0..).take_while(|_| {
            polling.on_waited(1_000_000);
            polling.budget_us() > 0
        });
        assert!(slept.count() < 8);
        let polls = (0..).take_while(|_| {
            polling.on_waited(5);
            polling.budget_us() == 0
        });
        assert!(polls.count() < 12);
    }

    #[test]
    fn a_single_long_wait_changes_nothing() {
        let mut polling = woken_in(20);
        for _ in 0..20 {
            polling.on_waited(10);
        }
        polling.on_waited(u32::MAX);
        assert_eq!(polling.budget_us(), 40);
    }

    #[test]
    fn a_thread_without_a_processor_counts_as_the_longest_wake_up() {
        let mut polling = woken_in(u32::MAX);
        assert_eq!(polling.budget_us(), LONGEST_US);
        for _ in 0..100 {
            polling.on_woken(8);
        }
        assert!(polling.budget_us() < 32);
        polling.on_woken(0);
        assert!(polling.budget_us() >= 1);
    }
}
