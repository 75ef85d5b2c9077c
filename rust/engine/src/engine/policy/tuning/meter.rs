// SPDX-License-Identifier: GPL-2.0

//! The time that messages take.
//!
//! A stream overlaps: the next message is copied while this one travels. So the time of a
//! message is not the time from its begin to its end, of which the sum over all messages
//! would be longer than the time that passed. It is the time by which the message moved
//! the end of the work: from the end of the message before, or from its own begin if that
//! came later, to its own end (Lindley's recursion). The sum of these is the time that
//! passed, whichever way the messages went, without the pauses of the program.
//!
//! A pause counts up to a limit. What a way spares is worth nothing to a program that
//! computes while its bytes are copied in the background. A program that waits for a
//! request meanwhile has no use for the time, so long pauses do not hide what the way
//! costs.
//!
//! A stretch of messages of one class that go one way is timed as a whole.

use super::Way;

/// A pause counts as at most so many times the time of a message.
const PAUSE_TIMES: u64 = 4;

/// A stretch that was timed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Sample {
    pub(super) class: u8,
    pub(super) way: Way,
    pub(super) messages: u8,
    pub(super) len: u64,
    pub(super) ns: u64,
    /// It began in the first half of a try.
    pub(super) warm: bool,
    /// It has the last message of a try.
    pub(super) last: bool,
}

/// What is known of a message that begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Begin {
    pub(super) class: u8,
    pub(super) way: Way,
    /// Most messages of its stretch.
    pub(super) most: u8,
    /// It may begin a stretch.
    pub(super) opens: bool,
    /// It does, even if that costs the stretch in flight.
    pub(super) urgent: bool,
    pub(super) warm: bool,
    pub(super) last: bool,
    pub(super) len: u64,
    /// The time, in ns.
    pub(super) now: u64,
    /// The bytes before it, and how many of them have left.
    pub(super) queued: u64,
    pub(super) left: u64,
}

/// How far the messages of a stretch are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// Bytes up to this one are those of earlier messages.
    Behind(u64),
    /// Its own bytes have been leaving since then.
    Since(u64),
    /// All have left at that time.
    Idle(u64),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Stretch {
    sample: Sample,
    most: u8,
    /// The byte behind it.
    end: u64,
    state: State,
    /// The begin of its first message: it cannot have taken longer than since then.
    begun: u64,
    /// Another message has begun that is not part of it.
    followed: bool,
}

/// Whether `position` has been reached; positions wrap.
fn has_left(left: u64, position: u64) -> bool {
    left.wrapping_sub(position) <= u64::MAX >> 1
}

impl Stretch {
    fn new(of: &Begin) -> Self {
        let state = if has_left(of.left, of.queued) {
            State::Since(of.now)
        } else {
            State::Behind(of.queued)
        };
        Self {
            sample: Sample {
                class: of.class,
                way: of.way,
                messages: 1,
                len: of.len,
                ns: 0,
                warm: of.warm,
                last: of.last,
            },
            most: of.most,
            end: of.queued.wrapping_add(of.len),
            state,
            begun: of.now,
            followed: false,
        }
    }

    /// Another message follows at `now`, after a pause if all have left.
    fn resume(&mut self, now: u64) {
        if let State::Idle(since) = self.state {
            let messages = u64::from(self.sample.messages);
            let one = self.sample.ns.checked_div(messages).unwrap_or(0);
            let pause = now.saturating_sub(since);
            let counted = pause.min(one.saturating_mul(PAUSE_TIMES));
            self.sample.ns = self.sample.ns.saturating_add(counted);
            self.state = State::Since(now);
        }
    }

    fn takes(&self, of: &Begin) -> bool {
        let sample = &self.sample;
        (sample.class, sample.way, sample.warm) == (of.class, of.way, of.warm)
            && sample.messages < self.most
            && !self.followed
    }

    fn append(&mut self, of: &Begin) {
        self.sample.messages = self.sample.messages.saturating_add(1);
        self.sample.len = self.sample.len.saturating_add(of.len);
        self.sample.last |= of.last;
        self.end = of.queued.wrapping_add(of.len);
    }

    /// `left` bytes have left by `now`.
    fn on_left(&mut self, left: u64, now: u64) {
        if let State::Behind(position) = self.state {
            if has_left(left, position) {
                self.state = State::Since(now.max(self.begun));
            }
        }
        if let State::Since(since) = self.state {
            if has_left(left, self.end) {
                let passed = now.saturating_sub(since);
                self.sample.ns = self.sample.ns.saturating_add(passed);
                self.state = State::Idle(now);
            }
        }
    }

