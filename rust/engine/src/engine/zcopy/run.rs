// SPDX-License-Identifier: GPL-2.0

//! One run of the send stream: bytes in registered memory, and the SrcAvail
//! that offers them.
//!
//! rules: SRC, READ, SENDSM, MR, SRCCANCEL, CROSS

use crate::engine::types::{Mseq, RunId};

machine! {
    /// Life of one run, as its source sees it.
    pub enum RunState {
        /// Not offered, or not any more: waits for its turn, for a SinkAvail, or
        /// to be offered again.
        Queued,
        /// The peer may read it.
        Advertised,
        /// As before, and SrcAvailCancel is wanted or sent. The rest will go as
        /// Data.
        Recalled,
        /// As before, but the rest will not go at all.
        Withdrawing,
        /// Nothing is offered; the rest goes as Data.
        Copied,
        /// Nothing is left of it.
        Through,
        /// The rest was taken out of the stream.
        Dropped,
    }

    /// Its SrcAvail was posted.
    on_advertise: Queued => Advertised;
    /// It is to be taken back, and its bytes sent otherwise.
    on_recall: Queued => Copied, Advertised => Recalled;
    /// It is to be taken out of the stream.
    on_withdraw:
        Queued | Copied => Dropped,
        Advertised | Recalled => Withdrawing;
    /// The SrcAvail crossed a SinkAvail, which wins.
    on_void: Advertised => Queued, Recalled => Copied, Withdrawing => Dropped;
    /// The peer asks for the rest as Data.
    on_send_sm: Advertised | Recalled => Copied, Withdrawing => Dropped;
    /// It cannot be offered.
    on_copy: Queued => Copied;
    /// Its last byte was sent or read.
    on_through: Queued | Advertised | Recalled | Withdrawing | Copied => Through;
}

impl RunState {
    /// Whether the peer may hold its SrcAvail.
    pub(crate) const fn is_outstanding(self) -> bool {
        match self {
            RunState::Advertised | RunState::Recalled | RunState::Withdrawing => true,
            RunState::Queued | RunState::Copied | RunState::Through | RunState::Dropped => false,
        }
    }

    /// Whether no SrcAvail of it will be sent or can be outstanding.
    const fn is_returned(self) -> bool {
        match self {
            RunState::Copied | RunState::Through | RunState::Dropped => true,
            RunState::Queued
            | RunState::Advertised
            | RunState::Recalled
            | RunState::Withdrawing => false,
        }
    }
}

/// Why the registration of a run is not needed any more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Why {
    /// All of it has left the stream: read, written or sent.
    Through,
    /// The peer has asked for the rest as Data; it follows.
    SendSm,
    /// It was taken back. The rest follows as Data.
    Recalled,
    /// It was taken out of the stream.
    Withdrawn,
    /// It could not be offered; the rest follows as Data.
    NotOffered,
    /// The connection has ended. The peer can read and write until the queue pair is in its
    /// error state and drained.
    Over,
}

/// A run and how far it has come.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    /// Of the first byte that is left.
    pub(super) va: u64,
    pub(super) r_key: u32,
    /// Bytes that were neither sent nor read.
    left: u32,
    /// Plain bytes of the stream behind the run before, and in front of this
    /// one, that were not sent.
    pub(super) ahead: u32,
    /// Bytes read by the peer which the shell does not know of.
    untold: u32,
    /// Of the last SrcAvail.
    pub(super) mseq: Mseq,
    pub(super) id: RunId,
    /// Inline bytes wished for.
    pub(super) inline: u16,
    /// The peer has read some of it.
    read: bool,
    pub(super) state: RunState,
    /// Of the last change of the state; tells of a return if that was one.
    why: Why,
    /// The shell knows that the registration is not needed.
    told: bool,
    /// The shell knows that the rest has been taken out.
    drop_told: bool,
}

/// News about a run for the shell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Notice {
    Taken { run: RunId, len: u32 },
    Dropped { run: RunId, len: u32 },
    Returned { run: RunId, why: Why },
}

impl Entry {
    pub(super) fn new(id: RunId, va: u64, r_key: u32, len: u32, inline: u16) -> Self {
        Self {
            va,
            r_key,
            left: len,
            ahead: 0,
            untold: 0,
            mseq: Mseq::HELLO,
            id,
            inline,
            read: false,
            state: RunState::Queued,
            why: Why::Through,
            told: false,
            drop_told: false,
        }
    }

    /// Bytes of the stream that are left of it.
    pub(super) fn left(&self) -> u32 {
        if self.state == RunState::Dropped {
            0
        } else {
            self.left
        }
    }

    /// The stream has nothing of it any more.
    pub(super) fn is_gone(&self) -> bool {
        matches!(self.state, RunState::Through | RunState::Dropped)
    }

    /// The shell no longer needs the run.
    pub(super) fn is_forgotten(&self) -> bool {
        self.is_gone() && self.told && self.untold == 0 && !self.wants_drop_told()
    }

