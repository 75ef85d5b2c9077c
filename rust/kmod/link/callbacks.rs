// SPDX-License-Identifier: GPL-2.0

//! Events of a queue pair, and its completions, handed to the endpoint.
//!
//! Contexts: an event comes in the context that the driver chooses, up to hardirq. The
//! worker, the alarm and the threads that attend may sleep, and hold no lock that is taken
//! after the endpoint's.

use crate::{
    alarm::Alarm,
    endpoint::{
        Inner,
        Phase, //
    },
    ffi,
    link::{
        attendance::Duty,
        Context,
        Next,
        Taken, //
    },
    object::Sock,
    rdma::{
        cq::{
            Borrowed,
            Completion,
            Completions,
            Side, //
        },
        noio::NoIo, //
    }, //
};

/// Time that threads have to take completions after one was woken, or after the last one has
/// returned without an event for the next. Each busy connection has a worker run that often.
const ATTEND_MS: u32 = 200;

/// Time that the connection manager has to report the RTU that a message has overtaken.
const RTU_MS: u32 = 20;

/// Batches that a thread handles at a time; the worker goes on with the others, so that a
/// peer cannot keep a system call busy.
const BATCHES: usize = 16;

/// Batches that the worker handles before it lets other work of its workqueue run, which is
/// the worker of all devices and their users. A peer that keeps pace would hold it for ever.
const WORKER_BATCHES: usize = 256;

/// Completions of a link, on their way to the endpoint.
impl Completions for Context {
    fn announced(&self, side: Side) -> bool {
        if self.is_retired() {
            return true;
        }
        let are_enough = || {
            // Changes of the state concern more than pollers.
            self.sock.tcp_state() == ffi::TCP_ESTABLISHED
                && self.sock.are_pollers_enough(side == Side::Receives)
        };
        let duty = self.sock.attendance().on_event(side, are_enough);
        match duty.of(self.sock.tcp_state() == ffi::TCP_SYN_RECV) {
            Duty::Worker => true,
            Duty::Nobody => {
                self.sock.set_alarm_once(Alarm::Attend, RTU_MS);
                false
            }
            Duty::Pollers => {
                self.sock.wake_pollers();
                self.sock.set_alarm_once(Alarm::Attend, ATTEND_MS);
                false
            }
            Duty::Attendants => {
                self.sock.set_alarm_once(Alarm::Attend, ATTEND_MS);
                self.sock.settled().wake();
                self.sock.wake_sleepers();
                false
            }
        }
    }

    fn work(&self, queue: Borrowed<'_>) {
        // Also for the wake-ups.
        let _noio = NoIo::new();
        let mut queue = Some(queue);
        let mut batches = 0;
        while self.sock.visit(|inner| {
            let owned = |q: &Borrowed<'_>| inner.link.as_ref().is_some_and(|l| l.qp().owns(q));
            if queue.as_ref().is_some_and(owned) {
                batches += 1;
                let goes_on = inner.on_completions(&self.sock);
                if goes_on && batches == WORKER_BATCHES {
                    inner.leave_rest();
                    return false;
                }
                return goes_on;
            }
            if let Some(queue) = queue.take() {
                queue.discard();
            }
            false
        }) {}
    }

    fn communicated(&self) {
        // A driver may call this with its locks held.
        self.sock.set_alarm(Alarm::Notify, 0);
    }
}

impl Inner {
    /// Handles the oldest completions of the link, one after the other, as if each had come
    /// alone. Returns false if there are no more of them; then the next one leads to an
    /// event, or to [`Alarm::Attend`] if no thread needs it.
    pub(crate) fn on_completions(&mut self, sock: &Sock) -> bool {
        let taken = self.on_batch(sock);
        self.goes_on(sock, taken)
    }

    /// Whether there are completions after a batch. If not, events tell of what comes.
    fn goes_on(&mut self, sock: &Sock, taken: Taken) -> bool {
        match taken {
            Taken::Over => false,
            Taken::Full => true,
            Taken::Nothing | Taken::Some => !self.arm(sock),
        }
    }

