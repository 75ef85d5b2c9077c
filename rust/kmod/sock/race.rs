// SPDX-License-Identifier: GPL-2.0

//! A connect() to a peer that does not answer over SDP at once: TCP's attempt beside SDP's.
//!
//! The connection is TCP's if that attempt succeeds, and SDP's otherwise; [`Race`] says why. Before
//! that nothing but the two requests is sent. A blocking connect() waits meanwhile for SDP's
//! attempt, and goes on with TCP's where that has won ([`MOVED`](super::companion::MOVED)).
//!
//! Contexts: process context, may sleep, no lock held.

use crate::{
    alarm::Alarm,
    endpoint::{
        Inner,
        Phase, //
    },
    engine::{
        policy::{
            answers::{
                Advice,
                Pair, //
            },
            race::{
                self,
                Look,
                Step, //
            }, //
        },
        types::Ip, //
    },
    ffi,
    object::Sock,
    prelude::*,
    race::Race,
    sock::companion::Tcp, //
};

impl Sock {
    /// The alarm behind [`Alarm::Race`].
    pub(crate) fn alarm_race(&self) {
        let Some(_call) = self.lock_or_defer(Alarm::Race) else {
            return;
        };
        let Some(tcp) = self.other_half() else {
            return;
        };
        let connecting = self.is_attempting();
        let attempt = match tcp.state() as c_uint {
            ffi::TCP_SYN_SENT | ffi::TCP_SYN_RECV => race::Tcp::Asking,
            ffi::TCP_CLOSE => race::Tcp::Failed,
            _ => race::Tcp::Made,
        };
        let (look, own, peer) = self.look(|inner| {
            let race = inner.race.as_ref();
            let look = Look {
                connecting: connecting && inner.phase == Phase::Connecting,
                // The alarm may be one of an earlier attempt.
                asked: inner.has_way_out && inner.link.is_some(),
                failed: inner.failure.is_some(),
                late: race.is_some_and(|race| race.is_tcp_late()),
                tcp: race.map(|_| attempt),
            };
            (look, inner.local.ip, inner.peer)
        });
        let pair = self.pair(own, peer.ip);
        // This host answers.
        let here = || peer.is_local(self.net().namespace(), self.device());
        match look.step() {
            Step::Begin if self.net().advice(&pair) == Advice::Race && !here() => {
                self.begin_race(tcp);
            }
            Step::Begin | Step::Nothing => {}
            Step::Again => self.watch_race(),
            Step::TakeTcp => self.decide_for_tcp(tcp, pair),
            Step::LeaveTcp => self.end_race(tcp),
        }
    }

    fn begin_race(&self, tcp: Tcp<'_>) {
        // Without memory SDP's attempt goes on alone.
        let Ok(race) = Race::new() else { return };
        // Before TCP's first packet: an answer over SDP that comes beside it is held.
        let begun = self.look(|inner| {
            let begun = inner.phase == Phase::Connecting && inner.failure.is_none();
            inner.race = begun.then_some(race);
            begun
        });
        if begun && tcp.race() {
            self.watch_race();
        } else {
            self.go_on_with_sdp();
        }
    }

    fn watch_race(&self) {
        let pause = self.look(|inner| inner.race.as_mut().map(|race| race.pause()));
        if let Some(pause) = pause {
            self.set_alarm(Alarm::Race, pause);
        }
    }

    /// TCP's attempt has succeeded, and SDP's goes on as far as is known.
    fn decide_for_tcp(&self, tcp: Tcp<'_>, pair: Pair<Ip>) {
        let race = self.look(|inner| {
            let still = inner.phase == Phase::Connecting && inner.failure.is_none();
            if still {
                // An answer that comes now is too late.
                inner.next_generation();
                // Free before a program that sees the decision can bind it.
                inner.port = None;
            }
            inner.race.take_if(|_| still)
        });
        let Some(race) = race else {
            // SDP's attempt has failed meanwhile, or the call has ended.
            return self.watch_race();
        };
        self.net().note_answer(pair, race.has_reply());
        self.net().stats.silent_peers.inc();
        self.take_tcp(tcp, ETIMEDOUT);
    }

    /// Gives TCP's attempt up, and goes on with SDP's, where the peer may have answered meanwhile.
    fn end_race(&self, tcp: Tcp<'_>) {
        tcp.leave_race();
        self.go_on_with_sdp();
    }

    fn go_on_with_sdp(&self) {
        let race = self.look(|inner| inner.race.take());
        if let Some(reply) = race.and_then(Race::into_reply) {
            self.drive(|inner| inner.on_reply(self, &reply.data, reply.reads));
            // Behind the wake-up of the connecting program, which the first call delivers.
            self.drive(Inner::confirm);
        }
    }
}