    /// `len` bytes from its front were sent.
    pub(super) fn on_sent(&mut self, len: u32) {
        self.left = self.left.saturating_sub(len);
        self.va = self.va.wrapping_add(len.into());
        //= spec: READ-2, MR-1
        if self.left == 0 && self.state.on_through().is_ok() {
            self.why = Why::Through;
        }
    }

    /// The peer says that it has read `len` bytes, no more than are left.
    pub(super) fn on_read(&mut self, len: u32) {
        self.read = true;
        self.untold = self.untold.saturating_add(len);
        self.on_sent(len);
    }

    /// Whether a request of the peer for Data would make its SrcAvail useless: no
    /// byte of it was read, and the change was not ours.
    pub(super) fn is_idle(&self) -> bool {
        !self.read && self.state.is_outstanding() && self.state != RunState::Withdrawing
    }

    pub(super) fn on_recall(&mut self) {
        if self.state.on_recall().is_ok() {
            self.why = Why::Recalled;
        }
    }

    /// Returns how many bytes the stream has lost by it.
    pub(super) fn on_withdraw(&mut self) -> u32 {
        let before = self.left();
        if self.state.on_withdraw().is_ok() {
            self.why = Why::Withdrawn;
        }
        before.saturating_sub(self.left())
    }

    /// As `on_withdraw`.
    pub(super) fn on_void(&mut self) -> u32 {
        let before = self.left();
        if self.state.on_void().is_ok() {
            self.why = if self.state == RunState::Dropped {
                Why::Withdrawn
            } else {
                Why::Recalled
            };
        }
        before.saturating_sub(self.left())
    }

    /// As `on_withdraw`.
    pub(super) fn on_send_sm(&mut self) -> u32 {
        let before = self.left();
        let recalled = self.state == RunState::Recalled;
        if self.state.on_send_sm().is_ok() {
            self.why = match self.state {
                RunState::Dropped => Why::Withdrawn,
                _ if recalled => Why::Recalled,
                _ => Why::SendSm,
            };
        }
        before.saturating_sub(self.left())
    }

    pub(super) fn on_copy(&mut self) {
        if self.state.on_copy().is_ok() {
            self.why = Why::NotOffered;
        }
    }

    /// The connection has ended.
    pub(super) fn on_over(&mut self) {
        if !self.told && !self.state.is_returned() {
            self.why = Why::Over;
        }
        if !self.is_gone() {
            self.state = RunState::Through;
            self.left = 0;
        }
    }

    pub(super) fn notice(&mut self) -> Option<Notice> {
        let run = self.id;
        if self.untold > 0 {
            let len = core::mem::take(&mut self.untold);
            return Some(Notice::Taken { run, len });
        }
        if self.wants_drop_told() {
            self.drop_told = true;
            return Some(Notice::Dropped {
                run,
                len: self.left,
            });
        }
        if self.told || !self.state.is_returned() {
            return None;
        }
        self.told = true;
        Some(Notice::Returned { run, why: self.why })
    }

    fn wants_drop_told(&self) -> bool {
        self.state == RunState::Dropped && !self.drop_told
    }
}

#[cfg(test)]
mod tests {
    use super::{Entry, Notice, RunState, Why};
    use crate::engine::types::RunId;

    const RUN: RunId = RunId(3);

    fn entry() -> Entry {
        Entry::new(RUN, 0, 0, 100, 0)
    }

    fn returned(why: Why) -> Option<Notice> {
        Some(Notice::Returned { run: RUN, why })
    }

    #[test]
    fn the_end_of_the_connection_returns_what_the_peer_may_read() {
        let mut run = entry();
        run.state.on_advertise().unwrap();
        run.on_read(30);
        run.on_over();
        assert_eq!((run.left(), run.state), (0, RunState::Through));
        assert_eq!(run.notice(), Some(Notice::Taken { run: RUN, len: 30 }));
        assert_eq!(run.notice(), returned(Why::Over));
        assert_eq!(run.notice(), None);
        assert!(run.is_forgotten());
    }

    #[test]
    fn the_end_of_the_connection_is_not_why_a_run_came_back_before() {
        let mut run = entry();
        run.on_copy();
        run.on_over();
        assert_eq!(run.notice(), returned(Why::NotOffered));
        let mut run = entry();
        run.on_copy();
        assert_eq!(run.notice(), returned(Why::NotOffered));
        run.on_over();
        assert_eq!(run.notice(), None);
    }

    #[test]
    fn the_end_of_the_connection_leaves_what_was_taken_out() {
        let mut run = entry();
        assert_eq!(run.on_withdraw(), 100);
        run.on_over();
        assert_eq!(run.state, RunState::Dropped);
        assert_eq!(run.notice(), Some(Notice::Dropped { run: RUN, len: 100 }));
        assert_eq!(run.notice(), returned(Why::Withdrawn));
    }
}
