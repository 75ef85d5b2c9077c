// SPDX-License-Identifier: GPL-2.0

//! Zero copy that decides for itself: the calls that it measures, and what they have taught
//! (`engine/policy/tuning`).
//!
//! A call of less than 8 KiB costs a comparison. The first longer one of a connection makes
//! the state, so a connection without such calls has none.
//!
//! Contexts and locks: system calls with `lock_sock`, which may sleep, and completions; the
//! state is under the endpoint's lock.

use crate::{
    endpoint::Inner,
    engine::policy::{
        threshold::Threshold,
        tuning::{
            Choice,
            Joint,
            Tuner,
            Way,
            CLASSES, //
        },
    },
    ffi,
    netns::experience::Invitation,
    object::Sock,
    prelude::*, //
};
use kernel::time::{
    Instant,
    Monotonic, //
};

pub(crate) use crate::engine::policy::tuning::LEAST;

/// From this length on memory is lent that the program wants to lend: then it does not wait
/// for the peer, and nothing can be measured.
pub(super) const ASKED_LEAST: u32 = 64 << 10;

const _: () = assert!(LEAST == ffi::SDP_LENT_LEAST && CLASSES == ffi::SDP_LENT_CLASSES as usize);

/// What a connection has learnt.
pub(crate) struct Tuning {
    send: Tuner,
    receive: Tuner,
    /// The device's place in what the namespace's connections know.
    device: usize,
    /// Where the times that the tuners see begin.
    base: Instant<Monotonic>,
    /// Tries and changes that were counted.
    tries: u32,
    changes: u32,
}

impl Tuning {
    fn now(&self) -> u64 {
        u64::try_from(self.base.elapsed().as_nanos()).unwrap_or(0)
    }

    /// As the option SDP_LENT_SIZES.
    fn lent_sizes(&self) -> u32 {
        both(self.send.lends(), self.receive.lends())
    }
}

fn both(send: u16, receive: u16) -> u32 {
    u32::from(send) | u32::from(receive) << ffi::SDP_LENT_RECV
}

/// A message of `len` bytes comes, while the connections of the device may try something
/// together.
fn choose(tuner: &mut Tuner, len: u64, joint: Option<&Invitation>) -> Choice {
    let choice = tuner.choose(len, joint.map_or(Joint::NONE, Invitation::get));
    if let (Some(joint), Some(invitation)) = (joint, choice.invites) {
        joint.set(invitation);
    }
    choice
}

/// A call that is measured.
pub(crate) struct Turn {
    choice: Choice,
    /// Bytes from which its pieces go without a copy; 0: none.
    pub(crate) least: u32,
    begun: u64,
}

impl super::Turns {
    /// What the option SDP_LENT_SIZES shows.
    pub(crate) fn lent_sizes(&self) -> u32 {
        self.tuning.as_ref().map_or(0, |tuning| tuning.lent_sizes())
    }

    /// Whether the end of a message in flight is awaited.
    pub(crate) fn is_timing(&self) -> bool {
        self.tuning
            .as_ref()
            .is_some_and(|tuning| tuning.send.is_waiting())
    }
}

impl Inner {
    /// Whether a call of at least [`LEAST`] bytes can go without a copy at all.
    pub(super) fn may_tune(&self) -> bool {
        let link = self.link.as_ref().is_some_and(|link| link.is_zcopy());
        link && self.engine.as_ref().is_some_and(|e| e.peer().pipelined)
    }

    /// Makes the state, if it is missing.
    fn tuning(&mut self, sock: &Sock) -> Option<&mut Tuning> {
        if self.turns.tuning.is_none() {
            let device = self.link.as_ref()?.qp().device().id().number();
            let hints = sock.net().experience.of(device);
            let tuning = Tuning {
                send: Tuner::new(hints as u16),
                receive: Tuner::new((hints >> ffi::SDP_LENT_RECV) as u16),
                device,
                base: Instant::now(),
                tries: 0,
                changes: 0,
            };
            self.turns.tuning = Some(KBox::new(tuning, GFP_KERNEL).ok()?);
        }
        self.turns.tuning.as_deref_mut()
    }

    /// Bytes of the stream that were queued, and those that have left.
    fn positions(&self) -> (u64, u64) {
        let Some(engine) = self.engine.as_ref() else {
            return (0, 0);
        };
        let queued = engine
            .stats()
            .bytes_sent()
            .wrapping_add(engine.unsent().into());
        (queued, queued.wrapping_sub(self.send.held().into()))
    }

    /// A send() of `len` bytes, the first of them in a segment of `segment`.
    pub(super) fn begin_send(&mut self, sock: &Sock, segment: u64, len: u64) -> Option<Turn> {
        if !self.may_tune() {
            return None;
        }
        let (queued, left) = self.positions();
        let tuning = self.tuning(sock)?;
        let joint = sock.net().experience.send(tuning.device);
        let choice = choose(&mut tuning.send, segment, joint);
        if choice.timed {
            let now = tuning.now();
            tuning.send.on_begun(choice, len, now, queued, left);
        }
        self.turns.lent = false;
        Some(Turn::new(choice, 0))
    }

