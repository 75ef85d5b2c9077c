// SPDX-License-Identifier: GPL-2.0

//! Messages as values.
//!
//! rules: HDR

use super::{
    avail::{SinkAvail, SrcAvail, SINK_AVAIL_LEN, SRC_AVAIL_LEN},
    bytes::{Reader, Writer},
    mode::ModeChange,
    Bsdh, Flags, Header, Message, Mid, BSDH_LEN,
};
use crate::engine::{error::PeerError, types::Mseq};

/// The contents of a message beside the base header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Body {
    /// End of the sender's byte stream.
    DisConn,
    /// Abort by a side that has sent DisConn.
    AbortConn,
    /// Send the rest as Data.
    SendSm,
    /// This many bytes were written into the sink's buffer.
    RdmaWrCompl(u32),
    /// This many bytes were read from the source's buffer.
    RdmaRdCompl(u32),
    /// The mode of a half changes.
    ModeChange(ModeChange),
    /// The source takes its advertisements back.
    SrcAvailCancel,
    /// The sink takes its advertisements back.
    SinkAvailCancel,
    /// The source has dropped the sink's advertisements.
    SinkCancelAck,
    /// Wanted size of the receiver's buffers.
    ChRcvBuf(u32),
    /// Actual size of the sender's buffers.
    ChRcvBufAck(u32),
    /// Suspend; the connection goes on at this service id.
    SuspComm(u64),
    /// Suspended.
    SuspCommAck,
    /// The sink advertises a buffer.
    SinkAvail(SinkAvail),
    /// The source advertises a buffer.
    SrcAvail(SrcAvail),
    /// Bytes of the stream.
    Data,
    /// A handshake message where it does not belong.
    Handshake(Mid),
    /// A message of a kind that is not known, of this id.
    Unknown(u8),
}

impl Body {
    /// The kind.
    pub const fn mid(&self) -> Mid {
        match self {
            Body::DisConn => Mid::DisConn,
            Body::AbortConn => Mid::AbortConn,
            Body::SendSm => Mid::SendSm,
            Body::RdmaWrCompl(_) => Mid::RdmaWrCompl,
            Body::RdmaRdCompl(_) => Mid::RdmaRdCompl,
            Body::ModeChange(_) => Mid::ModeChange,
            Body::SrcAvailCancel => Mid::SrcAvailCancel,
            Body::SinkAvailCancel => Mid::SinkAvailCancel,
            Body::SinkCancelAck => Mid::SinkCancelAck,
            Body::ChRcvBuf(_) => Mid::ChRcvBuf,
            Body::ChRcvBufAck(_) => Mid::ChRcvBufAck,
            Body::SuspComm(_) => Mid::SuspComm,
            Body::SuspCommAck => Mid::SuspCommAck,
            Body::SinkAvail(_) => Mid::SinkAvail,
            Body::SrcAvail(_) => Mid::SrcAvail,
            Body::Data => Mid::Data,
            Body::Handshake(mid) => *mid,
            Body::Unknown(id) => Mid::Unknown(*id),
        }
    }

    /// Length of the extended header.
    pub const fn extended_len(&self) -> u8 {
        match self {
            Body::DisConn
            | Body::AbortConn
            | Body::SendSm
            | Body::SrcAvailCancel
            | Body::SinkAvailCancel
            | Body::SinkCancelAck
            | Body::SuspCommAck
            | Body::Data
            | Body::Handshake(_)
            | Body::Unknown(_) => 0,
            Body::RdmaWrCompl(_)
            | Body::RdmaRdCompl(_)
            | Body::ModeChange(_)
            | Body::ChRcvBuf(_)
            | Body::ChRcvBufAck(_) => 4,
            Body::SuspComm(_) => 8,
            Body::SrcAvail(_) => 16,
            Body::SinkAvail(_) => 20,
        }
    }
}

const _: () = assert!(SRC_AVAIL_LEN == 16 && SINK_AVAIL_LEN == 20);

