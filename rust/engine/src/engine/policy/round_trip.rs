// SPDX-License-Identifier: GPL-2.0

//! How long the peer's transport takes to acknowledge a message, smoothed as TCP
//! smooths its round trips (RFC 6298, section 2). For programs that ask: nothing
//! here waits by it.

/// A new value counts for `1 / 8`, and for `1 / 4` in the variation.
const SHIFT: u32 = 3;
const VARIATION_SHIFT: u32 = 2;

/// Longer than any transport waits; keeps the sums far from overflow.
const LONGEST_US: u32 = 1 << 27;

/// The round trips of one connection, in microseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RoundTrip {
    /// Eight times the smoothed time; 0 before the first.
    smoothed: u32,
    /// Four times its variation.
    variation: u32,
    shortest: Option<u32>,
}

impl RoundTrip {
    /// None is known.
    pub const fn new() -> Self {
        Self {
            smoothed: 0,
            variation: 0,
            shortest: None,
        }
    }

    /// A message was acknowledged `us` microseconds after it was posted.
    pub fn on_measured(&mut self, us: u32) {
        // A time of nothing would look as if none were known.
        let us = if us == 0 { 1 } else { us.min(LONGEST_US) };
        match self.shortest {
            None => {
                self.smoothed = us << SHIFT;
                // Half of it.
                self.variation = us << (VARIATION_SHIFT - 1);
            }
            Some(_) => {
                let off = self.smoothed_us().abs_diff(us);
                let kept = self.variation.saturating_sub(self.variation_us());
                self.variation = kept.saturating_add(off);
                let kept = self.smoothed.saturating_sub(self.smoothed_us());
                self.smoothed = kept.saturating_add(us);
            }
        }
        self.shortest = Some(self.shortest.map_or(us, |shortest| shortest.min(us)));
    }

    /// The smoothed time, or 0.
    pub const fn smoothed_us(&self) -> u32 {
        self.smoothed >> SHIFT
    }

    /// How much it varies.
    pub const fn variation_us(&self) -> u32 {
        self.variation >> VARIATION_SHIFT
    }

    /// The shortest of all.
    pub const fn shortest_us(&self) -> Option<u32> {
        self.shortest
    }
}

#[cfg(test)]
mod tests {
    use super::{RoundTrip, LONGEST_US};

    fn after(times: &[u32]) -> (u32, u32, Option<u32>) {
        let mut trip = RoundTrip::new();
        for us in times {
            trip.on_measured(*us);
        }
        (trip.smoothed_us(), trip.variation_us(), trip.shortest_us())
    }

    #[test]
    fn the_first_time_is_taken_as_it_is() {
        assert_eq!(after(&[]), (0, 0, None));
        assert_eq!(after(&[1000]), (1000, 500, Some(1000)));
    }

    #[test]
    fn later_times_count_for_an_eighth_and_a_quarter() {
        // 7/8 of 1000 and 1/8 of 1800; 3/4 of 500 and 1/4 of 800.
        assert_eq!(after(&[1000, 1800]), (1100, 575, Some(1000)));
        assert_eq!(after(&[1000, 200]), (900, 575, Some(200)));
    }

    #[test]
    fn what_stays_the_same_is_found() {
        let (smoothed, variation, _) = after(&[[5000; 1].as_slice(), &[40; 200]].concat());
        assert!((40..48).contains(&smoothed), "{smoothed}");
        assert!(variation < 8, "{variation}");
    }

    #[test]
    fn a_time_below_what_can_be_told_is_one_microsecond() {
        assert_eq!(after(&[0]).0, 1);
        assert_eq!(after(&[0, 0, 0]).2, Some(1));
    }

    #[test]
    fn no_time_is_too_long() {
        let (smoothed, variation, shortest) = after(&[u32::MAX; 100]);
        assert!(smoothed <= LONGEST_US && variation <= LONGEST_US);
        assert_eq!(shortest, Some(LONGEST_US));
        assert!(after(&[1, u32::MAX, 1, u32::MAX]).1 <= LONGEST_US);
    }
}
