// SPDX-License-Identifier: GPL-2.0

//! Whether a message is copied or its memory lent, learnt from what both ways have cost.
//!
//! Neither way is the cheaper one everywhere: it depends on the machine, the device, the
//! peer and its load. So both are timed ([`meter`]), for each class of sizes. A class has
//! a way that it believes in, and tries the other one from time to time:
//!
//! - Copying is always measured first, so there is something to compare with.
//! - A try is paid from a purse of its class, into which each message puts a 64th of its
//!   cost. So tries take at most a 64th of the time, however bad the other way is.
//! - The other way is believed in if three tries or more took less than 15/16 of the time, two
//!   less than 3/4, or one less than half. So noise does not change the way. A change is checked
//!   by another try soon, because work of others may have made messages slow while they were
//!   measured.
//! - Connections of a device try together ([`joint`]), because what a way costs one of them
//!   depends on the way of the others.
//! - While lending is believed in, a balance compares its times with those of copying. A
//!   reader that has gone away uses it up with one message. If it is used up slowly, because
//!   the load has changed, copying is tried at once.
//!
//! The numbers of a hostile peer or of a wrong clock can only choose between two ways that are
//! both legal at any time.

mod class;
mod joint;
mod meter;
mod tries;

use class::Class;
pub use joint::Joint;
use meter::{Begin, Meter, Sample};
pub use tries::Ended;
use tries::{Try, With};

/// Number of classes of sizes, each up to twice its least size. The last has no end.
pub const CLASSES: usize = 10;

/// The least size of all. Shorter messages are always copied.
pub const LEAST: u32 = 1 << LEAST_SHIFT;
const LEAST_SHIFT: u32 = 13;

/// A stretch of messages that is timed as a whole has about so many bytes, and at most so
/// many messages.
const STRETCH_BYTES: u32 = 1 << 21;
const STRETCH_MAX: u8 = 16;

/// How the bytes of a message travel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// Through buffers.
    Copy,
    /// From, or to, the memory of the program.
    Lend,
}

/// What to do with a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Choice {
    /// How its bytes travel.
    pub way: Way,
    /// Whether to read the clock, and call [`Tuner::on_begun`].
    pub timed: bool,
    /// `None`: too short for a choice.
    class: Option<u8>,
    /// It may begin a stretch.
    opens: bool,
    warm: bool,
    last: bool,
    /// It begins a try to which the other connections of the device are to be invited.
    pub invites: Option<Joint>,
}

/// What one direction of a connection has learnt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tuner {
    classes: [Class; CLASSES],
    attempt: Option<Try>,
    meter: Meter,
    /// The last invitation of others that was seen, and how many messages more are not measured
    /// because of it.
    seen: Joint,
    aside: u8,
    /// A try that others were invited to has ended.
    ended: Option<Ended>,
    tries: u32,
    changes: u32,
}

/// The class of messages of `len` bytes; `None` for those that are always copied.
fn class_of(len: u64) -> Option<u8> {
    let above = len.checked_ilog2()?.checked_sub(LEAST_SHIFT)?;
    let last = u8::try_from(CLASSES.saturating_sub(1)).unwrap_or(u8::MAX);
    Some(u8::try_from(above).unwrap_or(u8::MAX).min(last))
}

/// Messages of a stretch of `class`.
fn stretch(class: u8) -> u8 {
    let shift = LEAST_SHIFT.saturating_add(class.into());
    let messages = STRETCH_BYTES.checked_shr(shift).unwrap_or(0);
    match u8::try_from(messages) {
        Ok(0) => 1,
        Ok(few) if few < STRETCH_MAX => few,
        _ => STRETCH_MAX,
    }
}

/// Least bytes of a whole stretch of `class`.
fn stretch_len(class: u8) -> u64 {
    let least = u64::from(LEAST).checked_shl(class.into()).unwrap_or(0);
    least.saturating_mul(stretch(class).into())
}

