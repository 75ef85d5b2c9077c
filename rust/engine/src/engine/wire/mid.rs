// SPDX-License-Identifier: GPL-2.0

//! The kinds of messages.
//!
//! rules: HDR

/// Message id, the first byte of every message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mid {
    /// 0x00, opens a connection, in the CM REQ.
    Hello,
    /// 0x01, accepts it, in the CM REP.
    HelloAck,
    /// 0x02, end of the sender's byte stream.
    DisConn,
    /// 0x03, abort by a side that has sent DisConn.
    AbortConn,
    /// 0x04, sink asks for the rest of an advertised buffer as Data.
    SendSm,
    /// 0x05, source has written into the sink's buffer.
    RdmaWrCompl,
    /// 0x06, sink has read from the source's buffer.
    RdmaRdCompl,
    /// 0x07, changes the mode of one direction.
    ModeChange,
    /// 0x08, source takes its advertisements back.
    SrcAvailCancel,
    /// 0x09, sink takes its advertisements back.
    SinkAvailCancel,
    /// 0x0A, source has dropped the sink's advertisements.
    SinkCancelAck,
    /// 0x0B, asks for another size of receive buffers.
    ChRcvBuf,
    /// 0x0C, says the size of receive buffers.
    ChRcvBufAck,
    /// 0x0D, asks to suspend the connection.
    SuspComm,
    /// 0x0E, has suspended the connection.
    SuspCommAck,
    /// 0xFD, sink advertises a buffer.
    SinkAvail,
    /// 0xFE, source advertises a buffer.
    SrcAvail,
    /// 0xFF, bytes of the stream; without payload a credit update.
    Data,
    /// Any other value.
    Unknown(u8),
}

impl Mid {
    /// Every known kind, in the order of the ids.
    #[allow(dead_code, reason = "for tests and simulations")]
    pub const KNOWN: [Mid; 18] = [
        Mid::Hello,
        Mid::HelloAck,
        Mid::DisConn,
        Mid::AbortConn,
        Mid::SendSm,
        Mid::RdmaWrCompl,
        Mid::RdmaRdCompl,
        Mid::ModeChange,
        Mid::SrcAvailCancel,
        Mid::SinkAvailCancel,
        Mid::SinkCancelAck,
        Mid::ChRcvBuf,
        Mid::ChRcvBufAck,
        Mid::SuspComm,
        Mid::SuspCommAck,
        Mid::SinkAvail,
        Mid::SrcAvail,
        Mid::Data,
    ];

    /// From the byte on the wire.
    pub const fn from_wire(id: u8) -> Mid {
        match id {
            0x00 => Mid::Hello,
            0x01 => Mid::HelloAck,
            0x02 => Mid::DisConn,
            0x03 => Mid::AbortConn,
            0x04 => Mid::SendSm,
            0x05 => Mid::RdmaWrCompl,
            0x06 => Mid::RdmaRdCompl,
            0x07 => Mid::ModeChange,
            0x08 => Mid::SrcAvailCancel,
            0x09 => Mid::SinkAvailCancel,
            0x0a => Mid::SinkCancelAck,
            0x0b => Mid::ChRcvBuf,
            0x0c => Mid::ChRcvBufAck,
            0x0d => Mid::SuspComm,
            0x0e => Mid::SuspCommAck,
            0xfd => Mid::SinkAvail,
            0xfe => Mid::SrcAvail,
            0xff => Mid::Data,
            other => Mid::Unknown(other),
        }
    }

    /// The byte on the wire.
    pub const fn to_wire(self) -> u8 {
        match self {
            Mid::Hello => 0x00,
            Mid::HelloAck => 0x01,
            Mid::DisConn => 0x02,
            Mid::AbortConn => 0x03,
            Mid::SendSm => 0x04,
            Mid::RdmaWrCompl => 0x05,
            Mid::RdmaRdCompl => 0x06,
            Mid::ModeChange => 0x07,
            Mid::SrcAvailCancel => 0x08,
            Mid::SinkAvailCancel => 0x09,
            Mid::SinkCancelAck => 0x0a,
            Mid::ChRcvBuf => 0x0b,
            Mid::ChRcvBufAck => 0x0c,
            Mid::SuspComm => 0x0d,
            Mid::SuspCommAck => 0x0e,
            Mid::SinkAvail => 0xfd,
            Mid::SrcAvail => 0xfe,
            Mid::Data => 0xff,
            Mid::Unknown(other) => other,
        }
    }

    /// Whether the message may carry payload.
    pub(crate) const fn carries_payload(self) -> bool {
        matches!(
            self,
            Mid::SinkAvail | Mid::SrcAvail | Mid::Data | Mid::Unknown(_)
        )
    }

    /// Whether the peer is woken up for it when it waits for solicited events
    /// only. Data is solicited for an urgent byte alone, which is not known
    /// here.
    ///
    /// rules: HDR
    //= spec: HDR-11
    pub(crate) const fn is_solicited(self) -> bool {
        match self {
            Mid::AbortConn
            | Mid::SendSm
            | Mid::RdmaWrCompl
            | Mid::RdmaRdCompl
            | Mid::ModeChange
            | Mid::SrcAvailCancel
            | Mid::SinkAvailCancel
            | Mid::SinkCancelAck => true,
            Mid::Hello
            | Mid::HelloAck
            | Mid::DisConn
            | Mid::ChRcvBuf
            | Mid::ChRcvBufAck
            | Mid::SuspComm
            | Mid::SuspCommAck
            | Mid::SinkAvail
            | Mid::SrcAvail
            | Mid::Data
            | Mid::Unknown(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Mid;

    #[test]
    fn every_byte_survives_the_way_through_a_mid() {
        for id in 0..=u8::MAX {
            let mid = Mid::from_wire(id);
            assert_eq!(mid.to_wire(), id);
            assert_eq!(!matches!(mid, Mid::Unknown(_)), Mid::KNOWN.contains(&mid));
        }
    }
}