    /// As `on_completions`, for a thread that goes on looking for completions and calls
    /// that at its end: there may be no event until then.
    pub(crate) fn on_batch(&mut self, sock: &Sock) -> Taken {
        let Some(generation) = self.link.as_ref().map(|link| link.generation()) else {
            return Taken::Over;
        };
        let needed = self.needs_sends(sock);
        let Some((mut taken, mut failed)) = self.on_side(sock, generation, Side::Sends) else {
            return Taken::Over;
        };
        if taken == Taken::Some && failed.is_none() && !needed {
            // No call waits for them. One that waits for an answer would look at its state once
            // more for the completion of its question.
            taken = Taken::Nothing;
        }
        // A failed send ends the connection. Completions before it are handled first: all of the
        // receives that were successful.
        loop {
            let Some((received, failure)) = self.on_side(sock, generation, Side::Receives) else {
                return Taken::Over;
            };
            taken = taken.max(received);
            let failure_of_receive = failure.is_some();
            if failed.is_none() && failure_of_receive {
                // A send that failed first knows the reason.
                let Some((_, earlier)) = self.on_side(sock, generation, Side::Sends) else {
                    return Taken::Over;
                };
                failed = earlier.or(failure);
            }
            if failed.is_none() || failure_of_receive || received != Taken::Full {
                break;
            }
        }
        if let Some(failed) = failed {
            match failed {
                Completion::Received(received) => self.on_received(sock, received),
                Completion::Sent(sent) => self.on_sent(sock, sent),
            }
            self.settle(sock);
            if !self.is_current(generation) {
                return Taken::Over;
            }
        }
        taken
    }

    /// Handles a batch of one side up to the first failure, which it returns. None if the
    /// connection has ended.
    fn on_side(
        &mut self,
        sock: &Sock,
        generation: u64,
        side: Side,
    ) -> Option<(Taken, Option<Completion>)> {
        let mut batch = self
            .link
            .as_mut()?
            .take_completions(side, sock.attendance());
        let taken = if batch.full {
            Taken::Full
        } else if batch.is_empty() {
            Taken::Nothing
        } else {
            Taken::Some
        };
        for completion in batch.completions() {
            match completion {
                Completion::Received(r) if r.done.ok => self.on_received(sock, r),
                Completion::Sent(sent) if sent.done.ok => self.on_sent(sock, sent),
                failed => return Some((taken, Some(failed))),
            }
            self.settle(sock);
            if !self.is_current(generation) {
                return None;
            }
        }
        Some((taken, None))
    }

    /// Has events tell of the next completions: of receives always, of sends if a thread
    /// needs it. Returns false if there are completions to be taken first.
    fn arm(&mut self, sock: &Sock) -> bool {
        let sends = self.needs_sends(sock);
        let Some(link) = self.link.as_mut() else {
            return true;
        };
        if !link.arm(sends) {
            return false;
        }
        if link.is_send_unannounced() && !link.is_send_idle() {
            sock.set_alarm_once(Alarm::Attend, ATTEND_MS);
        }
        true
    }

    /// Handles what has completed; leaves the rest to the worker if it is too much. Returns
    /// whether there was any.
    pub(super) fn take_all(&mut self, sock: &Sock) -> bool {
        self.on_batches(sock, Self::goes_on)
    }

    /// As `take_all`, but there may be no event for the next completion.
    fn on_some(&mut self, sock: &Sock) -> bool {
        self.on_batches(sock, |_, _, taken| taken == Taken::Full)
    }

    fn on_batches(&mut self, sock: &Sock, more: fn(&mut Self, &Sock, Taken) -> bool) -> bool {
        let mut found = false;
        for _ in 0..BATCHES {
            let taken = self.on_batch(sock);
            found |= taken != Taken::Nothing;
            if !more(self, sock, taken) {
                return found;
            }
        }
        self.leave_rest();
        found
    }

    fn leave_rest(&self) {
        if let Some(link) = self.link.as_ref() {
            link.qp().start_work();
        }
    }
}

impl Inner {
    /// The calling thread attends while it has the endpoint's lock, so what completes while
    /// it posts needs no other thread. Returns false if a thread in a system call, this one
    /// or another, attends anyway and takes completions soon.
    pub(crate) fn begin_attending(&mut self, sock: &Sock) -> bool {
        let begins = !self.callers.is_any_awake();
        if begins {
            sock.attendance().begin();
        }
        begins
    }

    /// The end of that; `attends` is the result of `begin_attending`.
    pub(crate) fn end_attending(&mut self, sock: &Sock, attends: bool) {
        if attends {
            sock.attendance().end();
            self.tend_completions(sock, Next::Sleep);
        } else if self.is_sent_silently() {
            // The caller may have to wait for memory of its program first.
            sock.set_alarm_once(Alarm::Attend, ATTEND_MS);
        }
    }

