// SPDX-License-Identifier: GPL-2.0

//! The send queue: messages that are posted and have not completed.
//!
//! rules: CREDIT (send slots are kept back in the same way)

use super::credit::Need;
use crate::engine::types::Mseq;

/// The most messages that can be in flight; a larger send queue is not used.
pub(crate) const CAPACITY: u16 = 64;
const RING: usize = 64;

/// Messages in flight, oldest first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slots {
    /// Payload length of each, a ring.
    payload: [u32; RING],
    /// The last message that has completed.
    completed: Mseq,
    /// Payload bytes of all messages in flight.
    bytes: u32,
    /// How many there are. `in_flight <= depth`
    in_flight: u16,
    /// How many of them have to complete until none is left that has payload and
    /// was not full. `small <= in_flight`
    small: u16,
    depth: u16,
}

impl Slots {
    pub(crate) fn new(depth: u16) -> Self {
        Self {
            payload: [0; RING],
            completed: Mseq::HELLO,
            bytes: 0,
            in_flight: 0,
            small: 0,
            depth: depth.min(CAPACITY),
        }
    }

    pub(crate) fn allow(&self, need: Need) -> bool {
        //= spec: CREDIT-8
        self.depth.saturating_sub(self.in_flight) >= need.least()
    }

    /// Messages in flight.
    pub(crate) fn in_flight(&self) -> u16 {
        self.in_flight
    }

    /// Payload bytes in flight.
    pub(crate) fn bytes(&self) -> u32 {
        self.bytes
    }

    /// Whether a message with payload that was not full is in flight.
    pub(crate) fn has_small(&self) -> bool {
        self.small > 0
    }

    pub(crate) fn has_completed(&self, mseq: Mseq) -> bool {
        !mseq.is_after(self.completed)
    }

    fn place(&mut self, mseq: Mseq) -> Option<&mut u32> {
        let index = usize::try_from(mseq.get()).unwrap_or(0) & (RING - 1);
        self.payload.get_mut(index)
    }

    pub(crate) fn on_sent(&mut self, mseq: Mseq, payload_len: u32) {
        self.in_flight = self.in_flight.saturating_add(1);
        self.bytes = self.bytes.saturating_add(payload_len);
        if let Some(place) = self.place(mseq) {
            *place = payload_len;
        }
    }

    /// The last message posted could have had more payload.
    pub(crate) fn on_small(&mut self) {
        self.small = self.in_flight;
    }

    /// The oldest message has completed. False: none is in flight.
    pub(crate) fn on_completed(&mut self) -> bool {
        let Some(left) = self.in_flight.checked_sub(1) else {
            return false;
        };
        self.in_flight = left;
        self.small = self.small.saturating_sub(1);
        self.completed = self.completed.next();
        let completed = self.completed;
        let payload_len = self.place(completed).map_or(0, |place| *place);
        self.bytes = self.bytes.saturating_sub(payload_len);
        true
    }

    pub(crate) fn is_sound(&self) -> bool {
        self.small <= self.in_flight && self.in_flight <= self.depth
    }
}

const _: () = assert!(RING.is_power_of_two());

#[cfg(test)]
mod tests {
    use super::{Need, Slots};
    use crate::engine::types::Mseq;

    #[test]
    fn two_slots_are_kept_for_messages_without_payload() {
        let mut slots = Slots::new(5);
        let allowed = |slots: &Slots| {
            [Need::Payload, Need::Control, Need::Grant].map(|need| slots.allow(need))
        };
        for n in 1..=3 {
            assert_eq!(allowed(&slots), [true; 3]);
            slots.on_sent(Mseq::new(n), 10);
        }
        assert_eq!(allowed(&slots), [false, true, true]);
        slots.on_sent(Mseq::new(4), 0);
        assert_eq!(allowed(&slots), [false, false, true]);
        slots.on_sent(Mseq::new(5), 0);
        assert_eq!(allowed(&slots), [false; 3]);
        assert!(slots.on_completed());
        assert_eq!(slots.bytes(), 20);
    }

    #[test]
    fn more_in_flight_than_slots_are_unsound() {
        let mut slots = Slots::new(3);
        for n in 1..=3 {
            slots.on_sent(Mseq::new(n), 0);
            assert!(slots.is_sound());
        }
        slots.on_sent(Mseq::new(4), 0);
        assert!(!slots.is_sound());
    }

    #[test]
    fn bytes_come_back_in_the_order_of_completion() {
        let mut slots = Slots::new(64);
        let mut mseq = Mseq::HELLO;
        let mut oldest = 0;
        let mut sum = 0;
        for round in 0..1000u32 {
            mseq = mseq.next();
            slots.on_sent(mseq, round);
            sum += round;
            if round % 3 != 0 || !slots.allow(Need::Payload) {
                assert!(slots.on_completed());
                sum -= oldest;
                oldest += 1;
            }
            while !slots.allow(Need::Payload) {
                slots.on_completed();
                sum -= oldest;
                oldest += 1;
            }
            assert_eq!(slots.bytes(), sum);
            assert!(slots.is_sound());
        }
    }

    #[test]
    fn only_what_was_not_full_counts_as_small() {
        let mut slots = Slots::new(8);
        slots.on_sent(Mseq::new(1), 7);
        assert!(!slots.has_small());
        slots.on_sent(Mseq::new(2), 6);
        slots.on_small();
        slots.on_sent(Mseq::new(3), 7);
        slots.on_sent(Mseq::new(4), 0);
        assert!(slots.has_small());
        assert!(slots.on_completed());
        assert!(slots.has_small());
        assert!(slots.on_completed());
        assert!(!slots.has_small());
        assert!(slots.has_completed(Mseq::new(2)));
        assert!(!slots.has_completed(Mseq::new(3)));
        assert!(slots.on_completed());
        assert!(slots.on_completed());
        assert!(!slots.on_completed());
    }

    #[test]
    fn the_last_small_one_counts() {
        let mut slots = Slots::new(8);
        for n in 1..=2 {
            slots.on_sent(Mseq::new(n), 7);
            slots.on_small();
        }
        assert!(slots.on_completed());
        assert!(slots.has_small());
        assert!(slots.on_completed());
        assert!(!slots.has_small());
    }

    #[test]
    fn a_small_one_that_is_not_in_flight_is_unsound() {
        let mut slots = Slots::new(3);
        slots.on_sent(Mseq::new(1), 7);
        slots.on_small();
        assert!(slots.is_sound());
        slots.small = 2;
        assert!(!slots.is_sound());
    }
}
