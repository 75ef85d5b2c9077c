// SPDX-License-Identifier: GPL-2.0

//! Errors, sorted by the side at fault.

use crate::engine::wire::Mid;
use core::fmt;

/// The peer violated a requirement. It costs this one connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PeerError {
    /// The private data is shorter than a Hello or HelloAck.
    HelloTruncated,
    /// The private data is another message.
    HelloMid,
    /// `Len` is not the size of the private data.
    HelloLen,
    /// Flags, MSeq or MSeqAck are not zero.
    HelloSequence,
    /// The major version is not 2.
    HelloVersion,
    /// The address kind is neither 4 nor 6.
    HelloAddressKind,
    /// MaxAdverts is zero.
    HelloMaxAdverts,
    /// The peer's receive buffers cannot hold a header and one byte, or so little
    /// that a stream would not be worth its messages.
    HelloRcvSize,
    /// A message that the handshake does not allow yet.
    BeforeEstablished(Mid),
    /// Shorter than its headers.
    Truncated,
    /// `Len` is not the number of bytes that arrived.
    LenMismatch,
    /// Longer than the receive buffers that were announced.
    TooLong,
    /// A reserved bit of an extended header is set, or the mode is unknown.
    ReservedBits(Mid),
    /// Payload on a message that carries none.
    PayloadNotAllowed(Mid),
    /// Not the next sequence number.
    MseqGap,
    /// Acknowledges a message that was never sent.
    AckBeyondSent,
    /// Sent without a credit.
    WithoutCredit,
    /// Payload sent with one of the last two credits.
    PayloadWithoutCredit,
    /// OOB_PRES on something else than Data with payload.
    OobPlacement(Mid),
    /// A handshake message inside of the connection.
    HandshakeRepeated(Mid),
    /// A message which the peer's own DisConn excludes.
    AfterDisConn(Mid),
    /// AbortConn from a peer that had not sent DisConn.
    AbortWithoutDisConn,
    /// SrcAvail in Combined mode without inline bytes, or with all of them.
    SrcAvailInline,
    /// SrcAvail in Pipelined mode with inline bytes.
    SrcAvailPayload,
    /// Payload, DisConn, a mode or, in Combined mode, SrcAvail while a SrcAvail
    /// is outstanding.
    SrcAvailOutstanding(Mid),
    /// The mode of the direction excludes the message.
    ModeForbids(Mid),
    /// A move between modes that does not exist.
    ModeTransition,
    /// The end of Pipelined mode while a SrcAvail is read, or was and its source
    /// does not know how far.
    PartlyRead,
    /// Needs more advertisements than the one we announced.
    NotAnnounced(Mid),
    /// More advertisements than we announced.
    TooManyAdverts(Mid),
    /// An advertised buffer is empty, or reaches past the end of the address
    /// space.
    AdvertRange(Mid),
    /// A SinkAvail that is smaller than the payload of one message.
    SinkAvailLen,
    /// A completion of nothing, or of more than was advertised.
    CompletionLen(Mid),
    /// A second cancel, or a SrcAvail, before the answer to a cancel.
    CancelOutstanding(Mid),
    /// A completion or an answer to something that was never asked.
    Unsolicited(Mid),
    /// An answer to ChRcvBuf that leaves next to nothing of a message.
    ResizeTooSmall,
    /// A second ChRcvBuf before the answer to the first.
    ChRcvBufOutstanding,
}

impl PeerError {
    /// The rule of `spec/sdp.md` that was violated.
    pub const fn requirement(self) -> &'static str {
        match self {
            PeerError::HelloTruncated | PeerError::HelloMid | PeerError::HelloLen => "HELLO-1",
            PeerError::HelloSequence => "HELLO-2",
            PeerError::HelloVersion => "HELLO-3",
            PeerError::HelloAddressKind => "HELLO-4",
            PeerError::HelloMaxAdverts => "HELLO-5",
            PeerError::HelloRcvSize => "HELLO-6",
            PeerError::BeforeEstablished(_) | PeerError::HandshakeRepeated(_) => "EST-3",
            PeerError::LenMismatch => "HDR-2",
            PeerError::TooLong => "HDR-3",
            PeerError::Truncated => "HDR-5",
            PeerError::PayloadNotAllowed(_) => "HDR-6",
            PeerError::ReservedBits(_) => "HDR-8",
            PeerError::MseqGap => "SEQ-2",
            PeerError::AckBeyondSent => "SEQ-4",
            PeerError::WithoutCredit | PeerError::PayloadWithoutCredit => "CREDIT-7",
            PeerError::OobPlacement(_) => "URGENT-1",
            PeerError::AfterDisConn(_) => "CLOSE-3",
            PeerError::AbortWithoutDisConn => "ABORT-3",
            PeerError::ModeTransition => "MODE-2",
            PeerError::ModeForbids(_) => "MODE-5",
            PeerError::PartlyRead => "MODE-6",
            PeerError::TooManyAdverts(_) => "ADVERT-1",
            PeerError::NotAnnounced(_) => "ADVERT-5",
            PeerError::AdvertRange(_) => "ADVERT-6",
            PeerError::SrcAvailInline => "SRC-2",
            PeerError::SrcAvailPayload => "SRC-3",
            PeerError::SrcAvailOutstanding(mid) => match mid {
                Mid::SrcAvail => "ADVERT-2",
                Mid::DisConn => "SRC-8",
                Mid::ModeChange => "MODE-3",
                _ => "DATA-2",
            },
            PeerError::SinkAvailLen => "SINK-2",
            PeerError::CompletionLen(Mid::RdmaRdCompl) => "READ-3",
            PeerError::CompletionLen(_) => "SINK-5",
            PeerError::CancelOutstanding(mid) => match mid {
                Mid::SrcAvail => "SRC-5",
                Mid::SrcAvailCancel => "SRCCANCEL-8",
                _ => "SINKCANCEL-7",
            },
            PeerError::Unsolicited(mid) => match mid {
                Mid::SendSm | Mid::RdmaRdCompl => "SENDSM-6",
                Mid::RdmaWrCompl => "SINK-5",
                Mid::SinkCancelAck => "SINKCANCEL-6",
                Mid::SuspCommAck => "SUSPEND-2",
                _ => "RESIZE-3",
            },
            PeerError::ResizeTooSmall => "RESIZE-6",
            PeerError::ChRcvBufOutstanding => "RESIZE-3",
        }
    }
}

impl fmt::Display for PeerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} ({})", self, self.requirement())
    }
}

/// The shell broke the contract.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ShellError {
    /// Not in this state.
    WrongState,
    /// Fewer receive buffers are posted than `Config::rx_initial`.
    ReceivesNotPosted,
    /// A value of the configuration is out of its range.
    BadConfig,
}

/// Legal to ask, but not now; nothing has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused {
    /// The send direction was shut down.
    SendClosed,
    /// The connection has ended.
    Ended,
    /// More unsent bytes than can be counted.
    TooMuch,
    /// No place is free, or as much is under way as was agreed.
    Busy,
    /// The mode, the peer or the configuration excludes it at present.
    NotNow,
    /// There is nothing that it could be done with.
    Nothing,
    /// A length or an address range that cannot be.
    BadRange,
    /// Other bytes are queued behind the run.
    BytesBehind,
    /// Not the name of anything that is there.
    Stale,
}
