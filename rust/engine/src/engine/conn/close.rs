// SPDX-License-Identifier: GPL-2.0

//! The end of a connection: DisConn, AbortConn and the side that sends the DREQ.
//!
//! rules: CLOSE, ABORT

use super::{Connection, Ended, Output, SinkWhy, State};
use crate::engine::{error::Refused, flow::credit::Need, machine::Moved, types::Mseq, wire::Body};

machine! {
    /// Our DisConn.
    pub enum DisConn {
        /// The application may send more.
        Open,
        /// To be sent behind everything that is queued.
        Queued,
        /// In flight.
        Sent,
        /// At the peer.
        Completed,
    }

    /// The application will send no more.
    on_shutdown: Open => Queued;
    /// Posted.
    on_sent: Queued => Sent;
    /// Its send completed.
    on_completed: Sent => Completed;
}

/// How a failed connection is taken down.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Teardown {
    /// It has not failed, or it is done.
    No,
    /// By AbortConn and then a DREQ; by a DREQ alone if credits or slots for AbortConn are lacking.
    AbortConn,
    /// By a DREQ when the send of AbortConn has completed.
    Completion(Mseq),
    /// By a DREQ.
    Disconnect,
}

/// Everything about the end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Close {
    disconn: DisConn,
    /// Number of our DisConn once it was sent.
    disconn_mseq: Mseq,
    /// Our DisConn was sent before the peer's had come, so the DREQ is ours.
    first: bool,
    teardown: Teardown,
    cause: Option<Ended>,
    /// The peer has asked to suspend, and we leave instead.
    leaving: bool,
    /// The peer has taken bytes of our stream since [`Timer::PeerClose`] was last started or
    /// checked.
    ///
    /// [`Timer::PeerClose`]: crate::engine::timer::Timer::PeerClose
    progress: bool,
}

impl Close {
    pub(super) fn new() -> Self {
        Self {
            disconn: DisConn::Open,
            disconn_mseq: Mseq::HELLO,
            first: false,
            teardown: Teardown::No,
            cause: None,
            leaving: false,
            progress: false,
        }
    }

    pub(super) fn is_send_open(&self) -> bool {
        self.disconn == DisConn::Open
    }

    /// Our DisConn was posted.
    pub(super) fn is_disconn_sent(&self) -> bool {
        matches!(self.disconn, DisConn::Sent | DisConn::Completed)
    }

    /// The connection has failed and only has to be taken down.
    pub(super) fn has_failed(&self) -> bool {
        self.cause.is_some()
    }
}

impl Connection {
    /// DisConn after everything that was queued. Before the connection is
    /// established it is remembered.
    pub fn shutdown_send(&mut self) {
        if self.close.disconn.on_shutdown().is_ok() {
            self.stream.push();
            self.close.progress = false;
            self.resume_shutdown();
        }
    }

    /// The application is gone: it neither reads nor asks any more. Payload
    /// that still comes aborts the connection.
    pub fn close_receive(&mut self) {
        if !self.received.is_closed() {
            self.received.close();
            self.close.progress = false;
            self.cancel_sinks();
            // TCP resets when bytes are left unread.
            if self.remote_len() > 0 || self.reads_in_flight() > 0 {
                self.fail(Ended::Aborted);
            }
        }
    }

    /// Ends the connection at once and without its data.
    pub fn abort(&mut self) {
        self.fail(Ended::Aborted);
    }

    /// A DREQ, or a REJ, came. The shell answers a DREQ itself.
    ///
    /// All completions that the completion queues hold must have been handed
    /// in before: the DREQ travels beside the connection and may overtake the
    /// peer's last messages.
    pub fn handle_disconnect_requested(&mut self) {
        // rules: CLOSE (a DREQ is the end when both DisConn are out)
        //= spec: CLOSE-8
        let both = self.received.is_finished() && self.close.is_disconn_sent();
        self.end(if both { Ended::Finished } else { Ended::Reset });
    }