    fn end_send(&mut self, sock: &Sock, turn: &Turn, len: u64, done: u64) {
        let (_, left) = self.positions();
        let lent = self.turns.lent;
        let Some(tuning) = self.turns.tuning.as_deref_mut() else {
            return;
        };
        tuning.send.on_gone(turn.choice, done);
        match turn.choice.way {
            _ if done < len => tuning.send.on_cut(turn.choice),
            Way::Lend if !lent => tuning.send.on_refused(turn.choice),
            // The call has waited for its memory.
            Way::Lend => {
                let now = tuning.now();
                tuning.send.on_left(left, now);
            }
            Way::Copy => {}
        }
        self.report(sock);
    }

    /// Bytes have left the send queue of the hardware.
    pub(crate) fn time_left(&mut self, sock: &Sock) {
        if self.turns.tuning.is_none() {
            return;
        }
        let (_, left) = self.positions();
        if let Some(tuning) = self.turns.tuning.as_deref_mut() {
            if tuning.send.is_due(left) {
                let now = tuning.now();
                tuning.send.on_left(left, now);
                self.report(sock);
            }
        }
    }

    /// A recv() with room for `room` bytes.
    pub(crate) fn begin_receive_turn(&mut self, sock: &Sock, room: usize) -> Option<Turn> {
        let long = room >= LEAST as usize;
        if !long || self.sink_threshold(sock) != Threshold::Auto || !self.may_tune() {
            return None;
        }
        let tuning = self.tuning(sock)?;
        let joint = sock.net().experience.receive(tuning.device);
        let choice = choose(&mut tuning.receive, room as u64, joint);
        let begun = if choice.timed { tuning.now() } else { 0 };
        Some(Turn::new(choice, begun))
    }

    fn end_receive(&mut self, sock: &Sock, turn: &Turn, done: u64, offered: bool) {
        let Some(tuning) = self.turns.tuning.as_deref_mut() else {
            return;
        };
        tuning.receive.on_gone(turn.choice, done);
        if done == 0 {
            tuning.receive.on_cut(turn.choice);
        } else if turn.choice.way == Way::Lend && !offered {
            tuning.receive.on_needless(turn.choice);
        } else if turn.choice.timed {
            let now = tuning.now();
            // Calls take turns, so none overlaps the next.
            tuning.receive.on_begun(turn.choice, done, turn.begun, 0, 0);
            if tuning.receive.is_due(done) {
                tuning.receive.on_left(done, now);
            }
        }
        self.report(sock);
    }

    /// Counts what the tuners have done, and tells other connections what they have learnt.
    fn report(&mut self, sock: &Sock) {
        let Some(tuning) = self.turns.tuning.as_deref_mut() else {
            return;
        };
        let experience = &sock.net().experience;
        let tuners = [
            (&mut tuning.send, experience.send(tuning.device)),
            (&mut tuning.receive, experience.receive(tuning.device)),
        ];
        for (tuner, joint) in tuners {
            if let (Some(ended), Some(joint)) = (tuner.take_ended(), joint) {
                joint.end(ended);
            }
        }
        let (send, receive) = (&tuning.send, &tuning.receive);
        let tries = send.tries().wrapping_add(receive.tries());
        let changes = send.changes().wrapping_add(receive.changes());
        if (tries, changes) == (tuning.tries, tuning.changes) {
            return;
        }
        sock.count(|t| &t.zcopy_tries, tries.wrapping_sub(tuning.tries));
        sock.count(|t| &t.zcopy_changes, changes.wrapping_sub(tuning.changes));
        (tuning.tries, tuning.changes) = (tries, changes);
        let known = both(send.learnt(), receive.learnt());
        experience.learn(tuning.device, known, tuning.lent_sizes());
    }
}

impl Turn {
    fn new(choice: Choice, begun: u64) -> Self {
        let least = match choice.way {
            Way::Copy => 0,
            Way::Lend => LEAST,
        };
        Self {
            choice,
            least,
            begun,
        }
    }
}

impl Sock {
    /// The call has ended, with `done` of its `len` bytes.
    pub(crate) fn end_send_turn(&self, turn: Option<Turn>, len: usize, done: usize) {
        if let Some(turn) = turn {
            self.look(|inner| inner.end_send(self, &turn, len as u64, done as u64));
        }
    }

    /// The call has ended, with `done` bytes. `offered`: it had offered its memory.
    pub(crate) fn end_receive_turn(&self, turn: Option<Turn>, done: usize, offered: bool) {
        if let Some(turn) = turn {
            self.look(|inner| inner.end_receive(self, &turn, done as u64, offered));
        }
    }
}
