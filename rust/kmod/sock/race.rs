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

/// Whether SDP's attempt goes on as far as is known.
fn is_undecided(inner: &Inner) -> bool {
    inner.phase == Phase::Connecting && !inner.fallback.has_failed()
}

impl Sock {
    /// The alarm behind [`Alarm::Race`].
    pub(crate) fn alarm_race(&self) {
        let Some(_call) = self.lock_or_defer(Alarm::Race) else {
            return;
        };
        let Some(tcp) = self.other_half() else {
            // The socket uses one half alone.
            return self.go_on_with_sdp();
        };
        let connecting = self.is_attempting();
        let attempt = match tcp.state() as c_uint {
            ffi::TCP_SYN_SENT | ffi::TCP_SYN_RECV => race::Tcp::Asking,
            ffi::TCP_CLOSE if tcp.is_reset() => race::Tcp::Made,
            ffi::TCP_CLOSE => race::Tcp::Failed,
            _ => race::Tcp::Made,
        };
        let (look, own, peer) = self.look(|inner| {
            let race = inner.fallback.race();
            let look = Look {
                connecting: connecting && inner.phase == Phase::Connecting,
                // The alarm may be one of an earlier attempt.
                asked: inner.fallback.is_open() && inner.link.is_some(),
                failed: inner.fallback.has_failed(),
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
            Step::LeaveTcp if tcp.leave_race(!look.connecting) => self.go_on_with_sdp(),
            // It has just succeeded.
            Step::LeaveTcp => self.decide_for_tcp(tcp, pair),
        }
    }

    fn begin_race(&self, tcp: Tcp<'_>) {
        // Without memory SDP's attempt goes on alone.
        let Ok(race) = Race::new() else { return };
        // Before TCP's first packet: an answer over SDP that comes beside it is held.
        let begun = self.look(|inner| {
            let begun = is_undecided(inner);
            if begun {
                inner.fallback.start_race(race);
            }
            begun
        });
        if begun && tcp.race() {
            self.watch_race();
        } else {
            self.go_on_with_sdp();
        }
    }

    fn watch_race(&self) {
        let pause = self.look(|inner| inner.fallback.race_mut().map(Race::pause));
        if let Some(pause) = pause {
            self.set_alarm(Alarm::Race, pause);
        }
    }

    /// TCP's attempt has succeeded, and SDP's goes on as far as is known.
    fn decide_for_tcp(&self, tcp: Tcp<'_>, pair: Pair<Ip>) {
        let race = self.drive(|inner| {
            if !is_undecided(inner) {
                return None;
            }
            // An answer that comes now is too late: no link is there for it.
            inner.retire_link(self);
            inner.engine = None;
            inner.next_generation();
            // Free before a program that sees the decision can bind it.
            inner.binding.release();
            inner.fallback.stop_race()
        });
        let Some(race) = race else {
            // SDP's attempt has failed meanwhile, or the call has ended.
            return self.watch_race();
        };
        // Another connect() may have had an answer meanwhile.
        if race.has_reply() || self.net().advice(&pair) == Advice::Race {
            self.net().note_answer(pair, race.has_reply());
        }
        self.net().stats.silent_peers.inc();
        self.take_tcp(tcp, ETIMEDOUT);
    }

    /// Goes on with SDP's attempt alone, where the peer may have answered meanwhile.
    fn go_on_with_sdp(&self) {
        let race = self.look(|inner| inner.fallback.stop_race());
        if let Some(reply) = race.and_then(Race::into_reply) {
            self.drive(|inner| inner.on_reply(self, &reply.data, reply.reads));
            // Behind the wake-up of the connecting program, which the first call delivers.
            self.drive(Inner::confirm);
        }
    }
}
