// SPDX-License-Identifier: GPL-2.0

//! Errors, sorted by who is at fault, and what follows on the wire.

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
    /// The peer's receive buffers cannot hold a header and one byte.
    HelloRcvSize,
    /// A message that the handshake does not allow yet.
    BeforeEstablished(Mid),
    /// Shorter than its headers.
    Truncated,
    /// `Len` is not the number of bytes that arrived.
    LenMismatch,
    /// Longer than the receive buffers that were announced.
    TooLong,
    /// A reserved flag is set.
    ReservedFlags,
    /// A reserved bit of an extended header is set, or the mode is unknown.
    ReservedBits(Mid),
    /// Payload on a message that carries none.
    PayloadNotAllowed(Mid),
    /// The message id means nothing.
    UnknownMid(u8),
    /// Not the next sequence number.
    MseqGap,
    /// Acknowledges a message that was never sent.
    AckBeyondSent,
    /// Takes back an acknowledgement.
    AckRegressed,
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
    /// Payload, SrcAvail or DisConn while a SrcAvail is outstanding.
    SrcAvailOutstanding(Mid),
    /// The mode of the direction excludes the message.
    ModeForbids(Mid),
    /// A move between modes that does not exist.
    ModeTransition,
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
    /// A second cancel before the answer to the first.
    CancelOutstanding(Mid),
    /// A completion or an answer to something that was never asked.
    Unsolicited(Mid),
    /// A second ChRcvBuf before the answer to the first.
    ChRcvBufOutstanding,
}

/// What the shell does about a [`PeerError`], beside the outputs it drains.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WireAction {
    /// Answer the connection request or reply by a CM REJ, reason 28 (consumer
    /// defined), without private data. There is no output.
    Reject,
    /// Nothing: the engine's outputs reset the connection.
    Abort,
}

impl PeerError {
    /// The one table from violation to wire action.
    //= spec: ROBUST-1
    pub const fn action(self) -> WireAction {
        match self {
            PeerError::HelloTruncated
            | PeerError::HelloMid
            | PeerError::HelloLen
            | PeerError::HelloSequence
            | PeerError::HelloVersion
            | PeerError::HelloAddressKind
            | PeerError::HelloMaxAdverts
            | PeerError::HelloRcvSize
            | PeerError::BeforeEstablished(_) => WireAction::Reject,
            PeerError::Truncated
            | PeerError::LenMismatch
            | PeerError::TooLong
            | PeerError::ReservedFlags
            | PeerError::ReservedBits(_)
            | PeerError::PayloadNotAllowed(_)
            | PeerError::UnknownMid(_)
            | PeerError::MseqGap
            | PeerError::AckBeyondSent
            | PeerError::AckRegressed
            | PeerError::WithoutCredit
            | PeerError::PayloadWithoutCredit
            | PeerError::OobPlacement(_)
            | PeerError::HandshakeRepeated(_)
            | PeerError::AfterDisConn(_)
            | PeerError::AbortWithoutDisConn
            | PeerError::SrcAvailInline
            | PeerError::SrcAvailOutstanding(_)
            | PeerError::ModeForbids(_)
            | PeerError::ModeTransition
            | PeerError::NotAnnounced(_)
            | PeerError::TooManyAdverts(_)
            | PeerError::AdvertRange(_)
            | PeerError::SinkAvailLen
            | PeerError::CompletionLen(_)
            | PeerError::CancelOutstanding(_)
            | PeerError::Unsolicited(_)
            | PeerError::ChRcvBufOutstanding => WireAction::Abort,
        }
    }

    /// The section of `docs/protocol.md` that was violated.
    pub const fn requirement(self) -> &'static str {
        match self {
            PeerError::HelloTruncated
            | PeerError::HelloMid
            | PeerError::HelloLen
            | PeerError::HelloSequence
            | PeerError::HelloVersion
            | PeerError::HelloAddressKind
            | PeerError::HelloMaxAdverts
            | PeerError::HelloRcvSize => "hello",
            PeerError::BeforeEstablished(_) | PeerError::HandshakeRepeated(_) => "establishment",
            PeerError::Truncated
            | PeerError::LenMismatch
            | PeerError::TooLong
            | PeerError::ReservedFlags => "base-header",
            PeerError::ReservedBits(_) => "extended-headers",
            PeerError::PayloadNotAllowed(_) | PeerError::UnknownMid(_) => "messages",
            PeerError::MseqGap | PeerError::AckBeyondSent | PeerError::AckRegressed => {
                "sequence-numbers"
            }
            PeerError::WithoutCredit | PeerError::PayloadWithoutCredit => "credits",
            PeerError::OobPlacement(_) => "urgent",
            PeerError::AfterDisConn(_) => "close",
            PeerError::AbortWithoutDisConn => "abort",
            PeerError::SrcAvailInline
            | PeerError::SrcAvailOutstanding(_)
            | PeerError::AdvertRange(Mid::SrcAvail)
            | PeerError::CompletionLen(Mid::RdmaRdCompl)
            | PeerError::Unsolicited(Mid::SendSm | Mid::RdmaRdCompl) => "src-avail",
            PeerError::CancelOutstanding(Mid::SrcAvailCancel) => "src-avail-cancel",
            PeerError::CancelOutstanding(_) | PeerError::Unsolicited(Mid::SinkCancelAck) => {
                "sink-avail-cancel"
            }
            PeerError::SinkAvailLen
            | PeerError::AdvertRange(_)
            | PeerError::CompletionLen(_)
            | PeerError::Unsolicited(Mid::RdmaWrCompl) => "sink-avail",
            PeerError::Unsolicited(Mid::SuspCommAck) => "suspend",
            PeerError::ModeForbids(_) | PeerError::ModeTransition => "modes",
            PeerError::NotAnnounced(_) | PeerError::TooManyAdverts(_) => "max-adverts",
            PeerError::ChRcvBufOutstanding | PeerError::Unsolicited(_) => "buffer-resize",
        }
    }
}

impl fmt::Display for PeerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} (protocol: {})", self, self.requirement())
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
    /// The connection is over.
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