    /// DREP came, or our DREQ was never answered, or the connection manager
    /// says that the connection is gone.
    pub fn handle_disconnected(&mut self) {
        self.handle_disconnect_requested();
    }

    /// A completion with an error, a fatal event of the queue pair, or the
    /// device is gone.
    pub fn handle_link_failed(&mut self) {
        self.end_link(Ended::LinkFailed);
    }

    /// The transport's retries ran out, or the application's limit for an
    /// answer passed: keepalive's, or TCP_USER_TIMEOUT's.
    pub fn handle_unanswered(&mut self) {
        self.end_link(Ended::Unanswered);
    }

    fn end_link(&mut self, cause: Ended) {
        let both = self.received.is_finished() && self.close.disconn == DisConn::Completed;
        let cause = if both { Ended::Finished } else { cause };
        if self.state.is_connected() {
            // Nothing gets through, but the DREQ takes another way.
            self.close.cause.get_or_insert(cause);
            //= spec: ABORT-5
            self.close.teardown = Teardown::Disconnect;
            self.end_adverts();
        } else {
            self.end(cause);
        }
    }

    /// Why the connection has ended. `Some` as soon as the outputs are drained and
    /// the peer can no longer change the result.
    pub fn ended(&self) -> Option<Ended> {
        match self.state {
            State::Disconnecting | State::Ended => self.close.cause,
            State::Idle
            | State::HelloSent
            | State::HelloReceived
            | State::HelloAckSent
            | State::Established
            | State::LocalClosing
            | State::LocalClosed
            | State::PeerClosed
            | State::BothClosing
            | State::BothClosed => None,
        }
    }

    /// The connection has failed or ended. Queued bytes do not leave any more.
    pub fn is_failing(&self) -> bool {
        self.close.has_failed() || self.is_over()
    }

    /// No more can be queued.
    pub fn send_closed(&self) -> bool {
        !self.close.is_send_open() || self.is_failing()
    }

    /// Whether more may be queued.
    pub(super) fn check_send_open(&self) -> Result<(), Refused> {
        if self.is_failing() {
            return Err(Refused::Ended);
        }
        if !self.close.is_send_open() {
            return Err(Refused::SendClosed);
        }
        Ok(())
    }

    /// Our data has come further.
    pub(super) fn close_progress(&mut self) {
        self.close.progress = true;
    }

    pub(super) fn is_over(&self) -> bool {
        matches!(self.state, State::Disconnecting | State::Ended)
    }

    /// The connection has failed; only the peer must still be told.
    ///
    /// rules: ABORT
    pub(super) fn fail(&mut self, cause: Ended) {
        if self.close.cause.is_some() || self.is_over() {
            return;
        }
        self.close.cause = Some(cause);
        self.end_adverts();
        //= spec: ROBUST-1
        if !self.state.is_connected() {
            // The shell rejects, or drops the connection manager's state.
            let ended = self.state.on_end();
            self.must(ended);
            return;
        }
        // AbortConn belongs to a side that has sent DisConn; a DREQ alone
        // would look like the end of a graceful close to the peer.
        //= spec: ABORT-1, ABORT-2
        self.close.teardown = if self.close.is_disconn_sent() && cause != Ended::Reset {
            Teardown::AbortConn
        } else {
            Teardown::Disconnect
        };
    }

    fn end(&mut self, cause: Ended) {
        if self.state.on_end().is_ok() {
            self.close.cause.get_or_insert(cause);
            self.close.teardown = Teardown::No;
            self.end_adverts();
        }
    }

    /// The state follows the shutdown of a connection that is established: at
    /// once, or when it comes to be.
    pub(super) fn resume_shutdown(&mut self) {
        if self.close.disconn == DisConn::Queued && self.state.is_connected() {
            let shut = self.state.on_shutdown();
            self.must(shut);
        }
    }

    /// rules: SUSPEND
    pub(super) fn on_suspend(&mut self) {
        //= spec: SUSPEND-1
        self.close.leaving = true;
        self.shutdown_send();
    }

