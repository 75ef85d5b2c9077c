// SPDX-License-Identifier: GPL-2.0

//! What is known of the messages of one class of sizes.

use super::{meter::Sample, other, stretch, Way, STRETCH_MAX};

/// Tries may take a 64th of the time.
const SHARE_SHIFT: u32 = 6;

/// No purse holds more, in ns: about what 17 minutes pay for.
const PURSE_MAX: u64 = 1 << 34;

/// The way is changed for one that saves a sixteenth.
const MARGIN_SHIFT: u32 = 4;

/// A try costs at least a quarter of its messages, whatever was measured: the messages behind
/// it find other queues than they would have found.
const PRICE_SHIFT: u32 = 2;

/// The first try after a change of the way comes when messages have gone for a quarter of its
/// time: other work may have made messages slow for a moment, and led to the change.
const CHECK_SHIFT: u32 = SHARE_SHIFT + 2;

/// A try with others may come when half of its price is there.
const JOIN_SHIFT: u32 = 1;

/// Samples of a way before it is compared with the other.
const SAMPLES_LEAST: u8 = 3;

/// Samples of copying after which one message in so many stretches begins another.
const SAMPLES_MANY: u8 = 4;
const TIMED_ONE_IN: u8 = 8;

/// Bytes of a class before the other way is tried. The buffers of a connection grow
/// meanwhile.
const TRY_FROM: u64 = 1 << 20;

/// By how many messages lending may fall behind copying before copying is tried, and before
/// lending is given up at once.
const BALANCE: i64 = 8;
const BALANCE_LOST: i64 = 32;

/// Sixteenths of a nanosecond.
const RATE_SHIFT: u32 = 4;

/// The smoothed time of one way.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Cost {
    /// For each KiB, in sixteenths of a nanosecond.
    rate: u32,
    samples: u8,
    /// Bytes that took no time, because their completions were seen together with others.
    owed: u64,
}

impl Cost {
    /// `len` bytes took `ns`, which counts for `1 / 2^shift`. A `bounded` sample counts as
    /// at most twice what was expected.
    pub(super) fn mix(&mut self, len: u64, ns: u64, shift: u32, bounded: bool) {
        self.owed = self.owed.saturating_add(len);
        if ns == 0 {
            return;
        }
        let kib = (core::mem::take(&mut self.owed) >> 10).max(1);
        let rate = ns
            .saturating_mul(1 << RATE_SHIFT)
            .checked_div(kib)
            .unwrap_or(0);
        let rate = u32::try_from(rate).unwrap_or(u32::MAX).max(1);
        let most = if bounded {
            self.rate.saturating_mul(2)
        } else {
            u32::MAX
        };
        self.rate = match self.samples {
            0 => rate,
            _ => {
                let (old, new) = (u64::from(self.rate), u64::from(rate.min(most)));
                let sum = old
                    .wrapping_shl(shift)
                    .saturating_sub(old)
                    .saturating_add(new);
                u32::try_from(sum.wrapping_shr(shift))
                    .unwrap_or(u32::MAX)
                    .max(1)
            }
        };
        self.samples = self.samples.saturating_add(1);
    }

    /// As `mix`, for a try. Other work makes messages slower and never faster, so a shorter time
    /// than the known one counts whole.
    fn mix_try(&mut self, len: u64, ns: u64) {
        let is_less = ns < self.of(self.owed.saturating_add(len));
        self.mix(len, ns, u32::from(!is_less), true);
    }

    /// Nanoseconds that `len` bytes take.
    pub(super) fn of(self, len: u64) -> u64 {
        u64::from(self.rate).saturating_mul(len >> 10) >> RATE_SHIFT
    }

    pub(super) fn is_known(self) -> bool {
        self.samples >= SAMPLES_LEAST
    }

    /// Of `expected` ns, what a try must save for the way to change: the more, the fewer tries
    /// there were.
    fn margin(self, expected: u64) -> u64 {
        match self.samples {
            0 | 1 => expected >> 1,
            2 => expected >> 2,
            _ => expected >> MARGIN_SHIFT,
        }
    }
}

/// What a balance says about lending.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    Good,
    /// Copying may be better by now.
    Bad,
    GivenUp,
}

/// See the module.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Class {
    copy: Cost,
    lend: Cost,
    /// Lending is believed in.
    pub(super) lends: bool,
    pub(super) seen: bool,
    /// `lends` is the result of tries.
    pub(super) learnt: bool,
    /// Messages until the next one that is timed.
    untimed: u8,
    /// Bytes that have gone, up to [`TRY_FROM`].
    gone: u64,
    /// Nanoseconds that tries may cost.
    pub(super) purse: u64,
    /// Nanoseconds that the next try is expected to cost.
    price: u64,
    /// By how many nanoseconds lending is ahead of copying.
    balance: i64,
}

impl Class {
    /// A stretch that went the way of the class has been timed. The first messages of a connection
    /// take longer, because its buffers grow and its pages are touched. So the second measurement
    /// of copying short messages takes the place of the first. The buffers grow within the first
    /// long one.
    pub(super) fn on_own(&mut self, sample: &Sample) {
        let is_short = stretch(sample.class) == STRETCH_MAX;
        let is_second = is_short && sample.way == Way::Copy && self.copy.samples == 1;
        let shift = if is_second { 0 } else { 2 };
        self.cost(sample.way)
            .mix(sample.len, sample.ns, shift, true);
    }

    /// How messages go that are no try.
    pub(super) fn way(&self) -> Way {
        if self.lends && self.copy.is_known() {
            Way::Lend
        } else {
            Way::Copy
        }
    }

