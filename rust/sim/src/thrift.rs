// SPDX-License-Identifier: GPL-2.0

//! What an engine is not to do, although no rule of the wire forbids it: to hold
//! bytes back for nothing, and to send them one by one.

use crate::{
    fault::{ensure, Checked},
    frame::Frame,
    shell::Shell,
};
use sdp_engine::engine::conn::{Connection, Zcopy};
use std::collections::VecDeque;

impl Shell {
    /// A message that more bytes follow has not let itself be made so short that it
    /// is hardly worth its header.
    pub(crate) fn check_worth(&self, frame: &Frame) -> Checked {
        let least = u32::from(self.cfg.max_send_payload >> 6);
        let len = frame.payload.len;
        let urgent = frame.repr().is_some_and(|repr| repr.flags.oob_pres);
        // A run ends where it ends.
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

/// Of one side.
#[derive(Clone, Debug, Default)]
pub(crate) struct Thrift {
    /// TCP_CORK, and the promise of the last write that more follow.
    corked: bool,
    promised: bool,
    /// Of each message in flight: it has payload, and could have had more.
    small: VecDeque<bool>,
}

impl Thrift {
    pub(crate) fn on_write(&mut self, more: bool) {
        self.promised = more;
    }

    pub(crate) fn on_cork(&mut self, on: bool) {
        self.corked = on;
        self.promised &= on;
    }

    /// A message goes.
    pub(crate) fn on_posted(&mut self, payload: u32, most: u16) {
        self.small.push_back((1..most.into()).contains(&payload));
    }

    /// The oldest one has completed.
    pub(crate) fn on_completed(&mut self) {
        self.small.pop_front();
    }

    /// All that is wanted was done. Bytes that could go have gone, unless fewer
    /// than fill a message wait for another such message.
    pub(crate) fn check(&self, shell: &Shell, conn: &Connection) -> Checked {
        // What is lent has reasons of its own to wait.
        let open = conn.is_established() && !conn.send_closed();
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
