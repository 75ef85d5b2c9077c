// SPDX-License-Identifier: GPL-2.0

//! In which pieces a long write is copied and handed over, where nothing is in flight.
//!
//! A write that is handed over as whole messages leaves its link idle while the first message
//! is copied, and the reader idle until the first one has come. The superpipeline of \[SP11\]
//! begins with a short chunk, and copies the next one while that travels:
//!
//! - A chunk may be longer than the one before by the ratio of the rates of copy and link,
//!   less what could be copied in the time that a handover takes (equation 4 of \[SP11\],
//!   where the overhead of a message is not negligible). It never is longer than a message.
//! - The reader copies as well, and its last copy delays the end. So the last chunks become
//!   shorter by the same rule, read backwards.
//! - The first chunk is so long that the next one does not fall behind: where a chunk and the
//!   one that follows it would have the same length, and half of that more, but not so long
//!   that equal chunks would be better. In \[SP11\] it is copy rate by twice the latency,
//!   because a handshake hides its copy. Here nothing does, so that is a limit.
//! - Where copies are slower than the link, nothing is won by growth: chunks have one
//!   length, with which the handovers take as long as the last chunk ("sub-blocks").
//!
//! A write to a connection that is busy needs none of this, because its copies overlap anyway.

use super::pace::Pace;

/// The shortest first chunk. A write that is not longer goes as one message.
pub const LEAST: u32 = 4096;

/// The longest first chunk. If it had to be longer, messages are so cheap or handovers so
/// dear that chunks do not pay.
const FIRST_MAX: u32 = 16384;

/// Without a measurement: about as good as what fits, on \[SP11\]'s machines and on ours.
const FIRST_UNKNOWN: u32 = 8192;
const GROWTH_UNKNOWN: u32 = ONE + (ONE >> 1);

/// Lengths of chunks are multiples of it, except the last one.
const UNIT: u32 = 512;

/// A rest of less than this goes with the chunk before it.
const REST: u32 = 1024;

/// A factor of one.
const ONE: u32 = 1 << ONE_SHIFT;
const ONE_SHIFT: u32 = 8;

/// More would be a wrong measurement.
const GROWTH_MAX: u32 = 4 * ONE;

/// Below this ratio the copy counts as the slower one, because it delays each chunk.
const GROWTH_LEAST: u32 = ONE + (ONE >> 3);

/// How writes are cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// As measured on the connection.
    Fitted,
    /// From 8 KiB on, each chunk twice as long as the one before.
    Doubling,
    /// Chunks of that many bytes.
    Fixed(u32),
    /// Not at all.
    Whole,
}

impl Mode {
    /// Of the knob: -1, -2, the bytes, or 0.
    pub fn of(knob: i32) -> Self {
        match (knob, u32::try_from(knob)) {
            (-2, _) => Mode::Doubling,
            (_, Err(_)) => Mode::Fitted,
            (_, Ok(0)) => Mode::Whole,
            (_, Ok(bytes)) => Mode::Fixed(bytes),
        }
    }
}

/// How the chunks of a write follow each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Curve {
    Even(u32),
    Ladder(Ladder),
}

/// Chunks that grow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Ladder {
    first: u32,
    /// In units of 1 / [`ONE`].
    growth: u32,
    /// Bytes by which the next chunk is shorter: copied in the time of a handover.
    gap: u32,
    /// The last chunks become shorter.
    tapers: bool,
}

/// The chunks of a write that has begun where nothing was in flight.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Chunks {
    curve: Curve,
    /// The longest that the next one may be.
    next: u32,
    /// Bytes of a whole message.
    most: u32,
}

impl Chunks {
    /// A write of `len` bytes begins, where a message carries `most`. None: it goes in whole
    /// messages.
    pub fn begin(mode: Mode, pace: &Pace, len: u32, most: u32) -> Option<Self> {
        let curve = match mode {
            Mode::Fitted => fitted(pace, len)?,
            Mode::Doubling => Curve::Ladder(Ladder {
                first: FIRST_UNKNOWN,
                growth: 2 * ONE,
                gap: 0,
                tapers: false,
            }),
            Mode::Fixed(bytes) => Curve::Even(bytes.max(UNIT)),
            Mode::Whole => return None,
        };
        let next = match curve {
            Curve::Even(bytes) => bytes,
            Curve::Ladder(ladder) => ladder.first,
        };
        (next < len && next < most).then_some(Self { curve, next, most })
    }

