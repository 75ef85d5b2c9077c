// SPDX-License-Identifier: GPL-2.0

//! Why bytes of a send() are copied, although they could go without.

use super::threshold::{is_zcopy, Threshold, LEAST};

/// The first cause that is enough, in this order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause {
    /// Zero copy is off at this end.
    Off,
    /// The administrator excepts the peer.
    Excepted,
    /// The device lacks work requests, or pages in a region.
    Device,
    /// The peer has zero copy off, or takes one offer at a time.
    Peer,
    /// There are fewer bytes than the threshold, one of them is urgent, or they are given as pages.
    Short,
    /// The call may not wait for the peer, and has not lent its memory.
    NoWait,
    /// The memory cannot be pinned, or not for so long.
    Memory,
    /// Regions, or memory that the user may pin, have run out.
    Limit,
    /// The peer takes no offer now: it does not read, or has enough of them.
    Busy,
}

/// The cause for which a new connection has no zero copy. `wants` says whether an end wants it with a
/// peer that is able to take part; `able`: the peer is, for all that is known.
pub fn of_new(wants: impl Fn(bool) -> bool, able: bool, excepted: bool) -> Option<Cause> {
    if !wants(able) {
        Some(if able || !wants(true) {
            Cause::Off
        } else {
            Cause::Peer
        })
    } else {
        excepted.then_some(Cause::Excepted)
    }
}

/// The cause for which a connection copies all that it sends. `made`: it has none since it was made.
///
/// A peer that announces one advertisement has zero copy off, or waits for each of them, so it gets
/// copies unless the program has a threshold of its `own`.
pub fn of_all(
    made: Option<Cause>,
    pipelined: bool,
    own: Option<Threshold>,
    common: Threshold,
) -> Option<Cause> {
    made.or_else(|| match own {
        None if !pipelined => Some(Cause::Peer),
        own => (own.unwrap_or(common) == Threshold::Off).then_some(Cause::Off),
    })
}

/// Whether a send() of so many bytes is copied whatever the threshold is.
pub fn is_always(len: u64) -> bool {
    len < LEAST.into()
}

/// From which length on pieces of a send() of `len` bytes go without a copy. `first` is the length of its
/// first piece.
pub fn least(
    all: Option<Cause>,
    threshold: Threshold,
    len: u64,
    first: u64,
    waits: bool,
) -> Result<u32, Cause> {
    match (all, threshold.least_of(len)) {
        (Some(cause), _) => Err(cause),
        (None, 0) => Err(Cause::Short),
        (None, least) if waits => Ok(least),
        (None, least) if is_zcopy(first, least) => Err(Cause::NoWait),
        (None, _) => Err(Cause::Short),
    }
}

/// The causes of the bytes of one call, one after the other. A piece that was refused is copied in parts,
/// and the last of them are short.
#[derive(Default, Debug)]
pub struct Causes {
    /// The cause of the last refusal, and the bytes of the call that are left behind that piece.
    refused: Option<(Cause, u64)>,
}

impl Causes {
    /// The cause of the next bytes, which are copied for `cause` by themselves. `left` bytes of the call are left,
    /// `piece` of them in this piece.
    pub fn of(&mut self, cause: Cause, left: u64, piece: u64) -> Cause {
        match self.refused {
            Some((refused, end)) if cause == Cause::Short && left > end => refused,
            _ => {
                let is_refusal = cause != Cause::Short;
                self.refused = is_refusal.then(|| (cause, left.saturating_sub(piece)));
                cause
            }
        }
    }

    /// Bytes went without a copy.
    pub fn lent(&mut self) {
        self.refused = None;
    }
}

#[cfg(test)]
mod tests {
    use super::{is_always, least, of_all, of_new, Cause, Causes, Threshold};

    #[test]
    fn a_new_connection_has_one_cause() {
        let (always, never, with_able) = (|_| true, |_| false, |able| able);
        assert_eq!(of_new(always, false, false), None);
        assert_eq!(of_new(always, true, true), Some(Cause::Excepted));
        assert_eq!(of_new(never, true, true), Some(Cause::Off));
        assert_eq!(of_new(never, false, false), Some(Cause::Off));
        assert_eq!(of_new(with_able, false, false), Some(Cause::Peer));
        assert_eq!(of_new(with_able, true, false), None);
    }

    #[test]
    fn a_threshold_of_the_program_is_for_peers_of_one_offer_as_well() {
        let (common, own) = (Threshold::From(8192), Some(Threshold::From(4096)));
        assert_eq!(of_all(None, true, None, common), None);
        assert_eq!(of_all(None, false, None, common), Some(Cause::Peer));
        assert_eq!(of_all(None, false, own, common), None);
        assert_eq!(
            of_all(None, true, Some(Threshold::Off), common),
            Some(Cause::Off)
        );
        assert_eq!(of_all(None, true, None, Threshold::Off), Some(Cause::Off));
        assert_eq!(
            of_all(Some(Cause::Device), true, own, common),
            Some(Cause::Device)
        );
    }

    #[test]
    fn a_short_call_is_short_whether_it_may_wait_or_not() {
        let threshold = Threshold::From(8192);
        let one = |len, waits| least(None, threshold, len, len, waits);
        assert_eq!(one(8191, false), Err(Cause::Short));
        assert_eq!(one(8192, false), Err(Cause::NoWait));
        assert_eq!(one(8192, true), Ok(8192));
        let off = least(Some(Cause::Off), threshold, 1, 1, true);
        assert_eq!(off, Err(Cause::Off));
        // Many short pieces.
        assert_eq!(
            least(None, threshold, 1 << 20, 64, false),
            Err(Cause::Short)
        );
        assert!(is_always(4095) && !is_always(4096));
    }

    #[test]
    fn the_parts_of_a_refused_piece_have_its_cause() {
        let mut causes = Causes::default();
        // Two pieces of 100 bytes, parts of 30.
        assert_eq!(causes.of(Cause::Limit, 200, 100), Cause::Limit);
        assert_eq!(causes.of(Cause::Short, 170, 70), Cause::Limit);
        assert_eq!(causes.of(Cause::Busy, 140, 40), Cause::Busy);
        assert_eq!(causes.of(Cause::Short, 101, 1), Cause::Busy);
        assert_eq!(causes.of(Cause::Short, 100, 100), Cause::Short);
        assert_eq!(causes.of(Cause::Memory, 80, 80), Cause::Memory);
        causes.lent();
        assert_eq!(causes.of(Cause::Short, 10, 10), Cause::Short);
    }
}
