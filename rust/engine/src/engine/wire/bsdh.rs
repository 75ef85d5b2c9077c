// SPDX-License-Identifier: GPL-2.0

//! The Base Sockets Direct Header, the first 16 bytes of every message.
//!
//! rules: HDR

use super::{
    bytes::{Reader, Writer},
    Mid,
};
use crate::engine::{error::PeerError, types::Mseq};

/// Length of a BSDH.
pub const BSDH_LEN: usize = 16;

/// The flags of a BSDH.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Flags {
    /// The last payload byte is the urgent one.
    pub oob_pres: bool,
    /// An urgent byte will follow.
    pub oob_pend: bool,
    /// The sender, as a sink, would like Pipelined mode.
    pub req_pipe: bool,
}

impl Flags {
    const OOB_PRES: u8 = 1;
    const OOB_PEND: u8 = 1 << 1;
    const REQ_PIPE: u8 = 1 << 2;

    /// Bits that mean nothing are not looked at.
    //= spec: HDR-4
    fn from_wire(byte: u8) -> Self {
        Self {
            oob_pres: byte & Self::OOB_PRES != 0,
            oob_pend: byte & Self::OOB_PEND != 0,
            req_pipe: byte & Self::REQ_PIPE != 0,
        }
    }

    fn to_wire(self) -> u8 {
        let flag = |set: bool, bit: u8| if set { bit } else { 0 };
        flag(self.oob_pres, Self::OOB_PRES)
            | flag(self.oob_pend, Self::OOB_PEND)
            | flag(self.req_pipe, Self::REQ_PIPE)
    }
}

/// A decoded BSDH.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bsdh {
    /// Kind of the message.
    pub mid: Mid,
    /// Its flags.
    pub flags: Flags,
    /// Receive buffers that the sender has posted.
    pub bufs: u16,
    /// Length of the whole message.
    pub len: u32,
    /// Number of the message.
    pub mseq: Mseq,
    /// Number of the last message that the sender has received.
    pub mseq_ack: Mseq,
}

impl Bsdh {
    /// Reads the first 16 bytes of `bytes`.
    pub fn parse(bytes: &[u8]) -> Result<Bsdh, PeerError> {
        let mut reader = Reader::new(bytes);
        let mut fields = || {
            Some((
                reader.u8()?,
                reader.u8()?,
                reader.u16()?,
                reader.u32()?,
                reader.u32()?,
                reader.u32()?,
            ))
        };
        //= spec: HDR-1
        let (mid, flags, bufs, len, mseq, mseq_ack) = fields().ok_or(PeerError::Truncated)?;
        Ok(Bsdh {
            mid: Mid::from_wire(mid),
            flags: Flags::from_wire(flags),
            bufs,
            len,
            mseq: Mseq::new(mseq),
            mseq_ack: Mseq::new(mseq_ack),
        })
    }

    pub(super) fn put<const CAP: usize>(&self, to: &mut Writer<CAP>) {
        to.put([self.mid.to_wire()])
            .put([self.flags.to_wire()])
            .put(self.bufs.to_be_bytes())
            .put(self.len.to_be_bytes())
            .put(self.mseq.get().to_be_bytes())
            .put(self.mseq_ack.get().to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::{Bsdh, Flags};
    use crate::engine::error::PeerError;

    //= test: HDR-4
    #[test]
    fn a_reserved_flag_means_nothing() {
        for flags in 0..8 {
            let with = |flags| Bsdh::parse(&[0, flags, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
            assert_eq!(with(flags | 0xf8), with(flags));
        }
    }

    #[test]
    fn flags_round_trip() {
        for byte in 0..8 {
            assert_eq!(Flags::from_wire(byte).to_wire(), byte);
        }
    }

    #[test]
    fn fifteen_bytes_are_no_header() {
        assert_eq!(Bsdh::parse(&[0xff; 15]), Err(PeerError::Truncated));
    }
}