    /// The length of the next chunk, of the `left` bytes that are not yet copied.
    pub fn next(&mut self, left: u32) -> u32 {
        let n = match self.curve {
            Curve::Even(bytes) => bytes,
            Curve::Ladder(ladder) => ladder.step(self.next, left, self.most),
        };
        if let Curve::Ladder(ladder) = self.curve {
            self.next = ladder.above(n.max(ladder.first)).min(self.most);
        }
        let n = (n & !(UNIT - 1)).max(UNIT).min(self.most).min(left);
        if left.saturating_sub(n) < REST && left <= self.most {
            return left;
        }
        n
    }
}

impl Ladder {
    /// The chunk that may follow one of `chunk` bytes.
    fn above(&self, chunk: u32) -> u32 {
        let grown = u64::from(chunk).saturating_mul(self.growth.into()) >> ONE_SHIFT;
        let grown = u32::try_from(grown).unwrap_or(u32::MAX);
        // Less would make a message of each few bytes more.
        let least = chunk.saturating_add(chunk >> 3).max(UNIT);
        grown.saturating_sub(self.gap).max(least)
    }

    /// The next chunk of at most `next` bytes, so that those behind it can become shorter and
    /// shorter down to the first: that one and these are `left` bytes.
    fn step(&self, next: u32, left: u32, most: u32) -> u32 {
        if !self.tapers {
            return next;
        }
        let (mut chunk, mut sum) = (self.first, self.first);
        while chunk < next.min(most) {
            let above = self.above(chunk);
            if sum.saturating_add(above) > left {
                // Between the two steps.
                let part = u64::from(left.saturating_sub(sum));
                let step = u64::from(above.saturating_sub(chunk)).saturating_mul(part);
                let step = step.checked_div(above.into()).unwrap_or(0);
                chunk = chunk.saturating_add(u32::try_from(step).unwrap_or(0));
                break;
            }
            chunk = above;
            sum = sum.saturating_add(above);
        }
        chunk.min(next)
    }
}

/// The curve of a write of `len` bytes. None: chunks do not pay.
fn fitted(pace: &Pace, len: u32) -> Option<Curve> {
    let Some(costs) = pace.costs() else {
        return Some(Curve::Ladder(Ladder {
            first: FIRST_UNKNOWN,
            growth: GROWTH_UNKNOWN,
            gap: 0,
            tapers: true,
        }));
    };
    let growth = ratio(costs.link, costs.copy, ONE).min(GROWTH_MAX);
    if growth < GROWTH_LEAST {
        return Some(Curve::Even(sub_block(
            len,
            costs.post,
            costs.copy.saturating_add(costs.link),
        )));
    }
    let gap = ratio(costs.post, costs.copy, KIB);
    let steady = ratio(gap, growth.saturating_sub(ONE), ONE);
    if steady > FIRST_MAX {
        return None;
    }
    // The bytes copied in a round trip.
    let covered = match costs.round_trip {
        0 => FIRST_MAX,
        known => ratio(known, costs.copy, KIB).min(FIRST_MAX),
    };
    // In a short write the curve cannot develop.
    let even = sub_block(len, costs.post, costs.copy.saturating_mul(2));
    let first = steady.saturating_add(steady >> 1).min(even);
    let first = first.min(covered).max(LEAST);
    Some(Curve::Ladder(Ladder {
        first,
        growth,
        gap,
        tapers: true,
    }))
}

const KIB: u32 = 1024;

/// `times * one / other`.
fn ratio(one: u32, other: u32, times: u32) -> u32 {
    let product = u64::from(one).saturating_mul(times.into());
    let whole = product.checked_div(other.into()).unwrap_or(u64::MAX);
    u32::try_from(whole).unwrap_or(u32::MAX)
}

/// The best length of chunks that are all the same (equation 3 of \[SP11\]), where each costs
/// `post` ns, and the part that does not overlap is one chunk, where a KiB takes `last` ns.
fn sub_block(len: u32, post: u32, last: u32) -> u32 {
    let square = u64::from(len)
        .saturating_mul(KIB.into())
        .saturating_mul(post.into())
        .checked_div(last.into())
        .unwrap_or(u64::MAX);
    u32::try_from(square.isqrt()).unwrap_or(u32::MAX).max(LEAST)
}

#[cfg(test)]
mod tests;
