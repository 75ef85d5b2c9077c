// SPDX-License-Identifier: GPL-2.0

//! How fast a connection copies and sends: what [`chunk`](super::chunk) goes by.
//!
//! The shell measures few of its writes, and tells durations. One that is too long by chance, by an
//! interrupt or a thread that found no processor, says less than one that is short. So what is
//! longer than expected counts for an eighth, and what is shorter for a half.
//!
//! A device may copy as well when it is handed a message. So it is two lengths of chunks that
//! tell what is spent on each byte and what on each message.

/// Long writes that are measured before it becomes one in [`ONE_IN`].
const EAGER: u8 = 16;

/// Of the later ones, one in so many is measured.
const ONE_IN: u8 = 16;

/// Nothing takes longer; keeps products far from overflow.
const LONGEST_NS: u64 = 1 << 30;

const KIB_SHIFT: u32 = 10;
const KIB: u64 = 1 << KIB_SHIFT;

/// The costs of a connection, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Costs {
    /// For each KiB: its copy, and what a handover takes longer because of it.
    pub copy: u32,
    /// For each message: the handover of nothing.
    pub post: u32,
    /// The link, for each KiB.
    pub link: u32,
    /// From the handover of a message of nothing to its completion: twice the latency. 0 if it
    /// is not known.
    pub round_trip: u32,
}

/// The measured part of a write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Measure {
    /// Nothing.
    No,
    /// The copy and handover of the first chunk, and the time until that has completed.
    First,
    /// The copy and handover of a long chunk, and the time until all of it has completed.
    All,
}

/// See the module. Each cost is 0 before the first sample.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Pace {
    copy: u32,
    post: u32,
    link: u32,
    round_trip: u32,
    /// Writes that have been measured, up to [`EAGER`].
    measured: u8,
    /// Writes until the next one that is.
    wait: u8,
    /// The next measurement is of a first chunk.
    first: bool,
}

fn mix(known: u32, ns: u64) -> u32 {
    let ns = match u32::try_from(ns.min(LONGEST_NS)) {
        // A time of nothing would look as if none were known.
        Ok(0) | Err(_) => 1,
        Ok(ns) => ns,
    };
    if known == 0 {
        return ns;
    }
    match ns.checked_sub(known) {
        // No single time raises it by more than that.
        Some(more) => known.saturating_add((more.min(known) >> 3).max(1)),
        None => known.saturating_sub(known.saturating_sub(ns) >> 1),
    }
}

/// Of `ns` for `len` bytes, those for a KiB.
fn per_kib(len: u32, ns: u64) -> Option<u64> {
    ns.min(LONGEST_NS)
        .saturating_mul(KIB)
        .checked_div(len.into())
}

impl Pace {
    /// Nothing is known.
    pub const fn new() -> Self {
        Self {
            copy: 0,
            post: 0,
            link: 0,
            round_trip: 0,
            measured: 0,
            wait: 0,
            first: false,
        }
    }

    /// The costs, as soon as those are known without which nothing can be said.
    pub fn costs(&self) -> Option<Costs> {
        let known = self.copy > 0 && self.post > 0 && self.link > 0;
        known.then_some(Costs {
            copy: self.copy,
            post: self.post,
            link: self.link,
            round_trip: self.round_trip,
        })
    }

    /// A write is about to go in chunks: what to measure of it.
    pub fn measure(&mut self) -> Measure {
        if let Some(left) = self.wait.checked_sub(1) {
            self.wait = left;
            return Measure::No;
        }
        if self.measured < EAGER {
            self.measured = self.measured.saturating_add(1);
        } else {
            self.wait = ONE_IN - 1;
        }
        self.first = !self.first;
        if self.first {
            Measure::First
        } else {
            Measure::All
        }
    }

    /// A first chunk of `len` bytes was copied in `copy` ns, and handed over in `post` ns.
    pub fn on_first_chunk(&mut self, len: u32, copy: u64, post: u64) {
        if self.copy > 0 {
            let bytes = u64::from(self.copy).saturating_mul(len.into()) >> KIB_SHIFT;
            let post = copy.saturating_add(post).saturating_sub(bytes);
            self.post = mix(self.post, post);
        } else if let Some(ns) = per_kib(len, copy) {
            // Until a longer chunk is known.
            self.copy = mix(0, ns);
            self.post = mix(0, post);
        }
    }

    /// A chunk of `len` bytes, at least twice as many, was copied and handed over in `ns`.
    pub fn on_long_chunk(&mut self, len: u32, ns: u64) {
        let ns = ns.saturating_sub(self.post.into()).max(ns >> 1);
        if let Some(ns) = per_kib(len, ns).filter(|_| self.copy > 0) {
            self.copy = mix(self.copy, ns);
        }
    }

    /// A message of `len` bytes, with nothing before it, has completed after `ns`.
    pub fn on_first(&mut self, len: u32, ns: u64) {
        // The first estimate of the link has a round trip in it.
        let link = u64::from(self.link).saturating_mul(len.into()) >> KIB_SHIFT;
        if self.link > 0 {
            self.round_trip = mix(self.round_trip, ns.saturating_sub(link));
        }
    }

