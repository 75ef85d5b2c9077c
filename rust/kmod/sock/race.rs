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
        policy::answers::{
            Advice,
            Pair, //
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
        let (asking, racing, own, peer) = self.look(|inner| {
            let asking = inner.phase == Phase::Connecting && inner.failure.is_none();
            // The alarm may be one of an earlier attempt, and the Hello not sent yet.
            let asking = asking && inner.has_way_out && inner.link.is_some();
            let asking = asking && self.is_attempting();
            (asking, inner.race.is_some(), inner.local.ip, inner.peer)
        });
        let pair = self.pair(own, peer.ip);
        // This host answers.
        let here = || peer.is_local(self.net().namespace(), self.device());
        match (racing, asking) {
            (true, true) => self.look_at_race(tcp, pair),
            (true, false) => self.end_race(tcp),
            (false, true) if self.net().advice(&pair) == Advice::Race && !here() => {
                self.begin_race(tcp);
            }
            (false, _) => {}
        }
    }

    fn begin_race(&self, tcp: Tcp<'_>) {
        // Without memory SDP's attempt goes on alone.
        if let Ok(race) = Race::new() {
            if tcp.race() {
                self.look(|inner| inner.race = Some(race));
                self.watch_race();
            }
        }
    }

    fn watch_race(&self) {
        let pause = self.look(|inner| inner.race.as_mut().map(|race| race.pause()));
        if let Some(pause) = pause {
            self.set_alarm(Alarm::Race, pause);
        }
    }

    fn look_at_race(&self, tcp: Tcp<'_>, pair: Pair<Ip>) {
        match tcp.state() as c_uint {
            ffi::TCP_SYN_SENT | ffi::TCP_SYN_RECV => {
                if self.look(|inner| inner.race.as_ref().is_some_and(|race| race.is_tcp_late())) {
                    self.end_race(tcp);
                } else {
                    self.watch_race();
                }
            }
            ffi::TCP_CLOSE => self.end_race(tcp),
            _ => self.decide_for_tcp(tcp, pair),
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
            // SDP's attempt has failed meanwhile, and the alarm for that goes on from here.
            return;
        };
        self.net().note_answer(pair, race.has_reply());
        self.net().stats.silent_peers.inc();
        self.take_tcp(tcp, ETIMEDOUT);
    }

    /// Gives TCP's attempt up, and goes on with SDP's, where the peer may have answered meanwhile.
    fn end_race(&self, tcp: Tcp<'_>) {
        tcp.leave_race();
        let race = self.look(|inner| inner.race.take());
        if let Some(reply) = race.and_then(Race::into_reply) {
            self.drive(|inner| inner.on_reply(self, &reply.data, reply.reads));
            // Behind the wake-up of the connecting program, which the first call delivers.
            self.drive(Inner::confirm);
        }
    }
}
