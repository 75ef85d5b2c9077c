// SPDX-License-Identifier: MIT

//! A line of `/proc/net/sdppeers`: an answer of a peer that the namespace remembers. `sdp_chk` uses it, too.

use std::net::IpAddr;

use serde::Serialize;

/// The file, in the namespace of the caller.
pub(crate) const PATH: &str = "/proc/thread-self/net/sdppeers";

const SPEAKS: &str = "sdp";
const SILENT: &str = "silent";

#[derive(Serialize, Debug, PartialEq, Eq)]
pub(crate) struct Peer {
    pub(crate) uid: u32,
    pub(crate) local: IpAddr,
    pub(crate) peer: IpAddr,
    /// [`SPEAKS`] or [`SILENT`].
    pub(crate) answer: String,
    /// How long it counts.
    pub(crate) seconds: u64,
}

impl Peer {
    pub(crate) fn parse(line: &str) -> Option<Self> {
        let mut words = line.split_whitespace();
        let mut next = || words.next();
        let peer = Self {
            uid: next()?.parse().ok()?,
            local: next()?.parse().ok()?,
            peer: next()?.parse().ok()?,
            answer: next()?.to_owned(),
            seconds: next()?.parse().ok()?,
        };
        let is_known = [SPEAKS, SILENT].contains(&peer.answer.as_str());
        (is_known && next().is_none()).then_some(peer)
    }

    pub(crate) fn is_silent(&self) -> bool {
        self.answer == SILENT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read() {
        let found = Peer::parse("1000 10.0.0.1 10.0.0.2 silent 43");
        assert!(found.is_some_and(|p| p.uid == 1000 && p.answer == "silent" && p.seconds == 43));
        assert!(Peer::parse("0 fd00::1 fd00::2 sdp 600").is_some_and(|peer| peer.peer.is_ipv6()));
        for wrong in [
            "",
            "0 10.0.0.1 10.0.0.2 maybe 4",
            "0 10.0.0.1 10.0.0.2 sdp",
            "0 a b sdp 1",
        ] {
            assert_eq!(Peer::parse(wrong), None, "{wrong:?}");
        }
        assert_eq!(Peer::parse("0 10.0.0.1 10.0.0.2 sdp 1 2"), None);
    }
}
