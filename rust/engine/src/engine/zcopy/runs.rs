// SPDX-License-Identifier: GPL-2.0

//! The runs of the send stream, in its order, among its plain bytes.
//!
//! rules: SRC, READ, SENDSM, SRCCANCEL, CROSS

use super::{
    cancel::Cancel,
    fifo::Fifo,
    run::{Entry, Notice, RunState},
    ADVERTS_MAX,
};
use crate::engine::{
    error::{PeerError, Refused},
    machine::Moved,
    types::{Mseq, RunId},
    wire::Mid,
};

/// The front of the send stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Front {
    /// Number of bytes that are not registered, or had their registration returned;
    /// 0 if the stream is empty.
    Plain(u32),
    /// So many bytes of a run that was not offered.
    Run(u32),
    /// A SrcAvail that the peer may hold.
    Outstanding,
}

/// A run that may be offered next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Candidate {
    pub(crate) left: u32,
    pub(crate) r_key: u32,
    pub(crate) va: u64,
    pub(crate) inline: u16,
}

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Runs {
    fifo: Fifo<Entry, ADVERTS_MAX>,
    next_id: u32,
    pub(crate) cancel: Cancel,
    /// A SrcAvail was sent in the life of this connection.
    ever_advertised: bool,
    /// Something has moved since the timer was asked about.
    progress: bool,
}

impl Runs {
    pub(crate) fn new() -> Self {
        Self {
            fifo: Fifo::new(),
            next_id: 0,
            cancel: Cancel::No,
            ever_advertised: false,
            progress: false,
        }
    }

