// SPDX-License-Identifier: GPL-2.0

//! The timers of the engine. The shell owns the clock.

use crate::engine::policy::{absence, patience};

/// The timers of a connection. Each is wanted, and runs, independently of the
/// others: see [`Connection::wants`](super::conn::Connection::wants).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Timer {
    /// When to send bytes that a cork or an announcement of more bytes holds back.
    Cork,
    /// When to look for an application that reads a SrcAvail. A few times in vain decline it.
    Decline,
    /// When to look whether the peer has answered a SrcAvailCancel. A few times in
    /// vain end the connection.
    CancelAnswer,
    /// The same for a SinkAvailCancel.
    SinkCancelAnswer,
    /// When to take back an advertisement that no peer reads.
    Recall,
    /// When to give up waiting for the peer to take part in the close.
    PeerClose,
    /// When to grant again the credits which the peer spent on granting some
    /// to us.
    CreditUpdate,
}

impl Timer {
    /// All of them.
    pub const ALL: [Timer; 7] = [
        Timer::Cork,
        Timer::Decline,
        Timer::CancelAnswer,
        Timer::SinkCancelAnswer,
        Timer::Recall,
        Timer::PeerClose,
        Timer::CreditUpdate,
    ];

    /// How long to wait, in milliseconds; for [`Timer::CreditUpdate`] the minimum.
    pub const fn millis(self) -> u32 {
        match self {
            // TCP's ceiling for corked data.
            Timer::Cork => 200,
            // rules: CLOSE
            Timer::PeerClose => 60_000,
            Timer::CreditUpdate => patience::update_ms(0, false, false),
            Timer::Decline => absence::LOOK_MS,
            Timer::Recall => patience::RECALL_MS,
            Timer::CancelAnswer | Timer::SinkCancelAnswer => patience::ANSWER_MS,
        }
    }
}

/// When each timer of a connection runs, in milliseconds of the shell's clock.
///
/// Kept by the shell, so that the engine needs no clock, and here, so that all
/// shells keep it alike: a timer that is wanted runs so long after it was wanted
/// first, and nothing but its own connection's change of mind puts it off.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Deadlines {
    due: [Option<u64>; Timer::ALL.len()],
}

impl Deadlines {
    /// None runs.
    pub const fn new() -> Self {
        Self {
            due: [None; Timer::ALL.len()],
        }
    }

    fn each(&mut self) -> impl Iterator<Item = (Timer, &mut Option<u64>)> {
        Timer::ALL.into_iter().zip(&mut self.due)
    }

    /// Sets the timers that are `wanted`, with their milliseconds. A timer that
    /// runs already goes on; others begin `now`, which is called only then. Returns
    /// the time of the first one.
    pub fn settle(
        &mut self,
        now: impl Fn() -> u64,
        wanted: impl Fn(Timer) -> Option<u32>,
    ) -> Option<u64> {
        for (timer, due) in self.each() {
            let length = wanted(timer);
            *due = length.map(|ms| due.unwrap_or_else(|| now().saturating_add(ms.into())));
        }
        self.next()
    }

    /// One is run before its time, as a simulation does; it begins again if it is
    /// still wanted.
    pub fn stop(&mut self, timer: Timer) {
        for (other, due) in self.each() {
            if other == timer {
                *due = None;
            }
        }
    }

    /// When the first one is due.
    pub fn next(&self) -> Option<u64> {
        self.due.iter().flatten().min().copied()
    }

    /// Takes out one that is due by `now`. It begins again if it is still wanted
    /// after [`handle_timeout`](super::conn::Connection::handle_timeout).
    pub fn take_due(&mut self, now: u64) -> Option<Timer> {
        let passed = |due: &Option<u64>| due.is_some_and(|due| due <= now);
        let (timer, due) = self.each().find(|(_, due)| passed(due))?;
        *due = None;
        Some(timer)
    }
}

#[cfg(test)]
mod tests {
    use super::{Deadlines, Timer};

    #[test]
    fn every_timer_has_a_place_of_its_own() {
        let mut deadlines = Deadlines::new();
        assert_eq!(deadlines.next(), None);
        let mut due: std::vec::Vec<u64> = Timer::ALL.map(|timer| timer.millis().into()).into();
        let first = deadlines.settle(|| 0, |timer| Some(timer.millis()));
        due.sort_unstable();
        assert_eq!(first, due.first().copied());
        let mut run = std::vec::Vec::new();
        for now in due {
            assert_eq!(deadlines.take_due(now - 1), None);
            run.extend(deadlines.take_due(now));
        }
        assert_eq!(run.len(), Timer::ALL.len());
        assert_eq!(deadlines, Deadlines::default());
    }

    //= test: SRC-6, SRCCANCEL-9
    #[test]
    fn no_timer_puts_another_off() {
        let mut deadlines = Deadlines::new();
        deadlines.settle(|| 0, |timer| (timer == Timer::CancelAnswer).then_some(1000));
        // A dribble of corked bytes comes and goes.
        for now in 1..1000 {
            let wants = |timer| match timer {
                Timer::CancelAnswer => Some(1000),
                Timer::Cork => (now % 2 == 0).then_some(200),
                _ => None,
            };
            deadlines.settle(|| now, wants);
            assert_eq!(deadlines.take_due(now), None);
        }
        assert_eq!(deadlines.take_due(1000), Some(Timer::CancelAnswer));
    }

    #[test]
    fn what_is_not_wanted_any_more_begins_anew() {
        let mut deadlines = Deadlines::new();
        let only = |timer: Timer| (timer == Timer::Recall).then_some(10);
        assert_eq!(deadlines.settle(|| 100, only), Some(110));
        assert_eq!(deadlines.settle(|| 105, only), Some(110));
        assert_eq!(deadlines.settle(|| 106, |_| None), None);
        assert_eq!(deadlines.settle(|| 107, only), Some(117));
        assert_eq!(deadlines.take_due(117), Some(Timer::Recall));
        assert_eq!(deadlines.take_due(117), None);
        assert_eq!(deadlines.settle(|| 120, only), Some(130));
    }
}