/// One message as a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Repr {
    /// Flags of the base header.
    pub flags: Flags,
    /// Receive buffers that the sender has posted.
    pub bufs: u16,
    /// Number of this message.
    pub mseq: Mseq,
    /// Number of the last message that the sender has received.
    pub mseq_ack: Mseq,
    /// Its body.
    pub body: Body,
    /// Payload bytes after the headers.
    pub payload_len: u32,
}

impl Repr {
    /// Reads the extended header and finds where payload begins.
    pub fn parse(message: &Message<'_>) -> Result<Self, PeerError> {
        let bsdh = message.bsdh();
        let mut reader = Reader::new(message.rest());
        let body = Self::body(bsdh.mid, &mut reader)?;
        let base = BSDH_LEN_U32.saturating_add(u32::from(body.extended_len()));
        //= spec: HDR-5
        let payload_len = bsdh.len.checked_sub(base).ok_or(PeerError::Truncated)?;
        //= spec: HDR-6
        if payload_len > 0 && !bsdh.mid.carries_payload() {
            return Err(PeerError::PayloadNotAllowed(bsdh.mid));
        }
        Ok(Self {
            flags: bsdh.flags,
            bufs: bsdh.bufs,
            mseq: bsdh.mseq,
            mseq_ack: bsdh.mseq_ack,
            body,
            payload_len,
        })
    }

    fn body(mid: Mid, reader: &mut Reader<'_>) -> Result<Body, PeerError> {
        let truncated = PeerError::Truncated;
        Ok(match mid {
            Mid::Hello | Mid::HelloAck => Body::Handshake(mid),
            Mid::DisConn => Body::DisConn,
            Mid::AbortConn => Body::AbortConn,
            Mid::SendSm => Body::SendSm,
            //= spec: HDR-10
            Mid::RdmaWrCompl => Body::RdmaWrCompl(reader.u32().ok_or(truncated)?),
            Mid::RdmaRdCompl => Body::RdmaRdCompl(reader.u32().ok_or(truncated)?),
            Mid::ModeChange => {
                let word = reader.take().ok_or(truncated)?;
                Body::ModeChange(ModeChange::from_wire(word).ok_or(PeerError::ReservedBits(mid))?)
            }
            Mid::SrcAvailCancel => Body::SrcAvailCancel,
            Mid::SinkAvailCancel => Body::SinkAvailCancel,
            Mid::SinkCancelAck => Body::SinkCancelAck,
            Mid::ChRcvBuf => Body::ChRcvBuf(reader.u32().ok_or(truncated)?),
            Mid::ChRcvBufAck => Body::ChRcvBufAck(reader.u32().ok_or(truncated)?),
            Mid::SuspComm => Body::SuspComm(reader.u64().ok_or(truncated)?),
            Mid::SuspCommAck => Body::SuspCommAck,
            //= spec: HDR-9
            Mid::SinkAvail => Body::SinkAvail(SinkAvail::take(reader).ok_or(truncated)?),
            Mid::SrcAvail => Body::SrcAvail(SrcAvail::take(reader).ok_or(truncated)?),
            Mid::Data => Body::Data,
            Mid::Unknown(id) => Body::Unknown(id),
        })
    }

    /// Offset of the first payload byte.
    pub fn payload_offset(&self) -> u16 {
        BSDH_LEN_U16.saturating_add(u16::from(self.body.extended_len()))
    }

