// SPDX-License-Identifier: GPL-2.0

//! Idle connections: the memory that they give back.
//!
//! A connection in use keeps memory for the next message: spare receive buffers, the page
//! fragment of written bytes, queues that have grown. Most connections are idle most of the
//! time, so one without messages for [`IDLE_MS`] returns all of it. Posted receive buffers
//! stay, because the peer has credits for them. The engine wants no more of them than an idle
//! connection needs; if they had grown for a stream, the peer that sent it asks for small
//! ones, and uses up the large ones by messages without payload.
//!
//! One alarm goes off every [`IDLE_MS`] while messages flow, so that a message costs no more
//! than a comparison.
//!
//! Contexts: the alarm's worker; [`Inner::settle_idle`] under the endpoint's lock.

use crate::{
    alarm::Alarm,
    endpoint::Inner,
    ffi,
    object::Sock, //
};

/// Time without a message after which a connection is idle.
const IDLE_MS: u32 = 2_000;

/// How far the observation of a connection has come.
#[derive(Default)]
pub(crate) struct Idle {
    /// The alarm is set.
    watched: bool,
    /// Number of messages when the alarm was set last, or when memory was given back.
    messages: u64,
}

impl Inner {
    /// Number of messages in both directions.
    fn messages(&self) -> u64 {
        let sent = self
            .engine
            .as_ref()
            .map_or(0, |engine| engine.stats().messages_sent);
        self.heard.wrapping_add(sent.into())
    }

    /// Sets the alarm of a connection that has exchanged messages.
    pub(crate) fn settle_idle(&mut self, sock: &Sock) {
        if self.idle.watched {
            return;
        }
        let Some(link) = self.link.as_ref() else {
            return;
        };
        // A program may read long after the last message; then buffers become spare.
        if link.has_spare_buffers() || self.messages() != self.idle.messages {
            self.watch_idle(sock);
        }
    }

    fn watch_idle(&mut self, sock: &Sock) {
        if self.link.is_some() {
            self.idle = Idle {
                watched: true,
                messages: self.messages(),
            };
            sock.set_alarm(Alarm::Idle, IDLE_MS);
        }
    }

    /// The alarm has gone off. Returns whether the connection is idle.
    fn on_idle(&mut self, sock: &Sock) -> bool {
        if !core::mem::take(&mut self.idle.watched) || self.link.is_none() {
            return false;
        }
        if self.messages() != self.idle.messages {
            self.watch_idle(sock);
            return false;
        }
        if let (Some(link), Some(engine)) = (self.link.as_mut(), self.engine.as_mut()) {
            engine.on_idle();
            link.shrink(engine.rcv_size());
        }
        self.send.shrink();
        self.recv.shrink();
        true
    }

    /// The connection has ended.
    pub(crate) fn stop_idle(&mut self, sock: &Sock) {
        self.idle = Idle::default();
        sock.clear_alarm(Alarm::Idle);
    }
}

impl Sock {
    /// The alarm behind [`Alarm::Idle`].
    pub(crate) fn alarm_idle(&self) {
        if !self.drive(|inner| inner.on_idle(self)) {
            return;
        }
        // SAFETY: `sk` is valid; the call takes the lock that protects the fragment.
        if !unsafe { ffi::sdp_drop_fragment(self.sk()) } {
            // A system call is using it.
            self.look(|inner| inner.watch_idle(self));
        }
    }
}
