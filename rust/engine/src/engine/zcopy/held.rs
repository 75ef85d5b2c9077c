// SPDX-License-Identifier: GPL-2.0

//! The SrcAvails of the peer: read, declined, or taken back by it.
//!
//! rules: SRC, READ, SENDSM, SRCCANCEL

use super::{fifo::Fifo, ADVERTS_MAX};
use crate::engine::{
    error::{PeerError, Refused},
    machine::{IllegalMove, Moved},
    types::Mseq,
    wire::{avail::SrcAvail, mode::Mode, Mid},
};
use core::num::NonZeroU32;

/// The most RDMA Reads that are ever in flight.
pub(crate) const READS_MAX: usize = 8;

machine! {
    /// The state of all SrcAvails that the sink holds.
    pub enum Hold {
        /// There is none.
        Empty,
        /// They may be read.
        Held,
        /// No Read is begun any more; SendSm follows.
        Declining,
        /// The source has taken them back. No Read is begun any more; SendSm
        /// follows, if anything is left.
        Cancelled,
    }

    /// One has come.
    on_src_avail: Empty | Held => Held, Declining => Declining;
    /// The rest is to come as Data.
    on_decline: Held => Declining;
    /// SrcAvailCancel has come.
    on_cancel: Empty => Empty, Held | Declining => Cancelled;
    /// RdmaRdCompl for the last one was sent.
    on_all_read: Held | Declining | Cancelled => Empty;
    /// SendSm was sent.
    on_send_sm: Declining | Cancelled => Empty;
}

/// One SrcAvail.
#[derive(Clone, Copy, Debug)]
struct Advert {
    /// Of the first byte that no Read was begun for.
    va: u64,
    r_key: u32,
    /// Bytes that no Read was begun for.
    left: u32,
    /// Bytes that Reads in flight fetch.
    in_flight: u32,
    /// Bytes that were read and not reported.
    fetched: u32,
    /// Inline bytes at its beginning.
    inline: u32,
    /// A Read was begun.
    begun: bool,
}

impl Advert {
    fn is_read(&self) -> bool {
        self.left == 0 && self.in_flight == 0
    }
}

/// Bytes in the peer's memory that one RDMA Read may fetch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Remote {
    /// Key of the memory.
    pub r_key: u32,
    /// Address of the first byte.
    pub va: u64,
    /// How many.
    pub len: u32,
    /// So many bytes right before them belong to the same buffer and came
    /// inline. A Read may begin there instead, for the sake of alignment; they
    /// count for nothing.
    pub inline: u32,
}

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    state: Hold,
    fifo: Fifo<Advert, ADVERTS_MAX>,
    /// Lengths of the Reads in flight.
    reads: Fifo<NonZeroU32, READS_MAX>,
    /// Our last SendSm, until the peer has acknowledged it. Memory that the source
    /// has advertised before it knew is void.
    declined_at: Option<Mseq>,
}

impl Held {
    pub(crate) fn new() -> Self {
        Self {
            state: Hold::Empty,
            fifo: Fifo::new(),
            reads: Fifo::new(),
            declined_at: None,
        }
    }

    pub(crate) fn len(&self) -> u8 {
        self.fifo.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.state == Hold::Empty
    }

    pub(crate) fn is_declining(&self) -> bool {
        self.state == Hold::Declining
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.state == Hold::Cancelled
    }

    pub(crate) fn reads(&self) -> u8 {
        self.reads.len()
    }

    /// While one is outstanding its source may send no stream bytes and not the
    /// end of the stream.
    pub(crate) fn check_none(&self, mid: Mid) -> Result<(), PeerError> {
        if self.state != Hold::Empty {
            return Err(PeerError::SrcAvailOutstanding(mid));
        }
        Ok(())
    }

    /// Whether a SrcAvail was sent before its source knew of our SendSm.
    pub(crate) fn is_void(&self, mseq_ack: Mseq) -> bool {
        self.declined_at.is_some_and(|at| at.is_after(mseq_ack))
    }

    /// Whether this SrcAvail is legal in this mode, with this number of inline
    /// bytes.
    pub(crate) fn check(
        &self,
        mode: Mode,
        advert: SrcAvail,
        payload_len: u32,
        mseq_ack: Mseq,
    ) -> Result<(), PeerError> {
        match mode {
            //= spec: MODE-5
            Mode::Buffered => return Err(PeerError::ModeForbids(Mid::SrcAvail)),
            Mode::Combined => {
                //= spec: ADVERT-2
                if self.state != Hold::Empty || self.is_void(mseq_ack) {
                    return Err(PeerError::SrcAvailOutstanding(Mid::SrcAvail));
                }
                // rules: SRC (some bytes are inline, but not all)
                //= spec: SRC-2
                if payload_len == 0 || payload_len >= advert.len {
                    return Err(PeerError::SrcAvailInline);
                }
            }
            Mode::Pipelined => {
                //= spec: SRC-5
                if self.state == Hold::Cancelled {
                    return Err(PeerError::CancelOutstanding(Mid::SrcAvail));
                }
                //= spec: SRC-3
                if payload_len > 0 {
                    return Err(PeerError::SrcAvailPayload);
                }
            }
        }
        check_range(Mid::SrcAvail, advert.va, advert.len)
    }

