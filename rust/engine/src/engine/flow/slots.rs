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
    payload: [u16; RING],
    /// The last message that has completed.
    completed: Mseq,
    /// The last message posted. `sent - completed <= depth`
    sent: Mseq,
    /// The last message posted that has payload.
    payload_sent: Mseq,
    /// Payload bytes of all messages in flight.
    bytes: u32,
    depth: u16,
}

impl Slots {
    pub(crate) fn new(depth: u16) -> Self {
        Self {
            payload: [0; RING],
            completed: Mseq::HELLO,
            sent: Mseq::HELLO,
            payload_sent: Mseq::HELLO,
            bytes: 0,
            depth: depth.min(CAPACITY),
        }
    }

    fn in_flight(&self) -> u16 {
        u16::try_from(self.sent.since(self.completed)).unwrap_or(u16::MAX)
    }

    pub(crate) fn allow(&self, need: Need) -> bool {
        //= spec: CREDIT-8
        self.depth.saturating_sub(self.in_flight()) >= need.least()
    }

    /// Payload bytes in flight.
    pub(crate) fn bytes(&self) -> u32 {
        self.bytes
    }

    /// Whether a message with payload is in flight.
    pub(crate) fn has_payload(&self) -> bool {
        self.payload_sent.is_after(self.completed)
    }

    pub(crate) fn has_completed(&self, mseq: Mseq) -> bool {
        !mseq.is_after(self.completed)
    }

    fn place(&mut self, mseq: Mseq) -> Option<&mut u16> {
        let index = usize::try_from(mseq.get()).unwrap_or(0) & (RING - 1);
        self.payload.get_mut(index)
    }

    pub(crate) fn on_sent(&mut self, mseq: Mseq, payload_len: u16) {
        self.sent = mseq;
        if payload_len > 0 {
            self.payload_sent = mseq;
        }
        self.bytes = self.bytes.saturating_add(payload_len.into());
        if let Some(place) = self.place(mseq) {
            *place = payload_len;
        }
    }

    /// The oldest message has completed. False: none is in flight.
    pub(crate) fn on_completed(&mut self) -> bool {
        if self.in_flight() == 0 {
            return false;
        }
        if !self.has_payload() {
            // Keeps `payload_sent` from ever being half a circle behind.
            self.payload_sent = self.completed;
        }
        self.completed = self.completed.next();
        let completed = self.completed;
        let payload_len = self.place(completed).map_or(0, |place| *place);
        self.bytes = self.bytes.saturating_sub(payload_len.into());
        true
    }

    pub(crate) fn is_sound(&self) -> bool {
        self.in_flight() <= self.depth
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
        for round in 0..1000u16 {
            mseq = mseq.next();
            slots.on_sent(mseq, round);
            sum += u32::from(round);
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
    fn payload_in_flight_ends_with_its_last_message() {
        let mut slots = Slots::new(8);
        assert!(!slots.has_payload());
        slots.on_sent(Mseq::new(1), 7);
        slots.on_sent(Mseq::new(2), 0);
        assert!(slots.has_payload());
        assert!(slots.on_completed());
        assert!(!slots.has_payload());
        assert!(slots.has_completed(Mseq::new(1)));
        assert!(!slots.has_completed(Mseq::new(2)));
        assert!(slots.on_completed());
        assert!(!slots.on_completed());
    }

    #[test]
    fn payload_stays_in_flight_when_earlier_payload_completes() {
        let mut slots = Slots::new(8);
        slots.on_sent(Mseq::new(1), 7);
        slots.on_sent(Mseq::new(2), 7);
        assert!(slots.on_completed());
        assert!(slots.has_payload());
        assert!(slots.on_completed());
        assert!(!slots.has_payload());
    }

    #[test]
    fn payload_half_a_circle_ago_stays_behind() {
        let mut slots = Slots::new(8);
        let start = 7u32;
        slots.completed = Mseq::new(start);
        slots.sent = slots.completed;
        slots.payload_sent = Mseq::new(start.wrapping_sub((1 << 31) - 2));
        for n in 1..=4 {
            assert!(!slots.has_payload());
            slots.on_sent(Mseq::new(start + n), 0);
            assert!(slots.on_completed());
        }
        assert!(!slots.has_payload());
    }

    #[test]
    fn old_payload_never_comes_back_to_life() {
        let mut slots = Slots::new(8);
        slots.on_sent(Mseq::new(1), 7);
        slots.on_completed();
        // As if 2^31 messages without payload had passed.
        for start in [1 << 30, 1 << 31, 3 << 30] {
            slots.completed = Mseq::new(start - 1);
            slots.sent = slots.completed;
            slots.payload_sent = Mseq::new(start - 2);
            slots.on_sent(Mseq::new(start), 0);
            slots.on_completed();
            assert!(!slots.has_payload());
        }
    }
}
