// SPDX-License-Identifier: GPL-2.0

//! Whether a SrcAvail waits for a SinkAvail that would make it void.
//!
//! A writer and a reader that both call again as soon as their last call has ended both offer
//! their memory, and the offers cross. The SrcAvail is void then: it has cost a message and a
//! credit, and its bytes are written into the reader's memory. So after two crossings in a row
//! the next SrcAvail is held back, but only while a thread of the writer looks for messages
//! anyway. That is a matter of microseconds, and needs no timer. A reader that does not come in
//! time, or a peer that delays its offers on purpose, is waited for less and less.

use super::offering::Habit;

/// Crossings in a row before a SrcAvail is held back.
const CROSSINGS: u8 = 2;

/// The decision about the next SrcAvail.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Next {
    #[default]
    Undecided,
    Held,
    Goes,
}

/// The results of recent SrcAvails, and the decision about the next one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Holding {
    crossings: u8,
    next: Next,
    habit: Habit,
    /// A thread looks for messages.
    allowed: bool,
}

impl Holding {
    /// Nothing has crossed.
    pub const fn new() -> Self {
        Self {
            crossings: 0,
            next: Next::Undecided,
            habit: Habit::new(),
            allowed: false,
        }
    }

    /// A thread begins or ends to look for messages. Returns whether a SrcAvail was held back
    /// that goes now.
    pub fn allow(&mut self, may: bool) -> bool {
        self.allowed = may;
        let ends = !may && self.next == Next::Held;
        if ends {
            self.habit.on_wasted();
            self.next = Next::Goes;
        }
        ends
    }

    /// A SrcAvail could go now: whether it waits.
    pub fn holds(&mut self) -> bool {
        if self.allowed && self.next == Next::Undecided {
            let hold = self.crossings >= CROSSINGS && self.habit.wants();
            self.next = if hold { Next::Held } else { Next::Goes };
        }
        self.next == Next::Held
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
        if self.next == Next::Held {
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
        holding.allow(true);
        for _ in 0..crossings {
            assert!(!holding.holds());
            holding.on_sent();
            holding.on_sink_avail(true);
        }
        holding
    }

    /// The thread gives up, and another one begins.
    fn give_up(holding: &mut Holding) -> bool {
        let held = holding.allow(false);
        holding.allow(true);
        held
    }

    #[test]
    fn two_crossings_in_a_row_hold_the_next_back() {
        assert!(!after(1).holds());
        let mut holding = after(2);
        for _ in 0..1000 {
            assert!(holding.holds());
            holding.on_sink_avail(false);
        }
        let mut holding = after(1);
        assert!(!holding.holds());
        holding.on_sent();
        holding.on_read();
        holding.on_sink_avail(true);
        assert!(!holding.holds());
    }

    #[test]
    fn none_is_held_back_while_no_thread_looks() {
        let mut holding = after(2);
        assert!(!holding.allow(false));
        assert!(!holding.holds());
        holding.allow(true);
        assert!(holding.holds());
        assert!(holding.allow(false));
        assert!(!holding.holds());
    }

    #[test]
    fn the_decision_stands_until_the_srcavail_is_sent() {
        let mut holding = after(2);
        assert!(holding.holds());
        assert!(give_up(&mut holding));
        assert!(!holding.holds());
        assert!(!give_up(&mut holding));
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
            assert!(give_up(&mut holding));
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