    /// A SrcAvail that was checked, for which there is room.
    pub(crate) fn on_src_avail(
        &mut self,
        advert: SrcAvail,
        inline: u32,
    ) -> Result<(), IllegalMove> {
        let pushed = self.fifo.push(Advert {
            va: advert.va.wrapping_add(inline.into()),
            r_key: advert.r_key,
            left: advert.len.saturating_sub(inline),
            in_flight: 0,
            fetched: 0,
            inline,
            begun: false,
        });
        pushed.map_err(|_| IllegalMove)?;
        self.state.on_src_avail()
    }

    /// Bytes that Reads may still be begun for.
    pub(crate) fn remote_len(&self) -> u64 {
        if self.state != Hold::Held {
            return 0;
        }
        self.fifo.sum(|advert| advert.left)
    }

    /// Bytes at the beginning of these for which Reads can be begun now, with at most `depth` in
    /// flight: one Read for each SrcAvail.
    pub(crate) fn reach(&self, depth: u8) -> u64 {
        if self.state != Hold::Held {
            return 0;
        }
        let most = usize::from(depth).min(READS_MAX);
        let free = most.saturating_sub(self.reads.len().into());
        let open = self.fifo.iter().filter(|advert| advert.left > 0);
        open.take(free)
            .fold(0, |sum, advert| sum.saturating_add(advert.left.into()))
    }

    pub(crate) fn next_remote(&self) -> Option<Remote> {
        //= spec: CROSS-3, CLOSE-10, SRCCANCEL-5
        if self.state != Hold::Held {
            return None;
        }
        let advert = self.fifo.iter().find(|advert| advert.left > 0)?;
        Some(Remote {
            r_key: advert.r_key,
            va: advert.va,
            len: advert.left,
            inline: if advert.begun { 0 } else { advert.inline },
        })
    }

    /// Begins two Reads, of the next `first` bytes and of the `second` ones behind them, all of one
    /// SrcAvail. They may complete in either order: as long as one of them is in flight, none of
    /// their bytes is reported, and afterwards all are.
    pub(crate) fn start_split_read(
        &mut self,
        first: u32,
        second: u32,
        depth: u8,
    ) -> Result<(Remote, Remote), Refused> {
        let left = self.next_remote().ok_or(Refused::Nothing)?.len;
        let both = first.checked_add(second);
        if first == 0 || second == 0 || both.is_none_or(|both| both > left) {
            return Err(Refused::BadRange);
        }
        let most = usize::from(depth).min(READS_MAX);
        if usize::from(self.reads.len()).saturating_add(2) > most {
            return Err(Refused::Busy);
        }
        let front = self.start_read(first, depth)?;
        Ok((front, self.start_read(second, depth)?))
    }

    /// Begins a Read of the next bytes, at most `max`.
    pub(crate) fn start_read(&mut self, max: u32, depth: u8) -> Result<Remote, Refused> {
        let remote = self.next_remote().ok_or(Refused::Nothing)?;
        let len = NonZeroU32::new(remote.len.min(max)).ok_or(Refused::BadRange)?;
        //= spec: MR-4
        if self.reads.len() >= depth || self.reads.push(len).is_err() {
            return Err(Refused::Busy);
        }
        let len = len.get();
        if let Some(advert) = self.fifo.iter_mut().find(|advert| advert.left > 0) {
            //= spec: SRC-4, MR-3
            advert.left = advert.left.saturating_sub(len);
            advert.va = advert.va.wrapping_add(len.into());
            advert.in_flight = advert.in_flight.saturating_add(len);
            advert.begun = true;
        }
        Ok(Remote { len, ..remote })
    }

    /// The oldest Read has completed. Returns its length.
    pub(crate) fn on_read_completed(&mut self) -> u32 {
        let len = self.reads.pop().map_or(0, NonZeroU32::get);
        if let Some(advert) = self.fifo.iter_mut().find(|advert| advert.in_flight > 0) {
            advert.in_flight = advert.in_flight.saturating_sub(len);
            //= spec: READ-1
            advert.fetched = advert.fetched.saturating_add(len);
        }
        len
    }

    pub(crate) fn decline(&mut self) {
        self.state.on_decline().if_legal();
    }

    /// SrcAvailCancel, while no other one is being dealt with.
    pub(crate) fn on_cancel(&mut self) -> Result<(), IllegalMove> {
        //= spec: SRCCANCEL-2
        self.state.on_cancel()
    }

