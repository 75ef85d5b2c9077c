// SPDX-License-Identifier: GPL-2.0

//! The buffers that we offer to the peer, to be written: our SinkAvails.
//!
//! rules: SINK, DISCARD, SINKCANCEL

use super::{cancel::Cancel, fifo::Fifo, ADVERTS_MAX};
use crate::engine::{
    error::{PeerError, Refused},
    machine::{IllegalMove, Moved},
    types::SinkId,
    wire::{avail::SinkAvail, Mid},
};

machine! {
    /// Life of one SinkAvail, as its sink sees it.
    pub enum OfferState {
        /// To be sent.
        Offered,
        /// The source may write.
        Outstanding,
        /// As before, and SinkAvailCancel is wanted or sent.
        Cancelling,
        /// Over.
        Ended,
    }

    /// SinkAvail was posted.
    on_sent: Offered => Outstanding;
    /// It is to be taken back.
    on_cancel: Offered => Ended, Outstanding => Cancelling;
    /// The source has written, or a message with payload has used it up, or it
    /// means nothing any more.
    on_end: Offered | Outstanding | Cancelling => Ended;
}

/// How an offer has ended without a byte.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SinkWhy {
    /// It was taken back.
    Cancelled,
    /// Something of the source has crossed it that excludes it: the end of its
    /// stream, a change of the mode, or a SrcAvail in front of it.
    Crossed,
    /// The connection has ended. The peer can write until the queue pair is in its
    /// error state and drained.
    Over,
}

/// How an offer has ended, in the order of the stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SinkEnd {
    /// Which one.
    pub sink: SinkId,
    /// So many bytes of the stream were written to its beginning. With 0 the
    /// payload of the message has used it up.
    pub len: u32,
}

#[derive(Clone, Copy, Debug)]
struct Offer {
    va: u64,
    r_key: u32,
    len: u32,
    id: SinkId,
    state: OfferState,
    why: SinkWhy,
}

impl Offer {
    fn is_sent(&self) -> bool {
        matches!(self.state, OfferState::Outstanding | OfferState::Cancelling)
    }

    fn end(&mut self, why: SinkWhy) {
        if self.state.on_end().is_ok() {
            self.why = why;
        }
    }
}

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offers {
    fifo: Fifo<Offer, ADVERTS_MAX>,
    next_id: u32,
    /// Messages with payload that have not used up a SinkAvail, modulo 2^32.
    non_discards: u32,
    pub(crate) cancel: Cancel,
}

impl Offers {
    pub(crate) fn new() -> Self {
        Self {
            fifo: Fifo::new(),
            next_id: 0,
            non_discards: 0,
            cancel: Cancel::No,
        }
    }

