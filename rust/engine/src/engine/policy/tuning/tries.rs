// SPDX-License-Identifier: GPL-2.0

//! Tries of the way that a class does not believe in: when they begin and end, alone or with other
//! connections of the device.

use super::{joint::Joint, meter::Sample, other, stretch, stretch_len, Tuner};

/// A try has a stretch that is not compared, because the messages before it went the other
/// way, and two that are.
const STRETCHES: u8 = 3;

/// A try with others ends with theirs, or after so many times the messages of one's own.
const FOLLOWED_MOST: u8 = 4;

/// A try ends when so many messages of other classes have come behind its last one.
const OTHERS_MOST: u8 = u8::MAX;

/// So many messages are not measured because others try the other way.
const ASIDE_MOST: u8 = 64;

/// A try that has taken so many times as long as expected is given up.
const PATIENCE: u64 = 4;

/// A try of the way that a class does not believe in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Try {
    pub(super) class: u8,
    /// Messages that still go that way.
    pub(super) left: u8,
    /// Bytes of those that went.
    pub(super) gone: u64,
    /// Nanoseconds of those that were timed.
    spent: u64,
    /// Messages that are not compared yet.
    pub(super) warm: u8,
    /// Messages of other classes since the last one of this try.
    others: u8,
    /// Messages that were not lent, because there was no need.
    pub(super) needless: u8,
    with: With,
}

impl Try {
    /// Another message takes the place of one that was not lent.
    pub(super) fn repeat(&mut self) {
        self.needless = self.needless.saturating_add(1);
        self.left = self.left.saturating_add(1);
    }
}

/// The other connections of the device in a try.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum With {
    Nobody,
    /// They were invited.
    Leading(Joint),
    /// One of them has invited.
    Following(Joint),
}

/// A try that others were invited to has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ended {
    /// The invitation.
    pub invitation: Joint,
    /// What takes its place, if it still stands.
    pub result: Joint,
}

impl Tuner {
    /// Begins a try if an invitation or the purse of the class is a reason; returns the
    /// invitation to one of its own.
    pub(super) fn consider(&mut self, at: u8, joint: Joint) -> Option<Joint> {
        let is_new = self.notice(joint);
        let class = self.classes.get_mut(usize::from(at))?;
        let tried = other(class.way());
        if is_new && joint.is_for(at, tried) && class.joins() {
            self.begin_try(at, With::Following(joint));
            return None;
        }
        if !class.pays() {
            return None;
        }
        let own = joint.next(at, tried);
        self.begin_try(at, With::Leading(own));
        self.seen = own;
        Some(own)
    }

    /// Sees what others try; returns whether it is new.
    fn notice(&mut self, joint: Joint) -> bool {
        let is_new = core::mem::replace(&mut self.seen, joint) != joint;
        if is_new {
            self.aside = ASIDE_MOST;
        }
        is_new
    }

    /// Whether others try the other way for class `at`, without this one: what its messages take
    /// meanwhile says nothing about their way.
    pub(super) fn stands_aside(&mut self, at: u8, joint: Joint) -> bool {
        let tries = self.attempt.is_some_and(|attempt| attempt.class == at);
        let class = self.classes.get(usize::from(at));
        let concerns = class.is_some_and(|class| joint.is_for(at, other(class.way())));
        if tries || !concerns || self.aside == 0 {
            return false;
        }
        self.aside = self.aside.saturating_sub(1);
        true
    }

    /// Ends a try with others when theirs has ended.
    pub(super) fn follow(&mut self, joint: Joint) {
        let Some(attempt) = self.attempt else {
            return;
        };
        let of = match attempt.with {
            With::Following(of) if of != joint => of,
            _ => return,
        };
        let sample = self.meter.take_ended(attempt.class);
        if let Some(class) = self.class(attempt.class) {
            if let Some(sample) = sample.filter(|s| !s.warm && s.way != class.way()) {
                class.on_tried(&sample);
            }
            if class.conclude(attempt.gone, Some(joint.says_change_of(of))) {
                self.changes = self.changes.wrapping_add(1);
            }
        }
        self.attempt = None;
    }

    /// A message of class `at` comes: ends the try of another class that is not continued.
    pub(super) fn await_next(&mut self, at: u8) {
        let Some(attempt) = self.attempt.as_mut() else {
            return;
        };
        if attempt.class == at {
            attempt.others = 0;
        } else if attempt.others < OTHERS_MOST {
            attempt.others = attempt.others.saturating_add(1);
        } else {
            let class = attempt.class;
            self.meter.forget(class);
            self.end_try(false);
        }
    }

    /// What the shell has to tell the other connections.
    pub fn take_ended(&mut self) -> Option<Ended> {
        self.ended.take()
    }

    pub(super) fn begin_try(&mut self, at: u8, with: With) {
        if let Some(class) = self.class(at) {
            class.purse = 0;
        }
        self.tries = self.tries.wrapping_add(1);
        let most = stretch(at).saturating_mul(STRETCHES);
        self.attempt = Some(Try {
            class: at,
            left: match with {
                With::Following(_) => most.saturating_mul(FOLLOWED_MOST),
                With::Nobody | With::Leading(_) => most,
            },
            gone: 0,
            spent: 0,
            warm: stretch(at),
            others: 0,
            needless: 0,
            with,
        });
    }

    /// The try has ended; the class has changed its way, or not.
    fn end_try(&mut self, changed: bool) {
        let with = self.attempt.take().map(|attempt| attempt.with);
        if let Some(With::Leading(invitation)) = with {
            self.ended = Some(Ended {
                invitation,
                result: invitation.over(changed),
            });
        }
    }

    /// Ends the try of class `at`, which says nothing.
    pub(super) fn drop_try(&mut self, at: u8) {
        if self.attempt.is_some_and(|attempt| attempt.class == at) {
            self.end_try(false);
        }
    }

    /// A stretch of a try has been timed.
    pub(super) fn on_tried(&mut self, mut attempt: Try, sample: Sample) {
        attempt.spent = attempt.spent.saturating_add(sample.ns);
        self.attempt = Some(attempt);
        if self.review() {
            return;
        }
        let Some(class) = self.class(sample.class) else {
            return;
        };
        if !sample.warm {
            class.on_tried(&sample);
        }
        if sample.last {
            let changed = class.conclude(attempt.gone, None);
            self.changes = self.changes.wrapping_add(u32::from(changed));
            self.end_try(changed);
        }
    }

    /// Gives up a try that takes too long; returns whether it does.
    pub(super) fn review(&mut self) -> bool {
        let Some(attempt) = self.attempt else {
            return false;
        };
        let spent = attempt
            .spent
            .saturating_add(self.meter.spent(attempt.class));
        let Some(class) = self.class(attempt.class) else {
            return false;
        };
        let way = class.way();
        let expected = class
            .cost(way)
            .of(attempt.gone.max(stretch_len(attempt.class)));
        if spent <= expected.saturating_mul(PATIENCE) {
            return false;
        }
        class.on_given_up(attempt.gone, spent);
        self.end_try(false);
        self.meter.forget(attempt.class);
        true
    }
}