    fn of(&self, way: Way) -> &Cost {
        match way {
            Way::Copy => &self.copy,
            Way::Lend => &self.lend,
        }
    }

    pub(super) fn cost(&mut self, way: Way) -> &mut Cost {
        match way {
            Way::Copy => &mut self.copy,
            Way::Lend => &mut self.lend,
        }
    }

    /// Whether the next message, which is no try, begins a stretch of `most` messages that is
    /// timed.
    pub(super) fn is_timed(&mut self, most: u8) -> bool {
        if self.way() == Way::Lend || self.copy.samples < SAMPLES_MANY {
            return true;
        }
        match self.untimed.checked_sub(1) {
            Some(left) => self.untimed = left,
            None => self.untimed = TIMED_ONE_IN.saturating_mul(most),
        }
        self.untimed == 0
    }

    /// Whether a try can be paid.
    pub(super) fn pays(&self) -> bool {
        self.may_try() && self.purse >= self.price
    }

    /// Whether to take part in a try of others. It is paid like one of its own, a little before
    /// its time.
    pub(super) fn joins(&self) -> bool {
        self.may_try() && self.purse >= self.price >> JOIN_SHIFT
    }

    /// Whether there is something to compare a try with.
    fn may_try(&self) -> bool {
        let way = self.way();
        // While copying is still to be measured, lending that others believe in is no try.
        let settled = self.lends == (way == Way::Lend);
        settled && self.gone >= TRY_FROM && self.of(way).is_known()
    }

    /// `len` more bytes have gone.
    pub(super) fn on_gone(&mut self, len: u64) {
        self.gone = self.gone.saturating_add(len).min(TRY_FROM);
        let way = self.way();
        let paid = self.cost(way).of(len) >> SHARE_SHIFT;
        self.purse = self.purse.saturating_add(paid).min(PURSE_MAX);
    }

    fn set_price(&mut self, price: u64) {
        self.price = price.min(PURSE_MAX);
        self.purse = 0;
    }

    fn believe(&mut self, way: Way) {
        self.lends = way == Way::Lend;
        self.learnt = true;
        self.balance = 0;
        self.untimed = 0;
    }

    /// A message of a stretch of `most` could not be lent.
    pub(super) fn on_refused(&mut self, most: u8) {
        let bytes = TRY_FROM.saturating_mul(most.into());
        self.set_price(self.copy.of(bytes).max(self.price));
        if self.lends {
            self.believe(Way::Copy);
        }
    }

    /// The balance with a stretch that was lent, and what copying would have taken for one of
    /// its messages.
    fn balance_with(&self, sample: &Sample) -> (i64, i64) {
        let copied = i64::try_from(self.copy.of(sample.len)).unwrap_or(i64::MAX);
        let lent = i64::try_from(sample.ns).unwrap_or(i64::MAX);
        let one = copied
            .checked_div(sample.messages.into())
            .unwrap_or(0)
            .max(1);
        let balance = self.balance.saturating_add(copied).saturating_sub(lent);
        (balance, one)
    }

    /// Whether a stretch that was lent is enough to give lending up.
    pub(super) fn loses(&self, sample: &Sample) -> bool {
        let (balance, one) = self.balance_with(sample);
        self.way() == Way::Lend && balance < one.saturating_mul(BALANCE_LOST).saturating_neg()
    }

    /// Compares a stretch that was lent with what copying would have taken.
    pub(super) fn weigh(&mut self, sample: &Sample) -> Verdict {
        let (balance, one) = self.balance_with(sample);
        let room = one.saturating_mul(BALANCE);
        let loses = self.loses(sample);
        self.balance = balance.min(room);
        if loses {
            self.believe(Way::Copy);
            self.set_price(balance.unsigned_abs());
            return Verdict::GivenUp;
        }
        if balance < room.saturating_neg() {
            self.balance = 0;
            return Verdict::Bad;
        }
        Verdict::Good
    }

    /// A stretch of a try has been timed.
    pub(super) fn on_tried(&mut self, sample: &Sample) {
        self.cost(other(self.way())).mix_try(sample.len, sample.ns);
    }

    /// A try of `gone` bytes has ended. One with others tells whether the connection that began
    /// it has `changed` its way: this one does the same, unless its own times say otherwise.
    /// Returns whether the way changes.
    pub(super) fn conclude(&mut self, gone: u64, changed: Option<bool>) -> bool {
        let (own, tried) = (self.way(), other(self.way()));
        let expected = self.of(own).of(gone);
        let cost = *self.of(tried);
        let took = cost.of(gone);
        let changes = match changed {
            None => took < expected.saturating_sub(cost.margin(expected)),
            Some(others) => others && took < expected.saturating_add(expected >> MARGIN_SHIFT),
        };
        if changes {
            self.believe(tried);
            self.set_price(took >> CHECK_SHIFT);
            return true;
        }
        self.learnt |= cost.is_known();
        // One that may be better is tried again at once.
        let may_be = !cost.is_known() && took < expected.saturating_sub(expected >> MARGIN_SHIFT);
        let least = expected >> PRICE_SHIFT;
        self.set_price(if may_be {
            0
        } else {
            took.saturating_sub(expected).max(least)
        });
        false
    }

    /// A try of `gone` bytes was given up after `ns`.
    pub(super) fn on_given_up(&mut self, gone: u64, ns: u64) {
        let tried = other(self.way());
        self.cost(tried).mix(gone, ns, 1, false);
        self.learnt = true;
        self.set_price(ns);
    }
}
