// SPDX-License-Identifier: GPL-2.0

//! A world whose costs are known: a writer, a transport, and a tuner that is asked.

use super::super::{class_of, Choice, Joint, Tuner, Way};
use std::collections::VecDeque;

/// Most bytes that are copied and have not left.
pub(super) const BUFFER: u64 = 2 << 20;

/// Payload of a message.
pub(super) const FRAGMENT: u64 = 32 << 10;

/// A peer without a reader asks for the bytes as Data after so many ns.
pub(super) const DECLINE: u64 = 30_000_000;

/// Picoseconds for each byte, and ns for each message.
#[derive(Clone, Copy)]
pub(super) struct Costs {
    /// The processor's copy, before the call returns.
    pub(super) copy: u64,
    /// The way of copied bytes after that, which overlaps.
    pub(super) transfer: u64,
    /// Pinning, registration, the exchange, invalidation.
    pub(super) lend: u64,
    /// The way of lent bytes.
    pub(super) read: u64,
    /// The peer's program reads.
    pub(super) reader: bool,
}

pub(super) const fn costs(copy: u64, transfer: u64, lend: u64, read: u64) -> Costs {
    Costs {
        copy,
        transfer,
        lend,
        read,
        reader: true,
    }
}

/// An earlier run of `make bench-zcopy`, one connection.
pub(super) const RXE: Costs = costs(3_000, 29_000, 1_200_000, 22_500);
/// docs/rlo-speed.md.
pub(super) const RLO: Costs = costs(300, 730, 86_000, 470);
/// A DDR adapter and processors of its time, where a copy overlaps.
pub(super) const DDR: Costs = costs(450, 660, 30_000, 660);
/// A card of 200 Gb/s.
pub(super) const FAST: Costs = costs(120, 45, 12_000, 45);
/// The same, if memory stays registered.
pub(super) const KEPT: Costs = costs(120, 45, 1_500, 45);
pub(super) const ABSENT: Costs = Costs {
    reader: false,
    ..FAST
};

pub(super) const ALL: [(&str, Costs); 6] = [
    ("rxe", RXE),
    ("rlo", RLO),
    ("ddr", DDR),
    ("fast", FAST),
    ("kept", KEPT),
    ("absent", ABSENT),
];

/// A repeatable series of numbers.
pub(super) struct Dice(pub(super) u64);

impl Dice {
    pub(super) fn roll(&mut self) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    pub(super) fn below(&mut self, n: u64) -> u64 {
        self.roll() % n.max(1)
    }
}

/// A writer, a transport and a tuner.
pub(super) struct World {
    pub(super) tuner: Tuner,
    pub(super) dice: Dice,
    pub(super) now: u64,
    pub(super) free: u64,
    pub(super) flying: VecDeque<(u64, u64)>,
    pub(super) queued: u64,
    pub(super) left: u64,
    /// Time between two calls.
    pub(super) pause: u64,
    /// In percent, both ways.
    pub(super) noise: u64,
    /// One way always, for the oracle.
    pub(super) forced: Option<fn(u64) -> Way>,
    pub(super) lent: u64,
    pub(super) sent: u64,
    /// Each message finds another invitation to lend.
    pub(super) pestered: bool,
    pub(super) joint: Joint,
}

impl World {
    pub(super) fn new(prior: u16, seed: u64) -> Self {
        Self {
            tuner: Tuner::new(prior),
            dice: Dice(seed),
            now: 1 << 40,
            free: 0,
            flying: VecDeque::new(),
            // Positions wrap.
            queued: u64::MAX - (1 << 20),
            left: u64::MAX - (1 << 20),
            pause: 0,
            noise: 30,
            forced: None,
            lent: 0,
            sent: 0,
            pestered: false,
            joint: Joint::NONE,
        }
    }

    fn noisy(&mut self, ns: u64) -> u64 {
        let percent = 100 + self.dice.below(2 * self.noise + 1) - self.noise;
        let outlier = self.noise > 0 && self.dice.below(100) == 0;
        ns * percent / 100 * if outlier { 8 } else { 1 }
    }

    fn advance(&mut self, to: u64) {
        while let Some((at, position)) = self.flying.front().copied().filter(|f| f.0 <= to) {
            self.flying.pop_front();
            self.left = position;
            if self.tuner.is_due(position) {
                self.tuner.on_left(position, at);
            }
        }
        self.now = self.now.max(to);
    }

    fn transfer(&mut self, ns: u64, len: u64) {
        self.free = self.free.max(self.now) + ns;
        self.queued = self.queued.wrapping_add(len);
        self.flying.push_back((self.free, self.queued));
    }

    pub(super) fn copy(&mut self, costs: &Costs, len: u64) {
        let mut left = len;
        while left > 0 {
            let n = left.min(FRAGMENT);
            while self.queued.wrapping_sub(self.left) + n > BUFFER {
                let next = self.flying.front().map_or(self.now, |f| f.0);
                self.advance(next.max(self.now));
            }
            let copying = self.noisy(costs.copy * n / 1000);
            self.advance(self.now + copying);
            let way = self.noisy(costs.transfer * n / 1000);
            self.transfer(way, n);
            left -= n;
        }
    }

    fn lend(&mut self, costs: &Costs, len: u64) {
        let pinning = self.noisy(costs.lend / 2);
        self.advance(self.now + pinning);
        let mut way = self.noisy(costs.lend - costs.lend / 2 + costs.read * len / 1000);
        if !costs.reader {
            way += DECLINE;
        }
        self.transfer(way, len);
        self.advance(self.free);
        self.lent += len;
    }

    pub(super) fn send(&mut self, costs: &Costs, len: u64) -> Choice {
        self.advance(self.now);
        if let (true, Some(class)) = (self.pestered, class_of(len)) {
            self.joint = self.joint.next(class, Way::Lend);
        }
        let mut choice = self.tuner.choose(len, self.joint);
        if let Some(forced) = self.forced {
            choice.way = forced(len);
            choice.timed = false;
        }
        if choice.timed {
            let (now, queued, left) = (self.now, self.queued, self.left);
            self.tuner.on_begun(choice, len, now, queued, left);
        }
        match choice.way {
            Way::Copy => self.copy(costs, len),
            Way::Lend => self.lend(costs, len),
        }
        self.tuner.on_gone(choice, len);
        self.sent += len;
        let pause = self.pause;
        self.advance(self.now + pause);
        choice
    }

    /// How long `times` messages take, without the last that are in flight.
    pub(super) fn run(&mut self, costs: &Costs, sizes: &[u64], times: usize) -> u64 {
        let begun = self.now;
        for at in 0..times {
            // A fixed order in which each size follows each.
            let turn = at.wrapping_mul(2_654_435_761) % sizes.len();
            self.send(costs, sizes[turn]);
        }
        let end = self.free.max(self.now);
        self.advance(end);
        self.now - begun
    }
}