    /// Whether there are no offers, and no cancel of one is to be sent or answered.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.is_clear() && self.cancel == Cancel::No
    }

    /// Whether there are none, not even ended ones.
    pub(crate) fn is_clear(&self) -> bool {
        self.fifo.is_empty()
    }

    pub(crate) fn room(&self) -> u8 {
        self.fifo.room()
    }

    /// How many are not ended.
    pub(crate) fn len(&self) -> u8 {
        self.fifo.count(|offer| offer.state != OfferState::Ended)
    }

    /// How many the source may hold.
    pub(crate) fn outstanding(&self) -> u8 {
        self.fifo.count(Offer::is_sent)
    }

    pub(crate) fn offer(&mut self, va: u64, r_key: u32, len: u32) -> Result<SinkId, Refused> {
        let id = SinkId(self.next_id);
        let pushed = self.fifo.push(Offer {
            va,
            r_key,
            len,
            id,
            state: OfferState::Offered,
            why: SinkWhy::Cancelled,
        });
        pushed.map_err(|_| Refused::Busy)?;
        self.next_id = self.next_id.wrapping_add(1);
        Ok(id)
    }

    /// The SinkAvail to be sent next.
    pub(crate) fn next(&self) -> Option<SinkAvail> {
        let offer = self
            .fifo
            .iter()
            .find(|offer| offer.state == OfferState::Offered)?;
        Some(SinkAvail {
            len: offer.len,
            r_key: offer.r_key,
            va: offer.va,
            non_discards: self.non_discards,
        })
    }

    /// The [`next`](Self::next) one was sent.
    pub(crate) fn on_sent(&mut self) -> Result<(), IllegalMove> {
        self.fifo
            .iter_mut()
            .map(|offer| offer.state.on_sent())
            .find(Result::is_ok)
            .unwrap_or(Err(IllegalMove))
    }

    /// Whether the source can have written so much into the oldest.
    pub(crate) fn check_written(&self, len: u32) -> Result<(), PeerError> {
        match self.fifo.iter().find(|offer| offer.is_sent()) {
            None => Err(PeerError::Unsolicited(Mid::RdmaWrCompl)),
            Some(offer) if (1..=offer.len).contains(&len) => Ok(()),
            Some(_) => Err(PeerError::CompletionLen(Mid::RdmaWrCompl)),
        }
    }

    /// RdmaWrCompl, checked.
    pub(crate) fn on_written(&mut self, len: u32) -> Option<SinkEnd> {
        let sink = self.take(Offer::is_sent)?;
        self.resolve();
        Some(SinkEnd { sink, len })
    }

    /// A message with payload: the oldest that was sent is used up by it, and
    /// counts as discarded; without one, the oldest that waits to be sent would
    /// come too late for its bytes.
    ///
    /// rules: DISCARD
    pub(crate) fn on_payload(&mut self) -> Option<SinkEnd> {
        if let Some(sink) = self.take(Offer::is_sent) {
            self.resolve();
            return Some(SinkEnd { sink, len: 0 });
        }
        self.non_discards = self.non_discards.wrapping_add(1);
        let sink = self.take(|offer| offer.state == OfferState::Offered)?;
        Some(SinkEnd { sink, len: 0 })
    }

    /// Takes the oldest that passes out; the shell learns of it by the message.
    fn take(&mut self, pass: impl Fn(&Offer) -> bool) -> Option<SinkId> {
        let id = self.fifo.iter().find(|offer| pass(offer))?.id;
        self.fifo.retain(|offer| offer.id != id);
        Some(id)
    }

    /// Takes all of them back.
    pub(crate) fn cancel(&mut self) {
        for offer in self.fifo.iter_mut() {
            offer.state.on_cancel().if_legal();
        }
        //= spec: SINKCANCEL-1
        if self.outstanding() > 0 {
            self.cancel.on_wanted().if_legal();
        }
    }

    /// SinkCancelAck.
    pub(crate) fn on_cancel_ack(&mut self) {
        for offer in self.fifo.iter_mut() {
            if offer.is_sent() {
                offer.end(SinkWhy::Cancelled);
            }
        }
        self.resolve();
    }

    /// None of them means anything to the source any more.
    pub(crate) fn end(&mut self, why: SinkWhy) {
        //= spec: SINK-7
        for offer in self.fifo.iter_mut() {
            offer.end(why);
        }
        self.resolve();
    }

    /// Ends offers that were not sent and are shorter than `least`: they would come
    /// too late.
    pub(crate) fn end_unsent(&mut self, least: u32) {
        for offer in self.fifo.iter_mut() {
            if offer.state == OfferState::Offered && offer.len < least {
                offer.end(SinkWhy::Crossed);
            }
        }
    }

    fn resolve(&mut self) {
        //= spec: SINKCANCEL-5
        if self.outstanding() == 0 {
            self.cancel.on_resolved().if_legal();
        }
    }

    /// The next one that has ended without the shell's knowledge.
    pub(crate) fn next_ended(&mut self) -> Option<(SinkId, SinkWhy)> {
        let ended = self
            .fifo
            .iter()
            .find(|offer| offer.state == OfferState::Ended)?;
        let told = (ended.id, ended.why);
        self.fifo.retain(|offer| offer.id != told.0);
        Some(told)
    }

    pub(crate) fn is_sound(&self) -> bool {
        self.cancel == Cancel::No || self.outstanding() > 0
    }
}

const _: () = assert!(size_of::<Offers>() <= 32 * ADVERTS_MAX + 16);

#[cfg(test)]
mod tests {
    use super::{Cancel, Offers, SinkWhy};

    /// Offers of these lengths; the first `sent` were sent.
    fn offers(lens: &[u32], sent: usize) -> Offers {
        let mut offers = Offers::new();
        for len in lens {
            offers.offer(0, 0, *len).unwrap();
        }
        for _ in 0..sent {
            offers.on_sent().unwrap();
        }
        offers
    }

    fn ended(offers: &mut Offers) -> std::vec::Vec<(u32, SinkWhy)> {
        core::iter::from_fn(|| offers.next_ended())
            .map(|(id, why)| (id.0, why))
            .collect()
    }

    #[test]
    fn only_shorter_offers_that_were_not_sent_come_too_late() {
        let mut some = offers(&[10, 20, 21, 19], 1);
        some.end_unsent(20);
        assert_eq!(ended(&mut some), [(3, SinkWhy::Crossed)]);
        assert_eq!((some.len(), some.outstanding()), (3, 1));
        some.end_unsent(u32::MAX);
        assert_eq!(
            ended(&mut some),
            [(1, SinkWhy::Crossed), (2, SinkWhy::Crossed)]
        );
    }

    #[test]
    fn a_cancel_without_an_offer_is_not_sound() {
        let mut some = offers(&[10], 1);
        assert!(some.is_sound());
        some.cancel();
        assert!(some.is_sound() && some.cancel != Cancel::No);
        some.fifo.retain(|_| false);
        assert!(!some.is_sound());
    }
}