    /// `len` bytes of several messages, with nothing before them, have completed `ns` after the
    /// first was posted.
    pub fn on_all(&mut self, len: u32, ns: u64) {
        // Not less than half of it: a long round trip may be one of a slower time.
        let ns = ns.saturating_sub(self.round_trip.into()).max(ns >> 1);
        if let Some(ns) = per_kib(len, ns) {
            self.link = mix(self.link, ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Costs, Measure, Pace};
    use std::vec::Vec;

    /// A connection with these costs after so many measured writes of `len` bytes; the first
    /// chunk has `first`. `late` is added to each eighth.
    fn measured(costs: &Costs, writes: u32, len: u32, first: u32, late: u64) -> Pace {
        let mut pace = Pace::new();
        let link = |len: u32| u64::from(costs.link) * u64::from(len) / 1024;
        for number in 0..writes {
            let late = if number % 8 == 5 { late } else { 0 };
            match pace.measure() {
                Measure::No => {}
                Measure::First => {
                    let copy = u64::from(costs.copy) * u64::from(first) / 1024;
                    pace.on_first_chunk(first, copy + late, u64::from(costs.post) + late);
                    pace.on_first(first, u64::from(costs.round_trip) + link(first) + late);
                }
                Measure::All => {
                    let chunk = 4 * u64::from(costs.copy) * u64::from(first) / 1024;
                    pace.on_long_chunk(4 * first, chunk + u64::from(costs.post) + late);
                    pace.on_all(len, u64::from(costs.round_trip) + link(len) + late);
                }
            }
        }
        pace
    }

    fn near(found: u32, truth: u32, percent: u32) -> bool {
        found.abs_diff(truth) * 100 <= truth * percent
    }

    #[test]
    fn costs_are_found() {
        for (link, round_trip) in [(819, 9000), (82, 5000), (3000, 40_000)] {
            let truth = Costs {
                copy: 400,
                post: 1100,
                link,
                round_trip,
            };
            let pace = measured(&truth, 16 * 40, 65536, 4096, 0);
            let found = pace.costs().unwrap();
            assert!(
                near(found.copy, 400, 2) && near(found.post, 1100, 5),
                "{found:?}"
            );
            assert!(near(found.link, link, 12), "{found:?}");
            assert!(near(found.round_trip, round_trip, 12), "{found:?}");
        }
    }

    #[test]
    fn a_few_writes_are_enough() {
        let truth = Costs {
            copy: 400,
            post: 1000,
            link: 800,
            round_trip: 8000,
        };
        assert_eq!(measured(&truth, 1, 65536, 4096, 0).costs(), None);
        let found = measured(&truth, 8, 65536, 4096, 0).costs().unwrap();
        assert!(near(found.link, 800, 25), "{found:?}");
    }

    #[test]
    fn what_is_late_by_chance_counts_little() {
        let truth = Costs {
            copy: 400,
            post: 1000,
            link: 800,
            round_trip: 8000,
        };
        let found = measured(&truth, 16 * 64, 65536, 8192, 20_000);
        let found = found.costs().unwrap();
        assert!(near(found.copy, 400, 40), "{found:?}");
        assert!(near(found.link, 800, 40), "{found:?}");
    }

    #[test]
    fn what_a_device_copies_at_the_handover_is_a_copy() {
        let mut pace = Pace::new();
        // 200 ns for each KiB by the shell, 150 by the device, and 600 for a message.
        for _ in 0..100 {
            pace.on_first_chunk(4096, 4 * 200, 600 + 4 * 150);
            pace.on_long_chunk(16384, 600 + 16 * 350);
        }
        pace.on_all(65536, 64 * 800);
        let found = pace.costs().unwrap();
        assert!(near(found.copy, 350, 5), "{found:?}");
        assert!(near(found.post, 600, 10), "{found:?}");
    }

    #[test]
    fn a_slower_and_a_faster_time_are_both_seen() {
        let costs = |link| Costs {
            copy: 400,
            post: 1000,
            link,
            round_trip: 8000,
        };
        let mut pace = measured(&costs(800), 200, 65536, 4096, 0);
        for _ in 0..40 {
            pace.on_all(65536, 8000 + 64 * 1600);
        }
        let slow = pace.costs().unwrap().link;
        assert!(near(slow, 1600, 10), "{slow}");
        for _ in 0..4 {
            pace.on_all(65536, 8000 + 64 * 100);
        }
        assert!(pace.costs().unwrap().link < 300);
    }

    #[test]
    fn one_interruption_changes_little() {
        let costs = Costs {
            copy: 400,
            post: 1000,
            link: 800,
            round_trip: 8000,
        };
        let mut pace = measured(&costs, 200, 65536, 4096, 0);
        let before = pace.costs().unwrap();
        pace.on_all(65536, 1 << 40);
        pace.on_first(4096, 1 << 40);
        pace.on_first_chunk(4096, 1 << 40, 1 << 40);
        pace.on_long_chunk(16384, 1 << 40);
        let after = pace.costs().unwrap();
        assert!(near(after.link, before.link, 13) && near(after.copy, before.copy, 13));
        assert!(near(after.post, before.post, 13));
        assert!(near(after.round_trip, before.round_trip, 13));
    }

    #[test]
    fn one_write_in_sixteen_is_measured_in_turn() {
        let mut pace = Pace::new();
        let begin: Vec<_> = (0..16).map(|_| pace.measure()).collect();
        assert_eq!(begin[..2], [Measure::First, Measure::All]);
        assert!(!begin.contains(&Measure::No));
        let all: Vec<_> = (0..16 * 10).map(|_| pace.measure()).collect();
        let count = |what| all.iter().filter(|m| **m == what).count();
        assert_eq!((count(Measure::First), count(Measure::All)), (5, 5));
    }

    #[test]
    fn any_numbers_will_do() {
        let mut pace = Pace::new();
        for len in [0, 1, u32::MAX] {
            for ns in [0, 1, u64::MAX] {
                pace.on_long_chunk(len, ns);
                pace.on_first_chunk(len, ns, ns);
                pace.on_long_chunk(len, ns);
                pace.on_all(len, ns);
                pace.on_first(len, ns);
                assert!(pace.costs().is_none_or(|c| c.copy > 0 && c.link > 0));
            }
        }
    }
}
