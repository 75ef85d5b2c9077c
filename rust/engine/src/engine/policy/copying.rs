// SPDX-License-Identifier: GPL-2.0

//! Why bytes of a send() are copied, although they could go without.

use super::threshold::{Threshold, LEAST};

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

/// From which length on pieces of a send() of `len` bytes go without a copy.
pub fn least(
    all: Option<Cause>,
    threshold: Threshold,
    len: u64,
    waits: bool,
) -> Result<u32, Cause> {
    match (all, threshold.least_of(len)) {
        (Some(cause), _) => Err(cause),
        (None, 0) => Err(Cause::Short),
        (None, _) if !waits => Err(Cause::NoWait),
        (None, least) => Ok(least),
    }
}

#[cfg(test)]
mod tests {
    use super::{is_always, least, of_all, of_new, Cause, Threshold};

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
        assert_eq!(least(None, threshold, 8191, false), Err(Cause::Short));
        assert_eq!(least(None, threshold, 8192, false), Err(Cause::NoWait));
        assert_eq!(least(None, threshold, 8192, true), Ok(8192));
        assert_eq!(least(Some(Cause::Off), threshold, 1, true), Err(Cause::Off));
        assert!(is_always(4095) && !is_always(4096));
    }
}
