// SPDX-License-Identifier: GPL-2.0

//! A connect() to a peer that does not answer over SDP at once: TCP's attempt beside SDP's.
//!
//! The first of the two that is established is the connection, and the other one is given up.
//! Before that nothing but the two requests is sent. A blocking connect() waits meanwhile for SDP's
//! attempt, and goes on with TCP's where that has won ([`MOVED`](super::companion::MOVED)).
//!
//! Contexts: process context, may sleep, no lock held.

use crate::{
    alarm::Alarm,
    endpoint::Phase,
    engine::policy::answers::{
        Advice,
        Pair, //
    },
    ffi,
    object::Sock,
    prelude::*,
    sock::companion::Tcp, //
};

/// Milliseconds until the first look at TCP's attempt, and at most between two of them. The end of the
/// attempt is no event for this socket. Each time is twice as long as the one before.
const FIRST_MS: u32 = 2;
const LAST_MS: u32 = 1024;

impl Sock {
    /// The alarm behind [`Alarm::Race`].
    pub(crate) fn alarm_race(&self) {
        let Some(_call) = self.lock_or_defer(Alarm::Race) else {
            return;
        };
        let Some(tcp) = self.other_half() else {
            return;
        };
        let (asking, own, peer, racing) = self.look(|inner| {
            let asking = inner.phase == Phase::Connecting && inner.failure.is_none();
            (
                asking && inner.has_way_out,
                inner.local.ip,
                inner.peer,
                inner.racing,
            )
        });
        let pair = self.pair(own, peer.ip);
        let asking = asking && self.is_attempting();
        // This host answers.
        let here = || peer.is_local(self.net().namespace(), self.device());
        match racing {
            Some(_) if !asking => self.end_race(tcp),
            Some(pause) => match tcp.state() as c_uint {
                ffi::TCP_SYN_SENT | ffi::TCP_SYN_RECV => self.watch_race(pause.saturating_mul(2)),
                ffi::TCP_CLOSE => self.end_race(tcp),
                _ => self.decide_for_tcp(tcp, pair),
            },
            None if asking && self.net().advice(&pair) == Advice::Race && !here() => {
                if tcp.race() {
                    self.watch_race(FIRST_MS);
                }
            }
            None => {}
        }
    }

    /// TCP's attempt has succeeded, and SDP's goes on as far as is known.
    fn decide_for_tcp(&self, tcp: Tcp<'_>, pair: Pair) {
        let still = self.look(|inner| {
            let still = inner.phase == Phase::Connecting && inner.failure.is_none();
            if still {
                // An answer that comes now is too late.
                inner.next_generation();
                inner.racing = None;
                // Free before a program that sees the decision can bind it.
                inner.port = None;
            }
            still
        });
        if !still {
            return self.watch_race(FIRST_MS);
        }
        self.net().note_answer(pair, false);
        self.net().stats.silent_peers.inc();
        self.take_tcp(tcp, ETIMEDOUT);
    }

    fn watch_race(&self, pause: u32) {
        let pause = pause.min(LAST_MS);
        self.look(|inner| inner.racing = Some(pause));
        self.set_alarm(Alarm::Race, pause);
    }

    /// Gives TCP's attempt up: it has failed, or SDP's has succeeded.
    fn end_race(&self, tcp: Tcp<'_>) {
        self.look(|inner| inner.racing = None);
        tcp.leave_race();
    }
}
