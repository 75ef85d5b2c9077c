// SPDX-License-Identifier: GPL-2.0

//! What the parts of a socket report to the socket that has them.
//!
//! The parts know no socket. Each has a trait for what goes up, which is implemented here.
//!
//! Contexts: may sleep. Without the endpoint's lock.

use crate::{
    alarm::{
        self,
        Alarm, //
    },
    cm::{
        self,
        resolve, //
    },
    endpoint::Phase,
    ffi,
    object::{
        Sock,
        SockRef,
        ALARMS_OFFSET, //
    },
    prelude::KBox,
    wake::Woken,
    zcopy::promise::Promise, //
};

// SAFETY: They lie there, and were made for it by `Body::new`.
unsafe impl alarm::Owner for Sock {
    const ALARMS: usize = ALARMS_OFFSET;

    fn on_alarm(&self, alarm: Alarm) {
        match alarm {
            Alarm::Attend => self.alarm_attend(),
            Alarm::Engine => self.alarm_engine(),
            Alarm::Idle => self.alarm_idle(),
            Alarm::Keepalive => self.alarm_keepalive(),
            Alarm::Notify => self.alarm_notify(),
            Alarm::Parting => self.alarm_parting(),
            Alarm::Race => self.alarm_race(),
            Alarm::Reap => self.alarm_reap(),
            Alarm::Refill => self.alarm_refill(),
            Alarm::Switched => self.alarm_switched(),
            Alarm::UserTimeout => self.alarm_user_timeout(),
        }
    }
}

impl Sock {
    /// The alarm behind [`Alarm::Engine`].
    fn alarm_engine(&self) {
        let (knocked, failed, resolving) = self.look(|inner| {
            let resolving = inner.phase == Phase::Connecting && inner.link.is_none();
            let failed = inner.fallback.has_failed();
            (inner.arrival.has_request(), failed, resolving)
        });
        if knocked {
            self.answer();
        } else if failed {
            self.give_way();
        } else if resolving {
            resolve::again(self);
        } else {
            self.drive(|inner| inner.on_timeout(self));
        }
    }

    /// The alarm behind [`Alarm::Keepalive`].
    fn alarm_keepalive(&self) {
        if self.look(|inner| inner.arrival.is_deferred()) {
            // The wait for its first bytes has expired.
            return cm::hand_over_deferred(self);
        }
        self.drive(|inner| inner.on_keepalive(self));
    }

    /// The alarm behind [`Alarm::Switched`].
    fn alarm_switched(&self) {
        // The flag is set when setsockopt() has released the lock.
        let Some(_call) = self.lock_or_defer(Alarm::Switched) else {
            return;
        };
        self.drive(|inner| {
            if inner.phase != Phase::Connected || inner.arrival.is_pending() {
                return;
            }
            if self.flag(ffi::sock_flags_SOCK_KEEPOPEN) {
                inner.set_keepalive_alarm(self);
            } else if !inner.hearing.is_stall_watched() {
                self.clear_alarm(Alarm::Keepalive);
            }
        });
    }

    /// The alarm behind [`Alarm::Idle`].
    fn alarm_idle(&self) {
        if !self.drive(|inner| inner.on_idle(self)) {
            return;
        }
        // SAFETY: `sk` is valid; the call takes the lock that protects the fragment.
        if !unsafe { ffi::sdp_drop_fragment(self.sk()) } {
            // A system call is using it.
            self.look(|inner| inner.watch_idle(self));
        }
    }

    /// The alarm behind [`Alarm::UserTimeout`].
    fn alarm_user_timeout(&self) {
        self.drive(|inner| inner.on_user_timeout(self));
    }
}

impl Woken for Sock {
    fn keep_promise(&self, promise: KBox<Promise>) {
        Sock::keep_promise(self, promise);
    }

    fn wake_settled(&self) {
        self.settled().wake();
    }

    fn lose_pending(listener: &SockRef) {
        Sock::lose_pending(listener);
    }
}