    /// Handles what has completed, if an event or the state of the link demands it, and has
    /// events tell of what comes, as `next` needs it. Returns whether there was any.
    pub(crate) fn tend_completions(&mut self, sock: &Sock, next: Next) -> bool {
        if next != Next::Call && self.engine.as_mut().is_some_and(|e| e.hold_offers(false)) {
            // No call looks for the SinkAvail any more.
            self.settle(sock);
        }
        let Some(link) = self.link.as_ref() else {
            sock.attendance().forget();
            return false;
        };
        let unannounced = link.is_send_unannounced();
        let disarmed = link.is_disarmed();
        let timing = link.is_timing();
        let lends = !link.source.is_empty() || link.sink.pins() > 0;
        let mut due = sock.attendance().has_event() || unannounced && link.is_reap_worthwhile();
        let others = || sock.attendance().is_shared() || sock.is_watched();
        let arms = match next {
            Next::Sleep => true,
            Next::Call => others(),
            Next::Return => {
                // Bytes that wait for credits leave without the program, and memory that is
                // offered is given back without it.
                let unsent = self.engine.as_ref().is_none_or(|e| e.unsent() > 0);
                unsent || timing || lends || !self.is_plain(sock) || others()
            }
        };
        if arms {
            due |= disarmed || unannounced && self.needs_sends(sock);
        }
        let found = match (due, arms) {
            (true, true) => self.take_all(sock),
            (true, false) => self.on_some(sock),
            (false, _) => false,
        };
        // Also for a call that does not come to its end.
        if self.is_disarmed() || next != Next::Call && self.is_sent_silently() {
            sock.set_alarm_once(Alarm::Attend, ATTEND_MS);
        }
        found
    }

    /// Whether no event will tell of the next receive.
    fn is_disarmed(&self) -> bool {
        self.link.as_ref().is_some_and(|link| link.is_disarmed())
    }

    /// Whether there are sends without an event for their completion.
    fn is_sent_silently(&self) -> bool {
        let link = self.link.as_ref();
        link.is_some_and(|link| link.is_send_unannounced() && !link.is_send_idle())
    }

    /// Whether the completion of a send matters to a thread now. In the plainest state of a
    /// connection it frees memory and no more; then threads that pass take it, or the alarm
    /// behind [`Alarm::Attend`].
    pub(crate) fn needs_sends(&mut self, sock: &Sock) -> bool {
        let (Some(link), Some(engine)) = (self.link.as_mut(), self.engine.as_ref()) else {
            return true;
        };
        if link.draining {
            // The marker of the drain comes behind them.
            return true;
        }
        if link.is_send_idle() {
            link.set_sweeping(false);
            return false;
        }
        let plain = engine.unsent() == 0
            && self.options.user_timeout == 0
            && !self.turns.write.is_taken()
            && !self.send.is_starved()
            && self.send.charged() <= sock.sndbuf() / 2
            && link.may_reap_lazily();
        !(plain && self.is_plain(sock))
    }

    /// Whether the connection is established, and a program has it.
    fn is_plain(&self, sock: &Sock) -> bool {
        self.phase == Phase::Connected
            && !self.orphan.is_closed()
            && sock.tcp_state() == ffi::TCP_ESTABLISHED
    }
}

impl Sock {
    /// As [`Inner::tend_completions`]. `f` runs behind it, under the endpoint's lock, and is
    /// told its result. May sleep.
    pub(crate) fn tend<R>(&self, next: Next, f: impl FnOnce(&mut Inner, bool) -> R) -> R {
        self.visit(|inner| {
            let found = inner.tend_completions(self, next);
            f(inner, found)
        })
    }

    /// Takes what has come since the last call, for a call that would not look at it otherwise:
    /// it sees a peer that has left before, and bytes that no call has read.
    pub(crate) fn catch_up(&self) {
        self.visit(|inner| {
            if inner.is_disarmed() || self.attendance().has_event() {
                inner.on_some(self);
            }
        });
    }

    /// poll(2): takes what has completed, if pollers were told or no event would tell. From then
    /// on events tell of what comes.
    /// Returns what `view` sees then.
    pub(crate) fn tend_for_poll<R>(&self, view: impl Fn(&mut Inner) -> R) -> R {
        if !self.attendance().has_event() {
            let seen = self.look(|inner| {
                let silent =
                    inner.is_disarmed() || inner.is_sent_silently() && inner.needs_sends(self);
                (!silent).then(|| view(inner))
            });
            if let Some(seen) = seen {
                return seen;
            }
        }
        self.visit(|inner| {
            // Under the lock: another thread may have taken what pollers were told of, and an
            // event since then may have told none.
            self.attendance().expect_told();
            inner.tend_completions(self, Next::Sleep);
            if self.attendance().were_told() {
                inner.wake().spare_pollers();
            }
            view(inner)
        })
    }

    /// Takes the completions that no thread was told of, for a caller that counts what is in
    /// flight.
    pub(crate) fn reap(&self) {
        self.visit(|inner| {
            let link = inner.link.as_ref();
            if link.is_some_and(|link| link.is_send_unannounced()) {
                inner.take_all(self);
            }
        });
    }

    /// The alarm behind [`Alarm::Attend`]: takes all completions and arms the queues. It is for sends
    /// that have completed without an event, and for an event that woke a thread which has not run since.
    pub(crate) fn alarm_attend(&self) {
        self.visit(|inner| {
            if let Some(link) = inner.link.as_mut() {
                link.set_sweeping(true);
            }
            inner.tend_completions(self, Next::Sleep);
        });
    }
}
