// SPDX-License-Identifier: MIT

//! Whether lending pays: by writes that disturb it, and by the time that the program needs.
//!
//! A program is judged as a whole, by the time from one long send to the next. So what it
//! computes meanwhile counts, and what it waits for. The way that is believed in is compared with
//! the other one, in windows of a few sends: at first soon, then more and more seldom.

/// Sends of a window. The other way is tried for one window.
pub(super) const WINDOW: u32 = 16;

/// Sends at the begin of a window that are not timed where the way has changed: those before them
/// are still under way.
const WARM: u32 = 4;

/// Sends of the way that is believed in before the other one is tried. Each try that changes
/// nothing doubles them, up to a limit.
pub(super) const PERIOD: u32 = 64;
pub(super) const PERIOD_MAX: u32 = PERIOD << 6;

/// One disturbed send of so many is too much.
const SHARE: u32 = 8;

/// The way is changed for one that saves a sixteenth.
const MARGIN_SHIFT: u32 = 4;

/// A longer time between two sends counts as so many ns: the program waits for something else.
const CYCLE_MAX: u64 = 50_000_000;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    Lend,
    Ordinary,
}

/// Sends that go one way.
#[derive(Clone, Copy)]
struct Window {
    sends: u32,
    disturbed: u32,
    /// Sends that are not timed yet.
    warm: u32,
    bytes: u64,
    ns: u64,
}

impl Window {
    const fn new(warm: u32) -> Self {
        Self {
            sends: 0,
            disturbed: 0,
            warm,
            bytes: 0,
            ns: 0,
        }
    }

    /// ns for each MiB.
    fn rate(&self) -> Option<u64> {
        self.ns.saturating_mul(1 << 20).checked_div(self.bytes)
    }

    fn is_disturbed(&self) -> bool {
        self.disturbed.saturating_mul(SHARE) > self.sends
    }
}

/// See the module.
pub(super) struct Benefit {
    believed: Way,
    /// The other way is being tried.
    trying: bool,
    /// Sends until it is.
    left: u32,
    period: u32,
    /// ns for each MiB of the way that is believed in.
    known: Option<u64>,
    window: Window,
    /// When the last send began, and its length.
    last: Option<(u64, usize)>,
}

impl Benefit {
    pub(super) const fn new() -> Self {
        Self {
            believed: Way::Lend,
            trying: false,
            // The first comparison comes soon.
            left: WINDOW,
            period: PERIOD,
            known: None,
            window: Window::new(WARM),
            last: None,
        }
    }

    const fn way(&self) -> Way {
        match (self.believed, self.trying) {
            (Way::Lend, false) | (Way::Ordinary, true) => Way::Lend,
            (Way::Ordinary, false) | (Way::Lend, true) => Way::Ordinary,
        }
    }

    /// A send of `len` bytes begins at `now`, in ns; returns whether to lend them.
    pub(super) fn begin(&mut self, len: usize, now: u64) -> bool {
        if let Some((then, bytes)) = self.last.replace((now, len)) {
            let passed = now.saturating_sub(then).min(CYCLE_MAX);
            self.count(bytes, passed);
        }
        self.way() == Way::Lend
    }

    /// A write has disturbed a send.
    pub(super) fn on_disturbed(&mut self) {
        if self.way() == Way::Lend {
            self.window.disturbed = self.window.disturbed.saturating_add(1);
        }
    }

    /// A send took `ns`, with what followed it.
    fn count(&mut self, bytes: usize, ns: u64) {
        let window = &mut self.window;
        window.sends = window.sends.saturating_add(1);
        if window.warm > 0 {
            window.warm = window.warm.saturating_sub(1);
        } else {
            window.bytes = window.bytes.saturating_add(bytes as u64);
            window.ns = window.ns.saturating_add(ns);
        }
        if window.sends >= WINDOW {
            self.end_window();
        }
    }

    fn end_window(&mut self) {
        let window = core::mem::replace(&mut self.window, Window::new(0));
        let disturbed = self.way() == Way::Lend && window.is_disturbed();
        let rate = window.rate();
        if self.trying {
            let gains = match (self.known, rate) {
                (Some(known), Some(rate)) => rate < known.saturating_sub(known >> MARGIN_SHIFT),
                _ => false,
            };
            if gains && !disturbed {
                self.believe(self.way(), PERIOD, rate);
            } else {
                let period = self.period.saturating_mul(2).min(PERIOD_MAX);
                self.believe(self.believed, period, self.known);
            }
            return;
        }
        self.known = rate.or(self.known);
        if disturbed {
            self.believe(Way::Ordinary, PERIOD, None);
            return;
        }
        self.left = self.left.saturating_sub(window.sends);
        if self.left == 0 {
            self.trying = true;
            self.window = Window::new(WARM);
        }
    }

