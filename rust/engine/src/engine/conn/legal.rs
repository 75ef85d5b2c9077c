// SPDX-License-Identifier: GPL-2.0

//! Whether a message may come now. Nothing is changed here.
//!
//! rules: HDR, ADVERT, MODE

use super::Connection;
use crate::engine::{
    error::PeerError,
    flow::mode::Modes,
    oob::UrgentNotice,
    wire::{
        avail::SinkAvail,
        mode::{Half, Mode, ModeChange},
        Body, Mid, Repr,
    },
    zcopy::{cancel::Cancel, held},
};

/// The validity of a message, apart from its contents.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Meaning {
    /// Valid as it is.
    Plain,
    /// It was sent before its sender knew of an event that makes it void.
    Void,
}

impl Connection {
    /// Its statements about numbers were checked before.
    pub(super) fn check_legal(&self, repr: &Repr) -> Result<Meaning, PeerError> {
        let mid = repr.body.mid();
        UrgentNotice::check(mid, repr.flags, repr.payload_len > 0)?;
        match repr.body {
            Body::Data if repr.payload_len == 0 => {}
            Body::Data | Body::DisConn => {
                self.received.check_open(mid)?;
                //= spec: DATA-2, SRC-8
                self.held.check_none(mid)?;
            }
            Body::SrcAvail(_) => return self.check_src_avail(repr),
            Body::SrcAvailCancel => {
                self.received.check_open(mid)?;
                self.modes.check_src_adverts(mid)?;
                //= spec: SRCCANCEL-8
                if self.held.is_cancelled() {
                    return Err(PeerError::CancelOutstanding(mid));
                }
            }
            Body::ModeChange(change) => self.check_mode_change(change)?,
            Body::AbortConn => {
                //= spec: ABORT-3
                if !self.received.is_finished() {
                    return Err(PeerError::AbortWithoutDisConn);
                }
            }
            //= spec: RESIZE-3
            Body::ChRcvBuf(_) => self.resize.check_asked()?,
            Body::ChRcvBufAck(size) => self.check_resized(size)?,
            Body::SuspComm(_) => {}
            //= spec: SUSPEND-2
            Body::SuspCommAck => return Err(PeerError::Unsolicited(mid)),
            Body::SendSm => return self.check_answer(repr),
            Body::RdmaRdCompl(len) => return self.check_read_by_peer(repr, len),
            Body::SinkAvail(advert) => self.check_sink_avail(repr, advert)?,
            Body::SinkAvailCancel => {
                self.check_announced(mid)?;
                self.modes.check_sink_adverts(mid)?;
                //= spec: SINKCANCEL-7
                if self.targets.is_cancelling() {
                    return Err(PeerError::CancelOutstanding(mid));
                }
            }
            Body::SinkCancelAck => {
                self.check_announced(mid)?;
                self.received.check_open(mid)?;
                self.modes.check_sink_answers(mid)?;
                //= spec: SINKCANCEL-6
                if self.offers.cancel != Cancel::Sent {
                    return Err(PeerError::Unsolicited(mid));
                }
            }
            Body::RdmaWrCompl(len) => {
                self.check_announced(mid)?;
                self.received.check_open(mid)?;
                self.modes.check_sink_answers(mid)?;
                //= spec: SINK-5
                self.offers.check_written(len)?;
            }
            //= spec: EST-3
            Body::Handshake(_) => return Err(PeerError::HandshakeRepeated(mid)),
            // Nothing that is known stands against it.
            Body::Unknown(_) => {}
        }
        Ok(Meaning::Plain)
    }

    /// Messages of Pipelined mode need more than one advert.
    fn check_announced(&self, mid: Mid) -> Result<(), PeerError> {
        //= spec: ADVERT-5
        if self.cfg.max_adverts <= 1 {
            return Err(PeerError::NotAnnounced(mid));
        }
        Ok(())
    }

    //= spec: ADVERT-1
    fn check_advert_room(&self, mid: Mid) -> Result<(), PeerError> {
        let held = self.held.len().saturating_add(self.targets.len());
        if held >= self.cfg.max_adverts {
            return Err(PeerError::TooManyAdverts(mid));
        }
        Ok(())
    }

    fn check_src_avail(&self, repr: &Repr) -> Result<Meaning, PeerError> {
        let Body::SrcAvail(advert) = repr.body else {
            return Ok(Meaning::Plain);
        };
        let mid = Mid::SrcAvail;
        self.received.check_open(mid)?;
        self.held.check(
            self.modes.receive(),
            advert,
            repr.payload_len,
            repr.mseq_ack,
        )?;
        // It was sent before our SendSm was known, or crosses a SinkAvail.
        //= spec: CROSS-1
        if self.held.is_void(repr.mseq_ack) || self.offers.outstanding() > 0 {
            return Ok(Meaning::Void);
        }
        self.check_advert_room(mid)?;
        Ok(Meaning::Plain)
    }

    fn check_sink_avail(&self, repr: &Repr, advert: SinkAvail) -> Result<(), PeerError> {
        let mid = Mid::SinkAvail;
        self.check_announced(mid)?;
        self.modes.check_sink_adverts(mid)?;
        held::check_range(mid, advert.va, advert.len)?;
        //= spec: SINK-2
        if advert.len < self.max_payload {
            return Err(PeerError::SinkAvailLen);
        }
        if repr.payload_len > 0 {
            // Bytes of the peer's own direction.
            self.received.check_open(mid)?;
            self.held.check_none(mid)?;
        }
        self.check_advert_room(mid)
    }

    /// rules: READ, SENDSM (stale answers)
    fn check_answer(&self, repr: &Repr) -> Result<Meaning, PeerError> {
        //= spec: SENDSM-3
        //= spec: SENDSM-6
        Ok(if self.runs.is_current(repr.body.mid(), repr.mseq_ack)? {
            Meaning::Plain
        } else {
            Meaning::Void
        })
    }

    fn check_read_by_peer(&self, repr: &Repr, len: u32) -> Result<Meaning, PeerError> {
        //= spec: READ-4
        let meaning = self.check_answer(repr)?;
        if meaning == Meaning::Plain {
            //= spec: READ-3
            self.runs.check_read(len)?;
        } else if len == 0 {
            return Err(PeerError::CompletionLen(Mid::RdmaRdCompl));
        }
        Ok(meaning)
    }

    fn check_mode_change(&self, change: ModeChange) -> Result<(), PeerError> {
        let mid = Mid::ModeChange;
        if change.half == Half::Receive {
            //= spec: CLOSE-3
            self.received.check_open(mid)?;
        }
        self.changed_modes(change)?;
        match (change.half, change.mode) {
            //= spec: MODE-3
            (Half::Receive, Mode::Buffered) => self.held.check_none(mid),
            // Bytes that were read and not reported could be sent twice.
            //= spec: MODE-6
            (Half::Receive, Mode::Combined) if !self.held.is_untouched() => {
                Err(PeerError::PartlyRead)
            }
            _ => Ok(()),
        }
    }

    /// The modes as the peer changes them.
    pub(super) fn changed_modes(&self, change: ModeChange) -> Result<Modes, PeerError> {
        let mut modes = self.modes;
        modes.on_mode_change(change, self.cfg.max_adverts > 1)?;
        Ok(modes)
    }
}
