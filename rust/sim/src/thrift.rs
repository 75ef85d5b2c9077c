// SPDX-License-Identifier: GPL-2.0

//! Wasteful behaviour that no rule of the wire forbids, but an engine must avoid: to delay bytes
//! without a reason, to send single bytes, and to go on advertising memory that no application reads.

use crate::{
    fault::{ensure, Checked},
    frame::Frame,
    shell::Shell,
};
use sdp_engine::engine::{
    conn::{Connection, Output, RunId, Why, Zcopy, ADVERTS_MAX},
    wire::Body,
};
use std::collections::VecDeque;

impl Shell {
    /// A message followed by more bytes must not be so short that it is hardly worth its header.
    pub(crate) fn check_worth(&self, frame: &Frame) -> Checked {
        let least = self.cfg.max_send_payload >> 7;
        let len = frame.payload.len;
        let urgent = frame.repr().is_some_and(|repr| repr.flags.oob_pres);
        // The last message of a run may be short.
        let cut = self.cfg.zcopy == Zcopy::OFF && self.app.unsent() > 0 && !urgent;
        ensure!(
            !cut || len == 0 || len >= least,
            "{:?} sends {len} bytes, and {} are left",
            self.side,
            self.app.unsent()
        );
        Ok(())
    }
}

/// The state of one side.
#[derive(Clone, Debug, Default)]
pub(crate) struct Thrift {
    /// TCP_CORK, or MSG_MORE in the last write.
    corked: bool,
    promised: bool,
    /// For each message in flight: it has payload, and could have had more.
    small: VecDeque<bool>,
    /// Runs with bytes that the peer has read.
    read: Vec<RunId>,
    /// The peer has read a part of the run that it has just asked for.
    partly: bool,
    /// The last ended run was advertised without a Read.
    wasted: bool,
    /// Since the peer last read one: the number of runs, and of those advertised without a Read.
    runs: u32,
    in_vain: u32,
}

impl Thrift {
    pub(crate) fn on_write(&mut self, more: bool) {
        self.promised = more;
    }

    pub(crate) fn on_cork(&mut self, on: bool) {
        self.corked = on;
        self.promised &= on;
    }

    /// A message is posted.
    pub(crate) fn on_posted(&mut self, payload: u32, most: u32) {
        self.small.push_back((1..most).contains(&payload));
    }

    /// The oldest message has completed.
    pub(crate) fn on_completed(&mut self) {
        self.small.pop_front();
    }

    /// Handles an output of the engine; `from_run`: the next bytes of the stream belong to a run.
    pub(crate) fn on_output(&mut self, output: &Output, from_run: bool) {
        match output {
            Output::Taken { run, .. } => {
                self.on_used();
                self.read.push(*run);
            }
            Output::Write { .. } if from_run => self.on_used(),
            Output::Returned { run, why } => {
                let used = self.read.contains(run);
                self.read.retain(|other| other != run);
                if *why == Why::NotOffered {
                    self.wasted = false;
                }
                let asked = *why == Why::SendSm;
                // If the peer asks for several at once, the first one counts.
                self.partly |= asked && used;
                if asked && !self.partly {
                    self.wasted = true;
                    self.in_vain += 1;
                }
            }
            _ => {}
        }
    }

    fn on_used(&mut self) {
        self.wasted = false;
        self.runs = 0;
        self.in_vain = 0;
    }

    /// Called after all wanted actions were done.
    pub(crate) fn on_settled(&mut self) {
        self.partly = false;
    }

    /// Another run is queued.
    pub(crate) fn on_run(&mut self) {
        self.runs += 1;
    }

    /// A message is sent, perhaps with a SrcAvail.
    pub(crate) fn check_offer(&self, frame: &Frame) -> Checked {
        let offers = frame
            .repr()
            .is_some_and(|repr| matches!(repr.body, Body::SrcAvail(_)));
        ensure!(
            !(offers && self.wasted),
            "memory is offered to a peer that has just asked for Data instead"
        );
        // Each pause is twice as long as the one before, and all outstanding SrcAvails can be
        // declined at once.
        let most = u32::try_from(ADVERTS_MAX).unwrap_or(u32::MAX);
        let pauses = 2 + (self.runs + 1).ilog2() + self.runs / 64;
        ensure!(
            self.in_vain <= most * pauses,
            "{} of {} runs are offered for nothing",
            self.in_vain,
            self.runs
        );
        Ok(())
    }

    /// Called after all wanted actions were done. Bytes that could be sent have been sent, except
    /// less than a full message while another such message is in flight.
    pub(crate) fn check(&self, shell: &Shell, conn: &Connection) -> Checked {
        // Lent memory may wait for other reasons.
        let open = conn.state().is_connected() && !conn.send_closed() && !shell.refused;
        if !open || shell.cfg.zcopy != Zcopy::OFF || self.corked || self.promised {
            return Ok(());
        }
        let room = self.small.len() + 3 <= usize::from(shell.cfg.tx_depth);
        let may = conn.credits() >= 3 && room;
        ensure!(
            !may || conn.unsent() == 0 || self.small.contains(&true),
            "{:?} holds {} bytes back behind full messages",
            shell.side,
            conn.unsent()
        );
        Ok(())
    }
}