impl Tuner {
    /// A connection that knows which classes others of its device lend: one bit each, the
    /// shortest first.
    pub fn new(prior: u16) -> Self {
        let mut classes = [Class::default(); CLASSES];
        let mut bits = prior;
        for class in &mut classes {
            class.lends = bits & 1 != 0;
            bits >>= 1;
        }
        Self {
            classes,
            attempt: None,
            meter: Meter::new(),
            seen: Joint::NONE,
            aside: 0,
            ended: None,
            tries: 0,
            changes: 0,
        }
    }

    fn class(&mut self, at: u8) -> Option<&mut Class> {
        self.classes.get_mut(usize::from(at))
    }

    /// A message of `len` bytes comes: which way it takes. `joint` is what the connections of
    /// the device try at the moment.
    pub fn choose(&mut self, len: u64, joint: Joint) -> Choice {
        let mut choice = Choice {
            way: Way::Copy,
            timed: false,
            class: class_of(len),
            opens: false,
            warm: false,
            last: false,
            invites: None,
        };
        let Some(at) = choice.class else {
            return choice;
        };
        self.see(at);
        self.follow(joint);
        self.await_next(at);
        if self.attempt.is_none() {
            choice.invites = self.consider(at, joint);
        }
        let aside = self.stands_aside(at, joint);
        if aside {
            self.meter.forget(at);
        }
        let (goes_on, pauses) = (self.meter.goes_on(at), self.meter.pauses());
        let attempt = self.attempt.as_mut();
        let Some(class) = self.classes.get_mut(usize::from(at)) else {
            return choice;
        };
        choice.way = class.way();
        if let Some(attempt) = attempt.filter(|t| t.class == at && t.left > 0) {
            attempt.left = attempt.left.saturating_sub(1);
            attempt.gone = attempt.gone.saturating_add(len);
            choice.way = other(choice.way);
            choice.opens = true;
            choice.warm = attempt.warm > 0;
            attempt.warm = attempt.warm.saturating_sub(1);
            choice.last = attempt.left == 0;
        } else {
            choice.opens = !aside && (goes_on || class.is_timed(stretch(at)));
        }
        choice.timed = choice.opens || pauses;
        choice
    }

    /// The first message of a class goes the way of its neighbours, where they have learnt one.
    fn see(&mut self, at: u8) {
        let at = usize::from(at);
        let Some((below, [class, above @ ..])) = self.classes.split_at_mut_checked(at) else {
            return;
        };
        if core::mem::replace(&mut class.seen, true) {
            return;
        }
        // What is worth its price for fewer bytes is so for more, and the other way round.
        if below.iter().any(|c| c.learnt && c.lends) {
            class.lends = true;
        } else if above.iter().any(|c| c.learnt && !c.lends) {
            class.lends = false;
        }
    }

    /// A message whose time is wanted begins at `now`, in ns: `len` bytes behind `queued`
    /// others, of which `left` have left.
    pub fn on_begun(&mut self, choice: Choice, len: u64, now: u64, queued: u64, left: u64) {
        let Some(class) = choice.class else {
            return;
        };
        let trying = self.attempt.is_some_and(|t| t.class == class);
        let ended = self.meter.begin(&Begin {
            class,
            way: choice.way,
            most: stretch(class),
            opens: choice.opens,
            urgent: trying,
            warm: choice.warm,
            last: choice.last,
            len,
            now,
            queued,
            left,
        });
        for sample in ended.into_iter().flatten() {
            self.on_sample(sample);
        }
    }

    /// Whether `on_left` is to be called now that `left` bytes have left.
    pub fn is_due(&self, left: u64) -> bool {
        self.meter.is_due(left)
    }

    /// Whether the end of a message in flight is awaited.
    pub fn is_waiting(&self) -> bool {
        self.meter.is_waiting()
    }

    /// `left` bytes have left by `now`.
    pub fn on_left(&mut self, left: u64, now: u64) {
        for sample in self.meter.on_left(left, now).into_iter().flatten() {
            self.on_sample(sample);
        }
        if !self.review() {
            self.check_lent();
        }
    }

