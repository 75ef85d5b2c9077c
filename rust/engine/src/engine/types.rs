// SPDX-License-Identifier: GPL-2.0

//! Numbers that must not be confused with each other.

use core::net::IpAddr;

/// Sequence number of a message: counts every SDP message of one direction,
/// modulo 2^32. The Hello and the HelloAck have number 0.
///
/// rules: SEQ
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Mseq(u32);

impl Mseq {
    /// Of the Hello and the HelloAck.
    pub const HELLO: Mseq = Mseq(0);

    /// From the number on the wire.
    pub const fn new(number: u32) -> Self {
        Self(number)
    }

    /// The number on the wire.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// Of the message after this one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.wrapping_add(1))
    }

    /// Of the message before this one.
    #[must_use]
    pub const fn previous(self) -> Self {
        Self(self.0.wrapping_sub(1))
    }

    /// How many messages lie after `earlier`, up to and including this one.
    pub const fn since(self, earlier: Mseq) -> u32 {
        self.0.wrapping_sub(earlier.0)
    }

    /// Whether this message comes after `other`, in the half circle ahead.
    pub const fn is_after(self, other: Mseq) -> bool {
        let ahead = self.since(other);
        ahead != 0 && ahead < 1 << 31
    }
}

/// Names a run of the send stream. Never given twice, as far as a counter of 32
/// bits can tell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RunId(pub(crate) u32);

/// Names a buffer that was offered to the peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SinkId(pub(crate) u32);

/// An address as the Hello carries it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ip {
    /// Four bytes, network order.
    V4([u8; 4]),
    /// Sixteen bytes, network order.
    V6([u8; 16]),
}

impl From<Ip> for IpAddr {
    fn from(ip: Ip) -> Self {
        match ip {
            Ip::V4(ip) => ip.into(),
            Ip::V6(ip) => ip.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Mseq;

    //= test: SEQ-1
    #[test]
    fn sequence_numbers_wrap() {
        let last = Mseq::new(u32::MAX);
        assert_eq!(last.next(), Mseq::HELLO);
        assert_eq!(last.next().next().since(last), 2);
        assert_eq!(Mseq::HELLO.previous(), last);
        assert!(last.next().is_after(last));
        assert!(!last.is_after(last.next()));
        assert!(!last.is_after(last));
    }

    #[test]
    fn the_opposite_point_of_the_circle_is_not_after() {
        assert!(Mseq::new((1 << 31) - 1).is_after(Mseq::HELLO));
        assert!(!Mseq::new(1 << 31).is_after(Mseq::HELLO));
    }
}