    /// The next position that is of interest.
    fn awaited(&self) -> Option<u64> {
        match self.state {
            State::Behind(position) => Some(position),
            State::Since(_) => Some(self.end),
            State::Idle(_) => None,
        }
    }
}

/// Times stretches, one of each way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Meter {
    copied: Option<Stretch>,
    lent: Option<Stretch>,
}

/// The stretches that an event has ended.
pub(super) type Ended = [Option<Sample>; 2];

impl Meter {
    pub(super) const fn new() -> Self {
        Self {
            copied: None,
            lent: None,
        }
    }

    fn all(&self) -> impl Iterator<Item = Stretch> {
        [self.copied, self.lent].into_iter().flatten()
    }

    /// Whether a message of `class` would be one of a stretch.
    pub(super) fn goes_on(&self, class: u8) -> bool {
        self.all().any(|stretch| {
            stretch.sample.class == class
                && stretch.sample.messages < stretch.most
                && !stretch.followed
        })
    }

    /// Whether the next message ends a pause.
    pub(super) fn pauses(&self) -> bool {
        self.all()
            .any(|stretch| matches!(stretch.state, State::Idle(_)))
    }

    /// A message begins.
    pub(super) fn begin(&mut self, of: &Begin) -> Ended {
        let (same, other) = match of.way {
            Way::Copy => (&mut self.copied, &mut self.lent),
            Way::Lend => (&mut self.lent, &mut self.copied),
        };
        [take(other, of, false), take(same, of, true)]
    }

    /// Whether `left` bytes are news.
    pub(super) fn is_due(&self, left: u64) -> bool {
        self.all()
            .filter_map(|stretch| stretch.awaited())
            .any(|position| has_left(left, position))
    }

    /// `left` bytes have left by `now`.
    pub(super) fn on_left(&mut self, left: u64, now: u64) -> Ended {
        let end = |place: &mut Option<Stretch>| {
            let stretch = place.as_mut()?;
            stretch.on_left(left, now);
            let over = stretch.followed && matches!(stretch.state, State::Idle(_));
            over.then(|| place.take())?.map(|stretch| stretch.sample)
        };
        [end(&mut self.copied), end(&mut self.lent)]
    }

    /// Whether a stretch has bytes in flight.
    pub(super) fn is_waiting(&self) -> bool {
        self.all().any(|stretch| stretch.awaited().is_some())
    }

    /// Nanoseconds of the lent messages of `class` that have left.
    pub(super) fn spent(&self, class: u8) -> u64 {
        let of_class = self.lent.filter(|s| s.sample.class == class);
        of_class.map_or(0, |stretch| stretch.sample.ns)
    }

    /// The lent messages of the stretch under way.
    pub(super) fn lent(&self) -> Option<Sample> {
        self.lent.map(|stretch| stretch.sample)
    }

    /// Ends the stretch of `class` of which all messages have left.
    pub(super) fn take_ended(&mut self, class: u8) -> Option<Sample> {
        let over = |stretch: &mut Stretch| {
            stretch.sample.class == class && matches!(stretch.state, State::Idle(_))
        };
        let lent = self.lent.take_if(over);
        lent.or_else(|| self.copied.take_if(over)).map(|s| s.sample)
    }

    /// The stretches of `class` mean nothing.
    pub(super) fn forget(&mut self, class: u8) {
        for place in [&mut self.copied, &mut self.lent] {
            place.take_if(|stretch| stretch.sample.class == class);
        }
    }
}

/// A message begins. The stretch in `place` takes it, if it is one of its way (`same`), and
/// can; otherwise it ends the stretch, and begins another one if there is room.
fn take(place: &mut Option<Stretch>, of: &Begin, same: bool) -> Option<Sample> {
    let Some(stretch) = place.as_mut() else {
        *place = (same && of.opens).then(|| Stretch::new(of));
        return None;
    };
    let idle = matches!(stretch.state, State::Idle(_));
    if idle {
        stretch.resume(of.now);
    }
    if same && stretch.takes(of) {
        stretch.append(of);
        return None;
    }
    stretch.followed = true;
    let ended = idle.then_some(stretch.sample);
    if idle || same && of.urgent {
        *place = (same && of.opens).then(|| Stretch::new(of));
    }
    ended
}
