// SPDX-License-Identifier: GPL-2.0

//! The request in progress of a queue pair. It names neither its route's type nor its peer's,
//! because queue pairs have one.
//!
//! Contexts: the owner of the turn.

use crate::{
    receive::{
        Pieces,
        Receive, //
    },
    send::{
        Request,
        Target, //
    }, //
};
use kernel::sync::Arc;

/// The code that executes requests.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum By {
    /// In the context of a post, perhaps with interrupts disabled.
    Poster,
    /// The same where the poster can be preempted: bells are held.
    Holder,
    /// For datagrams.
    Softirq,
    /// A task, which may sleep.
    Worker,
}

/// The result of a step.
pub(super) enum Step {
    /// The request is complete.
    Done {
        status: u32,
        /// The time at which its completion may be seen; 0: at once.
        due: u64,
    },
    /// The task must continue it.
    Later,
    /// It has to wait, at most for so many nanoseconds.
    Wait(u64),
}

impl Step {
    pub(super) fn done(status: u32) -> Self {
        Self::Done { status, due: 0 }
    }
}

/// The peer that has admitted the request.
pub(super) struct Admitted<Q> {
    pub(super) peer: Arc<Q>,
    pub(super) receive: Option<Receive>,
}

/// A request in progress. It stays where it is, because its parts are too large to be moved for
/// each.
pub(super) struct Underway<R, Q> {
    pub(super) request: Request,
    pub(super) route: Option<R>,
    /// Reads of the queue pair that were posted and are not complete, including this one.
    pub(super) reads: u32,
    pub(super) admitted: Option<Admitted<Q>>,
    /// Where a message goes: the pieces of the receive of `admitted`.
    pub(super) receive: Pieces,
    /// Bytes copied so far.
    pub(super) done: u64,
    /// The times since which no peer answers and no receive is posted; 0: not the case.
    pub(super) unanswered: u64,
    pub(super) not_ready: u64,
}

/// State that only the owner of the turn accesses.
pub(super) struct Execution<R, Q> {
    pub(super) busy: bool,
    pub(super) underway: Underway<R, Q>,
    /// The peer's queue pair, once found.
    pub(super) peer: Option<Arc<Q>>,
}

impl<R, Q> Execution<R, Q> {
    pub(super) fn new() -> Self {
        Self {
            busy: false,
            underway: Underway {
                request: Request::new(),
                route: None,
                reads: 0,
                admitted: None,
                receive: Pieces::new(),
                done: 0,
                unanswered: 0,
                not_ready: 0,
            },
            peer: None,
        }
    }

    pub(super) fn is_busy(&self) -> bool {
        self.busy
    }

    /// Where the next request is put.
    pub(super) fn place(&mut self) -> &mut Request {
        &mut self.underway.request
    }

    /// Begins the request that was put there. The one before has ended.
    pub(super) fn begin(&mut self, route: Option<R>, reads: u32) {
        let this = &mut self.underway;
        this.route = route;
        this.reads = reads;
        this.done = 0;
        this.unanswered = 0;
        this.not_ready = 0;
        self.busy = true;
    }

    /// Ends the request. The caller drops the objects that it referred to.
    pub(super) fn end(&mut self) -> Target {
        self.busy = false;
        self.underway.admitted = None;
        core::mem::take(&mut self.underway.request.head.target)
    }

    /// As [`end`](Self::end), because the queue pair is reset or destroyed. The caller has the peer
    /// release the request.
    pub(super) fn abandon(&mut self) -> (Target, Option<Admitted<Q>>) {
        self.peer = None;
        self.underway.route = None;
        let admitted = self.underway.admitted.take();
        (self.end(), admitted)
    }
}