    /// The headers, with the length of the whole message filled in.
    pub fn emit(&self) -> Header {
        let mut to = Writer::new();
        Bsdh {
            mid: self.body.mid(),
            flags: self.flags,
            bufs: self.bufs,
            len: u32::from(self.payload_offset()).saturating_add(self.payload_len),
            mseq: self.mseq,
            mseq_ack: self.mseq_ack,
        }
        .put(&mut to);
        match self.body {
            Body::RdmaWrCompl(len)
            | Body::RdmaRdCompl(len)
            | Body::ChRcvBuf(len)
            | Body::ChRcvBufAck(len) => {
                to.put(len.to_be_bytes());
            }
            Body::ModeChange(change) => {
                to.put(change.to_wire());
            }
            Body::SuspComm(service) => {
                to.put(service.to_be_bytes());
            }
            Body::SinkAvail(advert) => advert.put(&mut to),
            Body::SrcAvail(advert) => advert.put(&mut to),
            Body::DisConn
            | Body::AbortConn
            | Body::SendSm
            | Body::SrcAvailCancel
            | Body::SinkAvailCancel
            | Body::SinkCancelAck
            | Body::SuspCommAck
            | Body::Data
            | Body::Handshake(_)
            | Body::Unknown(_) => {}
        }
        Header::from_writer(&to)
    }
}

const BSDH_LEN_U16: u16 = 16;
const BSDH_LEN_U32: u32 = 16;
const _: () = assert!(BSDH_LEN == 16);

#[cfg(test)]
mod tests {
    use super::{Body, Message, Mid, Repr};
    use crate::engine::error::PeerError;

    fn message(mid: Mid, len: u8) -> [u8; 40] {
        let mut bytes = [0; 40];
        bytes[0] = mid.to_wire();
        bytes[7] = len;
        bytes
    }

    fn parse(mid: Mid, len: u8) -> Result<Repr, PeerError> {
        let bytes = message(mid, len);
        let head = &bytes[..usize::from(len).min(36)];
        Repr::parse(&Message::check(head, len.into())?)
    }

    //= test: HDR-5, HDR-6
    #[test]
    fn a_message_shorter_than_its_extended_header_is_truncated() {
        for mid in Mid::KNOWN {
            let extended = match mid {
                Mid::Hello | Mid::HelloAck => continue,
                _ => parse(mid, 36).map_or_else(
                    |e| match e {
                        PeerError::PayloadNotAllowed(_) => {
                            (0..20).find(|n| parse(mid, 16 + n).is_ok()).unwrap()
                        }
                        e => panic!("{mid:?}: {e:?}"),
                    },
                    |repr| repr.body.extended_len(),
                ),
            };
            for len in 0..16 + extended {
                assert_eq!(parse(mid, len), Err(PeerError::Truncated), "{mid:?} {len}");
            }
            let whole = parse(mid, 16 + extended).unwrap();
            assert_eq!(whole.payload_len, 0);
            assert_eq!(u16::from(16 + extended), whole.payload_offset());
            let longer = parse(mid, 17 + extended);
            if matches!(mid, Mid::Data | Mid::SrcAvail | Mid::SinkAvail) {
                assert_eq!(longer.unwrap().payload_len, 1);
            } else {
                assert_eq!(longer, Err(PeerError::PayloadNotAllowed(mid)));
            }
        }
    }

    //= test: HDR-2
    #[test]
    fn len_must_be_what_arrived() {
        let bytes = message(Mid::Data, 20);
        assert_eq!(
            Message::check(&bytes[..21], 21).err(),
            Some(PeerError::LenMismatch)
        );
        assert_eq!(
            Message::check(&bytes[..19], 19).err(),
            Some(PeerError::LenMismatch)
        );
        assert!(Message::check(&bytes[..20], 20).is_ok());
    }

    #[test]
    fn a_head_that_was_cut_short_by_the_shell_is_refused() {
        let bytes = message(Mid::Data, 40);
        assert_eq!(
            Message::check(&bytes[..35], 40).err(),
            Some(PeerError::Truncated)
        );
        assert!(Message::check(&bytes[..36], 40).is_ok());
    }

    #[test]
    fn an_unknown_kind_is_kept() {
        let repr = parse(Mid::Unknown(0x22), 18).unwrap();
        assert_eq!(repr.body, Body::Unknown(0x22));
        assert_eq!(repr.payload_len, 2);
    }
}