    /// `way` is used for so many sends. The sends of the other one are still under way.
    fn believe(&mut self, way: Way, period: u32, known: Option<u64>) {
        self.believed = way;
        self.trying = false;
        self.period = period;
        self.left = period;
        self.known = known;
        self.window = Window::new(WARM);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::arithmetic_side_effects, reason = "numbers of a test")]

    use super::{Benefit, CYCLE_MAX, PERIOD, PERIOD_MAX, WINDOW};

    /// A program in which a send, and what follows it, takes so many ns by each way.
    struct Program {
        benefit: Benefit,
        now: u64,
        lent: u32,
    }

    const LEN: usize = 1 << 18;

    impl Program {
        fn new() -> Self {
            Self {
                benefit: Benefit::new(),
                now: 1 << 40,
                lent: 0,
            }
        }

        fn send(&mut self, lend: u64, ordinary: u64, disturbs: bool) -> bool {
            let lends = self.benefit.begin(LEN, self.now);
            self.lent += u32::from(lends);
            if lends && disturbs {
                self.benefit.on_disturbed();
            }
            self.now += if lends { lend } else { ordinary };
            lends
        }

        /// So many sends; returns how many of them were lent.
        fn run(&mut self, sends: u32, lend: u64, ordinary: u64) -> u32 {
            let before = self.lent;
            for _ in 0..sends {
                self.send(lend, ordinary, false);
            }
            self.lent - before
        }
    }

    #[test]
    fn the_faster_way_is_used() {
        let mut program = Program::new();
        assert_eq!(
            program.run(WINDOW, 100, 300),
            WINDOW,
            "it begins by lending"
        );
        assert!(program.run(10_000, 100, 300) > 9_800);
        let mut program = Program::new();
        program.run(2 * WINDOW + 1, 300, 100);
        // 16 of 64, 128, 256, 512, 1024, 2048.
        assert!(program.run(4_000, 300, 100) <= 6 * WINDOW);
        // Rarer and rarer.
        program.run(4 * PERIOD_MAX, 300, 100);
        assert!(program.run(10 * PERIOD_MAX, 300, 100) <= 11 * WINDOW);
    }

    #[test]
    fn a_way_that_gets_faster_is_found() {
        let mut program = Program::new();
        program.run(2_000, 300, 100);
        program.run(4_000, 100, 300);
        assert!(program.run(1_000, 100, 300) > 900);
        program.run(6_000, 300, 100);
        assert!(program.run(1_000, 300, 100) < 100);
    }

    /// It waits for its users, and no way is the faster one.
    #[test]
    fn noise_below_a_sixteenth_changes_nothing() {
        let mut program = Program::new();
        for at in 0..20_000u64 {
            let noise = at.wrapping_mul(2_654_435_761) % 400;
            program.send(10_000 + noise, 10_000 + noise, false);
        }
        assert!(program.lent > 19_500, "{}", program.lent);
    }

    #[test]
    fn a_long_wait_counts_with_a_limit() {
        let mut program = Program::new();
        program.run(WINDOW, 1_000_000, 2_000_000);
        // A night, in the window of ordinary sends and before the first one of it.
        program.now += 1 << 45;
        program.run(WINDOW / 2, 1_000_000, 2_000_000);
        program.now += 1 << 45;
        program.run(WINDOW, 1_000_000, 2_000_000);
        assert!(program.run(PERIOD, 1_000_000, 2_000_000) > PERIOD / 2);
        assert!(program.benefit.known.is_some_and(|known| known < CYCLE_MAX));
    }

    #[test]
    fn programs_that_write_soon_are_left_alone_for_longer_and_longer() {
        let mut program = Program::new();
        let mut disturb = |count: u32, lent: bool| {
            for at in 0..count {
                assert_eq!(program.send(1, 1, true), lent, "{at} of {count}");
            }
        };
        disturb(WINDOW, true);
        let mut period = PERIOD;
        while period < PERIOD_MAX {
            disturb(period, false);
            disturb(WINDOW, true);
            period *= 2;
        }
        for _ in 0..3 {
            disturb(PERIOD_MAX, false);
            disturb(WINDOW, true);
        }
    }

    #[test]
    fn a_clock_that_stands_still_or_runs_back_changes_nothing() {
        for step in [0, u64::MAX] {
            let mut benefit = Benefit::new();
            let (mut now, mut lent) = (1u64 << 40, 0);
            for _ in 0..1000 {
                lent += u32::from(benefit.begin(LEN, now));
                now = now.wrapping_add(step);
            }
            assert!(lent > 900, "{lent}");
        }
    }
}
