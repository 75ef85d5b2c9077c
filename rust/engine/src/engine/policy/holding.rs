// SPDX-License-Identifier: GPL-2.0

//! Whether a SrcAvail waits for a SinkAvail that would make it void.
//!
//! A writer and a reader that both call again as soon as their last call has ended
//! both offer their memory, and the offers cross. The SrcAvail is void then: it has
//! cost a message and a credit, and its bytes are written into the reader's memory.
//! So after two crossings in a row the next SrcAvail is held back for a moment. A
//! reader that does not come in time, or a peer that delays its offers on purpose,
//! is waited for less and less.

use super::offering::Habit;

/// Crossings in a row before a SrcAvail is held back.
const CROSSINGS: u8 = 2;

/// Time that a SrcAvail is held back, in milliseconds: longer than a reader needs from
/// one call to the next.
pub const HOLD_MS: u32 = 2;

/// What was decided about the next SrcAvail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Next {
    Undecided,
    Held,
    Goes,
}

/// The results of recent SrcAvails, and the decision about the next one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Holding {
    crossings: u8,
    next: Next,
    habit: Habit,
}

impl Holding {
    /// Nothing has crossed.
    pub const fn new() -> Self {
        Self {
            crossings: 0,
            next: Next::Undecided,
            habit: Habit::new(),
        }
    }

    /// A SrcAvail could go now: whether it waits.
    pub fn holds(&mut self) -> bool {
        if self.next == Next::Undecided {
            let hold = self.crossings >= CROSSINGS && self.habit.wants();
            self.next = if hold { Next::Held } else { Next::Goes };
        }
        self.is_held()
    }

    /// Whether one waits.
    pub fn is_held(&self) -> bool {
        self.next == Next::Held
    }

    /// The time is over.
    pub fn on_timeout(&mut self) {
        if self.is_held() {
            self.habit.on_wasted();
            self.next = Next::Goes;
        }
    }

    /// A SrcAvail was sent.
    pub fn on_sent(&mut self) {
        self.next = Next::Undecided;
    }

    /// The peer has read from one.
    pub fn on_read(&mut self) {
        self.crossings = 0;
    }

    /// A SinkAvail has come, and has made a SrcAvail void if they have `crossed`.
    pub fn on_sink_avail(&mut self, crossed: bool) {
        if crossed {
            self.crossings = self.crossings.saturating_add(1);
        }
        if self.is_held() {
            self.habit.on_used();
        }
        self.next = Next::Undecided;
    }
}

#[cfg(test)]
mod tests {
    use super::Holding;

    fn after(crossings: u8) -> Holding {
        let mut holding = Holding::new();
        for _ in 0..crossings {
            assert!(!holding.holds());
            holding.on_sent();
            holding.on_sink_avail(true);
        }
        holding
    }

    #[test]
    fn two_crossings_in_a_row_hold_the_next_back() {
        assert!(!after(1).holds());
        let mut holding = after(2);
        for _ in 0..1000 {
            assert!(holding.holds());
            assert!(holding.is_held());
            holding.on_sink_avail(false);
            assert!(!holding.is_held());
        }
        let mut holding = after(1);
        assert!(!holding.holds());
        holding.on_sent();
        holding.on_read();
        holding.on_sink_avail(true);
        assert!(!holding.holds());
    }

    #[test]
    fn the_decision_stands_until_the_srcavail_is_sent() {
        let mut holding = after(2);
        assert!(holding.holds());
        holding.on_timeout();
        assert!(!holding.holds());
        assert!(!holding.holds());
        holding.on_timeout();
        assert!(!holding.holds());
    }

    #[test]
    fn holding_in_vain_becomes_rare() {
        let mut holding = after(2);
        let pauses = [0, 1, 3, 7, 15, 31, 63, 64, 64];
        for pause in pauses {
            for _ in 0..pause {
                assert!(!holding.holds());
                holding.on_sent();
            }
            assert!(holding.holds());
            holding.on_timeout();
            assert!(!holding.holds());
            holding.on_sent();
        }
        for _ in 0..64 {
            assert!(!holding.holds());
            holding.on_sent();
        }
        assert!(holding.holds());
        holding.on_sink_avail(false);
        assert!(holding.holds());
    }
}
