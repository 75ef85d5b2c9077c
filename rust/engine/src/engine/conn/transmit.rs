// SPDX-License-Identifier: GPL-2.0

//! The next message to send, computed on request.
//!
//! The order of the questions in [`Connection::poll_output`] is the priority.

use super::{Connection, Output};
use crate::engine::{
    flow::{credit::Need, receive::UpdateDue},
    wire::{Body, Flags, Repr},
};

impl Connection {
    /// The next effect to carry out, or None when there is nothing to do.
    pub fn poll_output(&mut self) -> Option<Output> {
        if let Some(notice) = self.poll_notice() {
            return Some(notice);
        }
        if self.close.has_failed() {
            return self.poll_teardown();
        }
        if !self.state.is_connected() {
            return None;
        }
        self.poll_answer()
            .or_else(|| self.poll_mode())
            .or_else(|| self.poll_stream())
            .or_else(|| self.poll_completion())
            .or_else(|| self.poll_sink_avail())
            .or_else(|| self.poll_disconn())
            .or_else(|| self.poll_announcement())
            .or_else(|| self.poll_spend())
            .or_else(|| self.poll_credit_update())
            .or_else(|| self.poll_disconnect())
    }

    pub(super) fn may_send(&self, need: Need) -> bool {
        self.may_post && self.credits.allow(need) && self.slots.allow(need)
    }

    /// The claim of a control message on the last credits. One that grants something
    /// may go with the last one, as the update would that it makes superfluous:
    /// where two cancels have crossed and left each side one credit, nothing else
    /// could be sent or answered.
    //= spec: CREDIT-5
    pub(super) fn control_need(&self) -> Need {
        // A grant that leaves something out is followed by one that does not,
        // and that one must find a credit.
        if self.window.grants_new() && !self.window.is_frozen() {
            Need::Grant
        } else {
            Need::Control
        }
    }

    /// Answers to the peer's requests, and our withdrawals.
    fn poll_answer(&mut self) -> Option<Output> {
        self.poll_advert_answer()
            .or_else(|| self.poll_cancel())
            .or_else(|| self.poll_resize())
    }

    /// Tells the peer of an urgent byte that its window keeps back.
    ///
    /// rules: URGENT
    fn poll_announcement(&mut self) -> Option<Output> {
        //= spec: URGENT-3
        if !self.stream.urgent().wants_announcement() || !self.may_send(self.control_need()) {
            return None;
        }
        Some(self.send_update())
    }

    /// rules: UPDATE
    fn poll_credit_update(&mut self) -> Option<Output> {
        if !self.may_update() {
            return None;
        }
        let due = match self.window.update_due() {
            UpdateDue::Not => false,
            UpdateDue::Later => self.answer_update || self.withholds_answer(),
            UpdateDue::Now => true,
        };
        //= spec: UPDATE-1
        due.then(|| self.send_update())
    }

    /// Whether the peer owes us the answer to a SrcAvail, may lack the credits for it, and was
    /// not sent an update for that already. If it has spent the credit of that one on an update of
    /// its own, it would do so again, and the two sides would answer each other as fast as the
    /// wire is.
    fn withholds_answer(&self) -> bool {
        self.runs.outstanding() > 0 && self.window.may_silence() && !self.updated
    }

    /// Whether a credit update that is due could go.
    fn may_update(&self) -> bool {
        // With both DisConn out neither side has anything left to send.
        //= spec: UPDATE-3
        let over = self.received.is_finished() && self.close.is_disconn_sent();
        !over && self.window.grants_new() && self.may_send(self.control_need())
    }

    /// Whether an update waits for its timer.
    pub(super) fn wants_update_timer(&self) -> bool {
        self.may_update() && self.window.update_due() == UpdateDue::Later
    }

    pub(super) fn send_update(&mut self) -> Output {
        let oob_pend = self.take_announcement();
        self.window.on_update();
        self.stats.credit_updates_sent = self.stats.credit_updates_sent.wrapping_add(1);
        let flags = Flags {
            oob_pend,
            ..Flags::default()
        };
        let update = self.send(Body::Data, flags, 0);
        self.updated = true;
        update
    }

    pub(super) fn send_control(&mut self, body: Body) -> Output {
        self.send(body, Flags::default(), 0)
    }

    /// The caller has asked [`may_send`](Self::may_send).
    pub(super) fn send(&mut self, body: Body, flags: Flags, payload_len: u32) -> Output {
        self.answer_update = false;
        if body != Body::Data || payload_len > 0 {
            self.window.on_busy();
        }
        self.updated = false;
        let flags = Flags {
            //= spec: MODE-8
            req_pipe: self.modes.req_pipe && self.peer().pipelined,
            ..flags
        };
        let mseq = self.credits.on_sent();
        self.grow_payload();
        let (bufs, mseq_ack) = self.window.on_sent();
        self.slots.on_sent(mseq, payload_len);
        self.stats.messages_sent = self.stats.messages_sent.wrapping_add(1);
        self.stats.payload_bytes_sent = self
            .stats
            .payload_bytes_sent
            .wrapping_add(payload_len.into());
        let repr = Repr {
            flags,
            bufs,
            mseq,
            mseq_ack,
            body,
            payload_len,
        };
        Output::Send {
            header: repr.emit(),
            payload_len,
            // rules: HDR (solicited events)
            solicited: body.mid().is_solicited() || flags.oob_pres,
        }
    }

    /// Counts once for each time that payload comes to a halt.
    pub(super) fn count_stall(&mut self) {
        if self.stalled || !self.may_post {
            return;
        }
        self.stalled = true;
        let counter = if self.credits.allow(Need::Payload) {
            &mut self.stats.slot_stalls
        } else {
            &mut self.stats.credit_stalls
        };
        *counter = counter.wrapping_add(1);
    }
}