    pub(super) fn on_peer_disconn(&mut self) {
        self.received.on_disconn();
        self.offers.end(SinkWhy::Crossed);
        self.window.on_finished();
        self.close.first = self.close.is_disconn_sent();
        self.close.progress = false;
        let closed = self.state.on_peer_disconn();
        self.must(closed);
    }

    /// A message has completed, with `payload` or without: neither what a peer makes
    /// us answer nor DisConn itself counts as progress.
    pub(super) fn on_send_completed(&mut self, payload: bool) {
        //= spec: CLOSE-9
        self.close.progress |= payload;
        let mseq = self.close.disconn_mseq;
        if self.close.disconn == DisConn::Sent && self.slots.has_completed(mseq) {
            let completed = self.close.disconn.on_completed();
            self.must(completed);
            // After the end it is no news.
            self.state.on_disconn_completed().if_legal();
        }
    }

    /// DisConn, behind all payload.
    ///
    /// rules: CLOSE (needs two credits)
    pub(super) fn poll_disconn(&mut self) -> Option<Output> {
        //= spec: CLOSE-1, CLOSE-2
        if self.close.disconn != DisConn::Queued
            //= spec: SRC-8
            // What is advertised is unsent until the peer has read it.
            || self.stream.unsent() > 0
            || self.targets.written().is_some()
            || self.targets.writes() > 0
            || !self.may_send(Need::Control)
        {
            return None;
        }
        self.close.disconn.on_sent().ok()?;
        self.targets.drop_all();
        let output = self.send_control(Body::DisConn);
        self.close.disconn_mseq = self.credits.last_sent();
        Some(output)
    }

    /// The DREQ of the side that closed first, when both are done.
    ///
    /// rules: CLOSE (who disconnects)
    pub(super) fn poll_disconnect(&mut self) -> Option<Output> {
        //= spec: CLOSE-4, CLOSE-5
        if self.state != State::BothClosed || !self.close.first {
            return None;
        }
        self.state.on_disconnect().ok()?;
        Some(Output::Disconnect)
    }

    /// The outputs that end a failed connection.
    pub(super) fn poll_teardown(&mut self) -> Option<Output> {
        match self.close.teardown {
            Teardown::No => None,
            Teardown::AbortConn if self.may_send(Need::Control) => {
                let output = self.send_control(Body::AbortConn);
                self.close.teardown = Teardown::Completion(self.credits.last_sent());
                Some(output)
            }
            // Waits until the shell has memory.
            Teardown::AbortConn if !self.may_post => None,
            Teardown::Completion(mseq) if !self.slots.has_completed(mseq) => None,
            Teardown::AbortConn | Teardown::Completion(_) | Teardown::Disconnect => {
                self.close.teardown = Teardown::No;
                self.state.on_disconnect().ok()?;
                Some(Output::Disconnect)
            }
        }
    }

    /// Whether the wait for the peer's part in the close has a limit: always for
    /// its DREQ, and for everything else when no caller on our side could give up
    /// waiting.
    ///
    /// rules: CLOSE
    pub(super) fn wants_peer_close(&self) -> bool {
        //= spec: CLOSE-9
        let alone = self.received.is_closed() || self.close.leaving;
        self.state == State::BothClosed || alone && !self.close.is_send_open()
    }

    /// Whether the teardown waits for memory to post AbortConn, or for its completion, which a
    /// peer that takes no messages can hold back.
    pub(super) fn waits_for_abort(&self) -> bool {
        match self.close.teardown {
            Teardown::AbortConn => !self.may_post,
            Teardown::Completion(_) => true,
            Teardown::No | Teardown::Disconnect => false,
        }
    }

    pub(super) fn on_peer_close_timeout(&mut self) {
        //= spec: ABORT-6
        if self.waits_for_abort() {
            self.close.teardown = Teardown::Disconnect;
        } else if self.state == State::BothClosed {
            // The peer owes the DREQ and nothing else.
            self.close.first = true;
        } else if self.close.progress {
            self.close.progress = false;
        } else {
            self.fail(Ended::TimedOut);
        }
    }
}
