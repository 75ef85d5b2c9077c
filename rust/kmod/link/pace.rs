// SPDX-License-Identifier: GPL-2.0

//! The times of writes in chunks; few are measured: see `engine/policy/pace`.
//!
//! Contexts: under the endpoint's lock.

use crate::{
    engine::policy::pace::{
        Measure,
        Pace, //
    },
    link::attendance::now_ns, //
};

/// Messages from the first one of a write on, until the last of them has completed.
struct Span {
    of: Measure,
    /// Time at which the first was posted.
    since: i64,
    bytes: u32,
    /// Requests up to the last of these messages that have not completed.
    left: usize,
    /// Further messages belong to it.
    open: bool,
}

/// The speed of a link, as measured.
pub(super) struct Pacing {
    pace: Pace,
    span: Option<Span>,
}

/// Nanoseconds from one time to a later one.
pub(crate) fn between(from: i64, to: i64) -> u64 {
    u64::try_from(to.saturating_sub(from)).unwrap_or(0)
}

impl Pacing {
    pub(super) const fn new() -> Self {
        Self {
            pace: Pace::new(),
            span: None,
        }
    }

    /// Whether a completion is awaited because of its time.
    pub(super) fn is_timing(&self) -> bool {
        self.span.is_some()
    }

    /// A message of `len` bytes is posted, behind `before` requests in flight.
    pub(super) fn on_posted(&mut self, len: u32, before: usize) {
        let Some(span) = self.span.as_mut().filter(|span| span.open && len > 0) else {
            return;
        };
        if span.bytes == 0 {
            span.since = now_ns();
            span.open = span.of == Measure::All;
        }
        span.bytes = span.bytes.saturating_add(len);
        span.left = before.saturating_add(1);
    }

    /// The oldest request has completed. `woken` is the time of the last event of sends.
    pub(super) fn on_completed(&mut self, woken: i64) {
        let Some(span) = self.span.as_mut() else {
            return;
        };
        span.left = span.left.saturating_sub(1);
        if span.left > 0 || span.open {
            return;
        }
        let (of, since, bytes) = (span.of, span.since, span.bytes);
        self.span = None;
        match of {
            Measure::No => {}
            // Only its own completion can have led to the event.
            Measure::First => {
                let end = if woken > since { woken } else { now_ns() };
                self.pace.on_first(bytes, between(since, end));
            }
            Measure::All => self.pace.on_all(bytes, between(since, now_ns())),
        }
    }

    pub(super) fn pace(&self) -> &Pace {
        &self.pace
    }

    /// A write is about to go in chunks, with nothing before it. Returns what its caller
    /// measures.
    pub(super) fn begin(&mut self) -> Measure {
        // A slow completion is still awaited.
        if self.is_timing() {
            return Measure::No;
        }
        let of = self.pace.measure();
        if of != Measure::No {
            self.span = Some(Span {
                of,
                since: 0,
                bytes: 0,
                left: 0,
                open: true,
            });
        }
        of
    }

    /// See [`Link::on_first_chunk`](crate::link::Link::on_first_chunk).
    pub(super) fn on_first_chunk(&mut self, len: u32, copy: u64, post: u64) {
        self.pace.on_first_chunk(len, copy, post);
    }

    /// See [`Link::on_long_chunk`](crate::link::Link::on_long_chunk).
    pub(super) fn on_long_chunk(&mut self, len: u32, ns: u64) {
        self.pace.on_long_chunk(len, ns);
    }

    /// The end of the messages was missed: their time is not known.
    pub(super) fn on_missed(&mut self) {
        self.span = None;
    }

    /// See [`Link::end_measure`](crate::link::Link::end_measure).
    pub(super) fn end(&mut self, steady: bool) {
        // Its end was missed, where nothing is left of it.
        self.span.take_if(|span| !steady || span.left == 0);
        if let Some(span) = self.span.as_mut() {
            span.open = false;
        }
    }
}
