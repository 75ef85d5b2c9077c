// SPDX-License-Identifier: GPL-2.0

//! Connections that are not established, and those that no program gets: the endpoint afterwards.
//!
//! Locks: under the endpoint's lock.

use crate::{
    endpoint::{
        Inner,
        Phase, //
    },
    errno::is_worth_tcp,
    ffi,
    object::Sock,
    prelude::*, //
};

impl Inner {
    /// Whether TCP_DEFER_ACCEPT keeps the connection from its listener.
    pub(crate) fn is_deferrable(&self, sock: &Sock) -> bool {
        let over = sock.shutdown_bits() & ffi::RCV_SHUTDOWN != 0;
        let something = !self.recv.is_empty() || self.remote_len() > 0;
        !something && !over && self.options.deferral_secs() > 0
    }

    /// The peer has answered our Hello, in whatever way.
    pub(crate) fn note_answer(&self, sock: &Sock) {
        sock.net()
            .note_answer(sock.pair(self.local.ip, self.peer.ip), true);
    }

    /// No answer to our Hello or our HelloAck has come.
    pub(crate) fn on_unanswered(&mut self, sock: &Sock) {
        if self.phase == Phase::Connecting {
            let pair = sock.pair(self.local.ip, self.peer.ip);
            sock.net().note_answer(pair, false);
            self.fail_connect(sock, ETIMEDOUT);
        } else if let Some(engine) = self.engine.as_mut() {
            engine.handle_link_failed();
        }
    }

    /// Ends a connection that no program will ever use.
    pub(crate) fn abandon(&mut self, sock: &Sock) {
        self.orphan.close();
        if let Some(engine) = self.engine.as_mut() {
            engine.close_receive();
            engine.abort();
        } else {
            self.finish(sock);
        }
    }

    /// connect() has failed. If TCP may take over, the failure is not reported: until
    /// TCP's attempt has begun, observers see this one.
    pub(crate) fn fail_connect(&mut self, sock: &Sock, error: Error) {
        sock.net().stats.failed_opens.inc();
        self.retire_link(sock);
        self.engine = None;
        self.next_generation();
        if self.fallback.is_open() && is_worth_tcp(error) {
            self.give_way_soon(sock, error);
        } else {
            self.tell_failure(sock, error);
        }
    }

    /// Reports that connect() has failed; the socket can connect again.
    pub(crate) fn tell_failure(&mut self, sock: &Sock, error: Error) {
        sock.set_err(error);
        self.phase = Phase::Idle;
        self.fallback.close();
        self.show_state(sock, ffi::TCP_CLOSE);
        // Until the next connect() no byte can be read or written.
        sock.add_shutdown(ffi::SHUTDOWN_MASK);
        self.wake().hangup = true;
        self.wake().error = true;
    }
}