    /// Whether there are no runs, and no cancel of one is to be sent or answered.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.is_clear() && self.cancel == Cancel::No
    }

    /// Whether there are none, not even those that only wait to be forgotten.
    pub(crate) fn is_clear(&self) -> bool {
        self.fifo.is_empty()
    }

    pub(crate) fn room(&self) -> u8 {
        self.fifo.room()
    }

    /// Bytes of the stream up to the last byte of the last run.
    fn covered(&self) -> u32 {
        self.fifo.iter().fold(0, |sum: u32, entry| {
            sum.saturating_add(entry.ahead).saturating_add(entry.left())
        })
    }

    /// Puts a run behind all `unsent` bytes of the stream.
    pub(crate) fn queue(
        &mut self,
        va: u64,
        r_key: u32,
        len: u32,
        inline: u16,
        unsent: u32,
    ) -> Result<RunId, Refused> {
        let id = RunId(self.next_id);
        let mut entry = Entry::new(id, va, r_key, len, inline);
        entry.ahead = unsent.saturating_sub(self.covered());
        self.fifo.push(entry).map_err(|_| Refused::Busy)?;
        self.next_id = self.next_id.wrapping_add(1);
        Ok(id)
    }

    /// The front of a stream with `unsent` bytes.
    pub(crate) fn front(&self, unsent: u32) -> Front {
        for entry in self.fifo.iter() {
            if entry.ahead > 0 {
                return Front::Plain(entry.ahead);
            }
            match entry.state {
                RunState::Through | RunState::Dropped => {}
                RunState::Queued => return Front::Run(entry.left()),
                RunState::Copied => return Front::Plain(entry.left()),
                RunState::Advertised | RunState::Recalled | RunState::Withdrawing => {
                    return Front::Outstanding
                }
            }
        }
        Front::Plain(unsent.saturating_sub(self.covered()))
    }

    /// `len` bytes of what [`front`](Self::front) says were sent.
    pub(crate) fn on_sent(&mut self, len: u32) {
        if len == 0 {
            return;
        }
        for entry in self.fifo.iter_mut() {
            if entry.ahead > 0 {
                entry.ahead = entry.ahead.saturating_sub(len);
                return;
            }
            if !entry.is_gone() {
                entry.on_sent(len);
                return;
            }
        }
    }

    /// The run that can be offered behind those that are outstanding already.
    pub(crate) fn candidate(&self) -> Option<Candidate> {
        let entry = self.next_queued()?;
        Some(Candidate {
            left: entry.left(),
            r_key: entry.r_key,
            va: entry.va,
            inline: entry.inline,
        })
    }

    fn next_queued(&self) -> Option<&Entry> {
        for entry in self.fifo.iter() {
            if entry.ahead > 0 {
                return None;
            }
            match entry.state {
                RunState::Queued => return Some(entry),
                RunState::Copied => return None,
                _ => {}
            }
        }
        None
    }

    /// The SrcAvail of the candidate was posted with `inline` inline bytes.
    pub(crate) fn on_advertised(&mut self, mseq: Mseq, inline: u32) {
        let queued = self
            .fifo
            .iter_mut()
            .find(|entry| entry.state == RunState::Queued);
        if let Some(entry) = queued {
            entry.mseq = mseq;
            if entry.state.on_advertise().is_ok() {
                entry.on_sent(inline);
                self.ever_advertised = true;
                self.progress = true;
            }
        }
    }

    /// Sends the first run as Data, because it cannot be offered.
    pub(crate) fn copy_front(&mut self) {
        if let Some(entry) = self.fifo.iter_mut().find(|entry| !entry.is_gone()) {
            entry.on_copy();
        }
    }

    /// Offers no run that waits for its turn: the rest goes as Data.
    pub(crate) fn copy_queued(&mut self) {
        for entry in self.fifo.iter_mut() {
            entry.on_copy();
        }
    }

    /// The next `len` bytes of a run that goes as Data have left its memory. They are plain bytes in
    /// front of its rest.
    pub(crate) fn on_copied(&mut self, id: RunId, len: u32) -> Result<(), Refused> {
        let entry = self.fifo.iter_mut().find(|entry| entry.id == id);
        let entry = entry.ok_or(Refused::Stale)?;
        if entry.state != RunState::Copied || len > entry.left() {
            return Err(Refused::NotNow);
        }
        entry.ahead = entry.ahead.saturating_add(len);
        entry.on_sent(len);
        Ok(())
    }

    /// How many runs wait to be offered.
    pub(crate) fn queued(&self) -> u8 {
        self.fifo.count(|entry| entry.state == RunState::Queued)
    }

    /// How many SrcAvails the peer may hold.
    pub(crate) fn outstanding(&self) -> u8 {
        self.fifo.count(|entry| entry.state.is_outstanding())
    }

    fn oldest(&mut self) -> Option<&mut Entry> {
        self.fifo
            .iter_mut()
            .find(|entry| entry.state.is_outstanding())
    }

    /// Whether an answer of the sink with this MSeqAck is about outstanding
    /// adverts, not about adverts that have ended.
    ///
    /// rules: READ, SENDSM (stale answers)
    pub(crate) fn is_current(&self, mid: Mid, mseq_ack: Mseq) -> Result<bool, PeerError> {
        if !self.ever_advertised {
            return Err(PeerError::Unsolicited(mid));
        }
        let oldest = self.fifo.iter().find(|entry| entry.state.is_outstanding());
        Ok(oldest.is_some_and(|entry| !entry.mseq.is_after(mseq_ack)))
    }

    /// Whether the peer can have read so much of the oldest SrcAvail.
    pub(crate) fn check_read(&self, len: u32) -> Result<(), PeerError> {
        let oldest = self.fifo.iter().find(|entry| entry.state.is_outstanding());
        match oldest {
            Some(entry) if (1..=entry.left()).contains(&len) => Ok(()),
            _ => Err(PeerError::CompletionLen(Mid::RdmaRdCompl)),
        }
    }

    /// RdmaRdCompl, checked. Returns whether the oldest SrcAvail is done.
    pub(crate) fn on_read(&mut self, len: u32) -> bool {
        self.progress = true;
        let done = self.oldest().is_some_and(|entry| {
            entry.on_read(len);
            entry.is_gone()
        });
        self.resolve();
        done
    }

    /// SendSm, checked. It concerns everything that is outstanding, as bytes
    /// behind a rest can only follow it. Tells of each loss of the stream: how
    /// many bytes, behind how many. Returns whether it was offered for nothing.
    pub(crate) fn on_send_sm(&mut self, lost: impl FnMut(u32, u32)) -> bool {
        let wasted = self.oldest().is_some_and(|entry| entry.is_idle());
        //= spec: SENDSM-1
        self.each(lost, Entry::on_send_sm);
        self.resolve();
        wasted
    }

    /// A valid SinkAvail: everything that is outstanding is void.
    pub(crate) fn on_void(&mut self, lost: impl FnMut(u32, u32)) {
        self.each(lost, Entry::on_void);
        self.resolve();
    }

    /// Takes all advertisements back; the rest goes as Data.
    pub(crate) fn recall(&mut self) {
        //= spec: SRCCANCEL-1
        for entry in self.fifo.iter_mut() {
            entry.on_recall();
        }
        self.want_cancel();
    }

    /// Takes a run and all behind it out of a stream with `unsent` bytes.
    pub(crate) fn withdraw(
        &mut self,
        id: RunId,
        unsent: u32,
        lost: impl FnMut(u32, u32),
    ) -> Result<(), Refused> {
        let mut behind = false;
        let mut found = false;
        for entry in self.fifo.iter() {
            behind |= found && entry.ahead > 0;
            found |= entry.id == id;
        }
        if !found {
            return Err(Refused::Stale);
        }
        if behind || unsent > self.covered() {
            return Err(Refused::BytesBehind);
        }
        let mut reached = false;
        self.each(lost, |entry| {
            reached |= entry.id == id;
            if reached {
                entry.on_withdraw()
            } else {
                0
            }
        });
        let advertised = |entry: &Entry| entry.state == RunState::Withdrawing;
        if self.fifo.iter().any(advertised) {
            self.want_cancel();
        }
        Ok(())
    }

    fn each(&mut self, mut lost: impl FnMut(u32, u32), mut change: impl FnMut(&mut Entry) -> u32) {
        let mut before = 0u32;
        for entry in self.fifo.iter_mut() {
            before = before.saturating_add(entry.ahead);
            lost(change(entry), before);
            before = before.saturating_add(entry.left());
        }
    }

    fn want_cancel(&mut self) {
        if self.outstanding() > 0 && self.cancel.on_wanted().is_ok() {
            self.progress = true;
        }
    }

    fn resolve(&mut self) {
        //= spec: SRCCANCEL-6
        if self.outstanding() == 0 {
            self.cancel.on_resolved().if_legal();
        }
    }

    /// Whether there was progress since the last call.
    pub(crate) fn take_progress(&mut self) -> bool {
        core::mem::take(&mut self.progress)
    }

    /// The connection has ended: returns all runs.
    pub(crate) fn on_over(&mut self) {
        for entry in self.fifo.iter_mut() {
            entry.on_over();
        }
        self.resolve();
    }

    /// The next news for the shell.
    pub(crate) fn next_notice(&mut self) -> Option<Notice> {
        let notice = self.fifo.iter_mut().find_map(Entry::notice);
        self.forget();
        notice
    }

    /// Plain bytes in front of an entry that goes belong to the next one.
    fn forget(&mut self) {
        let mut carried = 0u32;
        for entry in self.fifo.iter_mut() {
            entry.ahead = entry.ahead.saturating_add(carried);
            carried = 0;
            if entry.is_forgotten() {
                carried = core::mem::take(&mut entry.ahead);
            }
        }
        self.fifo.retain(|entry| !entry.is_forgotten());
    }

    /// The invariant of a stream with `unsent` bytes.
    pub(crate) fn is_sound(&self, unsent: u32) -> bool {
        let cancelled = self.cancel != Cancel::No;
        let lonely = cancelled && self.outstanding() == 0;
        let empty = |entry: &Entry| entry.state.is_outstanding() && entry.left() == 0;
        self.covered() <= unsent && !lonely && !self.fifo.iter().any(empty)
    }
}

