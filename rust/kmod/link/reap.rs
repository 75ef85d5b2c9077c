// SPDX-License-Identifier: GPL-2.0

//! The end of a link.
//!
//! A retired link is destroyed without the endpoint's lock, because destroying sleeps until
//! callbacks have returned, and these take that lock.
//!
//! Contexts: alarms; handlers of the CM set some of them.

use crate::{
    alarm::Alarm,
    endpoint::Inner,
    link::Link,
    object::Sock,
    parting::{
        Next,
        Parting, //
    },
    prelude::*, //
};

impl Inner {
    /// Stores `parting`; returns the one that the caller must drop without the lock.
    fn part(&mut self, sock: &Sock, parting: Parting) -> Option<Parting> {
        if self.partings.reserve().is_err() {
            return Some(parting);
        }
        let limit = sock.net().knobs().close_timeout_ms;
        let oldest = self.partings.push(parting, limit);
        // The alarm also checks whether the answer came first.
        sock.set_alarm(Alarm::Parting, 0);
        oldest
    }

    /// Takes out one that has ended, or sets the alarm for the next check.
    fn take_parted(&mut self, sock: &Sock) -> Option<Parting> {
        match self.partings.take() {
            Next::Drop(parting) => return Some(parting),
            Next::Later(left) => sock.set_alarm(Alarm::Parting, left),
            Next::Nothing => {}
        }
        None
    }
}

impl Sock {
    /// The alarm behind [`Alarm::Parting`].
    pub(crate) fn alarm_parting(&self) {
        while let Some(parting) = self.look(|inner| inner.take_parted(self)) {
            drop(parting);
        }
    }

    /// The alarm behind [`Alarm::Notify`]: tells the CM that the connection is
    /// established although no RTU came, or hands it to its listener.
    pub(crate) fn alarm_notify(&self) {
        let deferrable = |inner: &mut Inner| {
            let deferred = inner.arrival.is_deferred();
            deferred.then(|| inner.is_deferrable(self))
        };
        match self.look(deferrable) {
            // It was a control message; the listener still waits for payload.
            Some(true) => return,
            Some(false) => return crate::cm::hand_over_deferred(self),
            None => {}
        }
        self.look(|inner| {
            if let Some(cm) = inner.link.as_ref().and_then(|l| l.cm.as_ref()) {
                // A failure only means that the CM already knows.
                let _ = cm.notify_established();
            }
        });
    }

    /// The alarm behind [`Alarm::Refill`]: posts the receive buffers and the requests that memory
    /// was lacking for, as after every event, and wakes writers to try again.
    pub(crate) fn alarm_refill(&self) {
        self.drive(|inner| {
            inner.tend_runs(self);
            inner.tend_offer(self);
            inner.read_on(self);
            inner.wake().writable = true;
        });
    }

    /// The alarm behind [`Alarm::Reap`]: ends a connection that the peer has
    /// disconnected, and destroys what connections left behind. A work item
    /// never runs twice at a time, so no link is destroyed while it is drained.
    pub(crate) fn alarm_reap(&self) {
        let drain = self.look(|inner| {
            inner.begin_reaping();
            let link = inner.link.as_ref()?;
            link.draining.then(|| (link.generation(), link.qp.drain()))
        });
        if let Some((generation, drain)) = drain {
            // SAFETY: Only the code below destroys a link that an endpoint has had, and
            // this function does not run twice at a time.
            unsafe { drain.run(|| self.take_last(generation)) };
            self.drive(|inner| {
                let link = inner.link.as_mut();
                if let Some(link) = link.filter(|link| link.generation() == generation) {
                    link.set_drained();
                    if let Some(engine) = inner.engine.as_mut() {
                        engine.handle_disconnect_requested();
                    }
                }
            });
        }
        while let Some(link) = self.look(Inner::take_retired) {
            self.destroy_all(link);
        }
    }

    /// Takes the completions of a link that is being drained.
    fn take_last(&self, generation: u64) {
        self.visit(|inner| {
            if inner.is_current(generation) {
                inner.take_all(self);
            }
        });
    }

    /// Destroys a retired link and the older ones.
    fn destroy_all(&self, newest: KBox<Link>) {
        let mut retired = Some(newest);
        while let Some(mut link) = retired {
            retired = link.older.take();
            let (source, sink) = link.pins();
            let lent = link.source.loans() > 0;
            let promise = link.sink.promise.take();
            let parting = link.destroy();
            // Told when nothing can write to the memory any more.
            let promised = promise.is_some();
            drop(promise);
            let rest = parting.and_then(|parting| self.look(|inner| inner.part(self, parting)));
            drop(rest);
            if source > 0 || sink > 0 || lent {
                self.drive(|inner| {
                    inner.on_unpinned(source, sink > 0);
                    if promised {
                        inner.end_promise();
                    }
                });
            }
        }
    }
}