    /// The next RdmaRdCompl that is due: for the whole of the oldest, or for a
    /// part of it, before SendSm or when there are `least` bytes to report.
    ///
    /// rules: READ
    pub(crate) fn report(&self, least: u32) -> Option<u32> {
        let advert = self.fifo.first()?;
        if advert.fetched == 0 {
            return None;
        }
        let idle = self.reads.is_empty();
        let leaving = matches!(self.state, Hold::Declining | Hold::Cancelled);
        //= spec: SRCCANCEL-4
        let due = advert.is_read() || idle && (leaving || advert.fetched >= least);
        due.then_some(advert.fetched)
    }

    /// RdmaRdCompl was sent for the result of [`report`](Self::report).
    pub(crate) fn on_reported(&mut self) -> Result<(), IllegalMove> {
        if let Some(advert) = self.fifo.first_mut() {
            advert.fetched = 0;
            if advert.is_read() {
                self.fifo.pop();
            }
        }
        if self.fifo.is_empty() {
            self.state.on_all_read()?;
        }
        Ok(())
    }

    /// Whether SendSm is due now: all bytes read were reported, and some bytes are
    /// left.
    pub(crate) fn wants_send_sm(&self) -> bool {
        let leaving = matches!(self.state, Hold::Declining | Hold::Cancelled);
        leaving && self.reads.is_empty() && self.report(1).is_none()
    }

    /// SendSm was sent with this number.
    pub(crate) fn on_send_sm(&mut self, mseq: Mseq) {
        //= spec: SENDSM-4, SRCCANCEL-3
        if self.state.on_send_sm().is_ok() {
            self.fifo.clear();
            self.declined_at = Some(mseq);
        }
    }

    /// The peer has acknowledged messages up to `mseq_ack`.
    pub(crate) fn on_acked(&mut self, mseq_ack: Mseq) {
        if !self.is_void(mseq_ack) {
            self.declined_at = None;
        }
    }

    /// Whether no byte of the adverts was read.
    pub(crate) fn is_untouched(&self) -> bool {
        self.fifo
            .iter()
            .all(|advert| advert.in_flight == 0 && advert.fetched == 0)
    }

    /// The source has left Pipelined mode, or the connection has ended: drops all
    /// adverts.
    pub(crate) fn forget(&mut self) {
        self.fifo.clear();
        self.state = Hold::Empty;
    }

    pub(crate) fn is_sound(&self) -> bool {
        let in_flight = self.fifo.sum(|advert| advert.in_flight);
        let reads = self.reads.sum(|len| len.get());
        self.fifo.is_empty() == (self.state == Hold::Empty) && in_flight <= reads
    }
}

/// A buffer that is empty or reaches past the end of the address space is none.
pub(crate) fn check_range(mid: Mid, va: u64, len: u32) -> Result<(), PeerError> {
    //= spec: ADVERT-6
    if len == 0 || va.checked_add(len.into()).is_none() {
        return Err(PeerError::AdvertRange(mid));
    }
    Ok(())
}

const _: () = assert!(size_of::<Held>() <= 32 * ADVERTS_MAX + 4 * READS_MAX + 16);

#[cfg(test)]
mod tests {
    use super::{Held, Hold};
    use crate::engine::{types::Mseq, wire::avail::SrcAvail};
    use std::vec::Vec;

    /// With so many adverts of 100 bytes.
    fn held(adverts: u8) -> Held {
        let mut held = Held::new();
        for key in 0..adverts {
            let advert = SrcAvail {
                len: 100,
                r_key: key.into(),
                va: 0,
            };
            held.on_src_avail(advert, 0).unwrap();
        }
        held
    }

    //= test: READ-1
    #[test]
    fn a_read_counts_for_the_advert_that_it_was_begun_for() {
        let mut held = held(2);
        held.start_read(100, 4).unwrap();
        assert_eq!(held.on_read_completed(), 100);
        // The first is read and not told, as when credits are missing.
        held.start_read(40, 4).unwrap();
        assert_eq!(held.on_read_completed(), 40);
        let fetched: Vec<u32> = held.fifo.iter().map(|advert| advert.fetched).collect();
        assert_eq!(fetched, [100, 40]);
    }

    //= test: SENDSM-4
    #[test]
    fn what_was_sent_before_our_send_sm_was_known_is_void_until_it_is_known() {
        let mut held = held(1);
        held.decline();
        held.on_send_sm(Mseq::new(5));
        held.on_acked(Mseq::new(4));
        assert!(held.is_void(Mseq::new(4)));
        assert!(!held.is_void(Mseq::new(5)));
        held.on_acked(Mseq::new(5));
        assert!(!held.is_void(Mseq::new(4)));
    }

    #[test]
    fn what_cannot_be_is_unsound() {
        assert!(held(0).is_sound() && held(2).is_sound());
        let mut nothing = held(0);
        nothing.state = Hold::Held;
        assert!(!nothing.is_sound());
        let mut reading = held(1);
        for advert in reading.fifo.iter_mut() {
            advert.in_flight = 1;
        }
        assert!(!reading.is_sound());
    }
}