const _: () = assert!(size_of::<Runs>() <= 40 * ADVERTS_MAX + 8);

#[cfg(test)]
mod tests {
    use super::{Cancel, Candidate, RunState, Runs};
    use crate::engine::types::Mseq;

    /// Runs of these lengths, one behind the other.
    fn runs(lens: &[u32]) -> Runs {
        let mut runs = Runs::new();
        for len in lens {
            let unsent = runs.covered();
            runs.queue(0, 0, *len, 0, unsent).unwrap();
        }
        runs
    }

    #[test]
    fn nothing_is_offered_behind_bytes_that_go_as_data() {
        let mut some = runs(&[10, 20]);
        some.on_advertised(Mseq::new(1), 1);
        let next = Candidate {
            left: 20,
            r_key: 0,
            va: 0,
            inline: 0,
        };
        assert_eq!(some.candidate(), Some(next));
        some.recall();
        some.queue(0, 0, 30, 0, 29).unwrap();
        assert_eq!(some.queued(), 1);
        assert_eq!(some.candidate(), None);
    }

    #[test]
    fn what_cannot_be_is_unsound() {
        let sound = runs(&[10, 20]);
        assert!(sound.is_sound(30));
        assert!(!sound.is_sound(29));
        let mut lonely = sound;
        lonely.cancel = Cancel::Sent;
        assert!(!lonely.is_sound(30));
        let mut empty = runs(&[0]);
        assert!(empty.is_sound(0));
        for entry in empty.fifo.iter_mut() {
            entry.state = RunState::Advertised;
        }
        assert!(!empty.is_sound(0));
    }
}