    /// A message of `choice` has ended before all of its bytes were there, so that its time
    /// says nothing.
    pub fn on_cut(&mut self, choice: Choice) {
        if let Some(at) = choice.class {
            self.meter.forget(at);
            self.drop_try(at);
        }
    }

    /// The bytes of a message have gone, so there is more to pay tries with.
    pub fn on_gone(&mut self, choice: Choice, len: u64) {
        if let Some(class) = choice.class.and_then(|at| self.class(at)) {
            class.on_gone(len);
        }
    }

    /// A message could not be lent, and was copied. So its time says nothing, and
    /// lending is not tried again soon.
    pub fn on_refused(&mut self, choice: Choice) {
        let Some(at) = choice.class else {
            return;
        };
        self.meter.forget(at);
        self.drop_try(at);
        if let Some(class) = self.class(at) {
            class.on_refused(stretch(at));
        }
    }

    /// A message was to be lent, and no memory was offered for it, mostly because its bytes were
    /// there already. So its time says nothing of lending. A try of lending has another message
    /// instead; if there are too many of them, it is of no use to this reader.
    pub fn on_needless(&mut self, choice: Choice) {
        let Some(at) = choice.class else {
            return;
        };
        if let Some(sample) = self.meter.take_ended(at) {
            self.on_sample(sample);
        }
        let tries = |class: &Class| class.way() == Way::Copy;
        if !self.classes.get(usize::from(at)).is_some_and(tries) {
            return;
        }
        match self.attempt.as_mut().filter(|t| t.class == at) {
            Some(attempt) if attempt.needless < stretch(at) => attempt.repeat(),
            Some(_) => self.on_refused(choice),
            None => {}
        }
    }

    /// A stretch has been timed.
    fn on_sample(&mut self, sample: Sample) {
        let attempt = self.attempt.filter(|t| t.class == sample.class);
        let Some(class) = self.class(sample.class) else {
            return;
        };
        match attempt {
            Some(attempt) if sample.way != class.way() => self.on_tried(attempt, sample),
            // Of a try that was given up.
            _ if sample.way != class.way() => {}
            _ => {
                class.on_own(&sample);
                if sample.way == Way::Lend {
                    let verdict = class.weigh(&sample);
                    self.on_verdict(sample.class, verdict);
                }
            }
        }
    }

    /// Ends a stretch of lent messages that has taken far too long, for one that nobody reads
    /// is enough.
    fn check_lent(&mut self) {
        let Some(sample) = self.meter.lent() else {
            return;
        };
        let trying = self.attempt.is_some_and(|t| t.class == sample.class);
        if !trying
            && self
                .class(sample.class)
                .is_some_and(|class| class.loses(&sample))
        {
            self.meter.forget(sample.class);
            self.on_sample(sample);
        }
    }

    fn on_verdict(&mut self, at: u8, verdict: class::Verdict) {
        match verdict {
            class::Verdict::Good => {}
            class::Verdict::Bad if self.attempt.is_none() => self.begin_try(at, With::Nobody),
            class::Verdict::Bad => {}
            class::Verdict::GivenUp => self.changes = self.changes.wrapping_add(1),
        }
    }

    /// The classes that lend, one bit each, the shortest first.
    pub fn lends(&self) -> u16 {
        self.bits(|class| class.lends)
    }

    /// The classes whose way is known from tries, as above.
    pub fn learnt(&self) -> u16 {
        self.bits(|class| class.learnt)
    }

    fn bits(&self, is_set: impl Fn(&Class) -> bool) -> u16 {
        let set = self.classes.iter().rev().map(is_set);
        set.fold(0, |bits, one| (bits << 1) | u16::from(one))
    }

    /// Number of tries.
    pub const fn tries(&self) -> u32 {
        self.tries
    }

    /// How often the way of a class has changed.
    pub const fn changes(&self) -> u32 {
        self.changes
    }
}

fn other(way: Way) -> Way {
    match way {
        Way::Copy => Way::Lend,
        Way::Lend => Way::Copy,
    }
}

#[cfg(test)]
mod tests;
